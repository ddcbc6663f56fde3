"""The changes of one relation that a subscription keeps: the newest in memory, the rest on disk.

A record of the log is `version, time, flags`, then an Arrow batch of the changed rows (with a last
column of weights where they are not all 1). The log is not synced with every tick: what a crash
takes of its end, the write-ahead log of the database makes anew, because the log is synced before
a checkpoint lets go of that.
"""

from __future__ import annotations

import bisect
import struct
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta
from streamsql.core.errors import DiskError
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT
from streamsql.engine.records import batch_bytes, batch_from
from streamsql.engine.storage.changelog import not_retained
from streamsql.state.wal import WriteAheadLog

HEAD = struct.Struct("<qqI")
WEIGHTED = 1

SEGMENT_BYTES = 8 << 20
MARK_EVERY = 64
"""Records between two places that are known by version and time."""

TAIL_BYTES = 4 << 20
"""Newest changes that are read from memory, where there is a log."""

MEMORY_BYTES = 256 << 20
"""All that is kept of a subscription in a database without a directory."""

CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class KeptChange:
    """What one tick did. time_us: of the tick."""

    version: int
    time_us: int
    delta: Delta

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return int(self.delta.batch.nbytes) + 8 * self.delta.num_rows


@dataclass(frozen=True)
class Mark:
    """A record's place. before: the version of the record before it."""

    before: int
    time_us: int
    lsn: int


class ChangeStore:
    """Changes later than `floor`, oldest first. Safe to use from several threads: one appends,
    others read.

    schema: of the rows. log: where they are kept, None = memory only. A record without rows says
    that changes are kept from its version on: the first one, and one behind a hole that a full disk
    has made. failed: there is such a hole at the end.
    """

    def __init__(self, schema: Schema, log: WriteAheadLog | None, version: int, us: int) -> None:
        self.schema = schema
        self.log = log
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # a reader of the log, or who drops its beginning
        self._tail: deque[KeptChange] = deque()
        self._tail_bytes = 0
        self._marks: list[Mark] = []
        self._records = 0
        self.floor = self.newest = version
        self.failed = False
        if log is not None and log.last_lsn:
            self._scan(log)
        else:
            self._write(KeptChange(version, us, Delta.empty(schema)))
        self._tail_floor = self.newest

    def _scan(self, log: WriteAheadLog) -> None:
        """What is in a log that was there before."""
        for lsn, payload in log.replay(log.first_lsn):
            version, us, _ = HEAD.unpack_from(payload)
            if len(payload) == HEAD.size:
                self.floor = version
                self._marks.clear()
            elif not self._records:  # records before it were dropped when their time was over
                self.floor = version - 1
            self._mark(self.newest if self._records else self.floor, us, lsn)
            self.newest = version

    @property
    def nbytes(self) -> int:
        """Bytes in memory and on disk."""
        with self._lock:
            return self._tail_bytes + (0 if self.log is None else self.log.nbytes)

    # --- writing (engine thread) ----------------------------------------------------------------
    def append(self, version: int, us: int, delta: Delta) -> None:
        """Keep a change; those that are there already (a replay) are passed over."""
        if version <= self.newest:
            return
        change = KeptChange(version, us, delta)
        with self._lock:
            self._write(change)
            self._tail.append(change)
            self._tail_bytes += change.nbytes
            self.newest = version
            limit = MEMORY_BYTES if self.log is None else TAIL_BYTES
            while self._tail_bytes > limit and len(self._tail) > 1:
                gone = self._tail.popleft()
                self._tail_bytes -= gone.nbytes
                self._tail_floor = gone.version
                if self.log is None:
                    self.floor = gone.version

    def _write(self, change: KeptChange) -> None:
        if self.log is None:
            return
        weights = change.delta.weights
        batch = change.delta.batch
        if weights is not None:
            arrow = self._weighted.arrow
            batch = pa.RecordBatch.from_arrays([*batch.columns, pa.array(weights)], schema=arrow)
        head = HEAD.pack(change.version, change.time_us, 0 if weights is None else WEIGHTED)
        before = self.newest
        try:
            if self.failed:
                self.log.append(HEAD.pack(self.floor, change.time_us, 0))
                self.failed = False
            lsn = self.log.append(head, batch_bytes(batch))
        except DiskError:
            # nobody may read on over the hole: what comes later is kept from here on
            self.failed = True
            self.floor = change.version
            self._marks.clear()
            return
        self._mark(before, change.time_us, lsn)

    def _mark(self, before: int, us: int, lsn: int) -> None:
        if self._records % MARK_EVERY == 0 or not self._marks:
            self._marks.append(Mark(before, us, lsn))
        self._records += 1

    @property
    def _weighted(self) -> Schema:
        return Schema((*self.schema.columns, Column("\x00weight", BIGINT, False)))

    def sync(self) -> None:
        """Make it durable. Raises: DiskError (58030)."""
        if self.log is not None:
            self.log.sync()

    def trim(self, before_us: int) -> None:
        """Forget what is older, as far as it can be told without reading; a reader is not waited
        for."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            with self._lock:
                if self.log is None:
                    while self._tail and self._tail[0].time_us < before_us:
                        gone = self._tail.popleft()
                        self._tail_bytes -= gone.nbytes
                        self.floor = self._tail_floor = gone.version
                    return
                at = bisect.bisect_left(self._marks, before_us, key=lambda m: m.time_us) - 1
                if at > 0:
                    self.floor = max(self.floor, self._marks[at].before)
                    del self._marks[:at]
                    self.log.truncate(self._marks[0].lsn)
        finally:
            self._reading.release()

    def close(self) -> None:
        """Let the log go. Raises: DiskError (58030)."""
        if self.log is not None:
            self.log.close()

    # --- reading --------------------------------------------------------------------------------
    def read(self, after: int) -> list[KeptChange]:
        """The next changes later than a version, oldest first; [] if there are none yet.

        Raises: SerializationFailure (40001) if they are no longer all there.
        """
        with self._lock:
            if after < self.floor:
                raise not_retained(after, self.floor, "")
            if after >= self._tail_floor:
                return [c for c in self._tail if c.version > after]
            at = bisect.bisect_right(self._marks, after, key=lambda m: m.before) - 1
            start = self._marks[max(at, 0)].lsn
        with self._reading:
            return list(self._chunk(start, after))

    def _chunk(self, lsn: int, after: int) -> Iterator[KeptChange]:
        """Changes from the log; enough of them for a while."""
        assert self.log is not None
        size = 0
        for _, payload in self.log.replay(lsn):
            version, us, flags = HEAD.unpack_from(payload)
            if version <= after or len(payload) == HEAD.size:
                continue
            yield KeptChange(version, us, self._delta(payload[HEAD.size :], flags))
            size += len(payload)
            if size > CHUNK_BYTES:
                return

    def _delta(self, data: bytes, flags: int) -> Delta:
        if not flags & WEIGHTED:
            return Delta(batch_from(data, self.schema))
        batch = batch_from(data, self._weighted)
        weights = np.asarray(batch.column(batch.num_columns - 1), np.int64)
        rows = batch.select(list(range(batch.num_columns - 1)))
        return Delta(rows, weights)
