"""Every golden script, embedded and over the wire, gives what stands in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql as psycopg_sql

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.functions.textio import to_text

from .script import Outcome, play

SCRIPTS = sorted(Path(__file__).parent.glob("*.slt"))
REWRITE = os.environ.get("STREAMSQL_REWRITE") == "1"


def rows_of(columns: list[list[str | None]]) -> list[str]:
    return [
        " ".join("NULL" if v is None else (v or "(empty)") for v in row)
        for row in zip(*columns, strict=True)
    ]


def error_lines(message: str, detail: str | None, hint: str | None) -> list[str]:
    lines = message.splitlines()
    lines += f"DETAIL: {detail}".splitlines() if detail else []
    return lines + ([f"HINT: {hint}"] if hint else [])


@pytest.fixture
def database() -> Iterator[streamsql.Database]:
    with streamsql.connect() as db:
        yield db


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_script_embedded(path: Path, database: streamsql.Database) -> None:
    session = database.session()

    def run(sql: str, is_query: bool) -> Outcome:
        try:
            result = session.execute(sql)
            if not is_query:
                list(result.batches)
                return Outcome()
            assert result.columns is not None
            table = result.table()
            texts = [
                to_text(column.combine_chunks(), c.type).to_pylist()
                for column, c in zip(table.columns, result.columns, strict=True)
            ]
            return Outcome(rows=rows_of(texts))
        except StreamSqlError as error:
            position = None if error.position is None else error.position + 1
            lines = error_lines(error.message, error.detail, error.hint)
            return Outcome(sqlstate=error.sqlstate, position=position, message=lines)

    assert play(path, run, rewrite=REWRITE) == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_script_over_the_wire(path: Path, database: streamsql.Database) -> None:
    from streamsql_server.server import Server

    server = Server(database, "127.0.0.1", 0)
    server.start()
    try:
        with psycopg.connect(
            host="127.0.0.1", port=server.port, dbname="streamsql", user="golden", autocommit=True
        ) as connection:

            def run(sql: str, is_query: bool) -> Outcome:
                try:
                    cursor = psycopg.ClientCursor(connection)
                    cursor.execute(psycopg_sql.SQL(sql))  # type: ignore[arg-type]
                except psycopg.Error as error:
                    diag = error.diag
                    position = diag.statement_position
                    lines = error_lines(
                        diag.message_primary or "", diag.message_detail, diag.message_hint
                    )
                    where = None if position is None else int(position)
                    return Outcome(sqlstate=diag.sqlstate, position=where, message=lines)
                if not is_query:
                    return Outcome()
                result = cursor.pgresult
                assert result is not None
                columns = [
                    [
                        None if (v := result.get_value(r, c)) is None else v.decode()
                        for r in range(result.ntuples)
                    ]
                    for c in range(result.nfields)
                ]
                return Outcome(rows=rows_of(columns))

            assert play(path, run, rewrite=False) == []
    finally:
        server.stop()


def test_there_are_scripts() -> None:
    assert SCRIPTS
