"""TUMBLE, HOP and CUMULATE: every row with the windows that hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, Step
from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.logical_time import US_PER_DAY
from streamsql.core.schema import Schema
from streamsql.operators.builder import Builder
from streamsql.operators.columns import take_rows
from streamsql.operators.event_time import event_time_column, finite_times
from streamsql.operators.late import is_late, report_late
from streamsql.operators.loops import windows as loops
from streamsql.operators.map import move
from streamsql.operators.on_time_plan import lower_input
from streamsql.operators.window_grid import Grid
from streamsql.plan import nodes as plan
from streamsql.plan.window_grids import exact_us


class TimeWindow(Operator):
    """Each row once for every window that holds its event time (TUMBLE, HOP, CUMULATE).

    Algebra:  windows(Z)(r, w) = Z(r) if w holds r's time.  Linear.
    Input:    delta [n rows]; rows without a (finite) event time give nothing and are counted.
    Output:   the row's columns, window_start, window_end, window_time; weights kept. A row whose
              window was closed when it arrived (window_end + allowed lateness <= the row's
              watermark) is dropped for that window and reported as late; so is a retraction.
    State:    none.
    Cost:     O(changed rows x windows of a row).
    """

    algebra = Algebra.LINEAR
    rowwise = True

    def __init__(
        self, schema: Schema, input_schema: Schema, time_column: int, grid: Grid, late: bool
    ) -> None:
        """late: the watermark speaks of the time column, so that windows close."""
        super().__init__(schema)
        self.input_schema = input_schema
        self.time_column = time_column
        self.grid = grid
        self.drops_late = late
        kept = input_schema[time_column].type.arrow == schema[len(input_schema)].type.arrow
        self._plain = (
            grid.kind == "tumble" and grid.is_exact and kept
            and pa.types.is_timestamp(schema[len(input_schema)].type.arrow)
        )  # fmt: skip

    input_origins: Mapping[int, tuple[int, int]] = {}
    """Where the input's columns come from."""

    def step(self, step: Step, *deltas: Delta) -> Delta:
        delta = deltas[0]
        if not delta.num_rows:
            return Delta.empty(self.schema)
        if self._plain:
            windows = self._tumble(delta, delta.columns[self.time_column])
            if windows is not None:
                return Delta.of(
                    delta.columns + windows, self.schema.arrow, delta.num_rows, delta.weights,
                    delta.row_watermark, delta.consolidated,
                )  # fmt: skip
        times, valid = finite_times(delta.batch.column(self.time_column))
        if valid is not None:
            step.null_event_times += int(times.size - np.count_nonzero(valid))
            delta = delta.take(np.flatnonzero(valid))
            times = times[valid]
        rows, start, end = self.grid.assign(times)
        if self.drops_late and delta.row_watermark is not None:
            rows, start, end = self._on_time(step, delta, times, rows, start, end)
        return self._output(delta, rows, start, end)

    def _tumble(self, delta: Delta, times: pa.Array) -> list[pa.Array] | None:
        """The window columns of timestamps in one pass; None if a row has no window or is late."""
        if times.null_count:
            return None
        n, type_ = len(times), times.type
        buffer = pa.allocate_buffer(24 * n)
        if not loops.tumble_column(
            times.buffers()[1].address + 8 * times.offset, n, exact_us(self.grid.size),
            exact_us(self.grid.offset), 8 * n, buffer.address,
        ):  # fmt: skip
            return None
        if self.drops_late and delta.row_watermark is not None:
            end = np.frombuffer(buffer, np.int64, n, 8 * n)
            if bool(is_late(end, delta.row_watermark, self.lateness_us).any()):
                return None
        parts = (buffer, buffer.slice(8 * n), buffer.slice(16 * n))
        return [pa.Array.from_buffers(type_, n, [None, part], 0) for part in parts]

    def _on_time(
        self, step: Step, delta: Delta, times: Int64Array, rows: Int64Array | None,
        start: Int64Array, end: Int64Array,
    ) -> tuple[Int64Array | None, Int64Array, Int64Array]:  # fmt: skip
        """Without the (row, window) pairs that came too late, which are reported."""
        assert delta.row_watermark is not None
        watermark = delta.row_watermark if rows is None else delta.row_watermark[rows]
        late = is_late(end, watermark, self.lateness_us)
        if not bool(late.any()):
            return rows, start, end
        which = np.arange(times.size) if rows is None else rows
        rows = which[late]
        rows = rows[np.diff(rows, prepend=-1) > 0]  # each once: they are in order
        report_late(step, self, delta, rows, times, self.input_schema, self.input_origins)
        return which[~late], start[~late], end[~late]

    def _output(
        self, delta: Delta, rows: Int64Array | None, start: Int64Array, end: Int64Array
    ) -> Delta:
        if rows is not None:
            delta = Delta(
                take_rows(delta.batch, rows),
                None if delta.weights is None else delta.weights[rows],
                None if delta.row_watermark is None else delta.row_watermark[rows],
                delta.consolidated,
            )
        type_ = self.schema[len(self.schema) - 3].type.arrow
        arrays: list[pa.Array] = [
            *delta.batch.columns,
            event_time_column(start, type_),
            event_time_column(end, type_),
            event_time_column(end - 1, type_),
        ]
        batch = make_batch(arrays, self.schema.arrow, delta.num_rows)
        return Delta(batch, delta.weights, delta.row_watermark, delta.consolidated)

    def current(self, *inputs: Delta) -> Delta | None:
        return self.retell(Step(0, 0), *inputs)

    @property
    def retells(self) -> bool:
        return self.drops_late

    def retell(self, step: Step, *inputs: Delta) -> Delta:
        return self.step(step, *inputs)

    @property
    def name(self) -> str:
        return self.grid.kind.capitalize()

    def explain(self) -> dict[str, str]:
        late = "; late rows are dropped" if self.drops_late else ""
        return {"detail": describe(self.grid) + late}


