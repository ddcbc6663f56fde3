"""Encoded columns: what rows are put together from.

An encoder turns one Arrow column of n rows into `Fixed` (every value has the same width) or
`Pieces` (any length). Row assembly (`assembly.py`) puts lengths in front and interleaves the
columns; NULLs are read from the validity bitmap of `nulls`, whatever lies under them is skipped.
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
    """Values of one width. values: [n], any big-endian (or structured) dtype; nulls: the column
    whose NULLs these are, None = there are none."""

    values: AnyArray
    nulls: pa.Array | None = None


@dataclass(slots=True)
class Pieces:
    """Values of any length. data: string or binary array [n]; nulls: as in `Fixed`."""

    data: pa.Array
    nulls: pa.Array | None = None


Encoded: TypeAlias = Fixed | Pieces


def from_strings(column: pa.Array) -> Pieces:
    """A string or binary column as it lies."""
    return Pieces(column, column)


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


def numbers(column: pa.Array, dtype: Any) -> AnyArray:
    """The values buffer of a fixed-width column as numpy [n] (NULL slots hold anything)."""
    if len(column) == 0:
        return np.empty(0, dtype)
    values = np.frombuffer(column.buffers()[1], dtype=dtype)
    return values[column.offset : column.offset + len(column)]


def offsets_of(column: pa.Array) -> Int32Array:
    """int32 [n + 1]: the offsets of a string or binary column."""
    if len(column) == 0:
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]


def compact(encoded: Encoded) -> tuple[Int32Array, pa.Array]:
    """Lengths (int32 [n], -1 for NULL), and a BinaryArray [n] that is empty where NULL is."""
    valid = valid_mask(encoded.nulls) if encoded.nulls is not None else None
    if isinstance(encoded, Fixed):
        data = constant_width(encoded.values)
    else:
        data = encoded.data.cast(pa.binary())
    lengths = np.diff(offsets_of(data))
    if valid is not None:
        import pyarrow.compute as pc

        data = pc.if_else(pa.array(valid), data, pa.scalar(b"", pa.binary()))
        lengths = np.where(valid, lengths, np.int32(NULL_LENGTH))
    return lengths, data


def as_bytes(encoded: Encoded) -> list[bytes | None]:
    """Each value by itself, for results of a few rows."""
    values: list[bytes | None]
    if isinstance(encoded, Fixed):
        raw, width = encoded.values.tobytes(), encoded.values.dtype.itemsize
        values = [raw[at : at + width] for at in range(0, len(raw), width)]
    elif pa.types.is_string(encoded.data.type):
        values = [None if v is None else v.encode() for v in encoded.data.to_pylist()]
    else:
        values = encoded.data.to_pylist()
    valid = valid_mask(encoded.nulls) if encoded.nulls is not None else None
    if valid is None:
        return values
    return [value if there else None for value, there in zip(values, valid.tolist(), strict=True)]
