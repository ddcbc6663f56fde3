"""Windows over DISTINCT, GROUP BY, set operations, IN: what they have closed is freed below, and no answer changes."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from streamsql.circuit.operator import Operator
from streamsql.engine.database import Database
from streamsql.operators import Options, arrange
from streamsql.operators.on_time import OnTime
from streamsql.operators.on_time_rule import rule_of
from streamsql.plan import nodes
from streamsql.plan.nodes import WindowSpec
from streamsql.runtime import compile as compiling
from tests.operators.harness import Event, Row, Table, View, view_of
from tests.operators.test_rounds import BASE, SCHEMA, late, parts, runs
from tests.state.faulty_filesystem import MemoryFileSystem

SEEDS = int(os.environ.get("STREAMSQL_SEEDS", "1"))
INNER = {
    "distinct": "SELECT DISTINCT ts, k FROM t0",
    "group": "SELECT ts, count(*) AS k, max(v) AS m, array_agg(v ORDER BY v) AS l FROM t0 GROUP BY ts",
    "group of distinct": "SELECT ts, count(*) AS k FROM (SELECT DISTINCT ts, k, v FROM t0) q GROUP BY ts",
    "having": "SELECT ts, max(k) AS k FROM t0 GROUP BY ts HAVING count(*) > 1",
    "grouping sets": "SELECT ts, k, count(*) AS n FROM t0 GROUP BY GROUPING SETS ((ts), (ts, k))",
    "union": "SELECT ts, k FROM t0 UNION SELECT ts, k FROM t1",
    "union all of one": "SELECT DISTINCT ts, k FROM t0 UNION ALL SELECT ts, v FROM t0",
    "except": "SELECT ts, k FROM t0 EXCEPT SELECT ts, k FROM t1",
    "except all": "SELECT ts, k FROM t0 EXCEPT ALL SELECT ts, k FROM t1",
    "intersect": "SELECT ts, k FROM t0 INTERSECT SELECT ts, k FROM t1",
    "intersect of one": "SELECT DISTINCT ts, k FROM t0 INTERSECT ALL SELECT ts, v FROM t0",
    "distinct of except": "SELECT DISTINCT ts, k FROM (SELECT ts, k, v FROM t0 EXCEPT SELECT ts, k, v FROM t1) q",
    "in": "SELECT ts, k FROM t0 WHERE k IN (SELECT v FROM t1)",
    "not exists": "SELECT DISTINCT ts, k FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE t1.v = t0.k)",
}  # fmt: skip
COUNTS = "SELECT window_start, window_end, count(*) AS n, sum(k) AS s FROM {}(({{}}), ts, {}) GROUP BY 1, 2"
OUTER = {
    "tumble": COUNTS.format("TUMBLE", "INTERVAL '5 s'"),
    "hop": COUNTS.format("HOP", "INTERVAL '3 s', INTERVAL '7 s'"),
    "holes": COUNTS.format("HOP", "INTERVAL '6 s', INTERVAL '4 s'"),
    "cumulate": COUNTS.format("CUMULATE", "INTERVAL '2 s', INTERVAL '6 s'"),
    "rows": "SELECT ts, k, window_end FROM TUMBLE(({}), ts, INTERVAL '5 s', INTERVAL '-2 s')",
    "zone": COUNTS.format("TUMBLE", "INTERVAL '1 day', tz => 'Europe/Paris'"),
}


def timed(delay: int = 2, lateness: int = 0, *, append_only: bool = False) -> Table:
    return Table(
        SCHEMA, watermark_column=0, watermark_delay_us=delay * 1_000_000,
        lateness_us=lateness * 1_000_000, append_only=append_only,
    )  # fmt: skip


def view(inner: str, outer: str, *, lateness: int, append_only: bool, on_close: bool) -> View:
    tables = [timed(2, lateness, append_only=append_only) for _ in range(2)]
    sql = OUTER[outer].format(INNER[inner])
    return view_of(sql, tables, Options(on_close=on_close))


@contextmanager
def keeping_everything() -> Iterator[None]:
    """Views that are made here free nothing below windows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "judge_early", lambda plan: plan)
        yield


@pytest.fixture(autouse=True)
def _freed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrange, "FREE_FROM", 2)


def frees(made: View) -> bool:
    return any(o.useless for o in made.compiled.operators)


def history(seed: int, rows: int, *, append_only: bool, hours: bool) -> list[list[Event]]:
    """hours: the times stand further apart, for windows of days."""
    out = []
    for run in runs(seed, rows=rows):
        kept = [e for e in run if e[2] > 0] if append_only else run
        out.append([(t, _later(row) if hours else row, w) for t, row, w in kept])
    return [run for run in out if run]


