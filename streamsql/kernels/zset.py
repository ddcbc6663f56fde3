"""Loops of Z-sets: summing the weights of equal rows, and folding a delta into an arrangement."""

from __future__ import annotations

import numpy as np

from streamsql.kernels.bits import prefetch
from streamsql.kernels.columns import CHUNK_BITS
from streamsql.kernels.hash_table import AHEAD, home, put, seek, value_of
from streamsql.kernels.jit import Array, Int, device, kernel

Lanes = Array  # uint64[n]
Rows = Array  # int64[n]
Weights = Array  # int64[n]

ABSENT = -1


@kernel
def sum_weights(h0: Lanes, h1: Lanes, weights: Weights, rows: Rows, sums: Weights) -> Int:
    """Add up the weights of equal keys.

    rows: the first entry of each key, in order; sums: its weight. Keys whose weights add up to 0
    are left out. Returns how many are left.
    """
    n = h0.size
    places = 16
    while places < 2 * n:
        places *= 2
    mask = places - 1
    groups = np.zeros(places, np.int32)  # group + 1; 0 = empty
    count = 0
    for i in range(n):
        p = np.int64(h0[i] >> np.uint64(32)) & mask
        while True:
            g = groups[p] - 1
            if g < 0:
                groups[p] = count + 1
                rows[count] = i
                sums[count] = weights[i]
                count += 1
                break
            j = rows[g]
            if h0[j] == h0[i] and h1[j] == h1[i]:
                sums[g] += weights[i]
                break
            p = (p + 1) & mask
    kept = 0
    for g in range(count):
        if sums[g] != 0:
            rows[kept] = rows[g]
            sums[kept] = sums[g]
            kept += 1
    return kept


@kernel
def find_retracted(
    table: Lanes, address: Int, h0: Lanes, h1: Lanes, w: Weights, weights: Weights,
    allow_negative: bool, rows: Rows,
) -> Int:  # fmt: skip
    """rows[i] = the row that entry i retracts from (-1 = none), for entries with w < 0.

    Returns the first entry that would bring a weight below 0, or -1; with allow_negative always -1.
    Nothing is changed.
    """
    mask = table.size // 2 - 1
    n = h0.size
    for i in range(n):
        if i + AHEAD < n and w[i + AHEAD] < 0:
            prefetch(address + 16 * home(h0[i + AHEAD], mask))
        if w[i] >= 0:
            continue
        p = seek(table, mask, h0[i], h1[i])
        r = value_of(table[2 * p + 1]) if p >= 0 else ABSENT
        if r >= 0 and weights[r] == 0:
            r = ABSENT  # a dead row comes back to life as an insertion does
        rows[i] = r
        if not allow_negative and (r < 0 or weights[r] + w[i] < 0):
            return i
    return -1


@kernel
def fold_retractions(
    w: Weights,
    weights: Weights,
    odd: Array,
    dirty: Array,
    totals: Rows,
    rows: Rows,
    old: Rows,
    new: Rows,
) -> None:
    """Lower the weights of the rows that `find_retracted` found.

    odd: int32[chunks], rows of the chunk whose weight is not 1; dirty: bool[chunks], chunk changed;
    totals: [rows of weight != 0, sum of all weights].
    """
    for i in range(w.size):
        if w[i] >= 0 or rows[i] < 0:
            continue
        change_weight(weights, odd, dirty, totals, rows[i], w[i])
        new[i] = weights[rows[i]]
        old[i] = new[i] - w[i]


@device
def change_weight(
    weights: Weights, odd: Array, dirty: Array, totals: Rows, r: Int, by: Int
) -> None:
    """Add `by` to the weight of row r and keep the books of `fold_retractions`."""
    before = weights[r]
    after = before + by
    weights[r] = after
    chunk = r >> CHUNK_BITS
    dirty[chunk] = True
    if before == 1:
        odd[chunk] += 1
    elif after == 1:
        odd[chunk] -= 1
    if before == 0:
        totals[0] += 1
    elif after == 0:
        totals[0] -= 1
    totals[1] += by


@kernel
def fold_insertions(
    table: Lanes, address: Int, h0: Lanes, h1: Lanes, w: Weights, weights: Weights,
    odd: Array, dirty: Array, totals: Rows, unique: bool, base: Int,
    rows: Rows, old: Rows, new: Rows, fresh: Rows, revived: Rows,
) -> tuple[int, int, int]:  # fmt: skip
    """Raise the weights of rows that are there; number the others base, base + 1, …

    Takes the entries with w > 0, and those of w < 0 that found no row (they start negative rows).
    unique: the key identifies a row but is not all of it, so a key whose row is dead gets a new
    row; else the dead row, which is equal, lives again (`revived`). fresh: entries that need a new
    row, in order. The table must have room. Returns (new rows, revived rows, new table entries).
    """
    mask = table.size // 2 - 1
    n = h0.size
    added, back, entries = 0, 0, 0
    for i in range(n):
        if i + AHEAD < n:
            prefetch(address + 16 * home(h0[i + AHEAD], mask))
        if w[i] < 0 and rows[i] >= 0:
            continue
        p = seek(table, mask, h0[i], h1[i])
        r = ABSENT
        if p >= 0:
            r = value_of(table[2 * p + 1])
            if unique and r < weights.size and weights[r] == 0:
                r = ABSENT
        else:
            p = ~p
            entries += 1
        if r < 0:
            r = base + added
            put(table, p, h0[i], h1[i], r)
            fresh[added] = i
            added += 1
            old[i] = 0
            new[i] = w[i]
        else:
            old[i] = weights[r]
            if old[i] == 0:
                revived[back] = r
                back += 1
            change_weight(weights, odd, dirty, totals, r, w[i])
            new[i] = weights[r]
        rows[i] = r
    return added, back, entries


@kernel
def index_rows(
    table: Lanes,
    h0: Lanes,
    h1: Lanes,
    base: Int,
    weights: Weights,
    odd: Array,
    dirty: Array,
    totals: Rows,
) -> Int:
    """Enter rows base, base + 1, … into a table with room; equal live rows are merged into the
    first.

    Dead rows are left out. Returns the new entries.
    """
    mask = table.size // 2 - 1
    entries = 0
    for i in range(h0.size):
        r = base + i
        if weights[r] == 0:
            continue
        p = seek(table, mask, h0[i], h1[i])
        if p < 0:
            put(table, ~p, h0[i], h1[i], r)
            entries += 1
            continue
        first = value_of(table[2 * p + 1])
        w = weights[r]
        change_weight(weights, odd, dirty, totals, r, -w)
        change_weight(weights, odd, dirty, totals, first, w)
    return entries


@kernel
def count_odd(weights: Weights, start: Int, end: Int, odd: Array) -> None:
    """Count, by chunk, the rows in [start, end) whose weight is not 1."""
    for r in range(start, end):
        if weights[r] != 1:
            odd[r >> CHUNK_BITS] += 1


@kernel
def live_rows(weights: Weights, start: Int, end: Int, rows: Rows) -> Int:
    """Write each row of [start, end) as often as its weight says (negative: never). Returns how
    many."""
    n = 0
    for r in range(start, end):
        for _ in range(weights[r]):
            rows[n] = r
            n += 1
    return n
