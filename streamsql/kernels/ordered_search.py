"""Searches in the ordered tree: many keys go down together, so that they wait for memory once.

A search alone waits for every node it passes, which in a large tree is in no cache. Here up to
TOGETHER keys take the same step before any takes the next: what one step reads is asked for in the
step before it, for all keys. A node is asked for in parts, because memory brings but so many lines:
first its head and the keys in its middle, then the sixteen keys that are left after two
comparisons.

The places that were found are in the tree's scratch array LEAVES, PLACE_BYTES a key: LEAF, the
leaf the key belongs to; SLOT, the first entry of it that is not below the key or, if asked so,
above it (may be the leaf's end); BEFORE, the rows before the leaf (only if RANKED). With WAY the
way there is in the scratch array PATH, WAY_BYTES a key: (node, slot) by level.
"""

from __future__ import annotations

from streamsql.kernels.bits import load_i32, load_i64, prefetch, store_i64
from streamsql.kernels.jit import Int, device
from streamsql.kernels.ordered_nodes import (
    CHILDREN,
    COUNTS,
    HEIGHT_MAX,
    KEYS,
    LEAVES,
    LEVEL,
    ORDER,
    PATH,
    ROOT,
    SIZE,
    WORDS,
    at,
    compare_keys,
    narrowed,
)

TOGETHER = 16  # keys that are looked for at once
LEAF, SLOT, BEFORE = 0, 8, 16
PLACE_BYTES = 24
WAY_BYTES = 16 * HEIGHT_MAX
PLAIN_SEARCH, COUNTED, RANKED, WAY = 0, 1, 2, 4
"""What is wanted beside the place: the counts there, the rows before it, the way to it."""

LINE = 64
NARROW = 16  # entries that are left of a node after the first step


@device
def _fetch(start: Int, end: Int) -> None:
    """Ask for the lines that hold these bytes."""
    for line in range(start & -LINE, end, LINE):
        prefetch(line)


@device
def stands(t: Int, words: Int, base: Int, slot: Int, key: Int, above: Int) -> bool:
    """Whether this slot is what `slot_of` would find."""
    stride = 8 * load_i64(t + WORDS)
    entry = base + KEYS + stride * slot
    size = load_i32(base + SIZE)
    if slot > size or (slot > 0 and compare_keys(t, words, entry - stride, key) >= above):
        return False
    return slot == size or compare_keys(t, words, entry, key) >= above


@device
def _ask(t: Int, base: Int, slot: Int, want: Int) -> None:
    """Ask for what the search reads of a node once it is known to end in NARROW slots from `slot`
    on."""
    size, stride = load_i32(base + SIZE), 8 * load_i64(t + WORDS)
    inner = load_i32(base + LEVEL) > 0
    end = min(slot + NARROW, size)
    if want & WAY and not inner:
        end = size  # an entry that comes or goes moves those behind it
    _fetch(base + KEYS + stride * slot, base + KEYS + stride * end)
    if inner:
        _fetch(base + CHILDREN + 4 * max(slot - 1, 0), base + CHILDREN + 4 * end)
    if want & RANKED:
        _fetch(base + COUNTS, base + COUNTS + 8 * end)
    elif want & (WAY | COUNTED):
        _fetch(base + COUNTS + 8 * max(slot - 1, 0), base + COUNTS + 8 * end)


@device
def _slots(t: Int, key: Int, stride: Int, n: Int, words: Int, above: Int, want: Int) -> None:
    """Every key's SLOT in its node. Keys of one node should follow each other, in order.

    First the way in each node is begun, and what it goes on with is asked for; then all are found.
    (One call of the search for both: it is compiled into every kernel.)
    """
    out = load_i64(t + LEAVES)
    for begun in range(2):
        last, slot, base = -1, 0, 0
        for j in range(n):
            place = out + PLACE_BYTES * j
            node, own = load_i64(place + LEAF), key + stride * j
            start, step, stop = 0, ORDER // 2, 1
            if node == last:
                if begun == 0:
                    continue
                if stands(t, words, base, slot, own, above):
                    store_i64(place + SLOT, slot)
                    continue
            else:
                last, base = node, at(t, node)
                if begun == 0:
                    stop = NARROW
                else:
                    start, step = load_i64(place + SLOT), NARROW // 2
            slot = narrowed(t, words, base, own, above, start, step, stop)
            store_i64(place + SLOT, slot)
            if begun == 0:
                _ask(t, base, slot, want)


@device
def _down(t: Int, n: Int, depth: Int, want: Int) -> None:
    """Every key's LEAF becomes the child that its SLOT is behind."""
    out, ways = load_i64(t + LEAVES), load_i64(t + PATH)
    stride = 8 * load_i64(t + WORDS)
    last, before, child = -1, 0, 0
    last_slot = -1
    for j in range(n):
        place = out + PLACE_BYTES * j
        node, slot = load_i64(place + LEAF), max(load_i64(place + SLOT) - 1, 0)
        if node != last or slot != last_slot:
            last, last_slot = node, slot
            base = at(t, node)
            child = load_i32(base + CHILDREN + 4 * slot)
            c = at(t, child)
            prefetch(c)
            for middle in range(ORDER // 4 - 1, ORDER - 1, ORDER // 4):
                prefetch(c + KEYS + stride * middle)
            if want & RANKED:
                before = 0
                for s in range(slot):
                    before += load_i64(base + COUNTS + 8 * s)
        store_i64(place + LEAF, child)
        if want & RANKED:
            store_i64(place + BEFORE, load_i64(place + BEFORE) + before)
        if want & WAY:
            store_i64(ways + WAY_BYTES * j + 16 * depth, node)
            store_i64(ways + WAY_BYTES * j + 16 * depth + 8, slot)


@device
def find_places(
    t: Int, key: Int, stride: Int, n: Int, words: Int, above: Int, at_end: Int, want: Int
) -> None:
    """Where each of n <= TOGETHER keys belongs, in LEAVES (and PATH).

    key: address of the first; stride: bytes from key to key; words: keys are compared by their
    first so many words. above: 1 = go down to where keys above it begin, 0 = to where keys not
    below it begin; at_end: the same, for the slot in the leaf. Keys in order are best.
    """
    out, root = load_i64(t + LEAVES), load_i64(t + ROOT)
    for j in range(n):
        store_i64(out + PLACE_BYTES * j + LEAF, root)
        store_i64(out + PLACE_BYTES * j + BEFORE, 0)
    levels = load_i32(at(t, root) + LEVEL)
    for depth in range(levels + 1):  # one call in one place: each is compiled into every kernel
        _slots(t, key, stride, n, words, above if depth < levels else at_end, want)
        if depth < levels:
            _down(t, n, depth, want)
    if want & WAY:
        ways = load_i64(t + PATH)
        for j in range(n):
            leaf = load_i64(out + PLACE_BYTES * j + LEAF)
            store_i64(ways + WAY_BYTES * j + 16 * levels, leaf)
