"""CREATE SUBSCRIPTION, its cursors, and what SHOW tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamsql.core.errors import (
    DuplicateTable,
    FeatureNotSupported,
    InvalidParameterValue,
    UndefinedObject,
    WrongObjectType,
)
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, INTERVAL, TEXT, SqlType
from streamsql.dialect.statements import CreateSubscription, DeclareCursor
from streamsql.engine.api import Result
from streamsql.engine.cursors import SubscriptionCursor
from streamsql.engine.ddl import CreateRelation
from streamsql.engine.definitions import check_options
from streamsql.engine.reads.versions import existing, instant
from streamsql.engine.recordings import Recording, source_oid
from streamsql.engine.relations import Relation
from streamsql.engine.statements.common import lookup
from streamsql.engine.statements.handler import Handler, Types
from streamsql.engine.storage.changelog import not_retained
from streamsql.engine.storage.retention import parse_span
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.session import Session

Columns = tuple[tuple[str, SqlType], ...]

SUBSCRIPTION_COLUMNS: Columns = (("Name", TEXT), ("From", TEXT), ("Retention", INTERVAL))
CURSOR_COLUMNS: Columns = (
    ("Session", BIGINT), ("User", TEXT), ("Cursor Name", TEXT), ("Subscription Name", TEXT),
    ("Version", BIGINT),
)  # fmt: skip

DEFAULT_RETENTION = "1 day"


def run(
    session: Session, statement: CreateSubscription, values: tuple[Literal, ...], declared: Types
) -> Result:
    """CREATE SUBSCRIPTION [IF NOT EXISTS] s FROM v [WITH (retention = '1 day')]."""
    session.check_writable()
    source = lookup(session, statement.relation)
    if not source.stored:
        raise WrongObjectType(
            f'cannot create a subscription from {source.kind_words} "{source.name}"',
            hint="Subscribe to a table or a materialized view.",
        )
    if source.temporary:
        raise FeatureNotSupported(
            f'cannot create a subscription from temporary table "{source.name}"',
            hint="Use a permanent table, or SUBSCRIBE.",
        )
    check_options(statement.options, ("retention",), "a subscription")
    span = parse_span(statement.options.get("retention", DEFAULT_RETENTION), "retention")
    if span is None or span.us is None:
        raise InvalidParameterValue(
            f'invalid value for "retention": "{statement.options["retention"]}"',
            hint="Give a time, for example '1 day'.",
        )
    schema, name = session.catalog.creation_name(statement.name, session.search_path)
    if session.catalog.get(schema, name) is not None:
        if not statement.if_not_exists:
            raise DuplicateTable(f'relation "{name}" already exists')
        session.notice(f'relation "{name}" already exists, skipping', sqlstate="42P07")
        return Result("CREATE SUBSCRIPTION")
    relation = Relation(
        oid=session.catalog.oids.allocate(),
        schema=schema,
        name=name,
        kind="subscription",
        columns=Schema(()),
        sql=statement.sql,
        context=session.definition_context,
        statement=statement,
        references={".".join(statement.relation): source.oid},
        options=dict(statement.options),
        extra={"of": source.oid, "retention_us": span.us},
    )
    session.change_catalog(CreateRelation(relation))
    return Result("CREATE SUBSCRIPTION")


# --- cursors ------------------------------------------------------------------------------------
def open_cursor(session: Session, statement: DeclareCursor) -> SubscriptionCursor:
    """DECLARE c SUBSCRIPTION CURSOR FOR s [SINCE now() | begin() | version | time | FULL].

    Raises: 42704, 42809, 22023, 22007, 40001.
    """
    assert statement.subscription is not None
    relation = lookup(session, statement.subscription, kinds=("subscription",))
    engine = session.engine
    recording = engine.recordings.get(relation.oid)
    if recording is None:
        raise UndefinedObject(
            f'subscription "{relation.name}" is not there yet',
            hint="COMMIT the transaction that creates it.",
        )
    recording.trim()
    if statement.full:
        with engine.lock:
            version = engine.version
            state = engine.stored(source_oid(relation))
            make = None if state is None else state.read(version)
        assert make is not None
        width = len(recording.store.schema)
        rows = make().select(list(range(width)))
        return SubscriptionCursor(recording, version, rows=(version, rows))
    return _since(session, recording, statement.since)


def _since(session: Session, recording: Recording, since: str | None) -> SubscriptionCursor:
    """A cursor from a version or time on."""
    engine, floor = session.engine, recording.store.floor
    text = "now()" if since is None else since.strip()
    call = text.lower().replace(" ", "")
    if call in ("now()", "proctime()", "current_timestamp"):
        return SubscriptionCursor(recording, max(engine.version, floor))
    if call == "begin()":
        return SubscriptionCursor(recording, floor)
    if text.isdigit():
        version = existing(engine, int(text))
        if version < floor:
            raise not_retained(version, floor, "")
        return SubscriptionCursor(recording, version)
    us = instant(_unquoted(text), session.timezone)
    if us > engine.clock_us():
        raise InvalidParameterValue(
            "SINCE is in the future", hint="SINCE now() begins with what comes from now on."
        )
    if us < engine.clock_us() - recording.retention_us:
        raise InvalidParameterValue(
            "SINCE is before what the subscription retains",
            hint="Use SINCE begin(), or FULL to start with all rows.",
        )
    return SubscriptionCursor(recording, floor, since_us=us)


def _unquoted(text: str) -> str:
    """The text of a literal, perhaps behind the name of its type.

    Raises: InvalidParameterValue (22023) for another expression.
    """
    start, end = text.find("'"), text.rfind("'")
    words = text[:start].strip().lower()
    if start < 0 or end == start or words not in ("", "timestamp", "timestamptz", "timestamp with"
                                                  " time zone"):  # fmt: skip
        raise InvalidParameterValue(
            f"SINCE can not be {text}",
            hint="Use now(), begin(), a version, or a time in quotes.",
        )
    return text[start + 1 : end].replace("''", "'")


# --- SHOW ---------------------------------------------------------------------------------------
def subscription_rows(session: Session, schema: str | None) -> list[Sequence[object]]:
    """SHOW SUBSCRIPTIONS [FROM schema]."""
    path = {schema} if schema is not None else set(session.search_path)
    catalog = session.catalog
    rows: list[Sequence[object]] = []
    for r in catalog.relations.values():
        if r.kind == "subscription" and r.schema in path:
            days, us = divmod(int(r.extra["retention_us"]), 86_400_000_000)
            rows.append((r.name, catalog.relations[source_oid(r)].name, (0, days, us * 1000)))
    return rows


def cursor_rows(session: Session) -> list[Sequence[object]]:
    """SHOW SUBSCRIPTION CURSORS, of all sessions."""
    return [
        (s.backend_pid, s.user, name, cursor.recording.relation.name, cursor.after)
        for s in session.database.sessions
        for name, cursor in list(s.cursors.items())
        if isinstance(cursor, SubscriptionCursor)
    ]


CREATE = Handler(run, tag="CREATE SUBSCRIPTION")
