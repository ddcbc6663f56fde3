"""int2, int4, int8."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, Fixed, numbers
from streamsql_server.encoding.wire_type import BinaryEncoder, WireType


def _binary(arrow: pa.DataType, dtype: str) -> BinaryEncoder:
    def binary(column: pa.Array, type_: SqlType) -> Encoded:
        if column.type != arrow:  # a catalog column kept in a wider type
            column = column.cast(arrow)
        return Fixed(numbers(column, "<" + dtype).astype(">" + dtype), column)

    return binary


def parser(width: int, *, signed: bool = True) -> Callable[[bytes], int]:
    """Reads a big-endian number of exactly `width` bytes."""

    def parse_binary(data: bytes) -> int:
        if len(data) != width:
            raise ValueError(f"expected {width} bytes")
        return int.from_bytes(data, "big", signed=signed)

    return parse_binary


INT2 = WireType(
    21, "int2", 2, 1005, _binary(pa.int16(), "i2"), parser(2), text_value=str, plain=True
)
INT4 = WireType(
    23, "int4", 4, 1007, _binary(pa.int32(), "i4"), parser(4), text_value=str, plain=True
)
INT8 = WireType(
    20, "int8", 8, 1016, _binary(pa.int64(), "i8"), parser(8), text_value=str, plain=True
)
