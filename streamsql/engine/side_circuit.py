"""A view in a circuit of its own, where it is filled while the running circuit goes on.

It is filled in slices from the rows of one version, then takes the ticks that came since one by
one, and is moved into the running circuit when it has seen them all. Its rows are those that the
view would have had from the start: operators do not notice how their input was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from streamsql.engine.reads.plans import scans
from streamsql.engine.relations import Relation
from streamsql.engine.storage.view import ViewState
from streamsql.engine.views import bind_view, compile_options
from streamsql.operators.builder import node_label
from streamsql.operators.stand_in import StandIn

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.runtime.compile import CompiledView

SLICE_ROWS = 65_536

History = Callable[[], Delta]
"""Gives the rows of a relation at the version at which the filling began; called once."""


@dataclass(frozen=True)
class Fed:
    """One tick as the side circuit gets it: by node of the running circuit."""

    version: int
    now_us: int
    deltas: Mapping[int, list[Delta]]
    watermarks: Mapping[int, int]


@dataclass
class Input:
    """A relation that the view reads. main: its node in the running circuit; side: here.
    watermark: of that node when the filling began."""

    oid: int
    main: int
    side: int
    watermark: int
    history: History
    rows: int


@dataclass
class SideCircuit:
    """relation: the view. version, now_us: of the tick after which its filling began. reports:
    what operators reported, to be recorded when the view is there."""

    relation: Relation
    circuit: Circuit
    compiled: CompiledView
    view: ViewState
    inputs: list[Input]
    version: int
    now_us: int
    reports: list[Step] = field(default_factory=list)

    @classmethod
    def begin(cls, engine: Engine, relation: Relation) -> SideCircuit:
        """Bind and compile the view, and note which rows it starts from. Engine thread."""
        from streamsql.runtime.compile import compile_view

        plan = bind_view(relation, engine.catalog)
        circuit = Circuit(configured_checks())
        inputs: list[Input] = []
        stand_ins: dict[int, int] = {}
        for oid in sorted({s.relation_id for s in scans(plan)}):
            main = engine.nodes[oid]
            if main not in stand_ins:
                stand_ins[main] = add_stand_in(circuit, engine, main)
                watermark = engine.circuit.nodes[main].watermark
                history, rows = history_of(engine, oid)
                inputs.append(Input(oid, main, stand_ins[main], watermark, history, rows))
        sources = {s.relation_id: stand_ins[engine.nodes[s.relation_id]] for s in scans(plan)}
        compiled = compile_view(plan, circuit, sources, compile_options(relation))
        view = ViewState(relation, compiled, compiled.output, engine.version)
        now_us = engine.advance_now()
        return cls(relation, circuit, compiled, view, inputs, engine.version, now_us)

    @property
    def rows(self) -> int:
        """How many rows there are to be filled from."""
        return sum(i.rows for i in self.inputs)

    # --- filling (a thread of its own) ----------------------------------------------------------
    def fill(self) -> Iterator[int]:
        """Take the rows in; gives the number of rows taken after each slice.

        A view that is recomputed by key or as a whole gets all rows at once: in slices, the same
        keys would be computed again with every slice.
        """
        sliced = self.compiled.maintenance == "incremental"
        last = {i.side: i.watermark for i in self.inputs if i.watermark != NO_WATERMARK}
        if not sliced:
            self._step(
                self.version, self.now_us, {i.side: [i.history()] for i in self.inputs}, last
            )
            yield self.rows
            return
        for given in self.inputs:
            delta = given.history()
            for start in range(0, delta.num_rows, SLICE_ROWS):
                part = delta_slice(delta, start, min(SLICE_ROWS, delta.num_rows - start))
                self._step(self.version, self.now_us, {given.side: [part]}, {})
                yield part.num_rows
        self._step(self.version, self.now_us, {}, last)
        yield 0

    def follow(self, tick: Fed) -> None:
        """Take in a tick that came after the version that the filling began with."""
        place = {i.main: i.side for i in self.inputs}
        deltas = {place[n]: parts for n, parts in tick.deltas.items()}
        watermarks = {place[n]: w for n, w in tick.watermarks.items()}
        self._step(tick.version, tick.now_us, deltas, watermarks)

    def _step(
        self,
        version: int,
        now_us: int,
        deltas: Mapping[int, list[Delta]],
        watermarks: Mapping[int, int],
    ) -> None:
        step = Step(version, now_us)
        try:
            outputs = self.circuit.step(step, deltas, watermarks)
        except NodeFailed as error:
            if isinstance(error.__cause__, StatementError):
                raise error.__cause__ from None
            raise
        found = outputs.get(self.compiled.output)
        if found is not None:
            self.view.fill(found)
        if step.late or step.errors:
            self.reports.append(replace(step, given={}, schemas={}))

    # --- moving in (engine thread) --------------------------------------------------------------
    def labels(self, main: Circuit, private: frozenset[str]) -> tuple[dict[int, str], set[str]]:
        """(label of each node in the running circuit, labels that other views have already, whose
        nodes this view has for itself). private: those known before."""
        labels = {i.side: main.nodes[i.main].label for i in self.inputs}
        known = frozenset(labels)
        taken = set(private)
        for node in sorted(self.circuit.nodes):
            if node in labels:
                continue
            name, what, alone = self.compiled.recipes[node]
            below = [labels[i] for i in self.circuit.nodes[node].inputs]
            alone = alone or not all(
                self.circuit.can_list(i, known) for i in self.circuit.nodes[node].inputs
            )
            options = replace(self.compiled.options, private=frozenset(taken))
            text = node_label(name, what, below, options, private=alone)
            if not alone and main.find(text) is not None:
                taken.add(text)
                options = replace(options, private=frozenset(taken))
                text = node_label(name, what, below, options, private=alone)
            labels[node] = text
        return labels, taken

    def move_into(self, engine: Engine, relation: Relation) -> ViewState:
        """Make the nodes part of the running circuit. relation: the view, with its private labels.
        Returns its state, which nobody sees yet."""
        options = compile_options(relation)
        labels, _ = self.labels(engine.circuit, options.private)
        place = {i.side: i.main for i in self.inputs}
        engine.circuit.take_over(self.circuit, place, labels)
        compiled = self.compiled
        self.view.compiled = replace(
            compiled,
            circuit=engine.circuit,
            options=options,
            output=place[compiled.output],
            new_nodes=tuple(place[n] for n in compiled.new_nodes),
            recipes={},
        )
        self.view.relation = relation
        self.view.node = place[compiled.output]
        for step in self.reports:
            for late in step.late:
                late.node = place[late.node]
            for error in step.errors:
                error.node = place[error.node]
        return self.view


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
