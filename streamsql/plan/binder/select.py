"""SELECT: the clauses in their order of evaluation, from FROM to LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from streamsql.core.errors import InvalidColumnReference, SqlSyntaxError
from streamsql.core.schema import Column, Schema
from streamsql.core.types import TEXT, Kind
from streamsql.functions.coerce import coerce
from streamsql.functions.expressions import ColumnRef, Expr, SortKey, column, transform, walk
from streamsql.plan.binder.context import Bound
from streamsql.plan.binder.env import Env, FromItem
from streamsql.plan.binder.expressions import ExprBinder
from streamsql.plan.binder.from_clause import bind_from
from streamsql.plan.binder.group_by import bind_group_by
from streamsql.plan.binder.order import (
    Bounds,
    OrderItem,
    apply_order,
    bind_bounds,
    order_items,
    order_nodes,
)
from streamsql.plan.binder.outputs import identity
from streamsql.plan.binder.placeholders import SetExpr, WindowExpr
from streamsql.plan.binder.regroup import (
    Grouping,
    Regroup,
    has_aggregates,
    has_placeholder,
    make_project,
)
from streamsql.plan.binder.sets import add_set_functions
from streamsql.plan.binder.targets import Target, bind_targets
from streamsql.plan.binder.windows import add_windows, named_windows
from streamsql.plan.nodes import Distinct, DistinctOn, Filter, LogicalPlan, Project


@dataclass
class Parts:
    """The bound clauses of one SELECT; expressions are over the FROM row until `_regroup`."""

    plan: LogicalPlan
    targets: list[Target]
    grouping: Grouping | None
    having: Expr | None
    qualify: Expr | None
    order: list[OrderItem]
    distinct_on: list[OrderItem] | None


def bind_select(node: exp.Select, env: Env) -> Bound:
    """One SELECT with its ORDER BY and LIMIT."""
    source = bind_from(node, env)
    scope = env.scope(source.namespace)
    plain = ExprBinder(scope, env.statement)
    where = node.args.get("where")
    plan = source.plan
    if where is not None:
        predicate = replace(plain, clause="WHERE").predicate(where.this)
        plan = Filter(schema=plan.schema, input=plan, predicate=predicate)
    parts = _bind_clauses(node, plan, plain)
    if parts.grouping is not None:
        _expand_grouped_sets(parts)
        _regroup(parts, source)
    _windows(parts)
    _set_functions(parts)
    bounds = bind_bounds(node, env, source.namespace)
    if bounds.with_ties and not parts.order:
        raise SqlSyntaxError("WITH TIES cannot be specified without ORDER BY clause")
    return Bound(_finish(node, parts, bounds), tuple(t.origin for t in parts.targets))


def _bind_clauses(node: exp.Select, plan: LogicalPlan, plain: ExprBinder) -> Parts:
    windows = named_windows(node.args.get("windows"))
    full = replace(
        plain, clause="SELECT", aggregates=True, windows=True, sets=True, named_windows=windows
    )
    targets = bind_targets(node.expressions, full)
    group = node.args.get("group")
    grouping = None
    if group is not None:
        grouping = bind_group_by(group, replace(plain, clause="GROUP BY"), targets)
    having_node, qualify_node = node.args.get("having"), node.args.get("qualify")
    having = qualify = None
    if having_node is not None:
        having = replace(plain, clause="HAVING", aggregates=True).predicate(having_node.this)
    if qualify_node is not None:
        qualify = _bind_qualify(qualify_node, full, targets)
    order_binder = replace(full, clause="ORDER BY")
    order = order_items(order_nodes(node), targets, order_binder)
    distinct = node.args.get("distinct")
    distinct_on = None
    if distinct is not None and distinct.args.get("on") is not None:
        keys = [exp.Ordered(this=k.copy()) for k in distinct.args["on"].expressions]
        distinct_on = order_items(keys, targets, replace(full, clause="DISTINCT ON"))
    exprs = [t.expr for t in targets]
    exprs += [o.expr for o in (*order, *(distinct_on or [])) if o.expr is not None]
    exprs += [e for e in (having, qualify) if e is not None]
    if grouping is None and (having is not None or has_aggregates(exprs)):
        grouping = Grouping()
    return Parts(plan, targets, grouping, having, qualify, order, distinct_on)


def _bind_qualify(node: exp.Qualify, full: ExprBinder, targets: Sequence[Target]) -> Expr:
    """QUALIFY sees input columns and, behind them, output names."""
    from streamsql.plan.binder.scope import NamedColumn, Namespace

    scope = full.scope
    known = scope.namespace
    named = [
        NamedColumn(t.name, t.expr)
        for t in targets
        if not known.bare(t.name) and not has_placeholder(t.expr, SetExpr)
    ]
    wider = Namespace(known.width, known.relations, [*known.columns, *named])
    inner = replace(full, scope=replace(scope, namespace=wider), clause="QUALIFY", sets=False)
    return inner.predicate(node.this)


# --- rewriting from one row to the next ---------------------------------------------------------
def _map_parts(parts: Parts, fn: object) -> None:
    """Apply `fn` to every expression that is evaluated above the present plan."""
    assert callable(fn)
    parts.targets = [replace(t, expr=fn(t.expr)) for t in parts.targets]
    parts.order = [o if o.expr is None else replace(o, expr=fn(o.expr)) for o in parts.order]
    if parts.distinct_on is not None:
        parts.distinct_on = [
            o if o.expr is None else replace(o, expr=fn(o.expr)) for o in parts.distinct_on
        ]
    if parts.qualify is not None:
        parts.qualify = fn(parts.qualify)


def _expand_grouped_sets(parts: Parts) -> None:
    """Set-returning functions that are grouped by run before the grouping, as in PostgreSQL."""
    assert parts.grouping is not None
    calls = [e for key in parts.grouping.keys for e in walk(key) if isinstance(e, SetExpr)]
    if not calls:
        return
    parts.plan, columns = add_set_functions(parts.plan, calls)
    replaced = dict(zip(calls, columns, strict=True))

    def swap(expr: Expr) -> Expr:
        return transform(expr, lambda e: replaced.get(e, e) if isinstance(e, SetExpr) else e)

    parts.grouping.keys = [swap(k) for k in parts.grouping.keys]
    _map_parts(parts, swap)


def _regroup(parts: Parts, source: FromItem) -> None:
    assert parts.grouping is not None
    regroup = Regroup(parts.grouping, source.namespace)
    _map_parts(parts, regroup.rewrite)
    having = None if parts.having is None else regroup.rewrite(parts.having)
    parts.plan = regroup.plan(parts.plan)
    _map_parts(parts, regroup.finish)
    if having is not None:
        predicate = regroup.finish(having)
        parts.plan = Filter(schema=parts.plan.schema, input=parts.plan, predicate=predicate)


def _expressions(parts: Parts) -> list[Expr]:
    found = [t.expr for t in parts.targets]
    found += [o.expr for o in (*parts.order, *(parts.distinct_on or ())) if o.expr is not None]
    if parts.qualify is not None:
        found.append(parts.qualify)
    return found


def _windows(parts: Parts) -> None:
    before = _expressions(parts)
    if any(has_placeholder(e, WindowExpr) for e in before):
        parts.plan, after = add_windows(parts.plan, before)
        replaced = dict(zip(before, after, strict=True))
        _map_parts(parts, lambda e: replaced[e])
    if parts.qualify is not None:
        plan = parts.plan
        parts.plan = Filter(schema=plan.schema, input=plan, predicate=parts.qualify)
        parts.qualify = None


def _set_functions(parts: Parts) -> None:
    before = _expressions(parts)
    if any(has_placeholder(e, SetExpr) for e in before):
        parts.plan, after = add_set_functions(parts.plan, before)
        replaced = dict(zip(before, after, strict=True))
        _map_parts(parts, lambda e: replaced[e])


# --- the output ---------------------------------------------------------------------------------
def _finish(node: exp.Select, parts: Parts, bounds: Bounds) -> LogicalPlan:
    """Project, DISTINCT, ORDER BY, LIMIT."""
    outputs: list[Expr] = [t.expr for t in parts.targets]
    distinct = node.args.get("distinct") is not None
    plain_distinct = distinct and parts.distinct_on is None
    if distinct or (parts.order and any(e.type.kind is Kind.UNKNOWN for e in outputs)):
        outputs = [coerce(e, TEXT) if e.type.kind is Kind.UNKNOWN else e for e in outputs]
    visible = len(outputs)
    order = [_place(o, outputs, visible, plain_distinct) for o in parts.order]
    on = None
    if parts.distinct_on is not None:
        on = [_place(o, outputs, visible, False) for o in parts.distinct_on]
    plan = _project(parts, outputs)
    keys = [
        SortKey(
            expr=column(i, plan.schema[i].type, plan.schema[i].name),
            descending=o.descending,
            nulls_first=o.nulls_first,
        )
        for i, o in zip(order, parts.order, strict=True)
    ]
    if on is not None:
        first = parts.distinct_on[0].position if parts.distinct_on else None
        plan = _distinct_on(plan, on, order, keys, first)
    elif plain_distinct:
        plan = Distinct(schema=plan.schema, input=plan)
    plan = apply_order(plan, keys, bounds)
    if len(outputs) > visible:
        schema = Schema(plan.schema.columns[:visible])
        plan = Project(schema=schema, input=plan, exprs=identity(plan.schema)[:visible])
    return plan


def _place(item: OrderItem, outputs: list[Expr], visible: int, distinct: bool) -> int:
    """Position of the item's column among the outputs; appended if it is not one of them."""
    if item.target is not None:
        return item.target
    assert item.expr is not None
    if item.expr in outputs:
        return outputs.index(item.expr)
    if distinct:
        raise InvalidColumnReference(
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
            position=item.position,
            hint="Add the expression to the select list, or use GROUP BY.",
        )
    outputs.append(item.expr)
    return len(outputs) - 1


