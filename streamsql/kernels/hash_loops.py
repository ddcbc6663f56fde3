"""The loops of `hash_table`: extendible hashing over segments of open addressing.

An entry is two words: the key's second lane, and tag << 32 | (value + 1), where tag is the upper
half of the first lane and value a number below 2^32 - 1 (a slot or a row); 0 = empty. So a key is
told by 96 bits of its lanes (an 8-byte key exactly: it *is* the second lane), four entries fill a
cache line, and entries can be moved without the keys.

The upper bits of the tag choose the segment (by the directory), the lower ones the place in it,
where search is linear. A full segment is split in two; its limit differs from segment to segment,
so that they do not all fill up at once: growing never takes longer than copying one segment.

A table is known by the address `t` of its head, int64[8], see the names below. The directory has
two addresses a prefix: of the segment's places, and of its books int64[4] = [entries, depth,
limit, unused], which are together so that counting costs no cache miss.
"""

from __future__ import annotations

import numpy as np

from streamsql.kernels.bits import load_i64, load_u64, mum, prefetch, store_i64, store_u64
from streamsql.kernels.jit import Array, Int, Word, device, kernel

DEPTH, BITS, COUNT, DIRECTORY, ROOM_DEPTH, SPARES, SPARE_COUNT = (8 * i for i in range(7))
"""Depth of the directory; log2 of a segment's places; entries; the directory and the depth it has
room for; stack of spare segments (zeroed places, books) and its height."""
HEAD_WORDS = 8
MAX_BITS = 12  # a table of one segment grows by doubling up to this, then by splitting
ENTRIES, OWN_DEPTH, LIMIT = 0, 8, 16
BOOK_WORDS = 4
DEPTH_MAX = 20

HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
SPREAD = np.uint64(0x9E3779B97F4A7C15)
AHEAD = 16  # rows between the prefetch of an entry and its use


@device
def places_of(t: Int, tag: Word) -> Int:
    """Address of the places of the segment that keys of this tag belong to."""
    index = np.int64(tag) >> (32 - load_i64(t + DEPTH))
    return load_i64(load_i64(t + DIRECTORY) + 16 * index)


@device
def books_of(t: Int, tag: Word) -> Int:
    """Address of the books of that segment."""
    index = np.int64(tag) >> (32 - load_i64(t + DEPTH))
    return load_i64(load_i64(t + DIRECTORY) + 16 * index + 8)


@device
def look_ahead(t: Int, h0: Word) -> None:
    """Prefetch where the search for a key with this first lane starts."""
    tag = h0 >> HALF
    mask = (1 << load_i64(t + BITS)) - 1
    prefetch(places_of(t, tag) + 16 * (np.int64(tag) & mask))


@device
def value_at(entry: Int) -> Int:
    """The number kept in an entry."""
    return np.int64(load_u64(entry + 8) & LOW) - 1


@device
def set_value(entry: Int, value: Int) -> None:
    """Replace the number kept in an entry."""
    store_u64(entry + 8, (load_u64(entry + 8) >> HALF << HALF) | np.uint64(value + 1))


@device
def seek(t: Int, h0: Word, h1: Word) -> Int:
    """Address of the key's entry, or minus the address of the empty place where it belongs."""
    tag = h0 >> HALF
    base = places_of(t, tag)
    mask = (1 << load_i64(t + BITS)) - 1
    p = np.int64(tag) & mask
    while True:
        entry = base + 16 * p
        second = load_u64(entry + 8)
        if second == 0:
            return -entry
        if second >> HALF == tag and load_u64(entry) == h1:
            return entry
        p = (p + 1) & mask


@device
def seek_value(t: Int, tag: Word, value: Int) -> Int:
    """Address of the entry with this tag and number; 0 if there is none."""
    base = places_of(t, tag)
    mask = (1 << load_i64(t + BITS)) - 1
    p = np.int64(tag) & mask
    wanted = (tag << HALF) | np.uint64(value + 1)
    while True:
        entry = base + 16 * p
        second = load_u64(entry + 8)
        if second == wanted:
            return entry
        if second == 0:
            return 0
        p = (p + 1) & mask


@device
def enter(t: Int, place: Int, h0: Word, h1: Word, value: Int) -> None:
    """Write an entry into the empty place that `seek` gave; the segment must not be full."""
    books = books_of(t, h0 >> HALF)
    store_i64(books, load_i64(books) + 1)
    store_i64(t + COUNT, load_i64(t + COUNT) + 1)
    store_u64(place, h1)
    store_u64(place + 8, (h0 >> HALF << HALF) | np.uint64(value + 1))


