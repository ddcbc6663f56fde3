"""When rows of outer, semi and anti interval joins are final, late, and done with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.operators.arrange import ends_of
from streamsql.operators.columns import BoolArray
from streamsql.operators.event_time import event_time_us
from streamsql.operators.interval_bounds import Bound, Span, beside, patience_of, span_of, times_of
from streamsql.operators.interval_log import moved, on_time, passed_us
from streamsql.operators.join_condition import EquiJoin
from streamsql.operators.join_marks import JoinMarks


@dataclass(frozen=True)
class SpanRule:
    """The span of time in which the partners of a row lie, by side (0 = left).

    An entry is late, as in `IntervalJoin`, once the watermarks of both inputs are more than its
    side's patience (µs) past it. A row is done with when both have passed the end of its span, so
    that no partner comes, and the row, so that it is not taken back: what matches it then, or that
    nothing does, is final. delays_us: how far behind its watermark each input gives rows that are
    on time. gaps: `Operator.gaps` of each input.
    """

    span: Span
    schemas: tuple[Schema, Schema]
    patience_us: tuple[int, int]
    delays_us: tuple[int, int]
    gaps: tuple[Mapping[tuple[int, int], int], Mapping[tuple[int, int], int]]

    def bound(self, side: int) -> Bound:
        """Where the span of a side's rows ends."""
        return self.span.right if side else self.span.left

    def time(self, side: int) -> int:
        """The column of a side's event time."""
        return self.bound(1 - side).time

    def on_time(
        self, step: Step, operator: Operator, side: int, delta: Delta, marks: JoinMarks
    ) -> Delta:
        """One side's entries without the late ones, which are reported. marks: of the join; what
        its watermark before the tick has let go is late, whatever mark an entry has."""
        least = marks.least(side, delta, filling=step.filling)
        before = min(marks.before[side], marks.of_others(side))
        if before != END_OF_TIME:
            least = np.maximum(least, before)
        judged = Delta(delta.batch, delta.weights, least, delta.consolidated)
        patience = self.patience_us[side]
        return on_time(step, operator, side, judged, self.schemas[side], self.time(side), patience)

    def over(
        self, side: int, column: Callable[[int], pa.Array], watermarks: Sequence[int]
    ) -> BoolArray:
        """bool[n]: which rows of a side, given by column, are done with."""
        least = min(watermarks, default=NO_WATERMARK)
        passed = [passed_us(least, p) for p in self.patience_us]
        bound = self.bound(side)
        time, valid = event_time_us(column(self.time(side)))
        until, known = event_time_us(column(bound.until))
        done: BoolArray = moved(until, bound.plus_us) < passed[1 - side]
        if known is not None:
            done |= ~known  # no partner ever
        done &= time < passed[side]
        return done if valid is None else done & valid

    def waits(self, kind: str, widths: tuple[int, int]) -> dict[int, int]:
        """`Operator.waits` of the join's output: how long rows of the sides kept whole change.

        widths: how many columns of each side the output has."""
        found: dict[int, int] = {}
        whole = {"inner": (), "cross": (), "right": (1,), "full": (0, 1)}
        for side in whole.get(kind, (0,)):
            start, bound = side * widths[0], self.bound(side)
            until = bound.plus_us + self.delays_us[1 - side]
            for column, plus in ((self.time(side), self.delays_us[side]), (bound.until, until)):
                same = {i: us for (i, j), us in self.gaps[side].items() if j == column}
                for i, us in {column: 0, **same}.items():  # or any time that tells of that one
                    if i < widths[side]:
                        found[start + i] = max(found.get(start + i, 1), plus + us + 1)
        return found


def rule_of(parts: EquiJoin, left: Operator, right: Operator, strict: bool) -> SpanRule | None:
    """The rule of a join; None without a span on both sides, and where windows close rows already.

    strict: entries behind their watermark are late though partners are not: of two rows that are
    kept whole, each with a span of its own, the one that comes must not undo the other's end.
    """
    windows = bool(ends_of(left) or ends_of(right))
    if parts.residual is None or (windows and not beside(left, right)):
        return None
    span = span_of(parts.residual, left, right)
    if span is None:
        return None
    times = times_of(left, right)
    delays = (times[0].get(span.right.time, 0), times[1].get(span.left.time, 0))
    patience = patience_of(span, left, right, strict=strict)
    gaps = (left.gaps, right.gaps) if windows else ({}, {})
    return SpanRule(span, (left.schema, right.schema), patience, delays, gaps)
