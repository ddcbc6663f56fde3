"""The kernels of `ordered`: batches of changes, searches and walks over the tree's nodes.

`t` is the address of the tree's head (`ordered_nodes`), `keys` that of n keys, one after the
other. A cursor is node * 64 + slot, -1 = none.
"""

from __future__ import annotations

from streamsql.kernels.bits import load_i32, load_i64, store_i64
from streamsql.kernels.jit import Array, Int, device, kernel
from streamsql.kernels.ordered_nodes import (
    COUNTS,
    ENTRIES,
    ERROR,
    KEYS,
    LEAVES,
    LEVEL,
    NEGATIVE,
    NEXT,
    ORDER,
    ORDER_BITS,
    PAGE_BITS,
    PATH,
    ROOT,
    SIZE,
    TOTAL,
    USED,
    WORDS,
    at,
    bump,
    close_slot,
    compare_keys,
    copy_down,
    descend,
    entry_after,
    entry_before,
    has_room,
    key_at,
    merge_up,
    open_slot,
    place,
    slot_of,
    split_for,
)
from streamsql.kernels.ordered_search import (
    BEFORE,
    LEAF,
    PLACE_BYTES,
    PLAIN_SEARCH,
    RANKED,
    SLOT,
    TOGETHER,
    WAY,
    WAY_BYTES,
    find_places,
    stands,
)

FIRST_AT_LEAST, FIRST_ABOVE, LAST_AT_MOST, LAST_BELOW, EQUAL = range(5)
"""What `seek` looks for."""


@kernel
def add(t: Int, keys: Int, weights: Array, start: Int, old: Array, new: Array) -> Int:
    """Add weights[i] to the count of key i, from `start` on; entries of count 0 vanish.

    old, new: int64[n], counts before and after. Returns where it stopped: n; or a key for which
    there may be too few nodes; or one whose count would fall below 0 (ERROR then says so).
    """
    words = load_i64(t + WORDS)
    stride = 8 * words
    i = start
    while i < weights.size:
        n = min(TOGETHER, weights.size - i)
        find_places(t, keys + stride * i, stride, n, words, 1, 0, WAY)
        done = _add_found(t, keys, weights, i, n, old, new)
        i += done
        if done == 0 or load_i64(t + ERROR):
            return i
    return weights.size


@device
def _add_found(t: Int, keys: Int, weights: Array, i: Int, n: Int, old: Array, new: Array) -> Int:
    """`add` for the n keys from i on, whose places were found. Returns how many are done: where a
    node is split or joined with another, the others must be looked for again."""
    words, places, ways = load_i64(t + WORDS), load_i64(t + LEAVES), load_i64(t + PATH)
    stride = 8 * words
    depth = load_i32(at(t, load_i64(t + ROOT)) + LEVEL)
    next_slot = 0
    for j in range(n):
        key, weight = keys + stride * (i + j), weights[i + j]
        place, way = places + PLACE_BYTES * j, ways + WAY_BYTES * j
        leaf = at(t, load_i64(place + LEAF))
        slot = load_i64(place + SLOT)
        if not stands(t, words, leaf, slot, key, 0):  # a key before it came or went
            slot = next_slot
            if not stands(t, words, leaf, slot, key, 0):
                slot = slot_of(t, words, leaf, key, 0)
        entry = leaf + KEYS + stride * slot
        found = slot < load_i32(leaf + SIZE) and compare_keys(t, words, entry, key) == 0
        before = load_i64(leaf + COUNTS + 8 * slot) if found else 0
        after = before + weight
        old[i + j] = before
        new[i + j] = after
        if after < 0:
            store_i64(t + ERROR, NEGATIVE)
            return j
        if weight == 0:
            continue
        changed = not found and load_i32(leaf + SIZE) == ORDER
        if changed:
            if not has_room(t, depth):
                return j
            split_for(t, key)
            depth = descend(t, key, way)
            leaf = at(t, load_i64(way + 16 * depth))
            slot = slot_of(t, words, leaf, key, 0)
        if not found:
            open_slot(leaf, slot, stride)
            copy_down(key, leaf + KEYS + stride * slot, stride)
            bump(t + ENTRIES, 1)
        bump(t + TOTAL, weight)
        store_i64(leaf + COUNTS + 8 * slot, after)
        for d in range(depth):
            counts = at(t, load_i64(way + 16 * d)) + COUNTS
            bump(counts + 8 * load_i64(way + 16 * d + 8), weight)
        next_slot = slot + 1
        if after == 0:
            close_slot(leaf, slot, stride)
            next_slot = slot
            bump(t + ENTRIES, -1)
            if load_i32(leaf + SIZE) < ORDER // 4:
                merge_up(t, way, depth)
                changed = True
        if changed:
            return j + 1
    return n


