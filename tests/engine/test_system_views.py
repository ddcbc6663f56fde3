"""System relations inside of views: followed tick by tick, logged, and right after a restart."""

from __future__ import annotations

import streamsql

SETUP = """
    CREATE TABLE e (k TEXT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
    CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n
        FROM TUMBLE(e, ts, INTERVAL '1 minute') GROUP BY window_start;
    CREATE MATERIALIZED VIEW late AS
        SELECT view, count(*) AS n, max(late_by) AS most FROM streamsql.late_rows GROUP BY view;
    CREATE VIEW plain AS SELECT * FROM streamsql.late_rows WHERE event_time IS NOT NULL;
    CREATE MATERIALIZED VIEW deep AS SELECT count(*) AS n FROM plain;
    CREATE MATERIALIZED VIEW who AS SELECT l.view, e.k
        FROM streamsql.late_rows l JOIN e ON e.ts = l.event_time;
    CREATE MATERIALIZED VIEW inverse AS SELECT k, 60 / (extract(minute FROM ts) - 7) AS x FROM e;
    CREATE MATERIALIZED VIEW failed AS
        SELECT view, sqlstate, count(*) AS n FROM streamsql.view_errors GROUP BY view, sqlstate;
    CREATE MATERIALIZED VIEW marks AS
        SELECT relation, max(watermark) AS at FROM streamsql.watermarks GROUP BY relation
"""
VIEWS = ("late", "deep", "who", "failed", "marks")

AGREE = {
    "late": "SELECT view, count(*), max(late_by) FROM streamsql.late_rows GROUP BY view",
    "deep": "SELECT count(*) FROM streamsql.late_rows",
    "who": "SELECT l.view, e.k FROM streamsql.late_rows l JOIN e ON e.ts = l.event_time",
    "failed": "SELECT view, sqlstate, count(*) FROM streamsql.view_errors GROUP BY view, sqlstate",
}


def late(db, minute, k="x"):
    db.execute(f"INSERT INTO e VALUES ('{k}', '2024-01-01 00:{minute:02}:00')")


def agree(db):
    for view, sql in AGREE.items():
        shown = sorted(db.execute(f"TABLE {view}").fetchall(), key=repr)
        assert shown == sorted(db.execute(sql).fetchall(), key=repr), view
    for view in VIEWS:
        assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []


def test_views_follow_late_rows_errors_and_watermarks(db, rows):
    db.execute(SETUP)
    agree(db)
    for minute in (10, 3, 5, 20, 7, 4):
        late(db, minute, f"k{minute}")
        agree(db)
    assert rows("SELECT view, n, most::TEXT FROM late") == [("w", 4, "00:16:00")]
    assert rows("SELECT view, n FROM failed") == [("inverse", 1)]
    assert ("e", rows("SELECT max(ts) FROM e")[0][0]) in rows("SELECT * FROM marks")
    db.execute("DELETE FROM e WHERE k = 'k7'")  # the error is corrected
    agree(db)
    assert rows("SELECT * FROM failed") == []
    db.execute("DROP MATERIALIZED VIEW w")
    agree(db)
    assert rows("SELECT * FROM late") == []


def test_views_survive_restarts_and_replay(tmp_path):
    path = str(tmp_path / "d")
    with streamsql.connect(path) as db:
        db.execute(SETUP)
        for minute in (10, 3, 7):
            late(db, minute)
        agree(db)
    for round_ in range(1):
        db = streamsql.connect(path)
        agree(db)
        late(db, 4 + round_)
        agree(db)
        want = [sorted(db.execute(f"TABLE {v}").fetchall(), key=repr) for v in VIEWS]
        version = db.version
        db.engine.durability.close = lambda: None  # as after kill -9
        db.engine.durability._lock.release()
        db.close()
        with streamsql.connect(path) as again:
            assert again.version == version
            found = [sorted(again.execute(f"TABLE {v}").fetchall(), key=repr) for v in VIEWS]
            assert found == want
            agree(again)
            late(again, 2)
            agree(again)


def test_dropped_and_made_again_views_start_with_what_is_there(db, rows):
    db.execute(SETUP)
    for minute in (10, 3):
        late(db, minute)
    for view in ("late", "deep", "who"):
        db.execute(f"DROP MATERIALIZED VIEW {view}")
    before = db.version
    late(db, 5)  # nobody reads late_rows now, but for marks and failed
    assert db.version <= before + 2
    db.execute("CREATE MATERIALIZED VIEW deep AS SELECT count(*) AS n FROM streamsql.late_rows")
    assert rows("SELECT * FROM deep") == [(2,)]


def test_subscribe_to_a_system_relation_and_explain(db):
    with db.subscribe("streamsql.jobs") as stream:
        stream.poll(1)
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a")
        names = [r["relation"] for b in stream.poll(1) for r in b.to_pylist()]
        assert "v" in names
    version = db.version
    plan = db.execute("EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT * FROM streamsql.jobs")
    assert "Source jobs" in "\n".join(r[0] for r in plan.fetchall())
    db.execute("CREATE TABLE t (a INT)")
    assert db.version <= version + 2


def test_a_plain_select_joins_system_relations_with_tables(db, rows):
    db.execute("CREATE TABLE names (name TEXT); INSERT INTO names VALUES ('m'), ('x')")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT name FROM names")
    assert rows("SELECT n.name, o.operator FROM names n JOIN streamsql.operators o ON o.view = n.name"
                " WHERE o.operator <> 'Scan'") != []  # fmt: skip
    assert rows("SELECT count(*) FROM streamsql.settings WHERE name = 'streamsql.clock'") == [(1,)]


def test_system_relations_stay_read_only(fails):
    fails("INSERT INTO streamsql.late_rows (view) VALUES ('x')", "42809")
    fails("DELETE FROM streamsql.late_rows", "42809")
    fails("CREATE INDEX i ON streamsql.late_rows (view)", "42809")
