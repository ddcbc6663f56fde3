"""A part of a plan that is recomputed, in variants: with expressions NULL that fail for some rows,
without the other side of a join, or counting what scalar subqueries give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, BOOLEAN
from streamsql.functions.expressions import (
    AggregateCall,
    Call,
    ColumnRef,
    Expr,
    Literal,
    Subquery,
    walk,
)
from streamsql.functions.resolve import can_fail
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import node_expressions

FALSE = Literal(value=False, type=BOOLEAN)
LEFT_BY_ROW = ("inner", "cross", "left", "semi", "anti", "asof", "asof_left")


@dataclass(frozen=True)
class Variants:
    """root: as in `recompute_plan.Cut`: its leaves are Scans named in0, in1, …"""

    root: LogicalPlan
    timezone: str

    @cached_property
    def row_port(self) -> int | None:
        """The leaf whose rows each give rows of their own, whatever its other rows are; None: there
        is none."""
        root = self.root
        if isinstance(root, plan.Project | plan.Filter | plan.TableFunction):
            return _leaf(root.input)
        if not isinstance(root, plan.Join):
            return None
        own, other = _leaf(root.left), _leaf(root.right)
        if root.kind == "right":
            own, other = other, own
        elif root.kind not in LEFT_BY_ROW:
            return None
        return None if own == other else own

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Which of the results can be NULL by themselves: expressions that can fail, or the calls
        of an Aggregate or Window."""
        if isinstance(self.root, plan.Aggregate):
            return tuple(range(len(self.root.aggregates)))
        if isinstance(self.root, plan.Window):
            return tuple(range(len(self.root.calls)))
        return tuple(i for i, e in enumerate(_results(self.root)) if _may_fail(e))

    def sql(self, nulls: frozenset[int] = frozenset()) -> str:
        """With these results NULL."""
        return self._sql(_with_nulls(self.root, nulls) if nulls else self.root)

    def alone(self, place: int) -> str:
        """With all results NULL that can fail, but for one."""
        return self.sql(frozenset(self.places) - {place})

    def without_partner(self) -> str | None:
        """The rows of a join as if the other side had none; None for anything else."""
        root = self.root
        if not isinstance(root, plan.Join):
            return None
        if root.kind == "right":
            none = plan.Values(schema=root.left.schema, rows=())
            return self._sql(replace(root, left=none, condition=FALSE, lateral=False))
        none = plan.Values(schema=root.right.schema, rows=())
        kind = {"cross": "inner", "asof": "inner", "asof_left": "left"}.get(root.kind, root.kind)
        alone = replace(root, right=none, condition=FALSE, lateral=False, null_aware=False)
        return self._sql(replace(alone, kind=kind))

    def several(self, places: Sequence[int] | None) -> str | None:
        """Which rows have a scalar subquery that gives more than one: the values of a further
        column of the rows' leaf. places: only in these results; None = in all."""
        root = self.root
        if not isinstance(root, plan.Project | plan.Filter) or _leaf(root.input) is None:
            return None
        wanted = node_expressions(root) if places is None else [_results(root)[i] for i in places]
        found = dict.fromkeys(
            e for own in wanted for e in walk(own)
            if isinstance(e, Subquery) and e.kind == "scalar"
        )  # fmt: skip
        if not found:
            return None
        columns = (*root.input.schema.columns, Column("row", BIGINT))
        source = replace(root.input, schema=Schema(columns))
        counts = [Column("", BIGINT) for _ in found]
        number = ColumnRef(index=len(columns) - 1, type=BIGINT)
        counted = plan.Project(
            schema=Schema((Column("row", BIGINT), *counts)), input=source,
            exprs=(number, *(_count(s) for s in found)),
        )  # fmt: skip
        more: Expr | None = None
        for i in range(len(found)):
            many = _call("gt", ColumnRef(index=1 + i, type=BIGINT), Literal(value=1, type=BIGINT))
            more = many if more is None else _call("or", more, many)
        assert more is not None
        kept = plan.Filter(schema=counted.schema, input=counted, predicate=more)
        first = ColumnRef(index=0, type=BIGINT)
        return self._sql(
            plan.Project(schema=counted.schema.select([0]), input=kept, exprs=(first,))
        )

    def _sql(self, root: LogicalPlan) -> str:
        from streamsql.plan.sql import to_duckdb_sql

        return to_duckdb_sql(root, lambda scan: scan.name, timezone=self.timezone)


