"""EXISTS, IN, ANY and ALL inside of expressions → joins that give each row its answer.

A membership test that is a condition of its own is a semi join (`membership`). One under OR, NOT or
CASE, or in the select list, is a value: the row is left-joined with the distinct members (or keys)
of the subquery, and found or not. What decides between FALSE and NULL (is there a NULL among the
members, is there a member at all), and the extremes that `< ANY` and `>= ALL` compare with, come
with an aggregate over the members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BOOLEAN, SqlType
from streamsql.functions.expressions import (
    AggregateCall,
    Call,
    Case,
    ColumnRef,
    Expr,
    Literal,
    Subquery,
    column,
    conjunction,
    literal,
    walk,
)
from streamsql.functions.resolve import resolve_aggregate
from streamsql.plan.binder.joins import join_schema
from streamsql.plan.nodes import Aggregate, Distinct, Filter, Join, LogicalPlan, Project
from streamsql.plan.optimizer.comparisons import FALSE, ORDERED_KINDS
from streamsql.plan.optimizer.decorrelate import (
    as_join_condition,
    is_correlated,
    keyed,
    up_one_level,
)
from streamsql.plan.optimizer.domains import KEY_KINDS, found_in
from streamsql.plan.optimizer.membership import any_row
from streamsql.plan.optimizer.predicates import holds_subquery, may_raise
from streamsql.plan.optimizer.scalar_subqueries import with_values
from streamsql.plan.visit import node_expressions, transform_plan

Marked = tuple[LogicalPlan, Expr]
"""The source with further columns, and the subquery's value over its row."""

KINDS = ("exists", "in", "any", "all")


def unnest_marks(plan: LogicalPlan) -> LogicalPlan:
    """Join in the membership tests of every Project and Filter that allow it."""
    return transform_plan(plan, _node)


def _node(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Project | Filter):
        return node
    found = Counter(
        e
        for expr in node_expressions(node)
        for e in walk(expr)
        if isinstance(e, Subquery) and e.kind in KINDS
    )
    if not found:
        return node
    loose = Counter(_loose(node.predicate)) if isinstance(node, Filter) else Counter()
    source: LogicalPlan = node.input
    values: dict[Subquery, Expr] = {}
    for subquery, places in found.items():
        marked = _marked(subquery, source, exact=loose[subquery] < places)
        if marked is not None:
            source, values[subquery] = marked
    return with_values(node, source, values) if values else node


def _loose(expr: Expr) -> Iterator[Subquery]:
    """Subqueries of a WHERE for which NULL is as good as FALSE: below AND and OR only."""
    if isinstance(expr, Subquery):
        yield expr
    elif isinstance(expr, Call) and expr.function in ("and", "or"):
        for arg in expr.args:
            yield from _loose(arg)


def _marked(node: Subquery, source: LogicalPlan, *, exact: bool) -> Marked | None:
    if node.kind == "exists":
        return _exists(any_row(node.plan), source)
    if any(may_raise(o) or holds_subquery(o) for o in node.operands):
        return None
    members = _members_of(node)
    if members is None:
        return None
    if node.kind == "in" or (node.kind, node.operator) in (("any", "eq"), ("all", "ne")):
        negate = node.negated or node.kind == "all"
        found = _in(node, members, source, exact=exact or negate)
        if found is None or not negate:
            return found
        return found[0], _call("not", found[1])
    return _compared(node, members, source)


# --- EXISTS -------------------------------------------------------------------------------------
def _exists(plan: LogicalPlan, source: LogicalPlan) -> Marked | None:
    if not is_correlated(plan):
        count = resolve_aggregate("count", [])
        counted = Aggregate(
            schema=Schema((Column("", count.type),)), input=plan, keys=(), aggregates=(count,)
        )
        some = _call("gt", column(0, count.type), literal(0, count.type))
        right = Project(schema=Schema((Column("", BOOLEAN),)), input=counted, exprs=(some,))
        return _crossed(source, up_one_level(right)), column(len(source.schema), BOOLEAN)
    found = keyed(plan)
    if found is None:
        return found_in(source, plan)
    members = Members(found.plan, (), found.keys, found.outer)
    if not members.usable:
        return None
    join = _matched(members, (), source)
    first = len(source.schema)
    return join, _call("is_not_null", column(first, join.schema[first].type))


