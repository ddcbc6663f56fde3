"""Keys, growth, watermark columns and determinism that follow from a plan; Top-N."""

from __future__ import annotations

import pytest

from streamsql.plan.optimizer import optimize
from streamsql.plan.patterns import top_n
from streamsql.plan.properties import (
    append_only,
    is_deterministic,
    unique_keys,
    watermark_columns,
)
from streamsql.plan.visit import walk_plan
from tests.plan.shapes import SHAPES
from tests.plan.support import bind, tables

KEYS = (
    ("SELECT name, id FROM k", ((1,),)),
    ("SELECT name FROM k", ()),
    ("SELECT id FROM k WHERE id = 3", ((),)),
    ("SELECT a, count(*) FROM t GROUP BY a", ((0,),)),
    ("SELECT count(*) FROM t", ((),)),
    ("SELECT a, b, count(*) FROM t GROUP BY GROUPING SETS ((a), (b))", ()),
    ("SELECT DISTINCT a, b FROM t", ((0, 1),)),
    ("SELECT DISTINCT ON (b) a, b FROM t ORDER BY b", ((1,),)),
    ("SELECT t.a, k.id FROM t JOIN k ON t.a = k.id", ()),
    ("SELECT x.id, y.id FROM k x JOIN k y ON x.ref = y.id", ((0,),)),
    ("SELECT x.id, y.id FROM k x LEFT JOIN k y ON x.ref = y.id", ((0,),)),
    ("SELECT x.id, y.id FROM k x CROSS JOIN k y", ((0, 1),)),
    ("SELECT id FROM k WHERE EXISTS (SELECT 1 FROM t WHERE a = id)", ((0,),)),
    ("SELECT id, window_start FROM HOP((SELECT id, TIMESTAMP '2024-01-01' AS c FROM k), c, "
     "INTERVAL '1 minute', INTERVAL '5 minutes')", ((0, 1),)),
    ("SELECT a FROM t UNION SELECT a FROM u", ((0,),)),
    ("SELECT a FROM t UNION ALL SELECT a FROM u", ()),
    ("SELECT a FROM t LIMIT 1", ((),)),
    ("SELECT id, n FROM k, unnest(ARRAY[1, 1]) WITH ORDINALITY AS q(x, n)", ((0, 1),)),
)  # fmt: skip


@pytest.mark.parametrize(("sql", "keys"), KEYS)
def test_unique_keys(sql: str, keys: tuple[tuple[int, ...], ...]) -> None:
    assert unique_keys(bind(sql).plan) == keys


@pytest.mark.parametrize("sql", SHAPES)
def test_unique_keys_hold_on_random_rows(sql: str) -> None:
    plans = [bind(sql).plan]
    plans.append(optimize(plans[0]))
    for plan in plans:
        for key in unique_keys(plan):
            rows = [repr([row[i] for i in key]) for row in tables().rows(plan, seed=11, size=12)]
            assert len(rows) == len(set(rows)), (key, sql)


def test_append_only_needs_growing_inputs_and_growing_nodes() -> None:
    assert append_only(bind("SELECT x + 1 FROM ev WHERE g = 1").plan)
    assert append_only(bind("SELECT * FROM TUMBLE(ev, ts, INTERVAL '1 minute')").plan)
    assert append_only(bind("SELECT a.x FROM ev a JOIN ev b ON a.g = b.g").plan)
    assert append_only(bind("SELECT x FROM ev UNION SELECT g FROM ev").plan)
    assert not append_only(bind("SELECT a FROM t").plan)
    assert not append_only(bind("SELECT a.x FROM ev a LEFT JOIN ev b ON a.g = b.g").plan)
    assert not append_only(bind("SELECT count(*) FROM ev").plan)
    assert not append_only(bind("SELECT x FROM ev EXCEPT SELECT g FROM ev").plan)
    assert not append_only(bind("SELECT * FROM SESSION(ev, ts, INTERVAL '1 minute')").plan)
    assert not append_only(bind("SELECT x FROM ev WHERE x = (SELECT max(x) FROM ev)").plan)