@device
def drop(t: Int, entry: Int) -> None:
    """Empty an entry and move its followers up, so that no search meets a gap."""
    tag = load_u64(entry + 8) >> HALF
    books, base = books_of(t, tag), places_of(t, tag)
    store_i64(books, load_i64(books) - 1)
    store_i64(t + COUNT, load_i64(t + COUNT) - 1)
    mask = (1 << load_i64(t + BITS)) - 1
    hole = (entry - base) >> 4
    q = (hole + 1) & mask
    while True:
        second = load_u64(base + 16 * q + 8)
        if second == 0:
            break
        start = np.int64(second >> HALF) & mask
        # q may move into the hole unless its home lies behind the hole, up to q
        if ((q - start) & mask) >= ((q - hole) & mask):
            store_u64(base + 16 * hole, load_u64(base + 16 * q))
            store_u64(base + 16 * hole + 8, second)
            hole = q
        q = (q + 1) & mask
    store_u64(base + 16 * hole + 8, np.uint64(0))


@device
def is_full(t: Int, h0: Word) -> bool:
    """Whether the key's segment must be split before it takes another entry."""
    books = books_of(t, h0 >> HALF)
    return load_i64(books) >= load_i64(books + LIMIT)


@device
def make_room(t: Int, h0: Word) -> bool:
    """Split the key's segment until it is not full. False: more memory is needed first."""
    while is_full(t, h0):
        if load_i64(t + BITS) < MAX_BITS or load_i64(t + SPARE_COUNT) == 0:
            return False
        tag = h0 >> HALF
        depth = load_i64(books_of(t, tag) + OWN_DEPTH)
        if depth == load_i64(t + DEPTH):
            if depth == load_i64(t + ROOM_DEPTH):
                return False
            _deepen(t)
        _split(t, depth, np.int64(tag) >> (32 - depth))
    return True


@device
def _deepen(t: Int) -> None:
    """Double the directory."""
    directory, depth = load_i64(t + DIRECTORY), load_i64(t + DEPTH)
    for i in range((1 << depth) - 1, -1, -1):
        places, books = load_i64(directory + 16 * i), load_i64(directory + 16 * i + 8)
        store_i64(directory + 32 * i, places)
        store_i64(directory + 32 * i + 8, books)
        store_i64(directory + 32 * i + 16, places)
        store_i64(directory + 32 * i + 24, books)
    store_i64(t + DEPTH, depth + 1)


