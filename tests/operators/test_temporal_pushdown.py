"""Conditions on now() keep their timers wherever they are written: ON, WHERE over joins, EXISTS."""

from __future__ import annotations

import pytest

import streamsql

NOW = "now()::timestamp - INTERVAL '1 minute'"
LEFT = "SELECT u.id AS j, t.id FROM u LEFT JOIN t ON t.k = u.k"
QUERIES = {
    "where_of_join": f"SELECT t.id FROM t JOIN u ON t.k = u.k WHERE t.ts > {NOW}",
    "where_between": "SELECT t.id FROM t JOIN u ON t.k = u.k WHERE t.ts BETWEEN "
    f"{NOW} AND now()::timestamp",
    "on_of_join": f"SELECT t.id FROM t JOIN u ON t.k = u.k AND t.ts > {NOW}",
    "both_sides": "SELECT t.id FROM t JOIN u ON t.k = u.k "
    f"WHERE t.ts + u.k * INTERVAL '1 second' > {NOW}",
    "on_of_left_join": f"{LEFT} AND t.ts > {NOW}",
    "where_of_left_join": f"{LEFT} WHERE t.ts > {NOW} OR t.ts IS NULL",
    "exists": f"SELECT id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k AND t.ts > {NOW})",
    "not_exists": "SELECT id FROM u WHERE NOT EXISTS "
    f"(SELECT 1 FROM t WHERE t.k = u.k AND t.ts > {NOW})",
    "cross": f"SELECT t.id, u.id AS j FROM t, u WHERE t.ts > {NOW} AND t.v <> u.k",
    "aggregate": f"SELECT u.k, count(*) AS n FROM t JOIN u ON t.k = u.k AND t.ts > {NOW} GROUP BY u.k",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_rows_leave_by_the_clock_alone(query: str) -> None:
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, ts TIMESTAMP)")
        db.execute("CREATE TABLE u (id INT PRIMARY KEY, k INT)")
        db.execute("SET streamsql.clock = 'manual'")
        db.execute("ADVANCE CLOCK TO '2100-01-01 00:02:00+00'")
        db.execute("INSERT INTO u VALUES (63, 0), (64, 2)")
        db.execute(f"CREATE MATERIALIZED VIEW m AS {query}")
        db.execute(
            "INSERT INTO t VALUES (84, 5, 1, '2100-01-01 00:01:54'), (85, 2, 1, '2100-01-01 00:01:02'), "
            "(86, 0, 1, '2100-01-01 00:01:05'), (87, 0, 1, NULL)"
        )
        seen = []
        for moment in ("00:02:00", "00:02:04", "00:02:15", "00:05:00"):
            db.execute(f"ADVANCE CLOCK TO '2100-01-01 {moment}+00'")
            seen.append(sorted(db.execute("SELECT * FROM m").fetchall(), key=repr))
            assert seen[-1] == sorted(db.execute(query).fetchall(), key=repr), moment
            assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == [], moment
        assert seen[0] != seen[-1]
        db.execute("DELETE FROM t")
        db.execute("DELETE FROM u")
        assert db.execute("SELECT * FROM m").fetchall() == []
