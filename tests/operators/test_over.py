"""OVER: every function over every kind of frame, with inserts in any order, deletes and updates."""

from __future__ import annotations

import decimal
import math
import random

import numpy as np
import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, DOUBLE, INTEGER, TEXT, array_of, numeric
from streamsql.operators import Options
from streamsql.operators.over import Over
from streamsql.runtime.explain import explain
from tests.operators import over_shapes
from tests.operators.harness import Table, View, check_sql, view_of


def overs(view: View) -> list[Over]:
    return [node.operator for node in view.circuit if isinstance(node.operator, Over)]


@pytest.mark.parametrize("window", over_shapes.TOGETHER)
def test_all_calls_of_a_window_equal_their_query(window: str) -> None:
    seed = sum(window.encode())
    append_only = seed % 3 == 0
    check_sql(
        over_shapes.TOGETHER[window], [over_shapes.table(append_only=append_only)], seed,
        ticks=3, most=8,
    )  # fmt: skip


@pytest.mark.parametrize("shape", random.Random(4).sample(sorted(over_shapes.ALONE), 16))
def test_call_by_itself_equals_its_query(shape: str) -> None:
    check_sql(over_shapes.ALONE[shape], [over_shapes.table()], len(shape), ticks=3, most=9)


@pytest.mark.parametrize("window", list(over_shapes.TOGETHER)[::3])
def test_over_is_incremental(window: str) -> None:
    view = view_of(over_shapes.TOGETHER[window], [over_shapes.table()])
    assert overs(view) and view.compiled.maintenance == "incremental"


MANY = {
    "two orders": "SELECT id, lag(v) OVER (PARTITION BY k ORDER BY id, v) AS p, "
    "sum(v) OVER (ORDER BY id, k, g, v ROWS 2 PRECEDING) AS s, "
    "lead(v) OVER (PARTITION BY k ORDER BY id, v) AS n FROM t0",
    "over over": "SELECT k, max(d) OVER (PARTITION BY k) AS m FROM (SELECT k, v - lag(v) OVER "
    "(PARTITION BY k ORDER BY id, v, g) AS d FROM t0) x",
    "qualify": "SELECT id, v FROM t0 QUALIFY lag(v) OVER (ORDER BY id, k, v, g) < v",
    "over aggregate": "SELECT k, sum(v) AS s, rank() OVER (ORDER BY sum(v) DESC) AS r FROM t0 GROUP BY k",
    "constants": "SELECT id, lag(1) OVER (PARTITION BY 1 ORDER BY 2, id, k, v, g) AS a, "
    "sum(2) OVER (ORDER BY id, k, v, g) AS b, count('x') OVER () AS c FROM t0",
    "expressions": "SELECT id, sum(v * 2) OVER (PARTITION BY k + 1 ORDER BY v % 2, id, g, k) AS s FROM t0",
    "share of the whole": "SELECT k, v, v * 100.0 / sum(v) OVER (PARTITION BY k) AS p FROM t0",
    "beside what is computed again": "SELECT id, string_agg(g, ',') OVER (PARTITION BY k ORDER BY "
    "id, g, v) AS s, lag(v) OVER (PARTITION BY k ORDER BY id, g, v) AS p, string_agg(g, '') OVER "
    "(PARTITION BY k ORDER BY id, g, v ROWS 1 PRECEDING) AS u FROM t0",
}


@pytest.mark.parametrize("name", MANY)
def test_several_windows_in_one_query(name: str) -> None:
    for seed in range(2):
        check_sql(MANY[name], [over_shapes.table()], seed, ticks=5, most=8)


def test_calls_without_an_incremental_form_leave_the_others_alone() -> None:
    view = view_of(MANY["beside what is computed again"], [over_shapes.table()])
    text = "\n".join(explain(view.compiled))
    assert len(overs(view)) == 1 and view.compiled.maintenance == "recompute per key"
    assert "string_agg() has no incremental form over a frame" in text


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("lag(id, v) OVER (ORDER BY id)", "the offset of lag() is not a constant"),
        ("sum(v) OVER (ORDER BY n RANGE 1 PRECEDING)", "RANGE with an offset over numeric"),
        ("string_agg(g, ',') OVER (ORDER BY id)", "string_agg() has no incremental form"),
        ("first_value(id) OVER (ORDER BY array[v])", "ORDER BY integer[] has no ordered index"),
        ("max(array[v]) OVER (ORDER BY id)", "integer[] has no ordered index"),
    ],
)
def test_explain_says_why_a_call_is_computed_again(sql: str, why: str) -> None:
    view = view_of(f"SELECT id, {sql} AS y FROM t0", [over_shapes.table()])
    assert not overs(view)
    assert why in "\n".join(explain(view.compiled))