@kernel
def seek(
    t: Int, keys: Int, mode: Int, words: Int, prefix: Int, stride: Int, cursors: Array
) -> None:
    """cursors[i] = the entry that `mode` asks for; -1 if there is none.

    words: keys are compared by their first so many words. prefix: the first so many words of the
    entry must be the key's (its group), else there is none. stride: bytes from key to key.
    """
    leaves = load_i64(t + LEAVES)
    whole = 8 * load_i64(t + WORDS)
    above = 1 if mode in (FIRST_ABOVE, LAST_AT_MOST) else 0
    for i in range(cursors.size):
        key = keys + stride * i
        if i % TOGETHER == 0:
            n = min(TOGETHER, cursors.size - i)
            find_places(t, key, stride, n, words, above, above, PLAIN_SEARCH)
        node = load_i64(leaves + PLACE_BYTES * (i % TOGETHER) + LEAF)
        slot = load_i64(leaves + PLACE_BYTES * (i % TOGETHER) + SLOT)
        if mode in (LAST_AT_MOST, LAST_BELOW):
            cursor = entry_before(t, node, slot - 1)
        else:
            cursor = entry_after(t, node, slot)
        if cursor >= 0:
            found = key_at(t, whole, cursor)
            if mode == EQUAL and compare_keys(t, words, found, key) != 0:
                cursor = -1
            for w in range(prefix):
                if load_i64(found + 8 * w) != load_i64(key + 8 * w):
                    cursor = -1
                    break
        cursors[i] = cursor


@kernel
def read(t: Int, cursors: Array, keys: Array, counts: Array) -> None:
    """Copy the entries under the cursors: keys int64[n * words], counts int64[n]; none = zeros."""
    words = load_i64(t + WORDS)
    for i in range(cursors.size):
        c = cursors[i]
        if c < 0:
            counts[i] = 0
            for w in range(words):
                keys[i * words + w] = 0
            continue
        k = key_at(t, 8 * words, c)
        for w in range(words):
            keys[i * words + w] = load_i64(k + 8 * w)
        base = at(t, c >> ORDER_BITS)
        counts[i] = load_i64(base + COUNTS + 8 * (c & (ORDER - 1)))


@kernel
def step(t: Int, cursors: Array, forward: Int, prefix: Int, out: Array) -> None:
    """The neighbours of the entries under the cursors that share their first `prefix` words."""
    stride = 8 * load_i64(t + WORDS)
    for i in range(cursors.size):
        c = cursors[i]
        out[i] = -1
        if c < 0:
            continue
        node, slot = c >> ORDER_BITS, c & (ORDER - 1)
        if forward:
            to = entry_after(t, node, slot + 1)
        else:
            to = entry_before(t, node, slot - 1)
        if to < 0:
            continue
        a, b = key_at(t, stride, c), key_at(t, stride, to)
        same = True
        for w in range(prefix):
            if load_i64(a + 8 * w) != load_i64(b + 8 * w):
                same = False
                break
        if same:
            out[i] = to


@kernel
def rank(t: Int, keys: Int, words: Int, above: Int, stride: Int, ranks: Array) -> None:
    """ranks[i] = sum of the counts of all entries below key i; with `above`, of those not above
    it."""
    leaves = load_i64(t + LEAVES)
    for i in range(ranks.size):
        key = keys + stride * i
        if i % TOGETHER == 0:
            n = min(TOGETHER, ranks.size - i)
            find_places(t, key, stride, n, words, above, above, RANKED)
        place = leaves + PLACE_BYTES * (i % TOGETHER)
        total = load_i64(place + BEFORE)
        counts = at(t, load_i64(place + LEAF)) + COUNTS
        for slot in range(load_i64(place + SLOT)):
            total += load_i64(counts + 8 * slot)
        ranks[i] = total


