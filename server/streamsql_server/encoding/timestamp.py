"""timestamp and timestamptz: µs since 2000-01-01."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core import types
from streamsql.core.types import SqlType
from streamsql_server.encoding.calendar import (
    DAY_US,
    FIRST_DAY,
    INT64_MAX,
    LAST_DAY,
    PG_EPOCH_US,
)
from streamsql_server.encoding.integers import parser
from streamsql_server.encoding.pieces import Encoded, Fixed, numbers
from streamsql_server.encoding.wire_type import UTC, WireType, cast_text

_read_int8 = parser(8)
_INFINITE = INT64_MAX - DAY_US * 400  # what lies beyond is infinity in one spelling or another


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Eight bytes; infinity is the largest and the smallest number."""
    us = numbers(column.cast(pa.int64()), "<i8")
    infinite = (us > _INFINITE) | (us < -_INFINITE)
    values = np.where(infinite, 0, us) - PG_EPOCH_US
    if infinite.any():
        values[infinite] = np.where(us[infinite] > 0, INT64_MAX, -INT64_MAX - 1)
    return Fixed(values.astype(">i8"), column)


def _parser(type_: SqlType, zone: datetime.timezone | None) -> Callable[[bytes], Any]:
    def parse_binary(data: bytes) -> Any:
        """A datetime; text where Python has none (infinity, years beyond 1 to 9999)."""
        value = _read_int8(data)
        if value in (INT64_MAX, -INT64_MAX - 1):
            return "infinity" if value > 0 else "-infinity"
        us = value + PG_EPOCH_US
        if FIRST_DAY * DAY_US <= us < (LAST_DAY + 1) * DAY_US:
            start = datetime.datetime(1970, 1, 1, tzinfo=zone)
            return start + datetime.timedelta(microseconds=us)
        if abs(us) > _INFINITE:
            raise ValueError("timestamp out of range")
        return cast_text(pa.array([us], pa.int64()).view(type_.arrow), type_, UTC)[0].as_py()

    return parse_binary


def _text_value(value: datetime.datetime) -> str:
    shown = value.isoformat(" ")
    return shown.rstrip("0") if value.microsecond else shown


TIMESTAMP = WireType(
    1114, "timestamp", 8, 1115, binary, _parser(types.TIMESTAMP, None),
    text_value=_text_value, plain=True,
)  # fmt: skip
TIMESTAMPTZ = WireType(
    1184, "timestamptz", 8, 1185, binary, _parser(types.TIMESTAMPTZ, datetime.UTC), plain=True
)
