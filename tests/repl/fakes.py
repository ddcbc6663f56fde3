"""A backend that answers from a list."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator

from streamsql_repl.answer import Answer, Backend, Column, CopyInput, Row, StatementFailed
from streamsql_repl.screen import Screen
from streamsql_repl.settings import Settings
from streamsql_repl.shell import Shell


def rows(names: str, *data: Row, numeric: str = "", tag: str = "") -> Answer:
    """An answer with columns named in `names` (those in `numeric` right-aligned)."""
    columns = tuple(Column(name, name in numeric.split()) for name in names.split())
    return Answer(
        columns=columns,
        batches=iter([list(data)]),
        finish=lambda: tag or f"SELECT {len(data)}",
    )


class RecordedCopy(CopyInput):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.data = b""
        self.failed: str | None = None

    def write(self, data: bytes) -> None:
        if b"bad" in data:
            raise StatementFailed("invalid input", sqlstate="22P02")
        self.data += data

    def finish(self) -> str:
        return "COPY " + str(self.data.count(b"\n"))

    def fail(self, reason: str) -> None:
        self.failed = reason


class FakeBackend(Backend):
    """answers: SQL -> an answer maker, or a failure to raise. What ran is in `ran`."""

    def __init__(
        self, answers: dict[str, Callable[[], Answer] | StatementFailed] | None = None
    ) -> None:
        self.answers = answers or {}
        self.ran: list[str] = []
        self.cancelled = threading.Event()
        self.copy = RecordedCopy()
        self.state = "I"
        self.closed = False

    def run(self, sql: str) -> Answer:
        self.ran.append(sql)
        answer = self.answers.get(sql)
        if isinstance(answer, StatementFailed):
            raise answer
        if answer is not None:
            return answer()
        if sql.upper().startswith("COPY") and "STDIN" in sql.upper():
            return Answer(copy_in=self.copy)
        if sql.upper().startswith("COPY"):
            return Answer(copy_out=iter([b"1,a\n", b"2,b\n"]))
        if sql == "hang":
            return Answer(columns=(Column("a"),), batches=self._hang(), streaming=True)
        return Answer(tag=sql.split()[0].upper())

    def _hang(self) -> Iterator[list[Row]]:
        yield [("1",)]
        self.cancelled.wait(5)
        raise StatementFailed("canceling statement due to user request", sqlstate="57014")

    def cancel(self) -> None:
        self.cancelled.set()

    def second(self) -> FakeBackend:
        return self

    @property
    def status(self) -> str:
        return self.state

    def describe(self) -> str:
        return "You are using a fake."

    def close(self) -> None:
        self.closed = True


def shell(
    backend: Backend, *, interactive: bool = False, width: int | None = None, **settings: object
) -> tuple[Shell, io.StringIO, io.StringIO]:
    """A shell that writes into two texts: results, messages."""
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err, fixed_width=width)
    return Shell(backend, screen, interactive=interactive, settings=Settings(**settings)), out, err  # type: ignore[arg-type]
