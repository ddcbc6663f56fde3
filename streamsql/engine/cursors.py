"""Cursors: rows of a query or of a change stream, fetched in portions."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, make_batch
from streamsql.core.errors import FeatureNotSupported, ObjectNotInPrerequisiteState
from streamsql.core.schema import Schema
from streamsql.engine.api import ResultColumn
from streamsql.engine.reads.duck import CancelToken
from streamsql.engine.recordings import Recording
from streamsql.engine.streams import SNAPSHOT_ROWS, ChangeStream, stream_schema

STREAM_ROWS_MAX = 1 << 62
PATIENCE_S = 1.0


class Cursor(Protocol):
    """held: lives on after its transaction. columns: of the result."""

    held: bool
    columns: tuple[ResultColumn, ...]

    def fetch(
        self, count: int | None, timeout_s: float | None, token: CancelToken
    ) -> list[pa.RecordBatch]:
        """The next rows: `count` of them (None = all), negative = backward."""
        ...

    def close(self) -> None: ...


class QueryCursor:
    """Over the result of a query, which is kept so that it can be read backward too."""

    def __init__(
        self,
        columns: tuple[ResultColumn, ...],
        batches: Iterator[pa.RecordBatch],
        *,
        held: bool,
    ) -> None:
        self.columns = columns
        self.held = held
        self.schema = pa.schema([(f"c{i}", c.type.arrow) for i, c in enumerate(columns)])
        self._batches = batches
        self._rows: pa.Table | None = None
        self._at = 0  # 0 = before the first row, n + 1 = after the last

    def materialize(self) -> pa.Table:
        """All rows; the query has ended afterwards."""
        if self._rows is None:
            if len(self.schema):
                self._rows = pa.Table.from_batches(list(self._batches), schema=self.schema)
            else:
                rows = sum(b.num_rows for b in self._batches)
                self._rows = pa.table({"x": pa.nulls(rows)})
        return self._rows

    def fetch(
        self, count: int | None, timeout_s: float | None, token: CancelToken
    ) -> list[pa.RecordBatch]:
        """See `Cursor`; `count` 0 gives the present row again."""
        rows = self.materialize()
        total = rows.num_rows
        if count is None:
            count = total - self._at if self._at <= total else 0
            count = max(count, 0)
            start, self._at = self._at, total + 1
            return self._slice(start, count)
        if count == 0:
            inside = 1 <= self._at <= total
            return self._slice(self._at - 1, 1) if inside else []
        if count > 0:
            start = min(self._at, total)
            taken = min(count, total - start)
            self._at = start + taken if taken == count else total + 1
            return self._slice(start, taken)
        last = min(self._at, total + 1) - 1
        taken = min(-count, max(last, 0))
        found = self._slice(last - taken, taken)
        self._at = last - taken + 1 if taken == -count else 0
        return [b.take(pa.array(range(b.num_rows - 1, -1, -1))) for b in reversed(found)]

    def _slice(self, start: int, count: int) -> list[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = self.materialize().slice(start, count).to_batches()
        return batches if len(self.schema) else [b.select([]) for b in batches]

    def close(self) -> None:
        """Free the rows."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
        self._rows = None
        self._batches = iter(())


class StreamCursor:
    """Over a change stream. FETCH waits for the first row (at most the timeout), then gives what
    is there."""

    held = False

    def __init__(self, columns: tuple[ResultColumn, ...], stream: ChangeStream) -> None:
        self.columns = columns
        self.stream = stream
        self._left: list[pa.RecordBatch] = []

    def fetch(
        self, count: int | None, timeout_s: float | None, token: CancelToken
    ) -> list[pa.RecordBatch]:
        """See `Cursor`. Raises: FeatureNotSupported (0A000) for backward, QueryCanceled."""
        if count is not None and count < 0:
            raise FeatureNotSupported(
                "a SUBSCRIBE cursor can only be read forward",
                hint="Declare another one with AS OF the version to begin at.",
            )
        wanted = STREAM_ROWS_MAX if count is None else count
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        found: list[pa.RecordBatch] = []
        token.add_waker(self.stream.wake)
        try:
            while wanted > 0:
                token.check()
                if not self._left:
                    self._left = self.stream.take(self._patience(deadline, bool(found)))
                if not self._left:
                    expired = deadline is not None and time.monotonic() >= deadline
                    if found or expired or self.stream.closed:
                        break
                    continue
                batch = self._left.pop(0)
                if batch.num_rows > wanted:
                    self._left.insert(0, batch.slice(wanted))
                    batch = batch.slice(0, wanted)
                found.append(batch)
                wanted -= batch.num_rows
        finally:
            token.remove_waker(self.stream.wake)
        return found

    def _patience(self, deadline: float | None, some: bool) -> float | None:
        """How long to wait for more; with a timeout FETCH collects until it has passed."""
        if deadline is None:
            return 0.0 if some else 1.0
        return max(0.0, deadline - time.monotonic())

    def close(self) -> None:
        """End the stream."""
        self.stream.close()


