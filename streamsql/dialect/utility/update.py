"""UPDATE."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement, Update
from streamsql.dialect.utility.insert import assignments, returning


def parse_update(parser: Parser) -> Statement:
    """UPDATE [ONLY] t [[AS] a] SET … [FROM …] [WHERE …] [RETURNING …]."""
    parser.expect("UPDATE")
    table, alias = target(parser)
    parser.expect("SET")
    changed = assignments(parser)
    from_ = tuple(parser.from_list()) if parser.accept("FROM") else ()
    return Update(
        table=table,
        alias=alias,
        assignments=changed,
        from_=from_,
        where=where(parser),
        returning=returning(parser),
    )


def target(parser: Parser) -> tuple[tuple[str, ...], str | None]:
    """The table that is changed, with its alias."""
    parser.accept("ONLY")
    table = parser.object_name()
    parser.accept("*")
    alias = None
    if parser.accept("AS") or (parser.at_name() and not parser.at("SET")):
        alias = parser.name()
    return table, alias


def where(parser: Parser) -> exp.Expression | None:
    """[WHERE condition]."""
    if not parser.accept("WHERE"):
        return None
    if parser.at_sequence("CURRENT", "OF"):
        raise parser.not_supported("WHERE CURRENT OF", "Name the row by its primary key.")
    return parser.expression()
