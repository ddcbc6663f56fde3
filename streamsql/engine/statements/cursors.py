"""DECLARE, FETCH, MOVE, CLOSE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.core.errors import (
    DuplicateCursor,
    InvalidCursorName,
    NoActiveTransaction,
)
from streamsql.dialect.statements import CloseCursor, DeclareCursor, Fetch, Query
from streamsql.engine.api import Result
from streamsql.engine.cursors import Cursor, QueryCursor, StreamCursor, check_scroll
from streamsql.engine.statements import queries, subscribe, subscriptions
from streamsql.engine.statements.handler import Description, Handler, Types
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def describe_declare(session: Session, statement: DeclareCursor, declared: Types) -> Description:
    """DECLARE has no rows, but its query may have parameters."""
    if statement.subscribe is not None:
        found = subscribe.describe(session, statement.subscribe, declared)
        return Description(None, found.parameter_types)
    if statement.query is None:
        return Description()
    query = Query(query=statement.query, sql=statement.sql, position=statement.position)
    found = queries.describe_query(session, query, declared)
    return Description(None, found.parameter_types)


def run_declare(
    session: Session, statement: DeclareCursor, values: tuple[Literal, ...], declared: Types
) -> Result:
    """DECLARE name CURSOR FOR query | SUBSCRIBE."""
    if statement.subscription is not None:
        if statement.name in session.cursors:
            raise DuplicateCursor(f'cursor "{statement.name}" already exists')
        session.cursors[statement.name] = subscriptions.open_cursor(session, statement)
        return Result("DECLARE SUBSCRIPTION CURSOR")
    transaction = session.transaction
    if (transaction is None or transaction.implicit) and not statement.with_hold:
        raise NoActiveTransaction("DECLARE CURSOR can only be used in transaction blocks")
    if statement.name in session.cursors:
        raise DuplicateCursor(f'cursor "{statement.name}" already exists')
    cursor: Cursor
    if statement.subscribe is not None:
        stream = subscribe.open_stream(session, statement.subscribe, values, declared)
        cursor = StreamCursor(subscribe.stream_columns(stream), stream)
    else:
        assert statement.query is not None
        query = Query(query=statement.query, sql=statement.sql, position=statement.position)
        result = queries.run_query(session, query, values, declared)
        assert result.columns is not None
        cursor = QueryCursor(result.columns, result.batches, held=statement.with_hold)
        cursor.materialize()
    check_scroll(cursor, statement.scroll)
    session.cursors[statement.name] = cursor
    return Result("DECLARE CURSOR")


def find(session: Session, name: str) -> Cursor:
    """Raises: InvalidCursorName (34000)."""
    cursor: Cursor | None = session.cursors.get(name)
    if cursor is None:
        raise InvalidCursorName(f'cursor "{name}" does not exist')
    return cursor


def describe_fetch(session: Session, statement: Fetch, declared: Types) -> Description:
    """The cursor's columns; MOVE has none."""
    cursor = find(session, statement.cursor)
    return Description(None if statement.move else cursor.columns)


def run_fetch(
    session: Session, statement: Fetch, values: tuple[Literal, ...], declared: Types
) -> Result:
    """FETCH gives rows, MOVE only counts them."""
    cursor = find(session, statement.cursor)
    timeout = None if statement.timeout_us is None else statement.timeout_us / 1e6
    batches = cursor.fetch(statement.count, timeout, session.token)
    rows = sum(b.num_rows for b in batches)
    if statement.move:
        return Result(f"MOVE {rows}", row_count=rows)
    return Result("FETCH", cursor.columns, iter(batches), row_count=rows)


def run_close(
    session: Session, statement: CloseCursor, values: tuple[Literal, ...], declared: Types
) -> Result:
    """CLOSE name | ALL."""
    if statement.name is None:
        session.close_cursors(held=True)
        return Result("CLOSE CURSOR ALL")
    find(session, statement.name).close()
    del session.cursors[statement.name]
    return Result("CLOSE CURSOR")


DECLARE = Handler(run_declare, describe_declare, "DECLARE CURSOR")
FETCH = Handler(run_fetch, describe_fetch, "FETCH")
CLOSE = Handler(run_close, tag="CLOSE CURSOR")