def test_explain_says_what_a_change_costs() -> None:
    def text(call: str) -> str:
        view = view_of(f"SELECT id, {call} AS y FROM t0", [over_shapes.table()])
        return "\n".join(explain(view.compiled))

    assert "computes the rows whose frame holds it" in text("lag(v, 3) OVER (ORDER BY id)")
    assert "from it to its partition's end" in text("sum(v) OVER (ORDER BY id)")
    assert "from its partition's start to it" in text(
        "sum(v) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
    )
    assert "computes its partition" in text("ntile(4) OVER (ORDER BY id)")
    assert "computes its partition" in text("sum(v) OVER (PARTITION BY k)")
    assert "reading its partition" in text("lag(v IGNORE NULLS) OVER (ORDER BY id)")
    assert "keeps every row, in order, with its results; freed when it goes" in text(
        "rank() OVER (ORDER BY id)"
    )


# --- how much is computed -------------------------------------------------------------------------
NUMBERS = Table(Schema.of(("id", BIGINT), ("k", BIGINT), ("v", BIGINT)))


def touched(call: str, change: tuple[int, int, int], delete: bool = False) -> int:
    """Rows computed for one change to 1,000 rows: id 0, 10, 20, … of one partition."""
    view = view_of(f"SELECT id, {call} AS y FROM t0", [NUMBERS])
    view.insert(*[(10 * i, 1, i % 7) for i in range(1000)])
    (over,) = overs(view)
    before = over.rows_computed
    if delete:
        view.delete(change)
    else:
        view.insert(change)
    return over.rows_computed - before


IN_THE_MIDDLE = (5005, 1, 3)


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        ("lag(v) OVER (PARTITION BY k ORDER BY id)", 2),
        ("lead(v, 3) OVER (PARTITION BY k ORDER BY id)", 4),
        ("sum(v) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)", 4),
        ("max(v) OVER (ORDER BY id RANGE BETWEEN 20 PRECEDING AND CURRENT ROW)", 3),
        ("sum(v) OVER (ORDER BY id GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", 3),
        ("first_value(v) OVER (ORDER BY id)", 1),
        ("nth_value(v, 4) OVER (ORDER BY id)", 1),
        ("last_value(v) OVER (ORDER BY id)", 1),
        ("last_value(v) OVER (ORDER BY id RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", 1),
        ("row_number() OVER (ORDER BY id)", 500),
        ("sum(v) OVER (ORDER BY id)", 500),
        ("sum(v) OVER (ORDER BY id DESC)", 502),
        ("count(*) OVER ()", 1001),
    ],
)
def test_only_rows_that_a_change_reaches_are_computed(call: str, rows: int) -> None:
    assert touched(call, IN_THE_MIDDLE) == rows
    gone = touched(call, (5000, 1, 500 % 7), delete=True)
    assert gone <= rows


def test_rows_that_come_in_order_cost_themselves_alone() -> None:
    for call in ("sum(v) OVER (ORDER BY id)", "row_number() OVER (ORDER BY id)",
                 "max(v) OVER (PARTITION BY k ORDER BY id)", "dense_rank() OVER (ORDER BY id)",
                 "avg(v) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING)"):  # fmt: skip
        assert touched(call, (10_000, 1, 3)) == 1


def test_row_that_goes_and_comes_again_has_not_moved() -> None:
    view = view_of("SELECT id, sum(v) OVER (ORDER BY id) AS s FROM t0", [NUMBERS])
    view.insert(*[(10 * i, 1, i % 7) for i in range(1000)])
    (over,) = overs(view)
    before = over.rows_computed
    view.step([(0, (0, 1, 0), -1), (0, (0, 1, 0), 1)])
    assert over.rows_computed == before and over.rows.entries == 1000


def test_row_that_comes_again_stands_where_it_stood() -> None:
    view = view_of("SELECT v, row_number() OVER (ORDER BY k) AS n FROM t0", [NUMBERS])
    view.at("+ 1 1 10")
    view.at("""- 1 1 10
               + 2 1 20
               + 1 1 10""").gives("+ 20 2")
    view.at("""- 1 1 10
               + 1 1 10
               + 3 1 30""").gives("+ 30 3")
    view.at("""- 1 1 10
               - 2 1 20
               - 3 1 30""")
    assert view.state_rows() == 0


