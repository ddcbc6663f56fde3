"""A database in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from streamsql_repl.answer import Answer, Backend, Column, CopyInput, Message, Row, StatementFailed


class EmbeddedBackend(Backend):
    """One session of a database in this process.

    path: data directory, or ":memory:". The database is opened by the first who needs it (a
    script's first statement, or completion's thread), so that the prompt is there at once.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._database: Any = None
        self._session: Any = None
        self._failure: Exception | None = None
        self._owner = True
        self._opening = threading.Lock()

    def _open(self) -> None:
        try:
            import streamsql

            self._database = streamsql.connect(self.path)
            self._session = self._database.session()
        except Exception as error:
            self._failure = error

    def wait_open(self) -> Any:
        """The session, once it is there. Raises: StatementFailed if it can't be opened."""
        with self._opening:
            if self._session is None and self._failure is None:
                self._open()
        if self._failure is not None:
            raise _failed(self._failure, 0)
        return self._session

    def run(self, sql: str) -> Answer:
        session = self.wait_open()
        offset = 0
        try:
            statements = session.parse(sql)
            statement = statements[0]
            offset = statement.position
            outcome = session.run(statement)
        except Exception as error:
            raise _failed(error, offset) from error
        return self._answer(outcome, offset)

    def _answer(self, outcome: Any, offset: int) -> Answer:
        if isinstance(outcome, tuple):
            options, result = outcome
            return Answer(messages=_messages(result), copy_out=self._copy_out(options, result))
        from streamsql.engine.api import Result

        if not isinstance(outcome, Result):
            return Answer(copy_in=_EmbeddedCopy(outcome))
        answer = Answer(tag=outcome.tag, messages=_messages(outcome), streaming=outcome.streaming)
        if outcome.columns is not None:
            answer.columns = tuple(Column(c.name, c.type.is_numeric) for c in outcome.columns)
            counter = _Counter(outcome.tag)
            answer.batches = self._rows(outcome, offset, counter)
            answer.finish = counter.tag
        return answer

    def _rows(self, result: Any, offset: int, counter: _Counter) -> Iterator[list[Row]]:
        zone = self._session.parameters.get("TimeZone", "UTC")
        try:
            for arrays in result.texts(zone):
                columns = [array.to_pylist() for array in arrays]
                rows = list(zip(*columns, strict=True))
                counter.rows += len(rows)
                yield rows
        except Exception as error:
            raise _failed(error, offset) from error

    def _copy_out(self, options: Any, result: Any) -> Iterator[bytes]:
        from streamsql_repl.copying import encode

        if options.format == "binary":
            raise StatementFailed(
                "COPY in binary format is not for a terminal",
                sqlstate="0A000",
                hint="Use FORMAT text or csv.",
            )
        names = [column.name for column in result.columns]
        yield from encode(options, names, self._rows(result, 0, _Counter("COPY")))

    def cancel(self) -> None:
        if self._session is not None:
            self._session.cancel()

    def second(self) -> EmbeddedBackend:
        self.wait_open()
        other = object.__new__(EmbeddedBackend)
        other.path = self.path
        other._database = self._database
        other._session = self._database.session()
        other._failure = None
        other._owner = False
        other._opening = self._opening
        return other

    @property
    def status(self) -> str:
        status: str = "I" if self._session is None else self._session.transaction_status
        return status

    def describe(self) -> str:
        if self.path == ":memory:":
            return "You are using a database in this process, in memory: nothing is kept."
        return f'You are using the database in "{self.path}", in this process.'

    def close(self) -> None:
        with self._opening:
            if self._session is not None:
                self._session.close()
            if self._owner and self._database is not None:
                self._database.close()


class _Counter:
    """Counts the rows that were handed out, for the tag."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self.rows = 0

    def tag(self) -> str:
        word = self._tag.split()[0] if self._tag else ""
        if word == "INSERT":
            return self._tag if len(self._tag.split()) > 1 else f"INSERT 0 {self.rows}"
        return f"{self._tag} {self.rows}" if self._tag == word else self._tag


class _EmbeddedCopy(CopyInput):
    def __init__(self, copy: Any) -> None:
        self._copy = copy

    def write(self, data: bytes) -> None:
        try:
            self._copy.write(data)
        except Exception as error:
            raise _failed(error, 0) from error

    def finish(self) -> str:
        try:
            tag: str = self._copy.finish().tag
        except Exception as error:
            raise _failed(error, 0) from error
        return tag

    def fail(self, reason: str) -> None:
        self._copy.fail(reason)


def _messages(result: Any) -> list[Message]:
    return [Message(n.severity, n.message, None, n.hint) for n in result.notices]


def _failed(error: BaseException, offset: int) -> StatementFailed:
    """Any exception of the engine as a failed statement; positions of bound errors are relative to
    the statement, which may start after blanks and comments."""
    if isinstance(error, StatementFailed):
        return error
    sqlstate = getattr(error, "sqlstate", None)
    if sqlstate is None:
        return StatementFailed(f"{type(error).__name__}: {error}", severity="PANIC")
    position = getattr(error, "position", None)
    return StatementFailed(
        str(error),
        sqlstate=sqlstate,
        position=None if position is None else position + offset,
        detail=getattr(error, "detail", None),
        hint=getattr(error, "hint", None),
    )