def _call(function: str, a: Expr, b: Expr) -> Call:
    return Call(function=function, args=(a, b), type=BOOLEAN)


def _leaf(node: LogicalPlan) -> int | None:
    """Which placeholder the node is."""
    at = isinstance(node, plan.Scan) and node.relation_id < 0
    return -node.relation_id - 1 if at and isinstance(node, plan.Scan) else None


def _may_fail(expr: Expr) -> bool:
    return can_fail(expr) or any(isinstance(e, Subquery) for e in walk(expr))


def _count(subquery: Subquery) -> Subquery:
    """How many rows it gives."""
    call = AggregateCall(function="count_star", args=(), type=BIGINT)
    schema = Schema((Column("count", BIGINT),))
    counted = plan.Aggregate(schema=schema, input=subquery.plan, keys=(), aggregates=(call,))
    return replace(subquery, plan=counted, type=BIGINT)


def _projection(node: LogicalPlan) -> plan.Project | None:
    """What the rows of a lateral side are made by."""
    while isinstance(node, plan.Sort | plan.Limit):
        node = node.input
    return node if isinstance(node, plan.Project) else None


def _results(root: LogicalPlan) -> Sequence[Expr]:
    """What the rows are made of and may be NULL instead: the expressions of a Project or of a
    lateral side."""
    if isinstance(root, plan.Project):
        return root.exprs
    if isinstance(root, plan.Join) and root.lateral:
        made = _projection(root.right)
        return () if made is None else made.exprs
    return ()


def _with_nulls(node: LogicalPlan, nulls: frozenset[int]) -> LogicalPlan:
    if isinstance(node, plan.Project):
        return replace(node, exprs=_swapped(node.exprs, nulls))
    if isinstance(node, plan.Join):
        return replace(node, right=_below(node.right, nulls))
    assert isinstance(node, plan.Aggregate | plan.Window)
    calls = node.aggregates if isinstance(node, plan.Aggregate) else node.calls
    first = len(node.schema) - len(calls)
    if isinstance(node, plan.Aggregate):
        first = len(node.keys)
    kept = [i for i in range(len(node.schema)) if i - first not in nulls]
    schema = node.schema.select(kept)
    below: LogicalPlan
    if isinstance(node, plan.Window):
        left = tuple(c for i, c in enumerate(node.calls) if i not in nulls)
        below = replace(node, schema=schema, calls=left) if left else node.input
    elif kept:
        some = tuple(c for i, c in enumerate(node.aggregates) if i not in nulls)
        below = replace(node, schema=schema, aggregates=some)
    else:  # over all rows, and nothing left: one row all the same
        below = plan.Values(schema=Schema(()), rows=((),))
    at = {place: k for k, place in enumerate(kept)}
    exprs = [
        ColumnRef(index=at[i], type=c.type) if i in at else Literal(value=None, type=c.type)
        for i, c in enumerate(node.schema)
    ]
    return plan.Project(schema=node.schema, input=below, exprs=tuple(exprs))


def _below(node: LogicalPlan, nulls: frozenset[int]) -> LogicalPlan:
    """`_with_nulls` for the projection of a lateral side."""
    if isinstance(node, plan.Project):
        return replace(node, exprs=_swapped(node.exprs, nulls))
    assert isinstance(node, plan.Sort | plan.Limit)
    return replace(node, input=_below(node.input, nulls))


def _swapped(exprs: Sequence[Expr], nulls: frozenset[int]) -> tuple[Expr, ...]:
    return tuple(Literal(value=None, type=e.type) if i in nulls else e for i, e in enumerate(exprs))