def test_only_rows_whose_value_changed_are_given_out() -> None:
    view = view_of("SELECT id, max(v) OVER (ORDER BY id) AS m FROM t0", [NUMBERS])
    view.at("""+ 1 1 5
               + 2 1 4
               + 3 1 9
               + 4 1 1""")
    view.at("+ 0 1 6").gives("""+ 0 6
                                - 1 5
                                + 1 6
                                - 2 5
                                + 2 6""")
    view.at("- 0 1 6").gives("""- 0 6
                                - 1 6
                                + 1 5
                                - 2 6
                                + 2 5""")


# --- ties and copies ------------------------------------------------------------------------------
def test_rows_that_are_equal_in_order_stand_in_the_order_of_what_they_hold() -> None:
    view = view_of("SELECT v, row_number() OVER (ORDER BY k) AS n FROM t0", [NUMBERS])
    view.at("""+ 1 1 30
               + 2 1 10
               + 3 1 20""").gives("""+ 10 1
                                     + 20 2
                                     + 30 3""")
    view.restart()
    view.at("+ 4 1 40").gives("+ 40 4")
    view.at("- 2 1 10").gives("""- 10 1
                                 - 20 2
                                 + 20 1
                                 - 30 3
                                 + 30 2
                                 - 40 4
                                 + 40 3""")
    view.at("+ 2 1 50").gives("+ 50 4")


def test_a_known_key_orders_ties_before_anything_else() -> None:
    table = Table(NUMBERS.schema, unique_key=(0,))
    view = view_of("SELECT id, v, row_number() OVER (ORDER BY k) AS n FROM t0", [table])
    view.at("""+ 3 1 10
               + 1 1 30
               + 2 1 20""").gives("""+ 1 30 1
                                     + 2 20 2
                                     + 3 10 3""")


def test_ticks_do_not_decide_the_order_of_ties() -> None:
    sql = "SELECT id, v, lag(id) OVER (PARTITION BY k ORDER BY v) AS p FROM t0"
    rng = random.Random(5)
    live: list[tuple[int, int, int]] = []
    events = []
    for _ in range(60):
        if live and rng.random() < 0.4:
            events.append((0, live.pop(rng.randrange(len(live))), -1))
        else:
            live.append((rng.randrange(5), rng.randrange(2), rng.randrange(3)))
            events.append((0, live[-1], 1))
    views = []
    for size in (1, 3, 60):
        view = view_of(sql, [NUMBERS])
        for at in range(0, len(events), size):
            view.step(events[at : at + size])
        views.append(view)
    assert views[0].output == views[1].output == views[2].output


def test_row_whose_other_results_change_keeps_its_place_among_ties() -> None:
    sql = (
        "SELECT id, row_number() OVER (ORDER BY id) AS n, "
        "lag(id) OVER (PARTITION BY k ORDER BY v) AS p FROM t0"
    )
    view = view_of(sql, [NUMBERS])
    view.at("""+ 5 1 0
               + 7 1 0""").gives("""+ 5 1 NULL
                                    + 7 2 5""")
    view.at("+ 3 1 0").gives("""- 5 1 NULL
                                + 5 2 3
                                - 7 2 5
                                + 7 3 5
                                + 3 1 NULL""")


def test_copies_of_a_row_are_rows_of_their_own() -> None:
    view = view_of(
        "SELECT v, count(*) OVER (ORDER BY v ROWS UNBOUNDED PRECEDING) AS n FROM t0", [NUMBERS]
    )
    view.at("""+ 1 1 7
               + 1 1 7
               + 1 1 7""").gives("""+ 7 1
                                    + 7 2
                                    + 7 3""")
    view.at("- 1 1 7").gives("- 7 3")


# --- floats -----------------------------------------------------------------------------------------
FLOATS = Table(Schema.of(("id", INTEGER), ("x", DOUBLE)))
FLOAT_FRAMES = (
    "ROWS UNBOUNDED PRECEDING",
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING EXCLUDE CURRENT ROW",
)


