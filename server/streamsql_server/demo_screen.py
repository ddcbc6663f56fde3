"""What the demo draws: a table that is redrawn in place, or lines when nobody looks."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

BUSY_AFTER_SECONDS = 1.0
_UP, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[{}A", "\x1b[2K", "\x1b[J"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Screen:
    """A title and a table. On a terminal each `show` replaces the one before; elsewhere it prints
    one line (title and first row), so that logs stay readable."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.redraws = out.isatty()
        self._height = 0

    def show(self, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Draw. Rows have as many cells as there are headings; the first one is text, the others
        are numbers."""
        if not self.redraws:
            first = f" · {' '.join(rows[0])}" if rows else ""
            self._out.write(f"{title}{first}\n")
            self._out.flush()
            return
        width, height = shutil.get_terminal_size((80, 24))
        # a line above the window's top can't be reached again: it would stay there
        lines = [title, "", *table_lines(headings, rows)][: max(height - 1, 1)]
        text = _HIDE_CURSOR + (_UP.format(self._height) if self._height else "")
        for line in lines:
            text += f"{_CLEAR_LINE}{line[: width - 1]}\n"
        self._out.write(text + _CLEAR_BELOW)
        self._out.flush()
        self._height = len(lines)

    def end(self) -> None:
        """Give the cursor back."""
        if self.redraws and self._height:
            self._out.write(_SHOW_CURSOR)
            self._out.flush()


def table_lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The aligned lines of a table.

    >>> table_lines(("who", "n"), [("Ann", "7"), ("Bobby", "12")])
    ['who     n', '-----  --', 'Ann     7', 'Bobby  12']
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        others = [c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([first, *others])

    return [line(headings), "  ".join("-" * w for w in widths), *map(line, rows)]


@contextlib.contextmanager
def busy(what: str, out: TextIO) -> Iterator[None]:
    """Says what takes longer than a second, and for how long by now."""
    done = threading.Event()
    began = time.monotonic()

    def watch() -> None:
        shown = False
        while not done.wait(BUSY_AFTER_SECONDS if not shown or out.isatty() else 5.0):
            lead = "\r" if out.isatty() else ""
            tail = "" if out.isatty() else "\n"
            out.write(f"{lead}{what} … {time.monotonic() - began:.0f} s{tail}")
            out.flush()
            shown = True
        if shown and out.isatty():
            out.write("\n")
            out.flush()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
