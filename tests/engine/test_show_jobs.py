"""SHOW JOBS fits a window, and says since when each runs."""

from __future__ import annotations

import datetime


def test_show_jobs_is_narrow_and_says_since_when_each_runs(db):
    db.execute("CREATE TABLE t (a INT)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    db.execute(
        "CREATE TABLE s (a INT) WITH (connector = 'datagen', \"number-of-rows\" = '1200', \"rows-per-second\" = '0')"
    )
    db.execute("FLUSH")
    shown = db.execute("SHOW JOBS")
    assert [c.name for c in shown.columns] == [
        "Id", "Kind", "Relation", "State", "Rows", "Started", "Error", "Schema",
    ]  # fmt: skip
    view, source = shown.fetchall()
    assert view[1:5] == ("materialized view", "m", "running", "")
    assert source[1:3] == ("source", "s")
    assert source[3] in ("running", "finished") and source[4] == "1,200"
    now = datetime.datetime.now(datetime.UTC)
    for row in (view, source):
        assert now - datetime.timedelta(minutes=5) < row[5] <= now
        assert row[5].microsecond == 0
    assert db.execute("SHOW JOBS LIKE 's'").fetchall()[0][:3] == source[:3]
    ((statement, started),) = db.execute(
        "SELECT statement, started FROM streamsql.jobs WHERE relation = 'm'"
    ).fetchall()
    assert statement.startswith("CREATE MATERIALIZED VIEW m")
    assert started.replace(microsecond=0) == view[5]
