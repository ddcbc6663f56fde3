"""Multimap: keys to all rows that have them, as doubly linked chains through one word a row.

The entry of a key in the hash table holds the first row of its chain. The word of a row:

    bits 0-30   the row behind it, END if it is the last
    bit  31     whether it is the first
    bits 32-63  the row before it; of the first one the tag of its key, which finds the entry

So linking, unlinking and probing a row touch one entry of the table and one word of each row
concerned, nothing else: where all of that is in no cache, this is what they cost. Kernels ask for
the entry of a row two strides ahead, and for the words that it leads to one stride ahead.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.errors import ProgramLimitExceeded
from streamsql.kernels.arrays import int64s, lengthen, room_for
from streamsql.kernels.bits import prefetch
from streamsql.kernels.hash_loops import (
    AHEAD,
    HALF,
    drop,
    enter,
    is_full,
    look_ahead,
    make_room,
    seek,
    seek_value,
    set_value,
    value_at,
)
from streamsql.kernels.hash_table import HashTable
from streamsql.kernels.jit import Array, Int, device, kernel

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]

NO_SKIP = np.empty(0, np.bool_)

END = 2**31 - 1
FIRST = 1 << 31
ROW = END  # the bits of the row behind
UNLINKED = (-1 << 32) | END
ROWS_MAX = END - 1
BLOCK = 64  # chains that are followed side by side
ROUNDS = 32  # rows of each that are asked for ahead of the walk
CACHED = 1 << 17  # words that stay in the processor's second cache (1 MB): nothing to ask for


@kernel
def _link(t: Int, words: Array, at: Int, h0: Array, h1: Array, rows: Array, start: Int) -> Int:
    """Put each row, from `start` on, before the others of its key; at: address of `words`.

    Returns where it stopped: n, or the first row for which the table has no room.
    """
    n = rows.size
    for i in range(start, n):
        if i + 2 * AHEAD < n:
            look_ahead(t, h0[i + 2 * AHEAD])
        if i + AHEAD < n:
            entry = seek(t, h0[i + AHEAD], h1[i + AHEAD])
            if entry > 0:
                prefetch(at + 8 * value_at(entry))
        r = rows[i]
        own = FIRST | (np.int64(h0[i] >> HALF) << 32)
        entry = seek(t, h0[i], h1[i])
        if entry > 0:
            behind = value_at(entry)
            words[behind] = (words[behind] & ROW) | (r << 32)
            words[r] = own | behind
            set_value(entry, r)
            continue
        if is_full(t, h0[i]):
            if not make_room(t, h0[i]):
                return i
            entry = seek(t, h0[i], h1[i])
        enter(t, -entry, h0[i], h1[i], r)
        words[r] = own | END
    return n


@device
def _look_around(t: Int, at: Int, word: Int) -> None:
    """Prefetch what taking out the row of this word will touch."""
    if word & ROW != END:
        prefetch(at + 8 * (word & ROW))
    if word & FIRST:
        look_ahead(t, np.uint64(word))
    elif word != UNLINKED:
        prefetch(at + 8 * (word >> 32))


@kernel
def _unlink(t: Int, words: Array, at: Int, rows: Array) -> None:
    """Take rows out of their chains (those in none are passed over), and keys without a row out of
    the table."""
    n = rows.size
    for i in range(n):
        if i + 2 * AHEAD < n:
            prefetch(at + 8 * rows[i + 2 * AHEAD])
        if i + AHEAD < n:
            _look_around(t, at, words[rows[i + AHEAD]])
        r = rows[i]
        word = words[r]
        if word == UNLINKED:
            continue
        words[r] = UNLINKED
        behind = word & ROW
        if behind != END:  # it gets the place of r
            words[behind] = (words[behind] & ROW) | (word & ~ROW)
        if not word & FIRST:
            before = word >> 32
            words[before] = (words[before] & ~ROW) | behind
            continue
        entry = seek_value(t, np.uint64(word) >> HALF, r)
        if behind != END:
            set_value(entry, behind)
        else:
            drop(t, entry)


@kernel
def _probe(
    t: Int, words: Array, at: Int, h0: Array, h1: Array, skip: Array, start: Int, found: Int,
    out_probe: Array, out_row: Array,
) -> tuple[Int, Int]:  # fmt: skip
    """Write (probe, row) pairs from probe `start` on, behind `found` pairs that are there.

    Returns (the first probe whose pairs found no room, or n; pairs that are there now).
    """
    n, m, room = h0.size, found, out_row.size
    rounds = ROUNDS if words.size > CACHED else 0
    first, chain = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    for base in range(start, n, BLOCK):
        end = min(base + BLOCK, n)
        for i in range(base, end):
            if i + AHEAD < n:
                look_ahead(t, h0[i + AHEAD])
            r = -1
            if not (skip.size and skip[i]):
                entry = seek(t, h0[i], h1[i])
                if entry > 0:
                    r = value_at(entry)
                    prefetch(at + 8 * r)
            first[i - base] = r
            chain[i - base] = END if r < 0 else r
        live = end - base
        for _ in range(rounds):
            going = 0
            for k in range(live):
                if chain[k] != END:
                    r = words[chain[k]] & ROW
                    if r != END:
                        prefetch(at + 8 * r)
                        chain[going] = r
                        going += 1
            live = going
            if live == 0:
                break
        for i in range(base, end):
            r = first[i - base]
            if r < 0:
                continue
            before = m
            while r != END:
                if m == room:
                    return i, before
                out_probe[m] = i
                out_row[m] = r
                m += 1
                r = words[r] & ROW
    return n, m


class Multimap:
    """Rows by key. Keys are pairs of lanes, rows are numbers below 2^31 - 1 that the owner gives.

    A row is linked once, and unlinked when it is gone; a key without rows is forgotten.
    Memory: a hash table's entry a key, 8 bytes a row.
    """

    def __init__(self) -> None:
        self._table = HashTable()
        self._words = np.empty(0, np.int64)

    @property
    def keys(self) -> int:
        """Keys that have rows."""
        return self._table.count

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._table.nbytes + self._words.nbytes

    def link(self, h0: UInt64Array, h1: UInt64Array, rows: Int64Array) -> None:
        """Add rows (in no chain now) under their keys; the last one of a key is found first.

        Raises: ProgramLimitExceeded (54000) for a row number beyond 2^31 - 2.
        """
        n = rows.size
        if not n:
            return
        rows = int64s(rows)
        top = int(rows.max())
        if top >= self._words.size:
            if top > ROWS_MAX:
                raise ProgramLimitExceeded("an indexed relation holds at most 2147483647 rows")
            lengthen(self, "_words", min(room_for(top + 1), ROWS_MAX + 1), UNLINKED)
        at = 0
        while True:
            at = _link(self._table.head, self._words, self._address(), h0, h1, rows, at)
            if at == n:
                return
            self._table.grow(n - at)

    def unlink(self, rows: Int64Array) -> None:
        """Take rows out of their keys' chains; a row that is in none is passed over."""
        if rows.size:
            _unlink(self._table.head, self._words, self._address(), int64s(rows))

    def probe(
        self, h0: UInt64Array, h1: UInt64Array, skip: BoolArray = NO_SKIP
    ) -> tuple[Int64Array, Int64Array]:
        """Pairs (position in the probe int64[m], row int64[m]) of equal keys, by position.

        skip: bool[n] or empty, probes that match nothing (NULL keys).
        """
        n, at, found = h0.size, 0, 0
        probes, rows = np.empty((2, n if self.keys else 0), np.int64)
        while rows.size:
            at, found = self._pairs(h0, h1, skip, at, found, probes, rows)
            if at == n:
                break
            likely = found * n // max(at, 1)  # if the other probes find as much
            size = rows.size
            more = np.empty((2, max(2 * size, min(likely + likely // 8, 32 * size))), np.int64)
            more[0, :found], more[1, :found] = probes[:found], rows[:found]
            probes, rows = more
        return probes[:found], rows[:found]

    def probe_parts(
        self, h0: UInt64Array, h1: UInt64Array, skip: BoolArray, most: int
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        """`probe`, at most so many pairs at a time; up to twice those of one probe that has
        more."""
        n, at = h0.size, 0
        size = min(n + 16, most)
        while at < n and self.keys:
            probes, rows = np.empty((2, size), np.int64)
            at, found = self._pairs(h0, h1, skip, at, 0, probes, rows)
            size = min(2 * size, most) if found else 2 * size
            if found:
                yield probes[:found], rows[:found]

    def _pairs(
        self, h0: UInt64Array, h1: UInt64Array, skip: BoolArray, at: int, found: int,
        probes: Int64Array, rows: Int64Array,
    ) -> tuple[int, int]:  # fmt: skip
        words, address = self._words, self._address()
        after: tuple[int, int] = _probe(
            self._table.head, words, address, h0, h1, skip, at, found, probes, rows
        )
        return after

    def _address(self) -> int:
        return int(pa.py_buffer(self._words).address)
