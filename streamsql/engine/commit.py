"""The commit path, on the engine thread: validate, log, step, publish, answer.

A group of writes goes through three phases. A: each write is checked against the tables and applied
to them, one tick each; readers go on seeing the published version, because a table that is ahead is
rewound for them. B: all ticks are written to the log with one fsync; if that fails, phase A is
undone and every writer gets the error. C: the circuit takes the ticks one by one, then all views,
the version and the subscribers move together, and the writers are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from streamsql.circuit.graph import NodeFailed
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta
from streamsql.core.errors import DiskError, InvariantViolation, UndefinedTable
from streamsql.engine import logs
from streamsql.engine.build import EngineFailed
from streamsql.engine.dml.pending import TableImage
from streamsql.engine.heal import broken_error, set_aside
from streamsql.engine.requests import (
    CommitRequest,
    SourceInput,
    StaleRead,
    Tick,
    conflict,
    was_altered,
)
from streamsql.engine.storage.table import TableChange
from streamsql.engine.storage.view import ViewState
from streamsql.runtime.scheduler import Work

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine


class Committer:
    """Phases A, B and C over one engine's state."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.next_version = 1
        self._staged: list[tuple[Tick, Work[Any] | None]] = []

    # --- the group ------------------------------------------------------------------------------
    def commit(self, group: Sequence[Work[CommitRequest]]) -> None:
        """Process a group; every work is answered."""
        self._staged = []
        for work in group:
            try:
                self._take(work)
            except Exception as error:  # nothing of it was done, whatever it was
                work.outcome.fail(error)
        self._stage_sources()
        self.finish()

    def _take(self, work: Work[CommitRequest]) -> None:
        request = work.payload
        if request.ddl:
            self.finish()
            self.engine.builder.commit_ddl(request)
            self.engine.feeds.refresh()
            work.outcome.set(request)
            self.engine.durability.checkpoint_if_due()
            return
        try:
            tick = self.stage(request)
        except StaleRead:
            self.finish()
            for write in request.writes:
                write.evaluate()
            tick = self.stage(request)
        if tick is None:
            request.version = self.engine.version
            work.outcome.set(request)
        else:
            request.version = tick.version
            self._staged.append((tick, work))

    def new_tick(self) -> Tick:
        """The next version, at the present time (which never goes back)."""
        tick = Tick(self.next_version, self.engine.advance_now())
        self.next_version += 1
        return tick

    def run_alone(self, tick: Tick) -> None:
        """Log and run a tick that is not a session's write: the clock, a watermark."""
        self.apply_time(tick)
        self.log_one(tick)
        self.run([tick])
        self.engine.feeds.refresh()

    def log_one(self, tick: Tick) -> None:
        """Make one tick durable. Raises: DiskError (58030)."""
        _, failure = self.engine.durability.log([tick])
        if failure is not None:
            raise failure

    def apply_time(self, tick: Tick) -> None:
        """Move watermarks by hand, and those that the clock moves."""
        tick.timed = True
        for relation_id, value in tick.advance.items():
            for oid, tracker in self.engine.trackers():
                if oid == relation_id:
                    tracker.advance_to(value, tick.now_us)
                    tick.watermarks[oid] = tracker.value
        tick.watermarks.update(self.engine.ingest.clock(tick.now_us))
        tick.idle.update(self.engine.ingest.idle())

    def set_clock(self, mode: str) -> None:
        """`SET streamsql.clock`: from this tick on."""
        self.engine.set_clock(mode)
        tick = self.new_tick()
        tick.clock = mode
        self.run_alone(tick)

    def set_retention(self, name: str, value: str) -> None:
        """`SET streamsql.retention` and its memory: from this tick on, and after a restart."""
        self.engine.retention.set(name, value)
        tick = self.new_tick()
        tick.settings[name] = value
        self.run_alone(tick)

    # --- phase A --------------------------------------------------------------------------------
    def stage(self, request: CommitRequest) -> Tick | None:
        """Check and apply a request's writes; None if they change nothing.

        Raises: errors of the user, with nothing changed; StaleRead.
        """
        engine = self.engine
        tick = self.new_tick()
        request.ahead.clear()
        with engine.lock:
            try:
                for write in request.writes:
                    table = request.new_tables.get(write.relation_id)
                    if table is None:
                        table = engine.tables.get(write.relation_id)
                    if table is None:
                        raise UndefinedTable(
                            "the table was dropped by another session",
                            hint="SHOW TABLES lists what there is; run the transaction again.",
                        )
                    if was_altered(write, table.relation):
                        raise conflict()  # bound before an ALTER TABLE
                    resolved = write.resolve(TableImage(table, None, request.keys_of(table)))
                    if table.indexes and engine.replay_us is None:
                        table.check_indexes(resolved.insert, request.dropped)
                    if resolved.retract.num_rows or resolved.insert.num_rows:
                        change = table.prepare(resolved.retract, resolved.insert, tick.now_us)
                        table.apply(change, tick.version, engine.keep(table.relation))
                        tick.changes.append(change)
                        if change.ahead.size:
                            request.ahead[table.relation.name] = change.ahead.size
            except BaseException:
                self.undo(tick, request.new_tables)
                raise
        if not tick.changes and not request.force:
            self.next_version -= 1
            return None
        return tick

    def undo(self, tick: Tick, new_tables: dict[int, Any] | None = None) -> None:
        """Take the tick's writes back out of the tables. Under the state lock."""
        for change in reversed(tick.changes):
            table = (new_tables or {}).get(change.relation_id)
            if table is None:
                table = self.engine.tables[change.relation_id]
            table.undo(change)
        tick.changes.clear()
        self.next_version = min(self.next_version, tick.version)
        for given in reversed(tick.inputs):
            source = self.engine.sources.get(given.relation_id)
            if source is not None and source.tracker is not None and given.before is not None:
                source.tracker.state = given.before

    def _stage_sources(self) -> None:
        tick = self.engine.ingest.drain(self)
        if tick is not None:
            self._staged.append((tick, None))

    # --- phases B and C -------------------------------------------------------------------------
    def finish(self) -> None:
        """Make what is staged durable and visible, and answer."""
        staged, self._staged = self._staged, []
        if not staged:
            return
        ticks = [tick for tick, _ in staged]
        durable, failure = self.engine.durability.log(ticks)
        if durable:
            self.run(ticks[:durable])
        if failure is None:
            self.engine.feeds.refresh()
        for _, work in staged[:durable]:
            if work is not None:
                work.outcome.set(work.payload)
        if failure is not None:
            self._give_up(staged[durable:], failure)
            return
        self.engine.durability.checkpoint_if_due()

    def _give_up(self, staged: list[tuple[Tick, Work[Any] | None]], failure: DiskError) -> None:
        """Undo ticks that could not be made durable, newest first, and tell their writers."""
        with self.engine.lock:
            for tick, _ in reversed(staged):
                self.undo(tick)
        for _, work in staged:
            if work is None:
                self.engine.ingest.rewind()
            else:
                work.outcome.fail(failure)

    def run(self, ticks: Sequence[Tick], swap: Callable[[], None] | None = None) -> None:
        """Phase C: step the circuit through the ticks and publish them.

        swap: called under the state lock, just before the version moves: puts the new definitions,
        rows and views of a DDL tick in the place of the old ones.
        Raises: EngineFailed, which ends the engine thread: these ticks are durable, so they can be
        neither refused nor left out.
        """
        try:
            self._run(ticks, swap)
        except Exception as error:
            raise EngineFailed(f"version {ticks[0].version} could not be published") from error

    def _run(self, ticks: Sequence[Tick], swap: Callable[[], None] | None) -> None:
        engine = self.engine
        results: list[tuple[Tick, Step, dict[int, Delta]]] = []
        failed: list[NodeFailed] = []
        for tick in ticks:
            step = Step(tick.version, tick.now_us)
            results.append((tick, step, self._step(tick, step, failed)))
        with engine.lock:
            for tick, step, outputs in results:
                self._publish(tick, step, outputs)
            if swap is not None:
                swap()
            engine.version = ticks[-1].version
            if failed:
                set_aside(engine, failed)
            engine.published(ticks)

    def apply_view(self, view: ViewState, delta: Delta, version: int) -> None:
        """One view's changes. Under the state lock."""
        engine = self.engine
        try:
            done = view.apply(delta, version, engine.keep(view.relation))
        except InvariantViolation as error:
            logs.error("a view has failed", view=view.relation.name, reason=str(error))
            view.broken = view.broken or broken_error(view.relation, error)
            return
        if done and engine.hub.watched(view.relation.oid):
            engine.hub.publish(view.relation.oid, version, done)

    def announce(self, view: ViewState, delta: Delta, version: int) -> None:
        """What became of a view's rows that others have taken the place of. Under the state
        lock."""
        engine = self.engine
        if delta:
            view.log.append(version, delta, engine.keep(view.relation))
            if engine.hub.watched(view.relation.oid):
                engine.hub.publish(view.relation.oid, version, delta)

    def _step(self, tick: Tick, step: Step, failed: list[NodeFailed]) -> dict[int, Delta]:
        engine = self.engine
        deltas: dict[int, list[Delta]] = {}
        # time first: what rows of the same tick did to a watermark came after it
        watermarks = {engine.nodes[oid]: w for oid, w in tick.watermarks.items()}
        idle = {engine.nodes[oid]: since for oid, since in tick.idle.items()}
        for change in tick.changes:
            node = engine.nodes[change.relation_id]
            deltas.setdefault(node, []).append(change.visible)
            watermarks[node] = change.watermark
            if change.inserted.num_rows:
                idle[node] = None
        for given in tick.inputs:
            node = engine.nodes[given.relation_id]
            deltas.setdefault(node, []).append(given.delta)
            watermarks[node] = given.watermark
            if given.delta.num_rows:
                idle[node] = None
        tick.timers = engine.past.due(tick.now_us)
        outputs = engine.step_circuit(step, deltas, watermarks, idle, failed)
        if engine.jobs.active:
            engine.jobs.feed(tick, deltas, outputs)
        return outputs

    def _publish(self, tick: Tick, step: Step, outputs: dict[int, Delta]) -> None:
        """Under the state lock."""
        engine = self.engine
        hub = engine.hub
        hub.now_us = tick.now_us
        for change in tick.changes:
            if hub.watched(change.relation_id):
                hub.publish(change.relation_id, tick.version, change.stored)
            self._note_ahead(tick, change)
        for given in tick.inputs:
            if hub.watched(given.relation_id):
                hub.publish(given.relation_id, tick.version, given.delta)
            self._note_ahead_of(tick, given)
        for node, delta in outputs.items():
            for view in engine.views_of_node.get(node, ()):
                self.apply_view(view, delta, tick.version)
        engine.system.record(tick, step)
        engine.late_changes.record(tick, step)
        engine.past.record(tick)
        hub.progressed(tick.version)

    def _note_ahead(self, tick: Tick, change: TableChange) -> None:
        if change.ahead.size:
            table = self.engine.tables.get(change.relation_id)
            if table is not None:
                self._count_ahead(change.relation_id, change.ahead.size)
                self.engine.system.record_ahead(tick, table.relation, change.inserted, change.ahead)

    def _count_ahead(self, relation_id: int, rows: int) -> None:
        node = self.engine.circuit.nodes.get(self.engine.nodes[relation_id])
        if node is not None:
            node.metrics.ahead_rows += rows

    def _note_ahead_of(self, tick: Tick, given: SourceInput) -> None:
        source = self.engine.ingest.sources.get(given.relation_id)
        if source is not None and given.ahead is not None and given.ahead.size:
            self._count_ahead(given.relation_id, given.ahead.size)
            self.engine.system.record_ahead(
                tick, source.relation, given.delta.batch, given.ahead, given.partition
            )
