"""What AND-ed comparisons of one value with constants say together.

`v > 3 AND v >= 5` is `v >= 5`; `v > 3 AND v < 2`, `v = 1 AND v IN (2, 3)` and `v IS NULL AND v = 1`
are never TRUE. Only at the top of WHERE, HAVING and join conditions: there NULL counts as FALSE.

>>> from streamsql.core.types import INTEGER
>>> from streamsql.functions.expressions import column, literal
>>> v = column(0, INTEGER, "v")
>>> def test(word, n): return Call(function=word, args=(v, literal(n, INTEGER)), type=BOOLEAN)
>>> combine([test("gt", 3), test("lt", 2)])[0].value
False
>>> [(p.function, p.args[1].value) for p in combine([test("gt", 3), test("ge", 5)])]
[('ge', 5)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from streamsql.core.schema import Schema
from streamsql.core.types import BOOLEAN, Kind
from streamsql.functions.expressions import (
    TRUE,
    Call,
    ColumnRef,
    Expr,
    Literal,
    conjunction,
    conjuncts,
)
from streamsql.plan.nodes import Filter, Join, LogicalPlan
from streamsql.plan.optimizer.predicates import can_move, condition_of, filtered, parts_of
from streamsql.plan.visit import transform_plan

FALSE = Literal(value=False, type=BOOLEAN)
ORDERED_KINDS = frozenset(
    {
        Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.NUMERIC, Kind.TEXT, Kind.VARCHAR,
        Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ,
    }
)  # fmt: skip
"""Types whose constants Python orders as SQL does (text by code point)."""

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def combine_comparisons(plan: LogicalPlan) -> LogicalPlan:
    """Combine the comparisons of every Filter, and of every join where NULL counts as FALSE."""
    return transform_plan(plan, _node)


def _node(node: LogicalPlan) -> LogicalPlan:
    if isinstance(node, Filter):
        parts = conjuncts(node.predicate)
        found = combine(parts, node.input.schema)
        return node if found is parts else filtered(node.input, found)
    plain = isinstance(node, Join) and not (node.null_aware or node.lateral or node.is_temporal)
    if plain and isinstance(node, Join) and not node.kind.startswith("asof"):
        parts = parts_of(node.condition)
        found = combine(parts, Schema((*node.left.schema.columns, *node.right.schema.columns)))
        if found is not parts:
            outer = node.kind in ("left", "right", "full")
            return replace(node, condition=condition_of(found) or (TRUE if outer else None))
    return node


@dataclass
class _Known:
    """What the parts say of one value. places: their positions; at: where each bound was said."""

    places: list[int] = field(default_factory=list)
    among: set[Any] | None = None
    low: tuple[Any, bool, int] | None = None  # (value, excluded, place)
    high: tuple[Any, bool, int] | None = None
    others: set[Any] = field(default_factory=set)
    is_null: bool = False
    not_null: list[int] = field(default_factory=list)


def combine(parts: list[Expr], schema: Schema | None = None) -> list[Expr]:
    """Parts that are TRUE for the same rows; `parts` itself if there is nothing to gain.

    schema: of the row, whose columns may be known as NOT NULL.
    """
    if len(parts) == 1 and not _may_shrink(parts[0]):
        return parts
    known: dict[Expr, _Known] = {}
    kept: list[Expr | None] = list(parts)
    for place, part in enumerate(parts):
        if schema is not None and _is_settled(part, schema):
            if isinstance(part, Call) and part.function == "is_null":
                return [FALSE]
            kept[place] = None
        elif isinstance(part, Call) and part.args and can_move(part):
            _learn(known, part, place)
    for value, found in known.items():
        if _never(found):
            return [FALSE]
        _reduce(value, found, kept)
    left = [p for part in kept if part is not None for p in conjuncts(part)]
    same = len(left) == len(parts) and all(a is b for a, b in zip(left, parts, strict=True))
    return parts if same else left


def _may_shrink(part: Expr) -> bool:
    return isinstance(part, Call) and part.function in ("in", "is_null", "is_not_null")


def _is_settled(part: Expr, schema: Schema) -> bool:
    """Is it IS [NOT] NULL of a column that is never NULL?"""
    if not (isinstance(part, Call) and part.function in ("is_null", "is_not_null")):
        return False
    of = part.args[0]
    return isinstance(of, ColumnRef) and not schema[of.index].nullable


def _learn(known: dict[Expr, _Known], part: Call, place: int) -> None:
    function, args = part.function, part.args
    if function in _MIRRORED and len(args) == 2:
        value, constant = args
        if isinstance(value, Literal):
            value, constant, function = constant, value, _MIRRORED[function]
        if isinstance(constant, Literal) and _is_ordered(constant, value):
            about = known.setdefault(value, _Known())
            about.places.append(place)
            _compare(about, function, constant.value, place)
    elif function == "in" and _is_list(args):
        about = known.setdefault(args[0], _Known())
        about.places.append(place)
        _narrow(about, {a.value for a in args[1:] if isinstance(a, Literal)} - {None})
    elif function in ("is_null", "is_not_null"):
        about = known.setdefault(args[0], _Known())
        about.places.append(place)
        if function == "is_null":
            about.is_null = True
        else:
            about.not_null.append(place)


def _is_ordered(constant: Literal, value: Expr) -> bool:
    """A constant that Python compares with others of its type as SQL does."""
    kind = constant.type.kind
    if isinstance(value, Literal) or kind not in ORDERED_KINDS or value.type.kind is not kind:
        return False
    # beyond Python's years days and µs stand for dates: two spellings do not compare
    plain = kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ) and isinstance(
        constant.value, int
    )
    endless = isinstance(constant.value, Decimal) and not constant.value.is_finite()
    return constant.value is not None and not plain and not endless


def _is_list(args: Sequence[Expr]) -> bool:
    value, *constants = args
    return bool(constants) and all(
        isinstance(c, Literal) and (c.value is None or _is_ordered(c, value)) for c in constants
    )


def _compare(about: _Known, function: str, value: Any, place: int) -> None:
    if function == "eq":
        _narrow(about, {value})
    elif function == "ne":
        about.others.add(value)
    elif function in ("gt", "ge"):
        bound = (value, function == "gt", place)
        if about.low is None or bound[:2] > about.low[:2]:
            about.low = bound
    else:
        bound = (value, function == "lt", place)
        tighter = about.high is None or value < about.high[0]
        if tighter or (about.high is not None and value == about.high[0] and bound[1]):
            about.high = bound


def _narrow(about: _Known, values: set[Any]) -> None:
    about.among = values if about.among is None else about.among & values


def _within(about: _Known) -> Callable[[Any], bool]:
    """Does a value satisfy the bounds and the <> of the parts?"""

    def test(value: Any) -> bool:
        low, high = about.low, about.high
        above = low is None or value > low[0] or (value == low[0] and not low[1])
        below = high is None or value < high[0] or (value == high[0] and not high[1])
        return above and below and value not in about.others

    return test


def _never(about: _Known) -> bool:
    compared = about.among is not None or about.low or about.high or about.others or about.not_null
    if about.is_null and compared:
        return True
    if about.among is not None:
        return not any(map(_within(about), about.among))
    low, high = about.low, about.high
    if low is None or high is None:
        return False
    return bool(low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1])))


def _reduce(value: Expr, about: _Known, kept: list[Expr | None]) -> None:
    """Keep of the parts about one value what says all of them, where the first of them stands:
    behind it there may be what only the rows that pass can be asked."""
    parts = [p for place in about.places if (p := kept[place]) is not None]
    if about.among is not None:
        saying = _membership(value, parts, sorted(filter(_within(about), about.among)))
    elif about.low or about.high or about.others:
        bounds = {b[2] for b in (about.low, about.high) if b is not None}
        told = [kept[p] for p in about.places if p in bounds or _says_ne(kept[p])]
        saying = list(dict.fromkeys(p for p in told if p is not None))
    else:
        saying = parts[:1]
    if len(saying) < len(parts) or saying[0] is not parts[0]:
        for place in about.places:
            kept[place] = None
        kept[about.places[0]] = conjunction(saying)


def _membership(value: Expr, parts: Sequence[Expr], values: list[Any]) -> list[Expr]:
    """[value = constant] or [value IN (constants)]; parts that say just that stay as they are."""
    first = parts[0]
    assert isinstance(first, Call)
    if len(parts) == 1 and (first.function != "in" or len(first.args) == 1 + len(values)):
        return list(parts)
    literals = [a for p in parts for a in p.children() if isinstance(a, Literal)]
    constants = tuple(Literal(value=v, type=literals[0].type) for v in values)
    function = "in" if len(constants) > 1 else "eq"
    return [Call(function=function, args=(value, *constants), type=BOOLEAN)]


def _says_ne(part: Expr | None) -> bool:
    return isinstance(part, Call) and part.function == "ne"
