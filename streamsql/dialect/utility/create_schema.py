"""CREATE SCHEMA."""

from __future__ import annotations

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import CreateSchema, Statement


def parse_create_schema(parser: Parser) -> Statement:
    """After CREATE SCHEMA: [IF NOT EXISTS] name [AUTHORIZATION user]."""
    if_not_exists = parser.exists_flag(negated=True)
    if parser.accept("AUTHORIZATION"):
        return CreateSchema(name=parser.label(), if_not_exists=if_not_exists)
    parts = parser.object_name()
    if parser.accept("AUTHORIZATION"):
        parser.label()
    return CreateSchema(name=parts[-1], if_not_exists=if_not_exists)
