"""now() anywhere in a view: conditions turn by the clock alone, as the query run at that moment."""

from __future__ import annotations

import datetime as dt
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsql
from streamsql.core.errors import FeatureNotSupported
from tests.operators.harness import Table, random_history, undo
from tests.operators.test_temporal import BASE, TABLE, clocked

T = "t0.ts > now() - INTERVAL '30 minutes'"
U = "t1.n <= now()::timestamp"
QUERIES = [
    # ON of every kind of join, on one side, on both, on both at once
    f"SELECT * FROM t0 LEFT JOIN t1 ON t0.k = t1.k AND {T}",
    f"SELECT * FROM t0 RIGHT JOIN t1 ON t0.k = t1.k AND {U}",
    f"SELECT * FROM t0 FULL JOIN t1 ON t0.k = t1.k AND {U}",
    f"SELECT * FROM t0 FULL JOIN t1 ON t0.k = t1.k AND {T} AND {U}",
    f"SELECT * FROM t0 FULL JOIN t1 ON t0.k = t1.k AND ({T} OR {U})",
    f"SELECT t0.k, t1.n FROM t0 LEFT JOIN t1 ON t0.k < t1.k AND {U}",
    *(
        f"SELECT t0.ts, t0.k, t1.n FROM t0 {kind} JOIN t1 ON t0.k = t1.k "
        "AND t0.ts + t1.k * INTERVAL '20 minutes' > now()"
        for kind in ("INNER", "LEFT", "RIGHT", "FULL")
    ),
    "SELECT t0.k, x.n FROM t0, LATERAL (SELECT n FROM t1 WHERE t1.k = t0.k "
    f"AND {U} ORDER BY n LIMIT 1) x",
    # subqueries
    f"SELECT k FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k AND {U}) OR k = 1",
    f"SELECT k FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k AND {U} AND {T})",
    f"SELECT k FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k AND {T}) OR k = 1",
    f"SELECT k, k IN (SELECT k FROM t1 WHERE {U}) FROM t0",
    f"SELECT k FROM t0 WHERE k NOT IN (SELECT k FROM t1 WHERE {U} AND k IS NOT NULL)",
    f"SELECT k, (SELECT max(t1.k) FROM t1 WHERE t1.k <= t0.k AND {U}) FROM t0",
    "SELECT k FROM t0 WHERE (SELECT count(*) FROM t1 WHERE t1.k < t0.k AND t1.ts + (t0.n - t1.n) > "
    "now()) > 1",
    # lists, aggregates, OVER, order
    f"SELECT k, CASE WHEN {T} THEN 'new' WHEN ts IS NULL THEN 'none' ELSE 'old' END FROM t0",
    f"SELECT count(*) FILTER (WHERE {T}), sum(CASE WHEN {T} THEN k END) FROM t0",
    f"SELECT {T}, count(*) FROM t0 GROUP BY 1",
    f"SELECT k, count(*) OVER (PARTITION BY {T}) FROM t0",
    f"SELECT DISTINCT ON (k) k, ts FROM t0 ORDER BY k, ({T}) DESC, ts",
    f"SELECT ts, k FROM t0 ORDER BY ({T}), ts, k LIMIT 2",
    "SELECT k, max(ts) FROM t0 GROUP BY k HAVING max(ts) > now() - INTERVAL '30 minutes'",
    "SELECT now() > '2024-06-01 12:00:00+00'",
    # what can not be solved for now()
    "SELECT ts FROM t0 WHERE ts >= date_trunc('hour', now())",
    "SELECT n FROM t0 WHERE n = date_trunc('day', now() AT TIME ZONE 'Asia/Kolkata')",
    "SELECT k FROM t0 WHERE k = extract(hour FROM now())::int % 3",
    "SELECT ts FROM t0 WHERE extract(epoch FROM now() - ts) < 1800 * k",
    "SELECT ts FROM t0 WHERE now() - ts < k * INTERVAL '20 minutes'",
    "SELECT ts FROM t0 WHERE now() - k * INTERVAL '1 month' < ts",
    "SELECT k FROM t0 WHERE localtime > TIME '10:30' AND k > 0",
    "SELECT d FROM t0 WHERE current_date - d BETWEEN 0 AND 3",
    "SELECT ts FROM t0 WHERE date_bin('20 minutes', now(), TIMESTAMPTZ '2024-01-01 00:00+00') = ts",
    "SELECT n FROM t0 WHERE n IS DISTINCT FROM least(now()::timestamp, n)",
    "SELECT k FROM t0 WHERE to_char(now(), 'HH24') = '1' || k::text",
]


