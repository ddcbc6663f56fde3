"""NOT IN under NULLs that come and go, on both sides: incremental, and what SQL says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsql
from tests.operators.harness import check_sql
from tests.operators.test_joins import A, B

QUERIES = [
    "SELECT * FROM t0 WHERE k NOT IN (SELECT w FROM t1)",
    "SELECT * FROM t0 WHERE k + v NOT IN (SELECT w FROM t1 WHERE u = 'a')",
    "SELECT * FROM t0 WHERE k NOT IN (SELECT w FROM t1 WHERE t1.k = t0.v)",
    "SELECT * FROM t0 WHERE s NOT IN (SELECT u FROM t1 WHERE t1.k = t0.k AND t1.w > t0.v)",
    "SELECT * FROM t0 WHERE k NOT IN (SELECT k FROM t1 WHERE k IS NOT NULL)",
    "SELECT * FROM t0 WHERE k <> ALL (SELECT w FROM t1)",
    "SELECT * FROM t0 a WHERE k NOT IN (SELECT v FROM t0)",
    "SELECT * FROM t0 WHERE (k, v) NOT IN (SELECT k, w FROM t1)",
    "SELECT * FROM t0 WHERE (k, v) NOT IN (SELECT k, w FROM t1 WHERE t1.u = t0.s)",
    "SELECT * FROM t0 WHERE (k, v, s) NOT IN (SELECT k, w, u FROM t1 WHERE k IS NOT NULL)",
]


@pytest.mark.parametrize("sql", QUERIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=4, deadline=None)
def test_not_in_equals_batch_at_every_tick(sql: str, seed: int) -> None:
    check_sql(sql, [A, B], seed)


def test_a_null_on_the_right_empties_the_view_and_its_going_fills_it() -> None:
    with streamsql.connect() as db:
        db.execute("CREATE TABLE l (id INT PRIMARY KEY, a INT); CREATE TABLE r (b INT)")
        db.execute(
            "CREATE MATERIALIZED VIEW m AS SELECT id FROM l WHERE a NOT IN (SELECT b FROM r)"
        )

        def rows(statement: str) -> list[int]:
            db.execute(statement)
            return sorted(i for (i,) in db.execute("SELECT * FROM m").fetchall())

        assert rows("INSERT INTO l VALUES (1, 1), (2, 2), (3, NULL)") == [1, 2, 3]
        assert rows("INSERT INTO r VALUES (1), (1)") == [2]
        assert rows("INSERT INTO r VALUES (NULL)") == []
        assert rows("DELETE FROM r WHERE b = 1") == []
        assert rows("UPDATE r SET b = 7") == [1, 2]
        assert rows("DELETE FROM r") == [1, 2, 3]


@pytest.mark.parametrize(("query", "how"), [
    ("SELECT id FROM l WHERE a NOT IN (SELECT b FROM r)", "incremental"),
    ("SELECT id FROM l WHERE id NOT IN (SELECT id FROM r)", "incremental"),
    ("SELECT id FROM l WHERE (id, a) NOT IN (SELECT id, b FROM r)", "incremental"),
    ("SELECT id FROM l WHERE (a, a, a, a) NOT IN (SELECT b, b, b, b FROM r)", "recompute"),
])  # fmt: skip
def test_explain_says_how(query: str, how: str) -> None:
    with streamsql.connect() as db:
        db.execute("CREATE TABLE l (id INT PRIMARY KEY, a INT)")
        db.execute("CREATE TABLE r (id INT PRIMARY KEY, b INT)")
        lines = db.execute(f"EXPLAIN CREATE MATERIALIZED VIEW m AS {query}").fetchall()
        assert lines[0] == (f"Maintenance: {how}",)
