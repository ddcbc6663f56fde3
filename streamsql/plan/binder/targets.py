"""The select list: expanding stars, naming the output columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from streamsql.core.errors import SqlSyntaxError, UndefinedColumn
from streamsql.core.types import Kind
from streamsql.functions.expressions import ColumnRef, Expr
from streamsql.plan.binder.env import position_of
from streamsql.plan.binder.expressions import ExprBinder
from streamsql.plan.binder.names import output_name
from streamsql.plan.binder.scope import (
    NamedColumn,
    Namespace,
    Origin,
    find_relation,
    missing_from,
)
from streamsql.plan.visit import push_down_levels


@dataclass(frozen=True)
class Target:
    """One output column: its name and its expression over the FROM row."""

    name: str
    expr: Expr
    origin: Origin = None


def bind_targets(nodes: Sequence[exp.Expression], binder: ExprBinder) -> list[Target]:
    """The select list with stars expanded."""
    found: list[Target] = []
    for node in nodes:
        found += _expand(node, binder)
    return found


def _expand(node: exp.Expression, binder: ExprBinder) -> list[Target]:
    if isinstance(node, exp.Star):
        return _star(node, binder)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return _qualified_star(node, binder)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star):
        return _struct_star(node, binder)
    alias = node.alias if isinstance(node, exp.Alias) else None
    inner = node.this if isinstance(node, exp.Alias) else node
    expr = binder.bind(inner)
    origin = _origin(expr, binder.scope.namespace)
    return [Target(alias or output_name(inner), expr, origin)]


def _origin(expr: Expr, namespace: Namespace) -> Origin:
    if not isinstance(expr, ColumnRef):
        return None
    for c in namespace.columns:
        if c.origin is not None and isinstance(c.expr, ColumnRef) and c.expr.index == expr.index:
            return c.origin
    for r in namespace.relations:
        for c in r.columns:
            if isinstance(c.expr, ColumnRef) and c.expr.index == expr.index:
                return c.origin
    return None


def _star(node: exp.Star, binder: ExprBinder) -> list[Target]:
    namespace = binder.scope.namespace
    if not namespace.relations and not namespace.columns:
        raise SqlSyntaxError(
            "SELECT * with no tables specified is not valid", position=position_of(node)
        )
    return _without_excluded(node, namespace.columns)


def _without_excluded(node: exp.Star, columns: Sequence[NamedColumn]) -> list[Target]:
    listed = node.args.get("except_") or []
    excluded = {name.name for name in listed}
    for name in listed:
        if all(c.name != name.name for c in columns):
            raise UndefinedColumn(
                f'column "{name.name}" in EXCEPT list does not exist', position=position_of(name)
            )
    return [Target(c.name, c.expr, c.origin) for c in columns if c.name not in excluded]


def _qualified_star(node: exp.Column, binder: ExprBinder) -> list[Target]:
    parts = [p.name for p in node.parts[:-1]]
    alias, schema = parts[-1], parts[-2] if len(parts) > 1 else None
    found = find_relation(binder.scope, alias, schema)
    if found is None:
        raise missing_from(binder.scope, ".".join(parts), position_of(node))
    depth, relation = found
    columns = _without_excluded(node.this, relation.columns)
    return [
        Target(c.name, push_down_levels(c.expr, depth), c.origin if depth == 0 else None)
        for c in columns
    ]


def _struct_star(node: exp.Dot, binder: ExprBinder) -> list[Target]:
    from streamsql.plan.binder.values import field_of

    base = binder.bind(node.this)
    if base.type.kind is not Kind.STRUCT:
        field_of(base, "*", position_of(node))
    return [Target(name, field_of(base, name)) for name, _ in base.type.fields]
