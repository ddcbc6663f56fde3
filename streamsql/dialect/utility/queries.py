"""SELECT, VALUES, TABLE, WITH …; with EMIT at the end a subscription (ksqlDB's push query)."""

from __future__ import annotations

from streamsql.core.errors import FeatureNotSupported
from streamsql.dialect.parser import EMIT_ON_WINDOW_CLOSE, Parser
from streamsql.dialect.statements import Query, Statement, Subscribe
from streamsql.dialect.utility.insert import parse_insert


def parse_query(parser: Parser) -> Statement:
    """A query, or WITH … before INSERT."""
    if parser.at("WITH"):
        following = parser.word_after_with()
        if following.key == "INSERT":
            return parse_insert(parser, parser.with_clause())
        if following.key in ("UPDATE", "DELETE", "MERGE"):
            raise FeatureNotSupported(
                f"WITH before {following.key} is not supported",
                position=following.start,
                hint="Use a subquery in FROM, USING or WHERE.",
            )
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
    return Subscribe(query=query)
