"""Dates before year 1 and after 9999, and infinity: what Arrow's casts do not write as we must."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql_server.encoding.pieces import AnyArray, BoolArray

PG_EPOCH_DAYS = 10_957  # 2000-01-01 in days since 1970-01-01
PG_EPOCH_US = PG_EPOCH_DAYS * 86_400_000_000
DAY_US = 86_400_000_000
FIRST_DAY = -719_162  # 0001-01-01
LAST_DAY = 2_932_896  # 9999-12-31
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def ordinary_days(days: AnyArray) -> BoolArray:
    """bool [n]: within the years 1 to 9999, where Arrow and PostgreSQL agree."""
    return (days >= FIRST_DAY) & (days <= LAST_DAY)


def ordinary_us(us: AnyArray) -> BoolArray:
    """bool [n] for µs since 1970."""
    return (us >= FIRST_DAY * DAY_US) & (us < (LAST_DAY + 1) * DAY_US)


def wide_dates(days: AnyArray) -> tuple[pa.Array, pa.Array]:
    """`YYYY-MM-DD` of any day (int64 [n] since 1970) with at least four year digits, and the suffix
    ` BC` or nothing."""
    shifted = days + 719_468  # days since 0000-03-01, proleptic Gregorian
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = np.where(shifted_month < 10, shifted_month + 3, shifted_month - 9)
    year = year_of_era + era * 400 + (month <= 2)
    before = year <= 0
    shown = np.where(before, 1 - year, year)
    date = pc.binary_join_element_wise(padded(shown, 4), padded(month, 2), padded(day, 2), "-")
    return date, pc.if_else(pa.array(before), " BC", "")


def padded(values: AnyArray, width: int) -> pa.Array:
    """Decimal texts with zeros in front, at least `width` long."""
    return pc.utf8_lpad(pa.array(values, pa.int64()).cast(pa.string()), width, "0")


def clock_text(us: AnyArray) -> pa.Array:
    """`HH:MM:SS[.ffffff]` of µs within a day (int64 [n]), without trailing zeros."""
    if not (us % 1_000_000).any():
        return pa.array((us // 1_000_000).astype(np.int32), pa.time32("s")).cast(pa.string())
    shown = pa.array(us, pa.time64("us")).cast(pa.string())
    return pc.ascii_rtrim(pc.ascii_rtrim(shown, "0"), ".")
