"""Where output goes: the terminal, a pipe, a file of \\o, or a list in tests."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO


class Screen:
    """Results and messages.

    out: results; err: errors and notices. colour: ANSI colours may be used. width: columns, None =
    no limit. `redirect` sends results (not messages) to a file.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        colour: bool = False,
        fixed_width: int | None = None,
        fit: bool = False,
    ) -> None:
        self.out = out if out is not None else sys.stdout
        self.err = err if err is not None else sys.stderr
        self.colour = colour
        self._fixed_width = fixed_width
        self._fit = fit
        self._file: TextIO | None = None

    @property
    def width(self) -> int | None:
        """Columns that tables may take; None where nothing needs to fit."""
        if self._file is not None:
            return None
        if self._fixed_width is not None:
            return self._fixed_width
        return shutil.get_terminal_size().columns if self._fit else None

    @property
    def height(self) -> int:
        """Lines of the terminal."""
        return shutil.get_terminal_size().lines

    def redirect(self, file: TextIO | None) -> None:
        """Send results to `file` from now on; None = back to the screen."""
        if self._file is not None:
            self._file.close()
        self._file = file

    def line(self, text: str = "") -> None:
        """A line of a result."""
        target = self._file or self.out
        target.write(text + "\n")

    def raw(self, data: bytes) -> None:
        """Data of a COPY."""
        target = self._file or self.out
        target.write(data.decode("utf-8", "replace"))

    def note(self, text: str) -> None:
        """A line that is no result (a command's answer, timing): never goes to \\o's file."""
        self.out.write(text + "\n")

    def message(self, text: str, style: str = "") -> None:
        """An error or notice. style: error, warning or "" (dim notices)."""
        self.out.flush()
        self.err.write(self.paint(text, style) + "\n")
        self.err.flush()

    def paint(self, text: str, style: str) -> str:
        """The text in a style, if colours may be used."""
        code = _CODES.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code else text

    def flush(self) -> None:
        """All that was written is to be seen."""
        (self._file or self.out).flush()


_CODES = {"error": "31", "warning": "33", "dim": "2", "new": "32", "changed": "33", "title": "1"}
