"""Taking a join condition apart: equalities that an index answers, and the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType
from streamsql.functions.expressions import (
    Call,
    Cast,
    ColumnRef,
    Expr,
    columns_used,
    conjunction,
    conjuncts,
)
from streamsql.functions.numeric_types import common_numeric
from streamsql.operators.map import is_plain
from streamsql.plan.nodes import Join, LogicalPlan, Project
from streamsql.plan.visit import remap_columns

ORDERINGS = frozenset({"lt", "le", "gt", "ge"})


@dataclass(frozen=True)
class EquiJoin:
    """A join as an index can run it.

    left, right: the inputs, with computed keys appended where a key is not a plain column.
    left_keys, right_keys: positions that must be equal, pairwise. null_safe: of which pairs two
    NULLs match.
    residual: what else must hold, over left's columns then right's (as extended), or None.
    left_width,
    right_width: how many columns of each side belong to the join's output.
    """

    left: LogicalPlan
    right: LogicalPlan
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    residual: Expr | None
    left_width: int
    right_width: int


def split(node: Join) -> EquiJoin | None:
    """The equi-join of a node, or None if its condition is not a matter of single rows.

    Without an equality the keys are empty, and every pair of rows is tried.
    """
    n = len(node.left.schema)
    left, right, safe, rest = [], [], [], []
    for part in conjuncts(node.condition) if node.condition is not None else []:
        if not is_plain(part):
            return None
        pair = _key_pair(part, n)
        if pair is None:
            rest.append(part)
        else:
            left.append(pair[0])
            right.append(remap_columns(pair[1], {i: i - n for i in columns_used(pair[1])}))
            safe.append(pair[2])
    left_plan, left_keys = _with_keys(node.left, left)
    right_plan, right_keys = _with_keys(node.right, right)
    residual = None
    if rest:
        wider = len(left_plan.schema) - n
        whole = conjunction(rest)
        shifted = {i: i + wider if i >= n else i for i in columns_used(whole)}
        residual = remap_columns(whole, shifted)
    return EquiJoin(
        left_plan, right_plan, left_keys, right_keys, tuple(safe), residual,
        n, len(node.right.schema),
    )  # fmt: skip


def _key_pair(part: Expr, n: int) -> tuple[Expr, Expr, bool] | None:
    """(left key, right key, NULLs match) if this is an equality between the two sides."""
    if not isinstance(part, Call) or part.function not in ("eq", "is_not_distinct_from"):
        return None
    a, b = part.args
    sides = [_side(columns_used(e), n) for e in (a, b)]
    if sorted(s or "" for s in sides) != ["left", "right"]:
        return None
    if sides[0] == "right":
        a, b = b, a
    common = _common(a.type, b.type)
    if common is None:
        return None
    return _as(a, common), _as(b, common), part.function == "is_not_distinct_from"


def _side(used: set[int], n: int) -> str | None:
    if not used:
        return None
    if all(i < n for i in used):
        return "left"
    return "right" if all(i >= n for i in used) else None


def _common(a: SqlType, b: SqlType) -> SqlType | None:
    """A type in which equal values look equal, or None if the index can not compare them."""
    if a.arrow == b.arrow:
        return a
    if a.kind is Kind.NUMERIC and b.kind is Kind.NUMERIC:
        return common_numeric([a, b])
    return None


def _as(expr: Expr, type_: SqlType) -> Expr:
    return expr if expr.type.arrow == type_.arrow else Cast(arg=expr, type=type_)


def _with_keys(side: LogicalPlan, keys: list[Expr]) -> tuple[LogicalPlan, tuple[int, ...]]:
    """The input with the keys that are not plain columns appended, and where each key is."""
    own = [ColumnRef(index=i, type=c.type, name=c.name) for i, c in enumerate(side.schema)]
    extra: list[Expr] = []
    places = []
    for key in keys:
        if isinstance(key, ColumnRef):
            places.append(key.index)
        else:
            if key not in extra:
                extra.append(key)
            places.append(len(own) + extra.index(key))
    if not extra:
        return side, tuple(places)
    columns = [replace(side.schema[0], name="", type=e.type, nullable=True) if len(side.schema)
               else _column(e.type) for e in extra]  # fmt: skip
    schema = type(side.schema)((*side.schema.columns, *columns))
    return Project(schema=schema, input=side, exprs=(*own, *extra)), tuple(places)


def _column(type_: SqlType):  # type: ignore[no-untyped-def]
    from streamsql.core.schema import Column

    return Column("", type_)


@dataclass(frozen=True)
class NearestJoin:
    """A join to the nearest row as an ordered index can run it: `left_time function right_time`.

    left, right: the inputs, with computed keys and times appended. left_keys, right_keys: positions
    that must be equal, pairwise. function: lt, le, gt, ge. left_width, right_width: as in EquiJoin.
    """

    left: LogicalPlan
    right: LogicalPlan
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    function: str
    left_width: int
    right_width: int


def split_nearest(node: Join) -> NearestJoin | None:
    """The equalities and the one inequality of an ASOF join; None if they can not be indexed."""
    parts = split(node)
    rest = None if parts is None else parts.residual
    if parts is None or not isinstance(rest, Call) or rest.function not in ORDERINGS:
        return None
    wide = len(parts.left.schema)
    early, late = rest.args
    common = _common(early.type, late.type)
    if common is None or _side(columns_used(early), wide) != "left":
        return None
    late = remap_columns(late, {i: i - wide for i in columns_used(late)})
    left, (left_time,) = _with_keys(parts.left, [_as(early, common)])
    right, (right_time,) = _with_keys(parts.right, [_as(late, common)])
    return NearestJoin(
        left, right, parts.left_keys, parts.right_keys, left_time, right_time, rest.function,
        parts.left_width, parts.right_width,
    )  # fmt: skip


def extend(
    parts: EquiJoin, moment: Call, rest: list[Expr]
) -> tuple[EquiJoin, int, int, tuple[Expr, ...]]:
    """The join with the two sides of a comparison as columns: (join, left's column, right's column,
    `rest` over the extended inputs)."""
    wide = len(parts.left.schema)
    early, late = moment.args
    late = remap_columns(late, {i: i - wide for i in columns_used(late)})
    left, (left_time,) = _with_keys(parts.left, [early])
    right, (right_time,) = _with_keys(parts.right, [late])
    wider = len(left.schema) - wide
    moved = tuple(
        remap_columns(e, {i: i + wider if i >= wide else i for i in columns_used(e)}) for e in rest
    )
    return replace(parts, left=left, right=right, residual=None), left_time, right_time, moved


def as_column(parts: EquiJoin, left: Expr, right: Expr) -> tuple[EquiJoin, int, int]:
    """The join with an expression of each side, over its own row, as a column: (join, left's
    column, right's column)."""
    wide = len(parts.left.schema)
    left_plan, (at_left,) = _with_keys(parts.left, [left])
    right_plan, (at_right,) = _with_keys(parts.right, [right])
    wider = len(left_plan.schema) - wide
    residual = parts.residual
    if residual is not None and wider:
        used = columns_used(residual)
        residual = remap_columns(residual, {i: i + wider if i >= wide else i for i in used})
    extended = replace(parts, left=left_plan, right=right_plan, residual=residual)
    return extended, at_left, at_right


def equalities_text(left: Schema, right: Schema, parts: EquiJoin) -> str:
    """The equalities of a join, for EXPLAIN."""
    names = [
        f"{left[a].name or '?'} = {right[b].name or '?'}"
        for a, b in zip(parts.left_keys, parts.right_keys, strict=True)
    ]
    return " and ".join(names) or "every pair of rows is tried"
