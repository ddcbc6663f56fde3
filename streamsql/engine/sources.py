"""One source at work: its reader's thread, its queue, what it has delivered so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Delta, concat
from streamsql.core.errors import DataError
from streamsql.core.logical_time import END_OF_TIME
from streamsql.core.schema import Schema
from streamsql.dialect.statements import CreateTable
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.definitions import standing_program
from streamsql.engine.dml.rows import RowMaker, row_text
from streamsql.engine.relations import Relation
from streamsql.engine.storage.watermarks import WatermarkTracker
from streamsql.engine.tables import watermark_tracker
from streamsql.runtime.scheduler import IngestQueue

QUEUE_ROWS = 400_000
POLL_ROWS = 100_000
IDLE_SLEEP_S = 0.05
HISTORY_PATIENCE_S = 5.0
SETTLE_S = 0.15
"""Readers look for new files and the like only so often; FLUSH waits at least for that."""

BadInput = tuple[str, str, str, str]
"""(partition, offset, payload, reason)."""

Mark = tuple[dict[str, Any], int, list[Any], int]
"""What `SourceRuntime.reset` goes back to."""


@dataclass
class Arrival:
    """Rows of one partition on their way to the engine. rows: user's schema, whole. stop: why the
    source ends here (on_error = 'fail'); rows and offset are then those before the bad row."""

    partition: str
    rows: pa.RecordBatch
    offset: Any
    bad: list[BadInput] = field(default_factory=list)
    stop: str | None = None


class SourceRuntime:
    """A CREATE SOURCE, or a table that is fed by a connector.

    positions: partition → position after the last durable row. runs: [partition, rows] in the
    order of arrival, by which the past can be read again. status: starting | running | finished |
    failed | paused. tracker: of a source; a table keeps its own.
    """

    def __init__(self, relation: Relation, catalog: Catalog, wake: Callable[[], None]) -> None:
        self.relation = relation
        program = standing_program(relation, BindScope(catalog, relation.context))
        self.maker = RowMaker(relation, program)
        self.is_table = relation.kind == "table"
        self._program = program
        self.tracker = None if self.is_table else watermark_tracker(relation, program)
        self.positions: dict[str, Any] = {}
        self.runs: list[list[Any]] = []
        self.rows = 0
        self.status = "starting"
        self.error: str | None = None
        self.started_us: int | None = None
        self.queue: IngestQueue[Arrival] = IngestQueue(QUEUE_ROWS, wake)
        self._wake = wake
        self._stop = threading.Event()
        self._polled = threading.Condition()
        self._idle_since: float = 0.0  # when the last poll that found nothing began
        self._thread: threading.Thread | None = None
        self._include = included_columns(relation)
        own = {*self.maker.generated, *(i for i, _ in self._include)}
        delivered = [i for i in range(len(relation.columns)) if i not in own]
        self._delivered = delivered
        self.reader_schema = relation.columns.select(delivered)

    def check(self) -> None:
        """Open and close a reader once, so that wrong options fail the CREATE."""
        reader = self._open()
        try:
            reader.probe()
        finally:
            reader.close()

    def _open(self, *, paced: bool = True) -> Any:
        from streamsql.connectors.registry import open_source

        relation = self.relation
        statement = relation.statement
        format_ = statement.format if isinstance(statement, CreateTable) else None
        column = relation.watermark_column
        time_column = self._delivered.index(column) if column in self._delivered else None
        reader = open_source(
            relation.options, self.reader_schema, format_, time_column=time_column, paced=paced
        )
        if self._include:
            reader.include([kind for _, kind in self._include])
        return reader

    # --- the reader thread ----------------------------------------------------------------------
    @property
    def started(self) -> bool:
        """Whether rows are (or were) being read."""
        return self._thread is not None

    def start(self) -> None:
        """Begin to read after the known positions; once. Not while it is suspended."""
        if self.relation.extra.get("paused"):
            self.status = "paused"
            return
        if self._thread is None and not self._stop.is_set():
            self.status = "running"
            self.started_us = time.time_ns() // 1000
            self._thread = threading.Thread(
                target=self._run, name=f"streamsql-source-{self.relation.name}", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        reader = None
        try:
            reader = self._open()
            if self.positions:
                reader.seek(dict(self.positions))
            while not self._stop.is_set():
                asked = time.monotonic()
                batches = reader.poll(POLL_ROWS)
                for batch in batches:
                    arrival = self._whole(batch)
                    n = arrival.rows.num_rows
                    if (n or arrival.stop is None) and not self.queue.put(max(1, n), arrival):
                        return
                    if arrival.stop is not None:
                        raise row_refused(arrival.stop)
                if batches:
                    continue
                with self._polled:
                    self._idle_since = asked
                    self._polled.notify_all()
                if reader.finished:
                    self.status = "finished"
                    return
                self._stop.wait(IDLE_SLEEP_S)
        except Exception as error:
            self.status = "failed"
            self.error = str(error)
            self._wake()
        finally:
            with self._polled:
                self._idle_since = END_OF_TIME
                self._polled.notify_all()
            if reader is not None:
                reader.close()

    def _whole(self, batch: Any) -> Arrival:
        """A reader's batch with generated columns, without rows that break NOT NULL or CHECK."""
        rows = batch.batch
        now_us = time.time_ns() // 1000
        if rows.num_rows or not self.maker.generated:
            given = dict(zip(self._delivered, rows.columns, strict=True))
            given.update({at: batch.included[kind] for at, kind in self._include})
            rows = self.maker.complete(given, rows.num_rows, now_us, self.relation.context.timezone)
        else:
            rows = pa.RecordBatch.from_pylist([], schema=self.relation.columns.arrow)
        broken = broken_rows(rows, self.maker)
        if self.relation.options.get("on_error") == "fail" and (broken or batch.bad_rows):
            return _up_to_the_first(batch, rows, broken)
        bad = [(b.partition, str(b.offset), b.payload, b.reason) for b in batch.bad_rows]
        if broken:
            bad += [(batch.partition, str(batch.offset), text, why) for _, text, why in broken]
            keep = np.ones(rows.num_rows, np.bool_)
            keep[[at for at, _, _ in broken]] = False
            rows = rows.filter(pa.array(keep))
        return Arrival(batch.partition, rows, batch.offset, bad)

    def wait_delivered(self, deadline: float) -> None:
        """Wait until the reader has looked again and found nothing more, or until the deadline."""
        if self._thread is None:
            return
        looked = time.monotonic() + SETTLE_S
        with self._polled:
            while self._idle_since < looked and time.monotonic() < deadline:
                self._polled.wait(0.1)

    def close(self) -> None:
        """Stop the reader; what waits in the queue is dropped."""
        self._stop.set()
        self.queue.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)

    # --- the past -------------------------------------------------------------------------------
    def note(self, arrival: Arrival) -> None:
        """Count what a tick took in."""
        self.positions[arrival.partition] = arrival.offset
        self.count(arrival)

    def count(self, arrival: Arrival) -> None:
        """The rows of a tick, without their position."""
        n = arrival.rows.num_rows
        self.rows += n
        if self.runs and self.runs[-1][0] == arrival.partition:
            self.runs[-1][1] += n
        elif n:
            self.runs.append([arrival.partition, n])

    def mark(self) -> Mark:
        """The present counts, for `reset`."""
        last = list(self.runs[-1]) if self.runs else []
        return dict(self.positions), len(self.runs), last, self.rows

    def reset(self, mark: Mark) -> None:
        """Forget what was noted since `mark`: its tick failed."""
        self.positions, length, last, self.rows = mark
        del self.runs[length:]
        if last:
            self.runs[-1] = last

    def history(self, now_us: int, runs: list[list[Any]] | None = None) -> Delta:
        """All rows delivered so far (those of `runs`, which were delivered at some moment), read
        again from the beginning, with their watermarks."""
        runs = self.runs if runs is None else runs
        wanted: dict[str, int] = {}
        for partition, n in runs:
            wanted[partition] = wanted.get(partition, 0) + n
        rows = self._read_again(wanted)
        tracker: WatermarkTracker | None = watermark_tracker(self.relation, self._program)
        offsets = dict.fromkeys(wanted, 0)
        parts: list[Delta] = []
        for partition, n in runs:
            part = rows[partition].slice(offsets[partition], n)
            offsets[partition] += n
            before = None
            if tracker is not None:
                before = tracker.observe(part, now_us, partition).before
            parts.append(Delta(part, None, before))
        return concat(parts, self.relation.columns)

    def _read_again(self, wanted: dict[str, int]) -> dict[str, pa.RecordBatch]:
        found: dict[str, list[pa.RecordBatch]] = {p: [] for p in wanted}
        missing = dict(wanted)
        reader = self._open(paced=False)
        patience = time.monotonic() + HISTORY_PATIENCE_S
        try:
            while any(n > 0 for n in missing.values()):
                batches = reader.poll(POLL_ROWS)
                if not batches:
                    if reader.finished or time.monotonic() > patience:
                        break
                    time.sleep(0.005)
                    continue
                for batch in batches:
                    arrival = self._whole(batch)
                    n = missing.get(arrival.partition, 0)
                    if n > 0:
                        found[arrival.partition].append(arrival.rows.slice(0, n))
                        missing[arrival.partition] = n - arrival.rows.num_rows
        finally:
            reader.close()
        return {p: as_batch(parts, self.relation.columns) for p, parts in found.items()}

    def sample(self, max_rows: int) -> pa.Table:
        """What the source holds now, for a plain SELECT: read until there is nothing more."""
        parts: list[pa.RecordBatch] = []
        rows = 0
        reader = self._open()
        try:
            while rows < max_rows and not reader.finished:
                batches = reader.poll(min(POLL_ROWS, max_rows - rows))
                if not batches:
                    break
                for batch in batches:
                    whole = self._whole(batch)
                    if whole.stop is not None:
                        raise row_refused(whole.stop)
                    rows += whole.rows.num_rows
                    parts.append(whole.rows)
        finally:
            reader.close()
        return pa.Table.from_batches(parts, schema=self.relation.columns.arrow)


