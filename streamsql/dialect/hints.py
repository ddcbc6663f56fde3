"""A word of help where a statement starts with something that is nearly known."""

from __future__ import annotations

import difflib

from streamsql.dialect.grammar.cursor import Cursor
from streamsql.dialect.lexer import Kind

_ELSEWHERE = {
    "USE": "There is one database; SET search_path TO schema chooses the schema.",
    "PRAGMA": "Write SET name = value.",
    "UPSERT": "Write INSERT … ON CONFLICT (key) DO UPDATE SET ….",
    "REPLACE": "Write INSERT … ON CONFLICT (key) DO UPDATE SET ….",
    "PRINT": "Write SELECT … or SUBSCRIBE TO relation.",
    "FROM": "A query starts with SELECT.",
}


def near_miss(cursor: Cursor) -> str | None:
    """A hint for the token that starts no statement; None if nothing comes near."""
    token = cursor.token
    if token.kind is not Kind.WORD:
        return None
    if token.key in _ELSEWHERE:
        return _ELSEWHERE[token.key]
    from streamsql.dialect.registry import PARSERS

    close = difflib.get_close_matches(token.key, PARSERS, n=1, cutoff=0.7)
    return f"Perhaps you meant {close[0]}." if close else None


def alone(cursor: Cursor) -> str | None:
    """The name of a relation, as written, if nothing but it stands up to the end, with or without
    a word for its kind before it (`v`, `s.v`, `VIEW v`) where MATERIALIZED VIEW would have to."""
    if cursor.at_sequence("MATERIALIZED", "VIEW") or not cursor.at_name():
        return None
    first = 1 if cursor.at("VIEW", "SOURCE", "MATERIALIZED") else 0
    if first and cursor.peek().kind is Kind.END:
        first = 0
    last, ends = first, (Kind.WORD, Kind.QUOTED)
    while cursor.peek(last).kind in ends and cursor.peek(last + 1).key == ".":
        last += 2
    if cursor.peek(last).kind not in ends or cursor.peek(last + 1).kind is not Kind.END:
        return None
    return cursor.text[cursor.peek(first).start : cursor.peek(last).end]
