"""Proleptic Gregorian calendar arithmetic on plain integers, for any year PostgreSQL knows."""

from __future__ import annotations

US_PER_DAY = 86_400_000_000
TIMESTAMP_INFINITY = 2**63 - 1
DATE_INFINITY = 2**31 - 1
"""'infinity' of TIMESTAMP[TZ] and DATE; the negative one is its negation (as in DuckDB)."""

_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year: int) -> bool:
    """Whether the astronomical year has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    """Length of the month in days."""
    return 29 if month == 2 and is_leap(year) else _DAYS_IN_MONTH[month - 1]


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01; years are astronomical (1 BC = 0).

    >>> days_from_civil(1970, 1, 2)
    1
    """
    year -= month <= 2
    era = year // 400
    yoe = year - era * 400
    doy = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    doe = yoe * 365 + yoe // 4 - yoe // 100 + doy
    return era * 146097 + doe - 719468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """(year, month, day) of the day number; inverse of `days_from_civil`."""
    days += 719468
    era = days // 146097
    doe = days - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = mp + (3 if mp < 10 else -9)
    return yoe + era * 400 + (month <= 2), month, day
