"""Where in a plan EMIT ON WINDOW CLOSE holds rows back."""

from __future__ import annotations

from streamsql.circuit.operator import Operator
from streamsql.core.errors import FeatureNotSupported
from streamsql.functions.expressions import ColumnRef, WindowCall
from streamsql.operators.arrange import same_window
from streamsql.operators.builder import Builder
from streamsql.operators.final_rows import first_changing, not_final
from streamsql.operators.hold_back import add_hold_back
from streamsql.operators.join_condition import split
from streamsql.operators.over_calls import order_of, refusal
from streamsql.operators.over_final import frame_closes, waits
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.properties import unique_keys


def lower_on_close(root: LogicalPlan, build: Builder) -> int:
    """The node of a view whose rows appear once, when the watermark has passed their window.

    Rows are held at the topmost node whose rows tell when they close; what is above it sees only
    final rows. Raises: FeatureNotSupported (0A000) if nothing in the plan ever closes, or if what
    is above the final rows changes its own results as more of them come.
    """
    mark = build.mark()
    core = root
    while isinstance(core, plan.Project | plan.Filter | plan.Sort):
        core = core.input
    held: list[LogicalPlan] = []
    final: list[LogicalPlan] = []
    if not _hold(core, build, held, final):
        raise FeatureNotSupported(
            "EMIT ON WINDOW CLOSE needs windows or rows that a watermark closes",
            hint="Declare WATERMARK FOR the time column and group by window_start, window_end.",
        )
    output = build.lower(_standing_in(root, held, build))
    if not build.operator(output).append_only:
        changing = first_changing(root, final, lambda join: _together(join, build))
        if changing is not None:
            build.undo(mark)
            raise not_final(changing)
    return output


def _together(node: plan.Join, build: Builder) -> bool:
    """Whether rows that meet are of windows that close together, so that both have come at once."""
    parts = split(node)
    if parts is None:
        return False
    mark = build.mark()
    left, right = (build.operator(build.lower(side)) for side in (parts.left, parts.right))
    found = same_window(left, right, zip(parts.left_keys, parts.right_keys, strict=True))
    build.undo(mark)
    return found


def _standing_in(node: LogicalPlan, held: list[LogicalPlan], build: Builder) -> LogicalPlan:
    """The plan with a placeholder for each part that is held back: whoever computes several nodes
    in one operator must not look through it."""
    if any(node is h for h in held):
        scan = plan.Scan(
            schema=node.schema, relation_id=-1, name="held back",
            unique_keys=unique_keys(node), append_only=True,
        )  # fmt: skip
        build.preset(scan, build.lower(node))
        return scan
    inputs = node.inputs()
    changed = tuple(_standing_in(i, held, build) for i in inputs)
    same = all(a is b for a, b in zip(inputs, changed, strict=True))
    return node if same else node.with_inputs(changed)  # nodes are known by identity


def _hold(
    core: LogicalPlan, build: Builder, held: list[LogicalPlan], final: list[LogicalPlan]
) -> bool:
    """Arrange that nodes in or below the core give final rows only; False if none ever closes.

    held: gets the nodes whose rows are held back. final: gets those that give final rows."""
    if isinstance(core, plan.Window | plan.DistinctOn) and _hold_input(core, build, held):
        final.append(core)
        return True
    mark = build.mark()
    looks_back = False
    if isinstance(core, plan.Window):
        _refuse_endless(core, build)
        looks_back = _looks_back(core, build.operator(build.lower(core.input)))
        build.undo(mark)
    build.closing.append(core)
    node = build.lower(core)
    operator = build.operator(node)
    if getattr(operator, "on_close", False):
        final.append(core)
        return True
    if not isinstance(core, plan.Window | plan.DistinctOn | plan.Limit):
        holding = add_hold_back(build, node)
        if holding is not None:
            build.preset(core, holding)
            held.append(core)
            final.append(core)
            return True
    build.undo(mark)
    found = False
    for below in core.inputs():
        inner = below
        while isinstance(inner, plan.Project | plan.Filter | plan.Sort):
            inner = inner.input
        found = _hold(inner, build, held, final) or found
    if found and looks_back:
        final.append(core)
    return found


