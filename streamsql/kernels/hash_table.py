"""The open-addressing table under every index: loops over one flat uint64 array.

Entry p is two words: table[2p] = the key's second lane, table[2p+1] = tag << 32 | (value + 1),
where tag is the upper half of the first lane and value a number below 2^32 - 1 (a slot or a row). A
second word of 0 is an empty entry. An entry's home is `tag & mask`, probing is linear. So a
key is told by 96 bits of its lanes (an 8-byte key exactly, for it *is* the second lane), an
entry is a quarter of a cache line, and rehashing needs nothing but the table.
"""

from __future__ import annotations

import numpy as np

from streamsql.kernels.bits import prefetch
from streamsql.kernels.jit import Array, Int, device, kernel

Words = Array  # uint64[...]
Numbers = Array  # int64[...]

HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
ONE = np.uint64(1)
AHEAD = 16  # rows between the prefetch of an entry and its use


@device
def home(h0: Int, mask: Int) -> Int:
    """Where the search for a key with this first lane starts."""
    return np.int64(h0 >> HALF) & mask


@device
def value_of(second: Int) -> Int:
    """The number kept in an entry's second word."""
    return np.int64(second & LOW) - 1


@device
def seek(table: Words, mask: Int, h0: Int, h1: Int) -> Int:
    """Position of the key's entry, or ~position of the empty entry where it belongs."""
    tag = h0 >> HALF
    p = np.int64(tag) & mask
    while True:
        second = table[2 * p + 1]
        if second == 0:
            return ~p
        if second >> HALF == tag and table[2 * p] == h1:
            return p
        p = (p + 1) & mask


@device
def put(table: Words, p: Int, h0: Int, h1: Int, value: Int) -> None:
    """Write an entry."""
    table[2 * p] = h1
    table[2 * p + 1] = (h0 >> HALF << HALF) | np.uint64(value + 1)


@device
def drop(table: Words, mask: Int, p: Int) -> None:
    """Empty entry p and move its followers up, so that no search meets a gap."""
    hole = p
    q = (p + 1) & mask
    while True:
        second = table[2 * q + 1]
        if second == 0:
            break
        start = np.int64(second >> HALF) & mask
        # q may move into the hole unless its home lies behind the hole, up to q
        if ((q - start) & mask) >= ((q - hole) & mask):
            table[2 * hole] = table[2 * q]
            table[2 * hole + 1] = second
            hole = q
        q = (q + 1) & mask
    table[2 * hole + 1] = np.uint64(0)


@kernel
def rehash(old: Words, new: Words) -> None:
    """Copy every entry into an empty, larger (or smaller) table."""
    mask = new.size // 2 - 1
    for p in range(old.size // 2):
        second = old[2 * p + 1]
        if second == 0:
            continue
        q = np.int64(second >> HALF) & mask
        while new[2 * q + 1] != 0:
            q = (q + 1) & mask
        new[2 * q] = old[2 * p]
        new[2 * q + 1] = second


@kernel
def find(table: Words, address: Int, h0: Words, h1: Words, out: Numbers) -> None:
    """out[i] = the number of key i, -1 where the table has none. address: of table[0]."""
    mask = table.size // 2 - 1
    n = h0.size
    for i in range(n):
        if i + AHEAD < n:
            prefetch(address + 16 * home(h0[i + AHEAD], mask))
        p = seek(table, mask, h0[i], h1[i])
        out[i] = value_of(table[2 * p + 1]) if p >= 0 else -1


@kernel
def upsert(
    table: Words, address: Int, tags: Array, free: Numbers, numbers: Numbers,
    h0: Words, h1: Words, start: Int, out: Numbers, new_rows: Numbers,
) -> Int:  # fmt: skip
    """Number the keys from `start` on: known keys get theirs, new ones the next free slot.

    numbers: [slots ever given out, free slots, entries in the table, entries it may hold, new rows
    so far]; tags: uint32, first-lane tag by slot; free: stack of slots to use again;
    new_rows: positions of the keys that were new, in order.
    Returns where it stopped: n, or the first key for which there is no room in table or tags.
    """
    mask = table.size // 2 - 1
    n = h0.size
    slots, spare, count, limit, fresh = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    i = start
    while i < n:
        if i + AHEAD < n:
            prefetch(address + 16 * home(h0[i + AHEAD], mask))
        p = seek(table, mask, h0[i], h1[i])
        if p >= 0:
            out[i] = value_of(table[2 * p + 1])
        else:
            if count >= limit or (spare == 0 and slots >= tags.size):
                break
            if spare > 0:
                spare -= 1
                slot = free[spare]
            else:
                slot = slots
                slots += 1
            put(table, ~p, h0[i], h1[i], slot)
            tags[slot] = h0[i] >> HALF
            out[i] = slot
            new_rows[fresh] = i
            fresh += 1
            count += 1
        i += 1
    numbers[0], numbers[1], numbers[2], numbers[4] = slots, spare, count, fresh
    return i


@kernel
def remove(table: Words, tags: Array, slots: Numbers) -> Int:
    """Take the entries of these slots out. Returns how many were there."""
    mask = table.size // 2 - 1
    removed = 0
    for i in range(slots.size):
        slot = slots[i]
        p = np.int64(tags[slot]) & mask
        while True:
            second = table[2 * p + 1]
            if second == 0:
                break
            if value_of(second) == slot:
                drop(table, mask, p)
                removed += 1
                break
            p = (p + 1) & mask
    return removed


@kernel
def entries(table: Words, tags: Array, lanes: Words, slots: Numbers) -> Int:
    """Write out every entry: tag, second lane, slot. Returns how many."""
    n = 0
    for p in range(table.size // 2):
        second = table[2 * p + 1]
        if second != 0:
            tags[n] = second >> HALF
            lanes[n] = table[2 * p]
            slots[n] = value_of(second)
            n += 1
    return n


@kernel
def restore(table: Words, by_slot: Array, tags: Array, lanes: Words, slots: Numbers) -> None:
    """Inverse of `entries`, into an empty table; by_slot: uint32, tags by slot."""
    mask = table.size // 2 - 1
    for i in range(slots.size):
        p = np.int64(tags[i]) & mask
        while table[2 * p + 1] != 0:
            p = (p + 1) & mask
        put(table, p, np.uint64(tags[i]) << HALF, lanes[i], slots[i])
        by_slot[slots[i]] = tags[i]
