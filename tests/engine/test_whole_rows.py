"""The name of a FROM item as a value: a row that may be NULL, compared, counted, taken apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamsql.engine.database import Database

ROWS = "(1, 'x', 1), (1, 'y', 2), (2, 'x', NULL), (NULL, 'z', 3), (NULL, NULL, NULL)"
NULLS = (None, None, None)
QUERIES = (
    ("SELECT k.* FROM k WHERE k IS NULL", [NULLS]),
    ("SELECT k.* FROM k WHERE k IS NOT NULL", [(1, "x", 1), (1, "y", 2)]),
    (
        "SELECT k.* FROM k WHERE NOT (k IS NULL)",
        [(1, "x", 1), (1, "y", 2), (2, "x", None), (None, "z", 3)],
    ),
    (
        "SELECT k.* FROM k WHERE NOT k IS NOT NULL",
        [(2, "x", None), (None, "z", 3), NULLS],
    ),
    ("SELECT count(*) FROM k WHERE k.* IS NULL", [(1,)]),
    ("SELECT count(k), count(k.*) AS n, count(DISTINCT k) AS d FROM k", [(5, 5, 5)]),
    ("SELECT count(DISTINCT k) FROM (SELECT a FROM k) AS k", [(3,)]),
    ("SELECT count(*) FROM (SELECT DISTINCT q FROM (SELECT a FROM k) q) r", [(3,)]),
    ("SELECT count(*) FROM k JOIN k AS k2 ON k = k2", [(5,)]),
    ("SELECT count(*) FROM k JOIN k AS k2 ON k < k2", [(10,)]),
    ("SELECT count(*) FROM k WHERE k = ROW(1, 'x', 1)", [(1,)]),
    ("SELECT max(a) AS m, count(*) AS n FROM k GROUP BY k HAVING k IS NOT NULL", [(1, 1), (1, 1)]),
    ("SELECT a, count(p) AS n FROM k LEFT JOIN p ON p.id = k.a GROUP BY a", [(1, 2), (2, 0), (None, 0)]),
    ("SELECT count(k) AS k, count(p) AS p FROM k RIGHT JOIN p ON p.id = k.a", [(2, 4)]),
    ("SELECT p IS NULL AS n, p.v FROM k LEFT JOIN p ON p.id = k.a WHERE k.b = 'x'", [(False, 10), (True, None)]),
    ("SELECT ROW(p.*, 7) = ROW(1, 10, 7) AS e FROM p WHERE id = 1", [(True,)]),
    ("SELECT ROW(k.*) IS NULL AS n FROM k WHERE b IS NULL", [(True,)]),
    ("SELECT j.a, j.v FROM (k JOIN p ON k.a = p.id) AS j WHERE j.b = 'y'", [(1, 10)]),
    ("SELECT j.y FROM (k JOIN p ON k.a = p.id) j (x, y) WHERE j IS NOT NULL", [("x",), ("y",)]),
    ("SELECT p.id FROM p WHERE (p.id, p.v) = (SELECT k.a, 10 FROM k WHERE k.b = 'y')", [(1,)]),
    ("SELECT p.id FROM p WHERE (p.id, p.v) < (SELECT 1, 11)", [(1,)]),
    ("SELECT (p.id, 1) = (SELECT a, 1 FROM k WHERE false) AS e FROM p WHERE id = 1", [(None,)]),
)  # fmt: skip


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with Database() as made:
        _fill(made)
        yield made


def _fill(made: Database) -> None:
    made.execute("CREATE TABLE k (a INT, b TEXT, c INT)")
    made.execute("CREATE TABLE p (id INT PRIMARY KEY, v INT)")
    for n, (sql, _) in enumerate(QUERIES):
        made.execute(f"CREATE MATERIALIZED VIEW before{n} AS {sql}")
    made.execute(f"INSERT INTO k VALUES (9, 'gone', 9), {ROWS}, (NULL, NULL, 9)")
    made.execute("INSERT INTO p VALUES (1, 11), (3, 30), (4, 40), (2, 20)")
    made.execute("DELETE FROM k WHERE c = 9")
    made.execute("DELETE FROM p WHERE id = 2")
    made.execute("UPDATE p SET v = 10 WHERE id = 1")


@pytest.mark.parametrize("n", range(len(QUERIES)), ids=lambda n: QUERIES[n][0][:60])
def test_query_and_views_give_the_rows(db: Database, n: int) -> None:
    sql, rows = QUERIES[n]
    assert sorted(db.execute(sql).fetchall(), key=repr) == sorted(rows, key=repr)
    assert sorted(db.execute(f"SELECT * FROM before{n}").fetchall(), key=repr) == sorted(
        rows, key=repr
    )
    assert db.execute(f"VERIFY MATERIALIZED VIEW before{n}").fetchall() == []


def test_views_of_rows_are_incremental(db: Database) -> None:
    for sql in (QUERIES[0][0], QUERIES[5][0], QUERIES[8][0], QUERIES[12][0]):
        lines = db.execute(f"EXPLAIN CREATE MATERIALIZED VIEW z AS {sql}").fetchall()
        assert lines[0][0] == "Maintenance: incremental", sql
