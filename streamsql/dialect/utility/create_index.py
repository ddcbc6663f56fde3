"""CREATE INDEX."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import CreateIndex, Statement


def parse_create_index(parser: Parser, *, unique: bool = False) -> Statement:
    """After CREATE [UNIQUE] INDEX: [CONCURRENTLY] [i] ON r [USING m] (expr …, …) [INCLUDE (…)]."""
    parser.accept("CONCURRENTLY")
    if_not_exists = parser.exists_flag(negated=True)
    unnamed = parser.at("ON") or parser.at_sequence("IN", "CLUSTER")
    name = None if unnamed else parser.object_name()
    if parser.at_sequence("IN", "CLUSTER"):
        token = parser.token
        parser.accept_sequence("IN", "CLUSTER")
        parser.ignores(f'IN CLUSTER "{parser.label()}" has no effect: there is one engine', token)
    parser.expect("ON")
    parser.accept("ONLY")
    table = parser.object_name()
    if parser.accept("USING"):
        _method(parser)
    keys = parser.in_parentheses(lambda: parser.comma_list(lambda: _key(parser)))
    expressions, directions = zip(*keys, strict=True)
    if len(set(directions)) > 1 or any(down != first for down, first in directions):
        parser.notices.append("the direction of a key has no effect: an index is read both ways")
    include = parser.name_list() if parser.accept("INCLUDE") else ()
    if include:
        parser.notices.append("INCLUDE has no effect: an index finds whole rows")
    if parser.accept_sequence("DISTRIBUTED", "BY"):
        parser.in_parentheses(lambda: parser.comma_list(parser.expression))
        parser.notices.append("DISTRIBUTED BY has no effect on one machine")
    if parser.with_options():
        parser.notices.append("the options of an index have no effect")
    if parser.at("WHERE"):
        raise parser.not_supported(
            "a partial index", "Create a view with the WHERE and index that."
        )
    return CreateIndex(
        name=name,
        table=table,
        expressions=expressions,
        unique=unique,
        if_not_exists=if_not_exists,
        include=include,
    )


def _method(parser: Parser) -> None:
    token = parser.token
    if parser.name() not in ("btree", "hash"):
        raise parser.not_supported(
            f"access method {token.value}", "Leave USING out: an index keeps its keys in order."
        )


def _key(parser: Parser) -> tuple[exp.Expression, tuple[bool, bool]]:
    """An index key and (descending, NULLs first); operator classes mean nothing."""
    expression = parser.climb_sum()
    if parser.at_name() and not parser.at("ASC", "DESC", "NULLS"):
        parser.qualified_name()
    descending = parser.at("DESC")
    parser.accept("ASC", "DESC")
    first = descending
    if parser.accept("NULLS"):
        first = parser.at("FIRST")
        if not parser.accept("FIRST", "LAST"):
            raise parser.error()
    return expression, (descending, first)
