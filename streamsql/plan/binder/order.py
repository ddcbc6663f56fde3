"""ORDER BY, LIMIT, OFFSET, FETCH: of a SELECT (order_items) and around any other query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from streamsql.core.errors import (
    AmbiguousColumn,
    DatatypeMismatch,
    FeatureNotSupported,
    InvalidColumnReference,
    InvalidRowCountInLimit,
    InvalidRowCountInOffset,
    SqlSyntaxError,
    UndefinedColumn,
)
from streamsql.core.types import BIGINT, TEXT, Kind
from streamsql.functions.casts import Context, can_cast
from streamsql.functions.expressions import Expr, Literal, SortKey, column
from streamsql.plan.binder.context import Bound
from streamsql.plan.binder.env import Env, leftmost, position_of
from streamsql.plan.binder.expressions import ExprBinder
from streamsql.plan.binder.outputs import known_outputs
from streamsql.plan.binder.scope import Namespace
from streamsql.plan.binder.targets import Target
from streamsql.plan.nodes import Limit, LogicalPlan, Sort
from streamsql.plan.visit import row_columns


@dataclass(frozen=True)
class OrderItem:
    """One ORDER BY item: an output column (its position), or an expression over the FROM row."""

    target: int | None
    expr: Expr | None
    descending: bool
    nulls_first: bool
    position: int | None


@dataclass(frozen=True)
class Bounds:
    """LIMIT and OFFSET."""

    limit: Expr | None = None
    offset: Expr | None = None
    with_ties: bool = False

    def __bool__(self) -> bool:
        return self.limit is not None or self.offset is not None


def order_nodes(node: exp.Expression) -> list[exp.Ordered]:
    """The ORDER BY items of a query node."""
    order = node.args.get("order")
    return [] if order is None else list(order.expressions)


def order_items(
    items: Sequence[exp.Ordered], targets: Sequence[Target], binder: ExprBinder
) -> list[OrderItem]:
    """The ORDER BY of a SELECT: output names and ordinals first, then input columns."""
    found = []
    for item in items:
        node, position = item.this, position_of(item.this)
        target = _output(node, targets, position)
        expr = None
        if target is None:
            expr = binder.bind(node)
            if expr.type.kind is Kind.UNKNOWN:
                expr = binder.coerce(expr, TEXT)
        found.append(
            OrderItem(
                target,
                expr,
                bool(item.args.get("desc")),
                bool(item.args.get("nulls_first")),
                position,
            )
        )
    return found


def _output(node: exp.Expression, targets: Sequence[Target], position: int | None) -> int | None:
    """The output column that a bare name or number means, or None."""
    if isinstance(node, exp.Literal):
        text = str(node.this)
        if node.is_string or not text.isdigit():
            raise SqlSyntaxError("non-integer constant in ORDER BY", position=position)
        number = int(text)
        if not 1 <= number <= len(targets):
            raise InvalidColumnReference(
                f"ORDER BY position {number} is not in select list", position=position
            )
        return number - 1
    if not (isinstance(node, exp.Column) and len(node.parts) == 1):
        return None
    matches = [i for i, t in enumerate(targets) if t.name == node.name]
    if matches and any(targets[i].expr != targets[matches[0]].expr for i in matches):
        raise AmbiguousColumn(f'ORDER BY "{node.name}" is ambiguous', position=position)
    return matches[0] if matches else None


def bind_bounds(node: exp.Expression, env: Env, namespace: Namespace | None = None) -> Bounds:
    """LIMIT / FETCH and OFFSET of a query node. namespace: of its FROM, which they must not use."""
    limit_node, offset_node = node.args.get("limit"), node.args.get("offset")
    if limit_node is None and offset_node is None:
        return Bounds()
    with_ties = False
    limit = offset = None
    if isinstance(limit_node, exp.Fetch):
        options = limit_node.args.get("limit_options")
        with_ties = options is not None and bool(options.args.get("with_ties"))
        count = limit_node.args.get("count") or exp.Literal.number(1)
        limit = _count(count, "LIMIT", env, namespace)
    elif limit_node is not None:
        limit = _count(limit_node.expression, "LIMIT", env, namespace)
    if offset_node is not None:
        offset = _count(offset_node.expression, "OFFSET", env, namespace)
    return Bounds(limit, offset, with_ties)


def _count(node: exp.Expression, clause: str, env: Env, namespace: Namespace | None) -> Expr | None:
    scope = env.scope(namespace or Namespace(0))
    binder = ExprBinder(scope, env.statement, clause=clause)
    position = position_of(node)
    given = binder.bind(node)
    if not can_cast(given.type, BIGINT, Context.ASSIGNMENT):
        raise DatatypeMismatch(
            f"argument of {clause} must be type bigint, not type {given.type}", position=position
        )
    expr = binder.coerce(given, BIGINT, "assignment")
    if row_columns(expr):
        raise InvalidColumnReference(
            f"argument of {clause} must not contain variables", position=position
        )
    if isinstance(expr, Literal):
        if expr.value is None:
            return None
        if expr.value < 0:
            error = InvalidRowCountInLimit if clause == "LIMIT" else InvalidRowCountInOffset
            raise error(f"{clause} must not be negative", position=position)
        if clause == "OFFSET" and expr.value == 0:
            return None
    return expr


def apply_order(plan: LogicalPlan, keys: Sequence[SortKey], bounds: Bounds) -> LogicalPlan:
    """Sort or Limit over the plan, if there is anything to do."""
    if bounds:
        return Limit(
            schema=plan.schema,
            input=plan,
            order_by=tuple(keys),
            limit=bounds.limit,
            offset=bounds.offset,
            with_ties=bounds.with_ties,
        )
    if keys:
        return Sort(schema=plan.schema, input=plan, order_by=tuple(keys))
    return plan


def order_outputs(bound: Bound, node: exp.Expression, env: Env) -> Bound:
    """ORDER BY and LIMIT around a query that is not a SELECT: output columns only."""
    items = order_nodes(node)
    bounds = bind_bounds(node, env)
    if not items and not bounds:
        return bound
    if bounds.with_ties and not items:
        raise SqlSyntaxError("WITH TIES cannot be specified without ORDER BY clause")
    plan = known_outputs(bound.plan)
    targets = [Target(c.name, column(i, c.type, c.name)) for i, c in enumerate(plan.schema)]
    keys = []
    for item in items:
        position = position_of(item.this)
        target = _output(item.this, targets, position)
        if target is None and isinstance(item.this, exp.Column):
            raise UndefinedColumn(
                f'column "{item.this.name}" does not exist',
                position=position,
                hint="ORDER BY of a set operation sees its output columns only: "
                + ", ".join(t.name for t in targets),
            )
        if target is None:
            raise FeatureNotSupported(
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                position=leftmost(item.this),
                detail="Only result column names can be used, not expressions or functions.",
                hint="Add the expression/function to every SELECT, or move the UNION into a FROM "
                "clause.",
            )
        keys.append(
            SortKey(
                expr=targets[target].expr,
                descending=bool(item.args.get("desc")),
                nulls_first=bool(item.args.get("nulls_first")),
            )
        )
    return Bound(apply_order(plan, keys, bounds), bound.origins)
