"""COMMENT ON."""

from __future__ import annotations

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import Comment, Statement
from streamsql.dialect.utility.kinds import object_kind


def parse_comment(parser: Parser) -> Statement:
    """COMMENT ON kind n IS {'text' | NULL}; COLUMN takes relation.column, CONSTRAINT its name ON a
    table."""
    parser.expect("COMMENT", "ON")
    column = None
    if parser.accept("COLUMN"):
        token = parser.token
        parts = parser.object_name()
        if len(parts) < 2:
            raise parser.error(token, "column name must be qualified: syntax error")
        kind, name, column = "column", parts[:-1], parts[-1]
    elif parser.accept("CONSTRAINT"):
        kind, column = "constraint", parser.name()
        parser.expect("ON")
        name = parser.object_name()
    else:
        token = parser.token
        found = object_kind(parser)
        if found is None:
            if token.key == "DATABASE":
                parser.advance()
                found = "database"
            else:
                raise parser.not_supported(
                    f"COMMENT ON {token.key}", "Tables, sources, views, sinks and columns take one."
                )
        kind, name = found, parser.object_name()
    parser.expect("IS")
    text = None if parser.accept("NULL") else parser.string()
    return Comment(kind=kind, name=name, column=column, text=text)
