"""Long property runs over all shapes (`make test-deep`): many histories, longer ones."""

from __future__ import annotations

import os

import pytest

from tests.operators import (
    over_shapes,
    test_aggregates,
    test_general,
    test_joins,
    test_map,
    test_on_close,
    test_sessions,
    test_windows,
)
from tests.operators.harness import Table, check_sql

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif("STREAMSQL_DEEP" not in os.environ, reason="only with make test-deep"),
]
SEEDS = range(150)
CASES = [
    *((sql, [test_aggregates.WIDE]) for sql in test_aggregates.QUERIES.values()),
    *((sql, [test_joins.A, test_joins.B]) for sql in test_joins.QUERIES),
    *((sql, [test_general.A, test_general.B]) for sql in test_general.BY_KEY + test_general.WHOLE),
    *(
        (sql, [Table(t.schema, t.values, append_only=grows)])
        for grows in (False, True)
        for sql, t in (
            *((s, test_windows.EVENTS) for s in test_windows.AGGREGATES),
            *(
                (s, Table(test_sessions.EVENTS, test_sessions.VALUES))
                for s in test_sessions.QUERIES
            ),
        )
    ),
    *((sql, [over_shapes.table()]) for sql in over_shapes.TOGETHER.values()),
    *((f"SELECT k, v FROM t0 WHERE v > {n}", [test_map.T]) for n in (-9, 0, 9)),
]


@pytest.mark.parametrize(("sql", "tables"), CASES, ids=[f"{i}" for i in range(len(CASES))])
def test_view_equals_batch_through_many_histories(sql: str, tables: list[Table]) -> None:
    for seed in SEEDS:
        check_sql(sql, tables, seed, ticks=9, most=9)


@pytest.mark.parametrize("shape", over_shapes.ALONE)
def test_calls_of_over_equal_batch_by_themselves(shape: str) -> None:
    for seed in range(5):
        check_sql(over_shapes.ALONE[shape], [over_shapes.table()], seed, ticks=8, most=10)


@pytest.mark.parametrize("on_close", [True, False])
@pytest.mark.parametrize("sql", test_on_close.SHAPES)
def test_results_do_not_depend_on_ticks_in_many_histories(sql: str, on_close: bool) -> None:
    check = test_on_close.test_result_and_late_rows_do_not_depend_on_ticks.hypothesis.inner_test
    for seed in range(100):
        check(sql, on_close, seed, 7 * (seed % 2), seed % 3 == 0)
