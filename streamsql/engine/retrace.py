"""A view taken through its past again, in a circuit of its own: what VERIFY compares it with.

Where the rows of a view depend on the order in which its relations moved (see `needs`), the replay
goes tick by tick, as `past` has noted them: rows that are there come when they came, rows that went
and whose going counts (`late_changes`) come and go again, and each relation's watermark is what it
was. Views below are computed anew too, from their tables, and older views that share operators with
it: each is filled when it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from streamsql.circuit.checks import configured_checks
from streamsql.circuit.graph import Circuit, NodeFailed
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.errors import StatementError
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.engine.first_rows import nearest
from streamsql.engine.layouts import Layout
from streamsql.engine.needs import Bases, remembers
from streamsql.engine.past import (
    ACTIVE,
    AS_IT_WAS,
    CLOCK,
    IDLE,
    NOW,
    OID,
    POSITION,
    VERSION,
    WATERMARK,
    Start,
)
from streamsql.engine.reads.duck import CancelToken
from streamsql.engine.relations import Relation
from streamsql.engine.side_circuit import add_stand_in, delta_slice
from streamsql.engine.storage.view import without_watermark
from streamsql.engine.views import bind_view, compile_options
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import scans
from streamsql.state.arrangement import Arrangement
from streamsql.state.consolidate import consolidate

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.runtime.compile import CompiledView


T = TypeVar("T")


@dataclass
class Stage:
    """A view that is filled after a tick. rows: its own, once it is."""

    relation: Relation
    plan: LogicalPlan
    start: Start
    rows: Arrangement
    compiled: CompiledView | None = None


@dataclass
class History:
    """A relation. changes: all that count, in order; ids: of their rows; ends: how many of them
    there were after each of the relation's entries; nodes: those that stand for it, with the
    columns they show (None: as they are). taken, place: how many changes and entries are done."""

    changes: Delta
    ids: Int64Array
    ends: Int64Array
    nodes: list[tuple[int, Layout | None]] = field(default_factory=list)
    taken: int = 0
    place: int = 0

    def next(self) -> Delta:
        """The changes of the next entry."""
        end = int(self.ends[self.place])
        part = delta_slice(self.changes, self.taken, end - self.taken)
        self.taken, self.place = end, self.place + 1
        return part

    def present(self) -> Delta:
        """The rows that are there by now."""
        so_far = delta_slice(self.changes, 0, self.taken)
        if so_far.weights is None:
            return so_far
        ids = self.ids[: self.taken]
        came = so_far.weights > 0
        here = so_far.take(np.flatnonzero(came & ~np.isin(ids, ids[~came])))
        return Delta(here.batch, None, here.row_watermark)


@dataclass
class Retrace:
    """A view's past, ready to be run. entries: in order, `past.FIELDS`. stages: views in the order
    in which they were filled; the last tells the rows. exact: False where some of its operators are
    older than the views that are known to hold them. present: what the view shows."""

    circuit: Circuit
    oid: int
    present: pa.Table
    entries: Int64Array
    histories: dict[int, History]
    sources: dict[int, int]
    stages: deque[Stage]
    births: dict[str, tuple[int, int]]
    now_us: int
    version: int
    exact: bool = True
    views: dict[int, Stage] = field(default_factory=dict)

    def run(self, token: CancelToken) -> Delta:
        """The rows that the view is to have. Any thread. Raises: errors of data, 57014."""
        versions = self.entries[:, VERSION]
        borders = np.flatnonzero(versions[1:] != versions[:-1]) + 1
        for group in np.split(self.entries, borders) if versions.size else ():
            token.check()
            self._fill(int(group[0, VERSION]))
            self._tick(group.tolist())
        self._fill(None)
        self._step(Step(self.version, self.now_us), {}, {}, {})
        return consolidate(self.views[self.oid].rows.contents())

    def _tick(self, group: list[list[int]]) -> None:
        """All entries of one version."""
        deltas: dict[int, list[Delta]] = {}
        watermarks: dict[int, int] = {}
        idle: dict[int, int | None] = {}
        for entry in group:
            if entry[OID] == CLOCK:
                continue
            history = self.histories[entry[OID]]
            part = history.next()
            for node, layout in history.nodes:
                if part:
                    shown = part if layout is None else layout.rows(part)
                    deltas.setdefault(node, []).append(shown)
                if entry[WATERMARK] != NO_WATERMARK:
                    watermarks[node] = entry[WATERMARK]
                if entry[IDLE] != AS_IT_WAS:
                    idle[node] = None if entry[IDLE] == ACTIVE else entry[IDLE]
        last = group[-1]
        self._step(Step(last[VERSION], last[NOW]), deltas, watermarks, idle)

    def _step(
        self, step: Step, deltas: Mapping[int, list[Delta]], watermarks: Mapping[int, int],
        idle: Mapping[int, int | None],
    ) -> None:  # fmt: skip
        outputs = _or_its_cause(lambda: self.circuit.step(step, deltas, watermarks, idle))
        for view in self.views.values():
            assert view.compiled is not None
            if view.compiled.output in outputs:
                view.rows.apply(without_watermark(outputs[view.compiled.output]))

    # --- filling --------------------------------------------------------------------------------
    def _fill(self, before: int | None) -> None:
        """Fill the views that were there before a version; None: all."""
        while self.stages and (before is None or self.stages[0].start.version < before):
            self._fill_view(self.stages.popleft())

    def _fill_view(self, stage: Stage) -> None:
        from streamsql.runtime.compile import compile_view

        nodes = dict(self.sources)
        nodes |= {oid: v.compiled.output for oid, v in self.views.items() if v.compiled}
        options = compile_options(stage.relation)
        compiled = stage.compiled = compile_view(stage.plan, self.circuit, nodes, options)
        known = self._known_rows(stage.plan, compiled)
        step = Step(stage.start.version, stage.start.now_us)
        first = _or_its_cause(lambda: compiled.start(step, known))
        stage.rows.apply(without_watermark(first))
        self.views[stage.relation.oid] = stage
        for node in (self.circuit.nodes[n] for n in compiled.new_nodes):
            if remembers(node.operator):
                born = self.births.get(node.label)
                self.exact = self.exact and born == (stage.relation.oid, stage.start.version)

    def _known_rows(self, plan: LogicalPlan, compiled: CompiledView) -> dict[int, Delta]:
        """As new views find them (see `CatalogBuilder._known_rows`)."""
        known = {node: self._source_rows(node) for node in self.sources.values()}
        bases = set(known)
        shown = {v.compiled.output: v for v in self.views.values() if v.compiled}
        read = {s.relation_id for s in scans(plan)}
        named = {v.compiled.output for oid, v in self.views.items() if v.compiled and oid in read}
        relations = {node: node for node in [*bases, *shown]}
        new = set(compiled.new_nodes)
        for node, _ in nearest(self.circuit, compiled.output, new, relations, bases, named):
            if node in shown:
                known[node] = self._view_rows(shown[node], known)
        return known

    def _source_rows(self, node: int) -> Delta:
        for history in self.histories.values():
            for known, layout in history.nodes:
                if known == node:
                    rows = history.present()
                    return rows if layout is None else layout.rows(rows)
        raise AssertionError("a source has no history")

    def _view_rows(self, view: Stage, known: Mapping[int, Delta]) -> Delta:
        """As views over this one find its rows (see `CatalogBuilder.arrived`)."""
        assert view.compiled is not None
        cone = [self.circuit.nodes[n] for n in self.circuit.cone(view.compiled.output)]
        if cone[-1].operator.event_times and all(n.operator.replays for n in cone):
            bottom = {n.id: known[n.id] for n in cone if n.id in known and not n.inputs}
            if all(n.inputs or n.id in bottom for n in cone):
                return self.circuit.accumulated(view.compiled.output, bottom)
        return view.rows.contents()


def _or_its_cause(act: Callable[[], T]) -> T:
    try:
        return act()
    except NodeFailed as error:
        if isinstance(error.__cause__, StatementError):
            raise error.__cause__ from None
        raise


def prepare(engine: Engine, relation: Relation) -> Retrace | None:
    """A view's past; None if not all of it is known. Engine thread."""
    past, view = engine.past, engine.views[relation.oid]
    members = _members(engine, relation.oid)
    if members is None or not engine.late_changes.know(members):
        return None
    starts = {oid: past.starts[oid] for oid in members}
    needing = [oid for oid in members if oid in past.needs]
    entries = past.entries(min(starts[oid].version for oid in needing))
    bases = {b for oid in members for b in starts[oid].marks}
    below = Bases.of(engine).below(engine.circuit, (engine.views[oid].node for oid in members))
    if entries is None or not bases.issuperset(below):
        return None
    clocked = any(past.needs[oid].clocked for oid in needing)
    wanted = entries[np.isin(entries[:, OID], [*bases, CLOCK] if clocked else [*bases])]
    whole = np.concatenate([*(_as_entries(s) for s in starts.values()), wanted])
    whole = whole[np.argsort(whole[:, VERSION], kind="stable")]
    circuit = Circuit(configured_checks())
    histories = {oid: _history(engine, oid, members, whole[whole[:, OID] == oid]) for oid in bases}
    plans = {oid: bind_view(engine.catalog.relations[oid], engine.catalog) for oid in members}
    sources = _stand_ins(engine, plans.values(), circuit, histories)
    stages = [
        Stage(state, plans[oid], starts[oid], Arrangement(state.columns, None, allow_negative=True))
        for oid in members
        for state in [engine.catalog.relations[oid]]
    ]
    return Retrace(
        circuit, relation.oid, view.snapshot(), whole, histories, sources, deque(stages),
        past.births, past.now_us, engine.version,
    )  # fmt: skip


