"""Set-returning functions in FROM and in SELECT: incremental, equal to the batch at every tick."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.circuit.operator import Algebra
from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, JSONB, TEXT, TIMESTAMP, array_of
from streamsql.operators.table_function import TableFunction
from tests.operators.harness import Table, check_sql, view_of

TIMES = [__import__("datetime").datetime(2024, 1, 31 - i) for i in range(4)]
T = Table(
    Schema.of(("k", INTEGER), ("a", array_of(INTEGER)), ("b", array_of(TEXT)), ("s", TEXT), ("j", JSONB), ("ts", TIMESTAMP)),
    [
        [None, 0, 1, 3],
        [None, (), (1,), (2, None, 3)],
        [None, (), ("x",), ("y", "z")],
        [None, "", "a,b", "foobarbaz"],
        [None, '{"a": 1, "b": [2]}', '{"c": null}', "{}"],
        TIMES,
    ],
)  # fmt: skip
QUERIES = {
    "unnest": "SELECT k, x FROM t0, unnest(a) AS u(x)",
    "unnest in select": "SELECT k, unnest(a) FROM t0",
    "ordinality": "SELECT k, x, o FROM t0, unnest(b) WITH ORDINALITY AS u(x, o)",
    "left": "SELECT k, x FROM t0 LEFT JOIN unnest(a) AS u(x) ON true",
    "left with ordinality": "SELECT k, x, o FROM t0 LEFT JOIN LATERAL unnest(a) WITH ORDINALITY AS u(x, o) ON true",
    "several arrays": "SELECT k, x, y FROM t0, unnest(a, b) AS u(x, y)",
    "several arrays numbered": "SELECT k, x, y, o FROM t0, unnest(a, b) WITH ORDINALITY AS u(x, y, o)",
    "side by side in select": "SELECT k, unnest(a), unnest(b) FROM t0",
    "rows from": "SELECT k, x, y FROM t0, ROWS FROM (unnest(a), unnest(b)) AS u(x, y)",
    "generate_series": "SELECT k, n FROM t0, generate_series(1, k) AS g(n)",
    "generate_series by step": "SELECT k, n FROM t0, generate_series(k, -3, -2) AS g(n)",
    "generate_series of times": "SELECT k, d FROM t0, generate_series(ts, ts + INTERVAL '3 days', INTERVAL '1 day') AS g(d)",
    "generate_series alone": "SELECT n, count(k) FROM generate_series(0, 3) AS g(n) LEFT JOIN t0 ON k = n GROUP BY n",
    "nested calls": "SELECT k, generate_series(1, unnest(a)) FROM t0",
    "regexp_matches": "SELECT k, m FROM t0, regexp_matches(s, 'b(.)', 'g') AS r(m)",
    "regexp_split": "SELECT k, p FROM t0, regexp_split_to_table(s, 'b|,') AS r(p)",
    "string_to_table": "SELECT k, p FROM t0, string_to_table(s, ',') AS r(p)",
    "jsonb_each": "SELECT k, e.key, e.value FROM t0, jsonb_each(j) AS e",
    "jsonb_object_keys": "SELECT jsonb_object_keys(j), count(*) FROM t0 GROUP BY 1",
    "subscripts": "SELECT k, i, a[i] FROM t0, generate_subscripts(a, 1) AS g(i)",
    "filtered": "SELECT k, sum(x) FROM t0, unnest(a) AS u(x) WHERE x > 1 GROUP BY k",
    "lateral": "SELECT k, x FROM t0, LATERAL (SELECT y * 2 AS x FROM unnest(a) AS u(y) WHERE y > 1) l",
}
BY_KEY = {"lateral"}


@pytest.mark.parametrize("name", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_table_function_equals_batch_at_every_tick(name: str, seed: int) -> None:
    check_sql(QUERIES[name], [T], seed)


@pytest.mark.parametrize("name", QUERIES)
def test_table_function_is_incremental(name: str) -> None:
    view = view_of(QUERIES[name], [T])
    assert view.compiled.maintenance == ("recompute per key" if name in BY_KEY else "incremental")
    if name not in BY_KEY:
        (found,) = {
            n.operator.algebra for n in view.circuit if isinstance(n.operator, TableFunction)
        }
        assert found is Algebra.LINEAR


def test_weights_are_those_of_the_row() -> None:
    view = view_of("SELECT x FROM t0, unnest(a) AS u(x)", [T])
    row = (1, (7, 7, 8), None, None, None, None)
    view.step([(0, row, 2)])
    assert dict(view.output) == {(7,): 4, (8,): 2}
    view.step([(0, row, -2)])
    assert not view.output


def test_row_that_the_function_fails_on_is_kept_out_and_reported() -> None:
    view = view_of("SELECT n FROM t0, generate_series(1, 3, k) AS g(n)", [T])
    view.insert((0, None, None, None, None, None), (2, None, None, None, None, None))
    assert dict(view.output) == {(1,): 1, (3,): 1}
    (error,) = view.errors
    assert (error.sqlstate, error.message) == ("22023", "step size cannot equal zero")


def test_series_that_is_too_long_is_an_error_of_its_row_alone() -> None:
    table = Table(Schema.of(("k", INTEGER)))
    view = view_of("SELECT count(*) FROM t0, generate_series(1, k) AS g(n)", [table])
    view.insert((2_000_000_000,), (5,))
    assert dict(view.output) == {(5,): 1}
    assert [e.sqlstate for e in view.errors] == ["54000"]
    view.delete((2_000_000_000,))
    assert [e.weight for e in view.errors] == [1, -1]
