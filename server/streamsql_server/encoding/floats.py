"""float4, float8: IEEE numbers, big-endian."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, Fixed, numbers
from streamsql_server.encoding.wire_type import BinaryEncoder, WireType


def _binary(dtype: str) -> BinaryEncoder:
    def binary(column: pa.Array, type_: SqlType) -> Encoded:
        return Fixed(numbers(column, "<" + dtype).astype(">" + dtype), column)

    return binary


def _parser(layout: str) -> Callable[[bytes], float]:
    def parse_binary(data: bytes) -> float:
        value: float = struct.unpack(layout, data)[0]
        return value

    return parse_binary


def float8_text(value: float) -> str:
    """One float8 as PostgreSQL writes it.

    >>> [float8_text(x) for x in (1.0, 0.1, 1e-05, 1e15, 123456789012345.0, float("inf"))]
    ['1', '0.1', '1e-05', '1e+15', '123456789012345', 'Infinity']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    shown = repr(value)  # shortest digits too; exponents from 1e16 on and below 1e-4
    if shown.endswith(".0"):
        shown = shown[:-2]
    if 1e15 <= abs(value) < 1e16:
        digits = shown.lstrip("-").split(".")[0] + (shown.split(".")[1] if "." in shown else "")
        mantissa = (digits[0] + "." + digits[1:]).rstrip("0").rstrip(".")
        shown = ("-" if value < 0 else "") + mantissa + "e+15"
    return shown


FLOAT4 = WireType(700, "float4", 4, 1021, _binary("f4"), _parser("!f"), plain=True)
FLOAT8 = WireType(
    701, "float8", 8, 1022, _binary("f8"), _parser("!d"), text_value=float8_text, plain=True
)
