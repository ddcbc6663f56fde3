"""JSONB compares by value: where equal values must look equal, they are brought to one spelling.

PostgreSQL keeps `1.0` and `1` apart when it shows them, yet they are one group, one DISTINCT row,
one join key. Indexes compare the text, so keys of type JSONB become `jsonb_key(x)`, which drops the
zeros that end a fraction. What is only shown stays as it is; a group shows its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from streamsql.core.schema import Column, Schema
from streamsql.core.types import JSONB, Kind
from streamsql.functions.expressions import Call, ColumnRef, Expr, transform
from streamsql.plan.nodes import (
    Aggregate,
    Distinct,
    DistinctOn,
    Join,
    LogicalPlan,
    Project,
    RecursiveCte,
    SetOperation,
    Window,
)
from streamsql.plan.visit import transform_plan

KEY = "jsonb_key"
_EQUALITIES = ("eq", "is_not_distinct_from")


def compare_jsonb_by_value(plan: LogicalPlan) -> LogicalPlan:
    """Every key of type JSONB in its one spelling."""
    return transform_plan(plan, _node)


def _node(plan: LogicalPlan) -> LogicalPlan:
    if isinstance(plan, Aggregate):
        return _aggregate(plan)
    if isinstance(plan, Window):
        return _window(plan)
    if isinstance(plan, Distinct):
        return replace(plan, input=_respelled(plan.input))
    if isinstance(plan, DistinctOn):
        return replace(plan, input=_respelled(plan.input, plan.keys))
    if isinstance(plan, SetOperation) and not (plan.kind == "union" and plan.all):
        return replace(plan, left=_respelled(plan.left), right=_respelled(plan.right))
    if isinstance(plan, RecursiveCte) and not plan.all:
        return replace(plan, base=_respelled(plan.base), step=_respelled(plan.step))
    if isinstance(plan, Join) and plan.condition is not None:
        return replace(plan, condition=transform(plan.condition, _equality))
    return plan


def _equality(expr: Expr) -> Expr:
    if not (isinstance(expr, Call) and expr.function in _EQUALITIES):
        return expr
    if any(a.type.kind is not Kind.JSONB for a in expr.args):
        return expr
    return replace(expr, args=tuple(_key(a) for a in expr.args))


def _key(expr: Expr) -> Expr:
    if isinstance(expr, Call) and expr.function == KEY:
        return expr
    return Call(function=KEY, args=(expr,), type=JSONB, position=expr.position)


def _columns(schema: Schema) -> list[Expr]:
    return [ColumnRef(index=i, type=c.type, name=c.name) for i, c in enumerate(schema)]


def _respelled(plan: LogicalPlan, which: Sequence[int] | None = None) -> LogicalPlan:
    """The plan with its JSONB columns (or those of `which`) in their one spelling."""
    chosen = range(len(plan.schema)) if which is None else which
    keys = {i for i in chosen if plan.schema[i].type.kind is Kind.JSONB}
    if not keys:
        return plan
    exprs = tuple(_key(e) if i in keys else e for i, e in enumerate(_columns(plan.schema)))
    return Project(schema=plan.schema, input=plan, exprs=exprs)


def _with_keys(plan: LogicalPlan, wanted: Iterable[int]) -> tuple[LogicalPlan, dict[int, int]]:
    """(the plan with key columns appended, column -> its key column)."""
    keys = sorted({i for i in wanted if plan.schema[i].type.kind is Kind.JSONB})
    if not keys:
        return plan, {}
    own = _columns(plan.schema)
    schema = Schema((*plan.schema.columns, *(Column(plan.schema[i].name, JSONB) for i in keys)))
    wider = Project(schema=schema, input=plan, exprs=(*own, *(_key(own[i]) for i in keys)))
    return wider, {i: len(own) + n for n, i in enumerate(keys)}


def _moved(expr: Expr, places: dict[int, int]) -> Expr:
    if isinstance(expr, ColumnRef) and expr.index in places:
        return replace(expr, index=places[expr.index])
    return expr


def _aggregate(plan: Aggregate) -> LogicalPlan:
    distinct = [a.index for call in plan.aggregates if call.distinct
                for a in call.args if isinstance(a, ColumnRef)]  # fmt: skip
    source, places = _with_keys(plan.input, [*plan.keys, *distinct])
    if not places:
        return plan
    calls = tuple(
        replace(
            c,
            args=tuple(_moved(a, places) for a in c.args),
            order_by=tuple(replace(k, expr=_moved(k.expr, places)) for k in c.order_by),
        )
        if c.distinct
        else c
        for c in plan.aggregates
    )
    keys = tuple(places.get(k, k) for k in plan.keys)
    return replace(plan, input=source, keys=keys, aggregates=calls)


def _window(plan: Window) -> LogicalPlan:
    width = len(plan.input.schema)
    by = [e for c in plan.calls for e in (*c.partition_by, *(k.expr for k in c.order_by))]
    wanted = [e.index for e in by if isinstance(e, ColumnRef)]
    source, places = _with_keys(plan.input, wanted)
    if not places:
        return plan
    calls = tuple(
        replace(
            c,
            partition_by=tuple(_moved(e, places) for e in c.partition_by),
            order_by=tuple(replace(k, expr=_moved(k.expr, places)) for k in c.order_by),
        )
        for c in plan.calls
    )
    outputs = plan.schema.columns[width:]
    schema = Schema((*source.schema.columns, *outputs))
    wider = replace(plan, schema=schema, input=source, calls=calls)
    every = _columns(schema)
    exprs = (*every[:width], *every[width + len(places) :])
    return Project(schema=plan.schema, input=wider, exprs=exprs)
