"""JOIN: ON, USING, NATURAL, CROSS, LATERAL and ASOF."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from streamsql.core.errors import (
    AmbiguousColumn,
    FeatureNotSupported,
    InvalidColumnReference,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedTable,
)
from streamsql.core.schema import Column, Schema
from streamsql.functions.expressions import Call, Expr, conjunction, conjuncts
from streamsql.plan.binder.env import Env, FromItem, position_of
from streamsql.plan.binder.scope import NamedColumn, Namespace, out_of_reach
from streamsql.plan.nodes import Join, LogicalPlan
from streamsql.plan.visit import row_columns, shift_columns

INEQUALITIES = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""Comparison → the same comparison with its sides exchanged."""


@dataclass(frozen=True)
class JoinSyntax:
    """How a JOIN was written. kind: inner, left, right, full, cross, asof, asof_left."""

    kind: str
    natural: bool
    on: exp.Expression | None
    using: tuple[exp.Identifier, ...]


def join_schema(left: Schema, right: Schema, kind: str) -> Schema:
    """Output schema: the side that may be missing becomes nullable."""
    if kind in ("semi", "anti"):
        return left
    left_columns = _nullable(left) if kind in ("right", "full") else left.columns
    fills_right = kind in ("left", "full") or kind.endswith("_left")
    right_columns = _nullable(right) if fills_right else right.columns
    return Schema(left_columns + right_columns)


def _nullable(schema: Schema) -> tuple[Column, ...]:
    return tuple(c if c.nullable else Column(c.name, c.type) for c in schema)


def make_join(
    left: LogicalPlan,
    right: LogicalPlan,
    kind: str,
    condition: Expr | None = None,
    *,
    lateral: bool = False,
) -> Join:
    """A Join node with its schema."""
    return Join(
        schema=join_schema(left.schema, right.schema, kind),
        left=left,
        right=right,
        kind=kind,
        condition=condition,
        lateral=lateral,
    )


def cross_join(
    left: FromItem,
    right: FromItem,
    position: int | None = None,
    *,
    kind: str = "cross",
    lateral: bool = False,
) -> FromItem:
    """left × right."""
    namespace = left.namespace.joined(right.namespace, position)
    namespace = namespace.outer(kind, len(left.namespace.relations))
    return FromItem(make_join(left.plan, right.plan, kind, lateral=lateral), namespace)


def read_syntax(join: exp.Join) -> JoinSyntax:
    """What kind of join the tree node is. Raises: SqlSyntaxError (42601), FeatureNotSupported."""
    side = str(join.args.get("side") or "").upper()
    kind = str(join.args.get("kind") or "").upper()
    method = str(join.args.get("method") or "").upper()
    position = position_of(join.this.this) if isinstance(join.this.this, exp.Expression) else None
    on = join.args.get("on")
    match = join.args.get("match_condition")
    if match is not None:
        # trees are shared by the parse cache: a new node takes copies
        on = match if on is None else exp.And(this=on.copy(), expression=match.copy())
    using = tuple(_identifier(u) for u in join.args.get("using") or ())
    if method not in ("", "NATURAL", "ASOF") or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise FeatureNotSupported(
            f"{method or kind} JOIN is not supported",
            position=position,
            hint="Use INNER, LEFT, RIGHT, FULL, CROSS or ASOF JOIN, or [NOT] EXISTS.",
        )
    if method == "ASOF":
        if side not in ("", "LEFT"):
            raise FeatureNotSupported(
                f"ASOF {side} JOIN is not supported",
                position=position,
                hint="Use ASOF JOIN or ASOF LEFT JOIN.",
            )
        if using:
            raise FeatureNotSupported(
                "ASOF JOIN with USING is not supported",
                position=position,
                hint="Write ON l.key = r.key AND r.time <= l.time.",
            )
        return JoinSyntax("asof_left" if side else "asof", False, on, using)
    name = side.lower() or ("cross" if kind == "CROSS" else "inner")
    natural = method == "NATURAL"
    if name != "cross" and on is None and not using and not natural:
        raise SqlSyntaxError(
            "a JOIN needs ON or USING",
            position=position,
            hint="Add ON <condition>, or write CROSS JOIN.",
        )
    return JoinSyntax(name, natural, on, using)


