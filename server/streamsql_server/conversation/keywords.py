"""What little of a statement's text the protocol itself must know: how it begins."""

from __future__ import annotations

import re
from functools import lru_cache

_SKIP = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*", re.DOTALL)
_WORD = re.compile(r"\s*([A-Za-z_]\w*|\"(?:[^\"]|\"\")*\"|;|\S)")

REMEMBERED_MAX = 2000
"""Characters of a text up to which its first words are remembered: the same ones come again."""

BEGIN = frozenset({"BEGIN", "START"})
COMMIT = frozenset({"COMMIT", "END"})
ROLLBACK = frozenset({"ROLLBACK", "ABORT"})


def first_words(sql: str, count: int) -> list[str]:
    """The first words after blanks and comments; keywords in upper case, quoted names as they are.

    >>> first_words("/* x */ deallocate prepare \\"a\\"", 3)
    ['DEALLOCATE', 'PREPARE', '"a"']
    """
    if len(sql) <= REMEMBERED_MAX:
        return list(_remembered_words(sql, count))
    return _first_words(sql, count)


@lru_cache(maxsize=512)
def _remembered_words(sql: str, count: int) -> tuple[str, ...]:
    return tuple(_first_words(sql, count))


def _first_words(sql: str, count: int) -> list[str]:
    skipped = _SKIP.match(sql)
    words: list[str] = []
    at = skipped.end() if skipped else 0
    while len(words) < count:
        found = _WORD.match(sql, at)
        if found is None or found[1] == ";":
            break
        word = found[1]
        words.append(word if word.startswith('"') else word.upper())
        at = found.end()
    return words


def transaction_word(sql: str) -> str | None:
    """BEGIN, COMMIT or ROLLBACK for the statements that open and end a transaction."""
    words = first_words(sql, 3)
    if not words:
        return None
    if words[0] in BEGIN:
        return "BEGIN"
    if words[0] in COMMIT and words[1:2] != ["PREPARED"]:
        return "COMMIT"
    if words[0] in ROLLBACK and "TO" not in words[1:] and words[1:2] != ["PREPARED"]:
        return "ROLLBACK"
    return None


def deallocated_name(sql: str) -> str | None:
    """The statement that DEALLOCATE names ("" for ALL); None for any other text."""
    words = first_words(sql, 3)
    if not words or words[0] != "DEALLOCATE":
        return None
    rest = words[1:]
    if len(rest) == 2 and rest[0] == "PREPARE":
        rest = rest[1:]
    if len(rest) != 1:
        return None
    if rest[0].startswith('"'):
        return rest[0][1:-1].replace('""', '"')
    return "" if rest[0] == "ALL" else rest[0].lower()


def is_discard_all(sql: str) -> bool:
    """DISCARD ALL."""
    return first_words(sql, 2) == ["DISCARD", "ALL"]


def is_close_all(sql: str) -> bool:
    """CLOSE ALL."""
    return first_words(sql, 2) == ["CLOSE", "ALL"]
