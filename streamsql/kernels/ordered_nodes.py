"""Nodes of the ordered tree: a B+-tree over keys of several int64 words, with counts and ranks.

A node is `node_bytes(words)` bytes on a page; node number -> address by the table `pages`. Layout:
counts int64[64] (leaf: the entry's count; else the sum below the child), children int32[64], size
int32, level int32 (0 = leaf), next leaf int32, previous leaf int32, keys int64[64 * words] (not
leaf: a lower bound of the child's keys). What a search reads lies together, and inner nodes have
pages of their own, so that they are few pages: a large tree waits for page tables as long as for
the nodes.

Keys below a node's first key belong to its first child.

A tree is known by the address `t` of its head, int64[24]: what changes (root, entries, total
count, error, pages in use; first free leaf and inner node, next leaf and inner node never used, the
start of a page if a new one is needed), then where things are: the table of pages and how
many there are, the size of a node, the words of a key, their kinds (int64 a word), the
addresses and sizes of the texts that text words name (`text_pool`), and two scratch arrays, for the
ways from root to leaf and the places that searches find (`ordered_search`). Only addresses are
passed on: numba counts references to arrays at every call, which costs more than a comparison.
"""

from __future__ import annotations

from streamsql.kernels.bits import (
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    store_i32,
    store_i64,
)
from streamsql.kernels.jit import Int, device

ORDER = 64  # entries a node
ORDER_BITS = 6
PAGE_BITS = 6  # nodes a page
PAGE_MASK = (1 << PAGE_BITS) - 1
COUNTS = 0
CHILDREN = COUNTS + 8 * ORDER
SIZE = CHILDREN + 4 * ORDER
LEVEL, NEXT, PREVIOUS, KEYS = SIZE + 4, SIZE + 8, SIZE + 12, SIZE + 16
HEIGHT_MAX = 16

ROOT, ENTRIES, TOTAL, ERROR, USED, FREE, FREE_INNER, FRESH, FRESH_INNER = (8 * i for i in range(9))
PAGES, CAPACITY, BYTES, WORDS, KINDS, TEXTS, TEXT_SIZES, PATH, LEAVES = (
    8 * i for i in range(9, 18)
)
HEAD_WORDS = 24
OK, NEGATIVE = 0, 1

PLAIN, TEXT, TEXT_DESCENDING = 0, 1, 2
"""A word is a number; or the slot of a text, compared by its bytes, ascending or descending."""


def node_bytes(words: int) -> int:
    """Bytes of one node."""
    return KEYS + 8 * ORDER * words


@device
def at(t: Int, node: Int) -> Int:
    """Address of a node."""
    page = load_i64(load_i64(t + PAGES) + 8 * (node >> PAGE_BITS))
    return page + (node & PAGE_MASK) * load_i64(t + BYTES)


@device
def bump(address: Int, by: Int) -> None:
    """Add to the int64 at an address."""
    store_i64(address, load_i64(address) + by)


@device
def compare_bytes(a: Int, a_size: Int, b: Int, b_size: Int) -> Int:
    """-1, 0 or 1: two byte strings in order of their bytes."""
    size = min(a_size, b_size)
    i = 0
    while i + 8 <= size and load_u64(a + i) == load_u64(b + i):
        i += 8
    while i < size:
        x, y = load_u8(a + i), load_u8(b + i)
        if x != y:
            return -1 if x < y else 1
        i += 1
    return -1 if a_size < b_size else (1 if a_size > b_size else 0)


@device
def compare_keys(t: Int, words: Int, a: Int, b: Int) -> Int:
    """-1, 0 or 1: the keys at two addresses."""
    for w in range(words):
        x, y = load_i64(a + 8 * w), load_i64(b + 8 * w)
        if x == y:
            continue
        kind = load_i64(load_i64(t + KINDS) + 8 * w)
        if kind == PLAIN:
            return -1 if x < y else 1
        texts, sizes = load_i64(t + TEXTS), load_i64(t + TEXT_SIZES)
        order = compare_bytes(
            load_i64(texts + 8 * x), load_i64(sizes + 8 * x),
            load_i64(texts + 8 * y), load_i64(sizes + 8 * y),
        )  # fmt: skip
        if order != 0:
            return order if kind == TEXT else -order
    return 0