@kernel
def bounds(t: Int, keys: Int, words: Int, stride: Int, low: Array, high: Array) -> None:
    """`rank` of each key without and with `above`, in one way down.

    high[i] = -1 where entries not above the key reach beyond the next leaf: to be asked for with
    `rank`.
    """
    leaves = load_i64(t + LEAVES)
    for i in range(low.size):
        key = keys + stride * i
        if i % TOGETHER == 0:
            find_places(t, key, stride, min(TOGETHER, low.size - i), words, 0, 0, RANKED)
        if i > 0 and compare_keys(t, words, key - stride, key) == 0:
            low[i], high[i] = low[i - 1], high[i - 1]
            continue
        place = leaves + PLACE_BYTES * (i % TOGETHER)
        leaf = at(t, load_i64(place + LEAF))
        total = load_i64(place + BEFORE)
        start, end = load_i64(place + SLOT), slot_of(t, words, leaf, key, 1)
        for slot in range(start):
            total += load_i64(leaf + COUNTS + 8 * slot)
        low[i] = total
        for slot in range(start, end):
            total += load_i64(leaf + COUNTS + 8 * slot)
        after = load_i32(leaf + NEXT)
        if end == load_i32(leaf + SIZE) and after >= 0:
            leaf = at(t, after)
            end = slot_of(t, words, leaf, key, 1)
            for slot in range(end):
                total += load_i64(leaf + COUNTS + 8 * slot)
            if end == load_i32(leaf + SIZE):
                total = -1
        high[i] = total


@kernel
def select(t: Int, ranks: Array, cursors: Array) -> None:
    """cursors[i] = the entry that holds row number ranks[i] of all rows (0 = the first), -1 =
    none."""
    for i in range(ranks.size):
        if ranks[i] < 0 or ranks[i] >= load_i64(t + TOTAL):
            cursors[i] = -1
            continue
        node, slot = place(t, ranks[i])
        cursors[i] = (node << ORDER_BITS) + slot


@kernel
def span(
    t: Int,
    first: Array,
    ends: Int,
    words: Int,
    end_stride: Int,
    below: Int,
    out_entry: Array,
    out_probe: Array,
    resume: Array,
) -> Int:
    """All entries from cursor first[i] to the last one not above key `ends` i (by `words`) or, with
    `below` = 1, below it.

    Writes (cursor, i) pairs until the arrays are full. resume int64[2]: (i, cursor) to go on with;
    done when i = n. Returns the number of pairs.
    """
    stride = 8 * load_i64(t + WORDS)
    m = 0
    i, c = resume[0], resume[1]
    while i < first.size:
        if c == -2:
            c = first[i]
        end = ends + end_stride * i
        while c >= 0 and compare_keys(t, words, key_at(t, stride, c), end) <= -below:
            if m == out_entry.size:
                resume[0], resume[1] = i, c
                return m
            out_entry[m] = c
            out_probe[m] = i
            m += 1
            c = entry_after(t, c >> ORDER_BITS, (c & (ORDER - 1)) + 1)
        i += 1
        c = -2
    resume[0], resume[1] = i, -2
    return m


@kernel
def bound_words(t: Int, word: Int, out: Array) -> Int:
    """The word of every key that bounds a node, as many as there is room for; returns how many
    there are. Such a key may be that of an entry that is gone."""
    stride = 8 * load_i64(t + WORDS)
    n = 0
    for node in range(load_i64(t + USED) << PAGE_BITS):
        base = at(t, node)
        if load_i32(base + LEVEL) == 0:
            continue
        for slot in range(load_i32(base + SIZE)):
            if n < out.size:
                out[n] = load_i64(base + KEYS + stride * slot + 8 * word)
            n += 1
    return n


@kernel
def walk(t: Int, first: Int, cursors: Array) -> None:
    """Write the cursors of the entries from `first` on, as many as there is room for (-1 = no
    more)."""
    c = first
    for i in range(cursors.size):
        cursors[i] = c
        if c >= 0:
            c = entry_after(t, c >> ORDER_BITS, (c & (ORDER - 1)) + 1)
