"""Watermarks: late rows, closing, EMIT ON WINDOW CLOSE, state that is freed, and no dependence on ticks."""

from __future__ import annotations

import datetime as dt
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.errors import FeatureNotSupported
from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TIMESTAMP
from streamsql.operators import Options
from tests.operators.harness import Event, Table, View, rows_of, view_of

BASE = dt.datetime(2024, 6, 1, 10)
SCHEMA = Schema.of(("ts", TIMESTAMP), ("k", INTEGER), ("v", INTEGER))
ON_CLOSE = Options(on_close=True)


def at(seconds: float) -> dt.datetime:
    return BASE + dt.timedelta(seconds=seconds)


def table(delay_s: int = 5, late_s: int = 0, append_only: bool = True) -> Table:
    return Table(
        SCHEMA,
        [[at(3 * i) for i in range(40)], [1, 2], [1, 2, -5]],
        append_only=append_only,
        watermark_column=0,
        watermark_delay_us=delay_s * 10**6,
        lateness_us=late_s * 10**6,
    )


TUMBLE = (
    "SELECT window_start, window_end, count(*), sum(v) FROM TUMBLE(t0, ts, INTERVAL '1 minute') "
    "GROUP BY window_start, window_end"
)


def test_window_is_given_out_when_the_watermark_reaches_its_end() -> None:
    view = view_of(TUMBLE, [table()], ON_CLOSE)
    view.at("""+ 10:00:10 1 1
               + 10:00:50 1 2""").gives("")
    view.at("+ 10:01:04 1 4").gives("")
    view.at("+ 10:00:59 1 8").gives("")
    view.at("+ 10:01:05 1 16").gives("+ 10:00 10:01 3 11")
    view.at("+ 10:02:06 1 64").gives("+ 10:01 10:02 2 20")
    assert view.compiled.append_only


def test_closed_windows_come_in_the_order_of_their_end_and_then_of_their_key() -> None:
    sql = (
        "SELECT window_end, k FROM TUMBLE(t0, ts, INTERVAL '10 seconds') GROUP BY window_end, "
        "window_start, k"
    )
    view = view_of(sql, [table(delay_s=30)], ON_CLOSE)
    view.insert(*[(at(s), k, 1) for s in (25, 5, 15) for k in (2, 1)])
    out = view.insert((at(100), 1, 1))
    assert rows_of(out.batch) == [(at(e), k) for e in (10, 20, 30) for k in (1, 2)]


def test_row_at_the_watermark_counts_while_its_window_is_open() -> None:
    view = view_of(TUMBLE, [table()])
    view.insert((at(60), 1, 1))
    view.insert((at(55), 1, 2))
    view.insert((at(54.999999), 1, 4))
    assert view.output[(at(0), at(60), 2, 6)] == 1
    view.insert((at(65), 1, 8))
    view.insert((at(59.999999), 1, 16))
    assert view.output == {(at(0), at(60), 2, 6): 1, (at(60), at(120), 2, 9): 1}
    (late,) = view.late
    assert rows_of(late.batch) == [(at(59.999999), 1, 16)]


def test_allowed_lateness_keeps_a_window_open_longer() -> None:
    view = view_of(TUMBLE, [table(late_s=10)], ON_CLOSE)
    view.insert((at(10), 1, 1), (at(74.9), 1, 2))
    view.insert((at(59), 1, 4))
    assert not view.output and not view.late
    view.insert((at(75), 1, 0))
    assert view.output == {(at(0), at(60), 2, 5): 1}


def test_retraction_from_a_closed_window_is_late() -> None:
    for options in (Options(), ON_CLOSE):
        view = view_of(TUMBLE, [table(append_only=False)], options)
        view.insert((at(10), 1, 1), (at(70), 1, 2))
        before = dict(view.output)
        view.delete((at(10), 1, 1))
        assert view.output == before
        assert [late.batch.num_rows for late in view.late] == [1]


def test_state_of_closed_windows_is_freed_and_their_rows_stay() -> None:
    view = view_of(TUMBLE, [table()])
    for minute in range(50):
        view.insert(*[(at(60 * minute + s), 1, 1) for s in (0, 20, 40)])
    assert len(view.output) == 50
    assert view.state_rows() <= 3


def test_sessions_close_by_the_watermark_alone() -> None:
    sql = (
        "SELECT k, window_start, window_end, count(*) FROM SESSION(t0 PARTITION BY k, ts, "
        "INTERVAL '10 seconds') GROUP BY 1, 2, 3"
    )
    view = view_of(sql, [table()], ON_CLOSE)
    view.insert((at(0), 1, 1), (at(8), 1, 1))
    view.insert((at(22.9), 2, 1))
    assert not view.output
    out = view.insert((at(23), 2, 1))
    assert rows_of(out.batch) == [(1, at(0), at(18), 2)]
    assert view.circuit.nodes[view.compiled.output].operator.state_rows() <= 1


