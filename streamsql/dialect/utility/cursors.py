"""DECLARE, FETCH, MOVE, CLOSE."""

from __future__ import annotations

from datetime import datetime, timedelta

from streamsql.core.errors import InvalidParameterValue, StatementError
from streamsql.dialect.intervals import DAY, interval_parts
from streamsql.dialect.lexer import Kind
from streamsql.dialect.parser import Parser
from streamsql.dialect.statements import (
    CloseCursor,
    DeclareCursor,
    DeclareRecursive,
    Fetch,
    Query,
    Statement,
    Subscribe,
)
from streamsql.dialect.utility.columns import parse_table_body


def parse_declare(parser: Parser) -> Statement:
    """DECLARE c [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [WITH HOLD] FOR {query | SUBSCRIBE …},
    DECLARE c SUBSCRIPTION CURSOR FOR s [SINCE … | FULL]; Feldera's DECLARE RECURSIVE VIEW v (…)."""
    parser.expect("DECLARE")
    if parser.at_sequence("RECURSIVE", "VIEW"):
        parser.accept_sequence("RECURSIVE", "VIEW")
        view = parser.object_name()
        body = parse_table_body(parser, view[-1])
        return DeclareRecursive(name=view, columns=tuple(c.name for c in body.columns))
    name = parser.name()
    if parser.accept("SUBSCRIPTION"):
        return _subscription_cursor(parser, name)
    scroll = False
    while True:
        if parser.accept("BINARY", "INSENSITIVE", "ASENSITIVE") or parser.accept_sequence(
            "NO", "SCROLL"
        ):
            continue
        if not parser.accept("SCROLL"):
            break
        scroll = True
    parser.expect("CURSOR")
    hold = False
    if parser.at("WITH", "WITHOUT"):
        hold = parser.advance().key == "WITH"
        parser.expect("HOLD")
    parser.expect("FOR")
    token = parser.token
    inner = parser.statement()
    if isinstance(inner, Query):
        return DeclareCursor(name=name, query=inner.query, with_hold=hold, scroll=scroll)
    if isinstance(inner, Subscribe):
        return DeclareCursor(name=name, subscribe=inner, with_hold=hold, scroll=scroll)
    raise parser.error(token)


def _subscription_cursor(parser: Parser, name: str) -> Statement:
    parser.expect("CURSOR", "FOR")
    subscription = parser.object_name()
    since: str | None = None
    full = parser.accept("FULL")
    if not full and parser.accept("SINCE"):
        start = parser.token
        parser.expression()
        # the text: begin(), now(), proctime(), or a number (version, or milliseconds)
        since = parser.span(start)
        if parser.dialect == "risingwave" and since.strip().isdigit():
            since = _time_of(since)
    return DeclareCursor(name=name, subscription=subscription, since=since, full=full)


def _time_of(milliseconds: str) -> str:
    """RisingWave's number, as a literal that no dialect takes for a version.

    Raises: InvalidParameterValue (22023) for times that no calendar has.
    """
    try:
        time = datetime(1970, 1, 1) + timedelta(milliseconds=int(milliseconds))
    except OverflowError as error:
        raise InvalidParameterValue(
            f"SINCE can not be {milliseconds}",
            hint="In the dialect of RisingWave a number counts milliseconds since 1970.",
        ) from error
    return f"'{time.isoformat(' ')}+00'"


def parse_fetch(parser: Parser) -> Statement:
    """FETCH | MOVE [direction] [FROM | IN] c [WITH (timeout = '1s')]."""
    move = parser.advance().key == "MOVE"
    count = _direction(parser)
    parser.accept("FROM", "IN")
    cursor = parser.name()
    timeout = None
    if parser.at("WITH"):
        token = parser.token
        given = parser.with_options()
        text = given.pop("timeout", None)
        if text is None or given:
            raise parser.error(token, hint="Write WITH (timeout = '1s').")
        try:
            months, days, us = interval_parts(text)
        except StatementError as error:
            raise error.at(token.start) from None
        if months:
            raise InvalidParameterValue("timeout may not hold months", position=token.start)
        timeout = days * DAY + us
    return Fetch(cursor=cursor, count=count, move=move, timeout_us=timeout)


def _direction(parser: Parser) -> int | None:
    """Rows to go: 1 if nothing is said, negative = backward, None = ALL.

    ABSOLUTE and FIRST/LAST need a scrollable result, which a cursor here is not.
    """
    following_names_cursor = parser.peek().kind is Kind.END or parser.peek().key in (";", "WITH")
    if following_names_cursor and parser.at_name():
        return 1  # FETCH c, even if the cursor's name is a word like "next"
    if parser.accept("NEXT"):
        return 1
    if parser.accept("PRIOR"):
        return -1
    if parser.at("FIRST", "LAST", "ABSOLUTE"):
        raise parser.not_supported(
            f"FETCH {parser.token.key}", "Use FETCH FORWARD, or ORDER BY and LIMIT in the query."
        )
    if parser.accept("ALL"):
        return None
    if parser.accept("RELATIVE"):
        return parser.integer()
    if parser.at("FORWARD", "BACKWARD"):
        sign = 1 if parser.advance().key == "FORWARD" else -1
        if parser.accept("ALL"):
            if sign < 0:
                raise parser.not_supported("FETCH BACKWARD ALL", "Declare the cursor anew.")
            return None
        return sign * parser.integer() if _at_integer(parser) else sign
    return parser.integer() if _at_integer(parser) else 1


def _at_integer(parser: Parser) -> bool:
    return parser.token.kind is Kind.NUMBER or parser.at("-", "+")


def parse_close(parser: Parser) -> Statement:
    """CLOSE {c | ALL}."""
    parser.expect("CLOSE")
    return CloseCursor(name=None if parser.accept("ALL") else parser.name())
