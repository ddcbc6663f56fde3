"""A server, over the Postgres protocol by libpq."""

from __future__ import annotations

import contextlib
import re
import select
from collections.abc import Iterator
from typing import Any

from streamsql_repl.answer import (
    Answer,
    Backend,
    Column,
    ConnectionLost,
    CopyInput,
    Message,
    Row,
    StatementFailed,
)

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 4566
_NUMERIC_OIDS = frozenset({20, 21, 23, 26, 700, 701, 790, 1700})
_WAIT_SECONDS = 0.2
_ROWS_PER_BATCH = 1000
_COPY_CHUNK = 1 << 16
_ENDLESS = re.compile(
    r"\A(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:subscribe|tail)\b|\bemit\s+changes\s*;?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
"""Statements whose rows are shown as they come: the protocol does not tell that they go on."""


def conninfo_of(dsn: str) -> str:
    """The libpq connection string for a URL, a keyword string, `host:port`, `host` or `:port`."""
    text = dsn.strip()
    if "://" in text or "=" in text:
        return text
    host, _, port = text.rpartition(":") if ":" in text else (text, "", "")
    return f"host={host or DEFAULT_HOST} port={port or DEFAULT_PORT}"


def complete_conninfo(dsn: str) -> str:
    """The connection string with our defaults for what it leaves open."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    given = conninfo_to_dict(conninfo_of(dsn))
    defaults: dict[str, str | int] = {
        "host": DEFAULT_HOST,
        "port": str(DEFAULT_PORT),
        "dbname": "streamsql",
        "user": "streamsql",
        "application_name": "streamsql repl",
        "connect_timeout": "10",
    }
    defaults.update({k: v for k, v in given.items() if v is not None})
    return make_conninfo("", **defaults)  # type: ignore[arg-type]


class ConnectedBackend(Backend):
    """One connection. Rows arrive one by one (single-row mode), so a SUBSCRIBE shows at once."""

    def __init__(self, dsn: str) -> None:
        """Raises: ConnectionLost if no server answers or it refuses."""
        try:
            from psycopg import pq
        except ImportError as error:
            raise ConnectionLost(
                f"psycopg finds no libpq: {error}; install psycopg[binary] or your system's libpq"
            ) from None
        self._pq = pq
        self._dsn = complete_conninfo(dsn)
        self._conn = pq.PGconn.connect(self._dsn.encode())
        if self._conn.status != pq.ConnStatus.OK:
            raise ConnectionLost(_clean(self._conn.error_message))
        self._messages: list[Message] = []
        self._conn.notice_handler = self._notice
        self._conn.nonblocking = 0

    def _notice(self, result: Any) -> None:
        field = self._pq.DiagnosticField
        self._messages.append(
            Message(
                _diagnostic(result, field.SEVERITY) or "NOTICE",
                _diagnostic(result, field.MESSAGE_PRIMARY) or "",
                _diagnostic(result, field.MESSAGE_DETAIL),
                _diagnostic(result, field.MESSAGE_HINT),
            )
        )

    # running ----------------------------------------------------------------------------------
    def run(self, sql: str) -> Answer:
        pq = self._pq
        self._messages = []
        try:
            self._conn.send_query(sql.encode())
            self._conn.set_single_row_mode()
        except Exception as error:
            raise ConnectionLost(str(error)) from None
        result = self._next()
        answer = Answer(messages=self._messages)
        status = result.status if result is not None else pq.ExecStatus.EMPTY_QUERY
        if result is None or status == pq.ExecStatus.EMPTY_QUERY:
            self._drain()
        elif status == pq.ExecStatus.COPY_IN:
            answer.copy_in = _ConnectedCopy(self)
        elif status == pq.ExecStatus.COPY_OUT:
            answer.copy_out = self._copy_out()
        elif status == pq.ExecStatus.COMMAND_OK:
            answer.tag = _text(result.command_status)
            self._drain()
        elif status in _row_statuses(pq):
            self._rows_of(answer, result)
            answer.streaming = _ENDLESS.search(sql) is not None
        else:
            self._fail(result)
        return answer

    def _rows_of(self, answer: Answer, first: Any) -> None:
        answer.columns = tuple(
            Column(_text(first.fname(i)), first.ftype(i) in _NUMERIC_OIDS)
            for i in range(first.nfields)
        )
        tags: list[str] = []
        answer.batches = self._batches(first, tags)
        answer.finish = lambda: tags[-1] if tags else ""

    def _batches(self, result: Any, tags: list[str]) -> Iterator[list[Row]]:
        """Rows as they come: a batch ends when no more is there at once, or it is large."""
        pq = self._pq
        batch: list[Row] = []
        while result is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                if batch:
                    yield batch
                self._fail(result)
            for row in range(result.ntuples):
                batch.append(
                    tuple(
                        None if (value := result.get_value(row, i)) is None else _text(value)
                        for i in range(result.nfields)
                    )
                )
            if result.status == pq.ExecStatus.TUPLES_OK:
                tags.append(_text(result.command_status))
            if len(batch) >= _ROWS_PER_BATCH or (batch and self._conn.is_busy()):
                yield batch
                batch = []
            result = self._next()
        if batch:
            yield batch

    def _next(self) -> Any:
        """The next result, None after the last. Waits in short steps, so that Ctrl-C is heard."""
        try:
            while self._conn.is_busy():
                readable, _, _ = select.select([self._conn.socket], [], [], _WAIT_SECONDS)
                if readable:
                    self._conn.consume_input()
            return self._conn.get_result()
        except (OSError, ValueError, self._error) as error:
            raise ConnectionLost(str(error)) from None

    @property
    def _error(self) -> type[Exception]:
        import psycopg

        return psycopg.Error

    def _drain(self) -> None:
        """Take all results that are left; the first error among them is raised."""
        while (result := self._next()) is not None:
            if result.status == self._pq.ExecStatus.FATAL_ERROR:
                self._fail(result)
            if result.status == self._pq.ExecStatus.COPY_IN:
                self._conn.put_copy_end(b"not expected")

    def _fail(self, result: Any) -> None:
        """Raise what an error result says. Raises: StatementFailed, ConnectionLost."""
        field = self._pq.DiagnosticField
        message = _diagnostic(result, field.MESSAGE_PRIMARY)
        with contextlib.suppress(Exception):
            while self._next() is not None:
                pass
        if message is None or self._conn.status != self._pq.ConnStatus.OK:
            raise ConnectionLost(message or _clean(self._conn.error_message))
        position = _diagnostic(result, field.STATEMENT_POSITION)
        raise StatementFailed(
            message,
            sqlstate=_diagnostic(result, field.SQLSTATE) or "XX000",
            severity=_diagnostic(result, field.SEVERITY) or "ERROR",
            position=int(position) - 1 if position else None,
            detail=_diagnostic(result, field.MESSAGE_DETAIL),
            hint=_diagnostic(result, field.MESSAGE_HINT),
        )

    def _copy_out(self) -> Iterator[bytes]:
        while True:
            size, data = self._conn.get_copy_data(0)
            if size <= 0:
                break
            yield bytes(data)
        self._drain()

    # the rest ---------------------------------------------------------------------------------
    def cancel(self) -> None:
        with contextlib.suppress(Exception):
            self._conn.get_cancel().cancel()

    def second(self) -> ConnectedBackend:
        return ConnectedBackend(self._dsn)

    @property
    def status(self) -> str:
        status = self._pq.TransactionStatus(self._conn.transaction_status)
        return {"INTRANS": "T", "INERROR": "E"}.get(status.name, "I")

    @property
    def database(self) -> str:
        return _text(self._conn.db)

    def describe(self) -> str:
        version = self._conn.parameter_status(b"server_version")
        return (
            f'You are connected to database "{self.database}" as user "{_text(self._conn.user)}"'
            f' on host "{_text(self._conn.host)}" at port "{_text(self._conn.port)}"'
            f" (server {_text(version) if version else 'of unknown version'})."
        )

    def close(self) -> None:
        self._conn.finish()


class _ConnectedCopy(CopyInput):
    def __init__(self, backend: ConnectedBackend) -> None:
        self._backend = backend

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), _COPY_CHUNK):
            self._backend._conn.put_copy_data(data[start : start + _COPY_CHUNK])

    def finish(self) -> str:
        self._backend._conn.put_copy_end()
        result = self._backend._next()
        if result is not None and result.status == self._backend._pq.ExecStatus.FATAL_ERROR:
            self._backend._fail(result)
        tag = _text(result.command_status) if result is not None else "COPY"
        self._backend._drain()
        return tag

    def fail(self, reason: str) -> None:
        self._backend._conn.put_copy_end(reason.encode())
        with contextlib.suppress(StatementFailed):
            self._backend._drain()


def _row_statuses(pq: Any) -> tuple[Any, ...]:
    return (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.SINGLE_TUPLE)


def _diagnostic(result: Any, field: Any) -> str | None:
    value = result.error_field(field)
    return None if value is None else _text(value)


def _text(value: bytes | memoryview | None) -> str:
    return "" if value is None else bytes(value).decode("utf-8", "replace")


def _clean(message: bytes) -> str:
    return message.decode("utf-8", "replace").strip()
