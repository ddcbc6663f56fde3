"""A view computed once more, by a circuit of its own, from the rows that its inputs hold now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamsql.circuit.checks import configured_checks
from streamsql.circuit.graph import Circuit
from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.engine.build import Built
from streamsql.engine.needs import has_spans, turns_below
from streamsql.engine.relations import Relation
from streamsql.engine.views import bind_view, compile_options
from streamsql.functions.expressions import AggregateCall, Cast, ColumnRef, Literal
from streamsql.operators.recursive import Recursive
from streamsql.plan.nodes import (
    Aggregate,
    Join,
    LogicalPlan,
    Scan,
    SetOperation,
    TimeWindow,
    Window,
)
from streamsql.plan.optimizer.ties import tells_peers_apart
from streamsql.plan.properties import orders_rows, unique_keys
from streamsql.plan.visit import scans, walk_plan

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine


def depends_on_arrival(relation: Relation, plan: LogicalPlan, engine: Engine) -> bool:
    """Whether rows may be kept out of the view, or held back, by the watermark: then the view is
    its query over the rows that were on time, which plain SQL over the tables can not tell. Nor can
    it tell which of equal rows came first, where OVER depends on that."""
    if relation.emit == "on_window_close" or _stopped(relation, engine) or _ties_count(plan):
        return True
    return depends_on_watermark(plan, relation, engine)


def depends_on_watermark(plan: LogicalPlan, relation: Relation, engine: Engine) -> bool:
    """Whether the view has operators that leave late rows out."""
    bases = [engine.catalog.known(s.relation_id) for s in scans(plan)]
    bounded = any(b is not None and b.watermark_column is not None for b in bases)
    return bounded and (_has_time_window(plan) or _judges_rows(relation, engine))


def _judges_rows(relation: Relation, engine: Engine) -> bool:
    """Whether the view holds a join that leaves out rows whose partners' time was over."""
    view = engine.views.get(relation.oid)
    operators = [] if view is None else view.compiled.operators
    return any(has_spans(o) for o in operators)


def _stopped(relation: Relation, engine: Engine) -> bool:
    """Whether the view holds a recursion that does not end: plain SQL would not end either."""
    view = engine.views.get(relation.oid)
    operators = [] if view is None else view.compiled.operators
    return any(isinstance(o, Recursive) and o.said for o in operators)


def _ties_count(plan: LogicalPlan) -> bool:
    """Whether an OVER or an aggregate tells rows apart by what only a circuit knows: which of them
    came first, or what they were given already."""
    if isinstance(plan, Aggregate) and any(_shows_arrival(plan, c) for c in plan.aggregates):
        return True
    if isinstance(plan, Window) and _tells_equals_apart(plan):
        return True
    return any(_ties_count(i) for i in plan.inputs())


def _tells_equals_apart(plan: Window) -> bool:
    """Whether calls of several orders tell equal rows apart, or peers stand in an order that SQL
    can not give them (frames of rows that leave out peers)."""
    calls = [c for c in plan.calls if c.ties and tells_peers_apart(c)]
    if any(c.frame is not None and c.frame.exclude in ("group", "ties") for c in calls):
        return True
    orders = {(c.partition_by, c.order_by) for c in calls}
    return len(orders) > 1 and not unique_keys(plan.input)


def _shows_arrival(plan: Aggregate, call: AggregateCall) -> bool:
    """Whether the order of rows that are equal in the aggregate's ORDER BY shows in it."""
    ordered = [k.expr for k in call.order_by]
    ordered += [e.arg for e in ordered if isinstance(e, Cast)]
    if call.function in ("arg_min", "arg_max"):
        ordered.append(call.args[1])
    elif not orders_rows(call):
        return False
    if all(isinstance(a, Literal) or a in ordered for a in call.args):
        return False
    columns = {e.index for e in ordered if isinstance(e, ColumnRef)} | set(plan.keys)
    return not any(columns.issuperset(key) for key in unique_keys(plan.input))


