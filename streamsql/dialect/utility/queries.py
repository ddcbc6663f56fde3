"""SELECT, VALUES, TABLE, WITH …; with EMIT at the end a subscription (ksqlDB's push query)."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported
from streamsql.dialect.parser import EMIT_ON_WINDOW_CLOSE, Parser
from streamsql.dialect.statements import Query, Statement, Subscribe
from streamsql.dialect.utility.delete import parse_delete
from streamsql.dialect.utility.insert import parse_insert
from streamsql.dialect.utility.merge import parse_merge
from streamsql.dialect.utility.update import parse_update
from streamsql.dialect.utility.with_writes import at_writes, parse_with_writes

_DML: dict[str, Callable[[Parser, exp.With | None], Statement]] = {
    "INSERT": parse_insert,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "MERGE": parse_merge,
}


def parse_query(parser: Parser) -> Statement:
    """A query, or WITH … before a DML statement."""
    if parser.at("WITH") and at_writes(parser):
        return parse_with_writes(parser, _DML)
    if parser.at("WITH"):
        following = parser.word_after_with()
        parse_dml = _DML.get(following.key)
        if parse_dml is not None:
            return parse_dml(parser, parser.with_clause())
    query = parser.query()
    token = parser.token
    emit = parser.emit_clause()
    if emit is None:
        return Query(query=query)
    if emit == EMIT_ON_WINDOW_CLOSE:
        raise FeatureNotSupported(
            "EMIT ON WINDOW CLOSE is not supported in a plain query",
            position=token.start,
            hint="Create a materialized view with it and SUBSCRIBE to that.",
        )
    limit = parser.integer() if parser.accept("LIMIT") else None
    return Subscribe(query=query, limit=limit)
