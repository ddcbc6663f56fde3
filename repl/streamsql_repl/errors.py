"""A failed statement as PostgreSQL's clients print it: message, LINE n, caret, DETAIL, HINT."""

from __future__ import annotations

from streamsql_repl.answer import Message, StatementFailed
from streamsql_repl.width import width_of

_LINE_WIDTH = 60
"""Longer lines are cut round the position, as libpq does."""
_BEFORE = 40


def error_lines(error: StatementFailed, sql: str, *, verbose: bool = False) -> list[str]:
    """The lines to print. verbose: with the SQLSTATE, as psql's \\set VERBOSITY verbose."""
    code = f"{error.sqlstate}: " if verbose else ""
    lines = [f"{error.severity}:  {code}{error.message}"]
    if error.position is not None:
        lines += position_lines(sql, error.position)
    lines += _more(error.detail, error.hint)
    return lines


def message_lines(message: Message) -> list[str]:
    """A notice or warning."""
    return [f"{message.severity}:  {message.text}", *_more(message.detail, message.hint)]


def position_lines(sql: str, position: int) -> list[str]:
    """`LINE n: text` and a caret under the position (0-based).

    >>> position_lines("select *\\nfrom nope", 14)
    ['LINE 2: from nope', '             ^']
    """
    position = max(0, min(position, len(sql)))
    number = sql.count("\n", 0, position) + 1
    start = sql.rfind("\n", 0, position) + 1
    end = sql.find("\n", position)
    line = (sql[start:] if end < 0 else sql[start:end]).replace("\t", " ").rstrip("\r")
    column = position - start
    head = f"LINE {number}: "
    if len(line) > _LINE_WIDTH:
        first = max(0, min(column - _BEFORE, len(line) - _LINE_WIDTH))
        last = first + _LINE_WIDTH
        cut = line[first:last]
        if last < len(line):
            cut += "..."
        if first:
            cut = "..." + cut
            column += 3
        line, column = cut, column - first
    return [head + line, " " * (len(head) + width_of(line[:column])) + "^"]


def _more(detail: str | None, hint: str | None) -> list[str]:
    lines = []
    if detail:
        lines.append(f"DETAIL:  {detail}")
    if hint:
        lines.append(f"HINT:  {hint}")
    return lines
