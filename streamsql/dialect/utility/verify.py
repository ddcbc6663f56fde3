"""VERIFY MATERIALIZED VIEW and TRANSLATE."""

from __future__ import annotations

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Statement, Translate, Verify


def parse_verify(parser: Parser) -> Statement:
    """VERIFY MATERIALIZED VIEW v."""
    parser.expect("VERIFY", "MATERIALIZED", "VIEW")
    return Verify(name=parser.object_name())


def parse_translate(parser: Parser) -> Statement:
    """TRANSLATE '<statement>'."""
    parser.expect("TRANSLATE")
    return Translate(text=parser.string())
