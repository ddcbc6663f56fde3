"""GROUPING SETS, ROLLUP, CUBE: equal to the batch at every tick, one folding of the rows for all sets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsql.core.schema import Schema
from streamsql.core.types import DOUBLE, INTEGER, TEXT, TIMESTAMP
from streamsql.operators.grouping_sets import GroupingSets
from tests.operators.harness import Table, check_sql, view_of

TIMES = [__import__("datetime").datetime(2024, 1, 1, 0, 0, 7 * i) for i in range(6)]
T = Table(
    Schema.of(("k", INTEGER), ("g", TEXT), ("v", INTEGER), ("x", DOUBLE), ("ts", TIMESTAMP)),
    [[None, 1, 2], [None, "a", "b"], [None, 1, 2, -5], [None, 0.5, 2.0], TIMES],
)
QUERIES = {
    "rollup": "SELECT k, g, count(*), sum(v), avg(v) FROM t0 GROUP BY ROLLUP (k, g)",
    "cube": "SELECT k, g, grouping(k, g), grouping(g), count(v), bool_or(v > 1), bit_or(v) FROM t0 GROUP BY CUBE (k, g)",
    "sets": "SELECT k, g, v, sum(v) FROM t0 GROUP BY GROUPING SETS ((k, g), (v), ())",
    "sets without keys": "SELECT count(*), sum(v) FROM t0 GROUP BY GROUPING SETS ((), ())",
    "set twice": "SELECT k, count(*) FROM t0 GROUP BY GROUPING SETS ((k), (k), ())",
    "crossed": "SELECT k, g, v, count(*) FROM t0 GROUP BY k, ROLLUP (g), CUBE (v)",
    "distinct": "SELECT k, g, v, count(*) FROM t0 GROUP BY DISTINCT ROLLUP (k, g), ROLLUP (k, v)",
    "having": "SELECT k, g, sum(v) FROM t0 GROUP BY ROLLUP (k, g) HAVING count(*) > 1 AND grouping(k) = 0",
    "extremes": "SELECT k, g, min(v), max(g), count(*) FROM t0 GROUP BY ROLLUP (k, g)",
    "distinct values": "SELECT k, g, count(DISTINCT v), count(*) FROM t0 GROUP BY CUBE (k, g)",
    "ordered": "SELECT k, g, array_agg(v ORDER BY v, g, k), mode() WITHIN GROUP (ORDER BY v) FROM t0 GROUP BY ROLLUP (k, g)",
    "floats": "SELECT k, g, sum(x), var_pop(x) FROM t0 GROUP BY ROLLUP (k, g)",
    "expressions": "SELECT v % 2, upper(g), sum(v) FROM t0 GROUP BY ROLLUP (v % 2, upper(g))",
    "tumble": "SELECT window_start, k, count(*), sum(v) FROM TUMBLE(t0, ts, INTERVAL '10 seconds') GROUP BY "
    "window_start, ROLLUP (k)",
    "hop": "SELECT window_start, g, count(*) FROM HOP(t0, ts, INTERVAL '5 seconds', INTERVAL '10 seconds') GROUP BY "
    "ROLLUP (window_start, g)",
    "of an aggregate": "SELECT n, count(*) FROM (SELECT k, count(*) AS n FROM t0 GROUP BY k) q GROUP BY ROLLUP (n)",
}
SHARED = {"rollup", "cube", "sets", "set twice", "crossed", "distinct", "having", "expressions", "tumble",
          "of an aggregate", "sets without keys"}  # fmt: skip


@pytest.mark.parametrize("append_only", [False, True])
@pytest.mark.parametrize("name", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_grouping_sets_equal_batch_at_every_tick(name: str, append_only: bool, seed: int) -> None:
    check_sql(QUERIES[name], [Table(T.schema, T.values, append_only=append_only)], seed)


@pytest.mark.parametrize("name", QUERIES)
def test_grouping_sets_are_incremental_and_fold_rows_once_where_cells_merge(name: str) -> None:
    view = view_of(QUERIES[name], [T])
    assert view.compiled.maintenance == "incremental"
    assert any(isinstance(n.operator, GroupingSets) for n in view.circuit) == (name in SHARED)


def test_empty_set_has_a_row_over_nothing_and_the_others_have_none() -> None:
    view = view_of(
        "SELECT k, g, count(*), sum(v), grouping(k, g) FROM t0 GROUP BY CUBE (k, g)", [T]
    )
    assert dict(view.output) == {(None, None, 0, None, 3): 1}
    view.insert((1, "a", 5, None, None))
    view.delete((1, "a", 5, None, None))
    assert dict(view.output) == {(None, None, 0, None, 3): 1}
    assert view.state_rows() == 0


def test_null_key_is_told_from_a_key_outside_of_the_set_by_grouping() -> None:
    view = view_of("SELECT k, grouping(k), count(*) FROM t0 GROUP BY ROLLUP (k)", [T])
    view.insert((None, "a", 1, None, None), (1, "a", 1, None, None))
    assert dict(view.output) == {(None, 0, 1): 1, (1, 0, 1): 1, (None, 1, 2): 1}


def test_group_by_distinct_drops_sets_that_are_there_twice() -> None:
    twice = "SELECT k, count(*) FROM t0 GROUP BY {} ROLLUP (k), ROLLUP (k)"
    for words, rows in (("", 3), ("ALL", 3), ("DISTINCT", 1)):
        view = view_of(twice.format(words), [T])
        view.insert((1, "a", 1, None, None))
        assert view.output[1, 1] == rows and view.output[None, 1] == 1
