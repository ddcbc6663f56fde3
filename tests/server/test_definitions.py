"""ALTER, jobs and comments over the wire: psycopg, Ctrl-C, psql's \\d+."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from streamsql_server.server import Server

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.engine import jobs, side_circuit
from streamsql.engine.database import Database
from tests.server.test_psql import PSQL, psql

Running = tuple[Database, int]


@pytest.fixture
def running() -> Iterator[Running]:
    with streamsql.connect() as database, Server(database, "127.0.0.1", 0) as server:
        database.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, a INT); "
            "INSERT INTO t SELECT g, g % 7 FROM generate_series(1, 300) x(g)"
        )
        yield database, server.port


def connect(port: int, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    return psycopg.connect(
        host="127.0.0.1", port=port, user="me", dbname="streamsql", autocommit=autocommit
    )


def test_a_migration_in_a_transaction(running: Running) -> None:
    _, port = running
    with connect(port, autocommit=False) as client, connect(port) as other:
        other.execute("CREATE MATERIALIZED VIEW m AS SELECT a, count(*) AS n FROM t GROUP BY a")
        client.execute("ALTER TABLE t ADD COLUMN note TEXT NOT NULL DEFAULT 'none'")
        client.execute("ALTER TABLE t RENAME COLUMN a TO kind")
        client.execute("UPDATE t SET note = %s WHERE id = %s", ("first", 1))
        found = client.execute("SELECT kind, note FROM t WHERE id < 3 ORDER BY id").fetchall()
        assert found == [(1, "first"), (2, "none")]
        with pytest.raises(psycopg.errors.UndefinedColumn):
            other.execute("SELECT note FROM t")
        client.commit()
        assert other.execute("SELECT note FROM t WHERE id = 1").fetchone() == ("first",)
        assert other.execute("SELECT n FROM m WHERE a = 1").fetchone() == (43,)
        with pytest.raises(psycopg.errors.DependentObjectsStillExist) as caught:
            client.execute("ALTER TABLE t DROP COLUMN kind")
        assert caught.value.diag.message_detail == (
            "materialized view m depends on column kind of table t"
        )


def test_a_prepared_statement_sees_the_new_columns(running: Running) -> None:
    _, port = running
    with connect(port) as client:
        for column in ("b", "c"):
            insert = "INSERT INTO t (id, a) VALUES (%s, %s)"
            client.execute(insert, (1000 + ord(column), 1), prepare=True)
            client.execute(f"ALTER TABLE t ADD COLUMN {column} INT DEFAULT 5")
            client.execute(insert, (2000 + ord(column), 1), prepare=True)
        assert client.execute("SELECT DISTINCT b FROM t ORDER BY 1").fetchall() == [(5,)]


@pytest.mark.skipif(PSQL is None, reason="psql is not installed")
def test_ctrl_c_in_psql_ends_a_view_in_the_making(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, port = running
    monkeypatch.setattr(jobs, "JOB_ROWS", 1)
    monkeypatch.setattr(side_circuit, "SLICE_ROWS", 100)
    begun, stopped = threading.Event(), threading.Event()

    def slow(job: jobs.Job) -> None:
        begun.set()
        stopped.wait(20)
        if job.error is not None:
            raise job.error

    stop = jobs.Job.stop

    def noticed(job: jobs.Job, error: StreamSqlError) -> None:
        stop(job, error)
        stopped.set()

    monkeypatch.setattr(jobs.Job, "check", slow)
    monkeypatch.setattr(jobs.Job, "stop", noticed)
    command = [PSQL or "", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "me", "-d", "streamsql"]
    script = [*command, "-c", "CREATE MATERIALIZED VIEW m AS SELECT a FROM t"]
    with subprocess.Popen(script, stderr=subprocess.PIPE, text=True) as client:
        assert begun.wait(20)
        with connect(port) as other:
            shown = other.execute("SHOW JOBS").fetchall()
            assert [row[2] for row in shown] == ["m"]
            other.execute("INSERT INTO t VALUES (5000, 1)")
        client.send_signal(signal.SIGINT)
        _, err = client.communicate(timeout=20)
    assert "canceling statement due to user request" in err
    assert not database.engine.catalog.jobs
    assert database.execute("SHOW MATERIALIZED VIEWS").fetchall() == []
    assert database.execute("SELECT count(*) FROM t").fetchall() == [(301,)]


@pytest.mark.skipif(PSQL is None, reason="psql is not installed")
def test_psql_shows_comments_and_new_columns(running: Running) -> None:
    _, port = running
    out, err = psql(
        port,
        "COMMENT ON TABLE t IS 'all things';\nCOMMENT ON COLUMN t.a IS 'which one';\n"
        "ALTER TABLE t ADD COLUMN c TEXT DEFAULT 'x';\n\\d+ t\n\\dt+\n",
    )
    assert err == ""
    assert "which one" in out and "all things" in out
    assert "'x'" in out
