"""FROM: tables, views, subqueries, functions, windows and how they are joined.

Comma items and joins are bound left-deep. An item may look at what stands left of it when it is
LATERAL or a function; PostgreSQL's nesting of `a, b JOIN c` shows only in what ON may name, so a
group after a comma is bound in place unless it holds a RIGHT or FULL join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidColumnReference,
    InvariantViolation,
    StatementTooComplex,
    UndefinedTable,
)
from streamsql.core.schema import Column, Schema
from streamsql.dialect.nodes import WindowTvf
from streamsql.plan.binder.context import Bound, RelationInfo
from streamsql.plan.binder.env import Env, FromItem, named_item, position_of
from streamsql.plan.binder.joins import cross_join, join_items
from streamsql.plan.binder.scope import (
    NamedColumn,
    NamedRelation,
    Namespace,
    out_of_reach,
)
from streamsql.plan.nodes import LogicalPlan, Project, Scan, Values
from streamsql.plan.visit import outer_refs, shift_outer

DATABASE = "streamsql"
"""The only database there is."""

MAX_VIEW_DEPTH = 64

ONE_ROW = Values(schema=Schema(()), rows=((),))
"""The input of a SELECT without FROM."""


def bind_from(select: exp.Expression, env: Env) -> FromItem:
    """The whole FROM clause of a SELECT."""
    first = select.args.get("from_") or select.args.get("from")
    if first is None:
        return FromItem(ONE_ROW, Namespace(0))
    current: FromItem | None = None
    for group in _comma_groups(first.this, select.args.get("joins") or []):
        current = _bind_group(group, env, current)
    assert current is not None
    return current


def _comma_groups(first: exp.Expression, joins: Sequence[exp.Join]) -> list[list[exp.Expression]]:
    """[[item, join, join…], …]: the text between commas."""
    groups: list[list[exp.Expression]] = [[first]]
    for join in joins:
        plain = not any(
            join.args.get(k) for k in ("side", "kind", "method", "on", "using", "match_condition")
        )
        if plain:
            groups.append([join.this])
        else:
            groups[-1].append(join)
    return groups


def _bind_group(group: list[exp.Expression], env: Env, left: FromItem | None) -> FromItem:
    """One comma group after `left`."""
    if left is not None and _needs_nesting(group):
        item, lateral = bind_nested(lambda e: _bind_group(group, e, None), env, left)
        return cross_join(left, item, lateral=lateral)
    start = 0 if left is None else len(left.namespace.relations)
    first_column = 0 if left is None else len(left.namespace.columns)
    current = add_item(group[0], env, left)
    for join in group[1:]:
        assert isinstance(join, exp.Join)
        current = join_items(join, env, current, start, first_column)
    return current


def _needs_nesting(group: list[exp.Expression]) -> bool:
    return any(str(j.args.get("side") or "").upper() in ("RIGHT", "FULL") for j in group[1:])


def add_item(node: exp.Expression, env: Env, left: FromItem | None) -> FromItem:
    """left CROSS JOIN node, where node may look at left if it is LATERAL or a function."""
    from streamsql.plan.binder.table_functions import bind_function_item, is_function_item

    if is_function_item(node):
        return bind_function_item(node, env, left)
    if left is not None and is_nested(node):
        item, lateral = bind_nested_item(node, env, left)
        return cross_join(left, item, position_of(node), lateral=lateral)
    if isinstance(node, exp.Lateral):
        return bind_lateral(node, env, left)
    item = bind_item(node, env, None if left is None else left.namespace)
    return item if left is None else cross_join(left, item, position_of(node))


def is_nested(node: exp.Expression) -> bool:
    """Is the FROM item a join of several?"""
    while isinstance(node, exp.Paren):
        node = node.this
    return bool(node.args.get("joins"))


def bind_nested_item(node: exp.Expression, env: Env, left: FromItem) -> tuple[FromItem, bool]:
    """A join in parentheses (or nested by ON … ON …) behind `left`; see `bind_nested`."""
    return bind_nested(lambda e: bind_item(node, e, left.namespace), env, left)


def bind_nested(bind: Callable[[Env], FromItem], env: Env, left: FromItem) -> tuple[FromItem, bool]:
    """A group that is joined as a whole: (the item, whether it refers to left's row).

    Its LATERAL items and functions may look at `left`; then the group is the right side of a
    lateral join, and references to rows further out pass one more boundary.
    """
    try:
        item = bind(env.nested_behind(left.namespace))
    except UndefinedTable as error:
        raise _explain_sibling(error, left.namespace) from None
    lateral = any(depth == 1 for _, depth in outer_refs(item.plan))
    if not lateral:
        item = FromItem(shift_outer(item.plan, -1, above=1), item.namespace)
    return item, lateral


def bind_lateral(
    node: exp.Lateral,
    env: Env,
    left: FromItem | None,
    kind: str = "cross",
) -> FromItem:
    """left, LATERAL (query): joined with `kind` and no condition."""
    item, uses_left = bind_lateral_item(node, env, left)
    if left is None:
        return item
    return cross_join(left, item, position_of(node), kind=kind, lateral=uses_left)


def bind_lateral_item(node: exp.Lateral, env: Env, left: FromItem | None) -> tuple[FromItem, bool]:
    """The item on its own, and whether it refers to left's row (OuterRef depth 1)."""
    from streamsql.plan.binder.query import bind_query_tree

    query = node.this
    assert isinstance(query, exp.Subquery)  # functions come as tables
    if left is None:
        bound = bind_query_tree(query, env.lateral_alone())
        return aliased(bound, node.args.get("alias"), env), False
    scope = env.lateral_scope(left.namespace)
    bound = bind_query_tree(query, replace(env, parent=scope, beyond=None))
    uses_left = any(depth == 1 for _, depth in outer_refs(bound.plan))
    if not uses_left:
        bound = replace(bound, plan=shift_outer(bound.plan, -1, above=1))
    return aliased(bound, node.args.get("alias"), env), uses_left


def bind_item(node: exp.Expression, env: Env, siblings: Namespace | None = None) -> FromItem:
    """A FROM item that does not look at its neighbours (`siblings`: for error messages)."""
    for class_, bind in _ITEMS.items():
        if isinstance(node, class_):
            try:
                return bind(node, env)
            except UndefinedTable as error:
                raise _explain_sibling(error, siblings) from None
    raise InvariantViolation(f"the grammar puts no {node.key} into FROM")


def _explain_sibling(error: UndefinedTable, siblings: Namespace | None) -> UndefinedTable:
    if siblings is not None and error.message.startswith("missing FROM-clause entry"):
        alias = error.message.split('"')[1]
        if siblings.relation(alias) is not None:
            return out_of_reach(alias, error.position, lateral=True)
    return error


def _bind_table(node: exp.Table, env: Env) -> FromItem:
    from streamsql.plan.binder.table_functions import bind_function_item, is_function_item

    if is_function_item(node):
        return bind_function_item(node, env, None)
    _refuse_table_options(node)
    item = _bind_relation(node, env)
    joins = node.args.get("joins")
    if joins:
        for join in joins:
            item = join_items(join, env, item, 0, 0)
    return item


def _refuse_table_options(node: exp.Table) -> None:
    if node.args.get("sample"):
        raise FeatureNotSupported(
            "TABLESAMPLE is not supported",
            position=position_of(node.this),
            hint="A sample is not reproducible; filter on a hash of the key instead.",
        )
    version = node.args.get("version")
    if version is not None:
        raise FeatureNotSupported(
            "FOR SYSTEM_TIME AS OF stands behind the right side of a join here",
            position=position_of(node.this),
            hint="Write l JOIN r FOR SYSTEM_TIME AS OF {PROCTIME() | l.time} ON …; a plain SELECT "
            "can also read a version or a time.",
        )


def _bind_relation(node: exp.Table, env: Env) -> FromItem:
    parts = tuple(p.name for p in node.parts)
    alias_node = node.args.get("alias")
    if len(parts) == 1 and parts[0] in env.ctes:
        from streamsql.plan.binder.ctes import reference_cte

        bound = reference_cte(env.ctes[parts[0]], env, position_of(node.this))
        return aliased(bound, alias_node, env, default=parts[0])
    info = env.statement.context.resolve(_without_catalog(parts, position_of(node.parts[0])))
    if info is None:
        raise undefined_table(parts, position_of(node.parts[0]), env)
    bound = bind_relation_info(info, env)
    item = aliased(bound, alias_node, env, default=info.name, info=info)
    return item


def _without_catalog(parts: tuple[str, ...], position: int | None) -> tuple[str, ...]:
    """Raises: FeatureNotSupported (0A000) for another database."""
    if len(parts) < 3:
        return parts
    if parts[0] != DATABASE:
        raise FeatureNotSupported(
            f'cross-database references are not implemented: "{".".join(parts)}"',
            position=position,
            hint=f'There is one database, "{DATABASE}"; use a schema instead.',
        )
    return parts[1:]


def undefined_table(parts: tuple[str, ...], position: int | None, env: Env) -> UndefinedTable:
    """42P01; the hint names what resembles it, or tells of quoting."""
    name = ".".join(parts)
    hint = None
    lower, plain = parts[-1].lower(), parts[:-1]
    if parts[-1] != lower and env.statement.context.resolve((*plain, lower)) is not None:
        hint = f'There is a relation "{lower}"; a name in double quotes keeps its case.'
    elif any(cte.lower() == lower for cte in env.ctes):
        hint = "A WITH item of that name exists in another case."
    return UndefinedTable(f'relation "{name}" does not exist', position=position, hint=hint)


def bind_relation_info(info: RelationInfo, env: Env) -> Bound:
    """A Scan, or the expanded query of a plain view."""
    statement = env.statement
    if info.view_query is not None:
        return _expand_view(info, env)
    statement.relations.add(info.relation_id)
    plan = Scan(
        schema=info.schema,
        relation_id=info.relation_id,
        name=info.name,
        kind=info.kind,
        unique_keys=info.unique_keys,
        append_only=info.append_only,
        watermark_column=info.watermark_column,
    )
    return Bound(plan, tuple((info.relation_id, i) for i in range(len(info.schema))))


def _expand_view(info: RelationInfo, env: Env) -> Bound:
    from streamsql.plan.binder.outputs import typed_outputs
    from streamsql.plan.binder.query import bind_query_tree

    statement = env.statement
    if info.relation_id in statement.view_stack or len(statement.view_stack) > MAX_VIEW_DEPTH:
        raise StatementTooComplex(f'infinite recursion in view "{info.name}"')
    statement.relations.add(info.relation_id)
    statement.view_stack = (*statement.view_stack, info.relation_id)
    saved = statement.context.parameter_types
    statement.context.parameter_types = None
    try:
        bound = bind_query_tree(info.view_query, Env(statement))
    finally:
        statement.view_stack = statement.view_stack[:-1]
        statement.context.parameter_types = saved
    plan = typed_outputs(bound.plan, info.schema.types)
    origins = tuple((info.relation_id, i) for i in range(len(info.schema)))
    return Bound(renamed(plan, info.schema.names), origins)


def renamed(plan: LogicalPlan, names: Sequence[str]) -> LogicalPlan:
    """The plan with other output names."""
    if plan.schema.names == tuple(names):
        return plan
    columns = tuple(Column(n, c.type, c.nullable) for n, c in zip(names, plan.schema, strict=True))
    if isinstance(plan, Project):
        return replace(plan, schema=Schema(columns))
    from streamsql.plan.binder.outputs import identity

    return Project(schema=Schema(columns), input=plan, exprs=identity(plan.schema))


def _bind_subquery(node: exp.Subquery, env: Env) -> FromItem:
    from streamsql.plan.binder.query import bind_query_tree

    inner = node.this
    if isinstance(inner, exp.Table | exp.Subquery | WindowTvf) and _is_join_tree(inner):
        item = bind_item(inner, env)
        for join in node.args.get("joins") or []:
            item = join_items(join, env, item, 0, 0)
        return _join_alias(item, node.args.get("alias"))
    joins = node.args.get("joins")
    alias = node.args.get("alias")
    bare = node.copy() if joins else node
    if joins:
        bare.set("joins", None)
    item = aliased(bind_query_tree(bare, env), alias, env)
    for join in joins or []:
        item = join_items(join, env, item, 0, 0)
    return item


def _is_join_tree(node: exp.Expression) -> bool:
    """True for `(t JOIN u …)`, `(t)`: a parenthesised FROM item rather than a query."""
    if isinstance(node, exp.Subquery):
        return bool(node.args.get("joins")) or (
            not isinstance(node.this, exp.Query) and _is_join_tree(node.this)
        )
    return True


def _join_alias(item: FromItem, alias: exp.TableAlias | None) -> FromItem:
    """(a JOIN b …) AS j hides a and b."""
    if alias is None or not alias.name:
        return item
    names = _alias_columns(alias, [c.name for c in item.namespace.columns], alias.name)
    columns = tuple(replace(c, name=n) for c, n in zip(item.namespace.columns, names, strict=True))
    hidden = [replace(r, visible=False) for r in item.namespace.relations]
    relation = NamedRelation(alias.name, columns)
    namespace = Namespace(item.namespace.width, [*hidden, relation], list(columns))
    return FromItem(item.plan, namespace)


def _bind_values(node: exp.Values, env: Env) -> FromItem:
    from streamsql.plan.binder.query import bind_query_tree

    return aliased(bind_query_tree(node, env), node.args.get("alias"), env)


def aliased(
    bound: Bound,
    alias: exp.TableAlias | None,
    env: Env,
    *,
    default: str | None = None,
    info: RelationInfo | None = None,
) -> FromItem:
    """A bound query as a FROM item; UNKNOWN columns become text."""
    from streamsql.plan.binder.outputs import known_outputs

    name = alias.name if alias is not None and alias.name else default
    plan = known_outputs(bound.plan)
    item = named_item(
        plan,
        name,
        bound.origins,
        info=info,
        schema_name=info.schema_name if info is not None and name == default else None,
    )
    if alias is not None and alias.args.get("columns"):
        item = rename_columns(item, alias, name or "")
    return item


def rename_columns(item: FromItem, alias: exp.TableAlias, name: str) -> FromItem:
    """t AS a(x, y): new names for the first columns."""
    names = _alias_columns(alias, [c.name for c in item.namespace.columns], name)
    columns = tuple(replace(c, name=n) for c, n in zip(item.namespace.columns, names, strict=True))
    relations = [replace(r, columns=columns) for r in item.namespace.relations]
    return FromItem(item.plan, Namespace(item.namespace.width, relations, list(columns)))


def _alias_columns(alias: exp.TableAlias, present: list[str], name: str) -> list[str]:
    given = [c.name for c in alias.args.get("columns") or []]
    if len(given) > len(present):
        raise InvalidColumnReference(
            f'table "{name}" has {len(present)} columns available but {len(given)} columns '
            "specified",
            position=position_of(alias.this),
        )
    return given + present[len(given) :]


def _bind_window_tvf(node: WindowTvf, env: Env) -> FromItem:
    from streamsql.plan.binder.time_windows import bind_time_window

    return bind_time_window(node, env)


def _bind_lateral_alone(node: exp.Lateral, env: Env) -> FromItem:
    return bind_lateral(node, env, None)


def _bind_paren(node: exp.Paren, env: Env) -> FromItem:
    return _join_alias(bind_item(node.this, env), node.args.get("alias"))


_ITEMS: dict[type[exp.Expression], Callable[..., FromItem]] = {
    exp.Table: _bind_table,
    exp.Subquery: _bind_subquery,
    WindowTvf: _bind_window_tvf,
    exp.Values: _bind_values,
    exp.Lateral: _bind_lateral_alone,
    exp.Paren: _bind_paren,
}

__all__ = ["NamedColumn", "add_item", "bind_from", "bind_item"]
