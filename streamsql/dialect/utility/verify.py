"""VERIFY MATERIALIZED VIEW and TRANSLATE."""

from __future__ import annotations

from streamsql.core.errors import InvalidParameterValue
from streamsql.dialect.dialects import dialect_named
from streamsql.dialect.hints import alone
from streamsql.dialect.lexer import Kind
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
    """TRANSLATE '<statements>' [FROM 'dialect']; the text may be parameter $1."""
    parser.expect("TRANSLATE")
    start = parser.token.start
    text = _text(parser)
    if not parser.accept("FROM"):
        return Translate(text=text, start=start)
    token = parser.token
    try:
        name = dialect_named(parser.string() if parser.at_string() else parser.label())
    except InvalidParameterValue as error:
        raise error.at(token.start) from None
    return Translate(text=text, dialect=name, start=start)


def _text(parser: Parser) -> str | None:
    token = parser.token
    if token.kind is Kind.PARAMETER and token.value == "1":
        parser.advance()
        return None
    if not parser.at_string():
        raise parser.error(hint="The statements stand in a string: TRANSLATE 'SELECT ...', or $1.")
    return parser.string()
