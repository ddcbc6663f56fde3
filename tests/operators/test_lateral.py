"""LATERAL, UNNEST and set-returning functions beside a row: against DuckDB at every tick."""

from __future__ import annotations

import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TEXT
from streamsql.operators import Options
from streamsql.runtime.explain import explain
from tests.operators.harness import Table, View, batch_sql, check_view, plan_of, view_of

A = Table(
    Schema.of(("k", INTEGER), ("v", INTEGER), ("s", TEXT)),
    [[None, 1, 2, 3], [None, 0, 2, 3], [None, "", "1", "2,,2", "5,6"]],
)
B = Table(
    Schema.of(("k", INTEGER), ("w", INTEGER), ("u", TEXT)),
    [[None, 1, 2, 3], [None, 1, 2, -5], [None, "a", "b", "zz"]],
)
ONE = "SELECT w, u FROM t1 WHERE t1.k = t0.k"
INCREMENTAL = [
    f"SELECT t0.v, l.w FROM t0, LATERAL ({ONE}) l",
    f"SELECT t0.v, l.w FROM t0 LEFT JOIN LATERAL ({ONE}) l ON l.w > 1",
    f"SELECT t0.v, l.w, l.u FROM t0, LATERAL ({ONE} ORDER BY w DESC, u LIMIT 2) l",
    f"SELECT t0.v, l.w, l.u FROM t0 LEFT JOIN LATERAL ({ONE} ORDER BY w, u LIMIT 1) l ON true",
    f"SELECT t0.v, l.w, l.u FROM t0, LATERAL ({ONE} ORDER BY w, u LIMIT 1 OFFSET 1) l",
    "SELECT t0.v, l.w FROM t0, LATERAL (SELECT w FROM t1 WHERE t1.k + 1 = t0.v "
    "ORDER BY w FETCH FIRST 1 ROW WITH TIES) l",
    "SELECT t0.v, l.* FROM t0, LATERAL (SELECT DISTINCT u FROM t1 WHERE t1.k = t0.k) l",
    "SELECT t0.v, l.* FROM t0, LATERAL (SELECT DISTINCT ON (u) u, w FROM t1 WHERE t1.k = t0.k "
    "ORDER BY u, w) l",
    "SELECT t0.v, l.* FROM t0, LATERAL (SELECT u, sum(w) FROM t1 WHERE t1.k = t0.k GROUP BY u) l",
    "SELECT t0.v, l.* FROM t0, LATERAL (SELECT count(*), sum(w), max(u) FROM t1 "
    "WHERE t1.k = t0.k) l",
    "SELECT t0.v, l.n FROM t0 LEFT JOIN LATERAL (SELECT count(w) + 1 AS n FROM t1 "
    "WHERE t1.k = t0.k) l ON true",
    "SELECT t0.v, l.n FROM t0, LATERAL (SELECT count(w) AS n FROM t1 WHERE t1.k = t0.k) l "
    "WHERE l.n > 1",
    "SELECT t0.v, l.* FROM t0, LATERAL (SELECT w, row_number() OVER (ORDER BY w, u) AS n FROM t1 "
    "WHERE t1.k = t0.k) l",
    "SELECT t0.k, l.w FROM t0, LATERAL (SELECT w FROM t1 WHERE t1.k = t0.k AND w > t0.v) l",
    "SELECT t0.k, l.w FROM t0 LEFT JOIN LATERAL (SELECT w FROM t1 WHERE w > t0.v) l ON true",
    "SELECT t0.k, l.x FROM t0, LATERAL (SELECT t0.v * w AS x FROM t1 WHERE t1.k = t0.k) l",
    "SELECT t0.k, l.x, m.y FROM t0, LATERAL (SELECT t0.v + 1 AS x) l, LATERAL "
    "(SELECT l.x * 2 AS y) m",
    "SELECT t0.k, l.x FROM t0 LEFT JOIN LATERAL (SELECT coalesce(t0.v, 7) AS x) l ON true",
    "SELECT t0.k, l.w FROM t0, LATERAL (SELECT a.w FROM t1 a, t1 b WHERE a.k = t0.k AND "
    "b.w = a.k ORDER BY a.w, b.u LIMIT 2) l",
    "SELECT t0.v, (SELECT w FROM t1 WHERE t1.k = t0.k ORDER BY w LIMIT 1) FROM t0",
    "SELECT t0.v FROM t0 WHERE v IN (SELECT max(w) FROM t1 WHERE t1.k = t0.k GROUP BY u)",
    "SELECT t0.k, l.x FROM t0, UNNEST(string_to_array(s, ',')) AS l(x)",
    "SELECT t0.k, l.x, l.o FROM t0, UNNEST(string_to_array(s, ',')) WITH ORDINALITY AS l(x, o)",
    "SELECT t0.k, l.x, l.o FROM t0 LEFT JOIN LATERAL UNNEST(string_to_array(s, ',')) WITH ORDINALITY l(x, o) ON true",
    "SELECT k, x FROM t0 CROSS JOIN LATERAL generate_series(1, v) AS l(x)",
    "SELECT k, x FROM t0 CROSS JOIN LATERAL generate_series(v, k, -1) AS l(x)",
    "SELECT k, unnest(string_to_array(s, ',')) FROM t0",
    "SELECT k, x, count(*) FROM t0, UNNEST(string_to_array(s, ',')) AS l(x) GROUP BY k, x",
    "SELECT v, x FROM t0, LATERAL regexp_split_to_table('a,b', ',') AS l(x)",
]


