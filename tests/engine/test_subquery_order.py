"""What depends on the order of rows takes it from the sorted subquery it reads, in views too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamsql.engine.database import Database

QUERIES = (
    ("SELECT ARRAY(SELECT id FROM t ORDER BY id DESC) AS a", [([3, 2, 1],)]),
    ("SELECT ARRAY(SELECT id FROM t ORDER BY id DESC LIMIT 2) AS a", [([3, 2],)]),
    ("SELECT ARRAY(SELECT id + 1 FROM t ORDER BY k, id DESC) AS a", [([3, 2, 4],)]),
    ("SELECT ARRAY(SELECT DISTINCT k FROM t ORDER BY k DESC) AS a", [([2, 1],)]),
    ("SELECT ARRAY(SELECT id FROM t WHERE id > 100) AS a", [([],)]),
    (
        "SELECT ARRAY(SELECT arr FROM t WHERE id < 3 ORDER BY id DESC) AS a",
        [([[9, 8], [3, 1, 2]],)],
    ),
    (
        "SELECT ARRAY(SELECT id FROM t UNION ALL SELECT k FROM t ORDER BY 1 DESC) AS a",
        [([3, 2, 2, 1, 1, 1],)],
    ),
    (
        "SELECT k, ARRAY(SELECT id FROM t x WHERE x.k = t.k ORDER BY id DESC) AS a FROM t",
        [(1, [2, 1]), (1, [2, 1]), (2, [3])],
    ),
    ("SELECT array_agg(id) AS a FROM (SELECT id FROM t ORDER BY -id) q", [([3, 2, 1],)]),
    (
        "WITH q AS (SELECT id FROM t ORDER BY id DESC) "
        "SELECT array_agg(id), count(*) AS n, array_agg(id ORDER BY id) AS b FROM q WHERE id < 3",
        [([2, 1], 2, [1, 2])],
    ),
    (
        "SELECT k, string_agg(id::text, ',') AS s FROM (SELECT * FROM t ORDER BY id DESC) q "
        "GROUP BY k",
        [(1, "2,1"), (2, "3")],
    ),
    (
        "SELECT json_agg(q) AS j FROM (SELECT id FROM t ORDER BY k, id DESC) q",
        [('[{"id":2}, {"id":1}, {"id":3}]',)],
    ),
    (
        "SELECT id, array_agg(x) AS a FROM t, unnest(arr) x GROUP BY id",
        [(1, [3, 1, 2]), (2, [9, 8])],
    ),
    ("SELECT k, array_agg(x) AS a FROM t, unnest(arr) x GROUP BY k", [(1, [3, 1, 2, 9, 8])]),
    (
        "SELECT id, ARRAY(SELECT x * 2 FROM unnest(arr) x) AS a FROM t",
        [(1, [6, 2, 4]), (2, [18, 16]), (3, [])],
    ),
    (
        "SELECT array_agg(u) AS a FROM (SELECT arr FROM t ORDER BY id DESC) q, unnest(q.arr) u",
        [([9, 8, 3, 1, 2],)],
    ),
    (
        "SELECT id, row_number() OVER () AS r, lag(id) OVER () AS l, first_value(id) OVER () AS f, "
        "sum(id) OVER (ROWS UNBOUNDED PRECEDING) AS s, count(*) OVER () AS n, "
        "rank() OVER () AS same FROM (SELECT id FROM t ORDER BY id DESC) q",
        [(1, 3, 2, 3, 6, 3, 1), (2, 2, 3, 3, 5, 3, 1), (3, 1, None, 3, 3, 3, 1)],
    ),
)
WRITES = (
    "UPDATE t SET arr = '{2,1,3}' WHERE id = 1",
    "INSERT INTO t VALUES (0, 1, '{5,4}')",
    "DELETE FROM t WHERE id = 2",
    "UPDATE t SET k = 1",
)


@pytest.fixture
def db() -> Iterator[Database]:
    with Database() as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, k INT, arr INT[])")
        database.execute("INSERT INTO t VALUES (3, 2, '{}'), (1, 1, '{3,1,2}'), (2, 1, '{9,8}')")
        yield database


@pytest.mark.parametrize(("query", "rows"), QUERIES)
def test_a_view_keeps_the_order_its_query_has(db: Database, query: str, rows: list[object]) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert sorted(db.execute("SELECT * FROM v").fetchall(), key=repr) == sorted(rows, key=repr)
    for write in ("UPDATE t SET id = id", *WRITES):
        shown = sorted(db.execute("SELECT * FROM v").fetchall(), key=repr)
        assert shown == sorted(db.execute(query).fetchall(), key=repr)
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
        db.execute(write)


def test_arrays_of_subqueries_are_kept_incrementally(db: Database) -> None:
    query = "SELECT k, ARRAY(SELECT id FROM t x WHERE x.k = t.k ORDER BY id DESC) AS a FROM t"
    plan = "\n".join(
        str(r[0]) for r in db.execute(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}")
    )
    assert "recompute" not in plan
