"""Recordings: what `CREATE SUBSCRIPTION` keeps running, whether somebody reads it or not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamsql.core.errors import (
    DataCorrupted,
    DiskError,
    ObjectNotInPrerequisiteState,
    StreamSqlError,
    UndefinedObject,
)
from streamsql.engine import logs
from streamsql.engine.relations import Relation
from streamsql.engine.storage.change_store import ChangeStore, KeptChange
from streamsql.engine.subscriptions import Event, Subscription, visible

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine

TRIM_EVERY = 64
"""Changes between two looks at what is out of time."""


def source_oid(subscription: Relation) -> int:
    """OID of the table or view whose changes are kept."""
    return int(subscription.extra["of"])


class Recording(Subscription):
    """The changes of one subscription: a subscriber of the hub that keeps what it is given.

    relation: its catalog entry. store: the changes. layout: of the relation that they are about.
    since: the version from which on a new one keeps them. gone: it ends here; altered: because that
    relation (its name) has other columns by now, and another recording goes on; None = it was
    dropped.
    """

    def __init__(
        self, engine: Engine, relation: Relation, source: Relation, since: int | None = None
    ) -> None:
        super().__init__(source_oid(relation), len(source.columns))
        self.engine = engine
        self.relation = relation
        self.layout = source.layout
        self.gone = False
        self.altered: str | None = None
        log = engine.durability.subscription_log(relation.oid)
        version = engine.version if since is None else since
        self.store = ChangeStore(source.columns, log, version, engine.clock_us())
        self.news = threading.Condition()
        self._since_trim = 0

    @property
    def retention_us(self) -> int:
        """How old changes may get, µs."""
        return int(self.relation.extra["retention_us"])

    def push(self, event: Event) -> None:
        """See `Subscription`."""
        if event.delta is None or not event.delta:
            return
        self.store.append(event.version, self.engine.hub.now_us, event.delta)
        self._since_trim += 1
        if self._since_trim >= TRIM_EVERY:
            self.trim()
        self.wake()

    def end(self, error: StreamSqlError | None) -> None:
        """The relation has changed or is gone; `Recordings.sync` sees to it."""

    def trim(self) -> None:
        """Forget what is older than the retention."""
        self._since_trim = 0
        self.store.trim(self.engine.clock_us() - self.retention_us)

    def wake(self) -> None:
        """Let waiting readers look."""
        with self.news:
            self.news.notify_all()

    def wait(self, after: int, timeout: float) -> None:
        """Until there is a change later than that version, at most so many seconds."""
        with self.news:
            if self.store.newest <= after and not self.gone:
                self.news.wait(timeout)

    def read(self, after: int) -> list[KeptChange]:
        """The next changes later than a version. Raises: 40001, 42704 when it was dropped, 55000
        when the relation was altered."""
        if self.altered is not None:
            raise ObjectNotInPrerequisiteState(
                f'relation "{self.altered}" was altered',
                hint=f"DECLARE the cursor again SINCE {after}.",
            )
        if self.gone:
            raise UndefinedObject(f'subscription "{self.relation.name}" was dropped')
        return self.store.read(after)


class Recordings:
    """All of one engine. Changed by the engine thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._by_oid: dict[int, Recording] = {}

    def __iter__(self) -> Iterator[Recording]:
        return iter(list(self._by_oid.values()))

    def get(self, oid: int) -> Recording | None:
        """That of a subscription."""
        return self._by_oid.get(oid)

    def prepare(self, subscription: Relation) -> None:
        """Before CREATE SUBSCRIPTION is certain: there is a place for its changes.

        Raises: DiskError (58030).
        """
        log = self.engine.durability.subscription_log(subscription.oid)
        if log is not None:
            log.close()

    def sync(self) -> None:
        """After a change of the catalog, and before and after the log is replayed."""
        engine = self.engine
        catalog = engine.catalog
        for oid, recording in list(self._by_oid.items()):
            known = catalog.relations.get(oid)
            if known is None:
                self._drop(oid, recording)
                continue
            recording.relation = known
            source = catalog.relations[recording.relation_id]
            same = source.columns.types == recording.store.schema.types
            if same and source.layout == recording.layout:
                recording.store.schema = source.columns
            else:
                self._begin_anew(recording, source)
        for relation in list(catalog.relations.values()):
            if relation.kind == "subscription":
                self._add(relation, catalog.relations[source_oid(relation)])

    def _begin_anew(self, recording: Recording, source: Relation) -> None:
        """The relation has other columns: what its own older versions tell comes over in them."""
        engine, oid = self.engine, recording.relation.oid
        recording.altered = source.name
        self._drop(oid, recording)
        state = engine.maintained(source.oid)
        if state is None:
            return
        with engine.lock:
            since = max(recording.store.floor, state.log.floor)
            past = state.log.since(since)
        made = self._by_oid[oid] = self._opened(recording.relation, source, since)
        for change in past:
            us = engine.retention.timeline.time_of(change.version) or engine.clock_us()
            made.store.append(change.version, us, visible(change.delta, len(source.columns)))
        try:
            made.store.sync()  # a log that is replayed makes no more than what is later
        except DiskError as error:
            logs.warning("a subscription's changes may not outlive a crash", reason=error.message)

    def _add(self, relation: Relation, source: Relation) -> None:
        recording = self._by_oid.get(relation.oid)
        if recording is None:
            recording = self._by_oid[relation.oid] = self._opened(relation, source)
        with self.engine.lock:
            if not self.engine.hub.has(recording):
                self.engine.hub.add(recording)

    def _opened(self, relation: Relation, source: Relation, since: int | None = None) -> Recording:
        try:
            return Recording(self.engine, relation, source, since)
        except DataCorrupted as error:  # of the database itself nothing is missing: begin anew
            logs.error("a subscription lost its changes", name=relation.name, reason=error.message)
            self.engine.durability.forget_subscription(relation.oid)
            return Recording(self.engine, relation, source)

    def _drop(self, oid: int, recording: Recording) -> None:
        del self._by_oid[oid]
        with self.engine.lock:
            self.engine.hub.remove(recording)
        recording.gone = True
        recording.wake()
        try:
            recording.store.close()
            self.engine.durability.forget_subscription(oid)
        except DiskError as error:
            logs.warning("a dropped subscription's changes stay on disk", reason=error.message)

    def flush(self) -> None:
        """Before a checkpoint: the write-ahead log will not bring these changes again.

        Raises: DiskError (58030).
        """
        for recording in self:
            recording.store.sync()

    def close(self) -> None:
        """Let the logs go."""
        for recording in self:
            recording.store.close()
            recording.wake()