@pytest.mark.parametrize("sql", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=1, deadline=None)
def test_conditions_turn_by_the_clock_alone(sql: str, seed: int) -> None:
    rng = random.Random(seed)
    tables = [TABLE, Table(TABLE.schema, TABLE.values)]
    view = clocked(sql, tables, rng.choice(["UTC", "America/New_York"]))
    history = random_history(tables, seed, 3, 4)
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
            view.clock = rng.choice([due - 1, due])
            view.step([])
            view.verify(f"timer {sql}")
    for events in undo(history, rng):
        view.step(events)
        view.verify(f"undo {sql}")
    # one row of a count over everything, which is there without rows too
    alone = "OVER" in sql or "FROM t0" not in sql or ", k IN (SELECT" in sql
    assert not view.held() or alone


@pytest.mark.parametrize(
    "condition",
    [
        "age(now(), ts) < INTERVAL '1 day'",
        "now()::text > 'a'",
        "sqrt(extract(epoch FROM now())) > k",
    ],
)
def test_refused_where_the_next_turn_is_not_known(condition: str) -> None:
    with pytest.raises(FeatureNotSupported) as raised:
        clocked(f"SELECT k FROM t0 WHERE {condition}", [TABLE, TABLE])
    assert raised.value.position is not None and raised.value.hint


def test_time_of_arrival_stays_when_a_condition_turns() -> None:
    view = clocked(f"SELECT k, now(), {T} FROM t0", [TABLE])
    at = BASE.replace(tzinfo=dt.UTC)
    view.insert((at, None, None, 1))
    assert [(k, fresh) for k, _, fresh in view.output] == [(1, True)]
    before = [stamp for _, stamp, _ in view.output]
    view.clock = view.circuit.next_timer_us()
    view.step([])
    assert [(k, fresh) for k, _, fresh in view.output] == [(1, False)]
    assert [stamp for _, stamp, _ in view.output] == before
    view.delete((at, None, None, 1))
    assert not view.output and not view.held()


WINDOWS = {
    "filter below": "TUMBLE((SELECT ts FROM t WHERE ts > {ago}), ts, INTERVAL '10 seconds')",
    "filter above": "TUMBLE(t, ts, INTERVAL '10 seconds') WHERE ts > {ago}",
    "hop": "HOP((SELECT ts FROM t WHERE k > 0 AND ts > {ago}), ts, INTERVAL '10 seconds', "
    "INTERVAL '20 seconds')",
}


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=list(WINDOWS))
def test_rows_leave_closed_windows_by_the_clock_and_late_ones_never_came(windows: str) -> None:
    ago = "now()::timestamp - INTERVAL '1 minute'"
    source = windows.format(ago=ago)
    query = f"SELECT window_start, count(*) AS n FROM {source} GROUP BY window_start"
    with streamsql.connect() as db:
        db.execute("SET streamsql.clock = 'manual'")
        db.execute("ADVANCE CLOCK TO '2100-01-01 00:00:00+00'")
        db.execute("CREATE TABLE t (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for second in (5, 25, 26, 7, 47):
            db.execute(f"INSERT INTO t VALUES (1, '2100-01-01 00:00:{second:02d}')")
        db.execute("DELETE FROM t WHERE ts < '2100-01-01 00:00:06'")  # late: its window is closed
        seen = []
        for moment in ("00:50", "01:06", "01:26", "01:50"):
            db.execute(f"ADVANCE CLOCK TO '2100-01-01 00:{moment}+00'")
            seen.append(sum(n for _, n in db.execute("SELECT * FROM v").fetchall()))
        times = 2 if "HOP" in source else 1
        assert seen == [n * times for n in (4, 3, 1, 0)]
        assert db.execute("SELECT * FROM v").fetchall() == []


def test_session_over_a_temporal_filter_stays_as_it_closed() -> None:
    with streamsql.connect() as db:
        db.execute("SET streamsql.clock = 'manual'")
        db.execute("ADVANCE CLOCK TO '2100-01-01 00:00:00+00'")
        db.execute("CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n FROM SESSION((SELECT * "
            "FROM t WHERE ts > now()::timestamp - INTERVAL '1 minute'), ts, INTERVAL '10 seconds') "
            "GROUP BY window_start"
        )
        for second in (5, 25, 55):
            db.execute(f"INSERT INTO t VALUES ('2100-01-01 00:00:{second:02d}')")
        db.execute("ADVANCE CLOCK TO '2100-01-01 00:01:56+00'")
        assert db.execute("SELECT count(*), sum(n) FROM v").fetchall() == [(2, 2)]
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
