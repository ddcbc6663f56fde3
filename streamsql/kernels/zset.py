"""Loops of Z-sets: summing the weights of equal rows, and folding a delta into an arrangement.

Books of an arrangement, by chunk: `books` int64[chunks, 4] = [rows written, rows of weight != 0,
rows of weight != 1, changed]; `totals` int64[3] = [rows of weight != 0, sum of all weights, rows
written]. `t` is the head of a hash table (`hash_loops`) from identity to row, which holds the rows
of weight != 0.
"""

from __future__ import annotations

import numpy as np

from streamsql.kernels.columns import CHUNK_BITS
from streamsql.kernels.hash_loops import (
    AHEAD,
    drop,
    enter,
    is_full,
    look_ahead,
    make_room,
    seek,
    set_value,
    value_at,
)
from streamsql.kernels.jit import Array, Int, device, kernel

Lanes = Array  # uint64[n]
Rows = Array  # int64[n]
Weights = Array  # int64[n]

FILLED, LIVE, ODD, CHANGED = range(4)


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


@device
def change_weight(weights: Weights, books: Array, totals: Rows, r: Int, by: Int) -> None:
    """Add `by` to the weight of row r."""
    before = weights[r]
    after = before + by
    weights[r] = after
    chunk = r >> CHUNK_BITS
    books[chunk, CHANGED] = 1
    if before == 1:
        books[chunk, ODD] += 1
    elif after == 1:
        books[chunk, ODD] -= 1
    if before == 0:
        books[chunk, LIVE] += 1
        totals[0] += 1
    elif after == 0:
        books[chunk, LIVE] -= 1
        totals[0] -= 1
    totals[1] += by


@device
def add_row(weights: Weights, books: Array, totals: Rows, r: Int, w: Int) -> None:
    """Row r is new and has this weight."""
    weights[r] = w
    chunk = r >> CHUNK_BITS
    books[chunk, FILLED] += 1
    books[chunk, CHANGED] = 1
    books[chunk, LIVE] += 1
    if w != 1:
        books[chunk, ODD] += 1
    totals[0] += 1
    totals[1] += w
    totals[2] += 1


@kernel
def add_rows(weights: Weights, books: Array, totals: Rows, rows: Rows, new: Weights) -> None:
    """Rows that are new and have these weights (empty = all 1)."""
    for i in range(rows.size):
        add_row(weights, books, totals, rows[i], new[i] if new.size else 1)


@device
def check_retractions(t: Int, h0: Lanes, h1: Lanes, w: Weights, weights: Weights) -> bool:
    """Whether an entry would bring a weight below 0."""
    n = h0.size
    for i in range(n):
        if i + AHEAD < n and w[i + AHEAD] < 0:
            look_ahead(t, h0[i + AHEAD])
        if w[i] < 0:
            entry = seek(t, h0[i], h1[i])
            if entry < 0 or weights[value_at(entry)] + w[i] < 0:
                return True
    return False


DONE, FULL, BELOW_ZERO = range(3)
PHASE, AT, ADDED, DIED, SORTED = range(5)


