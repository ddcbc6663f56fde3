"""DDL on the engine thread: what is created is built and filled, what is dropped is let go.

A request's catalog changes, its rows and its new views become visible in one tick. Everything that
can fail (names, binding, compiling, filling from the present rows) happens before the log is
written; after that nothing is undone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from streamsql.circuit.graph import NodeFailed
from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta
from streamsql.core.errors import (
    StatementError,
    UndefinedTable,
)
from streamsql.engine import alterations
from streamsql.engine.beside import with_own_nodes
from streamsql.engine.catalog import TEMP_PREFIX, Catalog
from streamsql.engine.ddl import (
    AlterRelations,
    CreateRelation,
    CreateSchemaOp,
    DdlOp,
    DropRelation,
    SetComment,
    StartJob,
)
from streamsql.engine.definitions import watermark_policy
from streamsql.engine.first_rows import nearest
from streamsql.engine.layouts import Layout
from streamsql.engine.relations import Relation
from streamsql.engine.requests import CommitRequest, Tick
from streamsql.engine.storage.changelog import ChangeLog
from streamsql.engine.storage.key_index import KeyIndex
from streamsql.engine.storage.table import TableState
from streamsql.engine.storage.view import NO_NODE, ViewState
from streamsql.engine.tables import new_table_state
from streamsql.engine.views import bind_view, compile_options
from streamsql.plan.visit import scans

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.engine.jobs import Job
    from streamsql.engine.side_circuit import SideCircuit


class EngineFailed(BaseException):
    """The state in memory is not that of the log: the engine stops. A restart replays the log."""


@dataclass
class Built:
    """What a request made so far; undone as a whole when a later part fails.

    changed: OIDs of relations with a new definition; replaced: those with a new query. suspended:
    views to stop. underpinned: (node of the rows before, what it was) of tables whose columns
    changed. layouts: those that nobody reads any more. released: holds on nodes to let go.
    steps: what operators reported while views were filled, and the views it was reported for.
    swapped: views that a job has filled → what their rows differ by from those they replace.
    jobs: those that begin; job: the one that ends.
    """

    catalog: Catalog
    tables: dict[int, TableState] = field(default_factory=dict)
    views: dict[int, ViewState] = field(default_factory=dict)
    fills: dict[int, Delta] = field(default_factory=dict)
    steps: list[tuple[Step, frozenset[int]]] = field(default_factory=list)
    nodes: dict[int, int] = field(default_factory=dict)
    sources: dict[int, Any] = field(default_factory=dict)
    dropped: list[Relation] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)
    suspended: list[int] = field(default_factory=list)
    underpinned: list[tuple[int, Operator]] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)
    indexes: list[KeyIndex] = field(default_factory=list)
    replaced: set[int] = field(default_factory=set)
    released: list[int] = field(default_factory=list)
    swapped: dict[int, Delta] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    job: Job | None = None


class CatalogBuilder:
    """Runs the DDL part of requests over one engine's state."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def commit_ddl(self, request: CommitRequest) -> None:
        """Do it all, or raise with nothing changed."""
        engine = self.engine
        engine.jobs.check_free(request.ddl, request.job)
        if request.job is None and engine.replay_us is None:
            request.ddl = with_own_nodes(request.ddl, engine.catalog.oids.allocate)
        built = Built(engine.catalog.fork(), job=request.job)
        tick: Tick | None = None
        try:
            self._apply(request, built)
            request.force = True
            tick = engine.committer.stage(replace_tables(request, built))
            assert tick is not None
            tick.ddl = tuple(op for op in request.ddl if not self._temporary(op))
            engine.committer.log_one(tick)
        except BaseException:
            if tick is not None:
                with engine.lock:
                    engine.committer.undo(tick, built.tables)
            self._discard(built)
            raise
        try:
            self.install(built, tick)
        except Exception as error:
            raise EngineFailed(f"version {tick.version} could not be installed") from error
        request.version = tick.version

    def _temporary(self, op: DdlOp) -> bool:
        """Whether a change concerns a temporary table, which no log knows of."""
        if isinstance(op, CreateRelation):
            return op.relation.temporary
        if isinstance(op, AlterRelations):
            return all(r.temporary for r in op.relations)
        if isinstance(op, DropRelation | SetComment):
            found = self.engine.catalog.relations.get(op.oid)
            return found is not None and found.temporary
        name = op.entry.name if isinstance(op, CreateSchemaOp) else getattr(op, "name", "")
        return str(name).startswith(TEMP_PREFIX)

    # --- building -------------------------------------------------------------------------------
    def _apply(self, request: CommitRequest, built: Built) -> None:
        for op in request.ddl:
            if isinstance(op, DropRelation):
                found = built.catalog.relations.get(op.oid)
                if found is None:
                    raise UndefinedTable(f'relation "{op.name}" does not exist')
                built.dropped.append(found)
            if isinstance(op, AlterRelations):
                alterations.alter(self.engine, op, built)
                continue
            op.apply(built.catalog)
            if isinstance(op, StartJob):
                if op.relation.oid in self.engine.doomed:
                    continue
                relation = op.relation if op.ops else built.catalog.bound(op.relation)
                built.jobs.append(self.engine.jobs.begin(op, relation))
            if isinstance(op, CreateRelation):
                self._create(op, request, built)
        built.layouts = built.catalog.prune_layouts()

    def _create(self, op: CreateRelation, request: CommitRequest, built: Built) -> None:
        relation = built.catalog.relations[op.relation.oid]
        if relation.kind == "table":
            table = request.new_tables.get(relation.oid)
            if table is None or not table.relation.columns.reads_as(relation.columns):
                table = new_table_state(relation, built.catalog)
            built.tables[relation.oid] = table
            built.nodes[relation.oid] = self.source_node(relation)
            if relation.connector:
                built.sources[relation.oid] = self.engine.ingest.open(relation, built.catalog)
        elif relation.kind == "source":
            built.sources[relation.oid] = self.engine.ingest.open(relation, built.catalog)
            built.nodes[relation.oid] = self.source_node(relation)
        elif relation.kind == "materialized_view":
            self.make_view(relation, built)
            alterations.add_layouts(self.engine, relation, built.catalog, built.nodes)
        elif relation.kind == "index" and self.engine.replay_us is None:
            built.indexes.append(self.engine.indexes.build(relation, built))
        elif relation.kind == "subscription":
            self.engine.recordings.prepare(relation)
        if op.replaces:
            built.changed.add(relation.oid)
            built.replaced.add(relation.oid)

    def restore_watermark(self, relation: Relation) -> None:
        """Tell a new source node the watermark its relation has already."""
        engine = self.engine
        for oid, tracker in engine.trackers():
            if oid == relation.oid:
                step = Step(engine.version, engine.advance_now())
                node = engine.nodes[oid]
                since = tracker.state.idle_us
                engine.circuit.step(step, {}, {node: tracker.value}, {node: since})

    def source_node(self, relation: Relation) -> int:
        """The circuit node that a table's or source's changes enter by."""
        from streamsql.runtime.compile import add_source

        return add_source(
            self.engine.circuit,
            relation.oid,
            relation.columns,
            append_only=relation.append_only,
            watermark_column=relation.watermark_column,
            lateness_us=watermark_policy(relation.options).lateness_us,
            layout=relation.layout,
        )

    def make_view(self, relation: Relation, built: Built) -> None:
        """A view with its rows, made by a job or at once. Views that were made together move in
        together."""
        if relation.oid in self.engine.doomed:
            built.views[relation.oid] = ViewState(relation, None, NO_NODE, self.engine.version)
            return
        side = self.engine.jobs.circuit_of(relation.oid)
        if side is None and self.engine.replay_us is not None:
            from streamsql.engine.heal import make_again

            make_again(self.engine, relation, built)
        elif side is None:
            self.build_view(relation, built)
        elif not side.moved:
            self._move_in(side, built)

    def _move_in(self, side: SideCircuit, built: Built) -> None:
        engine = self.engine
        final = {v.relation.oid: built.catalog.relations[v.relation.oid] for v in side.views}
        side.move_into(engine, final, {**engine.nodes, **built.nodes})
        for view in side.views:
            state, old, oid = view.state, view.old, view.relation.oid
            built.views[oid], built.nodes[oid] = state, state.node
            if old is None:
                state.log = ChangeLog(engine.version)
            elif view.difference is None:
                state.log = ChangeLog(engine.committer.next_version)
            else:
                state.follow_log(old)
                built.swapped[oid] = view.difference.contents()
        built.steps += [(step, frozenset(final)) for step in side.reports]

    def build_view(self, relation: Relation, built: Built, *, fill: bool = True) -> ViewState:
        """Bind, compile and fill a view from the present rows of what it reads."""
        from streamsql.runtime.compile import compile_view

        engine = self.engine
        alterations.check_inputs_run(relation, built.catalog, {**engine.views, **built.views})
        plan = bind_view(relation, built.catalog)
        nodes = {**engine.nodes, **built.nodes}
        options = compile_options(relation)
        compiled = compile_view(plan, engine.circuit, nodes, options)
        view = ViewState(relation, compiled, compiled.output, engine.version)
        built.views[relation.oid] = view
        built.nodes[relation.oid] = compiled.output
        if fill:
            step = Step(engine.version, engine.advance_now())
            built.fills[relation.oid] = self._fill(view, built, step)
            view.start = engine.past.started([view.node], step.tick, step.now_us, built)
            built.steps.append((step, frozenset((relation.oid,))))
        return view

    def _fill(self, view: ViewState, built: Built, step: Step) -> Delta:
        """The first content: new nodes read the accumulated rows of those that were there."""
        engine = self.engine
        new_nodes = list(view.compiled.new_nodes)
        known = self._known_rows(view, set(new_nodes), built)
        if not new_nodes:
            found = engine.circuit.accumulated(view.node, known, step)
            self._retell(view, built, known, step)
            return found
        try:
            outputs = engine.circuit.backfill(step, new_nodes, known)
        except NodeFailed as error:
            if isinstance(error.__cause__, StatementError):
                raise error.__cause__ from None
            raise
        self._retell(view, built, known, step)
        return outputs.get(view.node, Delta.empty(view.schema))

    def _retell(self, view: ViewState, built: Built, known: dict[int, Delta], step: Step) -> None:
        """Where it starts from the rows of another view that it does not name: what the operators
        below dropped was late, or wrong, for it too."""
        circuit = self.engine.circuit
        own = self.engine.own_nodes(view, {**self.engine.nodes, **built.nodes})
        told, stack = set(known), [view.node]
        passed: set[int] = set()
        while stack:
            node = stack.pop()
            if node not in told and node not in passed:
                passed.add(node)
                stack += circuit.nodes[node].inputs
        left = [n for n in own if n not in passed and circuit.nodes[n].operator.retells]
        if left:
            below = self._known_rows(view, set(own), built)
            listed = dict(below)
            for node in left:
                if circuit.can_list(node, below):
                    listed[node] = circuit.accumulated(node, listed, step)

    def _known_rows(self, view: ViewState, new: set[int], built: Built) -> dict[int, Delta]:
        """Accumulated rows of the relations that the new nodes stand on, the nearest ones only."""
        unfilled = {oid for oid in built.views if oid not in built.fills}
        node, views = view.node, {*self.engine.views, *built.views}
        named = {s.relation_id for s in scans(view.compiled.plan)}
        by_node: dict[int, int] = {}
        for oid, at in {**self.engine.nodes, **built.nodes}.items():
            if oid not in unfilled and (at not in by_node or oid in named):
                by_node[at] = oid
        bases = {at for at, oid in by_node.items() if oid not in views}
        found = nearest(self.engine.circuit, node, new, by_node, bases, named)
        return {at: self.rows_of(oid, built) for at, oid in found}

    def rows_of(
        self,
        oid: int,
        built: Built,
        arrivals: Callable[[TableState], Delta] = TableState.arrivals,
    ) -> Delta:
        """The present rows of a relation, as its node would have given them in all. arrivals: how
        the changes of a table are listed."""
        engine = self.engine
        layout = built.catalog.layouts.get(oid)
        if layout is not None:
            return layout.rows(self.rows_of(layout.of, built, arrivals))
        table = built.tables.get(oid) or engine.tables.get(oid)
        if table is not None:
            return arrivals(table)
        view = built.views.get(oid) or engine.views.get(oid)
        if view is not None and oid not in built.fills:
            arrived = self.arrived(view, arrivals)
            return view.contents() if arrived is None else arrived
        return built.fills[oid] if view is not None else engine.ingest.history(oid)

    def arrived(
        self, view: ViewState, arrivals: Callable[[TableState], Delta] = TableState.arrivals
    ) -> Delta | None:
        """The rows of a view over one table whose operators hand watermarks on, with those that the
        table's rows came under: what was late for it is late for views over it too."""
        circuit = self.engine.circuit
        if view.node not in circuit.nodes or view.broken is not None:
            return None
        cone = [circuit.nodes[n] for n in circuit.cone(view.node)]
        if not circuit.nodes[view.node].operator.event_times:
            return None
        if not all(n.operator.replays for n in cone):
            return None
        tables = {node: oid for oid, node in self.engine.nodes.items() if oid in self.engine.tables}
        if any(n.id not in tables for n in cone if not n.inputs):
            return None
        leaves = [n.id for n in cone if not n.inputs]
        return circuit.accumulated(
            view.node, {n: arrivals(self.engine.tables[tables[n]]) for n in leaves}
        )

    def try_view(
        self, relation: Relation, catalog: Catalog, look: Callable[[Any], list[str]]
    ) -> list[str]:
        """Compile a view, look at it, and take it out of the circuit again (EXPLAIN)."""
        built = Built(catalog)
        try:
            return look(self.build_view(relation, built, fill=False).compiled)
        finally:
            self._discard(built)

    # --- views without a name -------------------------------------------------------------------
    def add_ephemeral(self, relation: Relation) -> None:
        """Build a view for one subscription: it is in no catalog and no log."""
        engine = self.engine
        built = Built(engine.catalog)
        view = self.build_view(relation, built)
        view.fill(built.fills[relation.oid])
        with engine.lock:
            view.log = ChangeLog(engine.version)
            engine.views[relation.oid] = view
            engine.nodes[relation.oid] = view.node
            engine.views_of_node.setdefault(view.node, []).append(view)
        engine.ingest.start_read_sources()

    def drop_ephemeral(self, oid: int) -> None:
        """Let a subscription's view go."""
        with self.engine.lock:
            view = self.engine.views.pop(oid, None)
            if view is not None:
                self.release_view(oid, view)

    # --- finishing ------------------------------------------------------------------------------
    def install(self, built: Built, tick: Tick) -> None:
        """After the log is written: everything becomes visible in one step."""
        engine = self.engine
        changes = {oid: self._first_rows(oid, built, tick) for oid in built.fills}
        gone = [(oid, view) for oid, view in engine.views.items() if oid in built.views]
        layouts = built.nodes.keys() & engine.nodes.keys() & built.catalog.layouts.keys()
        built.released = [engine.nodes[oid] for oid in layouts]
        with engine.lock:
            engine.nodes.update(built.nodes)
            for view in built.views.values():
                engine.views_of_node.setdefault(view.node, []).append(view)

        def swap() -> None:
            alterations.end_streams(engine, built)
            engine.tables.update(built.tables)
            for view in built.views.values():
                view.started_us = view.started_us or engine.clock_us()
            engine.views.update(built.views)
            for oid, change in changes.items():
                if change is not None:
                    engine.committer.apply_view(built.views[oid], change, tick.version)
            for oid, change in built.swapped.items():
                engine.committer.announce(built.views[oid], change, tick.version)
            for oid, old in gone:
                self.release_view(oid, old)
            for relation in built.dropped:
                if relation.oid not in built.catalog.relations:
                    self._drop(relation)
            alterations.finish(engine, built)
            engine.jobs.after(built)
            engine.catalog.adopt(built.catalog)

        for oid, view in built.views.items():
            engine.late_changes.forget(oid)
            engine.past.begin(view, built)
        alterations.replace_sources(engine, built)
        engine.ingest.add(built.sources)
        engine.ingest.expect(tick.now_us)
        for table in built.tables.values():
            if table.tracker is not None:
                table.tracker.begin(tick.now_us)
        engine.committer.run([tick], swap)
        if engine.replay_us is None:  # else once, at the end
            engine.indexes.sync()
        engine.recordings.sync()
        for step, views in built.steps:
            engine.system.record(tick, step, views)
        for job in built.jobs:
            engine.jobs.launch(job)

    def _first_rows(self, oid: int, built: Built, tick: Tick) -> Delta | None:
        """Put its rows into a new view. One that takes another's place goes on with the old rows
        and versions, if the columns are the same or a retention speaks of them; returns what it has
        to change of them."""
        view, old = built.views[oid], self.engine.views.get(oid)
        promised = self.engine.retention.span(view.relation.options) is not None
        if (
            old is None
            or oid not in built.changed
            or not (promised or old.schema.types == view.schema.types)
        ):
            view.fill(built.fills[oid])
            if old is not None:
                view.log = ChangeLog(tick.version)
            return None
        return view.take_over(old, built.fills[oid])

    def _discard(self, built: Built) -> None:
        for index in built.indexes:
            self.engine.indexes.discard(index)
        circuit = self.engine.circuit
        for view in reversed(list(built.views.values())):
            if view.node != NO_NODE:
                circuit.release(view.node)
        for oid, node in built.nodes.items():
            if oid not in built.views:
                circuit.release(node)
        for node, operator in reversed(built.underpinned):
            circuit.lift(node, operator)
        for source in built.sources.values():
            source.close()

    def _drop(self, relation: Relation) -> None:
        """Under the state lock."""
        engine = self.engine
        error = UndefinedTable(f'relation "{relation.name}" was dropped')
        alterations.end_readers(engine, relation.oid, error)
        engine.ingest.remove(relation.oid)
        view = engine.views.pop(relation.oid, None)
        if view is not None:
            self.release_view(relation.oid, view)
        if engine.tables.pop(relation.oid, None) is not None or relation.kind == "source":
            node = engine.nodes.pop(relation.oid)
            engine.circuit.release(node)
        engine.system.forget(relation)
        engine.late_changes.forget(relation.oid)
        engine.past.forget(relation.oid)

    def release_view(self, oid: int, view: ViewState) -> None:
        """Take a view out of the circuit. Under the state lock."""
        engine = self.engine
        views = engine.views_of_node.get(view.node, [])
        if view in views:
            views.remove(view)
        if not views:
            engine.views_of_node.pop(view.node, None)
        if engine.nodes.get(oid) == view.node and engine.views.get(oid) in (None, view):
            engine.nodes.pop(oid)
        if view.node in engine.circuit.nodes:
            engine.circuit.release(view.node)


def replace_tables(request: CommitRequest, built: Built) -> CommitRequest:
    """The request with the states of its new tables."""
    return replace(request, new_tables=built.tables, catalog=built.catalog)
