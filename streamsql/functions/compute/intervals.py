"""INTERVAL columns: parts, order, arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import DatetimeFieldOverflow
from streamsql.functions.compute.columns import (
    MONTH_DAY_NANO,
    Value,
    column,
    validity,
    with_nulls_at,
)
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.calendar import US_PER_DAY
from streamsql.functions.textio.output import interval_parts

Parts = tuple[Any, Any, Any]
"""(months, days, µs): int64 [n] each."""


def parts_of(array: pa.Array) -> Parts:
    """The three parts of an INTERVAL column."""
    raw = interval_parts(array)
    return (
        raw["months"].astype(np.int64),
        raw["days"].astype(np.int64),
        raw["ns"] // 1000,
    )


def from_parts(months: Any, days: Any, us: Any, valid: pa.Buffer | None = None) -> pa.Array:
    """An INTERVAL column."""
    n = max(np.size(months), np.size(days), np.size(us))
    out = np.zeros(n, MONTH_DAY_NANO)
    out["months"], out["days"] = months, days
    out["ns"] = np.asarray(us) * 1000
    return column(out, pa.month_day_nano_interval(), valid)


def interval_key(array: pa.Array) -> tuple[Any, Any]:
    """(days, µs within the day): PostgreSQL's order, a month being 30 days and a day 24 hours."""
    months, days, us = parts_of(array)
    return months * 30 + days + us // US_PER_DAY, us % US_PER_DAY


def parts(value: Value) -> Parts:
    """The three parts of an INTERVAL column, or of a constant as one row."""
    return parts_of(value if isinstance(value, pa.Array) else pa.repeat(value, 1))


def checked_parts(call: KernelCall, months: Any, days: Any, us: Any, *args: Value) -> pa.Array:
    """An INTERVAL column of computed parts; months or days beyond 32 bits fail."""
    n = call.num_rows
    months, days, us = (np.broadcast_to(np.asarray(x), n) for x in (months, days, us))
    bad = (np.abs(months) > 2**31 - 1) | (np.abs(days) > 2**31 - 1)
    if not bad.any():
        return from_parts(months, days, us, validity(*args))
    call.fail(bad, DatetimeFieldOverflow, "interval out of range")
    months, days = np.where(bad, 0, months), np.where(bad, 0, days)
    return with_nulls_at(from_parts(months, days, us, validity(*args)), bad)