def _later(row: Row) -> Row:
    return (row[0] if row[0] is None else BASE + 3600 * (row[0] - BASE), *row[1:])


@pytest.mark.parametrize("append_only", [True, False], ids=["grows", "shrinks"])
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_no_answer_changes(inner: str, outer: str, append_only: bool) -> None:
    """A view that frees, one that sees every row in a tick of its own, and one that keeps all."""
    first = (*INNER,).index(inner) + (*OUTER,).index(outer)
    for seed in range(first, first + SEEDS):
        how = {"lateness": seed % 3 == 0, "append_only": append_only, "on_close": seed % 2 == 0}
        made, cut = view(inner, outer, **how), view(inner, outer, **how)
        assert frees(made) is (append_only or inner != "in")
        with keeping_everything():
            whole = view(inner, outer, **how)
        assert not frees(whole)
        changes = history(seed, 36, append_only=append_only, hours=outer == "zone")
        for i, run in enumerate(changes):
            whole.step(run)
            made.step(run)
            for part in parts(run):
                cut.step(part)
            if i % 4 == 3:
                made.restart()
            assert made.output == whole.output, seed
            assert cut.output == whole.output, seed
        if outer != "zone":
            assert late(made) == late(cut), seed


@pytest.mark.parametrize("inner", INNER)
def test_state_is_that_of_the_open_windows(inner: str) -> None:
    made = view(inner, "hop", lateness=1, append_only=True, on_close=False)
    held = []
    for i in range(240):
        row = BASE + dt.timedelta(seconds=2 * i)
        made.insert((row, i, 1), (row, i, i), (row, 1, 1))
        made.insert((row, i, 1), (row, 1, 2), into=1)
        if i == 100:
            made.restart()
        if i % 40 == 39:
            held.append(made.state_rows())
    right = 240 if inner in ("in", "not exists") else 0  # keys of the right side have no time
    assert max(held[1:]) - right <= held[0] + 8


def test_rows_without_a_time_or_a_window_are_not_kept() -> None:
    made = view("distinct", "holes", lateness=0, append_only=True, on_close=False)
    for i in range(50):
        made.insert((None, i, 1), (BASE + dt.timedelta(seconds=6 * i + 5), i, 1))
    (below,) = (o for o in made.compiled.operators if isinstance(o, OnTime))
    assert made.state_rows() == 0
    assert not made.late
    assert below.rule.has_holes


def test_a_late_duplicate_is_late_whether_its_row_is_forgotten_or_not() -> None:
    row, ahead = (BASE, 1, 1), (BASE + dt.timedelta(seconds=60), 1, 1)
    together = view("distinct", "tumble", lateness=0, append_only=True, on_close=False)
    together.insert(row, ahead, row, row)
    apart = view("distinct", "tumble", lateness=0, append_only=True, on_close=False)
    for one in (row, ahead, row, row):
        apart.insert(one)
    assert late(together) == late(apart)
    assert sum(late(apart).values()) == 2