def test_watermark_columns_follow_the_time_through_the_plan() -> None:
    assert watermark_columns(bind("SELECT x, ts AS t FROM ev").plan) == {1}
    assert watermark_columns(bind("SELECT x FROM ev").plan) == frozenset()
    windowed = "TUMBLE(ev, ts, INTERVAL '1 minute')"
    assert watermark_columns(bind(f"SELECT * FROM {windowed}").plan) == {0, 3, 4, 5}
    grouped = f"SELECT g, window_end, count(*) FROM {windowed} GROUP BY g, window_end"
    assert watermark_columns(bind(grouped).plan) == {1}
    assert watermark_columns(bind("SELECT ts FROM ev UNION ALL SELECT ts FROM ev").plan) == {0}
    left = bind("SELECT a.ts, b.ts FROM ev a LEFT JOIN ev b ON a.g = b.g").plan
    assert watermark_columns(left) == {0}


def test_determinism_looks_into_subqueries() -> None:
    assert is_deterministic(bind("SELECT a FROM t WHERE b LIKE 'x%'").plan)
    assert not is_deterministic(bind("SELECT random()").plan)
    assert not is_deterministic(bind("SELECT a FROM t WHERE a IN (SELECT random()::int)").plan)


# --- Top-N --------------------------------------------------------------------------------------
def find_top_n(sql: str) -> object:
    for node in walk_plan(optimize(bind(sql).plan)):
        found = top_n(node)
        if found is not None:
            return found
    return None


@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize(
    ("condition", "limit"), [("rn <= 3", 3), ("rn < 3", 2), ("3 >= rn", 3), ("rn = 1", 1)]
)
def test_top_n_of_a_ranking(function: str, condition: str, limit: int) -> None:
    found = find_top_n(
        f"SELECT * FROM (SELECT *, {function}() OVER (PARTITION BY g ORDER BY a DESC) AS rn FROM t) q "
        f"WHERE {condition}"
    )
    assert found is not None
    assert (found.function, found.limit, found.number_column) == (function, limit, 4)  # type: ignore[attr-defined]
    assert [e.index for e in found.partition_by] == [3]  # type: ignore[attr-defined]
    assert found.order_by[0].descending  # type: ignore[attr-defined]


@pytest.mark.parametrize("condition", ["rn >= 3", "rn <> 1", "rn <= a", "rn + 1 <= 3", "rn = 2"])
def test_other_conditions_are_no_top_n(condition: str) -> None:
    assert find_top_n(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY a) AS rn FROM t) q "
        f"WHERE {condition}"
    ) is None  # fmt: skip


def test_top_n_of_distinct_on_limit_and_qualify() -> None:
    first = find_top_n("SELECT DISTINCT ON (b) b, a FROM t ORDER BY b, a DESC")
    assert (first.limit, first.number_column, first.offset) == (1, None, 0)  # type: ignore[attr-defined]
    page = find_top_n("SELECT a FROM t ORDER BY a LIMIT 5 OFFSET 10")
    assert (page.limit, page.offset, page.partition_by) == (15, 10, ())  # type: ignore[attr-defined]
    ties = find_top_n("SELECT a FROM t ORDER BY a FETCH FIRST 2 ROWS WITH TIES")
    assert (ties.function, ties.limit) == ("rank", 2)  # type: ignore[attr-defined]
    qualified = find_top_n("SELECT a FROM t QUALIFY row_number() OVER (ORDER BY a) <= 2")
    assert qualified.limit == 2  # type: ignore[attr-defined]


def test_row_numbers_tell_the_rows_of_their_partition_apart() -> None:
    def keys(sql: str) -> object:
        return unique_keys(optimize(bind(sql).plan))

    numbered = "SELECT g, a, row_number() OVER (PARTITION BY g ORDER BY a) AS n FROM t"
    assert (0, 2) in keys(numbered)
    assert keys(f"SELECT * FROM ({numbered}) q WHERE n <= 3") == ((0, 2),)
    assert keys(f"SELECT g, a FROM ({numbered}) q WHERE n <= 1") == ((0,),)
    assert keys(f"SELECT g, a FROM ({numbered}) q WHERE n = 1 AND a > 2") == ((0,),)
    assert keys(f"SELECT g, a FROM ({numbered}) q WHERE n <= 2") == ()
    assert keys(f"SELECT * FROM ({numbered.replace('row_number', 'rank')}) q WHERE n <= 1") == ()
