"""Rows put together from encoded columns: the loops, compiled.

One pass over the columns adds up the length of every row, a second one writes them. Arrow memory
comes in as addresses; the caller keeps its owners alive. Column by column within a chunk of half a
megabyte, so that what is written stays in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

from streamsql_server.encoding.pieces import AnyArray, Encoded, Fixed

_FAR = 1 << 40  # more than any buffer holds: the offsets say how far to read


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(_context: Any, address: Any) -> Any:
    """An address as a pointer to bytes."""
    signature = types.CPointer(types.uint8)(address)  # type: ignore[attr-defined]

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(sig.return_type))

    return signature, generate


class Layout:
    """Where the columns of a chunk lie. All arrays int64 [columns].

    widths: bytes of each value, 0 = by offsets. offsets, data: addresses. bits: address of the
    validity bitmap (0 = no NULL), first_bits: which of its bits is row 0's.
    """

    def __init__(self, columns: Sequence[Encoded]) -> None:
        self._owners: list[Any] = [columns]
        described = [self._describe(column) for column in columns]
        table = np.array(described, np.int64).reshape(len(columns), 5)
        self.widths, self.offsets, self.data, self.bits, self.first_bits = (
            np.ascontiguousarray(table[:, i]) for i in range(5)
        )

    def _describe(self, column: Encoded) -> tuple[int, int, int, int, int]:
        bits = first = 0
        if column.nulls is not None and column.nulls.null_count:
            bitmap = column.nulls.buffers()[0]
            bits, first = bitmap.address, column.nulls.offset
        if isinstance(column, Fixed):
            values = np.ascontiguousarray(column.values)
            self._owners.append(values)
            return values.dtype.itemsize, 0, values.ctypes.data, bits, first
        _, offsets, data = column.data.buffers()
        start = offsets.address + 4 * column.data.offset
        return 0, start, data.address if data is not None else 0, bits, first


@numba.njit(nogil=True, cache=True)
def measure(n, base, null_size, widths, offsets, bits, first_bits, sizes):  # type: ignore[no-untyped-def]
    """sizes int64 [n]: base plus the bytes of each row's values, null_size for a NULL. Returns the
    largest and the sum."""
    for i in range(n):
        sizes[i] = base
    for j in range(len(widths)):
        valid = numba.carray(_pointer(bits[j]), _FAR)
        ends = numba.carray(_pointer(offsets[j]), 4 * (n + 1)).view(np.int32)
        for i in range(n):
            if bits[j] != 0:
                bit = first_bits[j] + i
                if (valid[bit >> 3] >> (bit & 7)) & 1 == 0:
                    sizes[i] += null_size
                    continue
            sizes[i] += widths[j] if widths[j] != 0 else ends[i + 1] - ends[i]
    largest = total = np.int64(0)
    for i in range(n):
        largest = max(largest, sizes[i])
        total += sizes[i]
    return largest, total


@numba.njit(nogil=True, cache=True)
def write_rows(n, tag, sizes, widths, offsets, data, bits, first_bits, out):  # type: ignore[no-untyped-def]
    """DataRow messages, or COPY BINARY tuples: tag, size, column count, then length and bytes of
    each value. out: uint8 [sum of sizes + n]."""
    count = len(widths)
    at = np.empty(n, np.int64)
    position = np.int64(0)
    for i in range(n):
        out[position] = tag
        _big_endian(out, position + 1, sizes[i])
        out[position + 5] = count >> 8
        out[position + 6] = count & 255
        at[i] = position + 7
        position += sizes[i] + 1
    for j in range(count):
        valid = numba.carray(_pointer(bits[j]), _FAR)
        ends = numba.carray(_pointer(offsets[j]), 4 * (n + 1)).view(np.int32)
        source = numba.carray(_pointer(data[j]), _FAR)
        for i in range(n):
            place = at[i]
            at[i] = place + 4
            if bits[j] != 0:
                bit = first_bits[j] + i
                if (valid[bit >> 3] >> (bit & 7)) & 1 == 0:
                    _big_endian(out, place, -1)
                    continue
            if widths[j] != 0:
                start, length = i * widths[j], widths[j]
            else:
                start, length = np.int64(ends[i]), np.int64(ends[i + 1] - ends[i])
            _big_endian(out, place, length)
            for k in range(length):
                out[place + 4 + k] = source[start + k]
            at[i] += length


@numba.njit(nogil=True, cache=True)
def write_lines(n, tag, delimiter, null, sizes, offsets, data, bits, first_bits, out):  # type: ignore[no-untyped-def]
    """CopyData messages of one line each: values with delimiters between and a line feed behind.

    null: uint8 [k], what stands for NULL. out: uint8 [sum of sizes + n].
    """
    count = len(offsets)
    at = np.empty(n, np.int64)
    position = np.int64(0)
    for i in range(n):
        out[position] = tag
        _big_endian(out, position + 1, sizes[i])
        at[i] = position + 5
        position += sizes[i] + 1
        out[position - 1] = 10
    for j in range(count):
        valid = numba.carray(_pointer(bits[j]), _FAR)
        ends = numba.carray(_pointer(offsets[j]), 4 * (n + 1)).view(np.int32)
        source = numba.carray(_pointer(data[j]), _FAR)
        for i in range(n):
            place = at[i]
            if j > 0:
                out[place] = delimiter
                place += 1
            is_null = False
            if bits[j] != 0:
                bit = first_bits[j] + i
                is_null = (valid[bit >> 3] >> (bit & 7)) & 1 == 0
            if is_null:
                for k in range(len(null)):
                    out[place + k] = null[k]
                at[i] = place + len(null)
            else:
                start, length = np.int64(ends[i]), np.int64(ends[i + 1] - ends[i])
                for k in range(length):
                    out[place + k] = source[start + k]
                at[i] = place + length


@numba.njit(nogil=True, inline="always")
def _big_endian(out, place, value):  # type: ignore[no-untyped-def]
    """Four bytes at `place`."""
    out[place] = (value >> 24) & 255
    out[place + 1] = (value >> 16) & 255
    out[place + 2] = (value >> 8) & 255
    out[place + 3] = value & 255


def data_rows(columns: Sequence[Encoded], n: int, tag: int, largest: int) -> AnyArray | None:
    """uint8: the messages of n rows; None when one of them would be longer than `largest`."""
    layout = Layout(columns)
    sizes = np.empty(n, np.int64)
    longest, total = measure(
        n, 6 + 4 * len(columns), 0,
        layout.widths, layout.offsets, layout.bits, layout.first_bits, sizes,
    )  # fmt: skip
    if longest > largest:
        return None
    out = np.empty(total + n, np.uint8)
    write_rows(
        n, tag, sizes,
        layout.widths, layout.offsets, layout.data, layout.bits, layout.first_bits, out,
    )  # fmt: skip
    return out


def lines(columns: Sequence[Encoded], n: int, tag: int, delimiter: int, null: bytes) -> AnyArray:
    """uint8: the messages of n lines of text."""
    layout = Layout(columns)
    sizes = np.empty(n, np.int64)
    base = 4 + max(len(columns), 1)
    _, total = measure(
        n, base, len(null),
        layout.widths, layout.offsets, layout.bits, layout.first_bits, sizes,
    )  # fmt: skip
    out = np.empty(total + n, np.uint8)
    write_lines(
        n, tag, delimiter, np.frombuffer(null, np.uint8).copy(), sizes,
        layout.offsets, layout.data, layout.bits, layout.first_bits, out,
    )  # fmt: skip
    return out


def _rows_on_the_wire() -> None:
    import pyarrow as pa

    from streamsql_server.encoding.pieces import from_strings

    columns = [from_strings(pa.array(["a", None]))]
    data_rows(columns, 2, 0, 1 << 20)
    lines(columns, 2, 0, 0, b"")


EXERCISES = (("rows on the wire", _rows_on_the_wire),)
"""What compiles the loops before a client waits for them; see `streamsql.warm_up`."""
