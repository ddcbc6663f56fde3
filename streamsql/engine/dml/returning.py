"""RETURNING: expressions over the rows that a statement changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from streamsql.core.errors import FeatureNotSupported
from streamsql.core.schema import Schema
from streamsql.core.types import SqlType
from streamsql.engine.api import ResultColumn
from streamsql.engine.binding import BindScope
from streamsql.engine.reads.fast import project
from streamsql.engine.reads.plans import freeze_expression
from streamsql.engine.reads.select import result_columns
from streamsql.engine.relations import Relation
from streamsql.functions.expressions import Expr, Literal, Subquery, column, walk
from streamsql.plan.nodes import Project, Scan


@dataclass(frozen=True)
class BoundReturning:
    """exprs: over the user's columns of the table."""

    exprs: tuple[Expr, ...]
    columns: tuple[ResultColumn, ...]
    table: Schema
    schema: Schema

    def run(
        self, rows: pa.RecordBatch, values: Sequence[Literal], now_us: int, timezone: str
    ) -> pa.RecordBatch:
        """The result for these rows (user's schema)."""
        exprs = tuple(freeze_expression(e, values, now_us) for e in self.exprs)
        return project(exprs, rows, self.table, self.schema, now_us, timezone)


def bind_returning(
    items: Sequence[exp.Expression],
    relation: Relation,
    alias: str | None,
    scope: BindScope,
    parameter_types: list[SqlType | None],
    text: str,
) -> BoundReturning | None:
    """Bind RETURNING over the table's own row; None without RETURNING.

    Raises: FeatureNotSupported (0A000) for what needs more than the row.
    """
    if not items:
        return None
    from streamsql.plan.binder import bind_query

    context = scope.context(parameter_types=parameter_types, text=text)
    bound = bind_query(returning_query(items, relation, alias), context)
    plan = bound.plan
    exprs: tuple[Expr, ...] | None = None
    if isinstance(plan, Scan):
        exprs = tuple(column(i, c.type, c.name) for i, c in enumerate(plan.schema))
    elif isinstance(plan, Project) and isinstance(plan.input, Scan):
        exprs = plan.exprs
    if exprs is None or any(isinstance(e, Subquery) for x in exprs for e in walk(x)):
        raise FeatureNotSupported(
            "RETURNING can only hold expressions over the changed row",
            hint="Read the rest with a SELECT afterwards.",
        )
    columns = result_columns(plan.schema, bound.origins, scope.catalog)
    return BoundReturning(exprs, columns, relation.columns, plan.schema)


def returning_query(
    items: Sequence[exp.Expression], relation: Relation, alias: str | None
) -> exp.Expression:
    """SELECT items FROM relation AS alias."""
    table = table_node(relation, alias)
    return exp.Select(expressions=[e.copy() for e in items], from_=exp.From(this=table))


def table_node(relation: Relation, alias: str | None) -> exp.Table:
    """The relation as an item of FROM."""
    return exp.Table(
        this=exp.to_identifier(relation.name, quoted=True),
        db=exp.to_identifier(relation.schema, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias or relation.name, quoted=True)),
    )