@device
def narrowed(
    t: Int, words: Int, base: Int, key: Int, above: Int, slot: Int, step: Int, last: Int
) -> Int:
    """Go on with the search for the first slot whose key is not below `key` (with `above`: is
    above it), which is at least `slot` and less than 2 * step further; stop after the step
    `last`."""
    size, stride = load_i32(base + SIZE), 8 * load_i64(t + WORDS)
    keys = base + KEYS - stride
    first, plain = load_i64(key), load_i64(load_i64(t + KINDS)) == PLAIN
    while step >= last:
        to = slot + step
        own = load_i64(keys + stride * to)
        below = own < first
        if own == first or not plain:
            below = compare_keys(t, words, keys + stride * to, key) < above
        slot = to if (to <= size) & below else slot
        if step > 1 or slot < ORDER - 1 or to == ORDER:
            step >>= 1
        # else one step of 1 more: behind the last entry of a full node
    return slot


@device
def slot_of(t: Int, words: Int, base: Int, key: Int, above: Int) -> Int:
    """First slot of a node whose key is not below `key` or, with `above` = 1, is above it; its size
    if there is none. words: keys are compared by their first so many words."""
    return narrowed(t, words, base, key, above, 0, ORDER // 2, 1)


@device
def child_slot(t: Int, words: Int, base: Int, key: Int) -> Int:
    """Slot of the child that `key` belongs to."""
    return max(slot_of(t, words, base, key, 1) - 1, 0)


@device
def copy_down(source: Int, target: Int, size: Int) -> None:
    """Copy bytes (a multiple of 4) between places that do not overlap, or downwards."""
    i = 0
    while i + 8 <= size:
        store_i64(target + i, load_i64(source + i))
        i += 8
    if i < size:
        store_i32(target + i, load_i32(source + i))


@device
def _copy_up(source: Int, target: Int, size: Int) -> None:
    """Copy bytes (a multiple of 4) to a higher, overlapping place."""
    i = size
    while i >= 8:
        i -= 8
        store_i64(target + i, load_i64(source + i))
    if i > 0:
        store_i32(target, load_i32(source))


@device
def open_slot(base: Int, slot: Int, stride: Int) -> None:
    """Make room for an entry base `slot`."""
    size = load_i32(base + SIZE)
    n = size - slot
    if n > 0:
        c, k, s = base + COUNTS + 8 * slot, base + CHILDREN + 4 * slot, base + KEYS + stride * slot
        _copy_up(c, c + 8, 8 * n)
        if load_i32(base + LEVEL) > 0:
            _copy_up(k, k + 4, 4 * n)
        _copy_up(s, s + stride, stride * n)
    store_i32(base + SIZE, size + 1)


@device
def close_slot(base: Int, slot: Int, stride: Int) -> None:
    """Take the entry base `slot` out."""
    size = load_i32(base + SIZE)
    n = size - slot - 1
    if n > 0:
        c, k, s = base + COUNTS + 8 * slot, base + CHILDREN + 4 * slot, base + KEYS + stride * slot
        copy_down(c + 8, c, 8 * n)
        if load_i32(base + LEVEL) > 0:
            copy_down(k + 4, k, 4 * n)
        copy_down(s + stride, s, stride * n)
    store_i32(base + SIZE, size - 1)


@device
def _move(source: Int, start: Int, target: Int, to: Int, n: Int, stride: Int) -> Int:
    """Copy n entries from one node to another; returns the sum of their counts."""
    copy_down(source + COUNTS + 8 * start, target + COUNTS + 8 * to, 8 * n)
    copy_down(source + CHILDREN + 4 * start, target + CHILDREN + 4 * to, 4 * n)
    copy_down(source + KEYS + stride * start, target + KEYS + stride * to, stride * n)
    total = 0
    for i in range(start, start + n):
        total += load_i64(source + COUNTS + 8 * i)
    return total


@device
def has_room(t: Int, levels: Int) -> bool:
    """Whether the pages suffice to split a leaf and all inner nodes above it, so many levels, and
    to put a root on top."""
    pages = load_i64(t + USED)
    if load_i64(t + FREE) < 0 and load_i64(t + FRESH) & PAGE_MASK == 0:
        pages += 1
    if -load_i64(t + FRESH_INNER) & PAGE_MASK < levels + 1:
        pages += 1
    return pages <= load_i64(t + CAPACITY)


@device
def make(t: Int, level: Int) -> Int:
    """Number of an empty node; the caller has seen to it that there is room."""
    kind = 8 if level > 0 else 0
    node = load_i64(t + FREE + kind)
    if node >= 0:
        store_i64(t + FREE + kind, load_i32(at(t, node) + NEXT))
    else:
        node = load_i64(t + FRESH + kind)
        if node & PAGE_MASK == 0:
            node = load_i64(t + USED) << PAGE_BITS
            bump(t + USED, 1)
        store_i64(t + FRESH + kind, node + 1)
    base = at(t, node)
    store_i32(base + SIZE, 0)
    store_i32(base + LEVEL, level)
    store_i32(base + NEXT, -1)
    store_i32(base + PREVIOUS, -1)
    return node


@device
def _free(t: Int, node: Int) -> None:
    """Give a node back; leaves first leave the chain of leaves."""
    base = at(t, node)
    kind = 8 if load_i32(base + LEVEL) > 0 else 0
    if kind == 0:
        after, before = load_i32(base + NEXT), load_i32(base + PREVIOUS)
        if after >= 0:
            store_i32(at(t, after) + PREVIOUS, before)
        if before >= 0:
            store_i32(at(t, before) + NEXT, after)
    store_i32(base + NEXT, load_i64(t + FREE + kind))
    store_i64(t + FREE + kind, node)


@device
def _split(t: Int, stride: Int, parent: Int, slot: Int, last: Int) -> None:
    """Split the full child in `slot` of a parent with room.

    last: the entry to come goes behind all others of the child, which therefore stays full but for
    one entry: keys that come in order fill their nodes.
    """
    p = at(t, parent)
    left = load_i32(p + CHILDREN + 4 * slot)
    a = at(t, left)
    level = load_i32(a + LEVEL)
    right = make(t, level)
    b = at(t, right)
    keep = ORDER - 1 if last else ORDER // 2
    moved = _move(a, keep, b, 0, ORDER - keep, stride)
    store_i32(a + SIZE, keep)
    store_i32(b + SIZE, ORDER - keep)
    if level == 0:
        after = load_i32(a + NEXT)
        store_i32(b + NEXT, after)
        store_i32(b + PREVIOUS, left)
        store_i32(a + NEXT, right)
        if after >= 0:
            store_i32(at(t, after) + PREVIOUS, right)
    open_slot(p, slot + 1, stride)
    store_i32(p + CHILDREN + 4 * (slot + 1), right)
    store_i64(p + COUNTS + 8 * (slot + 1), moved)
    store_i64(p + COUNTS + 8 * slot, load_i64(p + COUNTS + 8 * slot) - moved)
    copy_down(b + KEYS, p + KEYS + stride * (slot + 1), stride)
    if slot == 0:  # keys below it may have come since it was written
        copy_down(a + KEYS, p + KEYS, stride)


@device
def split_for(t: Int, key: Int) -> None:
    """Split every full node on the way to the key, the root first."""
    words = load_i64(t + WORDS)
    stride = 8 * words
    root = load_i64(t + ROOT)
    r = at(t, root)
    if load_i32(r + SIZE) == ORDER:
        top = make(t, load_i32(r + LEVEL) + 1)
        p = at(t, top)
        store_i32(p + SIZE, 1)
        store_i32(p + CHILDREN, root)
        store_i64(p + COUNTS, load_i64(t + TOTAL))
        copy_down(r + KEYS, p + KEYS, stride)
        store_i64(t + ROOT, top)
    node = load_i64(t + ROOT)
    while True:
        p = at(t, node)
        if load_i32(p + LEVEL) == 0:
            return
        slot = child_slot(t, words, p, key)
        c = at(t, load_i32(p + CHILDREN + 4 * slot))
        if load_i32(c + SIZE) == ORDER:
            beyond = compare_keys(t, words, c + KEYS + stride * (ORDER - 1), key) < 0
            _split(t, stride, node, slot, beyond)
            slot = child_slot(t, words, p, key)
        node = load_i32(p + CHILDREN + 4 * slot)


@device
def merge_up(t: Int, path: Int, depth: Int) -> None:
    """After a removal from the leaf at the end of a way: join nodes that have become small with a
    neighbour, from the leaf up. path: address of (node, slot) by level; depth: of the leaf."""
    stride = 8 * load_i64(t + WORDS)
    while depth > 0:
        node = load_i64(path + 16 * depth)
        a = at(t, node)
        size = load_i32(a + SIZE)
        if size >= ORDER // 4:
            return
        parent, slot = load_i64(path + 16 * depth - 16), load_i64(path + 16 * depth - 8)
        p = at(t, parent)
        if load_i32(p + SIZE) > 1:
            left = slot if slot + 1 < load_i32(p + SIZE) else slot - 1
            a = at(t, load_i32(p + CHILDREN + 4 * left))
            right = load_i32(p + CHILDREN + 4 * (left + 1))
            b = at(t, right)
            here, there = load_i32(a + SIZE), load_i32(b + SIZE)
            if here + there > 3 * ORDER // 4 and size > 0:
                return
            _move(b, 0, a, here, there, stride)
            if load_i32(a + LEVEL) > 0 and there > 0:
                # its first key was no bound while it was the first; the parent's is one
                copy_down(p + KEYS + stride * (left + 1), a + KEYS + stride * here, stride)
            store_i32(a + SIZE, here + there)
            moved = load_i64(p + COUNTS + 8 * (left + 1))
            store_i64(p + COUNTS + 8 * left, load_i64(p + COUNTS + 8 * left) + moved)
            close_slot(p, left + 1, stride)
            _free(t, right)
        depth -= 1
    root = load_i64(t + ROOT)
    r = at(t, root)
    while load_i32(r + LEVEL) > 0 and load_i32(r + SIZE) == 1:
        store_i64(t + ROOT, load_i32(r + CHILDREN))
        _free(t, root)
        root = load_i64(t + ROOT)
        r = at(t, root)


@device
def descend(t: Int, key: Int, path: Int) -> Int:
    """Write the way from the root to the leaf the key belongs to: (node, slot) by level. Returns
    the depth of the leaf, whose slot is left open."""
    words = load_i64(t + WORDS)
    node, depth = load_i64(t + ROOT), 0
    while True:
        store_i64(path + 16 * depth, node)
        p = at(t, node)
        if load_i32(p + LEVEL) == 0:
            return depth
        slot = child_slot(t, words, p, key)
        store_i64(path + 16 * depth + 8, slot)
        node = load_i32(p + CHILDREN + 4 * slot)
        depth += 1


@device
def place(t: Int, rank: Int) -> tuple[Int, Int]:
    """(leaf, slot) of the entry that holds row number `rank` of all rows; it must exist."""
    node, left = load_i64(t + ROOT), rank
    while True:
        base = at(t, node)
        slot = 0
        count = load_i64(base + COUNTS)
        while left >= count:
            left -= count
            slot += 1
            count = load_i64(base + COUNTS + 8 * slot)
        if load_i32(base + LEVEL) == 0:
            return node, slot
        node = load_i32(base + CHILDREN + 4 * slot)


@device
def entry_after(t: Int, node: Int, slot: Int) -> Int:
    """Cursor of this place, or of the next leaf's first entry if the place is behind the leaf's
    last."""
    while node >= 0:
        base = at(t, node)
        if slot < load_i32(base + SIZE):
            return (node << ORDER_BITS) + slot
        node, slot = load_i32(base + NEXT), 0
    return -1


@device
def entry_before(t: Int, node: Int, slot: Int) -> Int:
    """Cursor of this place, or of the previous leaf's last entry if slot is -1."""
    while node >= 0:
        if slot >= 0:
            return (node << ORDER_BITS) + slot
        node = load_i32(at(t, node) + PREVIOUS)
        if node >= 0:
            slot = load_i32(at(t, node) + SIZE) - 1
    return -1


@device
def key_at(t: Int, stride: Int, cursor: Int) -> Int:
    """Address of the key under a cursor."""
    slot = cursor & (ORDER - 1)
    return at(t, cursor >> ORDER_BITS) + KEYS + stride * slot