def _refuse_endless(node: plan.Window, build: Builder) -> None:
    """OVER straight over timed rows, whose results are never final."""
    below = node.input
    while isinstance(below, plan.Project | plan.Filter):
        below = below.input
    operator = build.operator(build.lower(node.input))
    timed = isinstance(below, plan.Scan) and below.watermark_column is not None
    if operator.event_times or (timed and not operator.closes):
        raise FeatureNotSupported(
            "EMIT ON WINDOW CLOSE needs OVER (ORDER BY the watermark column) with frames that end",
            hint="Order by the column that has the WATERMARK, ascending, or partition by the "
            "columns of a time window.",
        )


def _hold_input(
    node: plan.Window | plan.DistinctOn, build: Builder, held: list[LogicalPlan]
) -> bool:
    """Top-N, dedup and OVER: hold the rows of each window back, then compute over whole windows."""
    mark = build.mark()
    source = build.lower(node.input)
    below = build.operator(source)
    keys = set(node.keys) if isinstance(node, plan.DistinctOn) else _partition(node)
    by_window = any(k in below.closes or below.determined.get(k) in keys for k in keys)
    starts = {below.determined[c] for c in below.closes if c in below.determined}
    by_window = by_window or bool(keys & starts)
    if not by_window and not (isinstance(node, plan.Window) and _final(node, below)):
        build.undo(mark)
        return False
    holding = add_hold_back(build, source, None if by_window else _order_column(node))
    if holding is None:
        build.undo(mark)
        return False
    build.preset(node.input, holding)
    held.append(node.input)
    return True


def _partition(node: plan.Window) -> set[int]:
    """Columns that all OVER clauses are partitioned by."""
    common: set[int] | None = None
    for call in node.calls:
        own = {e.index for e in call.partition_by if isinstance(e, ColumnRef)}
        common = own if common is None else common & own
    return common or set()


def _order_column(node: plan.Window | plan.DistinctOn) -> int | None:
    """The first ORDER BY column of all calls of OVER by time."""
    assert isinstance(node, plan.Window)
    first = node.calls[0].order_by[0].expr
    return first.index if isinstance(first, ColumnRef) else None


def _final(node: plan.Window, below: Operator) -> bool:
    """Whether each OVER result is final some time: ordered by time, with frames that end."""
    if not all(_by_time(call, below.event_times) and frame_closes(call) for call in node.calls):
        return False
    if len({call.order_by[0].expr for call in node.calls}) > 1:
        return False  # rows can not be given out in the order of several times
    waiting = [call for call in node.calls if waits(call)]
    if not waiting:
        return True
    # rows that wait leave in another order: only one operator may hold them back, above the others
    one_time = len(below.event_times) == 1 and not below.closes
    kept = all(refusal(call) is None for call in node.calls)
    return one_time and kept and len({order_of(call) for call in waiting}) == 1


def _looks_back(node: plan.Window, below: Operator) -> bool:
    """Whether no result depends on windows that close later: OVER in the order in which the windows
    below close, with frames that end at the row."""
    closing = frozenset(below.closes)
    first = {call.order_by[0].expr.index for call in node.calls
             if call.order_by and isinstance(call.order_by[0].expr, ColumnRef)}  # fmt: skip
    one_window = all(
        c == f or below.determined.get(c) == f or below.determined.get(f) == c
        for f in first
        for c in closing
    )
    return one_window and all(
        _by_time(call, closing) and frame_closes(call) and not waits(call) for call in node.calls
    )


def _by_time(call: WindowCall, event_times: frozenset[int]) -> bool:
    """Whether the first ORDER BY column is one that the watermark speaks of, ascending."""
    if not call.order_by:
        return False
    first = call.order_by[0]
    if first.descending or not isinstance(first.expr, ColumnRef):
        return False
    return first.expr.index in event_times