def test_row_near_a_closed_session_is_late_even_if_its_own_would_be_open() -> None:
    sql = (
        "SELECT k, window_start, count(*) FROM SESSION(t0 PARTITION BY k, ts, INTERVAL "
        "'10 seconds') GROUP BY window_start, window_end, k"
    )
    for options in (Options(), ON_CLOSE):
        view = view_of(sql, [table(delay_s=0)], options)
        view.insert((at(0), 1, 1), (at(12), 2, 1))
        view.insert((at(10), 1, 1))
        view.insert((at(11), 1, 1))
        view.insert((at(100), 2, 1))
        assert [late.batch.num_rows for late in view.late] == [1]
        assert view.output[(1, at(0), 1)] == 1
        assert view.output[(1, at(11), 1)] == 1


def test_plain_select_gives_each_row_when_the_watermark_passes_it() -> None:
    view = view_of("SELECT v, ts FROM t0", [table()], ON_CLOSE)
    view.at("""+ 10:00:10 1 7
               + 10:00:05 1 8""").gives("")
    view.at("+ 10:00:15 1 9").gives("+ 8 10:00:05")
    view.at("+ 10:00:16 1 1").gives("+ 7 10:00:10")


def test_view_made_over_a_filled_table_starts_with_the_closed_windows() -> None:
    from streamsql.circuit.operator import Step
    from streamsql.runtime.compile import compile_view
    from tests.operators.harness import plan_of

    view = view_of("SELECT count(*) FROM t0", [table()])
    events: list[Event] = [(0, (at(s), 1, 1), 1) for s in (10, 20, 70, 15)]
    delta = view.source_delta(0, events)
    source = view.sources[0]
    view.circuit.step(Step(2, 0), {source: delta}, {source: view.watermarks[0]})
    later = compile_view(plan_of(TUMBLE, [table()]), view.circuit, {0: source}, ON_CLOSE)
    first = later.start(Step(3, 0), {source: delta})
    assert rows_of(first.batch) == [(at(0), at(60), 2, 2)]


def test_on_close_without_a_watermark_is_refused() -> None:
    with pytest.raises(FeatureNotSupported, match="watermark"):
        view_of(TUMBLE, [Table(SCHEMA)], ON_CLOSE)
    with pytest.raises(FeatureNotSupported):
        view_of("SELECT k, count(*) FROM t0 GROUP BY k", [Table(SCHEMA)], ON_CLOSE)


def test_over_ordered_by_the_watermark_column_is_final() -> None:
    sql = "SELECT ts, sum(v) OVER (PARTITION BY k ORDER BY ts) FROM t0"
    view = view_of(sql, [table(delay_s=0)], ON_CLOSE)
    view.at("""+ 10:00:02 1 1
               + 10:00:01 1 5""").gives("")
    view.at("+ 10:00:03 1 1").gives("+ 10:00:02 1")


SHAPES = [
    "SELECT * FROM t0",
    "SELECT window_start, k, v FROM TUMBLE(t0, ts, INTERVAL '10 seconds')",
    "SELECT window_start, window_end, k, count(*) FROM HOP(t0, ts, INTERVAL '5 seconds', INTERVAL "
    "'10 seconds') GROUP BY 1, 2, 3",
    "SELECT k, window_start, window_end, count(*), sum(v) FROM SESSION(t0 PARTITION BY k, ts, "
    "INTERVAL '5 seconds') GROUP BY 1, 2, 3",
    "SELECT * FROM SESSION(t0 PARTITION BY k, ts, INTERVAL '5 seconds')",
    "SELECT count(*) FROM (SELECT window_start, window_end, k, sum(v) AS s FROM TUMBLE(t0, ts, "
    "INTERVAL '10 seconds') GROUP BY 1, 2, 3) x",
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY v "
    "DESC, ts, k) AS rn FROM TUMBLE(t0, ts, INTERVAL '10 seconds')) x WHERE rn <= 2",
    "SELECT DISTINCT window_end, k FROM TUMBLE(t0, ts, INTERVAL '10 seconds')",
    "SELECT *, sum(v) OVER (PARTITION BY k ORDER BY ts) FROM t0",
    "SELECT DISTINCT ON (window_start, k) window_start, window_end, k, v, ts FROM TUMBLE(t0, ts, "
    "INTERVAL '10 seconds') ORDER BY window_start, k, v, ts",
    "SELECT a.window_end, count(*) FROM TUMBLE(t0, ts, INTERVAL '10 seconds') a JOIN TUMBLE(t0, "
    "ts, INTERVAL '10 seconds') b ON a.window_end = b.window_end AND a.k = b.k GROUP BY 1",
]


