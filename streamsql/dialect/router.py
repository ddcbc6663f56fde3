"""Text to statements: split it, look at the first words, hand each to the file that parses it."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from threading import Lock

from sqlglot import exp

from streamsql.core.collector import paused_for
from streamsql.core.errors import StatementError, StatementTooComplex, StreamSqlError
from streamsql.dialect.dialects import Difference
from streamsql.dialect.grammar.cursor import Cursor
from streamsql.dialect.hints import near_miss
from streamsql.dialect.lexer import Kind, Token, tokenize
from streamsql.dialect.parser import Parser
from streamsql.dialect.registry import PARSERS, StatementParser
from streamsql.dialect.statements import Empty, Statement

_CACHE_TEXT_MAX = 10_000
"""Texts longer than this (bulk INSERTs) are not kept: they don't come twice."""
_CACHE_CHARACTERS = 300_000
"""All texts that are kept; a tree takes some 160 bytes for each character of its text."""


def parse(sql: str, dialect: str = "streamsql") -> list[Statement]:
    """All statements of a text; [Empty] if it holds none.

    dialect: one of `dialects.DIALECTS`. All spellings are always understood; the name only decides
    where one text means two things.
    The trees in statements are shared between callers: copy before changing one.
    Raises: SqlSyntaxError and other StatementErrors, with the offset into `sql` as position.
    """
    key = (sql, dialect)
    with _lock:
        found = _cache.get(key)
        if found is not None:
            _cache.move_to_end(key)
            return list(found)
    with paused_for(sql):
        statements = _parse(sql, dialect)
    if len(sql) <= _CACHE_TEXT_MAX:
        with _lock:
            _keep(key, statements)
    return statements


_cache: OrderedDict[tuple[str, str], tuple[Statement, ...]] = OrderedDict()
_lock = Lock()
_kept_characters = 0


def _keep(key: tuple[str, str], statements: list[Statement]) -> None:
    """Put into the cache, and the oldest out of it. The lock is held."""
    global _kept_characters  # noqa: PLW0603
    if key in _cache:
        return
    _cache[key] = tuple(statements)
    _kept_characters += len(key[0])
    while _kept_characters > _CACHE_CHARACTERS:
        (text, _), _ = _cache.popitem(last=False)
        _kept_characters -= len(text)


def parse_expression(sql: str) -> exp.Expression:
    """One expression.

    Raises: SqlSyntaxError (42601).
    """
    parser = Parser.of(sql)
    node = parser.expression()
    parser.expect_end()
    return node


def parse_with_differences(sql: str, dialect: str) -> list[tuple[Statement, list[Difference]]]:
    """Like `parse`, each statement with what it means differently here than under `dialect`.

    Positions of differences are offsets into the whole text.
    """
    try:
        return [_parse_one(sql, tokens, dialect) for tokens in _split(tokenize(sql))]
    except RecursionError:
        raise StatementTooComplex(
            "statement is nested too deeply", hint="Break it up with WITH or views."
        ) from None


def _parse(sql: str, dialect: str) -> list[Statement]:
    found = [statement for statement, _ in parse_with_differences(sql, dialect)]
    return found or [Empty(sql=sql, position=0)]


def split(sql: str) -> list[tuple[int, str]]:
    """(offset, text) of each statement, whether it is right or not.

    What is not closed (a string, a comment) reaches to the end of the text.

    >>> split("SELECT 1; SELEC 2;; SELECT 'open")
    [(0, 'SELECT 1'), (10, 'SELEC 2'), (20, "SELECT 'open")]
    """
    try:
        tokens, open_from = tokenize(sql), len(sql)
    except StatementError as error:
        open_from = error.position or 0
        try:
            tokens = tokenize(sql[:open_from])
        except StatementError:
            return [(0, sql)]
    found = [(t[0].start, sql[t[0].start : t[-1].end]) for t in _split(tokens)]
    if open_from < len(sql):
        within = found and ";" not in (t.key for t in tokens if t.start >= found[-1][0])
        start = found.pop()[0] if within else open_from
        found.append((start, sql[start:]))
    return found


_STATEMENT_SET = ["EXECUTE", "STATEMENT", "SET", "BEGIN"]
"""Of Flink: what begins a transaction without a semicolon behind it."""


def _split(tokens: list[Token]) -> list[list[Token]]:
    """The tokens of each statement, without semicolons and END; empty ones left out."""
    found: list[list[Token]] = []
    current: list[Token] = []
    for token in tokens:
        if token.key == ";" or token.kind is Kind.END:
            if current:
                found.append(current)
            current = []
        else:
            current.append(token)
            if token.key == "BEGIN" and [t.key for t in current] == _STATEMENT_SET:
                found.append(current)
                current = []
    return found


def _parse_one(sql: str, tokens: list[Token], dialect: str) -> tuple[Statement, list[Difference]]:
    base, end = tokens[0].start, tokens[-1].end
    text = sql[base:end]
    if base:
        for token in tokens:
            token.start -= base
            token.end -= base
    tokens.append(Token(Kind.END, "", "", len(text), len(text)))
    parser = Parser(tokens, text, dialect)
    parser.base = base
    try:
        statement = parse_statement(parser)
        parser.expect_end()
    except StreamSqlError as error:
        if error.position is not None:
            error.position += base
        raise
    notices = (*statement.notices, *parser.notices)
    differences = [
        dataclasses.replace(d, position=d.position + base)
        for d in sorted(dict.fromkeys(parser.differences), key=lambda d: d.position)
    ]
    whole = dataclasses.replace(statement, sql=text, position=base, notices=notices)
    return whole, differences


def parse_statement(parser: Parser) -> Statement:
    """The statement that starts at the parser's token (a whole one, or that after EXPLAIN)."""
    found = _find(parser)
    if found is None:
        raise parser.error(hint=near_miss(parser))
    return found(parser)


def _find(parser: Cursor) -> StatementParser | None:
    """The parser registered for the longest run of first keywords."""
    for words, parse_it in PARSERS.get(parser.token.key, ()):
        if parser.at_sequence(*words):
            return parse_it
    return None