def as_batch(parts: list[pa.RecordBatch], schema: Schema) -> pa.RecordBatch:
    """One batch of all parts."""
    table = pa.Table.from_batches(parts, schema=schema.arrow).combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema.arrow)


def included_columns(relation: Relation) -> list[tuple[int, str]]:
    """(position, kind) of the columns that INCLUDE made."""
    statement = relation.statement
    if not isinstance(statement, CreateTable):
        return []
    return [(relation.columns.index(name), kind) for kind, name in statement.include]


def row_refused(why: str) -> DataError:
    """The error of a source that on_error = 'fail' has stopped."""
    return DataError(f"row refused: {why}", hint="WITH (on_error = 'skip') passes over such rows.")


Broken = list[tuple[int, str, str]]
"""(row number, the row as text, reason), in the order of rows; each row once."""


def broken_rows(rows: pa.RecordBatch, maker: RowMaker) -> Broken:
    """Rows that break NOT NULL or a CHECK constraint."""
    found: dict[int, str] = {}
    for i, column in enumerate(maker.schema):
        if column.nullable or not rows.column(i).null_count:
            continue
        why = f'null value in column "{column.name}" violates not-null constraint'
        for at in np.flatnonzero(np.asarray(pc.is_null(rows.column(i)))).tolist():
            found.setdefault(at, why)
    for name, failing in maker.failing(rows):
        for at in np.flatnonzero(failing).tolist():
            found.setdefault(at, f'row violates check constraint "{name}"')
    return [(at, row_text(rows, maker.schema, at), found[at]) for at in sorted(found)]


def _up_to_the_first(batch: Any, rows: pa.RecordBatch, broken: Broken) -> Arrival:
    """The good rows before the first bad one, and its reason."""
    bad = batch.bad_rows[0] if batch.bad_rows else None
    if bad is not None and (not broken or bad.row <= broken[0][0]):
        at, why = bad.row, f"{bad.reason}: {bad.payload}"
    else:
        at, text, reason = broken[0]
        bad, why = None, f"{reason}: {text}"
    if batch.before is None:
        return Arrival(batch.partition, rows.slice(0, 0), None, stop=why)
    return Arrival(batch.partition, rows.slice(0, at), batch.before(at, bad), stop=why)
