"""Aggregates that pick or list JSONB in its order: percentile_disc, mode, min and max, and lists of
DISTINCT values.

They run over `jsonb_sortable(x)`, bytes in the order of the documents that hold them besides, and
`jsonb_unsorted` takes the documents out of the result. What must be equal where documents are
(DISTINCT, mode) is brought to one spelling first, and so are documents inside of arrays, of which
the first that differ decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BYTEA, JSON, JSONB, Kind, array_of
from streamsql.functions.expressions import (
    AggregateCall,
    Call,
    Cast,
    ColumnRef,
    Expr,
    WindowCall,
    column,
)
from streamsql.plan.nodes import Aggregate, LogicalPlan, Project, Window

EXTREMES = frozenset({"min", "max"})
ORDERED_SETS = frozenset({"percentile_disc", "mode"})
LISTS = frozenset({"array_agg", "jsonb_agg", "json_agg"})


def value_of(call: AggregateCall | WindowCall) -> ColumnRef | None:
    """The column of documents whose order the result shows, if there is one."""
    found: Expr | None = None
    if call.function in ORDERED_SETS and isinstance(call, AggregateCall):
        found = call.order_by[0].expr
    elif call.args and (call.function in EXTREMES or (call.function in LISTS and call.distinct)):
        found = call.args[0]
    return found if isinstance(found, ColumnRef) and found.type.holds(Kind.JSONB) else None


def sortable(call: AggregateCall | WindowCall, value: ColumnRef) -> Expr:
    """What the call reads in place of its documents."""
    made: Expr = value
    if call.distinct or call.function == "mode" or value.type != JSONB:
        made = Call(function="jsonb_key", args=(value,), type=value.type)
    type_ = value.type.with_leaf(JSONB, BYTEA)
    return Call(function="jsonb_sortable", args=(made,), type=type_, position=value.position)


def documents(expr: Expr, call: AggregateCall | WindowCall) -> Expr:
    """The result of `call` out of the bytes that took its place."""
    if call.function not in ("jsonb_agg", "json_agg"):
        return Call(function="jsonb_unsorted", args=(expr,), type=call.type)
    value = value_of(call)
    assert value is not None
    listed = Call(function="jsonb_unsorted", args=(expr,), type=array_of(value.type))
    made: Expr = Call(function="to_jsonb", args=(listed,), type=JSONB)
    return made if call.type == JSONB else Cast(arg=made, type=JSON)


def sort_documents(plan: Aggregate | Window) -> tuple[Aggregate | Window, tuple[Expr, ...] | None]:
    """The node with such calls over bytes, and what its columns were out of its new ones (None =
    there is no such call)."""
    width = len(plan.input.schema)
    keys: dict[Expr, ColumnRef] = {}
    found: Sequence[AggregateCall | WindowCall] = (
        plan.aggregates if isinstance(plan, Aggregate) else plan.calls
    )
    calls: list[AggregateCall | WindowCall] = []
    for call in found:
        value = value_of(call)
        if value is None:
            calls.append(call)
            continue
        key = sortable(call, value)
        place = keys.setdefault(key, column(width + len(keys), key.type))
        calls.append(_over(call, value, place))
    if not keys:
        return plan, None
    source = beside(plan.input, list(keys))
    own, given = list(plan.schema.columns), list(plan.schema.columns)
    first = len(plan.keys) if isinstance(plan, Aggregate) else width
    if isinstance(plan, Window):
        given[width:width] = source.schema.columns[width:]
    shift = len(given) - len(own)
    for i, call in enumerate(calls, first):
        given[i + shift] = Column(own[i].name, call.type, own[i].nullable)
    exprs: list[Expr] = [
        column(i if i < first else i + shift, given[i if i < first else i + shift].type, c.name)
        for i, c in enumerate(own)
    ]
    for i, (old, new) in enumerate(zip(found, calls, strict=True), first):
        if new is not old:
            exprs[i] = documents(exprs[i], old)
    schema = Schema(tuple(given))
    made: dict[str, Any] = {"schema": schema, "input": source}
    made["aggregates" if isinstance(plan, Aggregate) else "calls"] = tuple(calls)
    return replace(plan, **made), tuple(exprs)


def _over(
    call: AggregateCall | WindowCall, value: ColumnRef, place: ColumnRef
) -> AggregateCall | WindowCall:
    def moved(expr: Expr) -> Expr:
        return place if expr == value else expr

    type_ = call.type.with_leaf(JSONB, BYTEA)
    function = call.function
    if function in ("jsonb_agg", "json_agg"):
        function, type_ = "array_agg", array_of(place.type)
    args = tuple(moved(a) for a in call.args)
    if isinstance(call, WindowCall):
        return replace(call, function=function, args=args, type=type_)
    order = tuple(replace(k, expr=moved(k.expr)) for k in call.order_by)
    return replace(call, function=function, args=args, order_by=order, type=type_)


def beside(plan: LogicalPlan, more: Sequence[Expr]) -> Project:
    """The plan with these columns behind its own."""
    own = tuple(column(i, c.type, c.name) for i, c in enumerate(plan.schema))
    schema = Schema((*plan.schema.columns, *(Column("", e.type) for e in more)))
    return Project(schema=schema, input=plan, exprs=(*own, *more))
