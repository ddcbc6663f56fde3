"""The order of a subquery's rows, where something above depends on it.

SQL leaves open in which order `array_agg(x)` sees the rows of `(SELECT … ORDER BY y)`, and
PostgreSQL's manual says that it "will usually work": programs rely on it. A view keeps bags, which
have no order, so the order is made explicit here: calls that depend on it and have no ORDER BY of
their own take the keys of the sorted subquery below them, and those of the elements of an array.
ARRAY(subquery) becomes array_agg over its rows, so that it is kept as any aggregate is.
"""

from __future__ import annotations

from dataclasses import replace

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT
from streamsql.functions.expressions import (
    AggregateCall,
    ColumnRef,
    Expr,
    Frame,
    FrameBound,
    Literal,
    SortKey,
    Subquery,
    WindowCall,
    column,
    transform,
    walk,
)
from streamsql.functions.registry import aggregate_of
from streamsql.functions.resolve import resolve_call
from streamsql.plan.nodes import (
    Aggregate,
    Filter,
    Limit,
    LogicalPlan,
    Project,
    Scan,
    Sort,
    TableFunction,
    Window,
)
from streamsql.plan.properties import unique_keys
from streamsql.plan.visit import map_node, node_expressions, transform_plan, walk_plan

Keys = tuple[SortKey, ...]
NUMBERED = ("row_number", "lag", "lead", "ntile")
VALUES = ("first_value", "last_value", "nth_value")
_ALL_ROWS = Frame(
    mode="rows",
    start=FrameBound(kind="unbounded_preceding"),
    end=FrameBound(kind="unbounded_following"),
)


def inherit_order(plan: LogicalPlan) -> LogicalPlan:
    """Give calls that depend on the order of rows the order of the subquery they read."""
    return transform_plan(plan, _node)


def _node(node: LogicalPlan) -> LogicalPlan:
    if any(_is_array(e) for expr in node_expressions(node) for e in walk(expr)):
        node = map_node(node, lambda e: transform(e, _collected))
    if isinstance(node, Aggregate):
        return _aggregate(node)
    if isinstance(node, Window):
        return _window(node)
    return node


# --- what has the order -------------------------------------------------------------------------
def _carried(plan: LogicalPlan) -> tuple[LogicalPlan, Keys]:
    """(plan, keys): the plan with the columns its order goes by behind its own, and that order; ()
    if the rows come in no order."""
    match plan:
        case Sort() | Limit() if plan.order_by:
            return plan, plan.order_by
        case Limit() | Filter():
            inner, keys = _carried(plan.input)
            return replace(plan, input=inner, schema=inner.schema), keys
        case Project():
            return _through_project(plan)
        case TableFunction():
            return _elements(plan)
    return plan, ()


def _through_project(plan: Project) -> tuple[LogicalPlan, Keys]:
    inner, keys = _carried(plan.input)
    exprs, columns = list(plan.exprs), list(plan.schema.columns)

    def place(e: Expr) -> Expr:
        if not isinstance(e, ColumnRef):
            return e
        if e not in exprs:
            exprs.append(e)
            columns.append(inner.schema[e.index])
        return column(exprs.index(e), e.type, e.name)

    moved = tuple(replace(k, expr=transform(k.expr, place)) for k in keys)
    return replace(plan, input=inner, exprs=tuple(exprs), schema=Schema(tuple(columns))), moved


def _elements(plan: TableFunction) -> tuple[LogicalPlan, Keys]:
    """An array's elements in their places, where the rows that hold the arrays have an order too:
    the subquery's, or that of a unique key."""
    inner, keys = _carried(plan.input)
    if not keys:
        known = unique_keys(plan.input)
        if not known:
            return plan, ()
        found = plan.input.schema
        keys = tuple(SortKey(expr=column(i, found[i].type, found[i].name)) for i in known[0])
    width, extra = len(plan.input.schema), len(inner.schema) - len(plan.input.schema)
    own = plan.schema.columns[width:]
    columns = [*inner.schema.columns, *own]
    if not plan.with_ordinality:
        columns.append(Column("ordinality", BIGINT))
    wide = replace(plan, input=inner, schema=Schema(tuple(columns)), with_ordinality=True)
    last = len(columns) - 1
    keys = (*keys, SortKey(expr=column(last, BIGINT, "ordinality")))
    if not extra:
        return wide, keys
    # the function's columns stand behind the carried ones: put them where they were
    order = [*range(width), *range(width + extra, last + 1), *range(width, width + extra)]
    exprs = tuple(column(i, columns[i].type, columns[i].name) for i in order)
    turned = Project(schema=Schema(tuple(columns[i] for i in order)), input=wide, exprs=exprs)
    back = {old: new for new, old in enumerate(order)}

    def place(e: Expr) -> Expr:
        return replace(e, index=back[e.index]) if isinstance(e, ColumnRef) else e

    return turned, tuple(replace(k, expr=transform(k.expr, place)) for k in keys)


