"""The columns of a column store: chunks of 65536 rows, exported to Arrow without a copy.

A chunk is written only behind the rows it already has, so what was exported stays as it was. Row
numbers, chunk numbers and positions inside a chunk are ints; `n` values go in at a time and never
cross a chunk's end (the store cuts the batch).
"""

from __future__ import annotations

import abc
import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.errors import ProgramLimitExceeded
from streamsql.kernels import columns as loops
from streamsql.kernels.columns import CHUNK_BITS, CHUNK_ROWS

Int64Array = npt.NDArray[np.int64]

FIRST_ROWS = 64  # a small store starts small; its first chunk doubles up to the full size
ARENA_LIMIT = 2**31 - 1  # bytes that int32 offsets reach
SLACK = 8  # bytes behind an arena's end that gathers may read


def zeroed(size: int) -> pa.Buffer:
    """A mutable buffer of zero bytes."""
    buffer = pa.allocate_buffer(size)
    ctypes.memset(buffer.address, 0, size)
    return buffer


def enlarged(buffer: pa.Buffer, used: int, size: int) -> pa.Buffer:
    """A larger buffer with the first `used` bytes copied; the old one stays with its readers."""
    new = pa.allocate_buffer(size)
    ctypes.memmove(new.address, buffer.address, used)
    return new