@pytest.mark.parametrize("frame", FLOAT_FRAMES)
@pytest.mark.parametrize("bad", [1e308, 1e17, math.nan, math.inf, -math.inf])
def test_deleted_special_float_leaves_nothing_behind(frame: str, bad: float) -> None:
    calls = ", ".join(f"{f}(x) OVER (ORDER BY id {frame})" for f in ("sum", "avg", "stddev_pop"))
    rows = [(i, 0.1 * i) for i in range(12)]
    clean, dirty = (view_of(f"SELECT id, {calls} FROM t0", [FLOATS]) for _ in range(2))
    clean.insert(*rows)
    dirty.insert(*rows[:6])
    dirty.insert((3, bad), (4, -1e308), *rows[6:])
    dirty.delete((3, bad))
    dirty.delete((4, -1e308))
    assert dirty.output == clean.output


def test_sums_of_frames_are_exact() -> None:
    values = [1e17, 3.0, -1e17, 0.1, 1e-9, 7e15, -7e15, 2.5]
    sql = "SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM t0"
    view = view_of(sql, [FLOATS])
    view.check = False
    for i in np.random.default_rng(1).permutation(len(values)).tolist():
        view.insert((i, values[i]))
    wanted = {i: math.fsum(values[max(0, i - 3) : i + 1]) for i in range(len(values))}
    assert dict(view.output) == {(i, float(f"{s:.11g}")): 1 for i, s in wanted.items()}


# --- state ------------------------------------------------------------------------------------------
def test_state_follows_the_rows_and_old_rows_leave_the_store() -> None:
    view = view_of("SELECT id, lag(v) OVER (PARTITION BY k ORDER BY id) AS p FROM t0", [NUMBERS])
    view.insert(*[(i, i % 3, i) for i in range(9000)])
    (over,) = overs(view)
    view.delete(*[(i, i % 3, i) for i in range(8990)])
    assert over.state_rows() == 10 and over.rows.store.num_rows == 10
    view.restart()
    view.delete(*[(i, i % 3, i) for i in range(8990, 9000)])
    (over,) = overs(view)
    assert over.state_rows() == 0 and not view.output and over.rows.parts.count == 0


def test_text_is_ordered_by_code_points_and_long_texts_are_told_apart() -> None:
    texts = Table(
        Schema.of(
            ("s", TEXT),
        ),
        [("Zebra", "apple", "apple pie with cream", "apple pie", None, "é")],
    )
    sql = "SELECT s, lag(s) OVER (ORDER BY s) AS p, max(s) OVER (ORDER BY s) AS m FROM t0"
    for seed in range(2):
        check_sql(sql, [texts], seed, ticks=5, most=6)


def test_values_of_any_type_are_picked() -> None:
    rows = Table(
        Schema.of(("id", INTEGER), ("a", array_of(INTEGER))),
        (range(30), ([1, 2], None, [], [3])),
        append_only=True,
    )
    sql = "SELECT id, lag(a) OVER (ORDER BY id, a[1], cardinality(a)) AS p, first_value(a) OVER (ORDER BY id, a[1], cardinality(a)) AS f FROM t0"
    check_sql(sql, [rows], 3, ticks=4, most=6)


# --- results that can not be held -------------------------------------------------------------------
HUGE = Table(Schema.of(("id", INTEGER), ("n", numeric(38))))
MOST = decimal.Decimal("9e37")


def huge(on_error: str) -> View:
    sql = "SELECT id, sum(n) OVER (ORDER BY id) AS s FROM t0"
    view = view_of(sql, [HUGE], Options(on_error=on_error))
    view.insert((1, MOST), (2, MOST), (3, -MOST))
    return view


def test_row_whose_sum_overflows_is_kept_out_until_it_fits() -> None:
    view = huge("skip")
    assert view.output == {(1, MOST): 1, (3, MOST): 1}
    assert [(e.sqlstate, e.weight) for e in view.errors] == [("22003", 1)]
    view.restart()
    view.delete((1, MOST))
    assert view.output == {(2, MOST): 1, (3, 0): 1}
    assert [e.weight for e in view.errors] == [1, -1]


def test_overflow_is_null_or_fails_the_view_if_it_shall() -> None:
    assert huge("null").output == {(1, MOST): 1, (2, None): 1, (3, MOST): 1}
    view = huge("fail")
    assert view.compiled.failure() == ("22003", "value overflows numeric format")
    view.restart()
    assert view.compiled.failure() is not None
    view.delete((2, MOST))
    assert view.compiled.failure() is None