def _identifier(node: exp.Expression) -> exp.Identifier:
    found = node.this if isinstance(node, exp.Column) else node
    assert isinstance(found, exp.Identifier)
    return found


def join_items(join: exp.Join, env: Env, left: FromItem, start: int, first_column: int) -> FromItem:
    """left JOIN join.this. start, first_column: where left's own comma group begins in its
    namespace, because ON sees no more than that."""
    from streamsql.plan.binder.from_clause import (
        bind_item,
        bind_lateral_item,
        bind_nested_item,
        is_nested,
    )
    from streamsql.plan.binder.table_functions import is_function_item, join_function

    syntax = read_syntax(join)
    node = join.this
    if isinstance(node, exp.Table) and node.args.get("version") is not None:
        from streamsql.plan.binder.temporal import temporal_join

        return temporal_join(node, env, left, syntax, start, first_column)
    if is_function_item(node):
        return join_function(node, env, left, syntax, start, first_column)
    lateral = False
    if isinstance(node, exp.Lateral):
        right, lateral = bind_lateral_item(node, env, left)
    elif is_nested(node):
        right, lateral = bind_nested_item(node, env, left)
    else:
        right = bind_item(node, env, left.namespace)
    if lateral and syntax.kind not in ("inner", "cross", "left"):
        raise InvalidColumnReference(
            f"invalid LATERAL reference to the left side of a {syntax.kind.upper()} JOIN",
            position=position_of(node),
            detail="The combining JOIN type must be INNER or LEFT for a LATERAL reference.",
        )
    return combine(left, right, syntax, env, start, first_column, lateral=lateral)


def combine(
    left: FromItem,
    right: FromItem,
    syntax: JoinSyntax,
    env: Env,
    start: int,
    first_column: int,
    *,
    lateral: bool = False,
) -> FromItem:
    """Join two bound items as written."""
    namespace = left.namespace.joined(right.namespace)
    group = Namespace(
        namespace.width, namespace.relations[start:], namespace.columns[first_column:]
    )
    if syntax.natural or syntax.using:
        return _join_using(left, right, namespace, syntax, first_column, lateral=lateral)
    condition = None
    if syntax.on is not None:
        condition = _bind_on(syntax.on, env, namespace, group)
    kind = syntax.kind
    if kind.startswith("asof"):
        condition = check_asof(condition, left.namespace.width, position_of(syntax.on))
    plan = make_join(left.plan, right.plan, kind, condition, lateral=lateral)
    return FromItem(plan, namespace.outer(kind, len(left.namespace.relations)))


def _bind_on(on: exp.Expression, env: Env, full: Namespace, group: Namespace) -> Expr:
    from streamsql.plan.binder.expressions import ExprBinder

    try:
        return ExprBinder(env.scope(group), env.statement, clause="JOIN/ON").predicate(on)
    except UndefinedTable as error:
        if error.message.startswith("missing FROM-clause entry"):
            alias = error.message.split('"')[1]
            if full.relation(alias) is not None:
                raise out_of_reach(alias, error.position) from None
        raise


