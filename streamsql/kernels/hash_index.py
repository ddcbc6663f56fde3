"""HashIndex: keys (as two lanes) to dense slot numbers, which index the arrays of their owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.errors import DataCorrupted, ProgramLimitExceeded
from streamsql.kernels import hash_loops as loops
from streamsql.kernels import hashing
from streamsql.kernels.arrays import int64s
from streamsql.kernels.hash_table import HashTable

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
State = Mapping[str, pa.Table]
Scalar = TypeVar("Scalar", bound=np.generic)

SLOTS_MAX = 2**32 - 2


class HashIndex:
    """Hash table from two 64-bit lanes to slot numbers 0, 1, 2, …

    reuse: a removed key's slot is given to the next new key, so that arrays indexed by slot stay as
    long as the most keys ever alive; without it slots only grow. expected: keys to make room for.
    Memory: 16 bytes a place of which about half are filled, and 4 bytes a slot.
    """

    def __init__(self, reuse: bool = False, expected: int = 0) -> None:
        self.reuse = reuse
        self._table = HashTable(expected)
        self._tags = np.empty(max(expected, 16), np.uint32)
        self._free = np.empty(8, np.int64)
        # slots given out, free slots, new rows: what `upsert` reads and writes
        self._numbers = np.zeros(3, np.int64)

    @property
    def count(self) -> int:
        """Keys in the index."""
        return self._table.count

    @property
    def num_slots(self) -> int:
        """Slots ever given out: the length that arrays indexed by slot need."""
        return int(self._numbers[0])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self._table.nbytes + self._tags.nbytes + self._free.nbytes)

    def __len__(self) -> int:
        return self.count

    def find(self, h0: UInt64Array, h1: UInt64Array) -> Int64Array:
        """Slot of every key, int64[n]; -1 = absent."""
        out = np.empty(h0.size, np.int64)
        loops.find(self._table.head, h0, h1, out)
        return out

    def upsert(self, h0: UInt64Array, h1: UInt64Array) -> tuple[Int64Array, int]:
        """(slot of every key int64[n], first_new): absent keys are added.

        Without `reuse`, new keys have the slots first_new, first_new + 1, … in order of their
        first appearance.
        """
        first_new = self.num_slots
        return self.upsert_rows(h0, h1)[0], first_new

    def upsert_rows(self, h0: UInt64Array, h1: UInt64Array) -> tuple[Int64Array, Int64Array]:
        """(slot of every key int64[n], rows int64[k] where a new key appeared for the first time).

        Raises: ProgramLimitExceeded (54000) beyond 2^32 - 2 slots.
        """
        n = h0.size
        out, new_rows = np.empty(n, np.int64), np.empty(n, np.int64)
        self._numbers[2] = 0
        at = 0
        while True:
            at = loops.upsert(
                self._table.head, self._tags, self._free, self._numbers, h0, h1, at, out, new_rows
            )
            if at == n:
                return out, new_rows[: self._numbers[2]]
            self._grow(n - at)

    def remove(self, slots: Int64Array) -> int:
        """Take the keys of these (distinct) slots out; returns how many there were.

        With `reuse` the slots are given out again. Raises: DataCorrupted (XX001) when a slot has no
        key and slots are reused: it would be given out twice.
        """
        slots = int64s(slots)
        removed = int(loops.remove(self._table.head, self._tags, slots))
        if self.reuse:
            if removed != slots.size:
                raise DataCorrupted("a slot was removed that holds no key")
            spare = int(self._numbers[1])
            if spare + removed > self._free.size:
                self._free = _resized(self._free, spare + removed)
            self._free[spare : spare + removed] = slots
            self._numbers[1] = spare + removed
        return removed

    def clear(self) -> None:
        """Forget everything, slots too."""
        self.__init__(self.reuse)  # type: ignore[misc]

    def reserve(self, more: int) -> None:
        """Make room for so many more keys at once; only an empty index takes notice."""
        self._table.reserve(more)

    def live_slots(self) -> Int64Array:
        """Slots that hold a key, ascending."""
        return np.sort(self._table.entries()[2])

    def save(self) -> State:
        """The keys and their slots as Arrow tables; see `load`."""
        tags, lanes, slots = self._table.entries()
        keys = pa.table({"tag": tags, "lane": lanes, "slot": slots})
        free = pa.table({"slot": self._free[: self._numbers[1]].copy()})
        head = {
            "slots": pa.array([self.num_slots], pa.int64()),
            "reuse": pa.array([self.reuse]),
            "hash_key": pa.array([hashing.key_fingerprint()], pa.int64()),
        }
        return {"keys": keys, "free": free, "head": pa.table(head)}

    @classmethod
    def load(cls, state: State) -> HashIndex:
        """The index that `save` saw. Raises: DataCorrupted (XX001) under another hash key."""
        head = state["head"]
        if head["hash_key"][0].as_py() != hashing.key_fingerprint():
            raise DataCorrupted("saved index was made under another hash key")
        keys = state["keys"]
        self = cls(head["reuse"][0].as_py(), expected=keys.num_rows)
        slots = head["slots"][0].as_py()
        self._tags = np.empty(max(slots, self._tags.size), np.uint32)
        tag, lane, slot = (keys[name].to_numpy().copy() for name in ("tag", "lane", "slot"))
        at = 0
        while at < slot.size:
            at = loops.restore(self._table.head, self._tags, tag, lane, slot, at)
            if at < slot.size:
                self._table.grow(slot.size - at)
        free = state["free"]["slot"].to_numpy()
        self._free = _resized(free.copy(), free.size)
        self._numbers[:2] = (slots, free.size)
        return self

    def _grow(self, pending: int) -> None:
        """More room in table or tags; `pending` keys are still to come (most may be known)."""
        slots, spare = int(self._numbers[0]), int(self._numbers[1])
        if spare == 0 and slots >= self._tags.size:
            if slots >= SLOTS_MAX:
                raise ProgramLimitExceeded("an index holds at most 4294967294 keys")
            self._tags = _resized(self._tags, 2 * slots + 8)
        else:
            self._table.grow(pending)


def _resized(array: npt.NDArray[Scalar], size: int) -> npt.NDArray[Scalar]:
    """A copy of at least this size (rounded up), the rest undefined."""
    out = np.empty(max(8, 1 << max(size - 1, 1).bit_length()), array.dtype)
    out[: array.size] = array
    return out
