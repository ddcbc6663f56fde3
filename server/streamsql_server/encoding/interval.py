"""interval: µs, days, months."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import Encoded, Fixed
from streamsql_server.encoding.wire_type import WireType

_ARROW_LAYOUT = np.dtype([("months", "<i4"), ("days", "<i4"), ("ns", "<i8")])
_WIRE_LAYOUT = np.dtype([("us", ">i8"), ("days", ">i4"), ("months", ">i4")])


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Sixteen bytes."""
    raw = np.frombuffer(column.buffers()[1], _ARROW_LAYOUT)
    raw = raw[column.offset : column.offset + len(column)]
    values = np.empty(len(column), _WIRE_LAYOUT)
    values["us"], values["days"], values["months"] = raw["ns"] // 1000, raw["days"], raw["months"]
    return Fixed(values, column)


def parse_binary(data: bytes) -> str:
    """Text with the three parts, as Python has no type for months.

    >>> parse_binary(struct.pack("!qii", -1_500_000, 2, 14))
    '14 months 2 days -1500000 microseconds'
    """
    us, days, months = struct.unpack("!qii", data)
    return f"{months} months {days} days {us} microseconds"


INTERVAL = WireType(1186, "interval", 16, 1187, binary, parse_binary)
