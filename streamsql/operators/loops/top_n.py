"""The first rows of each partition where rows only come: short lists, worst row first.

A list starts at `head[partition]` and goes by `better` to the best row. Keys are `width` int64
words, compared one after the other; lower is better. Behind them stand texts, looked up in the
rows where all numbers are equal: the last words of a key say which of them are NULL. By entry:
`row` (its number in the store), `words`.
"""

from __future__ import annotations

from typing import Any

from streamsql.kernels.bits import load_i32, load_i64
from streamsql.kernels.columns import CHUNK_BITS, CHUNK_MASK
from streamsql.kernels.jit import device, kernel
from streamsql.kernels.ordered_nodes import compare_bytes

NONE = -1
FRESH, FREE, EQUAL = 0, 1, 2
"""Positions in `numbers`: the next entry never used, entries in the free list, and how often a row
came to stand beside an equal one."""


@device
def _text(row: int, base: int, c: int, fresh: Any, stored: Any) -> tuple[int, int]:
    """(address, bytes) of text c of a row: from `base` on rows of this batch, by their offsets and
    data; below it rows of the store, by chunk."""
    if row >= base:
        offsets = fresh[c, 0] + 4 * (row - base)
        start = load_i32(offsets)
        return fresh[c, 1] + start, load_i32(offsets + 4) - start
    chunk, at = row >> CHUNK_BITS, row & CHUNK_MASK
    offsets = stored[c, chunk, 0]
    if stored[c, chunk, 1]:
        start = load_i64(offsets + 8 * at)
        return stored[c, chunk, 2] + start, load_i64(offsets + 8 * at + 8) - start
    start = load_i32(offsets + 4 * at)
    return stored[c, chunk, 2] + start, load_i32(offsets + 4 * at + 4) - start


@device
def _order_rows(
    keys: Any, i: int, words: Any, e: int, width: int, base: int, row: Any, fresh: Any, stored: Any
) -> int:  # fmt: skip
    """-1, 0 or 1: row i of the batch against an entry."""
    texts = fresh.shape[0]
    for w in range(width - texts):
        x, y = keys[i * width + w], words[e * width + w]
        if x != y:
            return -1 if x < y else 1
    for c in range(texts):
        w = width - texts + c
        x, y = keys[i * width + w], words[e * width + w]
        if x != y:
            return -1 if x < y else 1
        if x == 0:
            a, a_size = _text(base + i, base, c, fresh, stored)
            b, b_size = _text(row[e], base, c, fresh, stored)
            order = compare_bytes(a, a_size, b, b_size)
            if order != 0:
                return order
    return 0


@kernel
def candidates(
    parts: Any, keys: Any, width: int, keep: int, limit: int,
    head: Any, size: Any, words: Any, out: Any,
) -> int:  # fmt: skip
    """Rows that may be among the first `limit`: all but those that are behind a full list as it was
    before this tick. Only the first `keep` words of the keys are known yet."""
    found = 0
    for i in range(parts.size):
        p = parts[i]
        if size[p] >= limit:
            worst = head[p]
            beaten = False
            for w in range(keep):
                x, y = keys[i * width + w], words[worst * width + w]
                if x != y:
                    beaten = x > y
                    break
            if beaten:
                continue
        out[found] = i
        found += 1
    return found


@kernel
def leaders(
    rows: Any, parts: Any, keys: Any, width: int, keep: int, tick: int, stamp: Any, lead: Any
) -> int:  # fmt: skip
    """Of these rows, those whose first `keep` words are the least of their partition, in place:
    where one row is kept, no other of this batch can be it. lead: int64[partitions], scratch."""
    for k in range(rows.size):
        i = rows[k]
        p = parts[i]
        if stamp[p] != tick:
            stamp[p] = tick
            lead[p] = i
            continue
        b = lead[p]
        for w in range(keep):
            x, y = keys[i * width + w], keys[b * width + w]
            if x != y:
                if x < y:
                    lead[p] = i
                break
    kept = 0
    for k in range(rows.size):
        i = rows[k]
        b = lead[parts[i]]
        least = True
        for w in range(keep):
            if keys[i * width + w] != keys[b * width + w]:
                least = False
                break
        if least:
            rows[kept] = i
            kept += 1
    return kept


