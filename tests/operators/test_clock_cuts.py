"""now() cut to a day or rounded to decimals, compared with rows: these turn when the cut value
passes, through changes of a zone's clock too."""

from __future__ import annotations

import datetime as dt
import random

import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import DATE, INTEGER, TIMESTAMP, TIMESTAMPTZ
from tests.operators.harness import Table, us
from tests.operators.test_temporal import clocked

SECOND, HOUR = 10**6, 3600 * 10**6
QUERIES = [
    "SELECT k FROM t0 WHERE n >= current_date",
    "SELECT k FROM t0 WHERE n > current_date + INTERVAL '1 hour'",
    "SELECT k FROM t0 WHERE n <= (now() + INTERVAL '90 minutes')::date",
    "SELECT k FROM t0 WHERE n < (current_date + INTERVAL '90 minutes')::date + 1",
    "SELECT k FROM t0 WHERE ts >= current_date::timestamptz - INTERVAL '1 day'",
    "SELECT k FROM t0 WHERE ts > now()::date",
    "SELECT k FROM t0 WHERE n + INTERVAL '1 month' > current_date + INTERVAL '1 month'",
    "SELECT k FROM t0 WHERE n > localtimestamp",
    "SELECT k FROM t0 WHERE d = current_date",
    "SELECT k FROM t0 WHERE n = current_date OR ts - INTERVAL '1 day' < now()",
]
DIGITS = [
    *(f"SELECT k FROM t0 WHERE ts > current_timestamp({n})" for n in range(7)),
    *(f"SELECT k FROM t0 WHERE n <= localtimestamp({n})" for n in (0, 1, 2, 4, 5)),
    "SELECT k FROM t0 WHERE n = now()::timestamp(1)",
    "SELECT k FROM t0 WHERE ts >= now()::timestamptz(2) - INTERVAL '1 second'",
    "SELECT k FROM t0 WHERE (now() - INTERVAL '0.25 seconds')::timestamptz(0) < ts",
    "SELECT k FROM t0 WHERE localtime(1) >= n::time",
    "SELECT k FROM t0 WHERE (now() - ts)::interval(1) > INTERVAL '0.3 seconds'",
    "SELECT k FROM t0 WHERE date_trunc('minute', current_timestamp(1)) >= ts",
    "SELECT k FROM t0 WHERE ts BETWEEN current_timestamp(4) AND current_timestamp(1)",
]


def followed(sql: str, moments: list[dt.datetime], steps: list[int], timezone: str) -> None:
    """The view at every step of the clock, with ticks only where it asks for one."""
    rng = random.Random(f"{sql} {timezone}")
    schema = Schema.of(("ts", TIMESTAMPTZ), ("n", TIMESTAMP), ("d", DATE), ("k", INTEGER))
    rows = [(m.replace(tzinfo=dt.UTC), m, m.date(), k) for k, m in enumerate(moments)]
    table = Table(schema, [[r[i] for r in rows] for i in range(4)])
    view = clocked(sql, table, timezone)
    view.clock = us(moments[0]) - 30 * HOUR if steps[0] > HOUR else us(moments[0]) - SECOND
    view.insert(*rows)
    end = us(moments[-1]) + (40 * HOUR if steps[0] > HOUR else 2 * SECOND)
    seen = set()
    while view.clock < end:
        wanted = view.clock + rng.choice(steps)
        while (due := view.circuit.next_timer_us()) is not None and due <= wanted:
            view.clock = due
            view.step([])
            view.verify(f"{sql} at its turn {due}")
        view.clock = view.now_us = wanted
        view.verify(f"{sql} at {wanted}")
        seen.add(tuple(sorted(view.output)))
    assert len(seen) > 1  # it did turn


@pytest.mark.parametrize("sql", DIGITS)
def test_rounded_clock(sql: str) -> None:
    base = dt.datetime(2024, 6, 1, 23, 59, 59)
    moments = [base + dt.timedelta(microseconds=n) for n in
               (0, 349_999, 350_000, 400_000, 449_995, 500_000, 1_000_000, 1_049_999)]  # fmt: skip
    followed(sql, moments, [60_003, 1, 149_997], "UTC")


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize(
    ("timezone", "day"),
    [
        ("UTC", dt.datetime(2024, 6, 1)),
        ("America/New_York", dt.datetime(2024, 11, 3)),
        ("America/New_York", dt.datetime(2024, 3, 10)),
    ],
)
def test_day_of_the_clock(sql: str, timezone: str, day: dt.datetime) -> None:
    hours = (0, 1, 1.5, 2, 2.5, 5, 6.25, 24, 27)
    moments = [day + dt.timedelta(hours=h) for h in hours]
    followed(sql, moments, [2 * HOUR, 7 * HOUR, HOUR // 2], timezone)
