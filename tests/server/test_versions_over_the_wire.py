"""Versions, subscriptions and indexes as psycopg and psql see them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from streamsql_server.server import Server

import streamsql


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with streamsql.connect() as database, Server(database, "127.0.0.1", 0) as server:
        database.execute("""
            CREATE TABLE t (id INT PRIMARY KEY, k INT, ts TIMESTAMP,
                            WATERMARK FOR ts AS ts - INTERVAL '5 seconds');
            CREATE INDEX by_k ON t (k, lower(k::TEXT)) INCLUDE (ts);
            CREATE MATERIALIZED VIEW m AS SELECT k, count(*) AS n FROM t GROUP BY k;
            CREATE SUBSCRIPTION s FROM m WITH (retention = '1 day')
        """)
        yield server.port


def connect(port: int) -> psycopg.Connection:
    return psycopg.connect(f"host=127.0.0.1 port={port} user=me dbname=streamsql", autocommit=True)


def test_writes_tell_their_version_and_old_ones_are_read_by_parameter(port: int) -> None:
    with connect(port) as connection:
        notices: list[str] = []
        connection.add_notice_handler(lambda d: notices.append(d.message_primary or ""))
        connection.execute("SET streamsql.version_notice = on")
        connection.execute("INSERT INTO t VALUES (1, 1, NULL)")
        [version] = connection.execute("SHOW streamsql.version").fetchone()
        assert notices == [f"version {version}"]
        connection.execute("DELETE FROM t WHERE id = 1")
        sql = "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF %s WHERE k = %s"
        assert connection.execute(sql, (int(version), 1), prepare=True).fetchone() == (1,)
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            connection.execute(sql, (10**9, 1))
        plan = connection.execute("EXPLAIN SELECT * FROM t WHERE k = 1").fetchall()
        assert "Index Lookup using by_k (k = 1)" in plan[-1][0]


def test_a_client_comes_back_and_goes_on(port: int) -> None:
    with connect(port) as connection:
        connection.execute("DECLARE c SUBSCRIPTION CURSOR FOR s")
        connection.execute("INSERT INTO t VALUES (10, 7, NULL), (11, 8, NULL)")
        first = connection.execute("FETCH 100 FROM c").fetchall()
        assert [row[1:] for row in sorted(first)] == [(1, 7, 1), (1, 8, 1)]
        seen = first[-1][0]
    with connect(port) as connection:
        connection.execute("DELETE FROM t WHERE id = 11")
        connection.execute(f"DECLARE c SUBSCRIPTION CURSOR FOR s SINCE {seen}")
        rows = connection.execute("FETCH NEXT FROM c WITH (timeout = '1s')").fetchall()
        assert [row[1:] for row in rows] == [(-1, 8, 1)]
        assert connection.execute("FETCH NEXT FROM c").fetchall() == []
        found = connection.execute("SHOW SUBSCRIPTION CURSORS").fetchall()
        assert [row[2:4] for row in found] == [("c", "s")]


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_shows_indexes_watermarks_and_system_relations(port: int) -> None:
    script = "\\d t\n\\d m\n\\di\n\\d by_k\n\\dt streamsql.late*\n"
    done = subprocess.run(
        ["psql", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "me", "-d", "streamsql"],
        input=script, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    lines = [line.strip() for line in done.stdout.splitlines()]
    for wanted in (
        '"t_pkey" PRIMARY KEY, btree (id)',
        '"by_k" btree (k, lower(CAST(k AS TEXT))) INCLUDE (ts)',
        "Rules:",
        "WATERMARK FOR ts AS ts - INTERVAL '5 seconds'",
        "public | by_k   | index | streamsql | t",
        "expr   | text                        | yes  | lower(CAST(k AS TEXT))",
        "ts     | timestamp without time zone | no   | ts",
        'btree, for table "public.t"',
        "streamsql | late_rows | table | streamsql",
    ):
        assert wanted in lines, wanted