@kernel
def fold(
    t: Int, h0: Lanes, h1: Lanes, w: Weights, weights: Weights, books: Array, totals: Rows,
    check: Int, progress: Rows, next_rows: Rows,
    rows: Rows, old: Weights, new: Weights, fresh: Rows, dead: Rows,
) -> Int:  # fmt: skip
    """Fold the entries into the rows: retractions first, then insertions.

    A key that is there has its row's weight changed; at 0 it leaves the table and its row goes to
    `dead`. A key that is not there gets the next of `next_rows`, and its entry goes to `fresh`.
    check: whether weights may not fall below 0. progress: int64[5], zeros at first: [phase, next
    entry, entries in fresh, in dead, 0 where fresh is in rising order].
    Returns DONE; FULL where the table has no room for an entry: make some and call again;
    BELOW_ZERO before anything is changed.
    """
    if check and progress[PHASE] == 0 and check_retractions(t, h0, h1, w, weights):
        return BELOW_ZERO
    n = h0.size
    added, died = progress[ADDED], progress[DIED]
    for phase in range(progress[PHASE], 2):
        i = progress[AT]
        while i < n:
            if i + AHEAD < n:
                look_ahead(t, h0[i + AHEAD])
            if (w[i] < 0) != (phase == 0) or w[i] == 0:
                i += 1
                continue
            entry = seek(t, h0[i], h1[i])
            if entry > 0:
                r = value_at(entry)
                old[i] = weights[r]
                change_weight(weights, books, totals, r, w[i])
                new[i] = weights[r]
                if new[i] == 0:
                    drop(t, entry)
                    dead[died] = r
                    died += 1
            else:
                if is_full(t, h0[i]):
                    if not make_room(t, h0[i]):
                        progress[PHASE], progress[AT] = phase, i
                        progress[ADDED], progress[DIED] = added, died
                        return FULL
                    entry = seek(t, h0[i], h1[i])
                r = next_rows[added]
                enter(t, -entry, h0[i], h1[i], r)
                add_row(weights, books, totals, r, w[i])
                if added and fresh[added - 1] > i:
                    progress[SORTED] = 1
                fresh[added] = i
                added += 1
                old[i] = 0
                new[i] = w[i]
            rows[i] = r
            i += 1
        progress[AT] = 0
    progress[ADDED], progress[DIED] = added, died
    return DONE


@kernel
def index_rows(
    t: Int, h0: Lanes, h1: Lanes, base: Int, start: Int, weights: Weights, books: Array,
    totals: Rows, counts: Rows, dead: Rows,
) -> Int:  # fmt: skip
    """Enter rows base, base + 1, … into the table; equal rows are merged into the first.

    dead, counts[1]: rows whose weight went to another, or that cancelled with it. Returns where it
    stopped.
    """
    n = h0.size
    died = counts[1]
    i = start
    while i < n:
        if i + AHEAD < n:
            look_ahead(t, h0[i + AHEAD])
        r = base + i
        entry = seek(t, h0[i], h1[i])
        if entry > 0:
            first, w = value_at(entry), weights[r]
            change_weight(weights, books, totals, r, -w)
            change_weight(weights, books, totals, first, w)
            dead[died] = r
            died += 1
            if weights[first] == 0:
                drop(t, entry)
                dead[died] = first
                died += 1
        else:
            if is_full(t, h0[i]):
                if not make_room(t, h0[i]):
                    break
                entry = seek(t, h0[i], h1[i])
            enter(t, -entry, h0[i], h1[i], r)
        i += 1
    counts[1] = died
    return i


@kernel
def move_rows(
    t: Int, h0: Lanes, h1: Lanes, weights: Weights, books: Array, totals: Rows, rows: Rows, to: Rows
) -> None:
    """Live rows were copied: row numbers, weights and identities move to the copies."""
    for i in range(rows.size):
        if i + AHEAD < rows.size:
            look_ahead(t, h0[i + AHEAD])
        w = weights[rows[i]]
        change_weight(weights, books, totals, rows[i], -w)
        add_row(weights, books, totals, to[i], w)
        entry = seek(t, h0[i], h1[i])
        if entry > 0:
            set_value(entry, to[i])


@kernel
def live_in(weights: Weights, start: Int, end: Int, rows: Rows) -> Int:
    """Write the rows of [start, end) whose weight is not 0, as many as there is room for."""
    n = 0
    for r in range(start, end):
        if n == rows.size:
            break
        if weights[r] != 0:
            rows[n] = r
            n += 1
    return n


@kernel
def expand(weights: Weights, start: Int, end: Int, rows: Rows) -> Int:
    """Write each row of [start, end) as often as its weight says (negative: never)."""
    n = 0
    for r in range(start, end):
        for _ in range(weights[r]):
            rows[n] = r
            n += 1
    return n
