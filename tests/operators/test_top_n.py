"""Top-N by ROW_NUMBER, RANK, DENSE_RANK, DISTINCT ON and LIMIT, with and without retractions."""

from __future__ import annotations

import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, INTEGER, TEXT, TIMESTAMP
from tests.operators.harness import Table, View, check_sql, view_of

SCHEMA = Schema.of(("id", INTEGER), ("k", INTEGER), ("v", INTEGER), ("g", TEXT))
VALUES = (range(40), (1, 2, None), (1, 2, 3, 4, None), ("a", "ab", "b", None))


def table(**more) -> Table:
    return Table(SCHEMA, VALUES, **more)


TOTAL_ORDER = "v DESC, g, id, k"
RANKED = (
    "SELECT {columns} FROM (SELECT *, {function}() OVER ({over}) AS n FROM t0) x WHERE n <= {limit}"
)
SHAPES = {
    "row_number": RANKED.format(columns="*", function="row_number", over=f"PARTITION BY k ORDER BY {TOTAL_ORDER}", limit=2),
    "row_number without the number": RANKED.format(columns="id, v, k, g", function="row_number", over=f"PARTITION BY k ORDER BY {TOTAL_ORDER}", limit=2),
    "first of each": RANKED.format(columns="id, v, k, g", function="row_number", over=f"PARTITION BY k ORDER BY {TOTAL_ORDER}", limit=1),
    "all rows": RANKED.format(columns="*", function="row_number", over=f"ORDER BY {TOTAL_ORDER}", limit=4),
    "rank": RANKED.format(columns="*", function="rank", over="PARTITION BY k ORDER BY v", limit=2),
    "rank by text": RANKED.format(columns="*", function="rank", over="PARTITION BY k ORDER BY g DESC NULLS LAST", limit=2),
    "rank without the number": RANKED.format(columns="id, k, v", function="rank", over="PARTITION BY k ORDER BY v DESC NULLS LAST", limit=3),
    "dense_rank": RANKED.format(columns="*", function="dense_rank", over="PARTITION BY k ORDER BY v", limit=2),
    "dense_rank over all": RANKED.format(columns="id, g, n", function="dense_rank", over="ORDER BY g, v", limit=3),
    "more conditions": RANKED.format(columns="*", function="row_number", over=f"PARTITION BY k ORDER BY {TOTAL_ORDER}", limit=3) + " AND n >= 2 AND v > 1",
    "conditions, no number": RANKED.format(columns="id, v", function="row_number", over=f"PARTITION BY k ORDER BY {TOTAL_ORDER}", limit=3) + " AND v > 1",
    "expressions": RANKED.format(columns="id, n", function="row_number", over=f"PARTITION BY k + 1 ORDER BY v * 2, {TOTAL_ORDER}", limit=2),
    "distinct on": f"SELECT DISTINCT ON (k, g) k, g, v, id FROM t0 ORDER BY k, g, {TOTAL_ORDER}",
    "limit": f"SELECT id, k, v, g FROM t0 ORDER BY {TOTAL_ORDER} LIMIT 3",
    "limit offset": f"SELECT id, k, v, g FROM t0 ORDER BY {TOTAL_ORDER} LIMIT 3 OFFSET 2",
    "with ties": "SELECT id, k, v FROM t0 ORDER BY v FETCH FIRST 2 ROWS WITH TIES",
    "qualify": f"SELECT id, k FROM t0 QUALIFY row_number() OVER (PARTITION BY k ORDER BY {TOTAL_ORDER}) = 1",
    "constant order": f"SELECT DISTINCT ON (k) k, id, v, g FROM t0 ORDER BY k, 1, {TOTAL_ORDER}",
}  # fmt: skip


def nodes(view: View) -> list[str]:
    return [type(node.operator).__name__ for node in view.circuit]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES)
def test_top_n_equals_its_query(shape: str, seed: int) -> None:
    check_sql(SHAPES[shape], [table()], seed, ticks=7, most=8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES)
def test_top_n_of_rows_that_only_come_equals_its_query(shape: str, seed: int) -> None:
    check_sql(SHAPES[shape], [table(append_only=True)], seed, ticks=7, most=8)


@pytest.mark.parametrize("shape", SHAPES)
def test_top_n_is_incremental(shape: str) -> None:
    view = view_of(SHAPES[shape], [table()])
    assert "TopN" in nodes(view) and view.compiled.maintenance == "incremental"


