"""Multimap: keys to all rows that have them, as chains through one array of next rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.errors import ProgramLimitExceeded
from streamsql.kernels.bits import prefetch
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hash_table import AHEAD
from streamsql.kernels.jit import Array, Int, kernel

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]

END = -1
UNLINKED = -2
ROWS_MAX = 2**31 - 1


@kernel
def _link(slots: Array, rows: Array, heads: Array, counts: Array, following: Array) -> None:
    """Put each row at the head of its key's chain."""
    for i in range(slots.size):
        s = slots[i]
        r = rows[i]
        following[r] = heads[s]
        heads[s] = r
        counts[s] += 1


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
    slots: Array, heads: Array, heads_address: Int, counts: Array, following: Array, weights: Array,
    out_probe: Array, out_row: Array,
) -> Int:  # fmt: skip
    """All (probe, live row) pairs; dead rows met on the way leave their chain.

    weights: Int64[rows], or empty when every row is alive. Returns the number of pairs.
    """
    n, m = slots.size, 0
    all_alive = weights.size == 0
    for i in range(n):
        if i + AHEAD < n and slots[i + AHEAD] >= 0:
            prefetch(heads_address + 4 * slots[i + AHEAD])
        s = slots[i]
        if s < 0:
            continue
        before = np.int64(END)
        r = np.int64(heads[s])
        while r >= 0:
            after = np.int64(following[r])
            if all_alive or weights[r] != 0:
                out_probe[m] = i
                out_row[m] = r
                m += 1
                before = r
            else:
                if before < 0:
                    heads[s] = after
                else:
                    following[before] = after
                following[r] = UNLINKED
                counts[s] -= 1
            r = after
    return m


class Multimap:
    """Rows by key. Keys are pairs of lanes, rows are numbers below 2^31 that the owner gives.

    Memory: a hash index entry and 8 bytes a key, 4 bytes a row.
    """

    def __init__(self) -> None:
        self.index = HashIndex()
        self._heads = np.empty(0, np.int32)
        self._counts = np.empty(0, np.int32)
        self._following = np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self._heads, self._counts, self._following)
        return self.index.nbytes + sum(a.nbytes for a in arrays)

    def link(self, h0: UInt64Array, h1: UInt64Array, rows: Int64Array) -> None:
        """Add rows under their keys. Each row is linked once.

        Raises: ProgramLimitExceeded (54000) for a row number beyond 2^31 - 1.
        """
        if not rows.size:
            return
        slots, _ = self.index.upsert(h0, h1)
        if self.index.num_slots > self._heads.size:
            size = 2 * self.index.num_slots + 16
            self._heads = _extended(self._heads, size, END)
            self._counts = _extended(self._counts, size, 0)
        top = int(rows.max())
        if top >= self._following.size:
            if top > ROWS_MAX:
                raise ProgramLimitExceeded("an indexed relation holds at most 2147483647 rows")
            self._following = _extended(self._following, 2 * top + 16, UNLINKED)
        _link(slots, rows, self._heads, self._counts, self._following)

    def unlinked(self, rows: Int64Array) -> BoolArray:
        """bool[n]: which of these rows are in no chain any more."""
        result: BoolArray = self._following[rows] == UNLINKED
        return result

    def probe(
        self, h0: UInt64Array, h1: UInt64Array, weights: Int64Array, skip: BoolArray
    ) -> tuple[Int64Array, Int64Array]:
        """Pairs (position in the probe int64[m], row int64[m]) of equal keys, live rows only.

        weights: by row; empty = all alive. skip: bool[n] or empty, probes that match nothing (NULL
        keys).
        """
        slots = self.index.find(h0, h1)
        bound = _count(slots, skip, self._counts)
        out_probe, out_row = np.empty(bound, np.int64), np.empty(bound, np.int64)
        if bound == 0:
            return out_probe, out_row
        m = _walk(
            slots, self._heads, pa.py_buffer(self._heads).address, self._counts,
            self._following, weights, out_probe, out_row,
        )  # fmt: skip
        return out_probe[:m], out_row[:m]


def _extended(array: npt.NDArray[np.int32], size: int, fill: int) -> npt.NDArray[np.int32]:
    out = np.full(size, fill, np.int32)
    out[: array.size] = array
    return out
