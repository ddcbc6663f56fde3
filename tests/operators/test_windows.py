"""TUMBLE, HOP, CUMULATE: which windows hold a row, by rows and under GROUP BY."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.schema import Column, Schema
from streamsql.core.types import DATE, INTEGER, TIMESTAMP, TIMESTAMPTZ
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import WindowSpec
from tests.operators.harness import Table, View, batch_sql, check_sql, view_of

HOUR = 3600 * 10**6
NONE = WindowSpec()
INSTANTS = [
    dt.datetime(2024, 3, 31, 0, 30), dt.datetime(2024, 3, 31, 1, 0),
    dt.datetime(2024, 3, 31, 2, 59, 59, 999999), dt.datetime(2024, 10, 27, 0, 30),
    dt.datetime(2024, 10, 27, 1, 30), dt.datetime(2024, 10, 26, 22, 0),
    dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1900, 2, 28), dt.datetime(2100, 3, 1),
    dt.datetime(2024, 2, 29, 12), dt.datetime(2018, 11, 4, 3), None,
]  # fmt: skip
GRIDS = [
    ("tumble", WindowSpec(us=HOUR), None, NONE),
    ("tumble", WindowSpec(us=7 * HOUR), None, WindowSpec(us=-HOUR)),
    ("tumble", WindowSpec(days=1), None, NONE),
    ("tumble", WindowSpec(days=7), None, WindowSpec(days=-3)),
    ("tumble", WindowSpec(months=3), None, WindowSpec(days=4)),
    ("tumble", WindowSpec(months=12), None, WindowSpec(months=-1)),
    ("tumble", WindowSpec(months=12), None, WindowSpec(months=3, days=5)),
    ("hop", WindowSpec(us=HOUR), WindowSpec(us=HOUR // 4), NONE),
    ("hop", WindowSpec(us=HOUR), WindowSpec(us=7 * HOUR // 10), NONE),
    ("hop", WindowSpec(us=HOUR), WindowSpec(us=3 * HOUR), WindowSpec(us=5)),
    ("hop", WindowSpec(days=7), WindowSpec(days=1), NONE),
    ("hop", WindowSpec(days=1), WindowSpec(us=5 * HOUR), NONE),
    ("hop", WindowSpec(us=5 * HOUR), WindowSpec(days=2), WindowSpec(us=HOUR)),
    ("hop", WindowSpec(us=36 * HOUR), WindowSpec(us=12 * HOUR), NONE),
    ("hop", WindowSpec(months=3), WindowSpec(months=1), NONE),
    ("hop", WindowSpec(months=3), WindowSpec(months=2), WindowSpec(months=-1, days=5)),
    ("cumulate", WindowSpec(us=6 * HOUR), WindowSpec(us=HOUR), NONE),
    ("cumulate", WindowSpec(days=7), WindowSpec(days=1), NONE),
    ("cumulate", WindowSpec(days=1), WindowSpec(us=12 * HOUR), NONE),
    ("cumulate", WindowSpec(days=2), WindowSpec(us=6 * HOUR), WindowSpec(us=-HOUR)),
    ("cumulate", WindowSpec(months=12), WindowSpec(months=3), NONE),
]
ZONES = [
    (TIMESTAMP, None), (TIMESTAMP, "Europe/Paris"), (TIMESTAMPTZ, "America/New_York"),
    (TIMESTAMPTZ, "Asia/Kolkata"), (TIMESTAMPTZ, "America/Sao_Paulo"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "zone"), ZONES)
@pytest.mark.parametrize(("kind", "size", "slide", "offset"), GRIDS)
def test_windows_of_rows_equal_the_sql_definition(type_, zone, kind, size, slide, offset) -> None:
    table = Table(Schema.of(("t", type_)))
    scan = table.scan(0)
    columns = tuple(Column(n, type_) for n in ("window_start", "window_end", "window_time"))
    node = plan.TimeWindow(
        schema=Schema((*scan.schema.columns, *columns)), input=scan, kind=kind, time_column=0,
        size=size, slide=slide, offset=offset, tz=zone,
    )  # fmt: skip
    view = View(node, [table], batch_sql(node))
    aware = type_ is TIMESTAMPTZ
    view.insert(*[(t and (t.replace(tzinfo=dt.UTC) if aware else t),) for t in INSTANTS])
    view.verify(f"{kind} {zone}")


TIMES = [None] + [dt.datetime(2024, 1, 1) + dt.timedelta(seconds=7 * i) for i in range(12)]
EVENTS = Table(
    Schema.of(("ts", TIMESTAMP), ("k", INTEGER), ("v", INTEGER)),
    [TIMES, [None, 1, 2], [None, 1, 2, -5]],
)
AGGREGATES = [
    "SELECT window_start, window_end, k, count(*), sum(v), avg(v) FROM "
    "TUMBLE(t0, ts, INTERVAL '10 seconds') GROUP BY 1, 2, 3",
    "SELECT window_start, window_end, k, count(*), sum(v), avg(v) FROM "
    "HOP(t0, ts, INTERVAL '4 seconds', INTERVAL '10 seconds') GROUP BY 1, 2, 3",
    "SELECT k, window_end, count(*), sum(v) FROM "
    "HOP(t0, ts, INTERVAL '20 seconds', INTERVAL '10 seconds') GROUP BY window_end, k",
    "SELECT window_start, window_end, count(DISTINCT k), max(v) FROM "
    "HOP(t0, ts, INTERVAL '5 seconds', INTERVAL '10 seconds') GROUP BY 1, 2",
    "SELECT window_start, window_end, k, sum(v) FILTER (WHERE v > 0) FROM "
    "CUMULATE(t0, ts, INTERVAL '5 seconds', INTERVAL '30 seconds') GROUP BY 1, 2, 3",
    "SELECT window_start, count(*) FROM HOP(t0, ts, INTERVAL '1 month', INTERVAL '3 months') "
    "GROUP BY window_start, window_end",
    "SELECT window_end, window_start, k, count(*), sum(v) FROM HOP(t0, ts, INTERVAL '5 seconds', "
    "INTERVAL '20 seconds', tz => 'Europe/Paris') GROUP BY 1, 2, 3",
    "SELECT window_end, k, sum(v) FROM HOP(t0, ts, INTERVAL '1 hour', INTERVAL '1 day', "
    "tz => 'Europe/Paris') GROUP BY window_end, k",
    "SELECT window_start, window_end, k, avg(v) FROM CUMULATE(t0, ts, INTERVAL '1 hour', "
    "INTERVAL '1 day', tz => 'America/New_York') "
    "GROUP BY 1, 2, 3",
    "SELECT k, count(*) FROM HOP(t0, ts, INTERVAL '5 seconds', INTERVAL '10 seconds') GROUP BY k",
    "SELECT w, count(*) FROM (SELECT window_start AS w, v FROM TUMBLE(t0, ts, INTERVAL "
    "'5 seconds')) x GROUP BY w",
]


@pytest.mark.parametrize("append_only", [False, True])
@pytest.mark.parametrize("sql", AGGREGATES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=1, deadline=None)
def test_window_aggregate_equals_batch_at_every_tick(sql, append_only, seed) -> None:
    check_sql(sql, [Table(EVENTS.schema, EVENTS.values, append_only=append_only)], seed)


def test_tumble_takes_a_row_on_the_boundary_into_the_later_window() -> None:
    table = Table(Schema.of(("ts", TIMESTAMP), ("v", INTEGER)))
    view = view_of(
        "SELECT window_start, sum(v) FROM TUMBLE(t0, ts, INTERVAL '1 minute') "
        "GROUP BY window_start, window_end",
        [table],
    )
    view.at("""+ 10:00 1
               + 10:00:59 2
               + 10:01 4""").gives("""+ 10:00 3
                                      + 10:01 4""")


def test_rows_without_a_time_give_no_window_and_are_counted() -> None:
    table = Table(Schema.of(("ts", TIMESTAMP), ("v", INTEGER)))
    for sql in (
        "SELECT v, window_start FROM TUMBLE(t0, ts, INTERVAL '1 minute')",
        "SELECT window_start, count(*) FROM HOP(t0, ts, INTERVAL '1 minute', INTERVAL '2 minutes') "
        "GROUP BY window_start, window_end",
        "SELECT v, window_start FROM SESSION(t0, ts, INTERVAL '1 minute')",
    ):
        view = view_of(sql, [table])
        step = view.new_step()
        delta = view.source_delta(0, [(0, (None, 1), 1), (0, (None, 2), 1)])
        assert view.circuit.step(step, {view.sources[0]: delta}) == {}
        assert step.null_event_times == 2


def test_window_over_a_window_uses_the_inner_columns() -> None:
    table = Table(Schema.of(("ts", TIMESTAMP), ("v", INTEGER)))
    view = view_of(
        "SELECT window_start, sum(n) FROM TUMBLE((SELECT window_time AS t, count(*) AS n FROM "
        "TUMBLE(t0, ts, INTERVAL '1 minute') GROUP BY window_start, window_end, window_time), t, "
        "INTERVAL '5 minutes') GROUP BY window_start, window_end",
        [table],
    )
    view.at("""+ 10:00 1
               + 10:04:59 1
               + 10:05 1""").gives("""+ 10:00 2
                                      + 10:05 1""")


def test_date_column_is_windowed_by_its_midnight() -> None:
    table = Table(Schema.of(("d", DATE)))
    view = view_of("SELECT d, window_end FROM TUMBLE(t0, d, INTERVAL '1 day')", [table])
    view.insert((dt.date(2024, 2, 28),))
    assert dict(view.output) == {(dt.date(2024, 2, 28), dt.datetime(2024, 2, 29)): 1}