def _project(parts: Parts, outputs: Sequence[Expr]) -> LogicalPlan:
    names = [t.name for t in parts.targets]
    names += [""] * (len(outputs) - len(names))
    bare = make_project(parts.plan, outputs)
    columns = tuple(Column(n, c.type, c.nullable) for n, c in zip(names, bare.schema, strict=True))
    schema = Schema(columns)
    if _is_identity(outputs, parts.plan.schema) and schema.names == parts.plan.schema.names:
        return parts.plan
    return replace(bare, schema=schema)


def _is_identity(outputs: Sequence[Expr], schema: Schema) -> bool:
    return len(outputs) == len(schema) and all(
        isinstance(e, ColumnRef) and e.index == i for i, e in enumerate(outputs)
    )


def _distinct_on(
    plan: LogicalPlan,
    on: list[int],
    order: list[int],
    keys: list[SortKey],
    at: int | None,
) -> LogicalPlan:
    """DISTINCT ON: its keys must lead the ORDER BY."""
    wanted = set(on)
    seen: set[int] = set()
    for position in order:
        if seen == wanted:
            break
        if position not in wanted:
            raise InvalidColumnReference(
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                position=at,
                hint="Begin ORDER BY with the expressions of DISTINCT ON.",
            )
        seen.add(position)
    return DistinctOn(
        schema=plan.schema, input=plan, keys=tuple(dict.fromkeys(on)), order_by=tuple(keys)
    )
