"""Output columns of a bound query: giving UNKNOWN literals a type, casting to wanted types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamsql.core.schema import Column, Schema
from streamsql.core.types import TEXT, Kind, SqlType
from streamsql.functions.coerce import coerce
from streamsql.functions.expressions import Expr, column
from streamsql.plan.nodes import LogicalPlan, Project, Values


def identity(schema: Schema) -> tuple[Expr, ...]:
    """A ColumnRef for each column."""
    return tuple(column(i, c.type, c.name) for i, c in enumerate(schema))


def known_outputs(plan: LogicalPlan) -> LogicalPlan:
    """UNKNOWN columns become text, as PostgreSQL resolves them at the end of a query."""
    if all(t.kind is not Kind.UNKNOWN for t in plan.schema.types):
        return plan
    return typed_outputs(plan, [TEXT if t.kind is Kind.UNKNOWN else t for t in plan.schema.types])


def typed_outputs(
    plan: LogicalPlan, types: Sequence[SqlType], context: str = "implicit"
) -> LogicalPlan:
    """The plan with output columns of exactly these types.

    Raises: DatatypeMismatch (42804) when a column can't be coerced in this context.
    """
    if all(_same(a, b) for a, b in zip(plan.schema.types, types, strict=True)):
        return plan
    schema = Schema(
        tuple(Column(c.name, t, c.nullable) for c, t in zip(plan.schema, types, strict=True))
    )
    if isinstance(plan, Project):
        exprs = [_to(e, t, context) for e, t in zip(plan.exprs, types, strict=True)]
        return Project(schema=schema, input=plan.input, exprs=tuple(exprs))
    if isinstance(plan, Values):
        rows = tuple(
            tuple(_to(e, t, context) for e, t in zip(row, types, strict=True)) for row in plan.rows
        )
        return replace(plan, schema=schema, rows=rows)
    exprs = [_to(e, t, context) for e, t in zip(identity(plan.schema), types, strict=True)]
    return Project(schema=schema, input=plan, exprs=tuple(exprs))


def _same(a: SqlType, b: SqlType) -> bool:
    modified = a.constrained == b.constrained and a.leaf_digits == b.leaf_digits
    return a == b and a.kind is not Kind.UNKNOWN and modified


def _to(expr: Expr, target: SqlType, context: str) -> Expr:
    return expr if _same(expr.type, target) else coerce(expr, target, context)