class Column(abc.ABC):
    """One column: appended to by chunk, gathered from by row, exported by chunk."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_

    @abc.abstractmethod
    def append(self, array: pa.Array, chunk: int, at: int) -> None:
        """Write the values as rows at, at + 1, … of the chunk, which may be the next new one. At 0
        the chunk begins anew, in new memory."""

    @abc.abstractmethod
    def release(self, chunk: int) -> None:
        """Let go of the chunk's memory; its next append is at 0."""

    @abc.abstractmethod
    def take(self, rows: Int64Array, negative: bool) -> pa.Array:
        """The values of these rows; negative: rows below 0 may occur and give NULL."""

    @abc.abstractmethod
    def export(self, chunk: int, n: int) -> list[pa.Array]:
        """The first n rows of a chunk as Arrow, without a copy."""

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Bytes held."""


class ChunkedColumn(Column):
    """Base of columns in chunks of our own: validity, and tables of addresses for the kernels."""

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self.capacity: list[int] = []  # rows that each chunk has room for
        self.valid: list[Any] = []  # pa.Buffer; None = no NULL, or released
        self.valid_at = np.zeros(4, np.int64)
        self.data: list[Any] = []  # pa.Buffer; None = released
        self.data_at = np.zeros(4, np.int64)
        self.has_nulls = False

    def room(self, chunk: int, at: int, n: int) -> None:
        """See that the chunk exists and has room for rows up to at + n; at 0 it begins anew."""
        if at == 0:
            if chunk == len(self.capacity):
                self.capacity.append(0)
                self.valid.append(None)
                self.data.append(None)
                if chunk == self.data_at.size:
                    self.data_at = np.concatenate([self.data_at, np.zeros(chunk, np.int64)])
                    self.valid_at = np.concatenate([self.valid_at, np.zeros(chunk, np.int64)])
            self.capacity[chunk] = CHUNK_ROWS if chunk else min(CHUNK_ROWS, _rounded(n))
            self.valid[chunk] = None
            self.valid_at[chunk] = 0
            self.open_chunk(chunk)
        elif at + n > self.capacity[chunk]:
            old = self.capacity[chunk]
            self.capacity[chunk] = min(CHUNK_ROWS, _rounded(max(at + n, 2 * at)))
            self.grow_chunk(chunk, at)
            bitmap = self.valid[chunk]
            if bitmap is not None:
                size = self.capacity[chunk] // 8 + 1
                self.set_valid(chunk, enlarged(bitmap, (old + 7) // 8, size))

    def release(self, chunk: int) -> None:
        self.data[chunk] = self.valid[chunk] = None
        self.data_at[chunk] = self.valid_at[chunk] = 0

    def set_data(self, chunk: int, buffer: pa.Buffer) -> None:
        """Make this the chunk's data buffer."""
        self.data[chunk] = buffer
        self.data_at[chunk] = buffer.address

    def set_valid(self, chunk: int, buffer: pa.Buffer) -> None:
        """Make this the chunk's validity bitmap."""
        self.valid[chunk] = buffer
        self.valid_at[chunk] = buffer.address

    def append_validity(self, array: pa.Array, chunk: int, at: int) -> None:
        """Note which of the values are NULL; a chunk without NULLs keeps no bitmap."""
        n = len(array)
        if array.null_count:
            bitmap = self.valid[chunk]
            if bitmap is None:
                bitmap = zeroed(self.capacity[chunk] // 8 + 1)
                loops.copy_bits(0, 0, bitmap.address, 0, at)
                self.set_valid(chunk, bitmap)
                self.has_nulls = True
            source = array.buffers()[0]
            loops.copy_bits(source.address, array.offset, bitmap.address, at, n)
        elif self.valid[chunk] is not None:
            loops.copy_bits(0, 0, self.valid_at[chunk], at, n)

    def out_validity(self, n: int, negative: bool) -> pa.Buffer | None:
        """A zeroed bitmap for n gathered rows, or None when none of them can be NULL."""
        return zeroed((n + 7) // 8) if self.has_nulls or negative else None

    @abc.abstractmethod
    def open_chunk(self, chunk: int) -> None:
        """Allocate the chunk's buffers, for its `capacity`."""

    @abc.abstractmethod
    def grow_chunk(self, chunk: int, used: int) -> None:
        """Enlarge the chunk's buffers to its `capacity`; `used` rows are filled."""

    @property
    def nbytes(self) -> int:
        return sum(b.size for b in (*self.data, *self.valid) if b is not None)


class FixedColumn(ChunkedColumn):
    """Values of 1, 2, 4, 8 or 16 bytes each."""

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self.width = type_.bit_width // 8

    def open_chunk(self, chunk: int) -> None:
        self.set_data(chunk, pa.allocate_buffer(self.capacity[chunk] * self.width))

    def grow_chunk(self, chunk: int, used: int) -> None:
        size = self.capacity[chunk] * self.width
        self.set_data(chunk, enlarged(self.data[chunk], used * self.width, size))

    def append(self, array: pa.Array, chunk: int, at: int) -> None:
        n, width = len(array), self.width
        if at == 0 or at + n > self.capacity[chunk]:
            self.room(chunk, at, n)
        source = array.buffers()[1].address + array.offset * width
        ctypes.memmove(self.data[chunk].address + at * width, source, n * width)
        if array.null_count or self.valid[chunk] is not None:
            self.append_validity(array, chunk, at)

    def take(self, rows: Int64Array, negative: bool) -> pa.Array:
        n = rows.size
        out = pa.allocate_buffer(n * self.width)
        bitmap = self.out_validity(n, negative) if negative or self.has_nulls else None
        bits = 0 if bitmap is None else bitmap.address
        nulls = loops.gather_fixed(self.data_at, self.valid_at, self.width, rows, out.address, bits)
        return pa.Array.from_buffers(self.type, n, [bitmap, out], nulls)

    def export(self, chunk: int, n: int) -> list[pa.Array]:
        return [pa.Array.from_buffers(self.type, n, [self.valid[chunk], self.data[chunk]])]


class BitColumn(ChunkedColumn):
    """Booleans, one bit each."""

    def open_chunk(self, chunk: int) -> None:
        self.set_data(chunk, zeroed(self.capacity[chunk] // 8 + 1))

    def grow_chunk(self, chunk: int, used: int) -> None:
        size = self.capacity[chunk] // 8 + 1
        self.set_data(chunk, enlarged(self.data[chunk], (used + 7) // 8, size))

    def append(self, array: pa.Array, chunk: int, at: int) -> None:
        n = len(array)
        self.room(chunk, at, n)
        source = array.buffers()[1].address
        loops.copy_bits(source, array.offset, self.data_at[chunk], at, n)
        self.append_validity(array, chunk, at)

    def take(self, rows: Int64Array, negative: bool) -> pa.Array:
        n = rows.size
        out = zeroed((n + 7) // 8)
        bitmap = self.out_validity(n, negative)
        nulls = loops.gather_bits(self.data_at, self.valid_at, rows, out.address, _address(bitmap))
        return pa.Array.from_buffers(self.type, n, [bitmap, out], nulls)

    def export(self, chunk: int, n: int) -> list[pa.Array]:
        return [pa.Array.from_buffers(self.type, n, [self.valid[chunk], self.data[chunk]])]


class BytesColumn(ChunkedColumn):
    """Text and bytea: int32 offsets into one arena a chunk (`data`).

    A chunk whose values pass 2 GB turns wide: its offsets get 8 bytes, and its export becomes a
    copy in several arrays.
    """

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self.offsets: list[Any] = []
        self.offsets_at = np.zeros(4, np.int64)
        self.wide = np.zeros(4, np.bool_)
        self.used: list[int] = []  # bytes in each chunk's arena

    def open_chunk(self, chunk: int) -> None:
        if chunk == len(self.offsets):
            self.offsets.append(None)
            self.used.append(0)
            if chunk == self.offsets_at.size:
                self.offsets_at = np.concatenate([self.offsets_at, np.zeros(chunk, np.int64)])
                self.wide = np.concatenate([self.wide, np.zeros(chunk, np.bool_)])
        capacity = self.capacity[chunk]
        self._set_offsets(chunk, zeroed(4 * (capacity + 1)), 4)
        self.set_data(chunk, pa.allocate_buffer(4 * capacity + SLACK))
        self.used[chunk] = 0

    def grow_chunk(self, chunk: int, used: int) -> None:
        self._widen(chunk, 8 if self.wide[chunk] else 4, used)

    def release(self, chunk: int) -> None:
        super().release(chunk)
        self.offsets[chunk] = None
        self.offsets_at[chunk] = 0

    def _set_offsets(self, chunk: int, buffer: pa.Buffer, width: int) -> None:
        self.offsets[chunk] = buffer
        self.offsets_at[chunk] = buffer.address
        self.wide[chunk] = width == 8

    def _widen(self, chunk: int, width: int, used: int) -> None:
        """Reallocate a chunk's offsets for its capacity and this width."""
        old_width = 8 if self.wide[chunk] else 4
        new = pa.allocate_buffer(width * (self.capacity[chunk] + 1))
        loops.copy_offsets(int(self.offsets_at[chunk]), old_width, used, new.address, width, 0)
        self._set_offsets(chunk, new, width)

    def append(self, array: pa.Array, chunk: int, at: int) -> None:
        n = len(array)
        self.room(chunk, at, n)
        _, offsets, data = array.buffers()
        source = offsets.address + 4 * array.offset
        ends = np.frombuffer(offsets, np.int32, n + 1, 4 * array.offset)
        first, last = int(ends[0]), int(ends[n])
        used = self.used[chunk]
        needed = used + last - first
        if needed > ARENA_LIMIT and not self.wide[chunk]:
            self._widen(chunk, 8, at)
        arena = self.data[chunk]
        if needed + SLACK > arena.size:
            self.set_data(chunk, enlarged(arena, used, 2 * needed + SLACK))
        width = 8 if self.wide[chunk] else 4
        target = int(self.offsets_at[chunk]) + width * at
        loops.copy_offsets(source, 4, n, target, width, used)
        if last > first:
            ctypes.memmove(int(self.data_at[chunk]) + used, data.address + first, last - first)
        self.used[chunk] = needed
        self.append_validity(array, chunk, at)

    def take(self, rows: Int64Array, negative: bool) -> pa.Array:
        n = rows.size
        offsets = pa.allocate_buffer(4 * (n + 1))
        bitmap = self.out_validity(n, negative)
        nulls, total = loops.gather_offsets(
            self.offsets_at, self.wide, self.valid_at, rows,
            offsets.address, _address(bitmap), ARENA_LIMIT,
        )  # fmt: skip
        if total > ARENA_LIMIT:
            raise ProgramLimitExceeded("a batch of rows holds more than 2 GB of text")
        out = pa.allocate_buffer(total + SLACK)
        loops.gather_bytes(
            self.offsets_at, self.wide, self.data_at, rows, offsets.address, out.address
        )
        return pa.Array.from_buffers(self.type, n, [bitmap, offsets, out], nulls)

    def places(self) -> Int64Array:
        """By chunk: where its offsets are, 1 if they have 8 bytes, where its bytes are."""
        n = len(self.offsets)
        out = np.empty((n, 3), np.int64)
        out[:, 0], out[:, 1], out[:, 2] = self.offsets_at[:n], self.wide[:n], self.data_at[:n]
        return out

    def export(self, chunk: int, n: int) -> list[pa.Array]:
        buffers = [self.valid[chunk], self.offsets[chunk], self.data[chunk]]
        if not self.wide[chunk]:
            return [pa.Array.from_buffers(self.type, n, buffers)]
        large = pa.large_string() if self.type == pa.string() else pa.large_binary()
        whole = pa.Array.from_buffers(large, n, buffers)
        offsets = np.frombuffer(self.offsets[chunk], np.int64, n + 1)
        parts, start = [], 0
        while start < n:
            end = int(np.searchsorted(offsets, offsets[start] + ARENA_LIMIT, "right")) - 1
            end = min(max(end, start + 1), n)
            parts.append(whole.slice(start, end - start).cast(self.type))
            start = end
        return parts

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(b.size for b in self.offsets if b is not None)


class ArrowColumn(Column):
    """Nested types: Arrow arrays as they came, small ones merged so that their number stays
    small."""

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self.parts: list[list[pa.Array]] = []  # by chunk

    def append(self, array: pa.Array, chunk: int, at: int) -> None:
        if chunk == len(self.parts):
            self.parts.append([])
        elif at == 0:
            self.parts[chunk] = []
        parts = self.parts[chunk]
        # concatenating copies: a slice would keep its whole parent alive
        parts.append(pa.concat_arrays([array.slice(0, 0), array]))
        while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]):
            last = parts.pop()
            parts[-1] = pa.concat_arrays([parts[-1], last])

    def release(self, chunk: int) -> None:
        self.parts[chunk] = []

    def take(self, rows: Int64Array, negative: bool) -> pa.Array:
        # Arrow's take of a chunked array would first join all chunks; ours touches only parts with
        # rows
        parts, starts = [], []
        for chunk, own in enumerate(self.parts):
            start = chunk << CHUNK_BITS
            for part in own:
                parts.append(part)
                starts.append(start)
                start += len(part)
        owner = np.searchsorted(np.array(starts, np.int64), rows, "right") - 1
        taken, position = [], np.empty(rows.size, np.int64)
        done = 0
        for number in np.unique(owner):
            mine = np.flatnonzero(owner == number)
            if number < 0:
                taken.append(pa.nulls(mine.size, self.type))
            else:
                taken.append(parts[number].take(pa.array(rows[mine] - starts[number])))
            position[mine] = np.arange(done, done + mine.size)
            done += mine.size
        if len(taken) == 1:
            return taken[0]
        return pa.concat_arrays(taken or [pa.array([], self.type)]).take(pa.array(position))

    def export(self, chunk: int, n: int) -> list[pa.Array]:
        parts, out = self.parts[chunk], []
        for part in parts:
            if n <= 0:
                break
            out.append(part if len(part) <= n else part.slice(0, n))
            n -= len(part)
        return out

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for chunk in self.parts for part in chunk)


def column_for(type_: pa.DataType) -> Column:
    """The column that keeps values of this Arrow type."""
    if type_ == pa.bool_():
        return BitColumn(type_)
    if type_ in (pa.string(), pa.binary()):
        return BytesColumn(type_)
    if pa.types.is_decimal128(type_) or pa.types.is_primitive(type_):
        return FixedColumn(type_)
    return ArrowColumn(type_)


def _address(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else int(buffer.address)


def _rounded(n: int) -> int:
    return max(FIRST_ROWS, 1 << (n - 1).bit_length())
