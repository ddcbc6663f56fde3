"""The kernels of `ordered`: batches of changes, searches and walks over the tree's nodes.

`t` is the address of the tree's head (`ordered_nodes`), `keys` that of n keys, one after the
other. A cursor is node * 64 + slot, -1 = none.
"""

from __future__ import annotations

from streamsql.kernels.bits import load_i32, load_i64, store_i64
from streamsql.kernels.jit import Array, Int, device, kernel
from streamsql.kernels.ordered_nodes import (
    CAPACITY,
    COUNTS,
    ENTRIES,
    ERROR,
    FREE,
    HEIGHT_MAX,
    KEYS,
    LEAVES,
    LEVEL,
    MADE,
    NEGATIVE,
    NEXT,
    ORDER,
    ORDER_BITS,
    PATH,
    PREVIOUS,
    SIZE,
    TOGETHER,
    TOTAL,
    WORDS,
    at,
    bump,
    close_slot,
    compare_keys,
    copy_down,
    descend,
    leaves_of,
    lower_slot,
    merge_up,
    open_slot,
    place,
    split_for,
    upper_slot,
)

FIRST_AT_LEAST, FIRST_ABOVE, LAST_AT_MOST, LAST_BELOW, EQUAL = range(5)
"""What `seek` looks for."""


@device
def _covers(t: Int, words: Int, base: Int, key: Int) -> bool:
    """Whether the key surely belongs to this leaf: between its ends, or behind the last of all."""
    size = load_i32(base + SIZE)
    if size == 0:
        return False
    stride = 8 * words
    if compare_keys(t, words, base + KEYS + stride * (size - 1), key) < 0:
        return load_i32(base + NEXT) < 0
    return compare_keys(t, words, base + KEYS, key) <= 0


@kernel
def add(t: Int, keys: Int, weights: Array, start: Int, old: Array, new: Array) -> Int:
    """Add weights[i] to the count of key i, from `start` on; entries of count 0 vanish.

    old, new: int64[n], counts before and after. Returns where it stopped: n; or a key for which
    there may be too few nodes; or one whose count would fall below 0 (ERROR then says so).
    """
    words, path = load_i64(t + WORDS), load_i64(t + PATH)
    stride = 8 * words
    depth = -1
    for i in range(start, weights.size):
        if load_i64(t + FREE) < 0 and load_i64(t + MADE) + HEIGHT_MAX > load_i64(t + CAPACITY):
            return i
        key = keys + stride * i
        if (i - start) % TOGETHER == 0:
            leaves_of(t, key, stride, min(TOGETHER, weights.size - i), words, 1, 0)
        if depth < 0 or not _covers(t, words, at(t, load_i64(path + 16 * depth)), key):
            depth = descend(t, key)
        leaf = at(t, load_i64(path + 16 * depth))
        slot = lower_slot(t, words, leaf, key)
        found = (
            slot < load_i32(leaf + SIZE)
            and compare_keys(t, words, leaf + KEYS + stride * slot, key) == 0
        )
        before = load_i64(leaf + COUNTS + 8 * slot) if found else 0
        after = before + weights[i]
        old[i] = before
        new[i] = after
        if after < 0:
            store_i64(t + ERROR, NEGATIVE)
            return i
        if before == after:
            continue
        if not found:
            if load_i32(leaf + SIZE) == ORDER:
                split_for(t, key)
                depth = descend(t, key)
                leaf = at(t, load_i64(path + 16 * depth))
                slot = lower_slot(t, words, leaf, key)
            open_slot(leaf, slot, stride)
            copy_down(key, leaf + KEYS + stride * slot, stride)
            bump(t + ENTRIES, 1)
        bump(t + TOTAL, weights[i])
        store_i64(leaf + COUNTS + 8 * slot, after)
        for d in range(depth):
            counts = at(t, load_i64(path + 16 * d)) + COUNTS
            bump(counts + 8 * load_i64(path + 16 * d + 8), weights[i])
        if after == 0:
            close_slot(leaf, slot, stride)
            bump(t + ENTRIES, -1)
            if load_i32(leaf + SIZE) < ORDER // 4:
                merge_up(t, depth)
                depth = -1
    return weights.size


@device
def _after(t: Int, node: Int, slot: Int) -> Int:
    """Cursor of this place, or of the next leaf's first entry if the place is behind the leaf's
    last."""
    while node >= 0:
        base = at(t, node)
        if slot < load_i32(base + SIZE):
            return (node << ORDER_BITS) + slot
        node, slot = load_i32(base + NEXT), 0
    return -1


@device
def _before(t: Int, node: Int, slot: Int) -> Int:
    """Cursor of this place, or of the previous leaf's last entry if slot is -1."""
    while node >= 0:
        if slot >= 0:
            return (node << ORDER_BITS) + slot
        node = load_i32(at(t, node) + PREVIOUS)
        if node >= 0:
            slot = load_i32(at(t, node) + SIZE) - 1
    return -1


