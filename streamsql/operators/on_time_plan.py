"""Where rows that are late for a time window are left out already below DISTINCT and GROUP BY.

A window drops whatever is made of rows that come when it is closed. Where what stands below it
tells the rows of different times apart, it can be left out before: then nobody asks for what is
kept of these times any more, and it is freed like a closed window's. The rows are left out at the
lowest such place, so that all of them free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streamsql.functions.expressions import ColumnRef
from streamsql.operators.builder import Builder
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import walk_plan

Wrap = Callable[[LogicalPlan, int, bool], plan.OnTime]
"""The rows of a plan that are on time by this column; whether others are really left out."""


def judge_early(node: LogicalPlan) -> LogicalPlan:
    """The plan with an `OnTime` below each DISTINCT, GROUP BY or UNION that a time window is made
    over and that has the window's time among its keys."""
    if isinstance(node, plan.RecursiveCte):
        return node  # its step is computed by iterations, not by the rows that came
    inputs = node.inputs()
    changed = tuple(judge_early(i) for i in inputs)
    if any(a is not b for a, b in zip(inputs, changed, strict=True)):
        node = node.with_inputs(changed)
    if not isinstance(node, plan.TimeWindow) or node.kind == "session":
        return node
    window = node

    def wrap(below: LogicalPlan, column: int, drops: bool) -> plan.OnTime:
        return plan.OnTime(
            schema=below.schema, input=below, kind=window.kind, time_column=column,
            size=window.size, slide=window.slide, offset=window.offset, tz=window.tz, drops=drops,
        )  # fmt: skip

    found = _judged(node.input, node.time_column, wrap, False)
    return node if found is None else replace(node, input=found)


def lower_input(node: LogicalPlan, time_column: int, build: Builder) -> int:
    """The node of a time window's input; as if nothing was left out below where something between
    loses the time, so that these windows do not judge by it."""
    plain = _without(node)
    if plain is node:
        return build.lower(node)
    mark, closing = build.mark(), list(build.closing)
    source = build.lower(node)
    below = build.operator(source)
    if time_column in below.useless and time_column in below.event_times:
        return source
    build.undo(mark)
    build.closing[:] = closing
    return build.lower(plain)


def _without(node: LogicalPlan) -> LogicalPlan:
    """The plan without `OnTime` down to the next window."""
    if isinstance(node, plan.OnTime):
        return _without(node.input)
    if isinstance(node, plan.TimeWindow):
        return node
    inputs = node.inputs()
    changed = tuple(_without(i) for i in inputs)
    same = all(a is b for a, b in zip(inputs, changed, strict=True))
    return node if same else node.with_inputs(changed)


def _judged(node: LogicalPlan, column: int, wrap: Wrap, grouped: bool) -> LogicalPlan | None:
    """The plan over rows that are on time by an output column of it; None if there is nothing that
    could free, or if windows below have judged the rows. grouped: something above frees by it."""
    if isinstance(node, plan.Project):
        expr = node.exprs[column]
        if not isinstance(expr, ColumnRef):
            return None
        below = _judged(node.input, expr.index, wrap, grouped)
        return None if below is None else replace(node, input=below)
    if isinstance(node, plan.Filter | plan.Sort):
        below = _judged(node.input, column, wrap, grouped)
        return None if below is None else replace(node, input=below)
    if isinstance(node, plan.Distinct):
        return _group(node, column, wrap)
    if isinstance(node, plan.Aggregate) and _always_key(node, column):
        return _group(node, node.keys[column], wrap)
    if isinstance(node, plan.SetOperation) and node.kind == "union" and not node.all:
        rows = plan.SetOperation(
            schema=node.schema, left=node.left, right=node.right, kind="union", all=True
        )
        return _group(plan.Distinct(schema=node.schema, input=rows), column, wrap)
    if isinstance(node, plan.SetOperation):
        return _sides(node, column, wrap, grouped)
    if isinstance(node, plan.Join) and node.kind in ("semi", "anti"):
        return None if _of_windows(node.left) else wrap(node, column, grouped)
    return None


def _sides(node: plan.SetOperation, column: int, wrap: Wrap, grouped: bool) -> LogicalPlan | None:
    """Below a set operation rows are judged by their own relation's watermark: that is the one of
    the windows where there is no other."""
    read = {n.relation_id for n in walk_plan(node) if isinstance(n, plan.Scan)}
    changed = node
    if len(read) == 1:
        left, right = (_judged(side, column, wrap, grouped) for side in node.inputs())
        if left is not None or right is not None:
            left = left or wrap(node.left, column, True)
            changed = replace(node, left=left, right=right or wrap(node.right, column, True))
    if node.kind == "union":
        return changed if changed is not node else None
    return wrap(changed, column, True)


def _group(node: plan.Distinct | plan.Aggregate, column: int, wrap: Wrap) -> LogicalPlan | None:
    """column: the key's position in the input."""
    below = _judged(node.input, column, wrap, True)
    if below is None and not _of_windows(node.input):
        below = wrap(node.input, column, True)
    return None if below is None else replace(node, input=below)


def _always_key(node: plan.Aggregate, column: int) -> bool:
    """Whether an output column is a key of all groups."""
    sets = node.grouping_sets
    return column < len(node.keys) and (sets is None or all(column in s for s in sets))


def _of_windows(node: LogicalPlan) -> bool:
    """Whether the rows are those of windows, which free by themselves and are computed together
    with what groups them."""
    while isinstance(node, plan.Project | plan.Filter | plan.Sort):
        node = node.input
    return isinstance(node, plan.TimeWindow)