# --- IN -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Members:
    """A subquery's rows without correlation. values: the columns that are compared; keys: those
    that must equal `outer`, which are over the outer row."""

    plan: LogicalPlan
    values: tuple[int, ...]
    keys: tuple[int, ...]
    outer: tuple[Expr, ...]

    @property
    def usable(self) -> bool:
        """Can the columns be keys of groups and joins?"""
        columns = (*self.values, *self.keys)
        return bool(columns) and all(self.plan.schema[i].type.kind in KEY_KINDS for i in columns)


def _members_of(node: Subquery) -> Members | None:
    values = tuple(range(len(node.operands)))
    if not is_correlated(node.plan):
        found = Members(node.plan, values, (), ())
    else:
        lifted = keyed(node.plan)
        if lifted is None:
            return None
        found = Members(lifted.plan, values, lifted.keys, lifted.outer)
    return found if found.usable else None


def _in(node: Subquery, members: Members, source: LogicalPlan, *, exact: bool) -> Marked | None:
    if any(
        o.type != members.plan.schema[i].type
        for i, o in zip(members.values, node.operands, strict=True)
    ):
        return None
    nullable = any(members.plan.schema[i].nullable for i in members.values) or any(
        _nullable(o, source) for o in node.operands
    )
    if exact and nullable and len(node.operands) > 1:
        return None
    join = _matched(members, node.operands, source)
    first = len(source.schema)
    found = _call("is_not_null", column(first, join.schema[first].type))
    if not (exact and nullable):
        return join, found
    whole, tally = _tallied(members, join, ())
    unknown = _call("or", _call("is_null", node.operands[0]), tally.nulls)
    whens = (
        (found, literal(True, BOOLEAN)),
        (tally.empty, FALSE),
        (unknown, literal(None, BOOLEAN)),
    )
    return whole, Case(whens=whens, otherwise=FALSE, type=BOOLEAN)


def _nullable(expr: Expr, source: LogicalPlan) -> bool:
    if isinstance(expr, Literal):
        return expr.value is None
    return not (isinstance(expr, ColumnRef) and not source.schema[expr.index].nullable)


def _matched(members: Members, operands: Sequence[Expr], source: LogicalPlan) -> Join:
    """The source left-joined with the one row of distinct (values, keys) that equals."""
    columns = tuple(dict.fromkeys((*members.values, *members.keys)))
    narrow = _selected(members.plan, columns)
    right = up_one_level(Distinct(schema=narrow.schema, input=narrow))
    width = len(source.schema)
    sides = [
        *zip(operands, members.values, strict=True),
        *_outer_sides(members, width),
    ]
    parts = []
    for own, i in sides:
        place = columns.index(i)
        parts.append(_call("eq", own, column(width + place, right.schema[place].type)))
    return _joined(source, right, conjunction(parts))


def _outer_sides(members: Members, width: int) -> list[tuple[Expr, int]]:
    """(outer side over the source's row, key) of the correlation."""
    outer = [as_join_condition(e, width) for e in members.outer]
    return list(zip(outer, members.keys, strict=True))


def _selected(plan: LogicalPlan, columns: Sequence[int]) -> Project:
    schema = plan.schema.select(columns)
    refs = tuple(column(i, c.type, c.name) for i, c in zip(columns, schema, strict=True))
    return Project(schema=schema, input=plan, exprs=refs)


# --- what the members say together --------------------------------------------------------------
@dataclass(frozen=True)
class Tally:
    """Over the joined row. empty: there is no member; nulls: one is NULL; extras: aggregates."""

    empty: Expr
    nulls: Expr
    extras: tuple[Expr, ...]