def _plain(plan: LogicalPlan, keys: Keys) -> tuple[LogicalPlan, Keys]:
    """The same with every key a column: calls take nothing else."""
    exprs: list[Expr] = [column(i, c.type, c.name) for i, c in enumerate(plan.schema)]
    columns = list(plan.schema.columns)
    found = []
    for key in keys:
        if isinstance(key.expr, ColumnRef):
            found.append(key)
            continue
        found.append(replace(key, expr=column(len(exprs), key.expr.type)))
        exprs.append(key.expr)
        columns.append(Column("?column?", key.expr.type))
    if len(exprs) == len(plan.schema):
        return plan, tuple(found)
    return Project(schema=Schema(tuple(columns)), input=plan, exprs=tuple(exprs)), tuple(found)


# --- what depends on it -------------------------------------------------------------------------
def _sensitive(call: AggregateCall | WindowCall) -> bool:
    if call.function.startswith("duckdb:"):
        return False
    return aggregate_of(call.function, tuple(a.type for a in call.args)).order_sensitive


def _aggregate(node: Aggregate) -> LogicalPlan:
    waiting = [not c.order_by and not c.distinct and _sensitive(c) for c in node.aggregates]
    if not any(waiting):
        return node
    source, keys = _plain(*_carried(node.input))
    if not keys:
        return node
    calls = tuple(
        replace(c, order_by=keys) if waits else c
        for c, waits in zip(node.aggregates, waiting, strict=True)
    )
    return replace(node, input=source, aggregates=calls)


def _window(node: Window) -> LogicalPlan:
    waiting = [_numbered(c) for c in node.calls]
    if not any(waiting):
        return node
    source, keys = _plain(*_carried(node.input))
    if not keys:
        return node
    calls = tuple(
        replace(c, order_by=keys, frame=c.frame or (None if c.function in NUMBERED else _ALL_ROWS))
        if waits
        else c
        for c, waits in zip(node.calls, waiting, strict=True)
    )
    width, extra = len(node.input.schema), len(source.schema) - len(node.input.schema)
    columns = [*source.schema.columns, *node.schema.columns[width:]]
    wide = replace(node, input=source, calls=calls, schema=Schema(tuple(columns)))
    if not extra:
        return wide
    order = [*range(width), *range(width + extra, len(columns))]
    exprs = tuple(column(i, columns[i].type, columns[i].name) for i in order)
    return Project(schema=node.schema, input=wide, exprs=exprs)


def _numbered(call: WindowCall) -> bool:
    """OVER () whose result goes by the order of the rows. With PARTITION BY PostgreSQL sorts by the
    partition, and what was sorted below is lost."""
    if call.order_by or call.partition_by:
        return False
    if call.frame is not None and call.frame.mode != "rows":
        return False
    return call.function in (*NUMBERED, *VALUES) or call.frame is not None


def _is_array(e: Expr) -> bool:
    """ARRAY(subquery) over rows of a relation; one over a row's own values is an expression."""
    return (
        isinstance(e, Subquery)
        and e.kind == "array"
        and any(isinstance(p, Scan) for p in walk_plan(e.plan))
    )


def _collected(e: Expr) -> Expr:
    """ARRAY(subquery) as COALESCE((SELECT array_agg(…) FROM subquery), ARRAY[])."""
    if not isinstance(e, Subquery) or not _is_array(e):
        return e
    element = e.plan.schema[0]
    call = AggregateCall(
        function="array_agg", args=(column(0, element.type, element.name),), type=e.type
    )
    whole = Aggregate(
        schema=Schema((Column(element.name, e.type),)), input=e.plan, keys=(), aggregates=(call,)
    )
    scalar = Subquery(kind="scalar", plan=_aggregate(whole), type=e.type, position=e.position)
    return resolve_call("coalesce", [scalar, Literal(value=(), type=e.type)])