class SubscriptionCursor:
    """Over the changes that a subscription keeps. Without a timeout FETCH gives what is there; with
    one it waits for more until the timeout has passed or it has enough.

    after: the version whose later changes come next. since_us: and not before that time. rows: a
    first version of all rows, for FULL. It lives on after its transaction.
    """

    held = True

    def __init__(
        self,
        recording: Recording,
        after: int,
        *,
        since_us: int | None = None,
        rows: tuple[int, pa.Table] | None = None,
    ) -> None:
        self.recording = recording
        self.after = after
        self.since_us = since_us
        self.schema = stream_schema(recording.store.schema, progress=False)
        self.columns = tuple(ResultColumn(c.name, c.type) for c in self.schema)
        self._left: deque[pa.RecordBatch] = deque()
        if rows is not None:
            version, table = rows
            for batch in table.to_batches(max_chunksize=SNAPSHOT_ROWS):
                if batch.num_rows:
                    self._left.append(change_batch(version, Delta(batch), self.schema))

    def fetch(
        self, count: int | None, timeout_s: float | None, token: CancelToken
    ) -> list[pa.RecordBatch]:
        """See `Cursor`. Raises: 0A000 for backward, 40001 when the changes are no longer retained,
        42704 when the subscription was dropped, 55000 when its relation was altered, QueryCanceled
        (57014)."""
        if count is not None and count < 0:
            raise FeatureNotSupported(
                "a subscription cursor can only be read forward",
                hint="Declare another one with SINCE the version to begin at.",
            )
        wanted = STREAM_ROWS_MAX if count is None else count
        deadline = time.monotonic() + (timeout_s or 0.0)
        found: list[pa.RecordBatch] = []
        token.add_waker(self.recording.wake)
        try:
            while wanted > 0:
                token.check()
                if not self._left and not self._more(deadline):
                    break
                if self._left:
                    batch = self._left.popleft()
                    if batch.num_rows > wanted:
                        self._left.appendleft(batch.slice(wanted))
                        batch = batch.slice(0, wanted)
                    found.append(batch)
                    wanted -= batch.num_rows
        finally:
            token.remove_waker(self.recording.wake)
        return found

    def _more(self, deadline: float) -> bool:
        """Read on, waiting for changes if there is time; False when that is over."""
        changes = self.recording.read(self.after)
        if not changes:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.recording.wait(self.after, min(left, PATIENCE_S))
            return True
        for change in changes:
            if self.since_us is None or change.time_us >= self.since_us:
                self._left.append(change_batch(change.version, change.delta, self.schema))
        self.after = changes[-1].version
        return True

    def close(self) -> None:
        """Let what was read go; the subscription keeps its changes."""
        self._left.clear()


def change_batch(version: int, delta: Delta, schema: Schema) -> pa.RecordBatch:
    """version, weight and the rows."""
    n = delta.num_rows
    head = [pa.array(np.full(n, version, np.int64)), pa.array(delta.weights_or_ones())]
    return make_batch([*head, *delta.batch.columns], schema.arrow, n)


def check_scroll(cursor: Cursor, scroll: bool) -> None:
    """Raises: ObjectNotInPrerequisiteState (55000) for SCROLL over a stream."""
    if scroll and not isinstance(cursor, QueryCursor):
        raise ObjectNotInPrerequisiteState(
            "a SUBSCRIBE cursor can not scroll", hint="Leave SCROLL out, and FETCH forward only."
        )