def disordered(seed: int, deletes: bool) -> list[Event]:
    """Rows somewhat out of order, some of them deleted again."""
    rng = random.Random(seed)
    rows = [table().random_row(rng) for _ in range(25)]
    rows.sort(key=lambda r: r[0] + dt.timedelta(seconds=rng.choice([0, 0, 4, 12, 30])))
    events: list[Event] = []
    live = []
    for row in rows:
        events.append((0, row, 1))
        live.append(row)
        if deletes and rng.random() < 0.3:
            events.append((0, live.pop(rng.randrange(len(live))), -1))
    return events


def run(sql: str, events: list[Event], size: int, source: Table, options: Options) -> View:
    view = view_of(sql, [source], options)
    for start in range(0, len(events), size):
        view.step(events[start : start + size])
    view.insert((at(1000), 9, 0))
    return view


@pytest.mark.parametrize("on_close", [True, False])
@pytest.mark.parametrize("sql", SHAPES)
@given(seed=st.integers(0, 2**32), late_s=st.sampled_from([0, 7]), deletes=st.booleans())
@settings(max_examples=2, deadline=None)
def test_result_and_late_rows_do_not_depend_on_ticks(sql, on_close, seed, late_s, deletes) -> None:
    events = disordered(seed, deletes)
    source = table(late_s=late_s, append_only=not deletes)
    if on_close and sql[-1] == "x":  # counts windows as they close: no count is the last one
        with pytest.raises(FeatureNotSupported, match="an aggregate without GROUP BY"):
            view_of(sql, [source], ON_CLOSE)
        return
    views = [run(sql, events, size, source, Options(on_close=on_close)) for size in (1, 4, 100)]
    for view in views[1:]:
        assert view.output == views[0].output
    if "JOIN" not in sql:  # a pair is judged once for each tick that makes it
        assert len({sum(late.batch.num_rows for late in v.late) for v in views}) == 1
    if on_close:
        assert all((d.weights_or_ones() > 0).all() for v in views for d in v.deltas)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_restart_in_the_middle_changes_nothing(seed) -> None:
    events = disordered(seed, True)
    for sql in (SHAPES[3], SHAPES[4], SHAPES[6]):
        whole = run(sql, events, 4, table(append_only=False), ON_CLOSE)
        view = view_of(sql, [table(append_only=False)], ON_CLOSE)
        for start in range(0, len(events), 4):
            view.step(events[start : start + 4])
            view.restart()
        view.insert((at(1000), 9, 0))
        assert view.output == whole.output


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_window_join_frees_rows_of_closed_windows(kind: str) -> None:
    sql = (
        "SELECT a.window_end, a.k, count(b.v) FROM TUMBLE(t0, ts, INTERVAL '10 seconds') a "
        f"{kind} TUMBLE(t1, ts, INTERVAL '10 seconds') b ON a.window_end = b.window_end AND "
        "a.k = b.k GROUP BY 1, 2"
    )
    view = view_of(sql, [table(), table()], ON_CLOSE)
    for i in range(60):
        rows = [
            (relation, (at(10 * i + j % 9), j, 1), 1) for j in range(100) for relation in (0, 1)
        ]
        view.step(rows)
    assert sum(view.output.values()) == 5900
    assert view.state_rows() < 6000


def test_late_change_of_a_dimension_leaves_closed_windows_alone() -> None:
    sql = (
        "SELECT window_end, count(*) FROM TUMBLE(t0, ts, INTERVAL '10 seconds') a JOIN t1 ON "
        "a.k = t1.k GROUP BY window_end, window_start"
    )
    side = Table(Schema.of(("k", INTEGER), ("name", INTEGER)))
    view = view_of(sql, [table(delay_s=0), side])
    view.step([(1, (1, 7), 1), (0, (at(1), 1, 1), 1), (0, (at(15), 1, 1), 1)])
    assert view.output == {(at(10), 1): 1, (at(20), 1): 1}
    view.step([(1, (1, 8), 1)])
    assert view.output == {(at(10), 1): 1, (at(20), 2): 1}
    assert sum(late.batch.num_rows for late in view.late) == 1


@pytest.mark.parametrize("chosen", ["x.window_end, x.k", "x.ts", "x.v, y.v"])
def test_a_window_join_is_held_back_whatever_columns_are_chosen(chosen: str) -> None:
    """The choice of columns and the join are one operator: it must not look through what is held."""
    sql = (
        f"SELECT {chosen} FROM TUMBLE(t0, ts, INTERVAL '5 seconds') x JOIN "
        "TUMBLE(t1, ts, INTERVAL '5 seconds') y ON x.k = y.k AND x.window_start = "
        "y.window_start AND x.window_end = y.window_end"
    )
    view = view_of(sql, [table(0), table(0)], ON_CLOSE)
    for relation, second in ((0, 1), (1, 1), (0, 20)):
        view.step([(relation, (at(second), 1, 1), 1)])
        assert not view.output
    view.step([(1, (at(20), 1, 1), 1)])
    assert sum(view.output.values()) == 1
