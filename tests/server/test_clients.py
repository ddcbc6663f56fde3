"""Drivers on a real database: types, parameters, cursors, pipelines, COPY."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import asyncpg
import pg8000.dbapi
import psycopg
import pytest
from psycopg import sql
from streamsql_server.server import Server

import streamsql

ROW = {
    "b": ("BOOLEAN", True),
    "i2": ("SMALLINT", -7),
    "i4": ("INTEGER", 2**31 - 1),
    "i8": ("BIGINT", -(2**63)),
    "f4": ("REAL", 1.5),
    "f8": ("DOUBLE PRECISION", 1e-7),
    "n": ("NUMERIC(20,5)", Decimal("-12345.67800")),
    "t": ("TEXT", "é☃ 'x' \\ \n"),
    "by": ("BYTEA", b"\0\x01\xff'\\"),
    "d": ("DATE", dt.date(2024, 2, 29)),
    "tm": ("TIME", dt.time(12, 34, 56, 789000)),
    "ts": ("TIMESTAMP", dt.datetime(2024, 2, 29, 12, 34, 56, 789000)),
    "tz": ("TIMESTAMPTZ", dt.datetime(2024, 2, 29, 12, 34, 56, tzinfo=dt.UTC)),
    "u": ("UUID", uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    "ia": ("INTEGER[]", [1, None, 3]),
    "ta": ("TEXT[]", ["a", "b c", None, ""]),
}
COLUMNS = ", ".join(f"{name} {kind}" for name, (kind, _) in ROW.items())
VALUES = [value for _, value in ROW.values()]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with streamsql.connect() as database, Server(database, "127.0.0.1", 0) as server:
        session = database.session()
        session.execute(f"CREATE TABLE every_type ({COLUMNS})")
        session.execute("CREATE TABLE numbers (n INT PRIMARY KEY)")
        session.execute("INSERT INTO numbers SELECT g FROM generate_series(1, 1000) t(g)")
        session.close()
        yield server.port


@pytest.fixture
def client(port: int) -> Iterator[psycopg.Connection[Any]]:
    options = {"host": "127.0.0.1", "port": port, "user": "me", "dbname": "streamsql"}
    with psycopg.connect(**options, autocommit=True) as connection:  # type: ignore[arg-type]
        connection.execute("DELETE FROM every_type")
        yield connection


# --- psycopg --------------------------------------------------------------------------------------
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("marker", ["%s", "%t", "%b"])
def test_psycopg_values_come_back(
    client: psycopg.Connection[Any], marker: str, binary: bool
) -> None:
    marks = ", ".join([marker] * len(VALUES))
    client.execute(f"INSERT INTO every_type VALUES ({marks})", VALUES)
    client.execute(f"INSERT INTO every_type VALUES ({marks})", [None] * len(VALUES))
    cursor = client.cursor(binary=binary)
    rows = cursor.execute("SELECT * FROM every_type ORDER BY i8").fetchall()
    assert rows == [tuple(VALUES), (None,) * len(VALUES)]


def test_psycopg_interval_and_json(client: psycopg.Connection[Any]) -> None:
    for binary in (False, True):
        cursor = client.cursor(binary=binary)
        row = cursor.execute(
            "SELECT INTERVAL '1 day 02:03:04.5', '{\"a\": [1, null]}'::jsonb, %s::jsonb",
            (psycopg.types.json.Jsonb({"x": "é"}),),
        ).fetchone()
        assert row == (
            dt.timedelta(days=1, hours=2, minutes=3, seconds=4.5),
            {"a": [1, None]},
            {"x": "é"},
        )


def test_psycopg_parameter_types_are_inferred(client: psycopg.Connection[Any]) -> None:
    rows = client.execute(
        "SELECT n FROM numbers WHERE n > %s AND n < %s ORDER BY n LIMIT %s", ("990", 999, 3)
    )
    assert rows.fetchall() == [(991,), (992,), (993,)]
    assert client.execute("SELECT %s::text || 'x'", ("a",)).fetchone() == ("ax",)
    assert client.execute(
        "SELECT count(*) FROM numbers WHERE n = ANY(%s)", ([1, 2, 5000],)
    ).fetchone() == (2,)


def test_psycopg_prepared_statement_sees_changes(client: psycopg.Connection[Any]) -> None:
    client.execute("CREATE TABLE p (a INT)")
    client.execute("CREATE MATERIALIZED VIEW pv AS SELECT count(*) AS n FROM p")
    for i in range(8):
        client.execute("INSERT INTO p VALUES (%s)", (i,), prepare=True)
        assert client.execute("SELECT n FROM pv WHERE n > %s", (0,), prepare=True).fetchone() == (
            i + 1,
        )
    client.execute("DROP MATERIALIZED VIEW pv")
    client.execute("DROP TABLE p")


def test_psycopg_server_side_cursor(client: psycopg.Connection[Any]) -> None:
    with client.transaction(), client.cursor(name="c") as cursor:
        cursor.execute("SELECT n FROM numbers ORDER BY n")
        assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
        assert client.execute("SELECT 1").fetchone() == (1,)
        assert len(cursor.fetchall()) == 997


def test_psycopg_pipeline_and_executemany_are_one_transaction(
    client: psycopg.Connection[Any],
) -> None:
    with client.cursor() as cursor:
        cursor.executemany("INSERT INTO numbers VALUES (%s)", [(i,) for i in range(2000, 2100)])
        with pytest.raises(psycopg.errors.UniqueViolation):
            cursor.executemany("INSERT INTO numbers VALUES (%s)", [(3000,), (3001,), (1,), (3002,)])
    assert client.execute("SELECT count(*) FROM numbers WHERE n >= 2000").fetchone() == (100,)
    client.execute("DELETE FROM numbers WHERE n >= 2000")
    with client.pipeline():
        cursors = [
            client.execute("SELECT %s::int + n FROM numbers WHERE n = 1", (i,)) for i in range(20)
        ]
        assert [cursor.fetchone() for cursor in cursors] == [(i + 1,) for i in range(20)]


def test_psycopg_transaction_block(client: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), client.transaction():
        client.execute("INSERT INTO numbers VALUES (4000)")
        with pytest.raises(psycopg.errors.UndefinedTable), client.transaction():
            client.execute("SELECT * FROM nowhere")
        assert client.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        client.execute("SELECT 1 / 0")
    assert client.execute("SELECT count(*) FROM numbers WHERE n = 4000").fetchone() == (0,)


@pytest.mark.parametrize("options", ["", "(FORMAT csv)", "(FORMAT binary)"])
def test_psycopg_copy_round_trip(client: psycopg.Connection[Any], options: str) -> None:
    client.execute(f"INSERT INTO every_type VALUES ({', '.join(['%s'] * len(VALUES))})", VALUES)
    client.execute("INSERT INTO every_type (i4) VALUES (NULL)")
    with client.cursor() as cursor, cursor.copy(f"COPY every_type TO STDOUT {options}") as copy:
        data = b"".join(bytes(piece) for piece in copy)
    before = client.execute("SELECT * FROM every_type ORDER BY i8").fetchall()
    client.execute("DELETE FROM every_type")
    with client.cursor() as cursor, cursor.copy(f"COPY every_type FROM STDIN {options}") as copy:
        for at in range(0, len(data), 7):
            copy.write(data[at : at + 7])
    assert client.execute("SELECT * FROM every_type ORDER BY i8").fetchall() == before


def test_psycopg_column_description(client: psycopg.Connection[Any]) -> None:
    cursor = client.execute(
        "SELECT n, 1.5::numeric(6,2) AS p, 'x'::varchar(9) AS v, 'lit' FROM numbers"
    )
    assert cursor.description is not None
    names = [c.name for c in cursor.description]
    assert names == ["n", "p", "v", "?column?"]
    result = cursor.pgresult
    assert result is not None
    assert [result.ftype(i) for i in range(4)] == [23, 1700, 1043, 25]
    assert [result.fmod(i) for i in range(4)] == [-1, (6 << 16 | 2) + 4, 13, -1]
    assert result.ftable(0) > 0
    assert result.ftablecol(0) == 1
    assert result.ftable(1) == 0


def test_psycopg_subscription_by_stream_and_cursor(
    client: psycopg.Connection[Any], port: int
) -> None:
    client.execute("CREATE TABLE s (a INT)")
    with psycopg.connect(host="127.0.0.1", port=port, user="me", dbname="streamsql") as reader:
        cursor = reader.cursor()
        cursor.execute("DECLARE c CURSOR FOR SUBSCRIBE s")
        client.execute("INSERT INTO s VALUES (1), (2)")
        seen: list[Any] = []
        for _ in range(100):
            seen += cursor.execute("FETCH ALL c WITH (timeout = '1s')").fetchall()
            if len(seen) >= 2:
                break
        assert sorted(row[-1] for row in seen) == [1, 2]
    client.execute("DROP TABLE s")


def test_psycopg_composed_identifiers_and_errors(client: psycopg.Connection[Any]) -> None:
    client.execute(
        sql.SQL("CREATE TABLE {} ({} INT)").format(sql.Identifier("Odd name"), sql.Identifier("X;"))
    )
    client.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier("Odd name")))
    with pytest.raises(psycopg.errors.UndefinedColumn) as caught:
        client.execute("SELECT n, nope FROM numbers")
    assert caught.value.diag.statement_position == "11"


# --- asyncpg --------------------------------------------------------------------------------------
def test_asyncpg_everything_in_binary(port: int) -> None:
    async def talk() -> None:
        client = await asyncpg.connect(host="127.0.0.1", port=port, user="me", database="streamsql")
        await client.execute("DELETE FROM every_type")
        marks = ", ".join(f"${i + 1}" for i in range(len(VALUES)))
        await client.execute(f"INSERT INTO every_type VALUES ({marks})", *VALUES)
        row = await client.fetchrow("SELECT * FROM every_type")
        assert list(row) == VALUES
        assert await client.fetchval("SELECT INTERVAL '1 day 2 hours'") == dt.timedelta(
            days=1, hours=2
        )
        assert json.loads(await client.fetchval("SELECT '{\"a\": 1}'::jsonb")) == {"a": 1}
        statement = await client.prepare("SELECT n FROM numbers WHERE n <= $1 ORDER BY n")
        assert [p.name for p in statement.get_parameters()] == ["int4"]
        assert len(await statement.fetch(10)) == 10
        translated = await client.fetch("TRANSLATE $1 FROM 'flink'", "SELECT `n` FROM numbers")
        assert tuple(translated[0]) == ("statement", "SELECT n FROM numbers", 1)
        async with client.transaction():
            cursor = await client.cursor("SELECT n FROM numbers ORDER BY n")
            assert [r["n"] for r in await cursor.fetch(3)] == [1, 2, 3]
            assert await client.fetchval("SELECT count(*) FROM numbers") == 1000
            assert [r["n"] for r in await cursor.fetch(2)] == [4, 5]
        await client.executemany(
            "INSERT INTO numbers VALUES ($1)", [(i,) for i in range(6000, 6010)]
        )
        assert await client.execute("DELETE FROM numbers WHERE n >= 6000") == "DELETE 10"
        await client.copy_records_to_table("numbers", records=[(i,) for i in range(7000, 7010)])
        out = io.BytesIO()
        await client.copy_from_query(
            "SELECT n FROM numbers WHERE n >= $1 ORDER BY n", 7008, output=out
        )
        assert out.getvalue() == b"7008\n7009\n"
        await client.execute("DELETE FROM numbers WHERE n >= 7000")
        with pytest.raises(asyncpg.UniqueViolationError):
            await client.execute("INSERT INTO numbers VALUES (1)")
        await client.reset()
        await client.close()

    asyncio.run(talk())


def test_asyncpg_pool(port: int) -> None:
    async def talk() -> None:
        async with asyncpg.create_pool(
            host="127.0.0.1", port=port, user="me", database="streamsql", min_size=2, max_size=4
        ) as pool:
            rows = await asyncio.gather(
                *(pool.fetchval("SELECT $1::int * 2", i) for i in range(30))
            )
        assert rows == [i * 2 for i in range(30)]

    asyncio.run(talk())


# --- pg8000 ---------------------------------------------------------------------------------------
def test_pg8000_text_round_trip(port: int) -> None:
    client = pg8000.dbapi.connect(host="127.0.0.1", port=port, user="me", database="streamsql")
    cursor = client.cursor()
    cursor.execute("DELETE FROM every_type")
    plain = [v for name, (_, v) in ROW.items() if name not in ("ia", "ta")]
    names = ", ".join(name for name in ROW if name not in ("ia", "ta"))
    marks = ", ".join(["%s"] * len(plain))
    cursor.execute(f"INSERT INTO every_type ({names}) VALUES ({marks})", plain)
    cursor.execute(f"SELECT {names} FROM every_type")
    assert list(cursor.fetchone()) == plain
    client.rollback()
    cursor.execute("SELECT count(*) FROM every_type")
    client.commit()
    client.close()
