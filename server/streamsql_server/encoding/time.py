"""time: µs since midnight."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql_server.encoding.calendar import DAY_US
from streamsql_server.encoding.integers import parser
from streamsql_server.encoding.pieces import Encoded, Fixed, numbers
from streamsql_server.encoding.wire_type import WireType

_read_int8 = parser(8)


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Eight bytes."""
    return Fixed(numbers(column.cast(pa.int64()), "<i8").astype(">i8"), column)


def parse_binary(data: bytes) -> Any:
    """A time; the text `24:00:00` for the day's end."""
    us = _read_int8(data)
    if us == DAY_US:
        return "24:00:00"
    if not 0 <= us < DAY_US:
        raise ValueError("time out of range")
    return (datetime.datetime.min + datetime.timedelta(microseconds=us)).time()


TIME = WireType(1083, "time", 8, 1183, binary, parse_binary, plain=True)
