"""Nodes of the ordered tree: a B+-tree over keys of several int64 words, with counts and ranks.

A node is `node_bytes(words)` bytes on a page; node number -> address by the table `pages`. Layout:
size int32, level int32 (0 = leaf), next leaf int32, previous leaf int32, counts int64[64]
(leaf: the entry's count; else the sum below the child), children int32[64], keys
int64[64 * words] (not leaf: a lower bound of the child's keys).

Keys below a node's first key belong to its first child.

A tree is known by the address `t` of its head, int64[16]: what changes (root, nodes made, head of
the free nodes, entries, total count, error), then where things are: the table of pages and how
many nodes they hold, the size of a node, the words of a key, their kinds (int64 a word), the
addresses and sizes of the texts that text words name (`text_pool`), and two scratch arrays: for the
way from root to leaf, (node, slot) by level, and for `leaves_of`. Only addresses are passed on:
numba counts references to arrays at every call, which costs more than a comparison.
"""

from __future__ import annotations

from streamsql.kernels.bits import (
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    prefetch,
    store_i32,
    store_i64,
)
from streamsql.kernels.jit import Int, device

ORDER = 64  # entries a node
ORDER_BITS = 6
PAGE_BITS = 6  # nodes a page
PAGE_MASK = (1 << PAGE_BITS) - 1
SIZE, LEVEL, NEXT, PREVIOUS, COUNTS = 0, 4, 8, 12, 16
CHILDREN = COUNTS + 8 * ORDER
KEYS = CHILDREN + 4 * ORDER
HEIGHT_MAX = 16

ROOT, MADE, FREE, ENTRIES, TOTAL, ERROR = (8 * i for i in range(6))
PAGES, CAPACITY, BYTES, WORDS, KINDS, TEXTS, TEXT_SIZES, PATH, LEAVES = (
    8 * i for i in range(6, 15)
)
HEAD_WORDS = 16
TOGETHER = 16  # keys whose leaves are looked for at once
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
def lower_slot(t: Int, words: Int, base: Int, key: Int) -> Int:
    """First slot of the node whose key is not below `key` (its size if none).

    words: compare only the first so many words of the keys (here and below).
    """
    low, high = 0, load_i32(base + SIZE)
    stride = 8 * load_i64(t + WORDS)
    while low < high:
        middle = (low + high) >> 1
        if compare_keys(t, words, base + KEYS + middle * stride, key) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@device
def upper_slot(t: Int, words: Int, base: Int, key: Int) -> Int:
    """First slot of the node whose key is above `key` (its size if none)."""
    low, high = 0, load_i32(base + SIZE)
    stride = 8 * load_i64(t + WORDS)
    while low < high:
        middle = (low + high) >> 1
        if compare_keys(t, words, base + KEYS + middle * stride, key) <= 0:
            low = middle + 1
        else:
            high = middle
    return low


@device
def child_slot(t: Int, words: Int, base: Int, key: Int) -> Int:
    """Slot of the child that `key` belongs to."""
    slot = lower_slot(t, words, base, key)
    stride = 8 * words
    if (
        slot < load_i32(base + SIZE)
        and compare_keys(t, words, base + KEYS + slot * stride, key) == 0
    ):
        return slot
    return max(slot - 1, 0)


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
def make(t: Int, level: Int) -> Int:
    """Number of an empty node; the caller has seen to it that there is room."""
    node = load_i64(t + FREE)
    if node >= 0:
        store_i64(t + FREE, load_i32(at(t, node) + NEXT))
    else:
        node = load_i64(t + MADE)
        bump(t + MADE, 1)
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
    if load_i32(base + LEVEL) == 0:
        after, before = load_i32(base + NEXT), load_i32(base + PREVIOUS)
        if after >= 0:
            store_i32(at(t, after) + PREVIOUS, before)
        if before >= 0:
            store_i32(at(t, before) + NEXT, after)
    store_i32(base + NEXT, load_i64(t + FREE))
    store_i64(t + FREE, node)


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
def merge_up(t: Int, depth: Int) -> None:
    """After a removal from the leaf at the end of `path`: join nodes that have become small with a
    neighbour, from the leaf up. depth: of the leaf."""
    stride = 8 * load_i64(t + WORDS)
    path = load_i64(t + PATH)
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
def descend(t: Int, key: Int) -> Int:
    """Way from the root to the leaf the key belongs to: path = (node, slot) by level. Returns the
    depth of the leaf, whose slot is left open."""
    words, path = load_i64(t + WORDS), load_i64(t + PATH)
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
def _still_below(t: Int, words: Int, base: Int, slot: Int, key: Int, above: Int) -> bool:
    """Whether the search for `key` goes on below the child that the one before it went to."""
    stride = 8 * load_i64(t + WORDS)
    bound = base + KEYS + stride * slot
    if slot > 0:
        order = compare_keys(t, words, bound, key)
        if order > 0 or (order == 0 and above == 0):
            return False
    if slot + 1 >= load_i32(base + SIZE):
        return True
    order = compare_keys(t, words, bound + stride, key)
    return order > 0 or (order == 0 and above == 0)


@device
def leaves_of(t: Int, key: Int, stride: Int, n: Int, words: Int, above: Int, ranked: Int) -> None:
    """Where keys not below each of n <= TOGETHER keys begin, or, with `above`, keys above it:
    (leaf, rows before the leaf; 0 unless `ranked`) by key in the scratch array LEAVES. The place
    may be the leaf's end.

    All keys go down level by level, so that the nodes of a level come from memory at the same time,
    and the leaves are on their way when this returns: a large tree would else be waited for at
    every node. Keys in order are best. key: address of the first; stride: bytes from key to key;
    words: keys are compared by their first so many words.
    """
    out = load_i64(t + LEAVES)
    root = load_i64(t + ROOT)
    for j in range(n):
        store_i64(out + 16 * j, root)
        store_i64(out + 16 * j + 8, 0)
    for _ in range(load_i32(at(t, root) + LEVEL)):
        last, slot, child, before = -1, 0, 0, 0
        for j in range(n):
            node = load_i64(out + 16 * j)
            p = at(t, node)
            own = key + stride * j
            if node != last or not _still_below(t, words, p, slot, own, above):
                last = node
                slot = upper_slot(t, words, p, own) if above else lower_slot(t, words, p, own)
                slot = max(slot - 1, 0)
                child = load_i32(p + CHILDREN + 4 * slot)
                c = at(t, child)
                for line in range(0, KEYS + 8 * load_i64(t + WORDS) * ORDER, 64):
                    prefetch(c + line)
                if ranked:
                    before = 0
                    for s in range(slot):
                        before += load_i64(p + COUNTS + 8 * s)
            store_i64(out + 16 * j, child)
            if ranked:
                store_i64(out + 16 * j + 8, load_i64(out + 16 * j + 8) + before)


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
