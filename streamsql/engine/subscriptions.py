"""Streams of changes: what SUBSCRIBE and `Database.subscribe` read from."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from streamsql.core.delta import Delta
from streamsql.core.errors import ProgramLimitExceeded, StreamSqlError

QUEUE_BYTES_MAX = 256 << 20
"""What may wait for one slow reader before its stream is ended."""


@dataclass(frozen=True)
class Event:
    """delta None = progress: every change up to `version` has been given. version: of the tick."""

    version: int
    delta: Delta | None


class Subscription:
    """The changes of one relation from some version on, queued for one reader.

    visible_columns: how many leading columns of the relation's store the user sees. progress:
    whether versions without a change are reported too.
    """

    def __init__(self, relation_id: int, visible_columns: int, *, progress: bool = False) -> None:
        self.relation_id = relation_id
        self.visible_columns = visible_columns
        self.progress = progress
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._ready = threading.Condition()
        self._error: StreamSqlError | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def push(self, event: Event) -> None:
        """Called by the engine thread; never waits."""
        size = 0 if event.delta is None else int(event.delta.batch.nbytes)
        with self._ready:
            if self._closed or self._error is not None:
                return
            if self._bytes + size > QUEUE_BYTES_MAX:
                self._events.clear()
                self._error = ProgramLimitExceeded(
                    "the subscription was ended because its reader is too slow",
                    hint="Read faster, or SUBSCRIBE again from the last version seen with AS OF.",
                )
            else:
                last = self._events[-1] if self._events else None
                if last is not None and last.delta is None and event.delta is None:
                    self._events[-1] = event
                else:
                    self._events.append(event)
                self._bytes += size
            self._ready.notify_all()

    def end(self, error: StreamSqlError | None) -> None:
        """The relation is gone, or the database closes: what was queued is still delivered."""
        with self._ready:
            self._closed = self._closed or error is None
            self._error = self._error or error
            self._ready.notify_all()

    def take(self, timeout: float | None) -> list[Event]:
        """All events that wait, in order; [] after `timeout` seconds without one.

        Raises: the error that ended the stream, once everything before it was taken.
        """
        with self._ready:
            if not self._events and self._error is None and not self._closed:
                self._ready.wait(timeout)
            if not self._events and self._error is not None:
                raise self._error
            taken = list(self._events)
            self._events.clear()
            self._bytes = 0
            return taken

    def wake(self) -> None:
        """Let a waiting `take` return (cancellation)."""
        with self._ready:
            self._ready.notify_all()


class Hub:
    """All subscriptions, by relation. Changed under the state lock."""

    def __init__(self) -> None:
        self._by_relation: dict[int, list[Subscription]] = {}
        self._progress: list[Subscription] = []
        self.now_us = 0
        """The time of the tick that is being published."""

    def has(self, subscription: Subscription) -> bool:
        """Whether it gets its relation's changes."""
        return subscription in self._by_relation.get(subscription.relation_id, ())

    def add(self, subscription: Subscription) -> None:
        """From now on it gets its relation's changes."""
        self._by_relation.setdefault(subscription.relation_id, []).append(subscription)
        if subscription.progress:
            self._progress.append(subscription)

    def remove(self, subscription: Subscription) -> None:
        """No more changes."""
        subscription.end(None)
        found = self._by_relation.get(subscription.relation_id, [])
        if subscription in found:
            found.remove(subscription)
        if subscription in self._progress:
            self._progress.remove(subscription)

    def watched(self, relation_id: int) -> bool:
        """Whether anybody reads this relation's changes."""
        return bool(self._by_relation.get(relation_id))

    def publish(self, relation_id: int, version: int, delta: Delta) -> None:
        """Hand one relation's change of a tick to its subscribers."""
        for subscription in list(self._by_relation.get(relation_id, ())):
            shown = visible(delta, subscription.visible_columns)
            subscription.push(Event(version, shown))

    def progressed(self, version: int) -> None:
        """The tick is complete."""
        for subscription in list(self._progress):
            subscription.push(Event(version, None))

    def drop_relation(self, relation_id: int, error: StreamSqlError | None) -> None:
        """End every stream of a relation that is dropped."""
        for subscription in self._by_relation.pop(relation_id, ()):
            subscription.end(error)
            if subscription in self._progress:
                self._progress.remove(subscription)

    def close(self, error: StreamSqlError) -> None:
        """End all streams."""
        for relation_id in list(self._by_relation):
            self.drop_relation(relation_id, error)


def visible(delta: Delta, columns: int) -> Delta:
    """The delta without hidden columns."""
    if delta.batch.num_columns == columns:
        return delta
    batch = delta.batch.select(list(range(columns)))
    return Delta(batch, delta.weights, None, False)
