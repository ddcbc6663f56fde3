"""The catalog as real clients see it, over the wire: psql, psycopg, asyncpg, pg8000."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator

import asyncpg
import pg8000.dbapi
import psycopg
import pytest
from psycopg.types import TypeInfo
from psycopg.types.enum import EnumInfo
from streamsql_server.server import Server

import streamsql

SETUP = """
CREATE SCHEMA sales;
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, credit NUMERIC(12,2) DEFAULT 0.00);
CREATE TABLE sales.orders (a BIGINT, b TEXT, PRIMARY KEY (b, a));
CREATE VIEW names AS SELECT id, name FROM customers;
CREATE MATERIALIZED VIEW sales.per_b AS SELECT b, count(*) AS n FROM sales.orders GROUP BY b;
COMMENT ON COLUMN customers.name IS 'Full name'
"""
needs_psql = pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with streamsql.connect() as database:
        database.execute(SETUP)
        with Server(database, port=0) as server:
            yield server.port


def psql(port: int, *commands: str) -> str:
    """What psql prints, without blanks at line ends."""
    arguments = ["psql", "-X", "-h", "127.0.0.1", "-p", str(port), "-U", "ann", "-d", "streamsql"]
    for command in commands:
        arguments += ["-c", command]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    if not done.stderr.startswith("Did not find any"):
        assert (done.returncode, done.stderr) == (0, "")
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


@needs_psql
def test_psql_lists_relations(port):
    assert psql(port, r"\d").startswith(
        """\
           List of relations
 Schema |   Name    | Type  |   Owner
--------+-----------+-------+-----------
 public | customers | table | streamsql
 public | names     | view  | streamsql
(2 rows)"""
    )
    assert " sales  | per_b | materialized view | streamsql" in psql(port, r"\dm *.*")


@needs_psql
def test_psql_describes_a_table(port):
    assert (
        psql(port, r"\d customers")
        == """\
                    Table "public.customers"
 Column |         Type          | Collation | Nullable | Default
--------+-----------------------+-----------+----------+---------
 id     | integer               |           | not null |
 name   | character varying(40) |           | not null |
 credit | numeric(12,2)         |           |          | 0.00
Indexes:
    "customers_pkey" PRIMARY KEY, btree (id)
"""
    )


@needs_psql
def test_psql_describes_an_index_and_a_materialized_view(port):
    text = psql(port, r"\d sales.orders_pkey", r"\d+ sales.per_b")
    assert 'primary key, btree, for table "sales.orders"' in text
    assert "SELECT b, count(*) AS n FROM sales.orders GROUP BY b;" in text


@needs_psql
@pytest.mark.parametrize(
    "command",
    [r"\l", r"\l+", r"\dn+", r"\du+", r"\df", r"\dv+", r"\dt+ *.*", r"\di+", r"\ds", r"\dT+", r"\dx",
     r"\dp", r"\dd", r"\db+", r"\dC", r"\do", r"\dA+", r"\dF", r"\dO", r"\dRp+", r"\des", r"\ddp",
     r"\sv names", r"\conninfo", r"\d+ customers", r"\dP", r"\dL", r"\dconfig", r"\z"],
)  # fmt: skip
def test_psql_commands_run_without_error(port, command):
    psql(port, command)


def test_psycopg_finds_types(port):
    with psycopg.connect(f"host=127.0.0.1 port={port} user=ann dbname=streamsql") as connection:
        found = TypeInfo.fetch(connection, "numeric")
        assert found is not None
        assert (found.oid, found.array_oid, found.regtype) == (1700, 1231, "numeric")
        assert TypeInfo.fetch(connection, "hstore") is None
        assert EnumInfo.fetch(connection, "mood") is None
        rows = connection.execute(
            "SELECT relname, relkind FROM pg_class WHERE oid = %s::regclass", ("customers",)
        ).fetchall()
        assert rows == [("customers", "r")]


def test_asyncpg_reads_catalogs_in_binary(port):
    async def work() -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=port, user="ann", database="streamsql", timeout=30
        )
        try:
            row = await connection.fetchrow(
                "SELECT oid, relname, relkind, relnatts, relacl, reltuples FROM pg_class"
                " WHERE relname = $1", "customers",
            )  # fmt: skip
            assert (row["relname"], row["relkind"], row["relnatts"]) == ("customers", b"r", 3)
            keys = await connection.fetchval(
                "SELECT indkey FROM pg_index WHERE indrelid = $1", row["oid"]
            )
            assert list(keys) == [1]
            assert await connection.fetchval("SELECT current_database()") == "streamsql"
            columns = await connection.fetch(
                "SELECT column_name FROM information_schema.columns WHERE table_name = $1"
                " ORDER BY ordinal_position", "customers",
            )  # fmt: skip
            assert [c["column_name"] for c in columns] == ["id", "name", "credit"]
        finally:
            await connection.close()

    asyncio.run(work())


def test_pg8000_reads_catalogs_as_text(port):
    connection = pg8000.dbapi.connect("ann", host="127.0.0.1", port=port, database="streamsql")
    cursor = connection.cursor()
    cursor.execute("SELECT nspname FROM pg_namespace WHERE nspname = %s", ("sales",))
    assert cursor.fetchall() == (["sales"],)
    connection.close()