def _join_using(
    left: FromItem,
    right: FromItem,
    namespace: Namespace,
    syntax: JoinSyntax,
    first_column: int,
    *,
    lateral: bool,
) -> FromItem:
    left_columns = left.namespace.columns[first_column:]
    right_columns = namespace.columns[len(left.namespace.columns) :]
    if syntax.natural:
        right_names = {c.name for c in right_columns}
        names: list[tuple[str, int | None]] = []
        for c in left_columns:
            if c.name in right_names and (c.name, None) not in names:
                names.append((c.name, None))
    else:
        names = [(u.name, position_of(u)) for u in syntax.using]
    merged, parts = [], []
    for name, position in names:
        a = _common(left_columns, name, "left", position)
        b = _common(right_columns, name, "right", position)
        column, equality = _merge(a, b, syntax.kind, position)
        merged.append(column)
        parts.append(equality)
    common = {n for n, _ in names}
    columns = [
        *namespace.columns[:first_column],
        *merged,
        *(c for c in left_columns if c.name not in common),
        *(c for c in right_columns if c.name not in common),
    ]
    condition = conjunction(parts) if parts else None
    kind = syntax.kind
    if condition is None:
        kind = {"inner": "cross"}.get(kind, kind)
        condition = None if kind == "cross" else conjunction([])
    plan = make_join(left.plan, right.plan, kind, condition, lateral=lateral)
    made = Namespace(namespace.width, namespace.relations, columns)
    return FromItem(plan, made.outer(kind, len(left.namespace.relations)))


def _common(columns: list[NamedColumn], name: str, side: str, position: int | None) -> NamedColumn:
    found = [c for c in columns if c.name == name]
    if not found:
        raise UndefinedColumn(
            f'column "{name}" specified in USING clause does not exist in {side} table',
            position=position,
        )
    if len(found) > 1:
        raise AmbiguousColumn(
            f'common column name "{name}" appears more than once in {side} table',
            position=position,
        )
    return found[0]


def _merge(
    a: NamedColumn, b: NamedColumn, kind: str, position: int | None
) -> tuple[NamedColumn, Expr]:
    """The merged column of USING, and the equality of its two sources."""
    from streamsql.functions.coerce import coerce, common_type
    from streamsql.functions.resolve import resolve_call

    target = common_type([a.expr.type, b.expr.type], what="JOIN/USING")
    left, right = coerce(a.expr, target), coerce(b.expr, target)
    equality = resolve_call("=", [a.expr, b.expr], position)
    if kind == "full":
        value: Expr = Call(function="coalesce", args=(left, right), type=target)
        return NamedColumn(a.name, value), equality
    source, value = (b, right) if kind == "right" else (a, left)
    return replace(source, expr=value), equality


def check_asof(condition: Expr | None, left_width: int, position: int | None) -> Expr:
    """An ASOF condition: equalities between the sides and exactly one inequality, left side first.

    Raises: FeatureNotSupported (0A000).
    """
    hint = "Write ON l.key = r.key AND r.time <= l.time."
    inequalities, others = [], []
    for part in [] if condition is None else conjuncts(condition):
        if not isinstance(part, Call) or len(part.args) != 2:
            raise _bad_asof(position, hint)
        sides = [_side(a, left_width) for a in part.args]
        if sorted(sides) != ["left", "right"]:
            raise _bad_asof(position, hint)
        if sides[0] == "right":
            flipped = INEQUALITIES.get(part.function, part.function)
            facing = replace(part, function=flipped, args=part.args[::-1])
        else:
            facing = part
        if facing.function in INEQUALITIES:
            inequalities.append(facing)
        elif facing.function == "eq":
            others.append(facing)
        else:
            raise _bad_asof(position, hint)
    if len(inequalities) != 1:
        raise _bad_asof(position, hint)
    return conjunction([*others, *inequalities])


def _bad_asof(position: int | None, hint: str) -> FeatureNotSupported:
    return FeatureNotSupported(
        "ASOF JOIN takes equalities between the two sides and exactly one inequality",
        position=position,
        hint=hint,
    )


def _side(expr: Expr, left_width: int) -> str:
    used = row_columns(expr)
    if used and all(i < left_width for i in used):
        return "left"
    if used and all(i >= left_width for i in used):
        return "right"
    return "none"


__all__ = ["check_asof", "combine", "cross_join", "join_items", "make_join", "shift_columns"]