def describe(grid: Grid) -> str:
    """The window's sizes for EXPLAIN."""
    words = {"hop": "every", "cumulate": "in steps of"}
    parts = [f"size {spec_text(grid.size)}"]
    if grid.kind in words:
        parts.append(f"{words[grid.kind]} {spec_text(grid.step)}")
    if grid.offset != plan.WindowSpec():
        parts.append(f"offset {spec_text(grid.offset)}")
    return ", ".join(parts) + (f", time zone {grid.tz}" if grid.tz else "")


def spec_text(spec: plan.WindowSpec) -> str:
    """A length for people: 1 mon, 2 days, 00:00:10."""
    from streamsql.plan.render import interval_text

    return interval_text(spec.months, spec.days, spec.us)


def grid_of(node: plan.TimeWindow | plan.OnTime) -> Grid:
    """The grid of a TUMBLE, HOP or CUMULATE node."""
    return Grid(node.kind, node.size, node.slide or node.size, node.offset, node.tz)


def lower(node: plan.TimeWindow, build: Builder) -> int | None:
    """TUMBLE, HOP, CUMULATE row by row."""
    if node.kind == "session":
        return None
    source = lower_input(node.input, node.time_column, build)
    below = build.operator(source)
    late = closes_by(below, node.time_column)

    def make() -> TimeWindow:
        made = TimeWindow(node.schema, below.schema, node.time_column, grid_of(node), late)
        window_facts(below, made, node, late)
        made.input_origins = below.origins
        return made

    what = (node.kind, node.time_column, node.size, node.slide, node.offset, node.tz)
    return build.add("window", [source], what, make)


def closes_by(below: Operator, time_column: int) -> bool:
    """Whether the watermark speaks of this column: then its windows close."""
    return time_column in below.event_times or time_column in below.closes


def patience_us(below: Operator, time_column: int) -> int:
    """How long after its end a window over this column stays open: the allowed lateness, and while
    the rows themselves change. Over window_start of windows below that is their size,
    over the times of an interval join how far behind the watermark its pairs come."""
    known = below.delays if time_column in below.event_times else below.closes
    return below.lateness_us + known.get(time_column, 0)


def exact_sizes(node: plan.TimeWindow | plan.OnTime) -> tuple[int | None, int]:
    """(µs of the longest window, None = unknown; µs of the shortest)."""
    grid = grid_of(node)
    if not grid.is_exact:  # and a day more: clocks change, some by whole days
        days = 31 * grid.size.months + grid.size.days + 1
        return days * US_PER_DAY + grid.size.us, 0
    size = exact_us(grid.size)
    return size, exact_us(grid.step) if node.kind == "cumulate" else size


def window_gaps(
    bounds: tuple[Sequence[int], Sequence[int], Sequence[int]], size_us: int | None, least_us: int
) -> dict[tuple[int, int], int]:
    """`Operator.gaps` of the columns that hold a window's start, end and time."""
    starts, ends, times = bounds
    gaps: dict[tuple[int, int], int] = {}
    for plus, lasts in ((0, ends), (1, times)):  # window_time is 1 µs before the end
        gaps |= {(last, start): plus - least_us for last in lasts for start in starts}
        if size_us is not None:
            gaps |= {(start, last): size_us - plus for last in lasts for start in starts}
    gaps |= {(end, time): -1 for end in ends for time in times}
    return gaps | {(time, end): 1 for end in ends for time in times}


def window_facts(below: Operator, made: Operator, node: plan.TimeWindow, late: bool) -> None:
    """What is known of a window operator's output columns."""
    made.append_only = below.append_only
    made.lateness_us = patience_us(below, node.time_column)
    move(below, made, {i: [i] for i in range(len(below.schema))})
    made.useless = {}  # it spoke of these windows
    start = len(below.schema)
    if late:
        made.closes = {**made.closes, start + 1: 0, start + 2: 1}
        made.event_times |= {start + 1, start + 2}
        if node.kind != "session" and grid_of(node).is_exact:
            made.closes[start] = exact_us(node.size)
        size, least = exact_sizes(node) if node.kind != "session" else (None, 0)
        bounds = ((start,), (start + 1,), (start + 2,))
        made.gaps = {**made.gaps, **window_gaps(bounds, size, least)}
        made.gaps |= {(start + 1, node.time_column): -1, (node.time_column, start): 0}
    if node.kind in ("tumble", "hop"):
        made.determined = {**made.determined, start + 1: start, start + 2: start}
    elif node.kind == "cumulate":
        made.determined = {**made.determined, start + 2: start + 1}
