"""CREATE SINK."""

from __future__ import annotations

from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import CreateSink, Statement
from streamsql.dialect.utility.create_table import parse_format


def parse_create_sink(parser: Parser) -> Statement:
    """After CREATE SINK: k [INTO t] {FROM v | AS query} [WITH (…)] [FORMAT … ENCODE …]."""
    if_not_exists = parser.exists_flag(negated=True)
    name = parser.object_name()
    into = parser.object_name() if parser.accept("INTO") else None
    from_relation = query = None
    if parser.accept("FROM"):
        from_relation = parser.object_name()
        if parser.at("INTO") and parser.peek(2).key == "CONNECTION":
            raise parser.not_supported("INTO … CONNECTION", "Give the connector in WITH.")
        if parser.accept("INTO"):
            into = parser.object_name()
    else:
        parser.expect("AS")
        query = parser.query()
        if parser.emit_clause() is not None:
            raise parser.not_supported("EMIT in CREATE SINK", "Create a view and sink that.")
    options = parser.with_options()
    form = parse_format(parser) if parser.at("FORMAT") else None
    return CreateSink(
        name=name,
        from_relation=from_relation,
        query=query,
        into=into,
        if_not_exists=if_not_exists,
        options=options,
        format=form,
    )
