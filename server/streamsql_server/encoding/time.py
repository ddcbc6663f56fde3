"""time: `HH:MM:SS[.ffffff]`; µs since midnight."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import SqlType
from streamsql_server.encoding.calendar import DAY_US, clock_text
from streamsql_server.encoding.integers import parser
from streamsql_server.encoding.pieces import Encoded, from_fixed, numbers, valid_mask
from streamsql_server.encoding.wire_type import WireContext, WireType

_read_int8 = parser(8)


def text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    """Without trailing zeros; `24:00:00` is a time too."""
    micros = column.cast(pa.int64())
    valid = valid_mask(column)
    us = numbers(micros if valid is None else micros.fill_null(0), "<i8")
    out = clock_text(us % DAY_US)
    if (us == DAY_US).any():
        out = pc.if_else(pa.array(us == DAY_US), "24:00:00", out)
    return out if valid is None else pc.if_else(pa.array(valid), out, pa.scalar(None, pa.string()))


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Eight bytes."""
    return from_fixed(numbers(column.cast(pa.int64()), "<i8").astype(">i8"), valid_mask(column))


def parse_binary(data: bytes) -> Any:
    """A time; the text `24:00:00` for the day's end."""
    us = _read_int8(data)
    if us == DAY_US:
        return "24:00:00"
    if not 0 <= us < DAY_US:
        raise ValueError("time out of range")
    return (datetime.datetime.min + datetime.timedelta(microseconds=us)).time()


TIME = WireType(1083, "time", 8, 1183, text, binary, parse_binary, plain=True)
