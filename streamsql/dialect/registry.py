"""Which words start which statement: one line a statement, most special first."""

from __future__ import annotations

from collections.abc import Callable

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement
from streamsql.dialect.unsupported import OTHERS, refuse
from streamsql.dialect.utility.create import parse_create
from streamsql.dialect.utility.delete import parse_delete, parse_truncate
from streamsql.dialect.utility.insert import parse_insert
from streamsql.dialect.utility.queries import parse_query
from streamsql.dialect.utility.update import parse_update

StatementParser = Callable[[Parser], Statement]

STATEMENTS: tuple[tuple[str, StatementParser], ...] = (
    ("SELECT", parse_query),
    ("WITH", parse_query),
    ("VALUES", parse_query),
    ("TABLE", parse_query),
    ("(", parse_query),
    ("INSERT", parse_insert),
    ("UPDATE", parse_update),
    ("DELETE", parse_delete),
    ("TRUNCATE", parse_truncate),
    ("CREATE", parse_create),
    *((word, refuse) for word in OTHERS),
)


def _by_first_word() -> dict[str, tuple[tuple[tuple[str, ...], StatementParser], ...]]:
    found: dict[str, list[tuple[tuple[str, ...], StatementParser]]] = {}
    for text, parse_it in STATEMENTS:
        words = tuple(text.split())
        found.setdefault(words[0], []).append((words, parse_it))
    return {word: tuple(entries) for word, entries in found.items()}


PARSERS = _by_first_word()
"""First word -> its statements in the order of STATEMENTS."""
