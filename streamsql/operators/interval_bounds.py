"""Time spans in a join condition: what lets both sides forget rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamsql.circuit.operator import Operator
from streamsql.core.logical_time import US_PER_DAY
from streamsql.core.types import Kind
from streamsql.functions.expressions import Call, ColumnRef, Expr, Literal, conjuncts
from streamsql.operators.arrange import of_windows

TURNED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}


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


def timed(below: Operator) -> dict[int, int]:
    """The columns of an input that its watermark speaks of, and how far behind it rows come, µs:
    event times, and what tells when a window closes."""
    found = {i: below.delays.get(i, 0) for i in below.event_times}
    if below.ends:  # some of which are NULL: rows that are late by one are not late by another
        return found
    found |= {i: max(found.get(i, 0), us - 1, 0) for i, us in below.closes.items()}
    starts = {i: found[j] + us for (i, j), us in below.gaps.items() if j in found and us > 0}
    return starts | found


def beside(left: Operator, right: Operator) -> bool:
    """Whether rows of windows meet timed rows: a span of time between them says when both are done
    with, and a closed window's row gets partners as long as that is open."""
    if left.ends or right.ends:
        return False
    return of_windows(left) != of_windows(right)


def patience_of(span: Span, left: Operator, right: Operator, *, strict: bool) -> tuple[int, int]:
    """By side, how far behind its watermark a row may come (µs): as long as its span is open, or
    until the input below has given it. strict: the first does not count."""
    found, times = [], times_of(left, right)
    for side, below in enumerate((left, right)):
        time = (span.right if side == 0 else span.left).time
        slack = 0 if strict else span.slack_us(side)
        found.append(max(slack, times[side].get(time, 0)) + below.lateness_us)
    return found[0], found[1]


@dataclass(frozen=True)
class PairTimes:
    """What a span says of the event times of pairs: `Operator.delays` and `gaps`, over left's
    columns then right's. closed: whether rows of windows change no more when these close; where
    they meet timed rows that is a matter of the span, as it is of all other pairs. held: times that
    pairs come behind the watermark by no fixed length of time, since a span ends at another
    column."""

    delays: Mapping[int, int]
    gaps: Mapping[tuple[int, int], int]
    closed: bool
    held: frozenset[int]

    def tell(self, made: Operator, places: Mapping[int, Sequence[int]]) -> None:
        """Note it of an operator that gives these columns at `places`, and to which the facts of
        both sides were moved."""
        if not self.closed:
            made.event_times |= {j for i in self.delays for j in places.get(i, ())}
            made.closes = {}
        made.delays = {j: us for i, us in self.delays.items() if us for j in places.get(i, ())}
        made.gaps = {
            (p, q): us
            for (i, j), us in self.gaps.items()
            for p in places.get(i, ())
            for q in places.get(j, ())
        }


def pair_times(span: Span, left: Operator, right: Operator) -> PairTimes:
    """A pair comes with either of its rows, and the times of the other one are behind by what the
    span and the conditions below allow; where they allow anything, nothing is said."""
    starts, below = (0, len(left.schema)), (left, right)
    bounds, times = (span.left, span.right), times_of(left, right)
    gaps: dict[tuple[int, int], int] = {}
    for s in (0, 1):
        for (i, j), us in below[s].gaps.items():
            gaps[starts[s] + i, starts[s] + j] = us
    for s, bound in enumerate(bounds):
        pair = (starts[s] + bound.until, starts[1 - s] + bound.time)
        gaps[pair] = bound.plus_us
    _close(gaps)
    delays: dict[int, int] = {}
    held: set[int] = set()
    for s, bound in enumerate(bounds):
        partner = times[1 - s].get(bound.time, 0)
        for column, own in times[s].items():
            at = starts[s] + column
            gap = gaps.get((at, starts[1 - s] + bound.time))
            delays[at] = own if gap is None else max(own, partner + gap)
            if gap is None:
                held.add(at)
    return PairTimes(delays, gaps, not beside(left, right), frozenset(held))


def times_of(left: Operator, right: Operator) -> tuple[dict[int, int], dict[int, int]]:
    """By side, what a span may speak of, as in `timed`."""
    if beside(left, right):
        return timed(left), timed(right)
    found = [{i: below.delays.get(i, 0) for i in below.event_times} for below in (left, right)]
    return found[0], found[1]


def _close(gaps: dict[tuple[int, int], int]) -> None:
    """What follows of two gaps: a third, over the column between them."""
    columns = sorted({i for pair in gaps for i in pair})
    for k in columns:
        for i in columns:
            for j in columns:
                if i != j and (i, k) in gaps and (k, j) in gaps:
                    through = gaps[i, k] + gaps[k, j]
                    gaps[i, j] = min(gaps.get((i, j), through), through)


def span_of(condition: Expr, left: Operator, right: Operator) -> Span | None:
    """The span in a condition over left's columns then right's; None unless it bounds both."""
    width = len(left.schema)
    found: dict[bool, Bound] = {}
    times = times_of(left, right)
    rest: list[Expr] = []
    for part in conjuncts(condition):
        bound = _bound(part, width, times)
        if bound is not None and bound.on_left not in found:
            found[bound.on_left] = bound
        else:
            rest.append(part)
    if len(found) < 2:
        return None
    return Span(found[True], found[False], tuple(rest))


def _bound(
    part: Expr, width: int, times: tuple[Mapping[int, int], Mapping[int, int]]
) -> Bound | None:
    if not isinstance(part, Call) or part.function not in TURNED or len(part.args) != 2:
        return None
    function = part.function
    early, late = (moment(e) for e in part.args)
    if early is None or late is None or part.args[0].type.kind != part.args[1].type.kind:
        return None
    if function in ("ge", "gt"):
        early, late, function = late, early, TURNED[function]
    (time, minus_us), (until, plus_us) = early, late
    if (time < width) == (until < width):
        return None
    on_left = until < width
    side, column = (1, time - width) if on_left else (0, time)
    if column not in times[side]:
        return None
    plus = plus_us - minus_us - (1 if function == "lt" else 0)
    return Bound(column, until if on_left else until - width, plus, on_left)


def moment(expr: Expr) -> tuple[int, int] | None:
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
