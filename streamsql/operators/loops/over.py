"""OVER: copies of rows that come and go, walks along the ordered tree, and the ends of frames.

The tree (`kernels.ordered`) holds every copy of a row as one entry of count 1: rank r names one
entry of the whole tree. The last word of a key is the copy's number.
"""

from __future__ import annotations

from typing import Any

from streamsql.kernels.bits import load_i32, load_i64
from streamsql.kernels.jit import device, kernel
from streamsql.kernels.ordered_nodes import (
    KEYS,
    NEXT,
    PREVIOUS,
    SIZE,
    WORDS,
    at,
    place,
)

NONE = -1
FRESH, FREE, CAME, WENT, MISSING = 0, 1, 2, 3, 4
"""Positions in `numbers`: the next copy never used, how many are in the free list, how many came
and went in this tick, and rows that were taken back more often than they were there."""


@kernel
def exchange(
    slots: Any, weights: Any, count: Any, head: Any, below: Any, own: Any, free: Any,
    numbers: Any, came: Any, entry: Any, went: Any,
) -> None:  # fmt: skip
    """Let copies of rows come and go, entry by entry; the last copy that came goes first.

    By row slot: count (rows, below 0 while a retraction is ahead of its row), head (last copy or
    -1). By copy: below (the copy before it), own (its slot). came, entry: the new copies and the
    entries they came with; went: the old ones that are gone. A copy that comes and goes in one
    tick is gone from `came`.
    """
    weighted = weights.size > 0
    numbers[CAME], numbers[WENT] = 0, 0
    for i in range(slots.size):
        s = slots[i]
        w = weights[i] if weighted else 1
        while w > 0:
            w -= 1
            count[s] += 1
            if count[s] <= 0:
                numbers[MISSING] -= 1
                continue
            if numbers[FREE] > 0:
                numbers[FREE] -= 1
                c = free[numbers[FREE]]
            else:
                c = numbers[FRESH]
                numbers[FRESH] += 1
            below[c], own[c] = head[s], s
            head[s] = c
            came[numbers[CAME]], entry[numbers[CAME]] = c, i
            numbers[CAME] += 1
        while w < 0:
            w += 1
            count[s] -= 1
            if count[s] < 0:
                numbers[MISSING] += 1
                continue
            c = head[s]
            head[s] = below[c]
            went[numbers[WENT]] = c
            numbers[WENT] += 1


@device
def _differs(a: int, b: int, words: int) -> bool:
    """Whether the first so many words of two keys differ."""
    for w in range(words):
        differs = load_i64(a + 8 * w) != load_i64(b + 8 * w)
        if differs:
            return differs
    return False


@kernel
def walk(
    t: int, starts: Any, lengths: Any, peer_words: int, value_word: int,
    copies: Any, opens: Any, nulls: Any, values: Any,
) -> None:  # fmt: skip
    """The entries of ranges of ranks, one range after the other: copies (numbers), opens (1 where
    an entry is no peer of the one before it). value_word: if above 0, that word of the key and the
    one before it (where NULLs stand) are written to `values` and `nulls`."""
    words = load_i64(t + WORDS)
    stride = 8 * words
    k = 0
    for r in range(starts.size):
        if lengths[r] <= 0:
            continue
        node, slot = place(t, starts[r])
        base = at(t, node)
        before = 0
        if slot > 0:
            before = base + KEYS + stride * (slot - 1)
        elif load_i32(base + PREVIOUS) >= 0:
            left = at(t, load_i32(base + PREVIOUS))
            before = left + KEYS + stride * (load_i32(left + SIZE) - 1)
        for _ in range(lengths[r]):
            if slot >= load_i32(base + SIZE):
                node, slot = load_i32(base + NEXT), 0
                base = at(t, node)
            key = base + KEYS + stride * slot
            copies[k] = load_i64(key + stride - 8)
            opens[k] = 1 if before == 0 or _differs(before, key, peer_words) else 0
            if value_word > 0:
                nulls[k] = load_i64(key + 8 * value_word - 8)
                values[k] = load_i64(key + 8 * value_word)
            before = key
            k += 1
            slot += 1


