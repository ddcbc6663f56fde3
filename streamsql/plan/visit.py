"""Walking and rebuilding plans: expressions of a node, outer references, column maps.

A *level* is one boundary between rows: entering a `Subquery`'s plan adds one, entering the right
side of a lateral Join adds one. `OuterRef(depth=d)` at level l speaks of our own row when d == l.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from streamsql.functions.expressions import (
    AggregateCall,
    ColumnRef,
    Expr,
    FrameBound,
    OuterRef,
    SortKey,
    Subquery,
    WindowCall,
    transform,
    walk,
)
from streamsql.plan.nodes import (
    Aggregate,
    ClockColumns,
    DistinctOn,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    Scan,
    Sort,
    TableFunction,
    Values,
    Window,
)

ExprMap = Callable[[Expr], Expr]
OuterMap = Callable[[OuterRef, int], Expr]


def walk_plan(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """The node and all below it (not the plans inside of subquery expressions), parents first."""
    stack = [plan]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.inputs()))


def transform_plan(plan: LogicalPlan, fn: Callable[[LogicalPlan], LogicalPlan]) -> LogicalPlan:
    """Rebuild bottom-up: `fn` sees each node after its inputs were rebuilt."""
    inputs = plan.inputs()
    if inputs:
        rebuilt = tuple(transform_plan(i, fn) for i in inputs)
        if any(a is not b for a, b in zip(inputs, rebuilt, strict=True)):
            plan = plan.with_inputs(rebuilt)
    return fn(plan)


def _sort_keys(keys: tuple[SortKey, ...]) -> list[Expr]:
    return [k.expr for k in keys]


def aggregate_expressions(call: AggregateCall) -> list[Expr]:
    """Arguments, filter and sort keys of one aggregate call."""
    found = [*call.args, *_sort_keys(call.order_by)]
    if call.filter is not None:
        found.append(call.filter)
    return found


def window_expressions(call: WindowCall) -> list[Expr]:
    """Everything one OVER call reads."""
    found = [*call.args, *call.partition_by, *_sort_keys(call.order_by + call.ties)]
    if call.filter is not None:
        found.append(call.filter)
    if call.frame is not None:
        found += [b.offset for b in (call.frame.start, call.frame.end) if b.offset is not None]
    return found


def node_expressions(node: LogicalPlan) -> list[Expr]:
    """The expressions that stand in the node itself."""
    match node:
        case Project():
            return list(node.exprs)
        case Filter():
            return [node.predicate]
        case Join():
            return [] if node.condition is None else [node.condition]
        case Aggregate():
            return [e for call in node.aggregates for e in aggregate_expressions(call)]
        case Window():
            return [e for call in node.calls for e in window_expressions(call)]
        case Sort():
            return _sort_keys(node.order_by)
        case DistinctOn():
            return _sort_keys(node.order_by + node.ties)
        case Limit():
            bounds = [b for b in (node.limit, node.offset) if b is not None]
            return [*_sort_keys(node.order_by + node.ties), *bounds]
        case TableFunction():
            return list(node.args)
        case Values():
            return [e for row in node.rows for e in row]
        case ClockColumns():
            return list(node.conditions)
    return []


def scans(plan: LogicalPlan) -> list[Scan]:
    """Every Scan of the plan, those in subqueries too."""
    found: list[Scan] = []
    for node in walk_plan(plan):
        if isinstance(node, Scan):
            found.append(node)
        for root in node_expressions(node):
            for expr in walk(root):
                if isinstance(expr, Subquery):
                    found += scans(expr.plan)
    return found


def map_sort_keys(keys: tuple[SortKey, ...], fn: ExprMap) -> tuple[SortKey, ...]:
    """Sort keys over mapped expressions."""
    return tuple(replace(k, expr=fn(k.expr)) for k in keys)


def map_aggregate(call: AggregateCall, fn: ExprMap) -> AggregateCall:
    """The call with `fn` applied to every expression it holds."""
    return replace(
        call,
        args=tuple(fn(a) for a in call.args),
        filter=None if call.filter is None else fn(call.filter),
        order_by=map_sort_keys(call.order_by, fn),
    )


def _map_bound(bound: FrameBound, fn: ExprMap) -> FrameBound:
    return bound if bound.offset is None else replace(bound, offset=fn(bound.offset))


def map_window(call: WindowCall, fn: ExprMap) -> WindowCall:
    """The call with `fn` applied to every expression it holds."""
    frame = call.frame
    if frame is not None:
        frame = replace(frame, start=_map_bound(frame.start, fn), end=_map_bound(frame.end, fn))
    return replace(
        call,
        args=tuple(fn(a) for a in call.args),
        partition_by=tuple(fn(p) for p in call.partition_by),
        order_by=map_sort_keys(call.order_by, fn),
        filter=None if call.filter is None else fn(call.filter),
        frame=frame,
        ties=map_sort_keys(call.ties, fn),
    )


def map_node(node: LogicalPlan, fn: ExprMap) -> LogicalPlan:
    """The node with `fn` applied to its own expressions (inputs untouched)."""
    match node:
        case Project():
            return replace(node, exprs=tuple(fn(e) for e in node.exprs))
        case Filter():
            return replace(node, predicate=fn(node.predicate))
        case Join():
            return node if node.condition is None else replace(node, condition=fn(node.condition))
        case Aggregate():
            return replace(node, aggregates=tuple(map_aggregate(a, fn) for a in node.aggregates))
        case Window():
            return replace(node, calls=tuple(map_window(c, fn) for c in node.calls))
        case Sort():
            return replace(node, order_by=map_sort_keys(node.order_by, fn))
        case DistinctOn():
            order_by, ties = (map_sort_keys(k, fn) for k in (node.order_by, node.ties))
            return replace(node, order_by=order_by, ties=ties)
        case Limit():
            return replace(
                node,
                order_by=map_sort_keys(node.order_by, fn),
                ties=map_sort_keys(node.ties, fn),
                limit=None if node.limit is None else fn(node.limit),
                offset=None if node.offset is None else fn(node.offset),
            )
        case TableFunction():
            return replace(node, args=tuple(fn(a) for a in node.args))
        case Values():
            return replace(node, rows=tuple(tuple(fn(e) for e in row) for row in node.rows))
        case ClockColumns():
            return replace(node, conditions=tuple(fn(e) for e in node.conditions))
    return node


def map_outer(expr: Expr, fn: OuterMap, level: int = 0) -> Expr:
    """Apply `fn(ref, level)` to every OuterRef in the expression, those in subquery plans too.

    `level` is the number of row boundaries between the expression where the walk began and the
    reference: a reference leaves the walked tree when `ref.depth > level`.
    """
    if isinstance(expr, OuterRef):
        return fn(expr, level)
    children = expr.children()
    if children:
        mapped = tuple(map_outer(c, fn, level) for c in children)
        if any(a is not b for a, b in zip(children, mapped, strict=True)):
            expr = expr.with_children(mapped)
    if isinstance(expr, Subquery):
        plan = map_outer_plan(expr.plan, fn, level + 1)
        if plan is not expr.plan:
            expr = replace(expr, plan=plan)
    return expr


def map_outer_plan(plan: LogicalPlan, fn: OuterMap, level: int = 0) -> LogicalPlan:
    """`map_outer` for every expression in the plan."""
    inputs = plan.inputs()
    if inputs:
        inner = level + 1 if isinstance(plan, Join) and plan.lateral else level
        levels = (level, inner) if len(inputs) == 2 else (level,)
        mapped = tuple(map_outer_plan(p, fn, n) for p, n in zip(inputs, levels, strict=True))
        if any(a is not b for a, b in zip(inputs, mapped, strict=True)):
            plan = plan.with_inputs(mapped)
    own = node_expressions(plan)
    if not own:
        return plan
    changed = {id(e): map_outer(e, fn, level) for e in own}
    if all(changed[id(e)] is e for e in own):
        return plan
    return map_node(plan, lambda e: changed[id(e)])


def outer_refs(plan: LogicalPlan) -> list[tuple[OuterRef, int]]:
    """(reference, levels above the plan's own row context: 1 = the row the plan is evaluated
    for)."""
    found: list[tuple[OuterRef, int]] = []

    def note(ref: OuterRef, level: int) -> Expr:
        if ref.depth > level:
            found.append((ref, ref.depth - level))
        return ref

    map_outer_plan(plan, note)
    return found


def expression_outer_refs(expr: Expr) -> list[tuple[OuterRef, int]]:
    """References that leave the expression: (reference, depth from it; 0 = the expression's own
    row, as a subquery inside of it sees that row)."""
    found: list[tuple[OuterRef, int]] = []

    def note(ref: OuterRef, level: int) -> Expr:
        if ref.depth >= level:
            found.append((ref, ref.depth - level))
        return ref

    map_outer(expr, note)
    return found


def shift_outer(plan: LogicalPlan, by: int, above: int = 0) -> LogicalPlan:
    """Add `by` to the depth of references that leave the plan by more than `above` levels."""

    def move(ref: OuterRef, level: int) -> Expr:
        return replace(ref, depth=ref.depth + by) if ref.depth > level + above else ref

    return map_outer_plan(plan, move)


def deepen(expr: Expr, levels: int) -> Expr:
    """The expression moved below `levels` more row boundaries, its own row moving along: references
    that leave it go that much further up."""

    def move(ref: OuterRef, level: int) -> Expr:
        return replace(ref, depth=ref.depth + levels) if ref.depth > level else ref

    return map_outer(expr, move)


def row_columns(expr: Expr) -> set[int]:
    """Columns of the expression's own row that it reads, those inside its subqueries included."""
    used: set[int] = set()

    def see(e: Expr) -> None:
        if isinstance(e, ColumnRef):
            used.add(e.index)
        for c in e.children():
            see(c)
        if isinstance(e, Subquery):
            used.update(r.index for r, depth in outer_refs(e.plan) if depth == 1)

    see(expr)
    return used


