"""SHOW JOBS fits a window, and says since when each runs."""

from __future__ import annotations

import datetime

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError
from tests.refused import refused


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


def test_what_runs_for_ever_is_not_canceled() -> None:
    with streamsql.connect() as db:
        db.execute("""
            CREATE SCHEMA far;
            CREATE SOURCE src (a INT) WITH (connector = 'datagen', number_of_rows = 1);
            CREATE TABLE fed (a INT) WITH (connector = 'datagen', number_of_rows = 1);
            CREATE TABLE t (a INT);
            CREATE MATERIALIZED VIEW far.m AS SELECT count(*) AS n FROM t
        """)
        listed = {name: oid for oid, _, name, *_ in db.execute("SHOW JOBS").fetchall()}
        assert set(listed) == {"src", "fed", "m"}
        with refused("42809", "source src runs until it is dropped, and can not be canceled"):
            db.execute(f"CANCEL JOB {listed['src']}")
        for name, kind, full in (
            ("src", "source", "src"),
            ("fed", "table", "fed"),
            ("m", "materialized view", "far.m"),
        ):
            words = f"{kind.upper()} {full}"
            with pytest.raises(StreamSqlError) as caught:
                db.execute(f"CANCEL JOB {listed[name]}")
            assert caught.value.message.startswith(f"{kind} {full} runs until it is dropped")
            assert caught.value.hint == f"ALTER {words} SUSPEND halts it, DROP {words} ends it."
            db.execute(f"ALTER {words} SUSPEND; DROP {words}")
        with pytest.raises(StreamSqlError, match="job 1 does not exist"):
            db.execute("CANCEL JOB 1")
