"""Conditions on now() that can not be solved for it: the moment of their next turn is searched.

A *key* is an expression of one row and now() that only rises or only falls as the clock goes on
(between two changes of a zone's clock, and for some within a day). So the next moment at which it
has another value is found by halving, for all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import END_OF_TIME, US_PER_DAY
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BOOLEAN, DATE, TEXT, TIMESTAMPTZ, Kind
from streamsql.functions.expressions import Call, Case, Cast, Expr, Literal, walk
from streamsql.functions.resolve import resolve_call
from streamsql.functions.zone_clock import zone
from streamsql.operators.columns import BoolArray, to_arrow

RISES, FALLS, STANDS, EITHER = 1, -1, 0, 2
"""How an expression follows the clock. EITHER: one of them, for each row always the same."""
ORDERED = ("lt", "le", "gt", "ge")
EQUALITIES = ("eq", "ne", "is_distinct_from", "is_not_distinct_from")
MOMENTS = frozenset({Kind.TIMESTAMPTZ, Kind.TIMESTAMP, Kind.DATE})
HORIZON_US = 300 * 366 * US_PER_DAY
_UNITS = {
    "minute": "minute", "hour": "hour", "day": "day", "dow": "day", "isodow": "day", "doy": "day",
    "week": "day", "isoyear": "day", "month": "month", "quarter": "month", "year": "year",
}  # fmt: skip
"""Field of extract() -> the unit of time in which it does not change."""
_FORMATS = (("US", ""), ("MS", ""), ("FF", ""), ("SS", "second"), ("MI", "minute"), ("HH", "hour"))


@dataclass(frozen=True)
class Key:
    """An expression that is monotone in now(), and what bounds the time in which it is.

    within: expressions that must not change meanwhile (the day, for a time of day). zones: names
    of zones on whose wall clock it depends, beside the session's.
    """

    expr: Expr
    within: tuple[Expr, ...] = ()
    zones: tuple[str, ...] = ()


@dataclass
class _Bounds:
    """What is met on the way through an expression."""

    within: list[Expr] = field(default_factory=list)
    zones: list[str] = field(default_factory=list)

    def key(self, expr: Expr) -> Key:
        return Key(expr, tuple(dict.fromkeys(self.within)), tuple(dict.fromkeys(self.zones)))


def reads_clock(expr: Expr) -> bool:
    """Whether now() stands in the expression (not inside of subqueries)."""
    return any(isinstance(e, Call) and e.function == "now" for e in walk(expr))


def comparison_keys(expr: Call) -> list[Key] | None:
    """The keys of a comparison that holds now(); None if none are known."""
    if expr.function == "in":
        first, *others = expr.args
        parts = [_ordered_keys(first, o) for o in others]
        known = [part for part in parts if part is not None]
        return [k for part in known for k in part] if len(known) == len(parts) else None
    if expr.function in (*ORDERED, *EQUALITIES):
        return _ordered_keys(*expr.args)
    return None


def _ordered_keys(a: Expr, b: Expr) -> list[Key] | None:
    """Where a < b and a <= b turn: all comparisons of the two follow from these."""
    bounds = _Bounds()
    if _together(_direction(a, bounds), _opposite(_direction(b, bounds))) is None:
        return None
    if not reads_clock(a) and not reads_clock(b):
        return []
    made = [Call(function=f, args=(a, b), type=BOOLEAN) for f in ("lt", "le")]
    return [bounds.key(e) for e in made]


def step_key(expr: Expr) -> Key | None:
    """The key of a call that changes by whole units of time: extract(hour from now())."""
    if not isinstance(expr, Call) or expr.function not in ("extract", "date_part", "to_char"):
        return None
    of, name = expr.args if expr.function == "to_char" else expr.args[::-1]
    if not isinstance(name, Literal) or of.type.kind not in MOMENTS:
        return None
    unit = _format_unit(name) if expr.function == "to_char" else _UNITS.get(str(name.value).lower())
    bounds = _Bounds()
    if not unit or _direction(of, bounds) in (None, STANDS):
        return None
    cut = resolve_call("date_trunc", [Literal(value=unit, type=TEXT), of], None)
    return bounds.key(cut)


def _format_unit(name: Literal) -> str:
    text = str(name.value).upper()
    return next((unit for letters, unit in _FORMATS if letters in text), "day")


def _opposite(direction: int | None) -> int | None:
    return -direction if direction in (RISES, FALLS) else direction


def _together(a: int | None, b: int | None) -> int | None:
    """How a sum follows the clock, by its parts."""
    if a is None or b is None:
        return None
    if STANDS in (a, b):
        return a + b
    return a if a == b and a != EITHER else None


def _direction(expr: Expr, bounds: _Bounds) -> int | None:
    """How the expression follows the clock; None = not known."""
    if not reads_clock(expr):
        return STANDS
    if isinstance(expr, Cast):
        return _of_cast(expr, bounds)
    if isinstance(expr, Case):
        if any(reads_clock(when) for when, _ in expr.whens):
            return None
        results = [r for _, r in expr.whens] + ([expr.otherwise] if expr.otherwise else [])
        return _alike(results, bounds)
    if not isinstance(expr, Call):
        return None
    handler = _DIRECTIONS.get(expr.function)
    return None if handler is None else handler(expr, bounds)


def _of_cast(expr: Cast, bounds: _Bounds) -> int | None:
    below = _direction(expr.arg, bounds)
    given, wanted = expr.arg.type, expr.type
    if given.kind in MOMENTS and wanted.kind is Kind.TIME:
        bounds.within.append(Cast(arg=expr.arg, type=DATE))
        return below
    alike = given.kind in MOMENTS and wanted.kind in MOMENTS
    numbers = given.is_numeric and wanted.is_numeric
    return below if alike or numbers or given.kind is wanted.kind is Kind.INTERVAL else None


def _alike(parts: Sequence[Expr], bounds: _Bounds) -> int | None:
    """The direction that all parts share, those aside that stand still."""
    found = {_direction(p, bounds) for p in parts} - {STANDS}
    return found.pop() if len(found) == 1 else None


def _of_sum(expr: Call, bounds: _Bounds) -> int | None:
    a, b = expr.args
    for moment, span in ((a, b), (b, a)):
        if moment.type.kind in MOMENTS and span.type.kind is Kind.INTERVAL:
            if reads_clock(moment) and not _monthless(span):
                # a month later than the 29th, 30th and 31st may be the same day
                bounds.within.append(Cast(arg=moment, type=DATE))
            elif reads_clock(span):
                return None
    second = _direction(b, bounds)
    return _together(
        _direction(a, bounds), _opposite(second) if expr.function == "subtract" else second
    )


def _monthless(span: Expr) -> bool:
    """Whether an interval surely holds no months."""
    if isinstance(span, Literal):
        return span.value is None or not span.value[0]
    if isinstance(span, Call) and span.function in ("multiply", "divide", "negate"):
        return all(_monthless(a) for a in span.args if a.type.kind is Kind.INTERVAL)
    if isinstance(span, Call) and span.function in ("add", "subtract"):
        return all(_monthless(a) or a.type.kind in MOMENTS for a in span.args)
    return False


def _of_product(expr: Call, bounds: _Bounds) -> int | None:
    a, b = expr.args
    if reads_clock(b):
        if reads_clock(a) or expr.function == "divide":
            return None
        a, b = b, a
    below = _direction(a, bounds)
    if not isinstance(b, Literal) or b.value is None:
        return None if below is None else EITHER
    return _opposite(below) if b.value < 0 else below


def _of_epoch(expr: Call, bounds: _Bounds) -> int | None:
    name, of = expr.args
    seconds = isinstance(name, Literal) and str(name.value).lower() == "epoch"
    if of.type.kind is Kind.INTERVAL and not _monthless(of):
        return None
    return _direction(of, bounds) if seconds else None


def _of_trunc(expr: Call, bounds: _Bounds) -> int | None:
    unit, of, *more = expr.args
    if of.type.kind not in MOMENTS or any(reads_clock(a) for a in (unit, *more)):
        return None
    return _direction(of, bounds) if _zone_named(more, bounds) else None


def _of_zone(expr: Call, bounds: _Bounds) -> int | None:
    name, of = expr.args
    return _direction(of, bounds) if _zone_named([name], bounds) else None


def _zone_named(names: Sequence[Expr], bounds: _Bounds) -> bool:
    for name in names:
        if not isinstance(name, Literal) or name.type.kind is not Kind.TEXT or name.value is None:
            return False
        bounds.zones.append(str(name.value))
    return True


def _of_bin(expr: Call, bounds: _Bounds) -> int | None:
    width, of, origin = expr.args
    return None if reads_clock(width) or reads_clock(origin) else _direction(of, bounds)


def _of_digits(expr: Call, bounds: _Bounds) -> int | None:
    return None if reads_clock(expr.args[1]) else _direction(expr.args[0], bounds)


def _of_choice(expr: Call, bounds: _Bounds) -> int | None:
    return _alike(expr.args, bounds)


_DIRECTIONS = {
    "now": lambda expr, bounds: RISES,
    "add": _of_sum,
    "subtract": _of_sum,
    "negate": lambda expr, bounds: _opposite(_direction(expr.args[0], bounds)),
    "multiply": _of_product,
    "divide": _of_product,
    "extract": _of_epoch,
    "date_part": _of_epoch,
    "date_trunc": _of_trunc,
    "date_bin": _of_bin,
    "time_digits": _of_digits,
    "timezone": _of_zone,
    "greatest": _of_choice,
    "least": _of_choice,
    "coalesce": _of_choice,
}


class KeySearch:
    """Finds when the keys of given rows change next."""

    def __init__(self, keys: Sequence[Key], schema: Schema, timezone: str) -> None:
        from streamsql.functions.evaluator import Evaluator

        self._timezone = timezone
        stamped = Schema((*schema.columns, Column("now", TIMESTAMPTZ)))
        self._schema = stamped.arrow
        self._keys = []
        for key in keys:
            exprs = [*key.within, key.expr]
            ready = [Evaluator([with_stamp(e, len(schema))], stamped) for e in exprs]
            self._keys.append((ready, [zone(z) for z in (timezone, *key.zones)]))

    def moments(self, batch: pa.RecordBatch, now_us: int) -> list[Int64Array]:
        """For each key int64[n]: the first moment after `now_us` (µs) at which the row's key is
        another, or may no longer be monotone; END_OF_TIME = none."""
        n = batch.num_rows
        found = []
        for evaluators, zones in self._keys:
            ends = [now_us + HORIZON_US, *(e for z in zones for e in z.next_edge(now_us))]
            end = np.full(n, min(ends))
            for evaluator in evaluators:
                end = self._first_change(evaluator, batch, now_us, end)
            found.append(np.where(end >= now_us + HORIZON_US, END_OF_TIME, end))
        return found

    def _first_change(
        self, evaluator: object, batch: pa.RecordBatch, now_us: int, end: Int64Array
    ) -> Int64Array:
        """The first moment in (now, end] with another value; `end` where there is none."""
        n = batch.num_rows
        before = self._values(evaluator, batch, np.full(n, now_us))
        low, high = np.full(n, now_us), end.copy()
        open_ = high - low > 1
        while bool(open_.any()):
            middle = low + (high - low) // 2
            same = _same(before, self._values(evaluator, batch, middle))
            low = np.where(open_ & same, middle, low)
            high = np.where(open_ & ~same, middle, high)
            open_ = high - low > 1
        return high

    def _values(self, evaluator: object, batch: pa.RecordBatch, moments: Int64Array) -> pa.Array:
        columns = [*batch.columns, to_arrow(moments, TIMESTAMPTZ.arrow)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        found = evaluator.run_skipping(  # type: ignore[attr-defined]
            rows, 0, on_error="null", timezone=self._timezone
        )
        return found.columns[0]


def _same(a: pa.Array, b: pa.Array) -> BoolArray:
    equal = pc.fill_null(pc.equal(a, b), False)
    both = pc.and_(pc.is_null(a), pc.is_null(b))
    return np.asarray(pc.or_(equal, both))


def with_stamp(expr: Expr, column: int) -> Expr:
    """The expression with now() read from a column of the row."""
    from streamsql.functions.expressions import ColumnRef, transform

    def one(e: Expr) -> Expr:
        if isinstance(e, Call) and e.function == "now":
            return ColumnRef(index=column, type=e.type)
        return e

    return transform(expr, one)