def written(sql: str) -> str:
    """DuckDB's text of a query as it was written: no rule of the optimizer has a say in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamsql.plan.optimizer.optimize", lambda plan: plan)
        return batch_sql(plan_of(sql, [A, B]))


@pytest.mark.parametrize("sql", INCREMENTAL)
def test_lateral_is_incremental_and_equals_batch_at_every_tick(sql: str) -> None:
    plan = plan_of(sql, [A, B])
    assert View(plan, [A, B], "").compiled.maintenance == "incremental"
    check_view(plan, [A, B], written(sql), len(sql), most=7)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t0.k, l.w FROM t0, LATERAL (SELECT w FROM t1 WHERE w > t0.v ORDER BY w, u LIMIT 1) l",
        "SELECT t0.k, l.w FROM t0, LATERAL (SELECT w FROM t1 WHERE t1.k = t0.k UNION "
        "SELECT t0.v) l",
        "SELECT t0.k, l.x FROM t0 LEFT JOIN LATERAL (SELECT coalesce(t0.v, w) AS x FROM t1 "
        "WHERE t1.k = t0.k) l ON true",
    ],
)
def test_what_is_not_a_join_is_recomputed_by_key(sql: str) -> None:
    plan = plan_of(sql, [A, B])
    assert View(plan, [A, B], "").compiled.maintenance == "recompute per key"
    check_view(plan, [A, B], written(sql), 3)


def test_function_that_fails_keeps_its_row_out_until_it_is_gone() -> None:
    sql = "SELECT k, x FROM t0, generate_series(1, 6, v) AS l(x)"
    view = view_of(sql, [Table(Schema.of(("k", INTEGER), ("v", INTEGER)))])
    view.at("""+ 1 0
               + 2 3""").gives("""+ 2 1
                                  + 2 4""")
    assert [(e.sqlstate, e.weight) for e in view.errors] == [("22023", 1)]
    view.at("- 1 0").gives("")
    assert sum(e.weight for e in view.errors) == 0


def test_failing_pair_and_failing_function_fail_the_view_under_on_error_fail() -> None:
    rows = Table(Schema.of(("k", INTEGER), ("v", INTEGER)))
    for sql in (
        "SELECT a.k FROM t0 a LEFT JOIN t0 b ON 6 / (a.v - b.v) > 2",
        "SELECT k, x FROM t0, generate_series(1, 6, v) AS l(x)",
    ):
        view = view_of(sql, [rows], Options(on_error="fail"))
        view.at("+ 1 0")
        assert view.compiled.failure() is not None
        view.restart()
        assert view.compiled.failure() is not None
        view.at("- 1 0")
        assert view.compiled.failure() is None


def test_explain_tells_functions() -> None:
    view = view_of(
        "SELECT k, x, o FROM t0, UNNEST(string_to_array(s, ',')) WITH ORDINALITY AS l(x, o)", [A]
    )
    assert "TableFunction: unnest(string_to_array(s, ',')) WITH ORDINALITY" in "\n".join(
        explain(view.compiled)
    )