@device
def place_in(t: Int, node: Int, key: Int, words: Int, above: Int) -> Int:
    """First slot of a leaf whose key is not below `key`, or, with `above`, is above it; may be its
    end."""
    leaf = at(t, node)
    return upper_slot(t, words, leaf, key) if above else lower_slot(t, words, leaf, key)


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
            leaves_of(t, key, stride, min(TOGETHER, cursors.size - i), words, above, 0)
        node = load_i64(leaves + 16 * (i % TOGETHER))
        slot = place_in(t, node, key, words, above)
        if mode in (LAST_AT_MOST, LAST_BELOW):
            cursor = _before(t, node, slot - 1)
        else:
            cursor = _after(t, node, slot)
        if cursor >= 0:
            found = key_at(t, whole, cursor)
            if mode == EQUAL and compare_keys(t, words, found, key) != 0:
                cursor = -1
            for w in range(prefix):
                if load_i64(found + 8 * w) != load_i64(key + 8 * w):
                    cursor = -1
                    break
        cursors[i] = cursor


@device
def key_at(t: Int, stride: Int, cursor: Int) -> Int:
    """Address of the key under a cursor."""
    slot = cursor & (ORDER - 1)
    return at(t, cursor >> ORDER_BITS) + KEYS + stride * slot


@kernel
def ends(t: Int, groups: Int, last: Int, values: Array, counts: Array) -> None:
    """Of each group's first (or last) entry the word behind the group, and its count: int64[n]; 0
    and 0 where the group has none. groups: address of int64[n]."""
    leaves = load_i64(t + LEAVES)
    whole = 8 * load_i64(t + WORDS)
    for i in range(values.size):
        key = groups + 8 * i
        if i % TOGETHER == 0:
            leaves_of(t, key, 8, min(TOGETHER, values.size - i), 1, last, 0)
        node = load_i64(leaves + 16 * (i % TOGETHER))
        slot = place_in(t, node, key, 1, last)
        cursor = _before(t, node, slot - 1) if last != 0 else _after(t, node, slot)
        values[i], counts[i] = 0, 0
        if cursor >= 0:
            found = key_at(t, whole, cursor)
            if load_i64(found) == load_i64(key):
                values[i] = load_i64(found + 8)
                place = cursor & (ORDER - 1)
                counts[i] = load_i64(at(t, cursor >> ORDER_BITS) + COUNTS + 8 * place)


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
            to = _after(t, node, slot + 1)
        else:
            to = _before(t, node, slot - 1)
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
            leaves_of(t, key, stride, min(TOGETHER, ranks.size - i), words, above, 1)
        node = load_i64(leaves + 16 * (i % TOGETHER))
        total = load_i64(leaves + 16 * (i % TOGETHER) + 8)
        counts = at(t, node) + COUNTS
        for slot in range(place_in(t, node, key, words, above)):
            total += load_i64(counts + 8 * slot)
        ranks[i] = total


@kernel
def rank_up_to(t: Int, keys: Int, words: Int, stride: Int, most: Int, ranks: Array) -> None:
    """ranks[i] = sum of the counts of the entries of key i's group (its first word) below it, or
    `most` if that is less: counted backwards, from entries that are near one another."""
    leaves = load_i64(t + LEAVES)
    whole = 8 * load_i64(t + WORDS)
    for i in range(ranks.size):
        key = keys + stride * i
        if i % TOGETHER == 0:
            leaves_of(t, key, stride, min(TOGETHER, ranks.size - i), words, 0, 0)
        node = load_i64(leaves + 16 * (i % TOGETHER))
        slot = place_in(t, node, key, words, 0)
        total = 0
        while total < most:
            cursor = _before(t, node, slot - 1)
            if cursor < 0:
                break
            node, slot = cursor >> ORDER_BITS, cursor & (ORDER - 1)
            base = at(t, node)
            if load_i64(base + KEYS + whole * slot) != load_i64(key):
                break
            total += load_i64(base + COUNTS + 8 * slot)
        ranks[i] = min(total, most)


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
            leaves_of(t, key, stride, min(TOGETHER, low.size - i), words, 0, 1)
        if i > 0 and compare_keys(t, words, key - stride, key) == 0:
            low[i], high[i] = low[i - 1], high[i - 1]
            continue
        leaf = at(t, load_i64(leaves + 16 * (i % TOGETHER)))
        total = load_i64(leaves + 16 * (i % TOGETHER) + 8)
        start, end = lower_slot(t, words, leaf, key), upper_slot(t, words, leaf, key)
        for slot in range(start):
            total += load_i64(leaf + COUNTS + 8 * slot)
        low[i] = total
        for slot in range(start, end):
            total += load_i64(leaf + COUNTS + 8 * slot)
        after = load_i32(leaf + NEXT)
        if end == load_i32(leaf + SIZE) and after >= 0:
            leaf = at(t, after)
            end = upper_slot(t, words, leaf, key)
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
    out_entry: Array,
    out_probe: Array,
    resume: Array,
) -> Int:
    """All entries from cursor first[i] to the last one not above key `ends` i (by `words`).

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
        while c >= 0 and compare_keys(t, words, key_at(t, stride, c), end) <= 0:
            if m == out_entry.size:
                resume[0], resume[1] = i, c
                return m
            out_entry[m] = c
            out_probe[m] = i
            m += 1
            c = _after(t, c >> ORDER_BITS, (c & (ORDER - 1)) + 1)
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
    for node in range(load_i64(t + MADE)):
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
            c = _after(t, c >> ORDER_BITS, (c & (ORDER - 1)) + 1)
