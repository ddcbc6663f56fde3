"""Views in a circuit of their own, where they are filled while the running circuit goes on.

They are filled in slices from the rows of one version, then take the ticks that came since one by
one, and are moved into the running circuit when they have seen them all. Their rows are those that
they would have had from the start: operators do not notice how their input was cut. A view that
takes the place of another one (CREATE OR REPLACE, RESUME) also keeps count of what its rows differ
by from those of the old one, which is what the exchange will have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.circuit.checks import configured_checks
from streamsql.circuit.graph import Circuit, NodeFailed
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta
from streamsql.core.errors import StatementError
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.engine.beside import NOTES
from streamsql.engine.catalog import Catalog
from streamsql.engine.indexes import indexes_of
from streamsql.engine.layouts import Layout
from streamsql.engine.needs import meets
from streamsql.engine.relations import Relation
from streamsql.engine.requests import Tick
from streamsql.engine.sharing import is_same, join_readers
from streamsql.engine.storage.view import ViewState, without_watermark
from streamsql.engine.views import bind_view, compile_options
from streamsql.operators.builder import Options, node_label
from streamsql.operators.stand_in import StandIn
from streamsql.plan.visit import scans
from streamsql.state.arrangement import Arrangement

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.runtime.compile import CompiledView

SLICE_ROWS = 65_536

History = Callable[[], Delta]
"""Gives the rows of a relation at the version at which the filling began; called once."""


@dataclass(frozen=True)
class Fed:
    """One tick as the side circuit gets it: by node of the running circuit. replaced: changes of
    the views whose place others will take, by their OIDs."""

    version: int
    now_us: int
    deltas: Mapping[int, list[Delta]]
    watermarks: Mapping[int, int]
    replaced: Mapping[int, Delta] = field(default_factory=dict)


@dataclass
class Input:
    """A relation that the views read. main: its node in the running circuit; side: here.
    watermark: of that node when the filling began."""

    oid: int
    main: int
    side: int
    watermark: int
    history: History
    rows: int


@dataclass
class SideView:
    """One of the views. known: nodes here whose rows its operators may start from. old: the view
    whose place it takes; held: the rows of that when the filling began; difference: its own rows
    minus those of the old one, where somebody may ask for it."""

    relation: Relation
    compiled: CompiledView
    state: ViewState
    known: frozenset[int]
    old: ViewState | None = None
    held: pa.Table | None = None
    difference: Arrangement | None = None

    def take(self, change: Delta, *, own: bool) -> None:
        """Changes of its own rows, or of the old view's."""
        if own:
            self.state.fill(change)
        if self.difference is None:
            return
        plain = without_watermark(change)
        if not own:
            assert self.old is not None
            rows = self.state.by_name(plain.batch, self.old.schema)
            plain = Delta(rows, plain.weights).negate()
        self.difference.apply(plain)


