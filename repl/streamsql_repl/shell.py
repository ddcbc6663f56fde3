"""The REPL without a terminal: takes lines, runs statements and commands, writes to a screen."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator

from streamsql_repl.answer import (
    Answer,
    Backend,
    ConnectionLost,
    Row,
    StatementFailed,
)
from streamsql_repl.errors import error_lines, message_lines
from streamsql_repl.interrupt import interruptible
from streamsql_repl.screen import Screen
from streamsql_repl.settings import Settings
from streamsql_repl.splitter import Piece, split
from streamsql_repl.table import (
    Layout,
    expanded_lines,
    footer,
    header_lines,
    layout_of,
    row_lines,
)

_FIRST_ROWS = 1000
"""Rows looked at for the widths of the columns."""
_DDL_WORDS = ("CREATE", "DROP", "ALTER")
_DML_WORDS = ("INSERT", "UPDATE", "DELETE", "MERGE")


class Quit(Exception):
    """\\q."""


class Shell:
    """State of one REPL: backend, settings, the input that is not complete yet, the last statement.

    interactive: a person types; only then are results cut at `row_limit`. on_change: called when
    the catalog may have changed (completion listens).
    """

    def __init__(
        self,
        backend: Backend,
        screen: Screen | None = None,
        *,
        interactive: bool = False,
        settings: Settings | None = None,
    ) -> None:
        self.backend = backend
        self.screen = screen or Screen()
        self.interactive = interactive
        self.settings = settings or Settings()
        self.buffer = ""
        self.last_statement = ""
        self.failed = False
        self.on_change: list[Callable[[], None]] = []
        self._lines: Iterator[str] = iter(())
        self.read_data_line: Callable[[], str | None] | None = None

    # input ------------------------------------------------------------------------------------
    def run_lines(self, lines: Iterable[str]) -> bool:
        """Run a script; True if all went well. Lines keep their line ends.

        A last statement without semicolon is run as well. Stops at the first error if
        `settings.stop_on_error`. Raises: Quit, ConnectionLost.
        """
        outer, self._lines = self._lines, iter(lines)
        kept, self.buffer = self.buffer, ""
        went_well = True
        try:
            for line in self._lines:
                self.buffer += line
                if ";" in line or "\\" in line:
                    went_well &= self.consume()
                    if not went_well and self.settings.stop_on_error:
                        return False
            if self.buffer.strip():
                rest, self.buffer = self.buffer, ""
                went_well &= self.run_statement(rest.rstrip())
        finally:
            self._lines, self.buffer = outer, kept
        return went_well

    def feed(self, text: str) -> bool:
        """Run what a person typed; what is not complete stays in `buffer`."""
        self.buffer += text if text.endswith("\n") else text + "\n"
        return self.consume()

    def consume(self) -> bool:
        """Run all that is complete in the buffer; False if something failed."""
        went_well = True
        pieces = split(self.buffer)
        self.buffer = ""
        for index, piece in enumerate(pieces):
            following = pieces[index + 1] if index + 1 < len(pieces) else None
            if piece.kind == "rest" and (following is None or following.kind != "command"):
                self.buffer = piece.text
            elif piece.kind == "rest":
                self.buffer = piece.text  # the command right behind it takes it, or leaves it
            elif piece.kind == "statement":
                went_well &= self.run_statement(piece.text)
            else:
                went_well &= self.run_command(piece)
            if not went_well and self.settings.stop_on_error:
                break
        return went_well

    def pending(self) -> str:
        """What is open at the end of the buffer, for the prompt ("" if nothing)."""
        pieces = split(self.buffer)
        return pieces[-1].state if pieces and pieces[-1].kind == "rest" else ""

    def take_query(self) -> str:
        """The SQL before a command on its line, or the last statement."""
        query, self.buffer = self.buffer.strip(), ""
        if query:
            self.last_statement = query
        return query or self.last_statement

    def data_lines(self) -> Iterator[str]:
        """Lines of COPY data up to `\\.`, from the script or from the person."""
        while True:
            line = self.read_data_line() if self.read_data_line else next(self._lines, None)
            if line is None or line.rstrip("\r\n") == "\\.":
                return
            yield line if line.endswith("\n") else line + "\n"

    # commands ---------------------------------------------------------------------------------
    def run_command(self, piece: Piece) -> bool:
        """Run a backslash command; False if it failed."""
        from streamsql_repl.commands import CommandFailed, dispatch

        try:
            dispatch(self, piece.text)
        except CommandFailed as error:
            self.screen.message(str(error), "error")
            self.failed = True
            return False
        except StatementFailed as error:
            self.report(error, "")
            return False
        return True

    # statements -------------------------------------------------------------------------------
    def run_statement(self, sql: str) -> bool:
        """Run one statement and show its outcome; False if it failed. Ctrl-C cancels it."""
        sql = sql.strip()
        if not sql:
            return True
        self.last_statement = sql
        started = time.perf_counter()
        try:
            tag = interruptible(lambda: self.show(self.backend.run(sql)), self.backend.cancel)
        except StatementFailed as error:
            self.report(error, sql)
            return False
        finally:
            if self.settings.timing:
                elapsed = (time.perf_counter() - started) * 1000
                self.screen.note(f"Time: {elapsed:.3f} ms")
            self.screen.flush()
        if tag.startswith(_DDL_WORDS):
            for listener in self.on_change:
                listener()
        return True

    def report(self, error: StatementFailed, sql: str) -> None:
        """Show a failed statement as PostgreSQL's clients do."""
        self.failed = True
        lines = error_lines(error, sql, verbose=self.settings.verbose)
        self.screen.message("\n".join(lines), "error")

    def show(self, answer: Answer) -> str:
        """Print an answer; its tag. Raises: StatementFailed while rows are read."""
        for message in answer.messages:
            style = "warning" if message.severity == "WARNING" else "dim"
            self.screen.message("\n".join(message_lines(message)), style)
        if answer.copy_in is not None:
            return self._copy_in(answer)
        if answer.copy_out is not None:
            for data in answer.copy_out:
                self.screen.raw(data)
            return "COPY"
        if answer.columns is None:
            if answer.tag:
                self.screen.note(answer.tag)
            return answer.tag
        self.show_rows(answer)
        tag = answer.finish() if answer.finish is not None else answer.tag
        if tag.startswith(_DML_WORDS):  # RETURNING
            self.screen.note(tag)
        return tag

    def _copy_in(self, answer: Answer) -> str:
        copy = answer.copy_in
        assert copy is not None
        try:
            for line in self.data_lines():
                copy.write(line.encode())
        except StatementFailed:
            for _ in self.data_lines():  # the rest of the data is no SQL
                pass
            raise
        except BaseException:
            copy.fail("canceled by user")
            raise
        tag = copy.finish()
        self.screen.note(tag)
        return tag

    # rows -------------------------------------------------------------------------------------
    def show_rows(self, answer: Answer) -> int:
        """Print the rows of an answer; how many there were."""
        assert answer.columns is not None
        if answer.streaming:
            return self._show_stream(answer)
        limit = self.settings.row_limit if self.interactive else 0
        batches = iter(answer.batches)
        first: list[Row] = []
        for batch in batches:
            first.extend(batch)
            if len(first) >= _FIRST_ROWS:
                break
        layout = self._layout(answer, first)
        if layout is not None:
            for line in header_lines(layout):
                self.screen.line(line)
        count = shown = 0
        for batch in itertools.chain([first], batches):
            part = batch if not limit else batch[: max(0, limit - shown)]
            self._print(answer, layout, part, shown + 1)
            shown += len(part)
            count += len(batch)
        if layout is not None or count == 0:
            self.screen.line(footer(count))
        if shown < count:
            self.screen.note(f"The first {shown} of them are shown; \\limit 0 shows all.")
        return count

    def _layout(self, answer: Answer, rows: list[Row]) -> Layout | None:
        """How to show these rows; None = expanded."""
        assert answer.columns is not None
        if self.settings.expanded == "on" and rows:
            return None
        width = self.screen.width
        layout = layout_of(answer.columns, rows, width)
        if layout is None and self.settings.expanded == "off":
            layout = layout_of(answer.columns, rows, None)
        return layout

    def _print(self, answer: Answer, layout: Layout | None, rows: list[Row], first: int) -> None:
        assert answer.columns is not None
        if layout is None:
            lines = expanded_lines(answer.columns, rows, first, self.screen.width)
        else:
            lines = row_lines(layout, rows)
        for line in lines:
            self.screen.line(line)

    def _show_stream(self, answer: Answer) -> int:
        """Rows of a SUBSCRIBE, as they come, until Ctrl-C."""
        assert answer.columns is not None
        layout: Layout | None = None
        count = 0
        for batch in answer.batches:
            if not batch:
                continue
            if layout is None:
                layout = layout_of(answer.columns, batch, self.screen.width)
                layout = layout or layout_of(answer.columns, batch, None)
                assert layout is not None
                for line in header_lines(layout):
                    self.screen.line(line)
            for line in row_lines(layout, batch):
                self.screen.line(line)
            self.screen.flush()
            count += len(batch)
        return count


__all__ = ["ConnectionLost", "Quit", "Shell"]