RefMap = Callable[["ColumnRef | OuterRef"], Expr]


def replace_columns(expr: Expr, fn: RefMap, level: int = 0) -> Expr:
    """Replace each reference to the expression's own row by `fn(reference)`.

    `fn` gives an expression over the new own row. Inside a subquery the own row appears as
    OuterRef; there the result of `fn` is turned into an outer expression of the right depth.
    """
    if level == 0 and isinstance(expr, ColumnRef):
        return fn(expr)
    if isinstance(expr, OuterRef):
        if level and expr.depth == level:
            return push_down_levels(fn(expr), level)
        return expr
    children = expr.children()
    if children:
        mapped = tuple(replace_columns(c, fn, level) for c in children)
        if any(a is not b for a, b in zip(children, mapped, strict=True)):
            expr = expr.with_children(mapped)
    if isinstance(expr, Subquery):
        plan = replace_columns_plan(expr.plan, fn, level + 1)
        if plan is not expr.plan:
            expr = replace(expr, plan=plan)
    return expr


def replace_columns_plan(plan: LogicalPlan, fn: RefMap, level: int = 1) -> LogicalPlan:
    """Replace references to the row `level` boundaries above the plan's own expressions."""

    def swap(ref: OuterRef, at: int) -> Expr:
        return push_down_levels(fn(ref), at) if ref.depth == at else ref

    return map_outer_plan(plan, swap, level)


