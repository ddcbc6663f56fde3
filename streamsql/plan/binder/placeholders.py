"""Expression nodes that live only while a SELECT is being bound.

They stand for what belongs to another node of the plan (an Aggregate, a Window, a TableFunction)
and are replaced by column references before the binder returns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamsql.core.schema import Schema
from streamsql.functions.expressions import (
    AggregateCall,
    Expr,
    OuterRef,
    WindowCall,
)
from streamsql.plan.visit import (
    aggregate_expressions,
    map_aggregate,
    map_window,
    window_expressions,
)


@dataclass(frozen=True, kw_only=True)
class AggregateExpr(Expr):
    """An aggregate call over the rows of its own query. direct: what a hypothetical-set aggregate
    compares with, one value for each group."""

    call: AggregateCall
    direct: tuple[Expr, ...] = ()

    def children(self) -> tuple[Expr, ...]:
        return (*aggregate_expressions(self.call), *self.direct)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        own = len(children) - len(self.direct)
        swap = iter(_in_map_order_aggregate(self.call, children[:own]))
        call = map_aggregate(self.call, lambda _: next(swap))
        return replace(self, call=call, direct=children[own:])


@dataclass(frozen=True, kw_only=True)
class OuterAggregate(OuterRef):
    """An aggregate inside a subquery that belongs to the query `depth` levels up, because all its
    columns do. Its call is written over that query's row."""

    call: AggregateCall


@dataclass(frozen=True, kw_only=True)
class WindowExpr(Expr):
    """An OVER call."""

    call: WindowCall

    def children(self) -> tuple[Expr, ...]:
        return tuple(window_expressions(self.call))

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        swap = iter(_in_map_order_window(self.call, children))
        return replace(self, call=map_window(self.call, lambda _: next(swap)))


@dataclass(frozen=True, kw_only=True)
class GroupingExpr(Expr):
    """GROUPING(args): bit i is set where the argument is not in the row's grouping set."""

    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return replace(self, args=children)


@dataclass(frozen=True, kw_only=True)
class SetExpr(Expr):
    """A set-returning function in the select list; `type` is that of its one column, or a struct of
    its several columns."""

    function: str
    args: tuple[Expr, ...]
    schema: Schema

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return replace(self, args=children)


def _in_map_order_aggregate(call: AggregateCall, children: tuple[Expr, ...]) -> list[Expr]:
    """`children()` lists args, sort keys, filter; `map_aggregate` asks for args, filter, sort
    keys."""
    n, keys = len(call.args), len(call.order_by)
    return [*children[:n], *children[n + keys :], *children[n : n + keys]]


def _in_map_order_window(call: WindowCall, children: tuple[Expr, ...]) -> list[Expr]:
    """`children()`: args, partition, sort keys, filter, frame; `map_window`: frame first."""
    n = len(call.args) + len(call.partition_by) + len(call.order_by) + (call.filter is not None)
    return [*children[n:], *children[:n]]