def test_lists_are_used_where_rows_only_come() -> None:
    assert "TopNAppend" in nodes(view_of(NUMBERS, [NUMBERED]))
    assert "TopN" in nodes(view_of(SHAPES["rank"], [table(append_only=True)]))


NUMBERED = Table(
    Schema.of(("id", BIGINT), ("k", BIGINT), ("v", BIGINT)),
    (range(30), (1, 2, None), (1, 2, 3, 4, None)),
    append_only=True,
)
NUMBERS = "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC, id) AS n FROM t0) x WHERE n <= 3"


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("sql", [
    NUMBERS,
    "SELECT id, k, v FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v, id DESC) AS n FROM t0) x WHERE n <= 3",
    "SELECT DISTINCT ON (k) k, v, id FROM t0 ORDER BY k, v DESC, id",
    "SELECT id, v FROM t0 ORDER BY v, id LIMIT 4",
])  # fmt: skip
def test_short_lists_equal_their_query(sql: str, seed: int) -> None:
    check_sql(sql, [NUMBERED], seed, ticks=8, most=10)


def test_only_places_that_changed_are_put_out() -> None:
    view = view_of(NUMBERS, [NUMBERED])
    view.insert((1, 1, 9), (2, 1, 7), (3, 1, 5))
    out = view.insert((4, 1, 6), (5, 1, 1))
    rows, weights = out.batch.to_pylist(), out.weights.tolist()
    assert sorted((r["c0"], r["c3"], w) for r, w in zip(rows, weights, strict=True)) == [
        (3, 3, -1), (4, 3, 1),
    ]  # fmt: skip


def test_rows_behind_the_first_are_forgotten_where_rows_only_come() -> None:
    for sql in (NUMBERS, NUMBERS.replace("row_number", "dense_rank")):
        view = view_of(sql, [NUMBERED])
        view.insert(*((i, 1, i) for i in range(1000)))
        assert view.state_rows() == 3


def test_store_of_short_lists_is_compacted() -> None:
    view = view_of(NUMBERS, [NUMBERED])
    for start in range(0, 12_000, 1000):
        view.insert(*((i, i % 50, i) for i in range(start, start + 1000)))
    view.verify()
    operator = next(n.operator for n in view.circuit if type(n.operator).__name__ == "TopNAppend")
    assert operator.rows.num_rows < 6000
    view.restart()
    view.insert((20_000, 7, 3), (20_001, 7, 30_000))
    view.verify()


def test_equal_rows_do_not_depend_on_arrival() -> None:
    sql = "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM t0) x WHERE n <= 2"
    rows = [(i, 1, 5) for i in range(9)]
    for append_only in (True, False):
        one = view_of(sql, [Table(NUMBERED.schema, append_only=append_only)])
        one.insert(*rows)
        other = view_of(sql, [Table(NUMBERED.schema, append_only=append_only)])
        for row in reversed(rows):
            other.insert(row)
        assert one.output == other.output and sum(one.output.values()) == 2


def test_equal_rows_are_counted_one_by_one() -> None:
    sql = "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM t0) x WHERE n <= 3"
    for append_only in (True, False):
        view = view_of(sql, [Table(NUMBERED.schema, append_only=append_only)])
        view.insert((1, 1, 1), (1, 1, 1), (2, 1, 2))
        view.insert((1, 1, 1))
        view.verify()
        if not append_only:
            view.delete((1, 1, 1), (1, 1, 1))
            view.verify()


TIMED = Table(
    Schema.of(("k", INTEGER), ("v", INTEGER), ("t", TIMESTAMP)),
    append_only=True, watermark_column=2,
)  # fmt: skip
WINDOWED = """SELECT k, v, window_end FROM (
    SELECT *, {}() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, k) AS n
    FROM TUMBLE(t0, t, INTERVAL '10 seconds')) x WHERE n <= 2"""


@pytest.mark.parametrize("function", ["row_number", "rank"])
@pytest.mark.parametrize("append_only", [True, False])
def test_closed_windows_are_freed(function: str, append_only: bool) -> None:
    import datetime

    def at(second: int) -> datetime.datetime:
        return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=second)

    timed = Table(TIMED.schema, append_only=append_only, watermark_column=2)
    view = view_of(WINDOWED.format(function), [timed])
    view.insert((1, 5, at(1)), (2, 6, at(2)), (3, 7, at(3)))
    view.verify()
    held = view.state_rows()
    view.insert((4, 1, at(25)))
    view.verify()
    assert held >= 2 and view.state_rows() == 1
    view.restart()
    view.insert((5, 2, at(26)), (6, 3, at(50)))
    view.verify()
    assert view.state_rows() == 1
