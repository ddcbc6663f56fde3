"""Change streams: SUBSCRIBE to a relation or a query, as batches of versioned, weighted rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from streamsql.core.delta import Delta, make_batch
from streamsql.core.errors import FeatureNotSupported, InvalidParameterValue
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, BOOLEAN
from streamsql.engine.binding import BindScope
from streamsql.engine.names import qualified, referenced_relations
from streamsql.engine.query_past import QueryPast, past_of
from streamsql.engine.reads.duck import CancelToken
from streamsql.engine.relations import Relation
from streamsql.engine.storage.changelog import Change
from streamsql.engine.storage.view import ViewState
from streamsql.engine.subscriptions import Event, Subscription
from streamsql.engine.system_feeds import system_oids

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine

HEARTBEAT_S = 1.0
SNAPSHOT_ROWS = 65_536


def stream_schema(schema: Schema, *, progress: bool) -> Schema:
    """version, [progressed,] weight, then the relation's columns."""
    head = [Column("version", BIGINT, False)]
    if progress:
        head.append(Column("progressed", BOOLEAN, False))
    head.append(Column("weight", BIGINT))
    return Schema((*head, *schema.columns))


class ChangeStream:
    """One SUBSCRIBE: the rows of some version, then every change.

    snapshot: start with the rows as of the first version (weight +1 each). as_of: that version;
    default the newest. up_to: last version that is given. query_past: of a query's view
    that begins at an older version than it was built at. Used by one thread; `close` it.
    Raises (on opening): SerializationFailure (40001) if `as_of` is no longer retained.
    """

    def __init__(
        self,
        engine: Engine,
        relation: Relation,
        *,
        snapshot: bool = True,
        progress: bool = False,
        as_of: int | None = None,
        up_to: int | None = None,
        ephemeral: bool = False,
        query_past: QueryPast | None = None,
    ) -> None:
        self.engine = engine
        self.relation = relation
        self.progress = progress
        self.up_to = up_to
        self.ephemeral = ephemeral
        self.query_past = query_past
        self.schema = stream_schema(relation.columns, progress=progress)
        self.closed = False
        self._subscription = Subscription(
            relation.oid, len(relation.columns), progress=progress or up_to is not None
        )
        self._ready: list[pa.RecordBatch] = []
        self._open(snapshot, as_of)

    def _open(self, snapshot: bool, as_of: int | None) -> None:
        engine, relation = self.engine, self.relation
        with engine.lock:
            newest = engine.version
            first = newest if as_of is None else as_of
            if first > newest:
                raise InvalidParameterValue(
                    f"version {first} does not exist yet",
                    hint=f"The newest version is {newest}.",
                )
            if self.up_to is not None and self.up_to < first:
                raise InvalidParameterValue(
                    f"UP TO version {self.up_to} is before version {first}, where the changes"
                    " begin",
                    hint="Begin earlier with AS OF, or leave UP TO out.",
                )
            state = engine.stored(relation.oid)
            if state is None:
                raise FeatureNotSupported(
                    f'cannot subscribe to "{relation.name}"',
                    hint="COMMIT the transaction that creates it; or subscribe to a table, a view,"
                    " or a query in parentheses.",
                )
            if isinstance(state, ViewState) and state.broken is not None:
                raise state.broken
            before = self.query_past
            if before is None:
                make = state.read(first) if snapshot else None
                past = state.log.since(first, newest)
            else:  # the view of the query was built after `first`
                make = before.table if snapshot else None
                past = [Change(*c) for c in before.changes] + state.log.since(before.last, newest)
            engine.hub.add(self._subscription)
        if make is not None:
            rows = make().select(list(range(len(relation.columns))))
            for batch in rows.to_batches(max_chunksize=SNAPSHOT_ROWS):
                if batch.num_rows:
                    self._ready.append(self._batch(first, Delta(batch)))
        n = len(relation.columns)
        events = [Event(c.version, _cut(c.delta, n)) for c in past]
        events.append(Event(newest, None))
        self._ready += self._batches(events)

    def _batches(self, events: list[Event]) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        for event in events:
            if self.closed:
                break
            if self.up_to is not None and event.version > self.up_to:
                if self.progress:
                    found.append(self._progress(self.up_to))
                self.close()
                break
            if event.delta is not None:
                if event.delta:
                    found.append(self._batch(event.version, event.delta))
            elif self.progress:
                found.append(self._progress(event.version))
            if event.delta is None and event.version == self.up_to:
                self.close()
        return found

    def _batch(self, version: int, delta: Delta) -> pa.RecordBatch:
        n = delta.num_rows
        head = [pa.array(np.full(n, version, np.int64))]
        if self.progress:
            head.append(pa.array(np.zeros(n, np.bool_)))
        head.append(pa.array(delta.weights_or_ones()))
        return make_batch([*head, *delta.batch.columns], self.schema.arrow, n)

    def _progress(self, version: int) -> pa.RecordBatch:
        columns = [pa.array([version], pa.int64()), pa.array([True])]
        columns += [pa.nulls(1, f.type) for f in list(self.schema.arrow)[2:]]
        return make_batch(columns, self.schema.arrow, 1)

    # --- reading --------------------------------------------------------------------------------
    def take(self, timeout: float | None) -> list[pa.RecordBatch]:
        """What is there, waiting at most `timeout` seconds for it (None = as long as it takes).

        Raises: the error that ended the stream.
        """
        if not self._ready and not self.closed:
            self._ready = self._batches(self._subscription.take(timeout))
        ready, self._ready = self._ready, []
        return ready

    def run(self, token: CancelToken) -> Iterator[pa.RecordBatch]:
        """All changes for ever; an empty batch is a heartbeat. Raises: QueryCanceled (57014)."""
        token.add_waker(self._subscription.wake)
        try:
            while True:
                token.check()
                batches = self.take(HEARTBEAT_S)
                token.check()
                yield from batches
                if self.closed and not self._ready:
                    return
                if not batches:
                    yield empty(self.schema)
        finally:
            token.remove_waker(self._subscription.wake)
            self.close()

    def wake(self) -> None:
        """Let a waiting `take` return."""
        self._subscription.wake()

    def close(self) -> None:
        """No more changes; may be called twice."""
        if self.closed:
            return
        self.closed = True
        with self.engine.lock:
            self.engine.hub.remove(self._subscription)
        if self.ephemeral and not self.engine.closed:
            oid = self.relation.oid
            self.engine.scheduler.post(lambda: self.engine.builder.drop_ephemeral(oid))


