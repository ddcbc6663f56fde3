"""The engine: everything that one database holds in memory, and the thread that changes it.

Who may touch what: the engine thread changes everything; rows, versions, the catalog and the
subscriptions under `lock`, which readers take for as long as it takes to note which rows they will
read. Operators and circuit belong to the engine thread alone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from streamsql.circuit.checks import configured_checks
from streamsql.circuit.graph import Circuit, NodeFailed
from streamsql.circuit.operator import Step
from streamsql.core.clock import Clock, ManualClock, SystemClock
from streamsql.core.delta import Delta
from streamsql.core.errors import (
    AdminShutdown,
    StreamSqlError,
    UndefinedTable,
)
from streamsql.engine.build import CatalogBuilder
from streamsql.engine.catalog import Catalog
from streamsql.engine.commit import Committer
from streamsql.engine.dml.pending import PendingWrites
from streamsql.engine.durability import Durability, open_durability
from streamsql.engine.indexes import Indexes
from streamsql.engine.ingest import Ingest
from streamsql.engine.jobs import Jobs
from streamsql.engine.late_changes import LateChanges
from streamsql.engine.layouts import LayoutRows
from streamsql.engine.past import Past
from streamsql.engine.reads.duck import DuckPool
from streamsql.engine.reads.view import ReadView, Stored
from streamsql.engine.recordings import Recordings
from streamsql.engine.relations import Owner, Relation
from streamsql.engine.requests import CommitRequest, Tick
from streamsql.engine.sources import SourceRuntime
from streamsql.engine.storage.changelog import Keep
from streamsql.engine.storage.retention import Retention
from streamsql.engine.storage.table import TableState
from streamsql.engine.storage.view import ViewState
from streamsql.engine.storage.watermarks import WatermarkTracker
from streamsql.engine.subscriptions import Hub
from streamsql.engine.system import SystemState, system_relations
from streamsql.engine.system_feeds import SystemFeeds, is_system
from streamsql.runtime.scheduler import Scheduler
from streamsql.state.filesystem import FileSystem


class Engine:
    """One database's state. version: the newest published version (0 = nothing happened yet)."""

    def __init__(
        self, path: str | None, clock: Clock | None = None, files: FileSystem | None = None
    ) -> None:
        self.catalog = Catalog(system_relations())
        self.tables: dict[int, TableState] = {}
        self.views: dict[int, ViewState] = {}
        self.sources: dict[int, SourceRuntime] = {}
        self.nodes: dict[int, int] = {}
        self.views_of_node: dict[int, list[ViewState]] = {}
        self.circuit = Circuit(configured_checks())
        self.clock: Clock = clock or SystemClock()
        self.lock = threading.RLock()
        self.version = 0
        self.hub = Hub()
        self.retention = Retention()
        self.pool = DuckPool()
        self._pins: Counter[int] = Counter()
        self._now_us = 0
        self.replay_us: int | None = None
        self.doomed: frozenset[int] = frozenset()  # views that a replay need not make
        self.closed = False
        self.committer = Committer(self)
        self.indexes = Indexes(self)
        self.recordings = Recordings(self)
        self.builder = CatalogBuilder(self)
        self.jobs = Jobs(self)
        self.ingest = Ingest(self)
        self.system = SystemState(self)
        self.late_changes = LateChanges(self)
        self.past = Past(self)
        self.feeds = SystemFeeds(self)
        self.scheduler: Scheduler[CommitRequest] = Scheduler(
            commit=self.committer.commit,
            has_input=self.ingest.has_input,
            next_due_us=self.next_due_us,
            now_us=self.clock_us,
            real_time=lambda: not isinstance(self.clock, ManualClock),
        )
        self.durability: Durability = open_durability(self, path, files)
        self.durability.recover()
        self.indexes.sync()
        self.recordings.sync()
        self.ingest.add(dict(self.sources))
        self.scheduler.start()
        self.jobs.resume()

    # --- time -----------------------------------------------------------------------------------
    def clock_us(self) -> int:
        """The clock, µs; it is never behind the newest tick. During replay: the record's."""
        if self.replay_us is not None:
            return self.replay_us
        return max(self.clock.now_us(), self._now_us)

    def advance_now(self) -> int:
        """The clock for a tick: from now on time is not earlier than this."""
        self._now_us = self.clock_us()
        return self._now_us

    def restore_now(self, now_us: int) -> None:
        """Replay: time is at least this."""
        self._now_us = max(self._now_us, now_us)

    def set_clock(self, mode: str) -> None:
        """`SET streamsql.clock`: system or manual. Engine thread."""
        if mode == "manual" and not isinstance(self.clock, ManualClock):
            self.clock = ManualClock(self.clock_us())
        elif mode == "system" and isinstance(self.clock, ManualClock):
            self.clock = SystemClock()

    def settings(self) -> dict[str, str]:
        """Values of variables that belong to the server, not to a session."""
        manual = isinstance(self.clock, ManualClock)
        clock = {"streamsql.clock": "manual" if manual else "system"}
        return clock | self.retention.settings()

    def trackers(self) -> Iterator[tuple[int, WatermarkTracker]]:
        """(relation, its watermark tracker) of everything that has one."""
        for oid, table in list(self.tables.items()):
            if table.tracker is not None:
                yield oid, table.tracker
        for oid, source in list(self.sources.items()):
            if source.tracker is not None:
                yield oid, source.tracker

    def next_due_us(self) -> int | None:
        """When the clock alone will change something, µs."""
        due = [self.circuit.next_timer_us()]
        now_us = self.clock_us()
        due += [t.next_due_us(now_us) for _, t in self.trackers() if t.policy.idle_timeout_us]
        return min((d for d in due if d is not None), default=None)

    def circuit_due(self, now_us: int) -> bool:
        """Whether an operator waits for this time."""
        due = self.circuit.next_timer_us()
        return due is not None and due <= now_us

    # --- the circuit ----------------------------------------------------------------------------
    def step_circuit(
        self,
        step: Step,
        deltas: Mapping[int, list[Delta]],
        watermarks: Mapping[int, int],
        idle: Mapping[int, int | None],
        failed: list[NodeFailed],
    ) -> dict[int, Delta]:
        """One tick of all views. failed: gets what operators raised (`heal`)."""
        nodes = self.circuit.nodes
        given = {n: parts for n, parts in deltas.items() if nodes[n].consumers}
        return self.circuit.step(step, given, watermarks, idle, failed)

    def own_nodes(self, view: ViewState, nodes: Mapping[int, int] | None = None) -> list[int]:
        """The nodes that compute a view from the relations it names, in topological order. nodes:
        of relations by OID, where some are being made."""
        if view.node not in self.circuit.nodes:
            return []
        nodes = nodes or self.nodes
        borders = {nodes[oid] for oid in view.compiled.reads if oid in nodes} - {view.node}
        found: set[int] = set()
        stack = [view.node]
        while stack:
            node_id = stack.pop()
            node = self.circuit.nodes.get(node_id)
            if node is not None and node_id not in found and node_id not in borders:
                found.add(node_id)
                stack.extend(node.inputs)
        return sorted(found)

    def owners_of(self, node_id: int, port: int | None = None) -> list[Owner]:
        """The views that a node works for, with the relations they read that reach it.

        port: the input of the node that is asked about; None = all of them.
        """
        by_node = {node: oid for oid, node in self.nodes.items()}
        owners = []
        for view in self.views.values():
            if node_id not in self.own_nodes(view):
                continue
            inputs = self.circuit.nodes[node_id].inputs
            stack = list(inputs if port is None else inputs[port : port + 1])
            seen: set[int] = set()
            while stack:
                below = stack.pop()
                if below not in seen:
                    seen.add(below)
                    if below == view.node or below not in by_node:
                        stack += self.circuit.nodes[below].inputs
            borders = sorted(seen & by_node.keys() - {view.node})
            relations = dict.fromkeys(self.relation_name(by_node[i]) for i in borders)
            own = view.relation
            owners.append(Owner(own.oid, own.schema, own.name, ", ".join(relations)))
        return owners

    def relation_name(self, oid: int) -> str:
        """Its name, also by a layout of it; that of a subscription's view; or its number while it
        is being made."""
        return self.qualified_name(oid)[1]

    def qualified_name(self, oid: int) -> tuple[str | None, str]:
        """(schema, name) of `relation_name`; no schema while it is being made."""
        layout = self.catalog.layouts.get(oid)
        relation = self.catalog.relations.get(oid if layout is None else layout.of)
        if relation is None and oid in self.views:
            relation = self.views[oid].relation
        return (None, str(oid)) if relation is None else (relation.schema, relation.name)

    # --- reading --------------------------------------------------------------------------------
    def stored(self, oid: int) -> Stored | None:
        """Rows of a table or view; None for what is computed when it is read."""
        return None if is_system(self.catalog.relations.get(oid)) else self.maintained(oid)

    def maintained(self, oid: int) -> Stored | None:
        """The same, with system relations as the views over them see them."""
        found = self.tables.get(oid) or self.views.get(oid)
        if found is None and oid in self.catalog.layouts:
            layout = self.catalog.layouts[oid]
            base = self.stored(layout.of)
            return None if base is None else LayoutRows(layout, base)
        return found

    def read_view(
        self,
        version: int | None = None,
        pending: Mapping[int, PendingWrites] | None = None,
        stored: Callable[[int], Stored | None] | None = None,
    ) -> ReadView:
        """A view of one version (None = the newest published) and a transaction's writes.

        stored: where the rows of a relation are, if a transaction has made some itself.
        """
        return ReadView(
            self.version if version is None else version,
            stored or self.stored,
            self.lock,
            self.virtual,
            pending or {},
        )

    def virtual(self, oid: int) -> pa.Table:
        """Rows of a system relation or of a source."""
        if oid in self.catalog.layouts:
            layout = self.catalog.layouts[oid]
            return layout.table(self.virtual(layout.of))
        relation = self.catalog.relations.get(oid)
        if relation is not None and relation.kind == "system":
            return self.system.table(relation.name)
        if relation is not None and relation.kind == "source":
            return self.ingest.sample(oid)
        raise UndefinedTable(
            "a relation of the query was dropped by another session",
            hint="Run the statement again: it says which.",
        )

    def view_failure(self, view: ViewState) -> Exception | None:
        """Why reads of a view give an error, or None. A view over a failed one has no right rows
        either."""
        below = set(self.circuit.cone(view.node)) if view.node in self.circuit.nodes else set()
        for other in list(self.views.values()):
            if other is not view and other.node not in below:
                continue
            if other.broken is not None:
                return other.broken
            if other.relation.options.get("on_error") == "fail":
                for node_id in self.own_nodes(other):
                    failure = self.circuit.nodes[node_id].operator.failure()
                    if failure is not None:
                        return view_error(*failure)
        return None

    def check_views(self, oids: set[int]) -> None:
        """Raises: the error that a view among these fails with (`on_error = 'fail'`)."""
        for oid in oids:
            layout = self.catalog.layouts.get(oid)
            view = self.views.get(oid if layout is None else layout.of)
            if view is not None:
                failure = self.view_failure(view)
                if failure is not None:
                    raise failure

    # --- pins -----------------------------------------------------------------------------------
    def pin(self) -> int:
        """The newest version, kept readable until `unpin`."""
        with self.lock:
            self._pins[self.version] += 1
            return self.version

    def unpin(self, version: int) -> None:
        """Undo one `pin`."""
        with self.lock:
            self._pins[version] -= 1
            if not self._pins[version]:
                del self._pins[version]

    @property
    def pinned(self) -> int | None:
        """The oldest version that a transaction may still read."""
        return min(self._pins, default=None)

    # --- old versions ---------------------------------------------------------------------------
    def keep(self, relation: Relation) -> Keep:
        """Which of its changes a relation may not forget."""
        return self.retention.keep(relation.options, self.pinned, self._now_us)

    def published(self, ticks: Sequence[Tick]) -> None:
        """These ticks are visible. Under the state lock."""
        for tick in ticks:
            self.retention.published(tick.version, tick.now_us)
        if not self.retention.sweep_due(self._now_us):
            return
        logs = [(t.relation.options, t.log) for t in self.tables.values()]
        logs += [(v.relation.options, v.log) for v in self.views.values()]
        self.retention.sweep(logs, self.pinned, self._now_us)

    # --- writing --------------------------------------------------------------------------------
    def commit(self, request: CommitRequest) -> CommitRequest:
        """Have the engine thread do it; returns when it is durable and visible."""
        if self.closed:
            raise AdminShutdown("the database is closed")
        if self.scheduler.on_engine_thread:
            raise AssertionError("the engine thread must not wait for itself")
        done: CommitRequest = self.scheduler.submit(request).wait()
        return done

    def call(self, function: Callable[[], Any]) -> Any:
        """Run something alone on the engine thread."""
        if self.closed:
            raise AdminShutdown("the database is closed")
        return self.scheduler.call(function)

    def close(self) -> None:
        """Stop sources and engine thread, write a checkpoint, free the data directory."""
        if self.closed:
            return
        self.closed = True
        self.jobs.close()
        self.ingest.close()
        self.scheduler.stop()
        with self.lock:
            self.hub.close(AdminShutdown("the database is closed"))
        self.durability.close()
        self.recordings.close()
        self.pool.close()


def view_error(sqlstate: str, message: str) -> StreamSqlError:
    """The error of a failed view, with its own SQLSTATE."""
    from streamsql.functions.duckdb_errors import error_class

    return error_class(sqlstate)(
        message,
        hint="Correct or delete the row that fails; the view recovers by itself.",
    )
