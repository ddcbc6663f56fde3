"""HashTable: the memory under an index; see `hash_loops` for its layout."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.errors import ProgramLimitExceeded
from streamsql.kernels import hash_loops as loops
from streamsql.kernels.memory import Block, zeroed_block

Int64Array = npt.NDArray[np.int64]

FIRST_BITS = 4
LOAD = 0.55  # entries a place, as segments are on average just before they split


class HashTable:
    """Keys (two lanes) to numbers below 2^32 - 1, for kernels that take its `head`.

    A kernel that enters keys stops when there is no room; its caller then calls `grow` and lets it
    go on. Memory: 16 bytes a place, about 2 in 5 of them filled.
    """

    def __init__(self, expected: int = 0) -> None:
        self._words = np.zeros(loops.HEAD_WORDS, np.int64)
        self.head: int = pa.py_buffer(self._words).address
        self._start(expected)

    def _start(self, expected: int) -> None:
        wanted = max(int(expected / LOAD), 1)
        bits = min(max(FIRST_BITS, (wanted - 1).bit_length()), loops.MAX_BITS)
        depth = max(0, ((wanted - 1) >> loops.MAX_BITS).bit_length())
        self._words[:] = 0
        self._put(loops.BITS, bits)
        self._put(loops.DEPTH, depth)
        self._blocks: list[Block] = []
        self._segments = 0
        self._books: list[Int64Array] = []
        self._set_directory(np.zeros((1 << depth, 2), np.int64), depth)
        self._set_spares(np.zeros((0, 2), np.int64))
        segments = self._new_segments(1 << depth)
        loops.fill_directory(self.head, segments[: 1 << depth])
        self._set_spares(segments[1 << depth :].copy())

    def _put(self, field: int, value: int) -> None:
        self._words[field // 8] = value

    def _get(self, field: int) -> int:
        return int(self._words[field // 8])

    @property
    def count(self) -> int:
        """Entries."""
        return self._get(loops.COUNT)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(block.size for block in self._blocks) + int(self._directory.nbytes)

    def grow(self, pending: int = 0) -> None:
        """More room, after a kernel stopped; pending: keys still to come (most may be known)."""
        bits = self._get(loops.BITS)
        if bits < loops.MAX_BITS:
            wider = bits + (2 if pending > 2 << bits else 1)
            self._widen(min(wider, loops.MAX_BITS))
            return
        depth, room = self._get(loops.DEPTH), self._get(loops.ROOM_DEPTH)
        if depth == room:
            if depth == loops.DEPTH_MAX:
                raise ProgramLimitExceeded("a hash index can not grow any further")
            directory = np.empty((2 << depth, 2), np.int64)
            directory[: 1 << depth] = self._directory[: 1 << depth]
            self._set_directory(directory, depth + 1)
        spares = self._get(loops.SPARE_COUNT)
        if spares == 0:
            self._set_spares(self._new_segments(max(1, self._segments // 4)))

    def reserve(self, more: int) -> None:
        """Room for so many more entries at once, as far as that can be had ahead of them."""
        if self.count == 0 and more > self._places() * LOAD:
            self._start(more)

    def clear(self) -> None:
        """Forget all entries and give the memory back."""
        self._start(0)

    def entries(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64], Int64Array]:
        """(tag, second lane, number) of every entry."""
        n = self.count
        tags, lanes, values = np.empty(n, np.uint32), np.empty(n, np.uint64), np.empty(n, np.int64)
        loops.entries(self.head, tags, lanes, values)
        return tags, lanes, values

    def _places(self) -> int:
        return self._segments << self._get(loops.BITS)

    def _widen(self, bits: int) -> None:
        """Replace the only segment by a larger one."""
        old, old_places = self._blocks, 1 << self._get(loops.BITS)
        old_at = int(self._directory[0, 0])
        self._blocks, self._segments = [], 0
        self._put(loops.BITS, bits)
        loops.fill_directory(self.head, self._new_segments(1)[:1])
        loops.refill(self.head, old_at, old_places)
        del old

    def _new_segments(self, n: int) -> Int64Array:
        """At least n zeroed segments, in one block of memory: (places, books) int64[n, 2],
        addresses."""
        size = 16 << self._get(loops.BITS)
        block = zeroed_block(n * size)
        n = max(n, block.size // size)
        books = np.zeros((n, loops.BOOK_WORDS), np.int64)
        self._blocks.append(block)
        self._books.append(books)
        self._segments += n
        out = np.empty((n, 2), np.int64)
        out[:, 0] = block.address + size * np.arange(n)
        out[:, 1] = pa.py_buffer(books).address + books.strides[0] * np.arange(n)
        return out

    def _set_directory(self, directory: Int64Array, depth: int) -> None:
        self._directory = directory
        self._put(loops.DIRECTORY, pa.py_buffer(directory).address)
        self._put(loops.ROOM_DEPTH, depth)

    def _set_spares(self, spares: Int64Array) -> None:
        self._spares = spares
        self._put(loops.SPARES, pa.py_buffer(spares).address)
        self._put(loops.SPARE_COUNT, len(spares))
