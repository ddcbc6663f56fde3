"""The general operator: anything DuckDB can run, by key where there is one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER, TEXT
from streamsql.operators import Options
from tests.operators.harness import Table, check_sql, view_of

A = Table(
    Schema.of(("k", INTEGER), ("v", INTEGER), ("s", TEXT)),
    [[None, 1, 2, 3], [None, 1, 2, -5], [None, "a", "b", "zz"]],
)
B = Table(
    Schema.of(("k", INTEGER), ("w", INTEGER), ("u", TEXT)),
    [[None, 1, 2, 3], [None, 1, 2, -5], [None, "a", "b", "zz"]],
)
BY_KEY = [
    "SELECT k, product(v) FROM t0 GROUP BY k",
    "SELECT k, v, string_agg(s, ',') OVER (PARTITION BY k ORDER BY v, s) FROM t0",
    "SELECT k, string_agg(s, '') OVER (PARTITION BY k, s), max(array[v]) OVER (PARTITION BY k) FROM t0",
    "SELECT t0.k, x FROM t0, LATERAL (SELECT w AS x FROM t1 WHERE t1.k = t0.k AND w > v ORDER BY w, u LIMIT 1) z",
    "SELECT v, x FROM t0, LATERAL (SELECT w AS x FROM t1 WHERE t1.k = t0.k UNION SELECT t0.v) z",
    "SELECT k, (SELECT product(w) FROM t1 WHERE t1.k = t0.k AND w > v) FROM t0",
]
WHOLE = [
    "SELECT v, string_agg(s, ',') OVER (ORDER BY v, k, s) FROM t0",
    "SELECT histogram(v) FROM t0",
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4) "
    "SELECT n, count(k) FROM r LEFT JOIN t0 ON t0.v = r.n GROUP BY n",
    "SELECT k FROM t0 WHERE k NOT IN (SELECT w FROM t1)",
]


@pytest.mark.parametrize("sql", BY_KEY + WHOLE)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=1, deadline=None)
def test_recomputed_view_equals_batch_at_every_tick(sql: str, seed: int) -> None:
    check_sql(sql, [A, B], seed)


@pytest.mark.parametrize("sql", BY_KEY)
def test_key_is_derived(sql: str) -> None:
    view = view_of(sql, [A, B])
    assert view.compiled.maintenance == "recompute per key"


def test_only_touched_keys_are_computed_again() -> None:
    view = view_of("SELECT k, product(v) FROM t0 GROUP BY k", [A])
    view.insert((1, 3, "b"), (2, 5, "x"), (None, 1, "n"))
    view.at("+ 1 2 a").gives("""- 1 3.0
                                + 1 6.0""")
    view.at("- 2 5 x").gives("- 2 5.0")


def test_key_that_fails_is_kept_out_reported_and_heals() -> None:
    sql = "SELECT k, (SELECT w FROM t1 WHERE t1.k = t0.k) FROM t0"
    view = view_of(sql, [A, B])
    view.at("""t0 + 1 0 a
               t0 + 2 0 a
               t1 + 1 7 u
               t1 + 2 8 u
               t1 + 2 9 u""").gives("+ 1 7")
    assert [(e.sqlstate, e.weight) for e in view.errors] == [("21000", 1)]
    view.at("t1 - 2 9 u").gives("+ 2 8")
    assert [e.weight for e in view.errors] == [1, -1]
    assert view.compiled.failure() is None


def test_failing_key_fails_the_view_under_on_error_fail() -> None:
    sql = "SELECT k, (SELECT w FROM t1 WHERE t1.k = t0.k) FROM t0"
    view = view_of(sql, [A, B], Options(on_error="fail"))
    view.at("""t0 + 2 0 a
               t1 + 2 8 u
               t1 + 2 9 u""")
    assert view.compiled.failure()[0] == "21000"
    view.restart()
    assert view.compiled.failure()[0] == "21000"
    view.at("t1 - 2 9 u")
    assert view.compiled.failure() is None