def _members(engine: Engine, oid: int) -> list[int] | None:
    """The view, those that it reads and those that it shares operators with which remember, in the
    order in which they were filled; None if one is not known, or shows columns of an older
    definition."""
    past, circuit = engine.past, engine.circuit
    found, stack = {oid}, [oid]
    while stack:
        view = engine.views[stack.pop()]
        if view.relation.oid not in past.starts:
            return None
        more: set[int] = set()
        for scan in scans(view.compiled.plan):
            layout = engine.catalog.layouts.get(scan.relation_id)
            if layout is not None and layout.of in engine.views:
                return None
            if scan.relation_id in engine.views:
                more.add(scan.relation_id)
        for number in engine.own_nodes(view):
            owner, version = past.births.get(circuit.nodes[number].label, (None, 0))
            start = past.starts.get(owner) if owner in engine.views else None
            if owner is not None and start is not None and start.version == version:
                more.add(owner)
        stack += more - found
        found |= more
    order = {v: i for i, v in enumerate(engine.catalog.relations)}
    depth = {v: _depth(engine, v) for v in found}
    return sorted(found, key=lambda v: (past.starts[v].version, depth[v], order[v]))


def _depth(engine: Engine, oid: int) -> int:
    """How many views stand above each other below this one."""
    reads = engine.views[oid].compiled.reads
    return max((_depth(engine, r) + 1 for r in reads if r in engine.views), default=0)


