"""Binding views again over relations that have changed: their columns and keys may be others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from streamsql.core.errors import DuplicateColumn, SqlSyntaxError
from streamsql.core.schema import Column, Schema
from streamsql.dialect.statements import CreateView
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.ddl import CreateRelation, DdlOp
from streamsql.engine.relations import Relation
from streamsql.engine.views import bind_view_query
from streamsql.plan.nodes import BoundQuery

if TYPE_CHECKING:
    from streamsql.engine.redefine import Redefinition


def bind_query_of(relation: Relation, scope: BindScope) -> BoundQuery:
    """The bound query of a view, plain or materialized. Raises: errors of binding."""
    from streamsql.plan.binder import bind_query

    if relation.kind == "materialized_view":
        return bind_view_query(relation, scope)
    assert relation.query is not None
    return bind_query(relation.query, scope.context())


def with_properties(relation: Relation, bound: BoundQuery) -> Relation:
    """Keys, append-only and watermark column, as derived from the plan."""
    from streamsql.plan.optimizer import optimize
    from streamsql.plan.properties import append_only, unique_keys, watermark_columns

    plan = optimize(bound.plan)
    watermarks = sorted(watermark_columns(plan))
    final = relation.emit == "on_window_close"
    return replace(
        relation,
        unique_keys=tuple(sorted((tuple(sorted(k)) for k in unique_keys(plan)), key=len)),
        append_only=final or append_only(plan),
        watermark_column=watermarks[0] if watermarks else None,
    )


def view_columns(statement: CreateView, schema: Schema) -> Schema:
    """The view's columns under the names it gives them. Raises: 42601, 42701."""
    names = list(statement.columns)
    if len(names) > len(schema):
        raise SqlSyntaxError("CREATE VIEW specifies more column names than columns")
    names += schema.names[len(names) :]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DuplicateColumn(
                f'column "{name}" specified more than once',
                hint="Give the columns names of their own with AS, or list them after the name.",
            )
    return Schema(tuple(Column(n, c.type, c.nullable) for n, c in zip(names, schema, strict=True)))


def rebound(view: Relation, catalog: Catalog) -> Relation:
    """The view with columns and properties as its text gives them in this catalog.

    Raises: errors of binding.
    """
    found = catalog.bound(view)
    bound = bind_query_of(found, BindScope(catalog, found.context))
    statement = found.statement
    assert isinstance(statement, CreateView)
    if found.kind == "materialized_view":
        found = with_properties(found, bound)
    return replace(found, columns=view_columns(statement, bound.plan.schema))


def rebind_all(redefinition: Redefinition, views: Sequence[Relation]) -> tuple[DdlOp, ...]:
    """Bind views again, those that are read first; the operations that fill the materialized ones
    anew. Raises: errors of binding."""
    again: list[DdlOp] = []
    for view in views:
        if not isinstance(view.statement, CreateView):
            continue
        new = rebound(redefinition.after.relations[view.oid], redefinition.after)
        redefinition.change(new)
        if new.kind == "materialized_view" and new.suspended is None:
            again.append(CreateRelation(new, replaces=True))
    return tuple(again)
