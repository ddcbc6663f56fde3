"""VERIFY MATERIALIZED VIEW and TRANSLATE."""

from __future__ import annotations

from streamsql.core.errors import InvalidParameterValue
from streamsql.dialect.dialects import dialect_named
from streamsql.dialect.hints import alone
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement, Translate, Verify


def parse_verify(parser: Parser) -> Statement:
    """VERIFY MATERIALIZED VIEW v."""
    parser.expect("VERIFY")
    name = alone(parser)
    if name is not None:
        raise parser.error(hint=f"Write VERIFY MATERIALIZED VIEW {name}.")
    parser.expect("MATERIALIZED", "VIEW")
    return Verify(name=parser.object_name())


def parse_translate(parser: Parser) -> Statement:
    """TRANSLATE '<statements>' [FROM 'dialect']."""
    parser.expect("TRANSLATE")
    start = parser.token.start
    text = parser.string()
    if not parser.accept("FROM"):
        return Translate(text=text, start=start)
    token = parser.token
    try:
        name = dialect_named(parser.string() if parser.at_string() else parser.label())
    except InvalidParameterValue as error:
        raise error.at(token.start) from None
    return Translate(text=text, dialect=name, start=start)
