"""A view made later, over operators that have rows they fail on already, lists these for itself:
as the view made before the rows came does, after a restart, and when the first view is gone."""

from __future__ import annotations

import pytest

from streamsql.engine.database import Database
from tests.state.faulty_filesystem import MemoryFileSystem

SUM = "sum((b.v + 1) * 4e307)"
"""1.6e308 + 0.4e308 leaves the range."""
QUERIES = {
    "expression": "SELECT id, 1 / (v - 1) AS x FROM a",
    "scalar": "SELECT id, (SELECT b.v FROM b WHERE b.k = a.k) AS x FROM a",
    "uncorrelated": "SELECT id, (SELECT v FROM b) AS x FROM a",
    "case": "SELECT id, CASE WHEN v > 0 THEN (SELECT b.v FROM b WHERE b.k = a.k) END AS x FROM a",
    "where": "SELECT id FROM a WHERE v > 0 AND (SELECT b.v FROM b WHERE b.k = a.k) >= v",
    "exists": "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND 1 / b.v > a.v)",
    "nested": "SELECT id, (SELECT count(*) FROM b WHERE b.v > (SELECT c.v FROM b c)) AS x FROM a",
    "join": "SELECT a.id, b.v FROM a LEFT JOIN b ON a.k = b.k AND 1 / b.v > a.v",
    "recursive": "WITH RECURSIVE r(n) AS (SELECT v FROM b UNION SELECT 6 / n FROM r WHERE n < 5)"
    " SELECT n FROM r",
    "aggregate": f"SELECT k, {SUM} AS s FROM b GROUP BY k HAVING count(*) > 0",
    "distinct values": f"SELECT k, {SUM.replace('(', '(DISTINCT ', 1)} AS s FROM b GROUP BY k",
    "all rows": f"SELECT {SUM} AS s FROM b",
    "grouping sets": f"SELECT k, v, {SUM} AS s FROM b GROUP BY GROUPING SETS ((k, v), (k), ())",
    "aggregate in a subquery": f"SELECT id, (SELECT {SUM} FROM b WHERE b.k = a.k) AS s FROM a",
    "over": f"SELECT k, {SUM} OVER (PARTITION BY k ORDER BY v) AS s FROM b",
}
LISTED = "SELECT message, row::TEXT FROM streamsql.view_errors WHERE view = ? ORDER BY 1, 2"


def listed(db: Database, view: str) -> list[tuple[object, ...]]:
    return db.execute(LISTED, [view]).fetchall()


def make(db: Database) -> None:
    db.execute("CREATE TABLE b (k INT, v INT)")
    db.execute("CREATE TABLE a (id INT, k INT, v INT)")


def fill(db: Database) -> None:
    db.execute("INSERT INTO b VALUES (1, 0), (1, 3)")
    db.execute("INSERT INTO a VALUES (1, 1, 1)")


@pytest.mark.parametrize("on_error", ["skip", "null"])
@pytest.mark.parametrize("name", QUERIES)
def test_later_views_list_the_rows_that_failed_before(name: str, on_error: str) -> None:
    files = MemoryFileSystem()
    db = Database("data", files=files)
    make(db)
    what = f" WITH (on_error = '{on_error}') AS"
    db.execute(f"CREATE MATERIALIZED VIEW before{what} {QUERIES[name]}")
    fill(db)
    errors = listed(db, "before")
    assert errors
    db.execute(f"CREATE MATERIALIZED VIEW after{what} {QUERIES[name]}")
    db.execute(f"CREATE MATERIALIZED VIEW above{what} SELECT * FROM ({QUERIES[name]}) WHERE true")
    for view in ("before", "after", "above"):
        assert listed(db, view) == errors, view
    db.close()
    db = Database("data", files=files)
    db.execute("DROP MATERIALIZED VIEW before")
    db.execute(f"CREATE MATERIALIZED VIEW again{what} {QUERIES[name]}")
    for view in ("after", "above", "again"):
        assert listed(db, view) == errors, view
    assert listed(db, "before") == []
    db.execute("INSERT INTO b VALUES (2, 0), (2, 3)")
    assert listed(db, "after") == listed(db, "above") == listed(db, "again") != []
    db.execute("DELETE FROM a")
    db.execute("DELETE FROM b")
    assert db.execute("SELECT view FROM streamsql.view_errors").fetchall() == []
    db.close()


def test_what_a_view_in_a_subquery_drops_is_its_own(db) -> None:
    make(db)
    db.execute("CREATE TABLE c (t TIMESTAMP, WATERMARK FOR t AS t)")
    db.execute("CREATE MATERIALIZED VIEW u AS SELECT k, v, 6 / v AS x FROM b")
    windows = "SELECT window_start, count(*) AS n FROM TUMBLE(c, t, INTERVAL '10 s') GROUP BY 1"
    db.execute(f"CREATE MATERIALIZED VIEW late AS {windows}")
    over = "SELECT id, (SELECT u.x FROM u WHERE u.k = a.k) AS x, (SELECT max(n) FROM late) AS n"
    db.execute(f"CREATE MATERIALIZED VIEW o1 AS {over} FROM a")
    fill(db)
    db.execute("INSERT INTO c VALUES ('2024-01-01 00:00:30'), ('2024-01-01 00:00:01')")
    db.execute(f"CREATE MATERIALIZED VIEW o2 AS {over} FROM a")
    assert db.execute("SELECT view FROM streamsql.view_errors").fetchall() == [("u",)]
    assert db.execute("SELECT view FROM streamsql.late_rows").fetchall() == [("late",)]
    assert db.execute("SELECT * FROM o2").fetchall() == [(1, 2, 1)]
