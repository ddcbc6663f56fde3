"""JSONB compares by value: where equal values must look equal, they are brought to one spelling,
and where they are ordered, to bytes in PostgreSQL's order (object > array > boolean > number >
string > null).

PostgreSQL keeps `1.0` and `1` apart when it shows them, yet they are one group, one DISTINCT row,
one join key. Indexes compare the text, so keys of type JSONB become `jsonb_key(x)`, which drops the
zeros that end a fraction. What is only shown stays as it is; a group shows its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from streamsql.core.schema import Schema
from streamsql.core.types import BYTEA, JSONB, Kind, SqlType
from streamsql.functions.expressions import (
    AggregateCall,
    Call,
    ColumnRef,
    Expr,
    SortKey,
)
from streamsql.functions.resolve import is_ordered_set
from streamsql.plan.nodes import (
    Aggregate,
    Distinct,
    DistinctOn,
    Limit,
    LogicalPlan,
    Project,
    RecursiveCte,
    SetOperation,
    Sort,
    Window,
)
from streamsql.plan.optimizer.jsonb_aggregates import beside, sort_documents
from streamsql.plan.visit import transform_plan

KEY = "jsonb_key"
SORT_KEY = "jsonb_sort_key"
BESIDE = frozenset({"arg_min", "arg_max"})


def compare_jsonb_by_value(plan: LogicalPlan) -> LogicalPlan:
    """Every key of type JSONB in its one spelling, every sort key in its order."""
    return transform_plan(plan, _node)


def _node(plan: LogicalPlan) -> LogicalPlan:
    if isinstance(plan, Aggregate | Window):
        made, exprs = sort_documents(plan)
        keyed = _aggregate(made) if isinstance(made, Aggregate) else _window(made)
        return keyed if exprs is None else Project(schema=plan.schema, input=keyed, exprs=exprs)
    if isinstance(plan, Distinct):
        return replace(plan, input=_respelled(plan.input))
    if isinstance(plan, DistinctOn):
        return _sorted(replace(plan, input=_respelled(plan.input, plan.keys)))
    if isinstance(plan, Sort | Limit):
        return _sorted(plan)
    if isinstance(plan, SetOperation) and not (plan.kind == "union" and plan.all):
        return replace(plan, left=_respelled(plan.left), right=_respelled(plan.right))
    if isinstance(plan, RecursiveCte) and not plan.all:
        return replace(plan, base=_respelled(plan.base), step=_respelled(plan.step))
    return plan


def _key(expr: Expr) -> Expr:
    if isinstance(expr, Call) and expr.function == KEY:
        return expr
    return Call(function=KEY, args=(expr,), type=expr.type, position=expr.position)


def _columns(schema: Schema) -> list[Expr]:
    return [ColumnRef(index=i, type=c.type, name=c.name) for i, c in enumerate(schema)]


def _respelled(plan: LogicalPlan, which: Sequence[int] | None = None) -> LogicalPlan:
    """The plan with its JSONB columns (or those of `which`) in their one spelling."""
    chosen = range(len(plan.schema)) if which is None else which
    keys = {i for i in chosen if plan.schema[i].type.holds(Kind.JSONB)}
    if not keys:
        return plan
    exprs = tuple(_key(e) if i in keys else e for i, e in enumerate(_columns(plan.schema)))
    return Project(schema=plan.schema, input=plan, exprs=exprs)


def _sort_key(expr: Expr) -> Expr:
    type_ = expr.type.with_leaf(JSONB, BYTEA)
    return Call(function=SORT_KEY, args=(expr,), type=type_, position=expr.position)


def _sorted(plan: Sort | Limit | DistinctOn) -> LogicalPlan:
    """The plan with its JSONB sort keys as columns of their own, which it does not give out."""
    found = [k.expr for k in plan.order_by if k.expr.type.holds(Kind.JSONB)]
    if not found:
        return plan
    width = len(plan.schema)
    source = beside(plan.input, [_sort_key(e) for e in found])
    places = {
        id(e): ColumnRef(index=width + n, type=e.type.with_leaf(JSONB, BYTEA))
        for n, e in enumerate(found)
    }
    order = tuple(replace(k, expr=places.get(id(k.expr), k.expr)) for k in plan.order_by)
    made = replace(plan, schema=source.schema, input=source, order_by=order)
    return Project(schema=plan.schema, input=made, exprs=tuple(_columns(plan.schema)))


Places = dict[int, int]
"""Column -> where its key stands."""


def _with_keys(
    plan: LogicalPlan, wanted: Iterable[int], ordered: Iterable[int]
) -> tuple[LogicalPlan, Places, Places]:
    """(the plan with key columns appended, those of `wanted`, the sort keys of `ordered`)."""

    def of(columns: Iterable[int]) -> list[int]:
        return sorted({i for i in columns if plan.schema[i].type.holds(Kind.JSONB)})

    keys, sort_keys = of(wanted), of(ordered)
    if not keys and not sort_keys:
        return plan, {}, {}
    own = _columns(plan.schema)
    source = beside(plan, [*(_key(own[i]) for i in keys), *(_sort_key(own[i]) for i in sort_keys)])
    behind = len(own) + len(keys)
    return (
        source,
        {i: len(own) + n for n, i in enumerate(keys)},
        {i: behind + n for n, i in enumerate(sort_keys)},
    )


def _moved(expr: Expr, places: Places, leaf: SqlType = JSONB) -> Expr:
    if isinstance(expr, ColumnRef) and expr.index in places:
        type_ = expr.type.with_leaf(JSONB, leaf)
        return replace(expr, index=places[expr.index], type=type_)
    return expr


def _in_order(keys: tuple[SortKey, ...], places: Places) -> tuple[SortKey, ...]:
    return tuple(replace(k, expr=_moved(k.expr, places, BYTEA)) for k in keys)


def _ordering(call: AggregateCall) -> list[Expr]:
    """What orders the rows of an aggregate, and is not given out."""
    if call.distinct or is_ordered_set(call.function):
        return []
    beside = call.args[1:] if call.function in BESIDE else ()
    return [*beside, *(k.expr for k in call.order_by)]


def _aggregate(plan: Aggregate) -> LogicalPlan:
    distinct = [a.index for call in plan.aggregates if call.distinct
                for a in call.args if isinstance(a, ColumnRef)]  # fmt: skip
    ordered = [e.index for c in plan.aggregates for e in _ordering(c) if isinstance(e, ColumnRef)]
    source, places, orders = _with_keys(plan.input, [*plan.keys, *distinct], ordered)
    if source is plan.input:
        return plan
    calls = tuple(_aggregate_call(c, places, orders) for c in plan.aggregates)
    keys = tuple(places.get(k, k) for k in plan.keys)
    return replace(plan, input=source, keys=keys, aggregates=calls)


def _aggregate_call(call: AggregateCall, places: Places, orders: Places) -> AggregateCall:
    if call.distinct:
        order = tuple(replace(k, expr=_moved(k.expr, places)) for k in call.order_by)
        return replace(call, args=tuple(_moved(a, places) for a in call.args), order_by=order)
    if not _ordering(call):
        return call
    if call.function in BESIDE:
        call = replace(call, args=(call.args[0], _moved(call.args[1], orders, BYTEA)))
    return replace(call, order_by=_in_order(call.order_by, orders))


def _window(plan: Window) -> LogicalPlan:
    width = len(plan.input.schema)
    by = [e.index for c in plan.calls for e in c.partition_by if isinstance(e, ColumnRef)]
    ordered = [
        k.expr.index for c in plan.calls for k in c.order_by if isinstance(k.expr, ColumnRef)
    ]
    source, places, orders = _with_keys(plan.input, by, ordered)
    if source is plan.input:
        return plan
    calls = tuple(
        replace(
            c,
            partition_by=tuple(_moved(e, places) for e in c.partition_by),
            order_by=_in_order(c.order_by, orders),
        )
        for c in plan.calls
    )
    outputs = plan.schema.columns[width:]
    schema = Schema((*source.schema.columns, *outputs))
    wider = replace(plan, schema=schema, input=source, calls=calls)
    every = _columns(schema)
    exprs = (*every[:width], *every[len(source.schema) :])
    return Project(schema=plan.schema, input=wider, exprs=exprs)
