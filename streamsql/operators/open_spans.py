"""How far rows with spans that are still open hold a join's watermark back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import State
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.operators import saved
from streamsql.operators.event_time import event_time_us
from streamsql.operators.interval_bounds import Bound, Span
from streamsql.operators.interval_log import moved, passed_us


class OpenSpans:
    """The earliest time of rows whose span of partners is not over.

    A span that ends at a column of its row (b.t BETWEEN a.t AND a.u) is open for no fixed length of
    time: its pairs come as late as that column says. So the join's watermark stays at the earliest
    time of such rows; a row that goes holds it until its span is over, as if it were there.

    State: sorted runs of (end of the span, earliest time of it and all that end later), each at
    least twice as long as the next; only rows that are earlier than all with a later end.
    Cost: O(log rows) a row, and a question.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Int64Array, Int64Array]] = []

    def add(self, ends: Int64Array, times: Int64Array) -> None:
        """Rows with the ends of their spans, µs."""
        if not times.size:
            return
        self._runs.append(_frontier(ends, times))
        while len(self._runs) > 1 and self._runs[-2][0].size <= 2 * self._runs[-1][0].size:
            (ends, times), (more, later) = self._runs.pop(), self._runs.pop()
            self._runs.append(
                _frontier(np.concatenate([more, ends]), np.concatenate([later, times]))
            )

    def floor(self, passed: int) -> int:
        """The earliest time of rows whose span does not end before `passed`, which never falls;
        END_OF_TIME if there is none."""
        self._runs = [
            (ends, times) if ends[0] >= passed else _from(ends, times, passed)
            for ends, times in self._runs
            if ends[-1] >= passed
        ]
        return min((int(times[0]) for _, times in self._runs), default=END_OF_TIME)

    def last_end(self, before: int) -> int | None:
        """The latest end of the spans of rows with a time before this, µs; None: no such row."""
        early = [(ends, int(np.searchsorted(times, before))) for ends, times in self._runs]
        return max((int(ends[n - 1]) for ends, n in early if n), default=None)

    def save(self) -> State:
        """All rows that hold."""
        parts = [np.empty((2, 0), np.int64), *(np.stack(run) for run in self._runs)]
        ends, times = np.concatenate(parts, axis=1)
        return {"rows": saved.columns(ends=ends, times=times)}

    def load(self, state: State) -> None:
        """Inverse of `save`."""
        self._runs = []
        if "rows" in state:
            table = state["rows"]
            self.add(saved.array(table, "ends"), saved.array(table, "times"))


def _frontier(ends: Int64Array, times: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Both in order of the ends, without rows that another one with a later end is earlier than."""
    order = np.argsort(ends, kind="stable")
    ends, times = ends[order], times[order]
    least = np.minimum.accumulate(times[::-1])[::-1]
    kept = np.append(least[:-1] < least[1:], True)
    return ends[kept], least[kept]


def _from(ends: Int64Array, times: Int64Array, passed: int) -> tuple[Int64Array, Int64Array]:
    first = int(np.searchsorted(ends, passed, "left"))
    ends, times = ends[first:], times[first:]
    whole = ends.base  # which a slice keeps alive
    if whole is not None and whole.size > 2 * ends.size:
        return ends.copy(), times.copy()
    return ends, times


def earliest(batch: pa.RecordBatch, columns: Sequence[int]) -> Int64Array:
    """The least of some times of each row, int64[n]; END_OF_TIME where all are NULL."""
    found = np.full(batch.num_rows, END_OF_TIME)
    for column in columns:
        times, valid = event_time_us(batch.column(column))
        found = np.minimum(found, times if valid is None else np.where(valid, times, END_OF_TIME))
    return found


class Holding:
    """What rows with open spans do to the watermarks of a join and of its output."""

    def __init__(
        self, shown: Sequence[int], sides: tuple[Sequence[int], Sequence[int]],
        bounds: tuple[Bound, Bound], patience_us: tuple[int, int],
    ) -> None:  # fmt: skip
        """shown: columns of the output whose times come as late as spans are long; sides: the same
        ones in both inputs. bounds, patience_us: of both, as in `SpanRule`."""
        self.shown = tuple(shown)
        self.sides = (tuple(sides[0]), tuple(sides[1]))
        self.bounds = bounds
        self.patience_us = patience_us
        self.open = (OpenSpans(), OpenSpans())

    def take(self, side: int, delta: Delta) -> None:
        """Entries of one side that were on time."""
        if not self.sides[side] or not delta:
            return
        bound = self.bounds[side]
        until, known = event_time_us(delta.batch.column(bound.until))
        comes = delta.weights_or_ones() > 0
        rows = np.flatnonzero(comes if known is None else comes & known)
        times = earliest(delta.batch, self.sides[side])
        self.open[side].add(moved(until, bound.plus_us)[rows], times[rows])

    def held(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """The inputs' watermarks, and how far open spans let the output's go."""
        if not inputs:
            return inputs
        least = min(inputs)
        passed = [passed_us(least, p) for p in self.patience_us]
        return (*inputs, self.open[0].floor(passed[1]), self.open[1].floor(passed[0]))

    def over(self, until_us: int) -> dict[int, int]:
        """Which time, µs, each input's watermark has to pass before open spans let the output's
        come so far; none where nothing is waited for."""
        found = NO_WATERMARK
        for side in (0, 1):
            end = self.open[side].last_end(until_us)
            if end is not None:
                found = max(found, min(end + self.patience_us[1 - side], END_OF_TIME))
        return {} if found == NO_WATERMARK else {0: found, 1: found}

    def marked(self, out: Delta) -> Delta:
        """The output under watermarks that have not passed these times: its rows held them."""
        if out.row_watermark is None or not out:
            return out
        marks = np.minimum(out.row_watermark, earliest(out.batch, self.shown))
        return Delta(out.batch, out.weights, marks, out.consolidated)

    def save(self) -> State:
        """What `load` needs."""
        return {
            **saved.nest("open0", self.open[0].save()),
            **saved.nest("open1", self.open[1].save()),
        }

    def load(self, state: State) -> None:
        """Inverse of `save`."""
        for side in (0, 1):
            self.open[side].load(saved.inner(f"open{side}", state))


def holding_of(
    span: Span, held: frozenset[int], places: Mapping[int, Sequence[int]], width: int,
    patience_us: tuple[int, int],
) -> Holding | None:  # fmt: skip
    """What holds a join back that gives its inputs' columns (left's, then right's; `width` are
    left's) at these places; None if nothing does. held: as in `PairTimes`."""
    shown = sorted(i for i in held if places.get(i))
    if not shown:
        return None
    sides = [i for i in shown if i < width], [i - width for i in shown if i >= width]
    output = [j for i in shown for j in places[i]]
    return Holding(output, sides, (span.left, span.right), patience_us)