def depends_on_both_arrivals(relation: Relation, plan: LogicalPlan, engine: Engine) -> bool:
    """Whether windows judge pairs of a join, or rows of a UNION, by the watermarks of several
    relations: a replay does not know how far the others were when a row came."""
    over: list[LogicalPlan] = [n for n in walk_plan(plan) if isinstance(n, TimeWindow)]
    if relation.emit == "on_window_close":
        over.append(plan)
    pairs = (
        (_timed_below(n.left, engine), _timed_below(n.right, engine))
        for top in over
        for n in _with_views(top, engine)
        if isinstance(n, Join | SetOperation)
    )
    return any(left and right and left != right for left, right in pairs)


def depends_on_turns(relation: Relation, engine: Engine) -> bool:
    """Whether rows come and go by the clock below what a watermark closes: a turn that came too
    late for its window is not known to a replay."""
    return turns_below(engine, engine.circuit.cone(engine.views[relation.oid].node))


def depends_on_shrunk_sessions(plan: LogicalPlan, engine: Engine) -> bool:
    """Whether rows went from tables below a SESSION: a row that came may have been on time only
    because one that went since held its session open."""
    for node in _with_views(plan, engine):
        if isinstance(node, TimeWindow) and node.kind == "session":
            read = (s for s in _with_views(node, engine) if isinstance(s, Scan))
            bases = {s.relation_id for s in read} - engine.views.keys()
            tables = (engine.tables.get(oid) for oid in bases)
            if any(t is None or t.next_row_id > t.store.live_rows for t in tables):
                return True
    return False


def depends_on_idle(relation: Relation, engine: Engine) -> bool:
    """Whether inputs of the view were idle: a replay does not know what they counted for when a row
    came."""
    cone = engine.circuit.cone(engine.views[relation.oid].node)
    return any(engine.circuit.nodes[n].idle.floors for n in cone)


def _with_views(plan: LogicalPlan, engine: Engine) -> Iterator[LogicalPlan]:
    """All nodes of a plan and of the views that it reads."""
    for node in walk_plan(plan):
        yield node
        if isinstance(node, Scan) and node.relation_id in engine.views:
            yield from _with_views(engine.views[node.relation_id].compiled.plan, engine)


def _timed_below(plan: LogicalPlan, engine: Engine) -> set[int]:
    """The relations whose rows come up to here with event times that no window has judged."""
    if isinstance(plan, TimeWindow):
        return set()
    if isinstance(plan, Scan) and plan.relation_id in engine.views:
        return _timed_below(engine.views[plan.relation_id].compiled.plan, engine)
    if isinstance(plan, Scan):
        base = engine.catalog.known(plan.relation_id)
        timed = base is not None and base.watermark_column is not None
        return {plan.relation_id} if timed else set()
    return set().union(*(_timed_below(i, engine) for i in plan.inputs()))


def _has_time_window(plan: LogicalPlan) -> bool:
    return isinstance(plan, TimeWindow) or any(_has_time_window(i) for i in plan.inputs())


def rebuilt(engine: Engine, relation: Relation) -> Delta:
    """All rows the view would start with if it were created now. Engine thread.

    Its inputs are replayed in their order of arrival, each row with the watermark it arrived under,
    and so are the deletions that were too late for it.
    """
    from streamsql.engine.side_circuit import add_stand_in
    from streamsql.runtime.compile import compile_view

    catalog = engine.catalog
    plan = bind_view(relation, catalog)
    circuit, nodes = Circuit(configured_checks()), {}
    deltas: dict[int, Delta] = {}
    watermarks: dict[int, int] = {}
    idle: dict[int, int | None] = {}
    for oid in {s.relation_id for s in scans(plan)}:
        node = nodes[oid] = add_stand_in(circuit, engine, engine.nodes[oid])
        deltas[node] = engine.builder.rows_of(
            oid, Built(catalog), lambda table: engine.late_changes.replay(table, relation.oid)
        )
        idle[node] = engine.circuit.nodes[engine.nodes[oid]].idle.since
        watermark = engine.circuit.nodes[engine.nodes[oid]].watermark
        if watermark != NO_WATERMARK:
            watermarks[node] = watermark
    compiled = compile_view(plan, circuit, nodes, compile_options(relation))
    step = Step(engine.version, engine.clock_us())
    return circuit.step(step, deltas, watermarks, idle).get(
        compiled.output, Delta.empty(relation.columns)
    )
