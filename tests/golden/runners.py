"""Who runs the blocks of a golden script: a database in this process, or a client over the wire.

Both run in a directory of their own, so that files have short paths that never change.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import psycopg
import pyarrow as pa
from psycopg import sql as psycopg_sql

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.engine.api import CopyIn, Result
from streamsql.engine.session import Session
from streamsql.functions.textio import to_text

from .script import Block, Outcome

Columns = list[list[str | None]]


def rows_of(columns: Columns) -> list[str]:
    return [
        " ".join("NULL" if v is None else (v or "(empty)") for v in row)
        for row in zip(*columns, strict=True)
    ]


def error_lines(message: str, detail: str | None, hint: str | None) -> list[str]:
    lines = message.splitlines()
    lines += f"DETAIL: {detail}".splitlines() if detail else []
    return lines + ([f"HINT: {hint}"] if hint else [])


class Embedded:
    """A database in this process. path: ":memory:", or a directory for scripts that restart it."""

    def __init__(self, path: str = ":memory:") -> None:
        self.path = path
        self.db = streamsql.connect(path)
        self._sessions: dict[str, Session] = {}
        self._current = "main"
        self._given: dict[str, object] = {}

    def close(self) -> None:
        self.db.close()

    def session(self) -> Session:
        """The one that statements run in."""
        if self._current not in self._sessions:
            self._sessions[self._current] = self.db.session()
        return self._sessions[self._current]

    def __call__(self, block: Block) -> Outcome:
        try:
            return self._run(block)
        except StreamSqlError as error:
            position = None if error.position is None else error.position + 1
            lines = error_lines(error.message, error.detail, error.hint)
            return Outcome(sqlstate=error.sqlstate, position=position, message=lines)

    def _run(self, block: Block) -> Outcome:
        kind = block.head[0]
        if kind == "file":
            Path(block.head[1]).write_text(f"{block.sql}\n", encoding="utf-8")
        elif kind == "session":
            self._current = block.head[1]
        elif kind == "restart":
            self.db.close()
            self._sessions.clear()
            self.db = streamsql.connect(self.path)
        elif kind == "python":
            self._given |= {"db": self.db, "session": self.session(), "pa": pa}
            exec(textwrap.dedent(block.sql), self._given)
        elif kind == "query":
            return Outcome(rows=rows_of(texts(self.session().execute(block.sql))))
        else:
            self._statement(block)
        return Outcome()

    def _statement(self, block: Block) -> None:
        session = self.session()
        if block.bytes is None:
            list(session.execute(block.sql).batches)
            return
        (statement,) = session.parse(block.sql)
        copy: CopyIn = session.run(statement)  # type: ignore[assignment]
        copy.write(block.bytes)
        copy.finish()


def texts(result: Result) -> Columns:
    """The columns as PostgreSQL's text."""
    assert result.columns is not None
    return [
        to_text(column.combine_chunks(), c.type).to_pylist()
        for column, c in zip(result.table().columns, result.columns, strict=True)
    ]


class Wire:
    """Connections of psycopg to a server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connections: dict[str, psycopg.Connection] = {}
        self._current = "main"

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def connection(self) -> psycopg.Connection:
        """The one that statements run in."""
        if self._current not in self._connections:
            self._connections[self._current] = psycopg.connect(
                host="127.0.0.1", port=self.port, dbname="streamsql", user="golden", autocommit=True
            )
        return self._connections[self._current]

    def __call__(self, block: Block) -> Outcome:
        kind = block.head[0]
        if kind == "file":
            Path(block.head[1]).write_text(f"{block.sql}\n", encoding="utf-8")
        elif kind == "session":
            self._current = block.head[1]
        else:
            try:
                return self._statement(block)
            except psycopg.Error as error:
                return wire_outcome(error)
        return Outcome()

    def _statement(self, block: Block) -> Outcome:
        cursor = psycopg.ClientCursor(self.connection())
        query = psycopg_sql.SQL(block.sql)  # type: ignore[arg-type]
        if block.bytes is not None:
            with cursor.copy(query) as copy:
                copy.write(block.bytes)
            return Outcome()
        cursor.execute(query)
        if block.head[0] != "query":
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


def wire_outcome(error: psycopg.Error) -> Outcome:
    """What the client was told."""
    diag = error.diag
    position = diag.statement_position
    return Outcome(
        sqlstate=diag.sqlstate,
        position=None if position is None else int(position),
        message=error_lines(diag.message_primary or "", diag.message_detail, diag.message_hint),
    )