@dataclass
class SideCircuit:
    """version, now_us: of the tick after which the filling began. altered: nodes here that stand
    for relations which the same change of the catalog alters → their OIDs. reports: what operators
    reported, to be recorded when the views are there. merged: nodes that are in the running circuit
    already → their numbers there."""

    circuit: Circuit
    catalog: Catalog
    views: list[SideView]
    inputs: list[Input]
    altered: dict[int, int]
    version: int
    now_us: int
    reports: list[Step] = field(default_factory=list)
    merged: dict[int, int] = field(default_factory=dict)
    moved: bool = False

    @classmethod
    def begin(
        cls,
        engine: Engine,
        relations: Sequence[Relation],
        change: AlterationsByTable | None = None,
        catalog: Catalog | None = None,
    ) -> SideCircuit:
        """Bind and compile the views, those that are read first, and note which rows they start
        from. change: tables whose columns the same change of the catalog moves. catalog: as it will
        be. Engine thread. Raises: errors of binding; NotBeside."""
        from streamsql.runtime.compile import compile_view

        catalog = catalog or engine.catalog
        circuit = Circuit(configured_checks())
        now_us = engine.advance_now()
        side = cls(circuit, catalog, [], [], {}, engine.version, now_us)
        nodes: dict[int, int] = {}
        made: set[int] = set()
        for relation in relations:
            plan = bind_view(relation, catalog)
            for oid in sorted({s.relation_id for s in scans(plan)}):
                if oid not in nodes:
                    layout = catalog.layouts.get(oid)
                    if layout is not None and layout.of in made:
                        raise NotBeside
                    nodes[oid] = side._input(engine, oid, change or {})
            compiled = compile_view(plan, circuit, nodes, compile_options(plainly(relation)))
            state = ViewState(relation, compiled, compiled.output, engine.version)
            view = SideView(relation, compiled, state, frozenset(nodes.values()))
            view.old = engine.views.get(relation.oid)
            promised = engine.retention.span(relation.options) is not None
            if view.old is not None and (promised or view.old.schema.types == state.schema.types):
                view.held = view.old.snapshot()
                view.difference = Arrangement(state.schema, None, allow_negative=True)
            state.start = engine.past.started([i.main for i in side.inputs], engine.version, now_us)
            side.views.append(view)
            nodes[relation.oid] = compiled.output
            made.add(relation.oid)
        return side

    def _input(self, engine: Engine, oid: int, change: AlterationsByTable) -> int:
        """The node here for a relation, or for a layout of one."""
        layout = self.catalog.layouts.get(oid)
        of = oid if layout is None else layout.of
        if of in change:
            base = self.catalog.relations[of]
            known = layout or Layout(of, of, base.columns, tuple(range(len(base.columns))), 0)
            below = self._stand_in(engine, of)
            number = base.layout if layout is None else layout.number
            return self._altered(oid, known, number, base, below, change[of])
        if oid not in engine.nodes:
            raise NotBeside
        return self._stand_in(engine, oid)

    def _stand_in(self, engine: Engine, oid: int) -> int:
        main = engine.nodes[oid]
        for known in self.inputs:
            if known.main == main:
                return known.side
        side = add_stand_in(self.circuit, engine, main)
        watermark = engine.circuit.nodes[main].watermark
        history, rows = history_of(engine, oid)
        self.inputs.append(Input(oid, main, side, watermark, history, rows))
        return side

    def _altered(
        self, oid: int, known: Layout, number: int, base: Relation, below: int,
        before: tuple[int | None, ...],
    ) -> int:  # fmt: skip
        """The node for columns that a table will have, over those that it has now."""
        from streamsql.operators.layout import Layout as LayoutOperator
        from streamsql.runtime.compile import source_label

        places = [None if p is None else before[p] for p in known.positions]
        if any(p is None and q is not None for p, q in zip(places, known.positions, strict=True)):
            raise NotBeside  # a column that nobody has filled yet
        as_was = known.as_relation(base)
        operator = LayoutOperator(
            known.columns,
            places,
            append_only=base.append_only,
            watermark_column=as_was.watermark_column,
            lateness_us=self.circuit.nodes[below].operator.lateness_us,
        )
        label = source_label(base.oid, number)
        found = self.circuit.find(label)
        if found is None:
            found = self.circuit.add(operator, (below,), label)
            operator.origins = {i: (found, i) for i in range(len(operator.schema))}
            self.circuit.retain(found)
        self.altered[found] = oid
        return found

    @property
    def rows(self) -> int:
        """How many rows there are to be filled from."""
        return sum(i.rows for i in self.inputs)

    # --- filling (a thread of its own) ----------------------------------------------------------
    def fill(self) -> Iterator[int]:
        """Take the rows in; gives the number of rows taken after each slice.

        Views that are recomputed by key or as a whole get all rows at once: in slices, the same
        keys would be computed again with every slice. So do joins that look how far the other side
        is.
        """
        for view in self.views:
            if view.held is not None:
                assert view.old is not None
                view.take(as_delta(view.held, view.old.schema), own=False)
                view.held = None
                yield 0
        sliced = all(v.compiled.maintenance == "incremental" for v in self.views)
        sliced = sliced and not any(meets(node.operator) for node in self.circuit)
        last = {i.side: i.watermark for i in self.inputs if i.watermark != NO_WATERMARK}
        if not sliced:
            whole = {i.side: [i.history()] for i in self.inputs}
            self._step(Step(self.version, self.now_us, filling=True), whole, last)
            yield self.rows
            return
        for given in self.inputs:
            delta = given.history()
            for start in range(0, delta.num_rows, SLICE_ROWS):
                part = delta_slice(delta, start, min(SLICE_ROWS, delta.num_rows - start))
                step = Step(self.version, self.now_us, filling=True)
                self._step(step, {given.side: [part]}, {})
                yield part.num_rows
        self._step(Step(self.version, self.now_us, filling=True), {}, last)
        yield 0

    def prepare(self, engine: Engine) -> None:
        """The indexes of views that take the place of others, which have to be there with them."""
        for view in self.views:
            if view.old is not None:
                for index in indexes_of(self.catalog, view.relation.oid):
                    engine.indexes.create(index, self.catalog, view.state, alone=True)

    def note(
        self,
        engine: Engine,
        tick: Tick,
        deltas: Mapping[int, list[Delta]],
        outputs: Mapping[int, Delta],
    ) -> Fed | None:
        """Engine thread: what a tick did to the nodes that are read; None = nothing."""
        nodes = engine.circuit.nodes
        given: dict[int, list[Delta]] = {}
        moved: dict[int, int] = {}
        for read in self.inputs:
            node = nodes.get(read.main)
            if node is None:
                continue
            if read.main in deltas:
                given[read.main] = deltas[read.main]
            elif read.main in outputs:
                given[read.main] = [outputs[read.main]]
            if node.watermark > read.watermark:
                moved[read.main] = read.watermark = node.watermark
        replaced = {
            v.relation.oid: outputs[v.old.node]
            for v in self.views
            if v.difference is not None and v.old is not None and v.old.node in outputs
        }
        if not given and not moved and not replaced:
            return None
        return Fed(tick.version, tick.now_us, given, moved, replaced)

    def follow(self, tick: Fed) -> None:
        """Take in a tick that came after the version that the filling began with."""
        place = {i.main: i.side for i in self.inputs}
        deltas = {place[n]: parts for n, parts in tick.deltas.items()}
        watermarks = {place[n]: w for n, w in tick.watermarks.items()}
        for view in self.views:
            if view.relation.oid in tick.replaced:
                view.take(tick.replaced[view.relation.oid], own=False)
        self._step(Step(tick.version, tick.now_us), deltas, watermarks)

    def _step(
        self, step: Step, deltas: Mapping[int, list[Delta]], watermarks: Mapping[int, int]
    ) -> None:
        try:
            outputs = self.circuit.step(step, deltas, watermarks)
        except NodeFailed as error:
            if isinstance(error.__cause__, StatementError):
                raise error.__cause__ from None
            raise
        for view in self.views:
            found = outputs.get(view.compiled.output)
            if found is not None:
                view.take(found, own=True)
        if step.late or step.errors:
            self.reports.append(replace(step, given={}, schemas={}))

    def finish(self) -> None:
        """See `Part`."""

    def close(self) -> None:
        """See `Part`."""

    # --- moving in (engine thread) --------------------------------------------------------------
    def labels(
        self, engine: Engine, options: Mapping[int, Options], *, settled: bool = False
    ) -> tuple[dict[int, str], set[str]]:
        """(label of each node in the running circuit, labels that other views have already, whose
        nodes these views have for themselves). options: of each view, by OID, with those known
        before. settled: see `is_same`. Nodes that are there already are noted in `merged`."""
        main, nodes = engine.circuit, self.circuit.nodes
        labels = {i.side: main.nodes[i.main].label for i in self.inputs}
        labels |= {node: nodes[node].label for node in self.altered}
        taken = {text for chosen in options.values() for text in chosen.private}
        self.merged = merged = {i.side: i.main for i in self.inputs}
        shown = set(engine.nodes.values())
        for view in self.views:
            for node in sorted(view.compiled.recipes):
                below = [labels[i] for i in nodes[node].inputs]
                name, what, alone = view.compiled.recipes[node]
                known = view.known | {n for n, twin in merged.items() if twin in shown}
                alone = alone or not all(
                    self.circuit.can_list(i, known) for i in nodes[node].inputs
                )
                chosen = replace(options[view.relation.oid], private=frozenset(taken))
                text = node_label(name, what, below, chosen, private=alone)
                twin = None if alone else main.find(text)
                # the output of a view is a node of its own
                own = node == view.compiled.output and twin in shown
                if (
                    twin is not None
                    and not own
                    and is_same(self.circuit, node, main, twin, merged, settled=settled)
                ):
                    merged[node] = twin
                elif twin is not None:
                    taken.add(text)
                    chosen = replace(chosen, private=frozenset(taken))
                    text = node_label(name, what, below, chosen, private=alone)
                labels[node] = text
        return labels, taken

    def move_into(
        self, engine: Engine, relations: Mapping[int, Relation], nodes: Mapping[int, int]
    ) -> None:
        """Make the nodes part of the running circuit. relations: the views by OID, with their
        private labels. nodes: of relations, by OID. The views' states are then as if they had been
        built there; nobody sees them yet."""
        options = {oid: compile_options(relation) for oid, relation in relations.items()}
        labels, _ = self.labels(engine, options, settled=True)
        place, merged = dict(self.merged), self.merged
        place |= {node: nodes[oid] for node, oid in self.altered.items()}
        join_readers(self.circuit, merged, engine.circuit)
        engine.circuit.take_over(self.circuit, place, labels)
        self.moved = True
        for view in self.views:
            compiled, oid = view.compiled, view.relation.oid
            if compiled.output in merged:
                engine.circuit.retain(place[compiled.output], output=True)
            view.relation = view.state.relation = relations[oid]
            view.state.node = place[compiled.output]
            view.state.compiled = replace(
                compiled,
                circuit=engine.circuit,
                options=options[oid],
                output=place[compiled.output],
                new_nodes=tuple(place[n] for n in compiled.new_nodes if n not in merged),
                recipes={},
            )
        for step in self.reports:
            for late in step.late:
                late.node = place[late.node]
            for error in step.errors:
                error.node = place[error.node]


