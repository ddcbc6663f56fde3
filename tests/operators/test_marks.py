"""Membership as a value, by more than equalities, and the nearest row: against DuckDB at every tick."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsql
from streamsql.runtime.explain import explain
from tests.operators.harness import check_sql, view_of
from tests.operators.test_joins import A, B

QUERIES = [
    "SELECT k, EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k) FROM t0",
    "SELECT k, v, EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k AND w > v) FROM t0",
    "SELECT * FROM t0 WHERE v = 1 OR NOT EXISTS (SELECT 1 FROM t1 WHERE w > 1)",
    "SELECT * FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k) "
    "OR EXISTS (SELECT 1 FROM t1 WHERE t1.w = t0.v AND u = s)",
    "SELECT k, v, v IN (SELECT w FROM t1), v NOT IN (SELECT w FROM t1 WHERE t1.k = t0.k) FROM t0",
    "SELECT * FROM t0 WHERE v IN (SELECT w FROM t1) OR s = 'a'",
    "SELECT * FROM t0 WHERE NOT (v IN (SELECT w FROM t1 WHERE t1.k = t0.k) AND s = 'a')",
    "SELECT k, v >= ALL (SELECT w FROM t1 WHERE t1.k = t0.k), v < ANY (SELECT w FROM t1) FROM t0",
    "SELECT k, v = ALL (SELECT w FROM t1), s <> ANY (SELECT u FROM t1 WHERE t1.k = t0.k) FROM t0",
    "SELECT * FROM t0 WHERE v <= ALL (SELECT w FROM t1 WHERE w IS NOT NULL)",
    "SELECT k, (SELECT count(*) FROM t1 WHERE t1.w < t0.v), (SELECT max(u) FROM t1 WHERE w <> v) FROM t0",
    "SELECT k, (SELECT coalesce(max(w), -1) + t0.v FROM t1 WHERE t1.k = t0.k) FROM t0",
    "SELECT t0.v, l.* FROM t0, LATERAL (SELECT count(*), sum(w) FROM t1 WHERE t1.w >= t0.v) l",
    "SELECT t0.k, l.z FROM t0, LATERAL (SELECT t0.k AS z UNION ALL SELECT t0.v) l",
    "SELECT t0.k, l.z FROM t0, LATERAL (VALUES (t0.v), (t0.k), (3)) l(z)",
    "SELECT k, v, (SELECT w FROM t1 WHERE t1.k = t0.k AND w <= v ORDER BY w DESC LIMIT 1) FROM t0",
    "SELECT t0.k, l.w FROM t0, LATERAL (SELECT w FROM t1 WHERE w > v ORDER BY w LIMIT 1) l",
    "SELECT * FROM t0 WHERE EXISTS (SELECT 1 FROM t1 WHERE t1.k = t0.k AND EXISTS "
    "(SELECT 1 FROM t0 x WHERE x.v = t1.w))",
    "SELECT k, (SELECT count(*) FROM t1 WHERE t1.k = t0.k AND w IN (SELECT v FROM t0 x WHERE x.k = t0.k)) FROM t0",
]


@pytest.mark.parametrize("sql", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=3, deadline=None)
def test_answers_equal_batch_at_every_tick(sql: str, seed: int) -> None:
    check_sql(sql, [A, B], seed)


@pytest.mark.parametrize("sql", QUERIES)
def test_nothing_is_recomputed(sql: str) -> None:
    view = view_of(sql, [A, B])
    assert explain(view.compiled)[0] == "Maintenance: incremental"


def test_an_answer_changes_for_the_rows_that_ask_for_it_only() -> None:
    with streamsql.connect() as db:
        db.execute("CREATE TABLE l (id INT PRIMARY KEY, v INT); CREATE TABLE r (x INT)")
        db.execute(
            "CREATE MATERIALIZED VIEW m AS SELECT id, (SELECT count(*) FROM r WHERE x < v) AS n, "
            "v IN (SELECT x FROM r) AS found FROM l"
        )
        db.execute("INSERT INTO l VALUES (1, 1), (2, 5), (3, NULL)")
        with db.subscribe("m", snapshot=False) as changes:
            db.execute("INSERT INTO r VALUES (3)")
            found = [row for batch in changes.poll(5) for row in batch.to_pylist()]
        got = sorted((r["weight"], r["id"], r["n"], r["found"]) for r in found)
        assert got == [(-1, 2, 0, False), (-1, 3, 0, False), (1, 2, 1, False), (1, 3, 0, None)]
        rows = db.execute("SELECT * FROM m ORDER BY id").fetchall()
        assert rows == [(1, 0, False), (2, 1, False), (3, 0, None)]
        db.execute("DELETE FROM r")
        rows = db.execute("SELECT * FROM m ORDER BY id").fetchall()
        assert rows == [(1, 0, False), (2, 0, False), (3, 0, False)]


def test_all_rows_but_the_first_follow_every_change() -> None:
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        query = "SELECT id FROM t ORDER BY id OFFSET 3"
        (how, *_) = db.execute(f"EXPLAIN CREATE MATERIALIZED VIEW m AS {query}").fetchall()
        assert how == ("Maintenance: incremental",)
        db.execute(f"CREATE MATERIALIZED VIEW m AS {query}")
        for statement, ids in (
            ("INSERT INTO t SELECT g FROM generate_series(10, 20) g", range(13, 21)),
            ("INSERT INTO t VALUES (1)", range(12, 21)),
            ("DELETE FROM t WHERE id IN (1, 11, 20)", range(14, 20)),
            ("DELETE FROM t WHERE id > 12", []),
        ):
            db.execute(statement)
            assert sorted(i for (i,) in db.execute("SELECT * FROM m").fetchall()) == list(ids)
