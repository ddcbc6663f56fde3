"""now() in views: rows that come and go by the clock, and the time at which rows arrived."""

from __future__ import annotations

import datetime as dt
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.schema import Schema
from streamsql.core.types import DATE, INTEGER, TIMESTAMP, TIMESTAMPTZ
from streamsql.operators import Options
from streamsql.plan.sql import to_duckdb_sql
from tests.operators.harness import Table, View, connection, plan_of, random_history, undo, us

BASE = dt.datetime(2024, 6, 1, 10)
MOMENTS = [None] + [BASE + dt.timedelta(minutes=17 * i) for i in range(-8, 12)]
TABLE = Table(
    Schema.of(("ts", TIMESTAMPTZ), ("n", TIMESTAMP), ("d", DATE), ("k", INTEGER)),
    [
        [m and m.replace(tzinfo=dt.UTC) for m in MOMENTS],
        MOMENTS,
        [None, dt.date(2024, 5, 25), dt.date(2024, 6, 1), dt.date(2024, 6, 2)],
        [None, 1, 2],
    ],
)
FILTERS = [
    "SELECT * FROM t0 WHERE ts > now() - INTERVAL '1 hour'",
    "SELECT k FROM t0 WHERE n > now() - INTERVAL '1 hour'",
    "SELECT d FROM t0 WHERE d >= current_date - 7 AND k > 1",
    "SELECT ts FROM t0 WHERE now() - ts < INTERVAL '1 hour'",
    "SELECT * FROM t0 WHERE ts BETWEEN now() - INTERVAL '1 hour' AND now()",
    "SELECT ts FROM t0 WHERE ts + INTERVAL '1 hour' > current_timestamp OR k = 1",
    "SELECT n FROM t0 WHERE n > localtimestamp - INTERVAL '1 day'",
    "SELECT k, count(*) FROM t0 WHERE NOT (ts <= now() - INTERVAL '10 minutes') GROUP BY k",
    "SELECT * FROM t0 WHERE d = current_date",
]


class Clocked(View):
    """A view whose ticks happen at `clock`; the oracle's now() is the tick's."""

    clock = us(BASE)
    sql = ""

    def new_step(self):
        self.now_us = self.clock
        return super().new_step()

    def answer(self):
        moment = f"make_timestamptz({self.now_us}::BIGINT)"
        connection().execute(f"SET VARIABLE streamsql_now = {moment}")
        return self.batch_answer(self.sql)


def clocked(sql: str, tables: Table | list[Table], timezone: str = "UTC") -> Clocked:
    tables = [tables] if isinstance(tables, Table) else tables
    plan = plan_of(sql, tables)
    view = Clocked(plan, tables, lambda v: v.answer(), Options(timezone=timezone))
    view.sql = to_duckdb_sql(plan, lambda s: s.name, timezone=timezone)
    return view


@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("sql", FILTERS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=1, deadline=None)
def test_temporal_filter_equals_the_query_at_every_moment(sql, timezone, seed) -> None:
    rng = random.Random(seed)
    view = clocked(sql, TABLE, timezone)
    history = random_history([TABLE], seed, 6, 5)
    for events in history:
        view.clock += rng.choice([0, 1, 60 * 10**6, 17 * 60 * 10**6, 26 * 3600 * 10**6])
        view.step(events)
        view.verify(sql)
        if rng.random() < 0.3:
            view.restart()
        for _ in range(2):
            due = view.circuit.next_timer_us()
            if due is None:
                break
            assert due > view.clock
            view.clock = due
            view.step([])
            view.verify(f"timer {sql}")
    for events in undo(history, rng):
        view.step(events)
        view.verify(f"undo {sql}")
    assert not view.held()


def test_row_leaves_by_the_clock_alone() -> None:
    view = clocked("SELECT k FROM t0 WHERE ts > now() - INTERVAL '3 seconds'", TABLE)
    now = BASE.replace(tzinfo=dt.UTC)
    view.insert((now, None, None, 1), (now - dt.timedelta(hours=1), None, None, 2))
    view.insert((now + dt.timedelta(hours=1), None, None, 3))
    assert sorted(view.output) == [(1,), (3,)]
    assert view.circuit.next_timer_us() == us(BASE) + 3 * 10**6
    view.clock = us(BASE) + 3 * 10**6
    view.step([])
    assert sorted(view.output) == [(3,)]


def test_now_in_a_select_list_is_the_time_a_row_arrived_and_goes_with_it() -> None:
    for append_only in (False, True):
        table = Table(TABLE.schema, TABLE.values, append_only=append_only)
        view = clocked("SELECT k, now() FROM t0", table)
        row = (None, None, None, 1)
        for second in (1, 2, 2):
            view.clock = us(BASE) + second * 10**6
            view.insert(row)
        stamps = [at.replace(tzinfo=None) for _, at in sorted(view.output)]
        assert stamps == [BASE + dt.timedelta(seconds=s) for s in (1, 2)]
        if append_only:
            continue
        view.restart()
        view.clock += 10**6
        view.delete(row, row)
        assert [at.second for _, at in view.output] == [2]
        view.delete(row)
        assert not view.output and not view.held()
