"""Time spans in a join condition: what lets both sides forget rows."""

from __future__ import annotations

from dataclasses import dataclass

from streamsql.circuit.operator import Operator
from streamsql.core.logical_time import US_PER_DAY
from streamsql.core.types import Kind
from streamsql.functions.expressions import Call, ColumnRef, Expr, Literal, conjuncts

_TURNED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}


@dataclass(frozen=True)
class Bound:
    """`time` <= `until` + plus_us: a row of the side that has `until` meets nothing any more once
    the watermark of the other side, which speaks of `time`, has passed that.

    time, until: positions in their own sides. on_left: the side of `until`.
    """

    time: int
    until: int
    plus_us: int
    on_left: bool


@dataclass(frozen=True)
class Span:
    """left: when left rows are done with; right: the same for right rows; rest: what else the
    condition says. The two bounds together hold exactly where the taken conditions do."""

    left: Bound
    right: Bound
    rest: tuple[Expr, ...]

    def slack_us(self, side: int) -> int:
        """How far behind its watermark a row of a side (0 = left) may come: until its span is over,
        if that is counted from its own time."""
        own, other = (self.left, self.right) if side == 0 else (self.right, self.left)
        return max(own.plus_us, 0) if own.until == other.time else 0


def span_of(condition: Expr, left: Operator, right: Operator) -> Span | None:
    """The span in a condition over left's columns then right's; None unless it bounds both."""
    width = len(left.schema)
    found: dict[bool, Bound] = {}
    rest: list[Expr] = []
    for part in conjuncts(condition):
        bound = _bound(part, width, left, right)
        if bound is not None and bound.on_left not in found:
            found[bound.on_left] = bound
        else:
            rest.append(part)
    if len(found) < 2:
        return None
    return Span(found[True], found[False], tuple(rest))


def _bound(part: Expr, width: int, left: Operator, right: Operator) -> Bound | None:
    if not isinstance(part, Call) or part.function not in _TURNED or len(part.args) != 2:
        return None
    function = part.function
    early, late = (_moment(e) for e in part.args)
    if early is None or late is None or part.args[0].type.kind != part.args[1].type.kind:
        return None
    if function in ("ge", "gt"):
        early, late, function = late, early, _TURNED[function]
    (time, minus_us), (until, plus_us) = early, late
    if (time < width) == (until < width):
        return None
    on_left = until < width
    side, column = (right, time - width) if on_left else (left, time)
    if column not in side.event_times:
        return None
    plus = plus_us - minus_us - (1 if function == "lt" else 0)
    return Bound(column, until if on_left else until - width, plus, on_left)


def _moment(expr: Expr) -> tuple[int, int] | None:
    """(column, µs added to it) of a point in time."""
    if expr.type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return None
    if isinstance(expr, ColumnRef):
        return expr.index, 0
    if not isinstance(expr, Call) or expr.function not in ("add", "subtract"):
        return None
    column, interval = expr.args
    if not isinstance(column, ColumnRef) or not isinstance(interval, Literal):
        return None
    if interval.type.kind is not Kind.INTERVAL or interval.value is None:
        return None
    months, days, us = interval.value
    # a month has no fixed length, nor has a day where clocks change
    if months or (days and expr.type.kind is Kind.TIMESTAMPTZ):
        return None
    length = days * US_PER_DAY + us
    return column.index, length if expr.function == "add" else -length
