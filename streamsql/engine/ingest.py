"""All sources of a database: opening and closing them, and draining their queues into ticks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamsql.core.delta import Delta
from streamsql.core.logical_time import END_OF_TIME
from streamsql.engine.catalog import Catalog
from streamsql.engine.dml.conflicts import insert_overwrite
from streamsql.engine.dml.pending import TableImage
from streamsql.engine.relations import Relation
from streamsql.engine.requests import SourceInput, Tick
from streamsql.engine.sources import Arrival, Mark, SourceRuntime

if TYPE_CHECKING:
    from streamsql.engine.commit import Committer
    from streamsql.engine.engine import Engine

TICK_ROWS = 100_000
"""Source rows of one tick at most."""

SAMPLE_ROWS = 10_000_000
FLUSH_PATIENCE_S = 30.0


class Ingest:
    """The sources of one engine; `drain` and the changing methods run on the engine thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._taken: dict[int, tuple[SourceRuntime, Mark, list[tuple[int, Arrival]]]] = {}

    @property
    def sources(self) -> dict[int, SourceRuntime]:
        return self.engine.sources

    def open(self, relation: Relation, catalog: Catalog, *, check: bool = True) -> SourceRuntime:
        """A source that does not read yet. check: not while a database is opened again, where
        a file that is gone stops its source and nothing else.

        Raises: errors of its options, and of what it finds.
        """
        source = SourceRuntime(relation, catalog, self.engine.scheduler.poke)
        if check and self.engine.replay_us is None:
            source.check()
        return source

    def add(self, sources: dict[int, SourceRuntime]) -> None:
        """They are part of the database now; tables start to be filled at once."""
        self.sources.update(sources)
        if self.engine.replay_us is None:
            for source in sources.values():
                if source.is_table:
                    source.start()
        self.start_read_sources()

    def start_read_sources(self) -> None:
        """Start every source that a view reads: it keeps no rows, so it waits for its readers. Not
        during replay, which brings the rows itself, and the positions to go on from."""
        if self.engine.replay_us is not None:
            return
        circuit = self.engine.circuit
        for oid, source in self.sources.items():
            if not source.started and circuit.nodes[self.engine.nodes[oid]].consumers:
                source.start()

    def expect(self, now_us: int) -> None:
        """Rows are expected of every source that a view reads: from now on it may fall idle."""
        circuit = self.engine.circuit
        for oid, source in self.sources.items():
            if source.tracker is not None and circuit.nodes[self.engine.nodes[oid]].consumers:
                source.tracker.begin(now_us)

    def remove(self, oid: int) -> None:
        """Close the source of a dropped relation."""
        source = self.sources.pop(oid, None)
        if source is not None:
            source.close()

    def close(self) -> None:
        """Stop all readers."""
        for source in self.sources.values():
            source.close()

    # --- draining -------------------------------------------------------------------------------
    def has_input(self) -> bool:
        """Whether rows wait in some queue."""
        return any(s.queue.rows for s in self.sources.values())

    def drain(self, committer: Committer) -> Tick | None:
        """A tick of what waits and of what the clock did; None if there is nothing."""
        self._taken = {}
        engine = self.engine
        waiting = [s for s in self.sources.values() if s.queue.rows]
        now_us = engine.advance_now()
        watermarks = self.clock(now_us)
        if not waiting and not watermarks and not engine.circuit_due(now_us):
            return None
        tick = committer.new_tick()
        tick.watermarks.update(watermarks)
        tick.idle.update(self.idle())
        tick.timed = True
        with engine.lock:
            self._fill(tick, waiting)
        return tick

    def _fill(self, tick: Tick, waiting: list[SourceRuntime]) -> None:
        """Take rows of what waits, up to TICK_ROWS. Of sources with a watermark always the one that
        is furthest behind comes next: what is joined stays together, and nothing waits for long in
        the state of the one because another one is full. Those without get an equal share."""
        left = TICK_ROWS
        timed = [s for s in waiting if self._watermark(s) is not None]
        untimed = [s for s in waiting if self._watermark(s) is None]
        for i, source in enumerate(untimed):
            left -= self._take_from(source, left // (len(waiting) - i), tick)
        while timed and left > 0:
            source = min(timed, key=lambda s: self._watermark(s) or 0)
            if source.queue.next_rows > left and self._taken:
                return  # it would make a tick that is too large
            left -= self._take_from(source, 1, tick)
            timed = [s for s in timed if s.queue.rows]

    def _watermark(self, source: SourceRuntime) -> int | None:
        """Where a source is in event time, µs; None if it does not say."""
        tracker = source.tracker
        if source.is_table:
            tracker = self.engine.tables[source.relation.oid].tracker
        return None if tracker is None else tracker.value

    def _take_from(self, source: SourceRuntime, rows: int, tick: Tick) -> int:
        """Take whole entries of so many rows, at least one; returns their rows. Under the lock."""
        entries = source.queue.take(rows)
        self._taken.setdefault(source.relation.oid, (source, source.mark(), []))[2].extend(entries)
        for _, arrival in entries:
            self._take(source, arrival, tick)
        return sum(n for n, _ in entries)

    def clock(self, now_us: int) -> dict[int, int]:
        """Let the clock pass for idle relations: those whose watermark rose or which fell idle,
        with their watermarks."""
        moved: dict[int, int] = {}
        for oid, tracker in self.engine.trackers():
            timed = tracker.policy.idle_timeout_us is not None or tracker.state.idle_us is not None
            if timed and tracker.clock(now_us):
                moved[oid] = tracker.value
        return moved

    def idle(self) -> dict[int, int | None]:
        """Since when relations that have an idle timeout are idle, µs; None: they are active."""
        return {
            oid: tracker.state.idle_us
            for oid, tracker in self.engine.trackers()
            if tracker.policy.idle_timeout_us is not None or tracker.state.begun_us is not None
        }

    def _take(self, source: SourceRuntime, arrival: Arrival, tick: Tick) -> None:
        """Under the state lock."""
        engine = self.engine
        oid = source.relation.oid
        for partition, offset, payload, reason in arrival.bad:
            schema, name = source.relation.schema, source.relation.name
            tick.source_errors.append((name, partition, offset, payload, reason, schema))
        rows = arrival.rows
        if source.is_table and rows.num_rows:
            table = engine.tables[oid]
            retract, insert = table.no_rows(), rows
            if source.relation.primary_key:
                merge = source.relation.on_conflict == "update_if_not_null"
                resolved = insert_overwrite(TableImage(table), rows, merge=merge)
                retract, insert = resolved.retract, resolved.insert
            change = table.prepare(retract, insert, tick.now_us, arrival.partition)
            table.apply(change, tick.version, engine.keep(table.relation))
            tick.changes.append(change)
        elif not source.is_table:
            tick.inputs.append(self._input(source, arrival, tick))
        source.note(arrival)
        tick.positions.setdefault(oid, {})[arrival.partition] = arrival.offset

    def _input(self, source: SourceRuntime, arrival: Arrival, tick: Tick) -> SourceInput:
        tracker = source.tracker
        before = None if tracker is None else tracker.state
        row_watermark = None
        watermark = END_OF_TIME
        ahead = None
        if tracker is not None:
            observed = tracker.observe(arrival.rows, tick.now_us, arrival.partition)
            row_watermark, watermark, ahead = observed.before, tracker.value, observed.ahead
        delta = Delta(arrival.rows, None, row_watermark)
        return SourceInput(source.relation.oid, arrival.partition, delta, watermark, before, ahead)

    def replay_input(self, source: SourceRuntime, arrival: Arrival, tick: Tick) -> None:
        """Source rows out of the log."""
        tick.inputs.append(self._input(source, arrival, tick))
        source.count(arrival)

    def rewind(self) -> None:
        """The tick of the last `drain` failed: its rows go back to their queues."""
        for source, mark, entries in self._taken.values():
            source.reset(mark)
            source.queue.put_back(entries)
        self._taken = {}

    # --- reads ----------------------------------------------------------------------------------
    def history(self, oid: int) -> Delta:
        """What a new view over a source starts with: all rows it has delivered."""
        source = self.sources[oid]
        if not source.runs:
            return Delta.empty(source.relation.columns)
        return source.history(self.engine.advance_now())

    def sample(self, oid: int) -> pa.Table:
        """The rows of a source for a plain SELECT."""
        return self.sources[oid].sample(SAMPLE_ROWS)

    def flush(self) -> list[SourceRuntime]:
        """Wait until what the sources have to give now is in the views; those that have failed.
        From session threads."""
        deadline = time.monotonic() + FLUSH_PATIENCE_S
        sources = [s for s in self.sources.values() if s.started]
        for source in sources:
            source.wait_delivered(deadline)
        while any(s.queue.rows for s in sources) and time.monotonic() < deadline:
            self.engine.scheduler.call(lambda: None)
            time.sleep(0.001)
        self.engine.scheduler.call(lambda: None)
        return [s for s in sources if s.status == "failed"]

    def save(self) -> dict[int, Any]:
        """Positions and counts, for the manifest."""
        return {
            oid: {
                "positions": s.positions,
                "runs": s.runs,
                "rows": s.rows,
                "tracker": None if s.tracker is None else s.tracker.save(),
            }
            for oid, s in self.sources.items()
        }

    def load(self, oid: int, saved: dict[str, Any]) -> None:
        """Inverse of `save`, for one source."""
        source = self.sources[oid]
        source.positions = saved["positions"]
        source.runs = saved["runs"]
        source.rows = saved["rows"]
        if source.tracker is not None and saved["tracker"] is not None:
            source.tracker.load(saved["tracker"])
