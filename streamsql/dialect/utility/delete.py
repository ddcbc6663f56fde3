"""DELETE and TRUNCATE."""

from __future__ import annotations

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Delete, Statement, Truncate
from streamsql.dialect.utility.insert import returning
from streamsql.dialect.utility.update import target, where


def parse_delete(parser: Parser) -> Statement:
    """DELETE FROM [ONLY] t [[AS] a] [USING …] [WHERE …] [RETURNING …]."""
    parser.expect("DELETE", "FROM")
    table, alias = target(parser)
    using = tuple(parser.from_list()) if parser.accept("USING") else ()
    return Delete(
        table=table, alias=alias, using=using, where=where(parser), returning=returning(parser)
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
