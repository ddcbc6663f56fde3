"""Names of time units and extract fields; no Arrow needed to know them."""

from __future__ import annotations

_SYNONYMS = {
    "us": "microseconds", "usec": "microseconds", "microsecond": "microseconds",
    "usecs": "microseconds", "ms": "milliseconds", "msec": "milliseconds",
    "msecs": "milliseconds", "millisecond": "milliseconds",
    "s": "second", "sec": "second", "secs": "second", "seconds": "second",
    "m": "minute", "min": "minute", "mins": "minute", "minutes": "minute",
    "h": "hour", "hr": "hour", "hrs": "hour", "hours": "hour", "d": "day", "days": "day",
    "w": "week", "weeks": "week", "mon": "month", "mons": "month", "months": "month",
    "qtr": "quarter", "quarters": "quarter", "y": "year", "yr": "year", "yrs": "year",
    "years": "year", "dec": "decade", "decs": "decade", "decades": "decade", "c": "century",
    "cent": "century", "centuries": "century", "mil": "millennium", "mils": "millennium",
    "millennia": "millennium", "timezone_h": "timezone_hour", "timezone_m": "timezone_minute",
    "j": "julian", "jd": "julian",
}  # fmt: skip
SCALES = {"second": 6, "milliseconds": 3, "epoch": 6}
"""Decimals of the numeric that extract gives; 0 for all other fields."""

JULIAN_SCALE = 20
"""Decimals of extract(julian FROM timestamp): the day and the part of it that has passed."""


def unit_of(text: str) -> str:
    """The unit's canonical name.

    >>> unit_of("Mons"), unit_of("hour")
    ('month', 'hour')
    """
    lowered = text.strip().lower()
    return _SYNONYMS.get(lowered, lowered)


def field_scale(text: str) -> int:
    """Decimals of extract(text from …)."""
    return SCALES.get(unit_of(text), 0)
