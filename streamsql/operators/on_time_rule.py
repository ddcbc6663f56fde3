"""Which rows come too late for all the windows above that will hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.schema import Schema
from streamsql.operators.columns import BoolArray
from streamsql.operators.event_time import finite_times
from streamsql.operators.late import is_late, report_late
from streamsql.operators.time_window import closes_by, exact_sizes, grid_of
from streamsql.operators.window_grid import Grid
from streamsql.plan.nodes import OnTime
from streamsql.plan.window_grids import exact_us


@dataclass(frozen=True)
class Rule:
    """Which rows come too late for windows over a time column.

    grid: the windows. plus_us: how far behind a time its last window can end at most. lateness_us:
    how long after its end a window stays open.
    """

    time_column: int
    grid: Grid
    plus_us: int
    lateness_us: int

    @property
    def has_holes(self) -> bool:
        """Whether times may be in no window at all."""
        size, step = self.grid.size, self.grid.step
        spans = (size.months, exact_us(size)), (step.months, exact_us(step))
        return self.grid.kind == "hop" and spans[0] < spans[1]

    def left_out(self, times: Int64Array, marks: Int64Array | None) -> tuple[BoolArray, BoolArray]:
        """(in no window, too late for all its windows), each bool[n], of finite times."""
        nowhere, late = np.zeros(times.size, np.bool_), np.zeros(times.size, np.bool_)
        if marks is None:
            doubtful = np.zeros(times.size, np.bool_)
        else:
            doubtful = is_late(times, marks, self.lateness_us)  # a window ends after its rows
        rows = np.arange(times.size) if self.has_holes else np.flatnonzero(doubtful)
        if not rows.size:
            return nowhere, late
        ends = self._last_ends(times[rows])
        nowhere[rows] = ends <= times[rows]
        if marks is not None:
            late[rows] = is_late(ends, marks[rows], self.lateness_us)
            late &= ~nowhere
        return nowhere, late

    def _last_ends(self, times: Int64Array) -> Int64Array:
        """The end of the last window that holds each time; the time itself where none does."""
        rows, _, end = self.grid.assign(times)
        if rows is None:
            return end
        last = times.copy()
        np.maximum.at(last, rows, end)
        return last

    def needed(self, rows: pa.RecordBatch, marks: Int64Array) -> BoolArray:
        """bool[n]: the windows above may still take a change to a row that comes under its mark."""
        times, valid = finite_times(rows.column(self.time_column))
        nowhere, late = self.left_out(times, marks)
        gone = nowhere | late if valid is None else nowhere | late | ~valid
        return ~gone

    def on_time(
        self, step: Step, operator: Operator, delta: Delta, schema: Schema,
        origins: Mapping[int, tuple[int, int]], port: int | None = None,
    ) -> Delta:  # fmt: skip
        """Without what is left out; what is late is reported, and rows without a time counted.
        operator, origins, port: as in `report_late`."""
        times, valid = finite_times(delta.columns[self.time_column])
        if valid is not None:
            step.null_event_times += int(times.size - np.count_nonzero(valid))
            delta, times = delta.take(np.flatnonzero(valid)), times[valid]
        nowhere, late = self.left_out(times, delta.row_watermark)
        if bool(late.any()):
            report_late(step, operator, delta, np.flatnonzero(late), times, schema, origins, port)
        gone = nowhere | late
        return delta.take(np.flatnonzero(~gone)) if bool(gone.any()) else delta


def judged_by_marks(below: Operator, time_column: int) -> bool:
    """Whether windows over the column judge each row by its watermark: it is an event time, and no
    window below has done so."""
    return closes_by(below, time_column) and time_column not in below.closes and not below.recedes


def rule_of(above: OnTime, lateness_us: int) -> Rule:
    """What the windows above leave out that stay open so long after their end."""
    longest, _ = exact_sizes(above)
    assert longest is not None
    return Rule(above.time_column, grid_of(above), longest, lateness_us)
