"""DELETE and TRUNCATE."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Delete, Statement, Truncate
from streamsql.dialect.utility.ctes import place_ctes
from streamsql.dialect.utility.insert import returning
from streamsql.dialect.utility.update import target, where


def parse_delete(parser: Parser, with_: exp.With | None = None) -> Statement:
    """DELETE FROM [ONLY] t [[AS] a] [USING …] [WHERE …] [RETURNING …].

    with_: CTEs that stood before DELETE.
    """
    parser.expect("DELETE", "FROM")
    table, alias = target(parser)
    using = parser.from_list() if parser.accept("USING") else []
    condition = where(parser)
    return Delete(
        table=table,
        alias=alias,
        using=tuple(place_ctes(relation, with_) for relation in using),
        where=None if condition is None else place_ctes(condition, with_),
        returning=tuple(place_ctes(item, with_) for item in returning(parser)),
    )


def parse_truncate(parser: Parser) -> Statement:
    """TRUNCATE [TABLE] [ONLY] t, … [RESTART | CONTINUE IDENTITY] [CASCADE | RESTRICT]."""
    parser.expect("TRUNCATE")
    parser.accept("TABLE")
    parser.accept("ONLY")
    tables = parser.comma_list(parser.object_name)
    if parser.accept("RESTART", "CONTINUE"):
        parser.expect("IDENTITY")
    parser.accept("CASCADE", "RESTRICT")
    return Truncate(tables=tuple(tables))
