"""Arrays of every type: dimensions, then the elements."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import ArraySubscriptError, FeatureNotSupported
from streamsql.core.types import Kind, SqlType
from streamsql_server.encoding.pieces import (
    NULL_LENGTH,
    AnyArray,
    Encoded,
    Pieces,
    binary_array,
    compact,
    constant_width,
    offsets_of,
)
from streamsql_server.encoding.wire_type import WireType

MAX_DIMENSIONS = 6


def array_of(element: WireType, lower_bound: int = 1) -> WireType:
    """The array type over `element`."""

    def binary(column: pa.Array, type_: SqlType) -> Encoded:
        return _binary(column, type_, element, lower_bound)

    def parse_binary(data: bytes) -> list[Any]:
        return _parse(data, element)

    return WireType(
        element.array_oid,
        "_" + element.name,
        -1,
        0,
        binary if element.binary else None,
        parse_binary if element.parse_binary else None,
    )


def _element_type(type_: SqlType) -> SqlType:
    return type_.element if type_.kind is Kind.ARRAY and type_.element is not None else type_


def _lengths(column: pa.Array) -> AnyArray:
    """int64 [n]: elements in each list, 0 for NULL."""
    return pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype("i8")


def _offsets(lengths: AnyArray) -> AnyArray:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


# --- binary ---------------------------------------------------------------------------------------
def _binary(column: pa.Array, type_: SqlType, element: WireType, lower_bound: int) -> Encoded:
    dimensions, values, leaf_type = _dimensions(column, type_)
    assert element.binary is not None
    lengths, leaves = compact(element.binary(values, leaf_type))
    totals = np.prod(np.stack(dimensions), axis=0)
    offsets = _offsets(totals)
    nulls = _offsets((lengths < 0).astype(np.int64))
    has_null = nulls[offsets[1:]] > nulls[offsets[:-1]]
    head = _head(dimensions, totals, has_null, element.oid, lower_bound)
    body = _bodies(lengths, leaves, offsets)
    return Pieces(pc.binary_join_element_wise(head, body, pa.scalar(b"", pa.binary())), column)


def _dimensions(column: pa.Array, type_: SqlType) -> tuple[list[AnyArray], pa.Array, SqlType]:
    """Length of each row's array along each dimension (int64 [n] each), and the flat elements.

    Raises: ArraySubscriptError (2202E) when inner arrays of one row differ in length.
    """
    dimensions = [_lengths(column)]
    values, leaf_type = column.flatten(), _element_type(type_)
    counts = dimensions[0]
    while pa.types.is_list(values.type):
        inner = _lengths(values)
        bounds = _offsets(counts)
        filled = counts > 0
        starts = bounds[:-1][filled]
        size = np.zeros(len(counts), np.int64)
        if len(starts):
            size[filled] = np.maximum.reduceat(inner, starts)
            if (np.minimum.reduceat(inner, starts) != size[filled]).any():
                raise ArraySubscriptError(
                    "multidimensional arrays must have sub-arrays with matching dimensions"
                )
        dimensions.append(size)
        counts = counts * size
        values, leaf_type = values.flatten(), _element_type(leaf_type)
    if len(dimensions) > MAX_DIMENSIONS:
        raise FeatureNotSupported(f"arrays of more than {MAX_DIMENSIONS} dimensions")
    return dimensions, values, leaf_type


def _head(
    dimensions: list[AnyArray], totals: AnyArray, has_null: AnyArray, oid: int, lower_bound: int
) -> pa.Array:
    """Number of dimensions, NULL flag, element type, then length and lower bound of each."""
    n, count = len(totals), len(dimensions)
    head = np.empty((n, 3 + 2 * count), ">i4")
    filled = totals > 0
    head[:, 0] = np.where(filled, count, 0)
    head[:, 1] = has_null
    head[:, 2] = np.array(oid, np.uint32).astype(np.int32)
    for i, sizes in enumerate(dimensions):
        head[:, 3 + 2 * i] = sizes
        head[:, 4 + 2 * i] = lower_bound
    keep = np.ones(head.shape, bool)
    keep[~filled, 3:] = False
    return binary_array(_offsets(np.where(filled, head.shape[1], 3) * 4), head[keep])


def _bodies(lengths: AnyArray, leaves: pa.Array, offsets: AnyArray) -> pa.Array:
    """Length and bytes of each element, put together per array."""
    if len(lengths) == 0:
        return pa.array([b""] * (len(offsets) - 1), pa.binary())
    joined = pc.binary_join_element_wise(
        constant_width(lengths.astype(">i4")), leaves, pa.scalar(b"", pa.binary())
    )
    ends = offsets_of(joined)
    return pa.Array.from_buffers(
        pa.binary(),
        len(offsets) - 1,
        [None, pa.py_buffer(np.ascontiguousarray(ends[offsets])), joined.buffers()[2]],
    )


# --- parameters -----------------------------------------------------------------------------------
def _parse(data: bytes, element: WireType) -> list[Any]:
    count, _, _ = struct.unpack_from("!iiI", data)
    if not 0 <= count <= MAX_DIMENSIONS:
        raise ValueError("invalid number of dimensions")
    sizes = [struct.unpack_from("!ii", data, 12 + 8 * i)[0] for i in range(count)]
    if any(size < 0 for size in sizes):
        raise ValueError("negative array size")
    at = 12 + 8 * count
    values: list[Any] = []
    assert element.parse_binary is not None
    for _ in range(int(np.prod(sizes, dtype=object)) if sizes else 0):
        (length,) = struct.unpack_from("!i", data, at)
        at += 4
        if length == NULL_LENGTH:
            values.append(None)
            continue
        if length < 0 or at + length > len(data):
            raise ValueError("insufficient data in array")
        values.append(element.parse_binary(data[at : at + length]))
        at += length
    if at != len(data):
        raise ValueError("trailing data in array")
    for size in reversed(sizes[1:]):
        values = [values[i : i + size] for i in range(0, len(values), size)]
    return values
