"""Encoded columns: what rows are joined from.

An encoder turns one Arrow column of n rows into `Fixed` (every value has the same width) or
`Pieces` (any length). Row assembly (`rows.py`) puts lengths in front and interleaves the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int32Array: TypeAlias = npt.NDArray[np.int32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]

NULL_LENGTH = -1


@dataclass(slots=True)
class Fixed:
    """Values of one width, none of them NULL.

    values: [n], any big-endian (or structured) dtype.
    """

    values: AnyArray


@dataclass(slots=True)
class Pieces:
    """Values of any length.

    lengths: int32 [n], bytes of each value, -1 for NULL. data: BinaryArray [n] without a validity
    bitmap, empty where NULL.
    """

    lengths: Int32Array
    data: pa.Array


Encoded: TypeAlias = Fixed | Pieces


def binary_array(offsets: AnyArray, data: AnyArray) -> pa.Array:
    """BinaryArray over these buffers. offsets: [n + 1]; data: any contiguous dtype."""
    raw = np.ascontiguousarray(data)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int32)), pa.py_buffer(raw)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def constant_width(values: AnyArray) -> pa.Array:
    """BinaryArray [n] of the raw bytes of each element."""
    width = values.dtype.itemsize
    offsets = np.arange(0, (len(values) + 1) * width, width, dtype=np.int32)
    return binary_array(offsets, values)


def valid_mask(column: pa.Array) -> BoolArray | None:
    """bool [n], True where a value is; None when there is no NULL at all."""
    if column.null_count == 0:
        return None
    mask: BoolArray = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def numbers(column: pa.Array, dtype: Any, arrow: pa.DataType | None = None) -> AnyArray:
    """The values buffer of a fixed-width column as numpy [n] (NULL slots hold anything).

    arrow: the integer type of the same width to read it as, when numpy has no such type.
    """
    if len(column) == 0:
        return np.empty(0, dtype)
    if arrow is not None and column.type != arrow:
        column = column.view(arrow)
    values = np.frombuffer(column.buffers()[1], dtype=dtype)
    return values[column.offset : column.offset + len(column)]


def offsets_of(column: pa.Array) -> Int32Array:
    """int32 [n + 1]: the offsets of a string or binary column."""
    if len(column) == 0:
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]


def from_fixed(values: AnyArray, valid: BoolArray | None) -> Encoded:
    """`Fixed` when all are there, else `Pieces` with the NULLs left out."""
    if valid is None:
        return Fixed(values)
    width = values.dtype.itemsize
    lengths = np.where(valid, np.int32(width), np.int32(NULL_LENGTH))
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.where(valid, width, 0), out=offsets[1:])
    return Pieces(lengths, binary_array(offsets, values[valid]))


def from_strings(column: pa.Array) -> Pieces:
    """`Pieces` over the buffers of a string or binary column, without a copy if possible."""
    n = len(column)
    offsets = offsets_of(column)
    lengths = np.diff(offsets)
    if column.null_count:
        valid = valid_mask(column)
        assert valid is not None
        if lengths[~valid].any():  # bytes under a NULL would shift the row
            column = column.fill_null(b"" if pa.types.is_binary(column.type) else "")
            offsets = offsets_of(column)
            lengths = np.diff(offsets)
        lengths = np.where(valid, lengths, np.int32(NULL_LENGTH))
    buffers = column.buffers() if n else [None, pa.py_buffer(offsets), pa.py_buffer(b"")]
    data_buffer = buffers[2] if buffers[2] is not None else pa.py_buffer(b"")
    data = pa.Array.from_buffers(
        pa.binary(), n, [None, buffers[1], data_buffer], offset=column.offset if n else 0
    )
    return Pieces(lengths, data)


def as_pieces(encoded: Encoded) -> Pieces:
    """`Fixed` written out as `Pieces`."""
    if isinstance(encoded, Pieces):
        return encoded
    values = encoded.values
    lengths = np.full(len(values), values.dtype.itemsize, np.int32)
    return Pieces(lengths, constant_width(values))


def as_bytes(encoded: Encoded) -> list[bytes | None]:
    """Each value by itself, for results of a few rows."""
    if isinstance(encoded, Fixed):
        raw, width = encoded.values.tobytes(), encoded.values.dtype.itemsize
        return [raw[at : at + width] for at in range(0, len(raw), width)]
    values = encoded.data.to_pylist()
    return [
        None if length < 0 else value
        for value, length in zip(values, encoded.lengths.tolist(), strict=True)
    ]
