"""Where statements end: a scanner that knows strings, quoted names, comments and parentheses.

It never fails: what is not closed is simply not complete yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PIECE = re.compile(
    r"""
    (?P<line>    --[^\n]* )
  | (?P<block>   /\* )
  | (?P<escape>  (?<![A-Za-z0-9_$])[eE]'(?:[^'\\]|\\.|'')*(?P<escape_end>')? )
  | (?P<string>  '[^']*(?P<string_end>')? )
  | (?P<name>    "[^"]*(?P<name_end>")? )
  | (?P<tick>    `[^`]*(?P<tick_end>`)? )
  | (?P<dollar>  (?<![A-Za-z0-9_$])\$(?:[A-Za-z_]\w*)?\$ )
  | (?P<open>    [(\[] )
  | (?P<close>   [)\]] )
  | (?P<end>     ; )
  | (?P<meta>    \\ )
  | (?P<other>   [^-/'"`$()\[\];\\eE]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Piece:
    """A part of the input.

    kind: "statement" (a text with its semicolon left out), "command" (a backslash command, its text
    without the backslash) or "rest" (not complete yet). start: offset in the input. state of a
    rest: what is open: "" nothing, "'" a string, '"' a name, "$" a dollar string, "*" a comment,
    "(" a parenthesis, "-" a statement that has begun.
    """

    kind: str
    text: str
    start: int
    state: str = ""


def split(text: str) -> list[Piece]:
    """Statements and commands of a text, and the rest that is not complete.

    A command ends at the end of its line; SQL before it on the line is a "rest" right before it
    (psql: `SELECT 1 \\watch 2` acts on that).

    >>> [(p.kind, p.text) for p in split("select ';' ; \\\\d t\\nselect")]
    [('statement', "select ';' "), ('command', 'd t'), ('rest', 'select')]
    """
    return _Scanner(text).run()


def is_complete(text: str) -> bool:
    """May this input be run as it is: nothing is left open at its end?"""
    pieces = split(text)
    return not pieces or pieces[-1].kind != "rest" or not pieces[-1].state


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces: list[Piece] = []
        self.start = 0
        self.depth = 0
        self.begun = False
        self.open = ""

    def run(self) -> list[Piece]:
        position = 0
        while position < len(self.text):
            found = _PIECE.match(self.text, position)
            assert found is not None
            kind = found.lastgroup or ""
            position = self.take(kind, found, position)
        if self.text[self.start :].strip():
            state = self.open or ("(" if self.depth else "-" if self.begun else "")
            self.pieces.append(Piece("rest", self.text[self.start :], self.start, state))
        return self.pieces

    def take(self, kind: str, found: re.Match[str], position: int) -> int:
        """Take one lexical piece; where the next begins."""
        end = found.end()
        if kind == "block":
            return self.comment(position)
        if kind == "dollar":
            return self.dollar(found.group(), position)
        if kind == "end" and self.depth <= 0:
            statement = self.text[self.start : position]
            if self.begun:
                self.pieces.append(Piece("statement", statement, self.start))
            self.restart(end)
        elif kind == "meta":
            return self.command(position)
        elif kind in ("escape", "string", "name", "tick"):
            self.begun = True
            if found.group(f"{kind}_end") is None:
                self.open = {"name": '"', "tick": "`"}.get(kind, "'")
        elif kind == "open":
            self.begun = True
            self.depth += 1
        elif kind == "close":
            self.begun = True
            self.depth -= 1
        elif kind == "other" and found.group().strip():
            self.begun = True
        return end

    def restart(self, position: int) -> None:
        self.start = position
        self.depth = 0
        self.begun = False

    def comment(self, start: int) -> int:
        depth = 0
        for edge in _EDGE.finditer(self.text, start):
            depth += 1 if edge.group() == "/*" else -1
            if depth == 0:
                return edge.end()
        self.open = "*"
        return len(self.text)

    def dollar(self, tag: str, start: int) -> int:
        self.begun = True
        end = self.text.find(tag, start + len(tag))
        if end < 0:
            self.open = "$"
            return len(self.text)
        return end + len(tag)

    def command(self, position: int) -> int:
        line_end = self.text.find("\n", position)
        end = len(self.text) if line_end < 0 else line_end
        before = self.text[self.start : position]
        if self.begun:
            self.pieces.append(Piece("rest", before, self.start, "-"))
        self.pieces.append(Piece("command", self.text[position + 1 : end].strip(), position))
        self.restart(end)
        return end