def _as_entries(start: Start) -> Int64Array:
    """Where the relations stood when a view was filled."""
    found = [
        (start.version, start.now_us, oid, m.position, m.watermark, m.idle_us)
        for oid, m in sorted(start.marks.items())
    ]
    return np.array(found, np.int64).reshape(-1, 6)


def _stand_ins(
    engine: Engine, plans: Iterable[LogicalPlan], circuit: Circuit, histories: dict[int, History]
) -> dict[int, int]:
    """A node for each relation that is not a view, by the OIDs that plans name."""
    sources: dict[int, int] = {}
    for oid in sorted({s.relation_id for plan in plans for s in scans(plan)} - engine.views.keys()):
        main = engine.nodes[oid]
        known = circuit.find(engine.circuit.nodes[main].label)
        if known is None:
            known = add_stand_in(circuit, engine, main)
            layout = engine.catalog.layouts.get(oid)
            histories[oid if layout is None else layout.of].nodes.append((known, layout))
        sources[oid] = known
    return sources


def _history(engine: Engine, oid: int, views: Iterable[int], entries: Int64Array) -> History:
    """All changes of a relation that count, and after how many of them each entry is. entries: of
    this relation."""
    table = engine.tables.get(oid)
    if table is None:
        delta = engine.ingest.history(oid)
        ends = np.minimum(np.maximum.accumulate(entries[:, POSITION]), delta.num_rows)
        return History(delta, np.arange(delta.num_rows), ends)
    first = int(entries[0, VERSION])
    delta, ids, place, went = engine.late_changes.history(table, frozenset(views), first)
    positions = np.maximum.accumulate(entries[:, POSITION])
    came = np.searchsorted(positions, place, side="left")
    at = np.where(went < 0, came, np.searchsorted(entries[:, VERSION], went))
    order = np.lexsort((np.where(went < 0, 2 * place - 1, 2 * place), at))
    ends = np.searchsorted(at[order], np.arange(len(entries)), side="right")
    return History(delta.take(order), ids[order], ends)
