"""Lifting correlated conditions out of a subquery's plan, so that it can be joined instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, BOOLEAN, Kind
from streamsql.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    Literal,
    OuterRef,
    WindowCall,
    column,
    conjunction,
    conjuncts,
)
from streamsql.functions.resolve import needs_guard
from streamsql.plan.nodes import (
    Aggregate,
    Distinct,
    DistinctOn,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    Sort,
    Window,
)
from streamsql.plan.optimizer.predicates import may_raise
from streamsql.plan.visit import (
    expression_outer_refs,
    map_outer,
    node_expressions,
    outer_refs,
    remap_columns,
    row_columns,
    shift_columns,
    shift_outer,
)


@dataclass(frozen=True)
class Lifted:
    """A plan without references to the row it was evaluated for, and the conditions taken out.

    plan: outputs the original columns first, then perhaps more. conditions: over the plan's row,
    with OuterRef(depth=1) for the outer row.
    """

    plan: LogicalPlan
    conditions: tuple[Expr, ...] = ()


def is_correlated(plan: LogicalPlan) -> bool:
    """Does the plan refer to the row it is evaluated for?"""
    return any(depth == 1 for _, depth in outer_refs(plan))


def refers_outside(expr: Expr) -> bool:
    """Does the expression refer to the row around its plan?"""
    return any(depth == 1 for _, depth in expression_outer_refs(expr))


def lift(plan: LogicalPlan) -> Lifted | None:
    """Take the correlated conditions of WHERE and ON out of the plan; None if correlation remains.

    Goes through filters, projections and joins where a condition may be tested later, and where all
    conditions are equalities, also through what is done by key as well: LIMIT, DISTINCT, OVER and
    GROUP BY (an aggregate without keys has a row for a key without rows, too, and is not lifted).
    """
    if not is_correlated(plan):
        return Lifted(plan)
    match plan:
        case Filter():
            return _filter(plan)
        case Project():
            return _project(plan)
        case Join():
            return _join(plan)
        case Sort():
            return lift(plan.input)
        case Limit() | Distinct() | DistinctOn() | Window() | Aggregate():
            return _by_key(plan)
    return None


def _filter(plan: Filter) -> Lifted | None:
    below = lift(plan.input)
    if below is None:
        return None
    own = conjuncts(plan.predicate)
    correlated = [p for p in own if refers_outside(p)]
    plain = [p for p in own if not refers_outside(p)]
    inner = below.plan
    if plain:
        inner = Filter(schema=inner.schema, input=inner, predicate=conjunction(plain))
    return Lifted(inner, (*below.conditions, *correlated))


def _project(plan: Project) -> Lifted | None:
    if any(refers_outside(e) for e in plan.exprs):
        return None
    below = lift(plan.input)
    if below is None:
        return None
    exprs = list(plan.exprs)
    columns = list(plan.schema.columns)
    where: dict[int, int] = {}
    for condition in below.conditions:
        for i in sorted(row_columns(condition)):
            if i not in where:
                c = below.plan.schema[i]
                ref = column(i, c.type, c.name)
                where[i] = exprs.index(ref) if ref in exprs else len(exprs)
                if where[i] == len(exprs):
                    exprs.append(ref)
                    columns.append(c)
    project = Project(schema=Schema(tuple(columns)), input=below.plan, exprs=tuple(exprs))
    return Lifted(project, tuple(remap_columns(c, where) for c in below.conditions))


def _join(plan: Join) -> Lifted | None:
    if plan.kind in ("semi", "anti") and not plan.lateral:
        return _semi_join(plan)
    if plan.lateral or plan.kind not in ("inner", "cross", "left"):
        return None
    left = lift(plan.left)
    right = lift(plan.right)
    if left is None or right is None or (plan.kind == "left" and right.conditions):
        return None
    own = [] if plan.condition is None else conjuncts(plan.condition)
    correlated = [p for p in own if refers_outside(p)]
    if plan.kind == "left" and correlated:
        return None
    plain = [p for p in own if not refers_outside(p)]
    # new row: left, left's extra columns, right, right's extra columns
    n, m = len(plan.left.schema), len(left.plan.schema)
    k = len(plan.right.schema)
    where = {i: i if i < n else i - n + m for i in range(n + k)}
    kind = "inner" if plain and plan.kind == "cross" else plan.kind
    if not plain and kind == "inner":
        kind = "cross"
    condition = conjunction([remap_columns(p, where) for p in plain]) if plain else None
    joined = replace(
        plan,
        schema=Schema(left.plan.schema.columns + right.plan.schema.columns),
        left=left.plan,
        right=right.plan,
        kind=kind,
        condition=condition,
    )
    conditions = [*left.conditions]
    conditions += [shift_columns(c, m) for c in right.conditions]
    conditions += [remap_columns(c, where) for c in correlated]
    if m == n:
        return Lifted(joined, tuple(conditions))
    return _reordered(joined, where, n + k, tuple(conditions))


def _semi_join(plan: Join) -> Lifted | None:
    """What is asked of the left rows is lifted; what the right side compares with the outer row
    becomes part of the join where the left side compares with the same."""
    left, right = lift(plan.left), lift(plan.right)
    own = [] if plan.condition is None else conjuncts(plan.condition)
    if left is None or right is None or any(refers_outside(p) for p in own):
        return None
    if plan.null_aware and right.conditions:
        return None
    n, m = len(plan.left.schema), len(left.plan.schema)
    where = {i: i if i < n else i - n + m for i in range(n + len(plan.right.schema))}
    parts = [remap_columns(p, where) for p in own]
    known = [equality_sides(c) for c in left.conditions]
    for pair in map(equality_sides, right.conditions):
        same = [k[0] for k in known if k is not None and pair is not None and k[1] == pair[1]]
        if pair is None or not same or may_raise(pair[0]) or may_raise(same[0]):
            return None
        args = (same[0], shift_columns(pair[0], m))
        parts.append(Call(function="eq", args=args, type=BOOLEAN))
    condition = conjunction(parts) if parts else None
    joined = replace(
        plan, schema=left.plan.schema, left=left.plan, right=right.plan, condition=condition
    )
    return Lifted(joined, left.conditions)


def _reordered(
    joined: Join, where: dict[int, int], width: int, conditions: tuple[Expr, ...]
) -> Lifted:
    """Original columns first, the extra ones behind."""
    order = [where[i] for i in range(width)]
    order += [i for i in range(len(joined.schema)) if i not in set(order)]
    back = {old: new for new, old in enumerate(order)}
    exprs = tuple(column(i, joined.schema[i].type, joined.schema[i].name) for i in order)
    project = Project(schema=joined.schema.select(order), input=joined, exprs=exprs)
    return Lifted(project, tuple(remap_columns(c, back) for c in conditions))


# --- what can be done by key ----------------------------------------------------------------------
@dataclass(frozen=True)
class Keyed:
    """A lifted plan whose conditions are all `column = outer side`. keys: those columns."""

    plan: LogicalPlan
    keys: tuple[int, ...]
    outer: tuple[Expr, ...]

    def lifted(self, plan: LogicalPlan, keys: Sequence[int]) -> Lifted:
        """Another plan that has the keys as these columns."""
        conditions = []
        for key, side in zip(keys, self.outer, strict=True):
            c = plan.schema[key]
            args = (column(key, c.type, c.name), side)
            conditions.append(Call(function="eq", args=args, type=BOOLEAN))
        return Lifted(plan, tuple(conditions))


def keyed(plan: LogicalPlan) -> Keyed | None:
    """Lift the conditions of a plan; None unless all are equalities of one side each."""
    below = lift(plan)
    if below is None or not below.conditions:
        return None
    pairs = [equality_sides(c) for c in below.conditions]
    sides = [p for p in pairs if p is not None]
    if len(sides) < len(pairs) or any(may_raise(e) and needs_guard(e) for p in sides for e in p):
        return None
    if any(inner.type.kind in (Kind.REAL, Kind.DOUBLE) for inner, _ in sides):
        return None  # -0 = 0, but they may be two groups
    exprs: list[Expr] = [column(i, c.type, c.name) for i, c in enumerate(below.plan.schema)]
    keys = []
    for inner, _ in sides:
        bare = column(inner.index, inner.type, below.plan.schema[inner.index].name) if (
            isinstance(inner, ColumnRef)) else inner  # fmt: skip
        if bare not in exprs:
            exprs.append(bare)
        keys.append(exprs.index(bare))
    source = below.plan
    if len(exprs) > len(source.schema):
        extra = tuple(Column("", e.type) for e in exprs[len(source.schema) :])
        schema = Schema(source.schema.columns + extra)
        source = Project(schema=schema, input=source, exprs=tuple(exprs))
    return Keyed(source, tuple(keys), tuple(outer for _, outer in sides))


def _by_key(plan: LogicalPlan) -> Lifted | None:
    """A node that does by key what it did for each outer row."""
    if any(refers_outside(e) for e in node_expressions(plan)):
        return None
    found = keyed(plan.inputs()[0])
    if found is None:
        return None
    match plan:
        case Limit():
            return _limit(plan, found)
        case Distinct():
            distinct = Distinct(schema=found.plan.schema, input=found.plan)
            return found.lifted(distinct, found.keys)
        case DistinctOn():
            keys = tuple(dict.fromkeys((*found.keys, *plan.keys)))
            first = DistinctOn(
                schema=found.plan.schema, input=found.plan, keys=keys, order_by=plan.order_by
            )
            return found.lifted(first, found.keys)
        case Window():
            return _window(plan, found)
        case Aggregate():
            return _aggregate(plan, found)
    return None


def _limit(plan: Limit, found: Keyed) -> Lifted | None:
    """The first rows of each key: a filter over a row number."""
    if not plan.order_by or not all(isinstance(k.expr, ColumnRef) for k in plan.order_by):
        return None
    bounds = [plan.limit, *([plan.offset] if plan.offset is not None else [])]
    if not all(isinstance(b, Literal) and isinstance(b.value, int) for b in bounds):
        return None
    limit, *skipped = [b.value for b in bounds if isinstance(b, Literal)]
    if limit < 1 or (plan.with_ties and skipped):
        return None
    call = WindowCall(
        function="rank" if plan.with_ties else "row_number",
        args=(),
        type=BIGINT,
        partition_by=_columns(found.plan, dict.fromkeys(found.keys)),
        order_by=plan.order_by,
    )
    source, width = found.plan, len(found.plan.schema)
    numbered = Window(
        schema=Schema((*source.schema.columns, Column("", BIGINT))), input=source, calls=(call,)
    )
    number = column(width, BIGINT)
    parts = [_compared("le", number, limit + sum(skipped))]
    if any(skipped):
        parts.append(_compared("gt", number, sum(skipped)))
    first = Filter(schema=numbered.schema, input=numbered, predicate=conjunction(parts))
    return found.lifted(first, found.keys)


def _compared(function: str, number: Expr, value: int) -> Expr:
    bound = Literal(value=value, type=BIGINT)
    return Call(function=function, args=(number, bound), type=BOOLEAN)


def _columns(plan: LogicalPlan, positions: Iterable[int]) -> tuple[Expr, ...]:
    return tuple(column(i, plan.schema[i].type, plan.schema[i].name) for i in positions)


def _window(plan: Window, found: Keyed) -> Lifted:
    """OVER within each key."""
    by = _columns(found.plan, dict.fromkeys(found.keys))
    calls = tuple(replace(c, partition_by=(*by, *c.partition_by)) for c in plan.calls)
    n, m = len(plan.input.schema), len(found.plan.schema)
    schema = Schema((*found.plan.schema.columns, *plan.schema.columns[n:]))
    wide = Window(schema=schema, input=found.plan, calls=calls)
    order = [*range(n), *range(m, len(schema)), *range(n, m)]
    return _chosen(found, wide, order, found.keys)


def _aggregate(plan: Aggregate, found: Keyed) -> Lifted | None:
    """GROUP BY the keys as well."""
    if not plan.keys or plan.grouping_sets is not None or plan.grouping_calls:
        return None
    keys = tuple(dict.fromkeys((*plan.keys, *found.keys)))
    results = plan.schema.columns[len(plan.keys) :]
    schema = Schema((*found.plan.schema.select(keys).columns, *results))
    grouped = Aggregate(schema=schema, input=found.plan, keys=keys, aggregates=plan.aggregates)
    order = [*(keys.index(k) for k in plan.keys), *range(len(keys), len(schema))]
    order += [keys.index(k) for k in found.keys]
    width = len(plan.schema)
    exprs = _columns(grouped, order)
    project = Project(schema=schema.select(order), input=grouped, exprs=exprs)
    return found.lifted(project, range(width, width + len(found.keys)))


def _chosen(found: Keyed, plan: LogicalPlan, order: list[int], keys: Sequence[int]) -> Lifted:
    """The plan's columns in another order."""
    if order == list(range(len(plan.schema))):
        return found.lifted(plan, keys)
    project = Project(schema=plan.schema.select(order), input=plan, exprs=_columns(plan, order))
    return found.lifted(project, [order.index(k) for k in keys])


