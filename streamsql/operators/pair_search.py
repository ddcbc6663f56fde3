"""Which pairs of rows a join condition has to be tested on: by key, by range, or all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import US_PER_DAY
from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType
from streamsql.functions.expressions import Call, Expr, Literal, columns_used, conjuncts
from streamsql.functions.resolve import needs_guard
from streamsql.kernels.order_keys import can_order
from streamsql.operators.join_condition import ORDERINGS, EquiJoin, as_column
from streamsql.operators.span_search import is_spanned
from streamsql.plan.visit import remap_columns

PAIRS_MAX = 1 << 16
"""Pairs that are looked at at a time."""

TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True)
class Bound:
    """The searched column is `function` (lt, le, gt, ge) the searching side's column + plus."""

    function: str
    column: int
    plus: int


@dataclass(frozen=True)
class Range:
    """How rows of one side are found through the order of a column of theirs.

    column: of the side that is searched. bounds: what it is compared with; a lower one comes first.
    counted: values are compared as whole numbers (µs), else as they are. exact: nothing else must
    hold. until: the column where a row's span ends that begins in `column`; then the lower bound is
    that of the end, and the upper one that of the start (`span_search`).
    """

    column: int
    bounds: tuple[Bound, ...]
    counted: bool
    exact: bool
    until: int | None = None


@dataclass(frozen=True)
class Search:
    """A join's condition as a search. parts: the equi-join, with what ranges compare as columns;
    its residual is the whole rest. ranges: for searching left rows, and right rows; None = only by
    the keys."""

    parts: EquiJoin
    ranges: tuple[Range | None, Range | None]


@dataclass(frozen=True)
class _Side:
    """A side of a comparison: an expression over one input's row, and a constant added to it."""

    expr: Expr
    plus: int


def search_of(parts: EquiJoin) -> Search:
    """Find the ranges in what an equi-join's condition says beside its equalities."""
    if parts.residual is None:
        return Search(parts, (None, None))
    conditions = conjuncts(parts.residual)
    wide = len(parts.left.schema)
    of_left: list[tuple[int, Bound]] = []
    of_right: list[tuple[int, Bound]] = []
    for part in conditions:
        compared = _comparison(part, wide)
        if compared is not None:
            function, a, b = compared
            parts, left, right = as_column(parts, a.expr, b.expr)
            of_left.append((left, Bound(function, right, b.plus - a.plus)))
            of_right.append((right, Bound(TURNED[function], left, a.plus - b.plus)))
    ranges = [
        _best(found, side.schema, len(conditions))
        for found, side in ((of_left, parts.left), (of_right, parts.right))
    ]
    return Search(parts, (ranges[0], ranges[1]))


def _comparison(part: Expr, wide: int) -> tuple[str, _Side, _Side] | None:
    """(comparison, left side, right side over right's own columns)."""
    if not isinstance(part, Call) or part.function not in ORDERINGS:
        return None
    a, b = part.args
    used_a, used_b = columns_used(a), columns_used(b)
    if not used_a or not used_b or a.type.arrow != b.type.arrow or not can_order(a.type.arrow):
        return None
    if a.type.kind in (Kind.JSON, Kind.JSONB):  # texts to Arrow, but not in their order
        return None
    function = part.function
    if min(used_a) >= wide and max(used_b) < wide:
        a, b, function = b, a, TURNED[function]
    elif max(used_a) >= wide or min(used_b) < wide:
        return None
    left, right = _moved(a), _moved(b)
    if needs_guard(left.expr) or needs_guard(right.expr):
        return None  # what may fail is computed only where the keys agree
    own = remap_columns(right.expr, {i: i - wide for i in columns_used(right.expr)})
    return function, left, _Side(own, right.plus)


def _moved(expr: Expr) -> _Side:
    """The constant taken out of `x + c` and `x - c`, where that keeps the order and is exact."""
    if not isinstance(expr, Call) or expr.function not in ("add", "subtract"):
        return _Side(expr, 0)
    base, constant = expr.args
    if expr.function == "add" and isinstance(base, Literal):
        base, constant = constant, base
    if not isinstance(constant, Literal) or constant.value is None or not is_counted(expr.type):
        return _Side(expr, 0)
    if expr.type.is_integer and base.type.is_integer and constant.type.is_integer:
        plus = int(constant.value)
    elif base.type == expr.type and constant.type.kind is Kind.INTERVAL:
        months, days, us = constant.value
        # a month has no fixed length, nor has a day where clocks change
        if months or (days and expr.type.kind is Kind.TIMESTAMPTZ):
            return _Side(expr, 0)
        plus = days * US_PER_DAY + us
    else:
        return _Side(expr, 0)
    return _Side(base, plus if expr.function == "add" else -plus)


def is_counted(type_: SqlType) -> bool:
    """Whether values are whole numbers in memory that constants may be added to."""
    return type_.is_integer or type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)


def _best(found: Sequence[tuple[int, Bound]], schema: Schema, conditions: int) -> Range | None:
    """The column of the searched side that is bounded best: on both sides before on one."""
    by_column: dict[int, list[Bound]] = {}
    for column, bound in found:
        by_column.setdefault(column, []).append(bound)
    best: Range | None = None
    for column, bounds in by_column.items():
        lower = [b for b in bounds if b.function in ("gt", "ge")][:1]
        upper = [b for b in bounds if b.function in ("lt", "le")][:1]
        chosen = (*lower, *upper)
        exact = len(chosen) == conditions and not any(b.plus for b in chosen)
        if best is None or len(chosen) > len(best.bounds):
            best = Range(column, chosen, is_counted(schema[column].type), exact)
    if best is None or len(best.bounds) == 2:
        return best
    return _span(found, schema) or best


def _span(found: Sequence[tuple[int, Bound]], schema: Schema) -> Range | None:
    """Two columns as a span: one is bounded from above only, its start, one from below, its end."""
    starts = [(c, b) for c, b in found if b.function in ("lt", "le")]
    ends = [(c, b) for c, b in found if b.function in ("gt", "ge")]
    for start, above in starts:
        for end, below in ends:
            if schema[start].type == schema[end].type and is_spanned(schema[start].type):
                return Range(start, (below, above), True, False, end)
    return None


def plus(values: Int64Array, constant: int) -> Int64Array:
    """Values with a constant added; what is infinite, or would be too large, is an end."""
    if not constant:
        return values
    top, bottom = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    moved = values + np.int64(constant)
    over = moved < values if constant > 0 else moved > values
    moved[over] = top if constant > 0 else bottom
    ends = (values == top) | (values <= bottom + 1)
    moved[ends] = values[ends]
    return moved


def blocks(start: Int64Array, end: Int64Array) -> Iterator[tuple[Int64Array, Int64Array]]:
    """(position, place) of all start <= place < end of each position, PAIRS_MAX at a time."""
    length = np.maximum(end - start, 0)
    ends = np.cumsum(length)
    total = int(ends[-1]) if ends.size else 0
    for at in range(0, total, PAIRS_MAX):
        pair = np.arange(at, min(at + PAIRS_MAX, total))
        position = np.searchsorted(ends, pair, side="right")
        yield position, start[position] + pair - (ends - length)[position]
