"""`streamsql.watermarks`: who holds a window open, and since when."""

import streamsql


def test_operator_is_held_back_by_the_source_that_never_had_a_row() -> None:
    with streamsql.connect() as db:
        for name in ("fast", "silent"):
            db.execute(f"CREATE TABLE {name} (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n FROM TUMBLE("
            "(SELECT ts FROM fast UNION ALL SELECT ts FROM silent), ts, INTERVAL '1 minute') "
            "GROUP BY window_start EMIT ON WINDOW CLOSE"
        )
        db.execute("INSERT INTO fast VALUES (1, '2024-01-01 00:00:00'), (1, '2024-01-01 01:00:00')")
        rows = db.execute(
            "SELECT operator, watermark, held_back_by FROM streamsql.watermarks "
            "WHERE relation = 'v' AND operator LIKE 'Aggregate%'"
        ).fetchall()
        assert [row[1:] for row in rows] == [(None, "silent")]
        assert db.execute("SELECT * FROM v").fetchall() == []
        db.execute("INSERT INTO silent VALUES (1, '2024-01-01 02:00:00')")
        rows = db.execute(
            "SELECT held_back_by FROM streamsql.watermarks "
            "WHERE relation = 'v' AND operator LIKE 'Aggregate%'"
        ).fetchall()
        assert rows == [("fast",)]
        assert db.execute("SELECT n FROM v").fetchall() == [(1,)]