def empty(schema: Schema) -> pa.RecordBatch:
    """A batch without rows."""
    return make_batch([pa.array([], f.type) for f in schema.arrow], schema.arrow, 0)


def _cut(delta: Delta, columns: int) -> Delta:
    if delta.batch.num_columns == columns:
        return delta
    return Delta(delta.batch.select(list(range(columns))), delta.weights)


def ephemeral_view(
    engine: Engine, tree: exp.Expression, scope: BindScope, as_of: int | None = None
) -> tuple[Relation, QueryPast | None]:
    """Build a nameless materialized view of a query, for one stream; and what it gave since the
    version `as_of`, if that is an older one. Raises: errors of binding; see `past_of`."""
    from streamsql.engine.views import bind_view_query

    meaning = referenced_relations(tree, scope.relation)
    oid = engine.catalog.oids.allocate()
    relation = Relation(
        oid=oid,
        schema="streamsql",
        name=f"subscription {oid}",
        kind="materialized_view",
        columns=Schema(()),
        context=scope.definition,
        query=tree,
        references={name: r.oid for name, r in meaning.items()},
    )
    bound = bind_view_query(relation, scope)
    made = Relation(
        oid=oid,
        schema=relation.schema,
        name=relation.name,
        kind=relation.kind,
        columns=bound.plan.schema,
        context=relation.context,
        query=qualified(tree, meaning),
        references=relation.references,
    )
    feeds = system_oids(engine.catalog, made.depends_on)
    if feeds:
        engine.call(lambda: engine.feeds.open(feeds))

    def build() -> QueryPast | None:
        engine.builder.add_ephemeral(made)
        try:
            return None if as_of is None else past_of(engine, made, as_of)
        except BaseException:
            engine.builder.drop_ephemeral(oid)
            raise

    return made, engine.call(build)