# --- from subquery to join condition ------------------------------------------------------------
def as_join_condition(condition: Expr, left_width: int) -> Expr:
    """A lifted condition over [outer row, subquery row], one level further up.

    The subquery's columns move behind the outer row's; OuterRef(1) becomes a column of the outer
    row, deeper references lose one level.
    """
    shifted = shift_columns(condition, left_width)

    def move(ref: OuterRef, level: int) -> Expr:
        if ref.depth <= level:
            return ref
        if ref.depth == level + 1:
            if level == 0:
                return ColumnRef(
                    index=ref.index, type=ref.type, name=ref.name, position=ref.position
                )
            return replace(ref, depth=level)
        return replace(ref, depth=ref.depth - 1)

    return map_outer(shifted, move)


def up_one_level(plan: LogicalPlan) -> LogicalPlan:
    """An uncorrelated subquery's plan as a join input: deeper references lose one level."""
    return shift_outer(plan, -1, above=1)


def equality_sides(condition: Expr) -> tuple[Expr, Expr] | None:
    """(inner side, outer side) of a lifted `inner = outer`; None for any other condition."""
    if not isinstance(condition, Call) or condition.function != "eq":
        return None
    for inner, outer in (condition.args, condition.args[::-1]):
        if (
            row_columns(inner)
            and not refers_outside(inner)
            and not row_columns(outer)
            and refers_outside(outer)
        ):
            return inner, outer
    return None
