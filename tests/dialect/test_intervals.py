"""Interval input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsql.core.errors import DatetimeFieldOverflow, InvalidDatetimeFormat
from streamsql.dialect import interval_parts, parse_expression
from streamsql.dialect.intervals import interval_text

H = 3_600_000_000
M = 60_000_000
S = 1_000_000


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1 day", (0, 1, 0)), ("1 day 02:03:04", (0, 1, 2 * H + 3 * M + 4 * S)), ("-3 mons", (-3, 0, 0)), ("1.5 hours", (0, 0, 90 * M)), ("P1Y2M", (14, 0, 0)), ("1-2", (14, 0, 0)),
        ("-1-2", (-14, 0, 0)), ("10 minutes", (0, 0, 10 * M)), ("10", (0, 0, 10 * S)), ("1 week 2 days", (0, 9, 0)), ("1 year 2 months 3 days 4 hours 5 minutes 6 seconds", (14, 3, 4 * H + 5 * M + 6 * S)),
        ("@ 1 hour ago", (0, 0, -H)), ("1 day -01:00", (0, 1, -H)), ("3 4:05:06", (0, 3, 4 * H + 5 * M + 6 * S)), ("1-2 3 4:05:06", (14, 3, 4 * H + 5 * M + 6 * S)),
        ("04:05", (0, 0, 4 * H + 5 * M)), ("00:00:01.5", (0, 0, 1_500_000)), ("-00:00:01", (0, 0, -S)), ("1.5 days", (0, 1, 12 * H)), ("1.5 months", (1, 15, 0)), ("1.5 years", (18, 0, 0)),
        ("0.5 week", (0, 3, 12 * H)), ("P1DT2H", (0, 1, 2 * H)), ("PT1H30M", (0, 0, 90 * M)), ("PT1.5S", (0, 0, 1_500_000)), ("P1W", (0, 7, 0)), ("-P1D", (0, -1, 0)), ("P-1Y", (-12, 0, 0)),
        ("P0001-02-03T04:05:06", (14, 3, 4 * H + 5 * M + 6 * S)), ("1h", (0, 0, H)), ("5m", (0, 0, 5 * M)), ("1d 2h", (0, 1, 2 * H)), ("100 ms", (0, 0, 100_000)), ("7 us", (0, 0, 7)),
        ("1 decade", (120, 0, 0)), ("1 century", (1200, 0, 0)), ("2 quarters", (6, 0, 0)), ("+1 day", (0, 1, 0)), ("  1   day  ", (0, 1, 0)), ("1 DAY", (0, 1, 0)), ("1.000001 s", (0, 0, 1_000_001)),
        ("100:00:00", (0, 0, 100 * H)), ("1 day ago", (0, -1, 0)), ("1e3 seconds", (0, 0, 1000 * S)),
    ],
)  # fmt: skip
def test_interval_text_reads_as_postgresql_does(text: str, parts: tuple[int, int, int]) -> None:
    assert interval_parts(text) == parts


@pytest.mark.parametrize(
    ("literal", "parts"),
    [
        ("INTERVAL '5' MINUTE", (0, 0, 5 * M)), ("INTERVAL '5' MINUTES", (0, 0, 5 * M)), ("INTERVAL '1:30' HOUR TO MINUTE", (0, 0, 90 * M)), ("INTERVAL '1:30' MINUTE TO SECOND", (0, 0, 90 * S)),
        ("INTERVAL '1-2' YEAR TO MONTH", (14, 0, 0)), ("INTERVAL '1 day 02:03:04' HOUR", (0, 1, 2 * H)), ("INTERVAL '1 day 2 hours' DAY", (0, 1, 0)),
        ("INTERVAL '1 minute'", (0, 0, M)), ("INTERVAL '-1' DAY", (0, -1, 0)), ("INTERVAL '1' MONTH", (1, 0, 0)), ("INTERVAL '2' WEEK", (0, 14, 0)), ("INTERVAL 3 HOUR", (0, 0, 3 * H)),
        ("INTERVAL '5' SECOND(3)", (0, 0, 5 * S)), ("INTERVAL '1' QUARTER", (3, 0, 0)),
    ],
)  # fmt: skip
def test_interval_literal_unit_counts(literal: str, parts: tuple[int, int, int]) -> None:
    assert interval_parts(parse_expression(literal)) == parts


@pytest.mark.parametrize("text", ["", "  ", "abc", "1 fortnight", "1 2 3 x", "P", "PT", "1 day foo", "--1", "day 1", "ago", "1:2:3:4", "P1X", "1 day 1"])  # fmt: skip
def test_interval_text_that_is_none_raises_22007(text: str) -> None:
    if text == "1 day 1":  # a bare number at the end counts seconds
        assert interval_parts(text) == (0, 1, S)
        return
    with pytest.raises(InvalidDatetimeFormat, match="invalid input syntax for type interval"):
        interval_parts(text)


@pytest.mark.parametrize("text", ["1-13", "01:60:00", "99999999999 years", "99999999999 days"])
def test_interval_out_of_range_raises_22008(text: str) -> None:
    with pytest.raises(DatetimeFieldOverflow):
        interval_parts(text)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(-(10**15), 10**15))
def test_interval_text_round_trips(months: int, days: int, us: int) -> None:
    assert interval_parts(interval_text(months, days, us)) == (months, days, us)