class NotBeside(Exception):
    """These views can not be filled beside the circuit: they read what is only made with them."""


AlterationsByTable = Mapping[int, "tuple[int | None, ...]"]
"""OID of a table → for each of its new columns the position it had, None = it is new."""


def plainly(relation: Relation) -> Relation:
    """The view without what an earlier filling beside the circuit has noted in it."""
    extra = {k: v for k, v in relation.extra.items() if k not in NOTES}
    return replace(relation, extra=extra)


def add_stand_in(circuit: Circuit, engine: Engine, main: int) -> int:
    """The node that stands for a node of the running circuit, under the same label."""
    node = engine.circuit.nodes[main]
    made = StandIn(node.operator)
    side = circuit.add(made, (), node.label)
    made.origins = {i: (side, i) for i in range(len(made.schema))}
    circuit.retain(side)
    if made.watermark == END_OF_TIME:
        circuit.nodes[side].watermark = END_OF_TIME
    return side


def history_of(engine: Engine, oid: int) -> tuple[History, int]:
    """(what gives the present rows of a relation later on, how many they are). Engine thread; the
    rows themselves are put together by whoever fills the view."""
    layout = engine.catalog.layouts.get(oid)
    if layout is not None:
        below, rows = history_of(engine, layout.of)
        return lambda: layout.rows(below()), rows
    table = engine.tables.get(oid)
    if table is not None:
        stored = table.snapshot()
        return lambda: table.in_order(stored), stored.num_rows
    view = engine.views.get(oid)
    if view is not None:
        arrived = engine.builder.arrived(view)
        if arrived is not None:
            return lambda: arrived, arrived.num_rows
        held = view.snapshot()
        return lambda: as_delta(held, view.schema), held.num_rows
    source = engine.sources[oid]
    runs, now_us = [list(run) for run in source.runs], engine.advance_now()
    if not runs:
        return lambda: Delta.empty(source.relation.columns), 0
    return lambda: source.history(now_us, runs), sum(n for _, n in runs)


def as_delta(rows: pa.Table, schema: Schema) -> Delta:
    """Plain rows as insertions."""
    batches = rows.combine_chunks().to_batches()
    return Delta(batches[0]) if batches else Delta.empty(schema)


def delta_slice(delta: Delta, start: int, rows: int) -> Delta:
    """Some of a delta's entries."""
    if rows == delta.num_rows:
        return delta
    weights, before = delta.weights, delta.row_watermark
    return Delta(
        delta.batch.slice(start, rows),
        None if weights is None else weights[start : start + rows],
        None if before is None else before[start : start + rows],
        delta.consolidated,
    )