@pytest.mark.parametrize("tz", [None, "Europe/Paris", "Pacific/Apia"])
@pytest.mark.parametrize("kind", ["tumble", "hop", "cumulate"])
def test_no_window_ends_later_than_it_is_waited_for(kind: str, tz: str | None) -> None:
    day = 86_400_000_000
    sizes = [(WindowSpec(months=2), WindowSpec(months=1)), (WindowSpec(days=2), WindowSpec(days=1))]
    sizes.append((WindowSpec(us=day // 12), WindowSpec(us=day // 24)))
    times = np.arange(1_300_000_000_000_000, 1_340_000_000_000_000, day // 7, np.int64)
    for size, step in sizes:
        node = nodes.OnTime(
            schema=SCHEMA, input=nodes.Values(schema=SCHEMA, rows=()), kind=kind, time_column=0,
            size=size, slide=None if kind == "tumble" else step, tz=tz,
        )  # fmt: skip
        rule = rule_of(node, 0)
        rows, _, ends = rule.grid.assign(times)
        held = times if rows is None else times[rows]
        assert int((ends - held).max()) <= rule.plus_us
        _, gone = rule.left_out(times, np.full(times.size, int(times[-1]) + 200 * day))
        assert bool(gone.all())


# --- in a database ------------------------------------------------------------------------------
WINDOWS = (
    "SELECT window_start, count(*) AS n FROM TUMBLE((SELECT DISTINCT k, ts FROM {}), ts, "
    "INTERVAL '10 s') GROUP BY window_start"
)


def opened(files: MemoryFileSystem) -> Database:
    return Database("data", files=files)


def content(db: Database, name: str) -> list[Row]:
    return sorted(db.execute(f"SELECT * FROM {name}").fetchall())


def insert(db: Database, *rows: tuple[int, int]) -> None:
    values = [f"({k}, TIMESTAMP '2024-01-01' + INTERVAL '{s} s')" for k, s in rows]
    db.execute(f"INSERT INTO s VALUES {', '.join(values)}")


def test_views_that_need_the_whole_have_it_and_a_restart_changes_nothing() -> None:
    files, draw = MemoryFileSystem(), random.Random(1)
    db = opened(files)
    db.execute(
        "CREATE TABLE s (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2 s') APPEND ONLY"
    )
    db.execute("CREATE VIEW plain AS SELECT DISTINCT k, ts FROM s")
    db.execute("CREATE MATERIALIZED VIEW before AS SELECT * FROM plain")
    db.execute(f"CREATE MATERIALIZED VIEW w AS {WINDOWS.format('s')}")
    db.execute(f"CREATE MATERIALIZED VIEW over_plain AS {WINDOWS.format('plain')}")
    names = ["before", "w", "over_plain"]
    for i in range(60):
        insert(db, *((draw.randint(1, 3), max(0, 5 * i - draw.randint(0, 40))) for _ in range(6)))
        if i == 20:
            db.execute("CREATE MATERIALIZED VIEW after AS SELECT DISTINCT k, ts FROM s")
            db.execute(f"CREATE MATERIALIZED VIEW w_after AS {WINDOWS.format('plain')}")
            names += ["after", "w_after"]
        if i == 40:
            shown = {name: content(db, name) for name in names}
            db.close()
            db = opened(files)
            assert {name: content(db, name) for name in names} == shown
    assert content(db, "before") == sorted(db.execute("SELECT DISTINCT k, ts FROM s").fetchall())
    assert content(db, "after") == content(db, "before")
    assert content(db, "w") == content(db, "over_plain") == content(db, "w_after")
    for name in names:
        assert db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall() == []
    found = db.execute(
        "SELECT view, count(*) FROM streamsql.late_rows GROUP BY view ORDER BY view"
    ).fetchall()
    assert len({n for _, n in found}) == 1  # the view made later found the same rows late
    assert [name for name, _ in found] == ["over_plain", "w", "w_after"]
    plan = db.execute("EXPLAIN (VERBOSE) MATERIALIZED VIEW w").fetchall()
    assert any("when the watermark closes the windows above" in line for (line,) in plan)
    db.close()


def test_late_rows_can_be_replayed() -> None:
    """What is on record is the row, not what became of it below the window."""
    with Database() as db:
        db.execute("CREATE TABLE s (k INT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute(
            "CREATE MATERIALIZED VIEW w AS SELECT window_start, max(n) FROM TUMBLE((SELECT ts, "
            "count(*) AS n FROM s GROUP BY ts), ts, INTERVAL '10 s') GROUP BY window_start"
        )
        db.execute("INSERT INTO s VALUES (1, 7, '2024-01-01 00:00:01'), (1, 8, '2024-01-01 00:01')")
        db.execute("INSERT INTO s VALUES (2, 9, '2024-01-01 00:00:01')")
        rows = db.execute("SELECT row ->> 'k', row ->> 'v' FROM streamsql.late_rows").fetchall()
        assert rows == [("2", "9")]
        db.execute("DELETE FROM s WHERE k = 1")
        db.execute("UPDATE s SET v = 3")
        assert db.execute("VERIFY MATERIALIZED VIEW w").fetchall() == []


def test_what_is_above_the_windows_knows_nothing_of_it() -> None:
    made = view("distinct", "rows", lateness=0, append_only=True, on_close=False)
    top = made.compiled.operators[-1]
    assert isinstance(top, Operator) and not top.useless


def test_windows_that_lose_the_time_on_the_way_lose_no_rows() -> None:
    """What recomputes its groups has no event time above: the windows close by none of it."""
    sql = "SELECT ts, 1 AS k, entropy(v) AS m FROM t0 GROUP BY ts HAVING entropy(v) > 0"
    tables = [timed(append_only=True) for _ in range(2)]
    made = view_of(OUTER["tumble"].format(sql), tables, Options())
    with keeping_everything():
        whole = view_of(OUTER["tumble"].format(sql), tables, Options())
    assert [n.label for n in made.compiled.nodes] == [n.label for n in whole.compiled.nodes]
    for run in history(2, 40, append_only=True, hours=False):
        assert made.step(run).num_rows == whole.step(run).num_rows
        assert made.output == whole.output
    assert not made.late and not frees(made)


def test_times_before_1970_are_times() -> None:
    made = view("except all", "tumble", lateness=0, append_only=True, on_close=False)
    for second in range(30):
        at = dt.datetime(1969, 12, 31, 23, 58, second)
        made.insert((at, 1, 1))
        made.insert((at, 2, 1), into=1)
    assert sum(row[2] for row in made.output) == 30
    assert made.state_rows() < 40