@kernel
def touch(parts: Any, tick: int, stamp: Any, size: Any, out: Any) -> tuple[int, int]:
    """The distinct partitions, in order of appearance, into `out`; (how many, rows they hold)."""
    found, rows = 0, 0
    for i in range(parts.size):
        p = parts[i]
        if stamp[p] != tick:
            stamp[p] = tick
            out[found] = p
            found += 1
            rows += size[p]
    return found, rows


@kernel
def lists(parts: Any, head: Any, size: Any, better: Any, row: Any, starts: Any, rows: Any) -> None:
    """The rows of these partitions, best first; starts: int64[parts + 1], where each begins."""
    starts[0] = 0
    for k in range(parts.size):
        p = parts[k]
        at = starts[k] + size[p]
        starts[k + 1] = at
        e = head[p]
        while e >= 0:
            at -= 1
            rows[at] = row[e]
            e = better[e]


@kernel
def insert(
    parts: Any, keys: Any, width: int, limit: int, base: int,
    head: Any, size: Any, better: Any, row: Any, words: Any, free: Any, numbers: Any,
    alive: Any, evicted: Any, fresh: Any, stored: Any,
) -> int:  # fmt: skip
    """Put each row into its list if it is among the first `limit`. Row i gets the number base + i.

    fresh: int64[texts, 2], where the batch's offsets and data are; stored: int64[texts, chunks,
    3], where the store's offsets are, whether they have 8 bytes, and where its data are. alive:
    uint8[n], out: which of the rows are in a list at the end. evicted: numbers below `base`
    that fell out of a list. Returns how many.
    """
    gone = 0
    for i in range(parts.size):
        p = parts[i]
        full = size[p] >= limit
        worst = head[p]
        if full and _order_rows(keys, i, words, worst, width, base, row, fresh, stored) >= 0:
            continue
        below, above = NONE, worst
        while above >= 0:
            order = _order_rows(keys, i, words, above, width, base, row, fresh, stored)
            if order >= 0:
                numbers[EQUAL] += order == 0
                break
            below = above
            above = better[above]
        if full:
            e = worst  # its place is taken; it was below the new row
            if row[e] >= base:
                alive[row[e] - base] = 0
            else:
                evicted[gone] = row[e]
                gone += 1
            head[p] = better[e]
            if below == e:
                below = NONE
        else:
            size[p] += 1
            if numbers[FREE] > 0:
                numbers[FREE] -= 1
                e = free[numbers[FREE]]
            else:
                e = numbers[FRESH]
                numbers[FRESH] += 1
        for w in range(width):
            words[e * width + w] = keys[i * width + w]
        row[e] = base + i
        alive[i] = 1
        better[e] = above
        if below >= 0:
            better[below] = e
        else:
            head[p] = e
    return gone


@kernel
def renumber(parts: Any, head: Any, better: Any, row: Any, base: int, place: Any) -> None:
    """Row base + i becomes base + place[i]; other rows keep their numbers."""
    for k in range(parts.size):
        e = head[parts[k]]
        while e >= 0:
            if row[e] >= base:
                row[e] = base + place[row[e] - base]
            e = better[e]


@kernel
def changes(
    old_starts: Any, old: Any, new_starts: Any, new: Any, rows: Any, ranks: Any, weights: Any
) -> int:
    """Where the lists before and after differ, place by place: (row, rank from 1, weight)."""
    found = 0
    for k in range(old_starts.size - 1):
        a, b = old_starts[k], new_starts[k]
        before, after = old_starts[k + 1] - a, new_starts[k + 1] - b
        for j in range(max(before, after)):
            if j < before and j < after and old[a + j] == new[b + j]:
                continue
            if j < before:
                rows[found], ranks[found], weights[found] = old[a + j], j + 1, -1
                found += 1
            if j < after:
                rows[found], ranks[found], weights[found] = new[b + j], j + 1, 1
                found += 1
    return found


@kernel
def drop(parts: Any, head: Any, size: Any, better: Any, free: Any, numbers: Any) -> int:
    """Empty the lists of these partitions; returns how many rows they held."""
    dropped = 0
    for k in range(parts.size):
        p = parts[k]
        e = head[p]
        while e >= 0:
            free[numbers[FREE]] = e
            numbers[FREE] += 1
            dropped += 1
            e = better[e]
        head[p] = NONE
        size[p] = 0
    return dropped


@kernel
def remap(row: Any, used: int, new_number: Any) -> None:
    """After compaction of the store: every entry's row by its new number (-1 = in no list)."""
    for e in range(used):
        if row[e] >= 0 and row[e] < new_number.size:
            row[e] = new_number[row[e]]
