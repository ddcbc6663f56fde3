"""Is a plan well-formed? Every reference hits a column of its type, schemas fit their nodes."""

from __future__ import annotations

from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType
from streamsql.functions.expressions import ColumnRef, Expr, OuterRef, Subquery
from streamsql.plan.binder.placeholders import (
    AggregateExpr,
    GroupingExpr,
    OuterAggregate,
    SetExpr,
    WindowExpr,
)
from streamsql.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    LogicalPlan,
    Project,
    Scan,
    SetOperation,
    TimeWindow,
    Values,
    Window,
)
from streamsql.plan.visit import node_expressions

PLACEHOLDERS = (AggregateExpr, GroupingExpr, OuterAggregate, SetExpr, WindowExpr)


def same(a: SqlType, b: SqlType) -> bool:
    """Equal storage: modifiers of text do not matter."""
    return a == b or (a.is_text and b.is_text)


def validate(plan: LogicalPlan, rows: tuple[Schema, ...] = ()) -> None:
    """Raise AssertionError for the first thing that is wrong. rows: the rows around, outermost first."""
    inputs = plan.inputs()
    if isinstance(plan, Join):
        validate(plan.left, rows)
        validate(plan.right, (*rows, plan.left.schema) if plan.lateral else rows)
        row = plan.left.schema + plan.right.schema
    else:
        for i in inputs:
            validate(i, rows)
        row = inputs[0].schema if inputs else Schema(())
    for expr in node_expressions(plan):
        check(expr, row, rows, plan)
    shape(plan)
    assert all(t.kind is not Kind.UNKNOWN for t in plan.schema.types), plan


def check(expr: Expr, row: Schema, rows: tuple[Schema, ...], plan: LogicalPlan) -> None:
    """One expression over `row` inside of `rows`."""
    where = type(plan).__name__
    assert not isinstance(expr, PLACEHOLDERS), (where, expr)
    if isinstance(expr, ColumnRef):
        assert 0 <= expr.index < len(row), (where, expr, row.names)
        assert same(row[expr.index].type, expr.type), (where, expr, row[expr.index].type)
    if isinstance(expr, OuterRef):
        assert 1 <= expr.depth <= len(rows), (where, expr, len(rows))
        outer = rows[-expr.depth]
        assert 0 <= expr.index < len(outer), (where, expr, outer.names)
        assert same(outer[expr.index].type, expr.type), (where, expr, outer[expr.index].type)
    for child in expr.children():
        check(child, row, rows, plan)
    if isinstance(expr, Subquery):
        validate(expr.plan, (*rows, row))


def shape(plan: LogicalPlan) -> None:
    """Schema against node."""
    types = plan.schema.types
    match plan:
        case Project():
            assert len(types) == len(plan.exprs)
            assert all(same(e.type, t) for e, t in zip(plan.exprs, types, strict=True)), plan.schema
        case Filter():
            assert types == plan.input.schema.types
        case Join():
            left, right = plan.left.schema.types, plan.right.schema.types
            assert types == (left if plan.kind in ("semi", "anti") else left + right), plan.kind
            assert (plan.condition is None) == (plan.kind == "cross") or plan.condition is None
        case Aggregate():
            keys = tuple(plan.input.schema[k].type for k in plan.keys)
            calls = tuple(a.type for a in plan.aggregates)
            assert types[: len(keys) + len(calls)] == keys + calls
        case Window():
            assert types == plan.input.schema.types + tuple(c.type for c in plan.calls)
        case TimeWindow():
            time = plan.input.schema[plan.time_column].type
            assert types == (*plan.input.schema.types, time, time, time)
        case SetOperation():
            assert all(same(a, b) for a, b in zip(plan.left.schema.types, types, strict=True))
            assert all(same(a, b) for a, b in zip(plan.right.schema.types, types, strict=True))
        case Values():
            for values in plan.rows:
                assert all(same(e.type, t) for e, t in zip(values, types, strict=True))
        case Scan():
            pass