def push_down_levels(expr: Expr, levels: int) -> Expr:
    """The expression as seen from `levels` row boundaries further down."""
    if levels == 0:
        return expr
    moved = map_outer(expr, lambda r, n: replace(r, depth=r.depth + levels) if r.depth >= n else r)

    def own(e: Expr) -> Expr:
        if isinstance(e, ColumnRef):
            return OuterRef(
                index=e.index, depth=levels, type=e.type, name=e.name, position=e.position
            )
        return e

    return transform(moved, own)


def shift_columns(expr: Expr, by: int) -> Expr:
    """The expression over a row with `by` more columns in front."""
    return expr if by == 0 else replace_columns(expr, lambda r: _at(r, r.index + by))


def remap_columns(expr: Expr, mapping: Mapping[int, int] | Sequence[int]) -> Expr:
    """The expression with column i replaced by column mapping[i]."""
    return replace_columns(expr, lambda r: _at(r, mapping[r.index]))


def _at(ref: ColumnRef | OuterRef, index: int) -> ColumnRef:
    return ColumnRef(index=index, type=ref.type, name=ref.name, position=ref.position)


def map_expressions(plan: LogicalPlan, fn: ExprMap) -> LogicalPlan:
    """Apply `fn` bottom-up to every expression node of the plan, those in subquery plans too."""

    def rebuild(expr: Expr) -> Expr:
        def one(e: Expr) -> Expr:
            if isinstance(e, Subquery):
                inner = map_expressions(e.plan, fn)
                e = e if inner is e.plan else replace(e, plan=inner)
            return fn(e)

        return transform(expr, one)

    def node(p: LogicalPlan) -> LogicalPlan:
        own = node_expressions(p)
        changed = {id(e): rebuild(e) for e in own}
        if all(changed[id(e)] is e for e in own):
            return p
        return map_node(p, lambda e: changed[id(e)])

    return transform_plan(plan, node)