@device
def set_books(books: Int, depth: Int, prefix: Int, places: Int) -> None:
    """Books of an empty segment. Its limit lies between 7/16 and 11/16 of the places, by its
    prefix."""
    store_i64(books + ENTRIES, 0)
    store_i64(books + OWN_DEPTH, depth)
    part = mum(np.uint64(prefix * 64 + depth + 1), SPREAD) >> np.uint64(44)  # 20 bits
    limit = (7 * places >> 4) + ((places // 4) * np.int64(part) >> 20)
    store_i64(books + LIMIT, limit)


@device
def _split(t: Int, depth: Int, prefix: Int) -> None:
    """Divide a segment's entries by the next bit of their tags; the directory is deep enough.

    One walk from an empty place on: what comes was displaced only by what came before, so each
    entry finds its new place near at hand, and those that stay never go behind their old place.
    """
    spares = load_i64(t + SPARE_COUNT) - 1
    store_i64(t + SPARE_COUNT, spares)
    spare = load_i64(t + SPARES) + 16 * spares
    other, other_books = load_i64(spare), load_i64(spare + 8)
    span = 1 << (load_i64(t + DEPTH) - depth)
    directory = load_i64(t + DIRECTORY) + 16 * prefix * span
    base, books = load_i64(directory), load_i64(directory + 8)
    places = 1 << load_i64(t + BITS)
    mask = places - 1
    set_books(books, depth + 1, 2 * prefix, places)
    set_books(other_books, depth + 1, 2 * prefix + 1, places)
    shift = np.uint64(63 - depth)
    empty = 0
    while load_u64(base + 16 * empty + 8) != 0:
        empty += 1
    stayed, moved = 0, 0
    for k in range(1, places):
        entry = base + 16 * ((empty + k) & mask)
        second = load_u64(entry + 8)
        if second == 0:
            continue
        first = load_u64(entry)
        store_u64(entry + 8, np.uint64(0))
        if (second >> shift) & np.uint64(1):
            _move_in(other, mask, first, second)
            moved += 1
        else:
            _move_in(base, mask, first, second)
            stayed += 1
    store_i64(books, stayed)
    store_i64(other_books, moved)
    for i in range(span // 2, span):
        store_i64(directory + 16 * i, other)
        store_i64(directory + 16 * i + 8, other_books)


@device
def _move_in(base: Int, mask: Int, first: Word, second: Word) -> None:
    """Put an entry into a segment's places."""
    p = np.int64(second >> HALF) & mask
    while load_u64(base + 16 * p + 8) != 0:
        p = (p + 1) & mask
    store_u64(base + 16 * p, first)
    store_u64(base + 16 * p + 8, second)


@kernel
def fill_directory(t: Int, segments: Array) -> None:
    """Make 2^depth empty (zeroed) segments the whole table; segments: int64[2^depth, 2]."""
    depth, bits = load_i64(t + DEPTH), load_i64(t + BITS)
    for i in range(len(segments)):
        store_i64(load_i64(t + DIRECTORY) + 16 * i, segments[i, 0])
        store_i64(load_i64(t + DIRECTORY) + 16 * i + 8, segments[i, 1])
        set_books(segments[i, 1], depth, i, 1 << bits)


@kernel
def refill(t: Int, old: Int, old_places: Int) -> None:
    """Move the entries of an old single segment into the table's one new segment."""
    base, books = places_of(t, np.uint64(0)), books_of(t, np.uint64(0))
    mask = (1 << load_i64(t + BITS)) - 1
    n = 0
    for i in range(old_places):
        second = load_u64(old + 16 * i + 8)
        if second != 0:
            _move_in(base, mask, load_u64(old + 16 * i), second)
            n += 1
    store_i64(books, n)


@kernel
def find(t: Int, h0: Array, h1: Array, out: Array) -> None:
    """out[i] = the number of key i, -1 where the table has none."""
    n = h0.size
    for i in range(n):
        if i + AHEAD < n:
            look_ahead(t, h0[i + AHEAD])
        entry = seek(t, h0[i], h1[i])
        out[i] = value_at(entry) if entry > 0 else -1


@kernel
def upsert(
    t: Int, tags: Array, free: Array, numbers: Array,
    h0: Array, h1: Array, start: Int, out: Array, new_rows: Array,
) -> Int:  # fmt: skip
    """Number the keys from `start` on: known keys get theirs, new ones the next free slot.

    numbers: [slots ever given out, free slots, new rows so far]; tags: uint32 by slot; free: stack
    of slots to use again; new_rows: positions of the keys that were new, in order.
    Returns where it stopped: n, or the first key for which there is no room in table or tags.
    """
    n = h0.size
    slots, spare, fresh = numbers[0], numbers[1], numbers[2]
    i = start
    while i < n:
        if i + AHEAD < n:
            look_ahead(t, h0[i + AHEAD])
        entry = seek(t, h0[i], h1[i])
        if entry > 0:
            out[i] = value_at(entry)
        else:
            if spare == 0 and slots >= tags.size:
                break
            if is_full(t, h0[i]):
                if not make_room(t, h0[i]):
                    break
                entry = seek(t, h0[i], h1[i])
            if spare > 0:
                spare -= 1
                slot = free[spare]
            else:
                slot = slots
                slots += 1
            enter(t, -entry, h0[i], h1[i], slot)
            tags[slot] = h0[i] >> HALF
            out[i] = slot
            new_rows[fresh] = i
            fresh += 1
        i += 1
    numbers[0], numbers[1], numbers[2] = slots, spare, fresh
    return i


@kernel
def remove(t: Int, tags: Array, slots: Array) -> Int:
    """Take the entries of these slots out. Returns how many were there."""
    removed = 0
    for i in range(slots.size):
        if i + AHEAD < slots.size:
            look_ahead(t, np.uint64(tags[slots[i + AHEAD]]) << HALF)
        entry = seek_value(t, np.uint64(tags[slots[i]]), slots[i])
        if entry > 0:
            drop(t, entry)
            removed += 1
    return removed


@kernel
def entries(t: Int, tags: Array, lanes: Array, values: Array) -> Int:
    """Write out every entry: tag, second lane, number. Returns how many."""
    n, before = 0, 0
    places = 1 << load_i64(t + BITS)
    for d in range(1 << load_i64(t + DEPTH)):
        base = load_i64(load_i64(t + DIRECTORY) + 16 * d)
        if base == before:
            continue
        before = base
        for p in range(places):
            entry = base + 16 * p
            second = load_u64(entry + 8)
            if second != 0:
                tags[n] = second >> HALF
                lanes[n] = load_u64(entry)
                values[n] = value_at(entry)
                n += 1
    return n


@kernel
def restore(t: Int, by_slot: Array, tags: Array, lanes: Array, values: Array, start: Int) -> Int:
    """Inverse of `entries`, from `start` on; by_slot: uint32, tags by slot. Returns where it
    stopped: n, or the first entry for which there is no room."""
    for i in range(start, values.size):
        h0 = np.uint64(tags[i]) << HALF
        if is_full(t, h0) and not make_room(t, h0):
            return i
        entry = seek(t, h0, lanes[i])
        enter(t, -entry, h0, lanes[i], values[i])
        by_slot[values[i]] = tags[i]
    return values.size
