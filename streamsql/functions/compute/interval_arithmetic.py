"""Kernels of interval arithmetic and justify_*."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.types import Kind
from streamsql.functions.compute.columns import Value, broadcast, values
from streamsql.functions.compute.intervals import checked_parts, parts
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.calendar import US_PER_DAY


def interval_add(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """Part by part."""
    (m1, d1, u1), (m2, d2, u2) = parts(a), parts(b)
    return checked_parts(call, m1 + m2, d1 + d2, u1 + u2, a, b)


def interval_subtract(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """Part by part."""
    (m1, d1, u1), (m2, d2, u2) = parts(a), parts(b)
    return checked_parts(call, m1 - m2, d1 - d2, u1 - u2, a, b)


def interval_negate(call: KernelCall, a: pa.Array) -> pa.Array:
    """Every part with its sign turned."""
    months, days, us = parts(a)
    return checked_parts(call, -months, -days, -us, a)


def interval_multiply(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """interval * number: fractions of months go to days, of days to time."""
    if call.arg_types[0].kind is not Kind.INTERVAL:
        a, b = b, a
    factor = values(broadcast(b, call.num_rows))
    return _scaled(call, a, factor, a, b)


def interval_divide(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """interval / number."""
    from streamsql.core.errors import DivisionByZero
    from streamsql.functions.compute.columns import with_nulls_at

    divisor = values(broadcast(b, call.num_rows))
    zero = divisor == 0
    if zero.any():
        call.fail(zero, DivisionByZero, "division by zero")
    with np.errstate(divide="ignore", invalid="ignore"):
        result = _scaled(call, a, 1.0 / np.where(zero, 1.0, divisor), a, b, divisor=divisor)
    return with_nulls_at(result, zero) if zero.any() else result


def _scaled(
    call: KernelCall, interval: Value, factor: Any, *args: Value, divisor: Any = None
) -> pa.Array:
    months, days, us = (np.broadcast_to(x, call.num_rows) for x in parts(interval))

    def times(x: Any) -> Any:
        if divisor is None:
            return x * factor
        return x / np.where(divisor == 0, 1.0, divisor)

    exact_months = times(months)
    whole_months = np.trunc(exact_months)
    month_days = np.round((exact_months - whole_months) * 30, 6)
    exact_days = times(days)
    whole_days = np.trunc(exact_days)
    sec = np.round((exact_days - whole_days + month_days - np.trunc(month_days)) * 86400, 6)
    carry = np.where(np.abs(sec) >= 86400, np.trunc(sec / 86400), 0)
    sec = sec - carry * 86400
    total_days = whole_days + np.trunc(month_days) + carry
    total_us = np.rint(times(us) + sec * 1e6)
    return checked_parts(
        call, whole_months.astype(np.int64), total_days.astype(np.int64),
        total_us.astype(np.int64), *args,
    )  # fmt: skip


def justify_hours(call: KernelCall, a: pa.Array) -> pa.Array:
    """24 hours become a day."""
    months, days, us = parts(a)
    extra = np.where(us < 0, -((-us) // US_PER_DAY), us // US_PER_DAY)
    days, us = days + extra, us - extra * US_PER_DAY
    low, high = (days > 0) & (us < 0), (days < 0) & (us > 0)
    us = us + np.where(low, US_PER_DAY, 0) - np.where(high, US_PER_DAY, 0)
    days = days - low + high
    return checked_parts(call, months, days, us, a)


def justify_days(call: KernelCall, a: pa.Array) -> pa.Array:
    """30 days become a month."""
    months, days, us = parts(a)
    extra = np.where(days < 0, -((-days) // 30), days // 30)
    months, days = months + extra, days - extra * 30
    low, high = (months > 0) & (days < 0), (months < 0) & (days > 0)
    days = days + np.where(low, 30, 0) - np.where(high, 30, 0)
    return checked_parts(call, months - low + high, days, us, a)


def justify_interval(call: KernelCall, a: pa.Array) -> pa.Array:
    """Both, and all parts of one sign."""
    months, days, us = parts(a)
    extra = np.where(us < 0, -((-us) // US_PER_DAY), us // US_PER_DAY)
    days, us = days + extra, us - extra * US_PER_DAY
    extra = np.where(days < 0, -((-days) // 30), days // 30)
    months, days = months + extra, days - extra * 30
    low = (months > 0) & ((days < 0) | ((days == 0) & (us < 0)))
    high = (months < 0) & ((days > 0) | ((days == 0) & (us > 0)))
    days = days + np.where(low, 30, 0) - np.where(high, 30, 0)
    months = months - low + high
    low, high = (days > 0) & (us < 0), (days < 0) & (us > 0)
    us = us + np.where(low, US_PER_DAY, 0) - np.where(high, US_PER_DAY, 0)
    return checked_parts(call, months, days - low + high, us, a)
