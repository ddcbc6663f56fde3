"""CREATE INDEX."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import CreateIndex, Statement


def parse_create_index(parser: Parser, *, unique: bool = False) -> Statement:
    """After CREATE [UNIQUE] INDEX: [CONCURRENTLY] [i] ON r [USING m] (expr …, …) [INCLUDE (…)]."""
    parser.accept("CONCURRENTLY")
    if_not_exists = parser.exists_flag(negated=True)
    name = None if parser.at("ON") else parser.object_name()
    parser.expect("ON")
    parser.accept("ONLY")
    table = parser.object_name()
    if parser.accept("USING"):
        parser.name()
    expressions = parser.in_parentheses(lambda: parser.comma_list(lambda: _key(parser)))
    include = parser.name_list() if parser.accept("INCLUDE") else ()
    if parser.accept_sequence("DISTRIBUTED", "BY"):
        parser.in_parentheses(lambda: parser.comma_list(parser.expression))
    parser.with_options()
    if parser.at("WHERE"):
        raise parser.not_supported(
            "a partial index", "Create a view with the WHERE and index that."
        )
    return CreateIndex(
        name=name,
        table=table,
        expressions=tuple(expressions),
        unique=unique,
        if_not_exists=if_not_exists,
        include=include,
    )


def _key(parser: Parser) -> exp.Expression:
    """An index key; direction, operator class and NULLS order mean nothing to a hash index."""
    expression = parser.climb_sum()
    if parser.at_name() and not parser.at("ASC", "DESC", "NULLS"):
        parser.qualified_name()
    parser.accept("ASC", "DESC")
    if parser.accept("NULLS") and not parser.accept("FIRST", "LAST"):
        raise parser.error()
    return expression
