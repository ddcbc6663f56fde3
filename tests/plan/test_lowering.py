"""Rows of the SQL lowering where DuckDB by itself, or a careless lowering, would answer otherwise."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pytest

from streamsql.core.errors import InvalidRowCountInLimit
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, INTEGER
from streamsql.functions.duckdb_errors import translate
from streamsql.functions.expressions import Literal, column
from streamsql.plan.nodes import Limit, Scan, Values
from streamsql.plan.optimizer import optimize
from streamsql.plan.sql import to_duckdb_sql
from tests.plan.support import BY_NAME, bag, bind, relation_sql, tables

ROWS: dict[str, list[tuple[Any, ...]]] = {
    "t": [(1, "x", None, 1), (2, "y", 1.5, 1), (None, "x", 2.0, 2), (3, None, None, None), (1, "x", None, 1)],
    "u": [(1, 10, "x"), (1, 11, "y"), (2, 20, "y"), (None, 1, None), (9, 90, "z")],
    "k": [(1, "one", 2), (2, "two", None), (5, "five", 1)],
    "l": [(1, [3, None, 4], True), (2, [], False), (3, None, None)],
}  # fmt: skip

CASES: tuple[tuple[str, list[tuple[Any, ...]]], ...] = (
    # NULLs in IN, NOT IN, ANY, ALL
    ("SELECT a FROM t WHERE a NOT IN (SELECT a FROM u)", []),
    ("SELECT a FROM t WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)", [(3,)]),
    ("SELECT a FROM t WHERE a NOT IN (SELECT a FROM u WHERE c > 1000)",
     [(1,), (2,), (None,), (3,), (1,)]),
    ("SELECT a FROM t WHERE (a, b) NOT IN (SELECT a, b FROM u)", []),
    ("SELECT 3 IN (SELECT a FROM u), 3 NOT IN (SELECT a FROM u WHERE c < 15 AND c > 5)",
     [(None, True)]),
    ("SELECT 5 > ALL (SELECT a FROM u WHERE a < 5), 5 > ALL (SELECT a FROM u WHERE c > 1000), "
     "1 > ANY (SELECT a FROM u)", [(True, True, None)]),
    ("SELECT a = ANY (xs), a <> ALL (xs), a < ANY (xs), a > ALL (xs) FROM l",
     [(None, None, True, False), (False, True, False, True), (None, None, None, None)]),
    ("SELECT (1, NULL) IS NULL, (NULL, NULL) IS NULL, (1, NULL) IS NOT NULL", [(False, True, False)]),
    ("SELECT (1, NULL) = (2, NULL), (1, NULL) = (1, NULL), (1, 2) < (1, NULL), (1, 2) < (2, NULL)",
     [(False, None, None, True)]),
    # joins on NULLs, merged columns
    ("SELECT a, c FROM (SELECT DISTINCT a FROM t) q FULL JOIN u USING (a)",
     [(1, 10), (1, 11), (2, 20), (3, None), (9, 90), (None, None), (None, 1)]),
    ("SELECT a, t.a, u.a FROM t RIGHT JOIN u USING (a) WHERE c > 15",
     [(2, 2, 2), (9, None, 9)]),
    ("SELECT x.a FROM t x JOIN u y ON x.a IS NOT DISTINCT FROM y.a WHERE x.a IS NULL", [(None,)]),
    # aggregates over nothing, empty groups
    ("SELECT count(*), count(a), sum(a), max(b) FROM t WHERE false", [(0, 0, None, None)]),
    ("SELECT g, count(*) FROM t WHERE false GROUP BY g", []),
    ("SELECT count(*) FROM t WHERE false GROUP BY ROLLUP (g)", [(0,)]),
    ("SELECT count(*) FROM t GROUP BY ()", [(5,)]),
    ("SELECT 1 FROM t WHERE false HAVING true", [(1,)]),
    ("SELECT sum(10 / a) FILTER (WHERE a <> 0) FROM (VALUES (0), (5)) q(a)", [(2,)]),
    ("SELECT b, g, grouping(b, g), count(*) FROM t WHERE g = 1 GROUP BY GROUPING SETS ((b), (g), ())",
     [("x", None, 1, 2), ("y", None, 1, 1), (None, 1, 2, 3), (None, None, 3, 3)]),
    ("SELECT name, count(*) FROM k JOIN u ON u.a = k.id GROUP BY k.id", [("one", 2), ("two", 1)]),
    # correlated scalars
    ("SELECT id, (SELECT count(*) FROM u WHERE u.a = k.id) FROM k", [(1, 2), (2, 1), (5, 0)]),
    ("SELECT id, (SELECT count(*) + 1 FROM u WHERE u.a = k.id) FROM k", [(1, 3), (2, 2), (5, 1)]),
    ("SELECT id, (SELECT sum(c) FROM u WHERE u.a = k.id) FROM k", [(1, Decimal(21)), (2, Decimal(20)), (5, None)]),
    ("SELECT a, (SELECT name FROM k WHERE id = t.a) FROM t WHERE b IS NULL", [(3, None)]),
    ("SELECT g, (SELECT count(*) FROM u WHERE u.a = max(t.a)) FROM t GROUP BY g",
     [(1, 1), (2, 0), (None, 0)]),
    ("SELECT (SELECT count(*) FROM (SELECT u.a FROM u WHERE u.a = k.ref) q) FROM k WHERE id = 1",
     [(1,)]),
    # order and limit
    ("SELECT a FROM t ORDER BY a", [(1,), (1,), (2,), (3,), (None,)]),
    ("SELECT a FROM t ORDER BY a DESC", [(None,), (3,), (2,), (1,), (1,)]),
    ("SELECT a FROM t ORDER BY a DESC NULLS LAST LIMIT 2 OFFSET 1", [(2,), (1,)]),
    ("SELECT a FROM t ORDER BY a FETCH FIRST 1 ROW WITH TIES", [(1,), (1,)]),
    ("SELECT a FROM t ORDER BY a OFFSET 1 ROW FETCH NEXT 2 ROWS WITH TIES", [(1,), (2,)]),
    ("SELECT b FROM t WHERE b IS NOT NULL ORDER BY a DESC LIMIT 1", [("x",)]),
    ("SELECT DISTINCT ON (b) b, a FROM t ORDER BY b DESC, a DESC", [(None, 3), ("y", 2), ("x", None)]),
    ("SELECT ARRAY(SELECT a FROM u ORDER BY a DESC NULLS LAST), ARRAY(SELECT a FROM u WHERE false)",
     [([9, 2, 1, 1, None], [])]),
    # table functions
    ("SELECT a, x, n FROM l LEFT JOIN unnest(xs) WITH ORDINALITY AS q(x, n) ON true",
     [(1, 3, 1), (1, None, 2), (1, 4, 3), (2, None, None), (3, None, None)]),
    ("SELECT a, x FROM l LEFT JOIN unnest(xs) AS x ON x > 3", [(1, 4), (2, None), (3, None)]),
    ("SELECT a, unnest(xs) FROM l", [(1, 3), (1, None), (1, 4)]),
    ("SELECT generate_series(1, 2) AS n, count(*) FROM k GROUP BY n", [(1, 3), (2, 3)]),
    ("SELECT generate_series(1, 3), generate_series(1, 2)", [(1, 1), (2, 2), (3, None)]),
    ("SELECT * FROM ROWS FROM (generate_series(1, 2), unnest(ARRAY['a'])) WITH ORDINALITY AS r(a, b, o)",
     [(1, "a", 1), (2, None, 2)]),
    ("SELECT id, n FROM k, generate_series(1, id) AS g(n) WHERE id < 3", [(1, 1), (2, 1), (2, 2)]),
    # set operations
    ("SELECT a FROM t EXCEPT ALL SELECT 1", [(1,), (2,), (3,), (None,)]),
    ("SELECT a FROM t INTERSECT SELECT a FROM u", [(1,), (2,), (None,)]),
    ("SELECT 1 UNION SELECT 2 INTERSECT SELECT 3", [(1,)]),
    # recursion
    ("WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n % 3 + 1 FROM r) SELECT n FROM r",
     [(1,), (2,), (3,)]),
    ("WITH RECURSIVE r AS (SELECT id, ref FROM k WHERE id = 5 UNION ALL SELECT k.id, k.ref FROM r "
     "JOIN k ON k.id = r.ref) SELECT id FROM r", [(5,), (1,), (2,)]),
    # lateral
    ("SELECT id, l.c FROM k LEFT JOIN LATERAL (SELECT c FROM u WHERE u.a = k.id ORDER BY c DESC "
     "LIMIT 1) l ON l.c > 15", [(1, None), (2, 20), (5, None)]),
    ("SELECT k.id, q.n, p.m FROM k, LATERAL (SELECT k.id + 1 AS n) q, LATERAL "
     "(SELECT q.n + k.id AS m) p WHERE k.id < 3", [(1, 2, 3), (2, 3, 5)]),
    ("SELECT id, (SELECT max(l.c) FROM LATERAL (SELECT c FROM u WHERE u.a = k.id) l) FROM k",
     [(1, 11), (2, 20), (5, None)]),
    ("SELECT k.id, y.s, u.c FROM k, (u JOIN LATERAL (SELECT u.a + k.id AS s) y ON y.s > 6)",
     [(1, 10, 90), (2, 11, 90), (5, 7, 20), (5, 14, 90)]),
    ("SELECT x.id, k.id FROM k x, LATERAL (SELECT x.ref AS z) y RIGHT JOIN k ON y.z = k.id "
     "WHERE x.id < 3", [(1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (2, 5)]),
    ("SELECT x.id, n FROM k x, generate_series(1, x.id) AS n RIGHT JOIN k ON k.id = n WHERE k.id = 5",
     [(1, None), (2, None), (5, 5)]),
    # columns
    ("SELECT count(*) FROM (SELECT FROM k) q", [(3,)]),
    ("SELECT q FROM (SELECT 1 AS a, 'x' AS b) q", [({"a": 1, "b": "x"},)]),
    ("SELECT (q).b FROM (SELECT 1 AS a, 'x' AS b) q", [("x",)]),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _rows() -> None:
    tables().fill(ROWS)


@pytest.mark.parametrize(("sql", "rows"), CASES)
def test_rows(sql: str, rows: list[tuple[Any, ...]]) -> None:
    found = tables().query(sql)
    assert bag(found) == bag(rows)
    if "ORDER BY" in sql.rsplit(")", 1)[-1]:
        assert found == rows


def test_asof_takes_the_greatest_of_equally_near_rows() -> None:
    import datetime

    at = [datetime.datetime(2024, 1, 1, 0, m) for m in range(5)]
    tables().fill(
        {"ev": [(at[1], 1, 5), (at[1], 1, 7), (at[1], 1, None), (at[3], 1, 1), (at[4], 2, 9)]}
    )
    sql = "SELECT l.x, r.x FROM ev l ASOF LEFT JOIN ev r ON l.g = r.g AND r.ts < l.ts ORDER BY l.ts, l.x"
    assert tables().query(sql) == [(5, None), (7, None), (None, None), (1, 7), (9, None)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT a FROM u)",
        "SELECT (SELECT u.a FROM u WHERE u.a = k.id) FROM k",
        "SELECT id FROM k WHERE id = (SELECT a FROM u)",
    ],
)
def test_scalar_subquery_with_two_rows_is_an_error(sql: str) -> None:
    with pytest.raises(duckdb.Error) as caught:
        tables().query(sql)
    assert translate(caught.value).sqlstate == "21000"


def test_negative_limits_are_refused_when_they_become_known() -> None:
    scan = bind("SELECT a FROM t LIMIT 1").plan
    assert isinstance(scan, Limit)
    from dataclasses import replace

    late = replace(scan, limit=Literal(value=-1, type=BIGINT))
    with pytest.raises(InvalidRowCountInLimit):
        to_duckdb_sql(late, relation_sql)
    with pytest.raises(duckdb.Error) as caught:
        tables().query("SELECT a FROM t LIMIT (SELECT -1)")
    assert translate(caught.value).sqlstate == "2201W"


def test_empty_values_and_wide_values() -> None:
    schema = Schema((Column("n", INTEGER), Column("m", BIGINT)))
    assert tables().rows(Values(schema=schema, rows=())) == []
    row = (Literal(value=1, type=INTEGER), Literal(value=2, type=BIGINT))
    assert tables().rows(Values(schema=schema, rows=(row,) * 3)) == [(1, 2)] * 3


def test_duplicate_rows_are_duplicate_rows() -> None:
    tables().fill({"t": [(1, "x", None, 1)] * 3})
    assert tables().query("SELECT a FROM t WHERE a IN (SELECT 1)") == [(1,)] * 3
    assert tables().query("SELECT t.a FROM t JOIN t q USING (a)") == [(1,)] * 9


def test_relation_is_asked_for_each_scan() -> None:
    seen = []

    def relation(scan: Scan) -> str:
        seen.append(scan.name)
        return relation_sql(scan)

    to_duckdb_sql(bind("SELECT * FROM t, k WHERE a IN (SELECT a FROM u)").plan, relation)
    assert sorted(seen) == ["k", "t", "u"]
    assert BY_NAME["t"].relation_id == 1
    assert column(0, INTEGER).index == 0


@pytest.mark.parametrize(
    "condition", ["r.ts <= l.ts", "r.ts < l.ts", "l.ts <= r.ts", "r.ts > l.ts"]
)
@pytest.mark.parametrize("keys", ["l.g = r.g AND", "l.g = r.g AND l.x = r.x AND", ""])
@pytest.mark.parametrize("word", ["ASOF JOIN", "ASOF LEFT JOIN"])
def test_asof_is_the_nearest_row_by_definition(condition: str, keys: str, word: str) -> None:
    """Against a lateral query that orders all matching rows."""
    direction = "ASC" if condition in ("l.ts <= r.ts", "r.ts > l.ts") else "DESC"
    sql = f"SELECT l.*, r.* FROM ev l {word} ev r ON {keys} {condition}"
    lateral = (
        f"SELECT l.*, r.* FROM ev l {'LEFT' if 'LEFT' in word else ''} JOIN LATERAL (SELECT * FROM ev r "
        f"WHERE {keys} {condition} ORDER BY r.ts {direction}, r.g DESC NULLS LAST, "
        "r.x DESC NULLS LAST LIMIT 1) r ON true"
    )
    for seed in range(3):
        found = tables().rows(bind(sql).plan, seed=seed, size=12)
        assert bag(found) == bag(tables().rows(bind(lateral).plan, seed=seed, size=12))


def test_correlated_filters_on_both_sides_of_a_join_survive_duckdbs_optimizer() -> None:
    """Was an internal error of DuckDB 2.0.1 that ended the instance."""
    sql = (
        "SELECT q.x FROM t CROSS JOIN LATERAL (SELECT t.a AS x FROM u WHERE u.c = t.g AND t.a <= "
        "(SELECT count(*) FROM k WHERE k.ref = t.a)) q LEFT JOIN k ON q.x = k.id"
    )
    tables().fill(ROWS)
    plan = bind(sql).plan
    assert bag(tables().rows(optimize(plan))) == bag(tables().rows(plan)) == bag([(1,)] * 2)
