"""OVER in all its forms over one table: functions x frames x orders, with and without partitions."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator

from streamsql.core.schema import Schema
from streamsql.core.types import DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, numeric
from tests.operators.harness import Table

DAY = datetime.datetime(2024, 1, 29)
SCHEMA = Schema.of(
    ("id", INTEGER), ("k", INTEGER), ("v", INTEGER), ("g", TEXT), ("x", DOUBLE),
    ("ts", TIMESTAMP), ("d", DATE), ("n", numeric(10, 2)),
)  # fmt: skip
VALUES = (
    range(40),
    (1, 2, None),
    (1, 2, 3, 4, None),
    ("a", "ab", "b", None),
    (0.5, 0.25, -7.75, "nan", 2.5, None, "inf"),
    [DAY + datetime.timedelta(seconds=20 * i, days=12 * (i % 3)) for i in range(9)] + [None],
    [DAY.date() + datetime.timedelta(days=7 * i) for i in range(6)] + [None],
    ("1.5", "2.25", None),
)


def table(**more) -> Table:
    import decimal

    values = [*VALUES[:-1], [None if n is None else decimal.Decimal(n) for n in VALUES[-1]]]
    return Table(SCHEMA, values, **more)


TOTAL = "v, g, id, k, x, ts, d, n"
"""An order in which no two rows are equal unless all of them is."""

ROWS = (
    "2 PRECEDING AND 1 FOLLOWING",
    "UNBOUNDED PRECEDING AND CURRENT ROW",
    "CURRENT ROW AND UNBOUNDED FOLLOWING",
    "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "3 PRECEDING AND 2 PRECEDING",
    "1 FOLLOWING AND 3 FOLLOWING",
    "UNBOUNDED PRECEDING AND 2 PRECEDING",
    "UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "1 PRECEDING AND UNBOUNDED FOLLOWING",
    "2 FOLLOWING AND UNBOUNDED FOLLOWING",
    "2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
    "UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
    "1 PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP",
)
PEERS = (
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "GROUPS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
)
RANGES = (
    "v RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "v DESC RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "v DESC NULLS LAST RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "v NULLS FIRST RANGE BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING",
    "v RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "v RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "ts RANGE BETWEEN INTERVAL '40 seconds' PRECEDING AND CURRENT ROW",
    "ts DESC RANGE BETWEEN INTERVAL '1 month' PRECEDING AND INTERVAL '20 seconds' FOLLOWING",
    "d RANGE BETWEEN INTERVAL '1 month' PRECEDING AND INTERVAL '7 days' FOLLOWING",
    "d DESC NULLS FIRST RANGE BETWEEN INTERVAL '7 days' PRECEDING AND CURRENT ROW",
    "x RANGE BETWEEN 0.25 PRECEDING AND 2 FOLLOWING",
    "x DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 0.25 FOLLOWING",
)
AGGREGATES = (
    "count(*)", "count(v)", "sum(v)", "avg(v)", "min(g)", "max(v)", "sum(x)", "avg(x)",
    "bool_and(v > 2)", "bool_or(v > 3)", "stddev_samp(v)", "sum(v) FILTER (WHERE g = 'a')",
    "count(*) FILTER (WHERE v > 2)", "sum(n)", "avg(n)", "min(n)", "max(ts)", "max(x)",
)  # fmt: skip
PICKS = (
    "first_value(id)", "last_value(id)", "nth_value(id, 2)", "first_value(v IGNORE NULLS)",
    "last_value(v IGNORE NULLS)", "nth_value(v, 2 IGNORE NULLS)",
)  # fmt: skip
NEIGHBOURS = (
    "lag(v)", "lead(g, 2)", "lag(v, 2, 7)", "lead(v, 1, id)", "lag(v, 0)", "lag(id, -1)",
    "lag(v, 1 IGNORE NULLS)", "lead(v, 2 IGNORE NULLS)", "row_number()", "ntile(3)",
)  # fmt: skip
RANKS = ("rank()", "dense_rank()", "percent_rank()", "cume_dist()")
PARTITIONS = ("PARTITION BY k ", "", "PARTITION BY g, k ")


def select(calls: tuple[str, ...], window: str) -> str:
    """One query with all of these calls over one window."""
    listed = ", ".join(f"{call} OVER w AS y{i}" for i, call in enumerate(calls))
    return f"SELECT *, {listed} FROM t0 WINDOW w AS ({window})"


def shapes() -> Iterator[tuple[tuple[str, ...], str]]:
    """(calls, window) of every shape."""
    partition = itertools.cycle(PARTITIONS)
    orders = itertools.cycle(("v", "g DESC", "ts", "v, g", "n"))
    for frame in ROWS:
        yield AGGREGATES + PICKS, f"{next(partition)}ORDER BY {TOTAL} ROWS BETWEEN {frame}"
    yield AGGREGATES + PICKS, f"ORDER BY v DESC NULLS LAST, {TOTAL}"
    for frame in PEERS:
        yield AGGREGATES, f"{next(partition)}ORDER BY {next(orders)} {frame}"
    for frame in RANGES:
        yield AGGREGATES, f"{next(partition)}ORDER BY {frame}"
    yield AGGREGATES, "PARTITION BY k"
    yield AGGREGATES, ""
    for part in PARTITIONS:
        yield NEIGHBOURS, f"{part}ORDER BY v DESC, {TOTAL}"
    for order in ("v", "g DESC, v", "ts NULLS FIRST"):
        yield RANKS, f"{next(partition)}ORDER BY {order}"


TOGETHER = {window or "all rows": select(calls, window) for calls, window in shapes()}
"""All calls of one window in one query."""
ALONE = {
    f"{call} OVER ({window})": select((call,), window)
    for calls, window in shapes()
    for call in calls
}
"""Each call by itself: what a change reaches then depends on that call."""
