"""WITH RECURSIVE: equal to the batch after every tick, cycles and retractions included, and undone to nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TEXT
from streamsql.operators import Options, recursive
from streamsql.runtime.explain import explain
from tests.operators.harness import Table, check_sql, view_of

E = Table(Schema.of(("a", INTEGER), ("b", INTEGER)), [[None, 0, 1, 2, 3], [None, 0, 1, 2, 3]])
T = Table(
    Schema.of(("k", INTEGER), ("v", INTEGER), ("s", TEXT)),
    [[None, 0, 1, 2, 3], [None, 0, 1, 2], [None, "a", "b"]],
)
TABLES = [E, T]
R = "WITH RECURSIVE r"
QUERIES = {
    "transitive closure": f"{R}(a, b) AS (SELECT a, b FROM t0 UNION SELECT r.a, t0.b FROM r JOIN t0 ON r.b = t0.a) "
    "SELECT a, b FROM r",
    "reachable from": f"{R}(n) AS (SELECT 1 UNION SELECT t0.b FROM r JOIN t0 ON t0.a = r.n) SELECT n FROM r",
    "reachable, edge first": f"{R}(n) AS (SELECT k FROM t1 WHERE v = 1 UNION SELECT t0.b FROM t0, r WHERE t0.a = r.n) "
    "SELECT n FROM r",
    "counting": f"{R}(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 7) SELECT n FROM r",
    "counting from rows": f"{R}(n, v) AS (SELECT k, v FROM t1 UNION ALL SELECT n + 1, v FROM r WHERE n < 5) SELECT n, v FROM r",
    "shortest path by depth": f"{R}(n, d) AS (SELECT 0, 0 UNION SELECT t0.b, d + 1 FROM r JOIN t0 ON t0.a = r.n WHERE d < 5) "
    "SELECT n, min(d) FROM r GROUP BY n",
    "paths": f"{R}(n, d) AS (SELECT 0, 0 UNION ALL SELECT t0.b, d + 1 FROM r JOIN t0 ON t0.a = r.n WHERE d < 3) "
    "SELECT n, d, count(*) FROM r GROUP BY n, d",
    "path without a node twice": f"{R}(n, p) AS (SELECT 0, ARRAY[0] UNION ALL SELECT t0.b, p || t0.b FROM r JOIN t0 ON t0.a = r.n "
    "WHERE NOT t0.b = ANY (p)) SELECT n, p FROM r",
    "bill of materials": f"{R}(part, qty) AS (SELECT b, 1 FROM t0 WHERE a = 0 UNION ALL SELECT t0.b, qty * 2 FROM r JOIN t0 ON "
    "t0.a = r.part WHERE qty < 20) SELECT part, sum(qty), count(*) FROM r GROUP BY part",
    "org chart": f"{R}(k, path, d) AS (SELECT k, s, 0 FROM t1 WHERE v IS NULL UNION ALL SELECT c.k, path || '/' || "
    "coalesce(c.s, '?'), d + 1 FROM r JOIN t1 c ON c.v = r.k WHERE d < 3) SELECT k, path, d FROM r",
    "joined with two tables": f"{R}(a, b) AS (SELECT a, b FROM t0 UNION SELECT r.a, t0.b FROM r JOIN t0 ON r.b = t0.a JOIN t1 ON "
    "t1.k = t0.b AND t1.v > 0) SELECT a, b FROM r",
    "left join in the step": f"{R}(n, s, d) AS (SELECT 0, 'x', 0 UNION SELECT coalesce(t0.b, 0), t1.s, d + 1 FROM r LEFT JOIN t0 ON "
    "t0.a = r.n LEFT JOIN t1 ON t1.k = t0.b WHERE d < 3) SELECT n, s, d FROM r",
    "anti join in the step": f"{R}(n) AS (SELECT 0 UNION SELECT t0.b FROM r JOIN t0 ON t0.a = r.n WHERE NOT EXISTS (SELECT 1 "
    "FROM t1 WHERE t1.k = t0.b AND t1.v = 2)) SELECT n FROM r",
    "semi join in the step": f"{R}(n) AS (SELECT k FROM t1 UNION SELECT b FROM r JOIN t0 ON a = n WHERE b IN (SELECT k FROM t1)) "
    "SELECT n FROM r",
    "distinct in the step": f"{R}(n, d) AS (SELECT 0, 0 UNION ALL SELECT DISTINCT t0.b, d + 1 FROM r JOIN t0 ON t0.a = r.n WHERE "
    "d < 4) SELECT n, d FROM r",
    "window in the step": f"{R}(n, d, p) AS (SELECT 0, 0, 0::bigint UNION ALL SELECT b, d + 1, row_number() OVER (ORDER BY b) FROM "
    "(SELECT DISTINCT t0.b, d FROM r JOIN t0 ON t0.a = r.n) x WHERE d < 3) SELECT n, d, p FROM r",
    "unnest in the step": f"{R}(n, d) AS (SELECT 0, 0 UNION SELECT x, d + 1 FROM r, unnest(ARRAY[n + 1, n + 2]) AS u(x) WHERE d < 3) "
    "SELECT n, d FROM r",
    "scalar subquery in the step": f"{R}(n, d) AS (SELECT 0, 0 UNION SELECT (SELECT max(v) FROM t1 WHERE k = n), d + 1 FROM r WHERE "
    "d < 3) SELECT n, d FROM r",
    "aggregate of the table in the step": f"{R}(n) AS (SELECT 0 UNION SELECT m FROM r JOIN (SELECT a, max(b) AS m FROM t0 GROUP BY a) "
    "x ON x.a = r.n) SELECT n FROM r",
    "two recursions": f"{R}(n) AS (SELECT 0 UNION SELECT b FROM r JOIN t0 ON a = n), q(n) AS (SELECT k FROM t1 JOIN r ON k = n "
    "UNION SELECT a FROM q JOIN t0 ON b = q.n) SELECT n FROM q",
    "used twice": f"{R}(a, b) AS (SELECT a, b FROM t0 UNION SELECT r.a, t0.b FROM r JOIN t0 ON r.b = t0.a) SELECT x.a, y.b FROM r x "
    "JOIN r y ON x.b = y.a",
    "base with duplicates": f"{R}(n) AS (SELECT a FROM t0 UNION ALL SELECT n - 1 FROM r WHERE n > 0) SELECT n, count(*) FROM r "
    "GROUP BY n",
    "components": f"{R}(n, m) AS (SELECT a, a FROM t0 UNION SELECT b, b FROM t0 UNION SELECT t0.b, r.m FROM r JOIN t0 ON t0.a = r.n) "
    "SELECT n, min(m) FROM r GROUP BY n",
}


@pytest.mark.parametrize("name", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_recursion_equals_batch_at_every_tick(name: str, seed: int) -> None:
    check_sql(QUERIES[name], TABLES, seed, ticks=7)


@pytest.mark.parametrize("name", QUERIES)
def test_recursion_is_incremental(name: str) -> None:
    view = view_of(QUERIES[name], TABLES)
    assert any(isinstance(n.operator, recursive.Recursive) for n in view.circuit)
    assert view.compiled.maintenance == "incremental"


CLOSURE = QUERIES["transitive closure"]
REACHABLE = QUERIES["reachable from"]


def test_cycle_that_loses_its_entry_goes_as_a_whole() -> None:
    view = view_of(REACHABLE, TABLES)
    view.at("""t0 + 1 2
               t0 + 2 3
               t0 + 3 2""").gives("""+ 2
                                     + 3""")
    view.at("t0 - 1 2").gives("""- 2
                                 - 3""")
    view.at("t0 + 1 3").gives("""+ 3
                                 + 2""")


def test_row_that_is_found_by_another_way_stays_without_a_change() -> None:
    view = view_of(REACHABLE, TABLES)
    view.at("""t0 + 1 2
               t0 + 1 3
               t0 + 3 2
               t0 + 2 4""").gives("""+ 2
                                     + 3
                                     + 4""")
    view.at("t0 - 1 2").gives("")
    view.at("t0 - 3 2").gives("""- 2
                                 - 4""")


def test_one_tick_that_moves_an_edge_gives_only_the_difference() -> None:
    view = view_of(REACHABLE, TABLES)
    view.insert((1, 2), (2, 3), (3, 4))
    view.at("""t0 - 1 2
               t0 + 1 3""").gives("- 2")


def test_only_iterations_that_change_are_stepped() -> None:
    view = view_of(REACHABLE, TABLES)
    chain = [(i, i + 1) for i in range(1, 200)]
    view.insert(*chain)
    assert len(view.output) == 200
    (operator,) = [n.operator for n in view.circuit if isinstance(n.operator, recursive.Recursive)]
    before = max(n.metrics.steps for n in operator.circuit)
    view.insert((199, 1000))
    view.delete((199, 1000))
    assert max(n.metrics.steps for n in operator.circuit) - before <= 8
    view.delete((100, 101))
    assert len(view.output) == 100


LOOP = f"{R}(n, d) AS (SELECT 1, 0 UNION ALL SELECT t0.b, d + 1 FROM r JOIN t0 ON t0.a = r.n) SELECT n, d FROM r"


def test_recursion_that_does_not_end_is_stopped_reported_and_heals() -> None:
    view = view_of(LOOP, TABLES, Options(iterations_max=50))
    view.at("""t0 + 1 2
               t0 + 2 1""")
    assert len(view.output) == 51 and not view.errors[1:]
    (error,) = view.errors
    assert (error.sqlstate, error.weight) == ("54001", 1)
    assert error.message == (
        "recursive query needs more than 50 iterations; add a condition that ends it, or use UNION instead of "
        "UNION ALL"
    )
    view.restart()
    view.at("t0 + 5 6").gives("")
    view.delete((2, 1))
    assert dict(view.output) == {(1, 0): 1, (2, 1): 1}
    assert [e.weight for e in view.errors] == [1, -1]
    assert view.compiled.failure() is None


@pytest.mark.parametrize("restart", [False, True])
def test_recursion_that_explodes_is_cut_where_it_has_too_many_rows(restart: bool) -> None:
    view = view_of(
        LOOP, TABLES, Options(iterations_max=40, recursion_rows_max=1000, on_error="fail")
    )
    view.insert((1, 1))
    assert view.output.total() == 41
    view.insert((1, 1))  # doubles with every iteration
    assert 1000 < view.output.total() < 3000
    assert "1000 rows" in view.compiled.failure()[1]
    if restart:
        view.restart()
    view.insert((1, 3))
    view.delete((1, 1))
    expected = {(1, d): 1 for d in range(41)} | {(3, d): 1 for d in range(1, 41)}
    assert dict(view.output) == expected
    view.delete((1, 1), (1, 3))
    assert dict(view.output) == {(1, 0): 1}
    assert view.compiled.failure() is None


def test_union_with_growing_rows_is_stopped_too() -> None:
    sql = f"{R}(n) AS (SELECT k FROM t1 UNION SELECT n + 1 FROM r) SELECT n FROM r"
    view = view_of(sql, TABLES, Options(iterations_max=1000, recursion_rows_max=100))
    view.insert((5, 0, "a"), into=1)
    assert set(view.output) == {(n,) for n in range(5, 106)}
    view.insert((50, 0, "a"), into=1)
    assert 100 < len(view.output) <= 106
    view.delete((50, 0, "a"), (5, 0, "a"), out_of=1)
    assert not view.output and [e.weight for e in view.errors] in ([1, -1], [1, -1, 1, -1])


def test_view_without_a_limit_of_its_own_may_go_deep() -> None:
    sql = f"{R}(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 2000) SELECT count(*), max(n) FROM r"
    view = view_of(sql, TABLES)
    assert dict(view.output) == {(2000, 2000): 1}
    assert not view.errors


@pytest.mark.parametrize(
    "sql",
    [
        f"{R}(n) AS (SELECT 1 UNION ALL (SELECT n + 1 FROM r WHERE n < 4 ORDER BY n LIMIT 1)) SELECT n FROM r",
        f"{R}(n) AS (SELECT 1 UNION (SELECT b FROM r JOIN t0 ON a = n EXCEPT SELECT v FROM t1)) SELECT n FROM r",
        f"{R}(n) AS (SELECT 1 UNION (SELECT b FROM r JOIN t0 ON a = n ORDER BY b DESC LIMIT 2)) SELECT n FROM r",
        f"{R}(n, d) AS (SELECT 1, 0 UNION ALL (SELECT b, d + 1 FROM r JOIN t0 ON a = n WHERE d < 4 "
        "ORDER BY b LIMIT 1 OFFSET 1)) SELECT n, d FROM r",
        f"{R}(n, d) AS (SELECT 1, 0 UNION ALL (SELECT b, d + 1 FROM r JOIN t0 ON a = n WHERE d < 4 "
        "ORDER BY b FETCH FIRST 2 ROWS WITH TIES)) SELECT n, d FROM r",
    ],
)
def test_first_rows_and_exceptions_of_an_iteration_are_incremental(sql: str) -> None:
    assert view_of(sql, TABLES).compiled.maintenance == "incremental"
    check_sql(sql, TABLES, len(sql), ticks=4)


@pytest.mark.parametrize(
    "sql",
    [
        f"{R}(n) AS (SELECT 1 UNION ALL (SELECT n + 1 FROM r WHERE n < 4 LIMIT 1)) SELECT n FROM r",
        f"{R}(n) AS (SELECT 1 UNION (SELECT b FROM r JOIN t0 ON a = n EXCEPT ALL SELECT v FROM t1)) SELECT n FROM r",
    ],
)
def test_step_that_is_not_row_by_row_is_computed_as_a_whole(sql: str) -> None:
    view = view_of(sql, TABLES)
    assert view.compiled.maintenance == "recompute"
    assert any("step is more than row by row" in line for line in explain(view.compiled))
    view.insert((1, 2), (2, 3))
    view.insert((1, 3, "a"), into=1)
    view.verify()


def test_recursion_computed_as_a_whole_that_does_not_end_is_an_error_of_the_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql = f"{R}(n) AS (SELECT k FROM t1 UNION ALL (SELECT n FROM r LIMIT 1)) SELECT n FROM r"
    view = view_of(sql, TABLES)
    assert view.compiled.maintenance == "recompute"
    monkeypatch.setattr("streamsql.operators.duck.RECURSION_S_MAX", 0.05)
    view.insert((1, 2, "a"), into=1)
    assert not view.output
    assert [(e.sqlstate, e.weight) for e in view.errors] == [("54001", 1)]
    view.delete((1, 2, "a"), out_of=1)
    assert [e.weight for e in view.errors] == [1, -1]
