"""What a backend gives back for one statement, free of where it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Row = tuple[str | None, ...]
"""One row as PostgreSQL's output text; None is NULL."""


@dataclass(frozen=True)
class Column:
    """A result column. numeric: shown right-aligned."""

    name: str
    numeric: bool = False


@dataclass(frozen=True)
class Message:
    """A NOTICE or WARNING."""

    severity: str
    text: str
    detail: str | None = None
    hint: str | None = None


@dataclass
class Answer:
    """The outcome of one statement.

    tag: complete command tag, known once the rows are read (`finish`). columns: None for a
    statement without rows. batches: rows in lists, read once; may block when `streaming`, and an
    empty list is a heartbeat. copy_in: takes the data of COPY … FROM STDIN. copy_out: the data of
    COPY … TO STDOUT.
    """

    tag: str = ""
    columns: tuple[Column, ...] | None = None
    batches: Iterator[list[Row]] = field(default_factory=lambda: iter(()))
    messages: list[Message] = field(default_factory=list)
    streaming: bool = False
    copy_in: CopyInput | None = None
    copy_out: Iterator[bytes] | None = None
    finish: Callable[[], str] | None = None


class CopyInput:
    """Takes the data of a COPY … FROM STDIN."""

    def write(self, data: bytes) -> None:
        """Hand over some data."""
        raise NotImplementedError

    def finish(self) -> str:
        """All is handed over; the command tag."""
        raise NotImplementedError

    def fail(self, reason: str) -> None:
        """Give up; nothing is kept."""
        raise NotImplementedError


class StatementFailed(Exception):
    """A statement failed. position: 0-based offset in the statement's text, or None."""

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str = "XX000",
        severity: str = "ERROR",
        position: int | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate
        self.severity = severity
        self.position = position
        self.detail = detail
        self.hint = hint


class ConnectionLost(Exception):
    """The server is gone; no statement can run any more."""


class Backend:
    """Where statements run: a database in this process, or a server.

    One thread at a time runs statements; `cancel` is called from another.
    """

    def run(self, sql: str) -> Answer:
        """Run one statement. Raises: StatementFailed, ConnectionLost."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Stop what runs now."""
        raise NotImplementedError

    def second(self) -> Backend:
        """Another session on the same database (for completion and live views)."""
        raise NotImplementedError

    @property
    def status(self) -> str:
        """I idle, T in a transaction, E in a failed one."""
        raise NotImplementedError

    def describe(self) -> str:
        """One line for \\conninfo."""
        raise NotImplementedError

    @property
    def database(self) -> str:
        """The name the prompt shows."""
        return "streamsql"

    def close(self) -> None:
        """End the session."""
        raise NotImplementedError
