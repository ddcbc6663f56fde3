"""Conditions on now(): at which moments of the clock their truth may change, for given rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import END_OF_TIME, US_PER_DAY
from streamsql.core.schema import Schema
from streamsql.core.types import Kind
from streamsql.functions.expressions import Call, Cast, Expr, Literal, OuterRef, Subquery, walk
from streamsql.functions.textio.time_digits import DIGITS_MAX
from streamsql.functions.zone_clock import zone
from streamsql.operators.clock_keys import (
    Key,
    KeySearch,
    comparison_keys,
    reads_clock,
    step_key,
)
from streamsql.operators.columns import BoolArray
from streamsql.operators.event_time import event_time_us
from streamsql.operators.loops import windows as loops

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
DAYS_PER_MONTH = 30


@dataclass(frozen=True)
class Shift:
    """One step from now() outwards: plus an interval (sign -1 = minus)."""

    months: int
    days: int
    us: int
    zoned: bool  # the value is an instant: months and days follow the zone's calendar


@dataclass(frozen=True)
class Cut:
    """One step from now() outwards: down to a whole unit, of what is `early_us` later.

    A day of the wall clock (early_us = 0), or decimals of a second (half a unit: rounding).
    """

    unit_us: int
    early_us: int

    def back(self, values: Int64Array) -> list[Int64Array]:
        """Where the result reaches a value, and where it leaves it."""
        down = np.floor_divide(values, self.unit_us) * self.unit_us
        up = np.where(down == values, down, down + self.unit_us)
        return [up - self.early_us, down + self.unit_us - self.early_us]


DAY = Cut(US_PER_DAY, 0)


@dataclass(frozen=True)
class Threshold:
    """A comparison of `row` with a function of now(): it changes when now() passes a threshold.

    row: the side that the row alone decides, a DATE or TIMESTAMP[TZ]. steps: what is done to
    now(), in order. instant: whether the compared value is an instant (TIMESTAMPTZ), else
    wall-clock time.
    """

    row: Expr
    steps: tuple[Shift | Cut, ...]
    instant: bool

    def moments(self, column: pa.Array, timezone: str) -> tuple[list[Int64Array], BoolArray | None]:
        """(candidate moments, µs, one array each; which rows have any) for the row side's
        values."""
        values, valid = event_time_us(column)
        return [m + k for m in self._back(values, timezone) for k in (0, 1)], valid

    def _back(self, values: Int64Array, timezone: str) -> list[Int64Array]:
        """The moments at which its side may reach or leave the value."""
        local = zone(timezone)
        wall = not self.instant
        found = [values]
        for step in reversed(self.steps):
            if isinstance(step, Cut):
                if step == DAY and not wall:
                    found, wall = [local.to_local(v) for v in found], True
                found = [m for v in found for m in step.back(v)]
                continue
            if step.zoned and wall:
                found, wall = [m for v in found for m in local.turns(v)], False
            if (step.months or step.days) and not wall:
                walls = [w for v in found for w in _minus(local.to_local(v), step)]
                found = [local.to_utc(w) for w in walls]
            else:
                found = [w for v in found for w in _minus(v, step)]
            found = [v - step.us for v in found]
        return [m for v in found for m in local.turns(v)] if wall else found


def _minus(wall: Int64Array, shift: Shift) -> list[Int64Array]:
    """Wall-clock µs less the months and days of a shift."""
    if not shift.months:
        return [wall - shift.days * US_PER_DAY]
    day = np.floor_divide(wall, US_PER_DAY)
    month, first, after, end = (np.empty(wall.size, np.int64) for _ in range(4))
    loops.month_of(day, month)
    loops.day_of_month_start(month, first)
    loops.day_of_month_start(month - shift.months, after)
    loops.day_of_month_start(month - shift.months + 1, end)
    moved = np.minimum(after + (day - first), end - 1)
    wall = wall + (moved - day - shift.days) * US_PER_DAY
    # a day that a month does not have: the condition may change up to three days later
    return [wall + k * US_PER_DAY for k in range(4)]


Condition = Threshold | Key
"""What says when an expression turns: a threshold that was solved for, or a key to search by."""


def conditions(expr: Expr) -> list[Condition] | None:
    """All that turns in an expression of one row, or None if now() is used in a way whose turns
    are not known, or if the row alone does not decide (subqueries, outer rows)."""
    found: list[Condition] = []
    return list(dict.fromkeys(found)) if _collect(expr, found) else None


def _collect(expr: Expr, found: list[Condition]) -> bool:
    if not reads_clock(expr):
        return not any(isinstance(e, Subquery | OuterRef) for e in walk(expr))
    if any(isinstance(e, Subquery | OuterRef) for e in walk(expr)):
        return False
    if isinstance(expr, Call):
        if expr.function in COMPARISONS:
            one = _comparison(*expr.args)
            if one is not None:
                found.append(one)
                return True
        keys = comparison_keys(expr)
        step = step_key(expr) if keys is None else None
        if keys is not None or step is not None:
            found.extend(keys if keys is not None else [step] if step is not None else [])
            return True
    return bool(expr.children()) and all(_collect(c, found) for c in expr.children())


class Moments:
    """Tells for rows when the conditions on now() over them turn next."""

    def __init__(self, found: Sequence[Condition], schema: Schema, timezone: str) -> None:
        from streamsql.functions.evaluator import Evaluator

        self._timezone = timezone
        self._solved = [c for c in found if isinstance(c, Threshold)]
        self._sides = Evaluator([c.row for c in self._solved], schema) if self._solved else None
        keys = [c for c in found if isinstance(c, Key)]
        self._search = KeySearch(keys, schema, timezone) if keys else None

    def next(self, batch: pa.RecordBatch, now_us: int) -> Int64Array:
        """int64[n]: the first moment after `now_us` (µs); END_OF_TIME = never."""
        candidates = []
        if self._sides is not None:
            sides = self._sides.run_skipping(
                batch, now_us, on_error="null", timezone=self._timezone
            )
            for condition, column in zip(self._solved, sides.columns, strict=True):
                moments, valid = condition.moments(column, self._timezone)
                if valid is not None:
                    moments = [np.where(valid, m, -1) for m in moments]
                candidates += moments
        if self._search is not None:
            candidates += self._search.moments(batch, now_us)
        return next_moments(candidates, now_us, batch.num_rows)


def _comparison(a: Expr, b: Expr) -> Threshold | None:
    if reads_clock(b):
        a, b = b, a
    if reads_clock(b):
        return None
    if a.type.kind is Kind.INTERVAL:
        return _age(a, b)
    if a.type.kind not in (Kind.TIMESTAMPTZ, Kind.TIMESTAMP, Kind.DATE):
        return None
    chain = _chain(a)
    return None if chain is None else Threshold(b, tuple(chain), a.type.kind is Kind.TIMESTAMPTZ)


def _age(a: Expr, b: Expr) -> Threshold | None:
    """now() - x against a constant interval: x + interval is the moment."""
    if not isinstance(a, Call) or a.function != "subtract" or not isinstance(b, Literal):
        return None
    if b.value is None:
        return None
    left, right = a.args
    months, days, us = b.value
    span = (months * DAYS_PER_MONTH + days) * US_PER_DAY + us
    if reads_clock(left) and not reads_clock(right):
        clock, row, sign = left, right, -1
    elif reads_clock(right) and not reads_clock(left):
        clock, row, sign = right, left, 1
    else:
        return None
    chain = _chain(clock)
    if chain is None or row.type.kind not in (Kind.TIMESTAMPTZ, Kind.TIMESTAMP, Kind.DATE):
        return None
    instant = clock.type.kind is Kind.TIMESTAMPTZ
    return Threshold(row, (*chain, Shift(0, 0, sign * span, instant)), instant)


def _chain(expr: Expr) -> list[Shift | Cut] | None:
    """What is done to now(), or None for anything else."""
    if isinstance(expr, Call) and expr.function == "now":
        return []
    below = _below(expr)
    if below is None:
        return None
    if isinstance(expr, Cast):
        if expr.type.kind not in (Kind.TIMESTAMPTZ, Kind.TIMESTAMP, Kind.DATE):
            return None
        return [*below, DAY] if expr.type.kind is Kind.DATE else below
    assert isinstance(expr, Call)
    if expr.function == "time_digits":
        return _rounded(expr, below)
    if expr.function not in ("add", "subtract"):
        return None
    clock, other = expr.args
    if expr.function == "add" and reads_clock(other):
        clock, other = other, clock
    if not isinstance(other, Literal) or other.value is None:
        return None
    sign = -1 if expr.function == "subtract" else 1
    zoned = clock.type.kind is Kind.TIMESTAMPTZ
    if other.type.kind is Kind.INTERVAL:
        months, days, us = other.value
        return [*below, Shift(sign * months, sign * days, sign * us, zoned)]
    if other.type.is_integer and clock.type.kind is Kind.DATE:
        return [*below, Shift(0, sign * int(other.value), 0, False)]
    return None


def _below(expr: Expr) -> list[Shift | Cut] | None:
    """The chain of the operand that reads the clock, where there is one."""
    parts = [c for c in expr.children() if reads_clock(c)]
    return _chain(parts[0]) if len(parts) == 1 and isinstance(expr, Call | Cast) else None


def _rounded(expr: Call, below: list[Shift | Cut]) -> list[Shift | Cut] | None:
    digits = expr.args[1]
    moment = expr.type.kind in (Kind.TIMESTAMPTZ, Kind.TIMESTAMP)
    if not moment or not isinstance(digits, Literal) or digits.value is None:
        return None
    unit = 10 ** max(0, DIGITS_MAX - int(digits.value))
    return below if unit == 1 else [*below, Cut(unit, unit // 2)]


def next_moments(candidates: Sequence[Int64Array], now_us: int, size: int) -> Int64Array:
    """The earliest candidate after `now_us` for each row; END_OF_TIME = none."""
    best = np.full(size, END_OF_TIME)
    for moments in candidates:
        later = moments > now_us
        best[later] = np.minimum(best[later], moments[later])
    return best
