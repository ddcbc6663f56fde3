"""UPDATE."""

from __future__ import annotations

from sqlglot import exp

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement, Update
from streamsql.dialect.utility.ctes import place_ctes
from streamsql.dialect.utility.insert import assignments, returning


def parse_update(parser: Parser, with_: exp.With | None = None) -> Statement:
    """UPDATE [ONLY] t [[AS] a] SET … [FROM …] [WHERE …] [RETURNING …].

    with_: CTEs that stood before UPDATE.
    """
    parser.expect("UPDATE")
    table, alias = target(parser)
    parser.expect("SET")
    changed = assignments(parser)
    from_ = parser.from_list() if parser.accept("FROM") else []
    condition = where(parser)
    return Update(
        table=table,
        alias=alias,
        assignments=tuple((name, place_ctes(value, with_)) for name, value in changed),
        from_=tuple(place_ctes(relation, with_) for relation in from_),
        where=None if condition is None else place_ctes(condition, with_),
        returning=tuple(place_ctes(item, with_) for item in returning(parser)),
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
