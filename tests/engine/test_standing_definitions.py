"""A database opens whatever it holds: definitions that are refused today, and were not once."""

from __future__ import annotations

import pytest

from streamsql.core.errors import FeatureNotSupported, StreamSqlError
from streamsql.engine import definitions
from streamsql.engine.database import Database
from streamsql.operators import on_close
from tests.engine.test_recovery import stop
from tests.refused import refused
from tests.state.faulty_filesystem import MemoryFileSystem

TABLE = "CREATE TABLE t (k INT, at TIMESTAMP, v INT, WATERMARK FOR at AS at)"
CLOSED = (
    "CREATE MATERIALIZED VIEW closed AS SELECT k, window_start AS ws, sum(v) AS s "
    "FROM TUMBLE(t, at, INTERVAL '10 s') GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE"
)
ENDLESS = (
    "CREATE MATERIALIZED VIEW endless AS SELECT k, max(s) AS m FROM (SELECT k, window_start, "
    "sum(v) AS s FROM TUMBLE(t, at, INTERVAL '10 s') GROUP BY k, window_start, window_end) "
    "GROUP BY k EMIT ON WINDOW CLOSE"
)


def made(files: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database with a view that takes rows back after they were final."""
    db = Database("data", files=files)
    db.execute(TABLE)
    db.execute(CLOSED)
    with monkeypatch.context() as older:
        older.setattr(on_close, "first_changing", lambda root, final, together: None)
        db.execute(ENDLESS)
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT sum(m) AS m FROM endless")
    db.execute("CREATE INDEX i ON endless (k)")
    db.execute("INSERT INTO t VALUES (1, '2024-01-01 00:00:01', 5), (1, '2024-01-01 00:00:12', 7)")
    db.execute("DELETE FROM t WHERE v = 5")
    return db


def stopped(monkeypatch, crash):
    """The files of `made`, closed, or crashed."""
    files = MemoryFileSystem()
    db = made(files, monkeypatch)
    stop(db, files, crash)
    return files


@pytest.mark.parametrize("crash", [False, True])
def test_view_that_is_refused_now_is_failed_and_the_rest_works(monkeypatch, crash):
    files = stopped(monkeypatch, crash)
    for closed in (
        [(1, 5)],
        [(1, 5), (1, 7)],
    ):  # the second time from a checkpoint that was written without it
        with Database("data", files=files) as again:
            assert again.execute("SELECT k, s FROM closed ORDER BY s").fetchall() == closed
            again.execute("INSERT INTO t VALUES (2, '2024-01-01 00:00:30', 1)")
            again.execute("DELETE FROM t WHERE k = 2")
            assert ("closed", "running") in again.execute(
                "SELECT relation, state FROM streamsql.jobs"
            ).fetchall()
            with refused(
                "55000",
                'materialized view "endless" can not be made any more: EMIT ON WINDOW CLOSE needs '
                "rows that a watermark closes, and GROUP BY without a window's columns changes "
                "its rows after that",
            ):
                again.execute("SELECT * FROM endless").fetchall()
            with pytest.raises(StreamSqlError):
                again.execute("SELECT * FROM above").fetchall()
            said = again.execute(
                "SELECT error FROM streamsql.jobs WHERE relation = 'endless' AND state = 'failed'"
            ).fetchall()
            assert "can not be made any more" in said[0][0]
            for name in ("jobs", "operators", "watermarks", "late_rows", "view_errors"):
                again.execute(f"SELECT * FROM streamsql.{name}").fetchall()
            for sql in (
                "VERIFY MATERIALIZED VIEW endless", "SUBSCRIBE endless UP TO 1000",
                "EXPLAIN ANALYZE MATERIALIZED VIEW endless",
                "CREATE MATERIALIZED VIEW x AS SELECT * FROM endless",
                "CREATE MATERIALIZED VIEW x AS SELECT * FROM above",
            ):  # fmt: skip
                with pytest.raises(StreamSqlError) as caught:
                    again.execute(sql).fetchall()
                assert caught.value.sqlstate in ("55000", "XX000"), (sql, caught.value)


@pytest.mark.parametrize("crash", [False, True])
def test_view_that_is_refused_now_can_be_replaced_and_dropped(monkeypatch, crash):
    files = stopped(monkeypatch, crash)
    with Database("data", files=files) as again:
        again.execute(
            "CREATE OR REPLACE MATERIALIZED VIEW endless AS SELECT k, sum(v)::bigint AS m FROM t"
            " GROUP BY k"
        )
        assert again.execute("SELECT k, m FROM endless").fetchall() == [(1, 7)]
        assert again.execute("SELECT m FROM above").fetchall() == [(7,)]
    with Database("data", files=files) as again:
        assert again.execute("SELECT m FROM above").fetchall() == [(7,)]
        again.execute("DROP MATERIALIZED VIEW endless CASCADE")
        assert again.execute("SELECT relation FROM streamsql.jobs").fetchall() == [("closed",)]


@pytest.mark.parametrize("crash", [False, True])
def test_table_whose_watermark_is_refused_now_works_as_before(monkeypatch, crash):
    files = MemoryFileSystem()
    db = Database("data", files=files)
    sql = "CREATE TABLE n (k INT, at TIMESTAMP, v INT, WATERMARK FOR at AS now()::timestamp)"
    with pytest.raises(FeatureNotSupported):
        db.execute(sql)
    with monkeypatch.context() as older:
        older.setattr(definitions, "NOW_REFUSED", definitions.NOW_TICK)
        db.execute(sql)
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT sum(v) AS s FROM n")
    db.execute("INSERT INTO n VALUES (1, '2024-01-01', 1)")
    stop(db, files, crash)
    with Database("data", files=files) as again:
        again.execute("INSERT INTO n VALUES (2, '2024-01-02', 2); UPDATE n SET v = 3 WHERE k = 2")
        assert again.execute("SELECT s FROM s").fetchall() == [(4,)]
        mark = "SELECT watermark > '2024-06-01' FROM streamsql.watermarks WHERE relation = 'n'"
        assert again.execute(mark).fetchall() == [(True,)]


def test_table_whose_definition_can_not_be_bound_can_be_read(monkeypatch):
    files = MemoryFileSystem()
    db = Database("data", files=files)
    db.execute(TABLE)
    db.execute(CLOSED)
    db.execute("CREATE TABLE u (a INT)")
    db.execute("INSERT INTO t VALUES (1, '2024-01-01 00:00:01', 5), (1, '2024-01-01 00:00:12', 7)")
    db.close()

    def refuse(statement, schema, scope):
        if statement.name[-1] == "t":
            raise FeatureNotSupported("it is not there any more")
        return bind(statement, schema, scope)

    bind = definitions.bind_program
    monkeypatch.setattr(definitions, "bind_program", refuse)
    with Database("data", files=files) as again:
        assert again.execute("SELECT sum(v) FROM t").fetchall() == [(12,)]
        assert again.execute("SELECT k, s FROM closed").fetchall() == [(1, 5)]
        again.execute("INSERT INTO u VALUES (1)")
        with pytest.raises(FeatureNotSupported):
            again.execute("INSERT INTO t VALUES (1, '2024-01-01 00:00:40', 7)")
    monkeypatch.undo()
    with Database("data", files=files) as again:
        again.execute("INSERT INTO t VALUES (1, '2024-01-01 00:00:40', 7)")
        assert again.execute("SELECT k, s FROM closed ORDER BY s").fetchall() == [(1, 5), (1, 7)]
