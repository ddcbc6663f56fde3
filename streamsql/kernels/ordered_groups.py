"""The kernels of `ordered` that ask for entries of a group, which is the first word of a key.

`t` is the address of the tree's head (`ordered_nodes`), `keys` that of n keys, one after the other.
"""

from __future__ import annotations

from streamsql.kernels.bits import load_i32, load_i64
from streamsql.kernels.jit import Array, Int, kernel
from streamsql.kernels.ordered_nodes import (
    COUNTS,
    KEYS,
    LEAVES,
    ORDER,
    ORDER_BITS,
    SIZE,
    WORDS,
    at,
    compare_keys,
    entry_after,
    entry_before,
    key_at,
)
from streamsql.kernels.ordered_search import (
    BEFORE,
    COUNTED,
    LEAF,
    PLACE_BYTES,
    RANKED,
    SLOT,
    TOGETHER,
    find_places,
)

NEAR = 64  # entries that are counted one by one up to the start of a group


@kernel
def ends(t: Int, groups: Int, last: Int, values: Array, counts: Array) -> None:
    """Of each group's first (or last) entry the word behind the group, and its count: int64[n]; 0
    and 0 where the group has none. groups: address of int64[n]."""
    leaves = load_i64(t + LEAVES)
    whole = 8 * load_i64(t + WORDS)
    for i in range(values.size):
        key = groups + 8 * i
        if i % TOGETHER == 0:
            find_places(t, key, 8, min(TOGETHER, values.size - i), 1, last, last, COUNTED)
        node = load_i64(leaves + PLACE_BYTES * (i % TOGETHER) + LEAF)
        slot = load_i64(leaves + PLACE_BYTES * (i % TOGETHER) + SLOT)
        cursor = entry_before(t, node, slot - 1) if last != 0 else entry_after(t, node, slot)
        values[i], counts[i] = 0, 0
        if cursor >= 0:
            found = key_at(t, whole, cursor)
            if load_i64(found) == load_i64(key):
                values[i] = load_i64(found + 8)
                place = cursor & (ORDER - 1)
                counts[i] = load_i64(at(t, cursor >> ORDER_BITS) + COUNTS + 8 * place)


@kernel
def rank_up_to(t: Int, keys: Int, words: Int, stride: Int, most: Int, ranks: Array) -> None:
    """ranks[i] = sum of the counts of the entries of key i's group (its first word) below it, or
    `most` if that is less: counted backwards, from entries that are near one another."""
    leaves = load_i64(t + LEAVES)
    whole = 8 * load_i64(t + WORDS)
    for i in range(ranks.size):
        key = keys + stride * i
        if i % TOGETHER == 0:
            find_places(t, key, stride, min(TOGETHER, ranks.size - i), words, 0, 0, COUNTED)
        node = load_i64(leaves + PLACE_BYTES * (i % TOGETHER) + LEAF)
        slot = load_i64(leaves + PLACE_BYTES * (i % TOGETHER) + SLOT)
        total = 0
        while total < most:
            cursor = entry_before(t, node, slot - 1)
            if cursor < 0:
                break
            node, slot = cursor >> ORDER_BITS, cursor & (ORDER - 1)
            base = at(t, node)
            if load_i64(base + KEYS + whole * slot) != load_i64(key):
                break
            total += load_i64(base + COUNTS + 8 * slot)
        ranks[i] = min(total, most)


@kernel
def rank_in_group(t: Int, keys: Int, stride: Int, own: Array, start: Array) -> None:
    """own[i] = rows below key i, start[i] = rows below its group; -1 where the group has more than
    NEAR entries below the key: to be asked for with `rank`. Whole keys, int64[n] each."""
    leaves, words = load_i64(t + LEAVES), load_i64(t + WORDS)
    for i in range(own.size):
        key = keys + stride * i
        if i % TOGETHER == 0:
            find_places(t, key, stride, min(TOGETHER, own.size - i), words, 0, 0, RANKED)
        place = leaves + PLACE_BYTES * (i % TOGETHER)
        node, slot = load_i64(place + LEAF), load_i64(place + SLOT)
        counts = at(t, node) + COUNTS
        total = load_i64(place + BEFORE)
        for s in range(slot):
            total += load_i64(counts + 8 * s)
        own[i] = total
        if i > 0 and load_i64(key - stride) == load_i64(key):
            start[i] = start[i - 1]
            continue
        start[i] = -1
        for _ in range(NEAR):
            cursor = entry_before(t, node, slot - 1)
            node, slot = cursor >> ORDER_BITS, cursor & (ORDER - 1)
            if cursor < 0 or load_i64(key_at(t, 8 * words, cursor)) != load_i64(key):
                start[i] = total
                break
            total -= load_i64(at(t, node) + COUNTS + 8 * slot)


@kernel
def heads(
    t: Int, groups: Int, begin: Array, end: Int, peers: Int, lasts: Array, numbers: Array,
    cursors: Array, lengths: Array,
) -> Int:  # fmt: skip
    """Of each group's rows, from number begin[i] (from 0) on, those whose rank is below `end`: the
    last word of the entry that holds it, its rank from 0, and its cursor, one group behind the
    other as far as there is room; lengths[i]: how many they are. Returns how many all are.

    peers: 0 = every row has a rank of its own; else entries whose first so many words agree share
    one, which is the number of rows before them or, with a minus, of such ranks. groups: address of
    int64[n].
    """
    leaves, whole = load_i64(t + LEAVES), 8 * load_i64(t + WORDS)
    m = 0
    for i in range(lengths.size):
        key = groups + 8 * i
        if i % TOGETHER == 0:
            find_places(t, key, 8, min(TOGETHER, lengths.size - i), 1, 0, 0, COUNTED)
        place = leaves + PLACE_BYTES * (i % TOGETHER)
        node, slot = load_i64(place + LEAF), load_i64(place + SLOT)
        if slot >= load_i32(at(t, node) + SIZE):
            cursor = entry_after(t, node, slot)
        else:
            cursor = (node << ORDER_BITS) + slot
        row, rank, before, first = 0, 0, 0, m
        while cursor >= 0:
            node, slot = cursor >> ORDER_BITS, cursor & (ORDER - 1)
            entry = key_at(t, whole, cursor)
            if load_i64(entry) != load_i64(key):
                break
            if peers == 0:
                rank = row
            elif before != 0 and compare_keys(t, abs(peers), before, entry) != 0:
                rank = row if peers > 0 else rank + 1
            if rank >= end:
                break
            stop = row + load_i64(at(t, node) + COUNTS + 8 * slot)
            for r in range(max(row, begin[i]), stop if peers != 0 else min(stop, end)):
                if m < lasts.size:
                    lasts[m] = load_i64(entry + whole - 8)
                    numbers[m] = r if peers == 0 else rank
                    cursors[m] = cursor
                m += 1
            row, before = stop, entry
            cursor = entry_after(t, node, slot + 1)
        lengths[i] = m - first
    return m