@kernel
def groups_away(t: int, ranks: Any, stops: Any, groups: Any, peer_words: int, out: Any) -> None:
    """From a border between entries, the border so many groups of peers further.

    ranks: where to start (a border stands before the entry of that rank); groups[i] > 0 goes
    forward, < 0 back; never beyond stops[i]. out: ranks.
    """
    words = load_i64(t + WORDS)
    stride = 8 * words
    for i in range(ranks.size):
        left, rank = groups[i], ranks[i]
        forward = left > 0
        left = abs(left)
        if left == 0 or rank == stops[i]:
            out[i] = rank
            continue
        node, slot = place(t, rank if forward else rank - 1)
        base = at(t, node)
        key = base + KEYS + stride * slot
        while rank != stops[i]:
            here = base + KEYS + stride * slot
            if _differs(key, here, peer_words):
                left -= 1
                if left == 0:
                    break
                key = here
            if forward:
                rank += 1
                slot += 1
                if rank != stops[i] and slot >= load_i32(base + SIZE):
                    base, slot = at(t, load_i32(base + NEXT)), 0
            else:
                rank -= 1
                slot -= 1
                if rank != stops[i] and slot < 0:
                    base = at(t, load_i32(base + PREVIOUS))
                    slot = load_i32(base + SIZE) - 1
        out[i] = rank


@device
def _search(nulls: Any, values: Any, low: int, high: int, bound: int, above: bool) -> int:
    """First place whose (null, value) is at least (0, bound), or with `above` beyond it."""
    while low < high:
        middle = (low + high) >> 1
        n, v = nulls[middle], values[middle]
        if n < 0 or (n == 0 and (v < bound or (above and v == bound))):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def range_ends(
    nulls: Any, values: Any, rows: Any, begin: Any, end: Any, bounds: Any, above: bool,
    first: Any, last: Any, out: Any,
) -> None:  # fmt: skip
    """One end of RANGE frames by value: rows: places to ask for; begin, end: where each one's
    partition is loaded; bounds: the value the frame ends at. A row whose value is NULL has its
    peers [first, last) as its frame."""
    for i in range(rows.size):
        r = rows[i]
        if nulls[r] != 0:
            out[i] = last[r] if above else first[r]
        else:
            out[i] = _search(nulls, values, begin[i], end[i], bounds[i], above)


@kernel
def peers(opens: Any, offsets: Any, first: Any, last: Any) -> None:
    """For each loaded entry the places of its peers, [first, last), within its range. offsets:
    int64[ranges + 1]."""
    for r in range(offsets.size - 1):
        start = offsets[r]
        for i in range(offsets[r], offsets[r + 1]):
            if opens[i]:
                start = i
            first[i] = start
        stop = offsets[r + 1]
        for i in range(offsets[r + 1] - 1, offsets[r] - 1, -1):
            last[i] = stop
            if opens[i]:
                stop = i


@kernel
def nth_present(
    present: Any, places: Any, low: Any, x1: Any, x2: Any, high: Any, own: Any, n: Any, out: Any
) -> None:
    """The place of value n (0 = the first, -1 = the last) among those of a frame that count.

    present: int64[loaded + 1], how many count before each place; places: the places that count.
    The frame is [low, x1) and [x2, high), and `own` between them (-1 = not). out: -1 = none.
    """
    for i in range(low.size):
        a = present[x1[i]] - present[low[i]]
        o = 0
        if own[i] >= 0:
            o = present[own[i] + 1] - present[own[i]]
        b = present[high[i]] - present[x2[i]]
        k = n[i] if n[i] >= 0 else a + o + b + n[i]
        if k < 0 or k >= a + o + b:
            out[i] = NONE
        elif k < a:
            out[i] = places[present[low[i]] + k]
        elif k < a + o:
            out[i] = own[i]
        else:
            out[i] = places[present[x2[i]] + k - a - o]
