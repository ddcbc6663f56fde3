"""TextPool: every distinct text once, with a slot number that never changes while it is in use."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.kernels.arrays import int64s
from streamsql.kernels.bits import bit, load_i32, load_u8, load_u64, store_i32, store_u8, store_u64
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import hash_arrays
from streamsql.kernels.jit import Array, Int, device, kernel

Int64Array = npt.NDArray[np.int64]

BLOCK_BYTES = 1 << 16
COMPACT_MIN = 1 << 20  # garbage bytes before the texts are moved together


@device
def copy_bytes(source: Int, target: Int, size: Int) -> None:
    """Copy bytes between places that do not overlap, and no byte more."""
    i = 0
    while i + 8 <= size:
        store_u64(target + i, load_u64(source + i))
        i += 8
    while i < size:
        store_u8(target + i, load_u8(source + i))
        i += 1


@kernel
def _sizes(offsets: Int, rows: Array) -> Int:
    """Bytes of the texts in these rows."""
    total = 0
    for i in range(rows.size):
        total += load_i32(offsets + 4 * rows[i] + 4) - load_i32(offsets + 4 * rows[i])
    return total


@kernel
def _enter(
    offsets: Int, data: Int, rows: Array, slots: Array, target: Int, addresses: Array, sizes: Array
) -> None:
    """Copy the texts of these rows, one behind the other, to `target` and note where they are."""
    for i in range(rows.size):
        r = rows[i]
        start = load_i32(offsets + 4 * r)
        size = load_i32(offsets + 4 * r + 4) - start
        copy_bytes(data + start, target, size)
        addresses[slots[r]] = target
        sizes[slots[r]] = size
        target += size


@kernel
def _gather_offsets(sizes: Array, slots: Array, offsets: Int) -> Int:
    """int32 offsets of the texts in these slots (-1 = empty); returns the total."""
    total = 0
    store_i32(offsets, 0)
    for i in range(slots.size):
        if slots[i] >= 0:
            total += sizes[slots[i]]
        store_i32(offsets + 4 * i + 4, total)
    return total


@kernel
def _gather(addresses: Array, sizes: Array, slots: Array, target: Int) -> None:
    """The bytes of the texts in these slots, one behind the other."""
    for i in range(slots.size):
        if slots[i] >= 0:
            copy_bytes(addresses[slots[i]], target, sizes[slots[i]])
            target += sizes[slots[i]]


@kernel
def _move(addresses: Array, sizes: Array, slots: Array, target: Int) -> None:
    """Copy the texts of these slots to `target` and note their new places."""
    for i in range(slots.size):
        s = slots[i]
        copy_bytes(addresses[s], target, sizes[s])
        addresses[s] = target
        target += sizes[s]


@kernel
def prefix_words(offsets: Int, data: Int, valid: Int, valid_offset: Int, out: Array) -> None:
    """The first 8 bytes of each text as an int64 that orders like them; NULL = 0."""
    for i in range(out.size):
        out[i] = 0
        if not bit(valid, valid_offset + i):
            continue
        start, end = load_i32(offsets + 4 * i), load_i32(offsets + 4 * i + 4)
        value = np.uint64(0)
        for j in range(8):
            value <<= np.uint64(8)
            if start + j < end:
                value |= load_u8(data + start + j)
        out[i] = np.int64(value ^ np.uint64(0x8000000000000000))


class TextPool:
    """Texts (or byte strings) by slot, counted by their users.

    Memory: the bytes, 16 for the place, 8 for the count, and a hash index entry each. A text
    nobody holds is forgotten by `release`, its slot used again, and its bytes once they are half
    of all. One that may still be named somewhere (by the bounds of a tree's nodes) is retired
    first, and forgotten by `sweep`.
    """

    def __init__(self) -> None:
        self._index = HashIndex(reuse=True)
        self.addresses = np.zeros(16, np.int64)
        self.sizes = np.zeros(16, np.int64)
        self._held = np.zeros(16, np.int64)
        self._retired = np.zeros(16, np.bool_)
        self.retired = 0
        """Texts that wait for a `sweep`."""
        self._blocks: list[pa.Buffer] = []
        self._next, self._room = 0, 0  # address and bytes free in the last block
        self._live, self._garbage = 0, 0

    @property
    def count(self) -> int:
        """Distinct texts."""
        return self._index.count

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = self.addresses.nbytes + self.sizes.nbytes + self._held.nbytes
        return sum(b.size for b in self._blocks) + int(arrays) + self._index.nbytes

    def intern(self, array: pa.Array) -> Int64Array:
        """Slot of every text (string or binary array), int64[n]; NULL = -1. New texts are entered,
        held by none."""
        if array.null_count:
            slots = np.full(len(array), -1, np.int64)
            present = array.is_valid().to_numpy(zero_copy_only=False)
            slots[present] = self.intern(array.drop_null())
            return slots
        slots, new_rows = self._index.upsert_rows(*hash_arrays([array]))
        if new_rows.size:
            self._enter(array, slots, new_rows)
        return slots

    def _enter(self, array: pa.Array, slots: Int64Array, rows: Int64Array) -> None:
        if self._index.num_slots > self.sizes.size:
            size = 2 * self._index.num_slots
            self.addresses = _extended(self.addresses, size)
            self.sizes = _extended(self.sizes, size)
            self._held = _extended(self._held, size)
            retired = np.zeros(size, np.bool_)
            retired[: self._retired.size] = self._retired
            self._retired = retired
        _, offsets, data = array.buffers()
        at = offsets.address + 4 * array.offset
        needed = int(_sizes(at, rows))
        if needed > self._room:
            block = pa.allocate_buffer(max(needed, BLOCK_BYTES, self._live // 4))
            self._blocks.append(block)
            self._garbage += self._room
            self._next, self._room = block.address, block.size
        source = 0 if data is None else data.address
        _enter(at, source, rows, slots, self._next, self.addresses, self.sizes)
        self._next += needed
        self._room -= needed
        self._live += needed
        self._held[slots[rows]] = 0

    def hold(self, slots: Int64Array, by: Int64Array) -> None:
        """Change how often each text is held (slots may repeat; -1 is ignored)."""
        known = slots >= 0
        np.add.at(self._held, slots[known], by[known])

    def release(self, slots: Int64Array) -> None:
        """Forget those of these texts that nobody holds (slots may repeat; -1 is ignored)."""
        slots = np.unique(slots)
        self._forget(slots[(slots >= 0) & (self._held[slots] == 0) & ~self._retired[slots]])

    def retire(self, slots: Int64Array) -> None:
        """Nobody may hold these texts any more, but their slots are not to be used again yet."""
        known = np.unique(slots[slots >= 0])
        known = known[(self._held[known] == 0) & ~self._retired[known]]
        self._retired[known] = True
        self.retired += known.size

    def sweep(self, named: Int64Array) -> None:
        """Forget the retired texts that nobody holds and that are not among these slots."""
        waiting = np.flatnonzero(self._retired)
        self._retired[waiting[self._held[waiting] > 0]] = False
        waiting = waiting[self._held[waiting] == 0]
        free = waiting[~np.isin(waiting, named)]
        self._retired[free] = False
        self.retired = waiting.size - free.size
        self._forget(free)

    def _forget(self, free: Int64Array) -> None:
        if not free.size:
            return
        size = int(self.sizes[free].sum())
        self._live -= size
        self._garbage += size
        self._index.remove(free)
        if self._garbage > COMPACT_MIN and self._garbage > self._live:
            self._compact()

    def texts(self, slots: Int64Array, type_: pa.DataType) -> pa.Array:
        """The texts in these slots as an array of `type_` (string or binary); -1 = NULL."""
        slots, n = int64s(slots), slots.size
        offsets = pa.allocate_buffer(4 * (n + 1))
        total = _gather_offsets(self.sizes, slots, offsets.address)
        data = pa.allocate_buffer(total)
        _gather(self.addresses, self.sizes, slots, data.address)
        bitmap: Any = None
        if (slots < 0).any():
            bitmap = pa.py_buffer(np.packbits(slots >= 0, bitorder="little"))
        return pa.Array.from_buffers(type_, n, [bitmap, offsets, data])

    def _compact(self) -> None:
        """Move all texts into one new block."""
        slots = self._index.live_slots()
        block = pa.allocate_buffer(max(self._live + self._live // 4, BLOCK_BYTES))
        _move(self.addresses, self.sizes, slots, block.address)
        self._blocks = [block]
        self._next, self._room = block.address + self._live, block.size - self._live
        self._garbage = 0


def _extended(array: Int64Array, size: int) -> Int64Array:
    out = np.zeros(size, np.int64)
    out[: array.size] = array
    return out
