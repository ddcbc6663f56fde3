"""Aggregate calls: their arguments, FILTER, ORDER BY, and which query level they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from streamsql.core.errors import (
    GroupingError,
    StatementError,
    WindowingError,
    WrongObjectType,
)
from streamsql.functions.expressions import AggregateCall, ColumnRef, Expr, OuterRef, SortKey
from streamsql.functions.resolve import resolve_aggregate
from streamsql.plan.binder.calls import CallSyntax
from streamsql.plan.binder.expressions import ExprBinder
from streamsql.plan.binder.parameters import note_types
from streamsql.plan.binder.placeholders import AggregateExpr, OuterAggregate
from streamsql.plan.visit import (
    aggregate_expressions,
    expression_outer_refs,
    map_aggregate,
    map_outer,
    row_columns,
)


def sort_keys(binder: ExprBinder, items: Sequence[exp.Ordered]) -> list[SortKey]:
    """ORDER BY items that are plain expressions (no output names, no ordinals)."""
    return [
        SortKey(
            expr=binder.bind(item.this),
            descending=bool(item.args.get("desc")),
            nulls_first=bool(item.args.get("nulls_first")),
        )
        for item in items
    ]


def bind_aggregate(binder: ExprBinder, call: CallSyntax) -> Expr:
    """An aggregate call without OVER; it belongs to the query whose columns it reads."""
    if not call.args and not call.star and not call.within_group:
        raise WrongObjectType(
            f"{call.name}(*) must be used to call a parameterless aggregate function",
            position=call.position,
        )
    inner = binder.within("aggregate")
    args = [inner.bind(a) for a in call.args]
    condition = None
    if call.filter is not None:
        condition = replace(inner, clause="FILTER", inside="filter").predicate(call.filter)
    order_by = sort_keys(inner, call.within_group or call.order_by)
    bound = resolve_aggregate(
        call.name,
        args,
        distinct=call.distinct,
        filter=condition,
        order_by=order_by,
        position=call.position,
    )
    for e in (*bound.args, *([] if bound.filter is None else [bound.filter])):
        note_types(binder.statement.context, e)
    return place_aggregate(binder, bound, owner_depth(aggregate_expressions(bound)), call.position)


def place_aggregate(
    binder: ExprBinder,
    bound: AggregateCall,
    levels: int,
    position: int | None,
    direct: Sequence[Expr] = (),
) -> Expr:
    """The call as a value of the query `levels` boundaries further up, which is to aggregate it.

    direct: the direct arguments of a hypothetical-set aggregate, which may read grouped columns
    only. Raises: GroupingError (42803) where that query can't hold an aggregate.
    """
    if levels == 0:
        if not binder.aggregates:
            raise refuse_aggregate(binder, position)
        return AggregateExpr(call=bound, type=bound.type, position=position, direct=tuple(direct))
    owner = binder.scope
    for _ in range(levels):
        assert owner.parent is not None
        owner = owner.parent
    if not owner.accepts_aggregates:
        raise refuse_aggregate(replace(binder, clause=owner.clause, inside=owner.inside), position)
    pulled = map_aggregate(bound, lambda e: pull_up(e, levels))
    return OuterAggregate(call=pulled, index=-1, depth=levels, type=bound.type, position=position)


def owner_depth(exprs: Iterable[Expr]) -> int:
    """How many levels up the query of an aggregate over these expressions is: that of the innermost
    column it reads."""
    depths: list[int] = []
    for e in exprs:
        if row_columns(e):
            return 0
        depths += [depth for _, depth in expression_outer_refs(e)]
    return min(depths, default=0)


def pull_up(expr: Expr, levels: int) -> Expr:
    """The expression as the row `levels` boundaries further up sees it (it reads no nearer row)."""

    def move(ref: OuterRef, level: int) -> Expr:
        if ref.depth <= level:
            return ref
        depth = ref.depth - levels
        if depth == level == 0:
            return ColumnRef(index=ref.index, type=ref.type, name=ref.name, position=ref.position)
        return replace(ref, depth=depth)

    return map_outer(expr, move)


def refuse_aggregate(
    binder: ExprBinder, position: int | None, what: str = "aggregate functions"
) -> StatementError:
    """42803 for an aggregate in a place that can't hold one."""
    match binder.inside:
        case "aggregate":
            return GroupingError(
                "aggregate function calls cannot be nested",
                position=position,
                hint="Aggregate in a subquery first, then aggregate its result.",
            )
        case "filter":
            return GroupingError(f"{what} are not allowed in FILTER", position=position)
        case "window definition":
            return WindowingError(
                f"{what} are not allowed in window definitions", position=position
            )
    clause = {"JOIN/ON": "JOIN conditions"}.get(binder.clause, binder.clause)
    hint = "Use HAVING, or aggregate in a subquery." if clause == "WHERE" else None
    return GroupingError(f"{what} are not allowed in {clause}", position=position, hint=hint)
