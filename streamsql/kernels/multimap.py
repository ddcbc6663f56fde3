"""Multimap: keys to all rows that have them, as doubly linked chains through arrays by row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.errors import ProgramLimitExceeded
from streamsql.kernels.arrays import int64s, lengthen, room_for
from streamsql.kernels.bits import prefetch
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hash_loops import AHEAD
from streamsql.kernels.jit import Array, Int, kernel

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]

NO_WEIGHTS = np.empty(0, np.int64)
NO_SKIP = np.empty(0, np.bool_)

END = -1
UNLINKED = -(2**31)
ROWS_MAX = 2**31 - 2


@kernel
def _link(
    slots: Array, rows: Array, heads: Array, counts: Array, following: Array, previous: Array
) -> None:
    """Put each row at the head of its key's chain. The head's `previous` is ~slot."""
    for i in range(slots.size):
        s = slots[i]
        r = rows[i]
        head = heads[s]
        following[r] = head
        previous[r] = ~s
        if head >= 0:
            previous[head] = r
        heads[s] = r
        counts[s] += 1


@kernel
def _unlink(rows: Array, heads: Array, following: Array, previous: Array, empty: Array) -> Int:
    """Take rows out of their chains (those in none are passed over); empty: slots left without a
    row. Returns how many."""
    n = 0
    for i in range(rows.size):
        r = rows[i]
        before, after = np.int64(previous[r]), np.int64(following[r])
        if before == UNLINKED:
            continue
        if after >= 0:
            previous[after] = before
        if before >= 0:
            following[before] = after
        else:
            heads[~before] = after
            if after < 0:
                empty[n] = ~before
                n += 1
        previous[r] = UNLINKED
    return n


@kernel
def _count(slots: Array, skip: Array, counts: Array) -> Int:
    """Upper bound of the matches; the slots of skipped probes become -1."""
    total = 0
    for i in range(slots.size):
        if skip.size and skip[i]:
            slots[i] = -1
        if slots[i] >= 0:
            total += counts[slots[i]]
    return total


@kernel
def _walk(
    slots: Array, heads: Array, heads_address: Int, counts: Array, following: Array,
    out_probe: Array, out_row: Array,
) -> Int:  # fmt: skip
    """All (probe, row) pairs. Returns their number."""
    n, m = slots.size, 0
    for i in range(n):
        if i + AHEAD < n and slots[i + AHEAD] >= 0:
            prefetch(heads_address + 4 * slots[i + AHEAD])
        s = slots[i]
        if s < 0:
            continue
        start = m
        r = np.int64(heads[s])
        while r >= 0:
            out_probe[m] = i
            out_row[m] = r
            m += 1
            r = np.int64(following[r])
        counts[s] = m - start  # rows that were taken out are still counted in until now
    return m


class Multimap:
    """Rows by key. Keys are pairs of lanes, rows are numbers below 2^31 - 1 that the owner gives.

    A row is linked once, and unlinked when it is gone; a key without rows is forgotten.
    Memory: a hash index entry and 8 bytes a key, 8 bytes a row.
    """

    def __init__(self) -> None:
        self.index = HashIndex(reuse=True)
        self._heads = np.empty(0, np.int32)
        self._counts = np.empty(0, np.int32)
        self._following = np.empty(0, np.int32)
        self._previous = np.empty(0, np.int32)

    @property
    def keys(self) -> int:
        """Keys that have rows."""
        return self.index.count

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self._heads, self._counts, self._following, self._previous)
        return self.index.nbytes + sum(a.nbytes for a in arrays)

    def link(self, h0: UInt64Array, h1: UInt64Array, rows: Int64Array) -> None:
        """Add rows (in no chain now) under their keys.

        Raises: ProgramLimitExceeded (54000) for a row number beyond 2^31 - 2.
        """
        if not rows.size:
            return
        rows = int64s(rows)
        slots, new_rows = self.index.upsert_rows(h0, h1)
        if self.index.num_slots > self._heads.size:
            size = room_for(self.index.num_slots)
            lengthen(self, "_heads", size, END)
            lengthen(self, "_counts", size)
        if new_rows.size:
            self._counts[slots[new_rows]] = 0
        top = int(rows.max())
        if top >= self._following.size:
            if top > ROWS_MAX:
                raise ProgramLimitExceeded("an indexed relation holds at most 2147483647 rows")
            size = min(room_for(top + 1), ROWS_MAX + 1)
            lengthen(self, "_following", size, END)
            lengthen(self, "_previous", size, UNLINKED)
        _link(slots, rows, self._heads, self._counts, self._following, self._previous)

    def unlink(self, rows: Int64Array) -> None:
        """Take rows out of their keys' chains; a row that is in none is passed over."""
        if not rows.size:
            return
        empty = np.empty(rows.size, np.int64)
        n = _unlink(int64s(rows), self._heads, self._following, self._previous, empty)
        if n:
            self.index.remove(empty[:n])

    def sizes(self, h0: UInt64Array, h1: UInt64Array) -> Int64Array:
        """How many rows each key has at most, int64[n]: what `probe` needs room for."""
        slots = self.index.find(h0, h1)
        if not self._counts.size:
            return np.zeros(slots.size, np.int64)
        return np.where(slots >= 0, self._counts[np.maximum(slots, 0)], 0).astype(np.int64)

    def probe(
        self,
        h0: UInt64Array,
        h1: UInt64Array,
        weights: Int64Array = NO_WEIGHTS,
        skip: BoolArray = NO_SKIP,
    ) -> tuple[Int64Array, Int64Array]:
        """Pairs (position in the probe int64[m], row int64[m]) of equal keys.

        weights: by row, rows of weight 0 are left out; empty = none is. skip: bool[n] or empty,
        probes that match nothing (NULL keys).
        """
        slots = self.index.find(h0, h1)
        bound = _count(slots, skip, self._counts)
        out_probe, out_row = np.empty(bound, np.int64), np.empty(bound, np.int64)
        if bound == 0:
            return out_probe, out_row
        address = pa.py_buffer(self._heads).address
        m = _walk(slots, self._heads, address, self._counts, self._following, out_probe, out_row)
        if weights.size:
            alive = weights[out_row[:m]] != 0
            return out_probe[:m][alive], out_row[:m][alive]
        return out_probe[:m], out_row[:m]