def _tallied(
    members: Members, source: LogicalPlan, extras: Sequence[AggregateCall]
) -> tuple[LogicalPlan, Tally]:
    """The source joined with an aggregate over the members of each key."""
    keys = tuple(dict.fromkeys(members.keys))
    value = members.plan.schema[members.values[0]]
    calls = (
        resolve_aggregate("count", []),
        resolve_aggregate("count", [column(members.values[0], value.type)]),
        *extras,
    )
    columns = (*members.plan.schema.select(keys).columns, *(Column("", c.type) for c in calls))
    grouped = Aggregate(schema=Schema(columns), input=members.plan, keys=keys, aggregates=calls)
    n = len(keys)
    # counts change with every row, and what follows from them seldom: only that is joined
    rows, known = (column(n + i, calls[i].type) for i in (0, 1))
    flags = (
        _call("gt", rows, literal(0, calls[0].type)),
        _call("lt", known, rows),
    )
    kept = (
        *(column(i, c.type, c.name) for i, c in enumerate(columns[:n])),
        *flags,
        *(column(n + 2 + i, c.type) for i, c in enumerate(extras)),
    )
    schema = Schema((*columns[:n], *(Column("", e.type) for e in kept[n:])))
    right = up_one_level(Project(schema=schema, input=grouped, exprs=kept))
    width = len(source.schema)
    if keys:
        sides = _outer_sides(members, width)
        parts = [_call("eq", own, _at(right, keys.index(k), width)) for own, k in sides]
        joined = _joined(source, right, conjunction(parts))
    else:
        joined = _crossed(source, right)
    some, nulls = column(width + n, BOOLEAN), column(width + n + 1, BOOLEAN)
    further = tuple(column(width + n + 2 + i, c.type) for i, c in enumerate(extras))
    return joined, Tally(_call("is_not_true", some), nulls, further)


def _at(right: LogicalPlan, i: int, width: int) -> ColumnRef:
    return column(width + i, right.schema[i].type, right.schema[i].name)


# --- ANY and ALL --------------------------------------------------------------------------------
_EXTREMES = {
    ("any", "lt"): ("max",), ("any", "le"): ("max",), ("any", "gt"): ("min",),
    ("any", "ge"): ("min",), ("any", "ne"): ("min", "max"), ("all", "lt"): ("min",),
    ("all", "le"): ("min",), ("all", "gt"): ("max",), ("all", "ge"): ("max",),
    ("all", "eq"): ("min", "max"),
}  # fmt: skip
"""The members that an operand must be compared with, instead of with all of them."""


def _compared(node: Subquery, members: Members, source: LogicalPlan) -> Marked | None:
    names = _EXTREMES.get((node.kind, node.operator))
    if names is None or len(node.operands) != 1 or node.negated:
        return None
    (operand,) = node.operands
    type_ = members.plan.schema[members.values[0]].type
    if type_.kind not in ORDERED_KINDS or operand.type != type_:
        return None
    extremes = [resolve_aggregate(n, [column(members.values[0], type_)]) for n in names]
    if any(e.type != type_ for e in extremes):
        return None
    joined, tally = _tallied(members, source, extremes)
    tests = [_call(node.operator, operand, bound) for bound in tally.extras]
    every = node.kind == "all"
    test = tests[0] if len(tests) == 1 else _call("and" if every else "or", *tests)
    unknown = _call("or", _call("is_null", operand), tally.nulls)
    whens = (
        (tally.empty, literal(every, BOOLEAN)),
        (_call("not", test) if every else test, literal(not every, BOOLEAN)),
        (unknown, literal(None, BOOLEAN)),
    )
    return joined, Case(whens=whens, otherwise=literal(every, BOOLEAN), type=BOOLEAN)


# --- joins --------------------------------------------------------------------------------------
def _call(function: str, *args: Expr, type_: SqlType = BOOLEAN) -> Call:
    return Call(function=function, args=args, type=type_)


def _joined(source: LogicalPlan, right: LogicalPlan, condition: Expr) -> Join:
    return Join(
        schema=join_schema(source.schema, right.schema, "left"),
        left=source,
        right=right,
        kind="left",
        condition=condition,
    )


def _crossed(source: LogicalPlan, right: LogicalPlan) -> Join:
    schema = join_schema(source.schema, right.schema, "cross")
    return Join(schema=schema, left=source, right=right, kind="cross")
