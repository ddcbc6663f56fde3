"""date: days since 2000-01-01."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.types import DATE as DATE_TYPE
from streamsql.core.types import SqlType
from streamsql_server.encoding.calendar import (
    FIRST_DAY,
    INT32_MAX,
    LAST_DAY,
    PG_EPOCH_DAYS,
)
from streamsql_server.encoding.integers import parser
from streamsql_server.encoding.pieces import AnyArray, Encoded, Fixed, numbers
from streamsql_server.encoding.wire_type import UTC, WireType, cast_text

_read_int4 = parser(4)


def _days(column: pa.Array) -> AnyArray:
    filled = column.cast(pa.int32())
    return numbers(filled if not filled.null_count else filled.fill_null(0), np.int32)


def binary(column: pa.Array, type_: SqlType) -> Encoded:
    """Four bytes; infinity is the largest and the smallest number."""
    days = _days(column)
    values = (days.astype(np.int64) - PG_EPOCH_DAYS).astype(">i4")
    odd = np.abs(days.astype(np.int64)) >= INT32_MAX
    if odd.any():
        values[odd] = np.where(days[odd] > 0, INT32_MAX, -INT32_MAX - 1)
    return Fixed(values, column)


def parse_binary(data: bytes) -> Any:
    """A date; text where Python has none (infinity, years beyond 1 to 9999)."""
    days = _read_int4(data)
    if days in (INT32_MAX, -INT32_MAX - 1):
        return "infinity" if days > 0 else "-infinity"
    since_1970 = days + PG_EPOCH_DAYS
    if FIRST_DAY <= since_1970 <= LAST_DAY:
        return datetime.date(1970, 1, 1) + datetime.timedelta(since_1970)
    if abs(since_1970) >= INT32_MAX:
        raise ValueError("date out of range")
    return cast_text(pa.array([since_1970], pa.int32()).view(pa.date32()), DATE_TYPE, UTC)[
        0
    ].as_py()


def _text_value(value: datetime.date) -> str:
    return value.isoformat()


DATE = WireType(1082, "date", 4, 1182, binary, parse_binary, text_value=_text_value, plain=True)
