"""GROUP BY over HOP or CUMULATE without copying every row into each of its windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.schema import Column, Schema
from streamsql.functions.expressions import AggregateCall, ColumnRef, Expr
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import hash_arrays
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.aggregate import Aggregate, aggregate_facts, hand_marks_on
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, take_rows, to_arrow
from streamsql.operators.event_time import event_time_column, finite_times
from streamsql.operators.folding import Folding, make_folding
from streamsql.operators.groups import batch_keys, is_word
from streamsql.operators.late import is_late, report_late
from streamsql.operators.loops import accumulate as loops
from streamsql.operators.on_time_plan import lower_input
from streamsql.operators.time_window import (
    closes_by,
    exact_sizes,
    grid_of,
    patience_us,
    window_gaps,
)
from streamsql.operators.window_grid import Grid
from streamsql.plan import nodes as plan
from streamsql.plan.render import interval_text
from streamsql.plan.visit import map_aggregate, remap_columns, row_columns
from streamsql.plan.window_grids import exact_us

START, END, TIME = -1, -2, -3
"""Key columns that are the window's own, beside positions in the rows."""


class PaneAggregate(Aggregate):
    """GROUP BY over HOP or CUMULATE windows.

    Algebra:  each tick's rows are folded into panes (the longest stretches of time that no window
              cuts), and the panes into their windows: linear aggregates of a sum are sums of
              aggregates.
    Input:    delta [n rows] *below* the window function.
    Output:   as Aggregate over the window function.
    State:    as Aggregate: one entry a (window, keys); the panes live for one tick only.
    Cost:     O(changed rows + touched panes x windows of a pane).
    Errors:   as Aggregate. Rows that are late for some of their windows go to the others one by
              one.
    Source:   Li et al., No Pane, No Gain, SIGMOD Record 2005.
    """

    def __init__(
        self,
        schema: Schema,
        input_schema: Schema,
        keys: Sequence[int],
        hashed: Sequence[int],
        folding: Folding,
        time_column: int,
        grid: Grid,
        *,
        late: bool,
        close: tuple[int, int] | None,
        on_close: bool,
        on_error: str = "skip",
    ) -> None:
        """keys: positions in the input, or START, END, TIME."""
        self.grid = grid
        super().__init__(
            schema, keys, hashed, folding,
            close=close, on_close=on_close, input_schema=input_schema, on_error=on_error,
        )  # fmt: skip
        self.rows_schema = input_schema
        self._expected = 64
        self.time_column = time_column
        self.drops_late = late

    input_origins: Mapping[int, tuple[int, int]] = {}
    """Where the input's columns come from."""

    @property
    def name(self) -> str:
        return f"{self.grid.kind.capitalize()} aggregate"

    def _how(self) -> str:
        exact = self.grid.is_exact
        pane = f" of {interval_text(0, 0, self.grid.pane_us)}" if exact else ""
        return f"each row once into its pane{pane}, then the panes into their windows"

    def _fold(self, step: Step, delta: Delta) -> tuple[Int64Array, Cells]:
        times, valid = finite_times(delta.batch.column(self.time_column))
        if valid is not None:
            step.null_event_times += int(times.size - np.count_nonzero(valid))
            delta, times = delta.take(np.flatnonzero(valid)), times[valid]
        late = self._partly_late(step, delta, times)
        if late is not None:
            delta, times, others = late
        keys, cells = self._panes(delta, times)
        if late is not None:
            keys, cells = _stacked([(keys, cells), others])
        slots, new_rows = self.groups.upsert(keys)
        if self.close is not None:
            self._note_closing(keys.columns, slots[new_rows], new_rows)
        touched, first, old = self.groups.touch_first(slots, np.ascontiguousarray(cells[:, 0]))
        self._given = (keys.columns, first)
        self.folding.merge(self.groups.cells, slots, cells)
        self.folding.settle(self.groups.cells, touched)
        return touched, old

    def _panes(self, delta: Delta, times: Int64Array) -> tuple[pa.RecordBatch, Cells]:
        """(keys, cells) of every (window, keys) that these rows touch."""
        pane = self.grid.pane(times)
        own = [k for k in self.keys if k >= 0]
        columns = [delta.batch.column(k) for k in own]
        slots, first = self._distinct([to_arrow(pane, pa.int64()), *columns], times.size)
        part = self._partial(delta, slots, first.size)
        rows, start, end = self.grid.assign(pane[first])
        assert rows is not None
        keys = self._keys(delta.batch, first[rows], start, end)
        out = np.empty((rows.size, self.folding.width), np.int64)
        loops.gather(part, rows, out)
        return keys, out

    def _distinct(self, columns: list[pa.Array], n: int) -> tuple[Int64Array, Int64Array]:
        """(number of each row's key, first row of each key)."""
        if all(is_word(c.type) for c in columns):
            found = batch_keys(columns, n, n, self._expected)
            if found is not None:
                self._expected = found.first.size
                return found.number, found.first
        h0, h1 = hash_arrays(columns, n)
        return HashIndex(expected=min(n, 1 << 14)).upsert_rows(h0, h1)

    def _partial(self, delta: Delta, slots: Int64Array, groups: int) -> Cells:
        """The cells of groups that exist in this tick only."""
        cells = np.zeros((groups, self.folding.width), np.int64)
        weights = NO_WEIGHTS if delta.weights is None else delta.weights
        loops.count_valid(cells, 0, slots, weights, 0, 0)
        self.folding.fold(cells, delta.batch, slots, weights)
        return cells

    def _keys(
        self, batch: pa.RecordBatch, rows: Int64Array, start: Int64Array, end: Int64Array
    ) -> pa.RecordBatch:
        """Key rows: the input's columns at `rows` and the window's own."""
        index = pa.array(rows)
        times = {START: start, END: end, TIME: end - 1}
        arrays = []
        for position, k in enumerate(self.keys):
            if k >= 0:
                arrays.append(batch.column(k).take(index))
            else:
                type_ = self.key_schema[position].type.arrow
                arrays.append(event_time_column(times[k], type_))
        return make_batch(arrays, self.key_schema.arrow, rows.size)

    def _partly_late(
        self, step: Step, delta: Delta, times: Int64Array
    ) -> tuple[Delta, Int64Array, tuple[pa.RecordBatch, Cells]] | None:
        """(the rows that are late for nothing, their times, the windows of the others), or None if
        nothing is late."""
        if not self.drops_late or delta.row_watermark is None or not times.size:
            return None
        # every window of a row ends after the row: on or above the watermark it is on time for all
        doubtful = is_late(times, delta.row_watermark, self.lateness_us)
        if not bool(doubtful.any()):
            return None
        which = np.flatnonzero(doubtful)
        rows, start, end = self.grid.assign(times[which])
        assert rows is not None
        late = is_late(end, delta.row_watermark[which][rows], self.lateness_us)
        if not bool(late.any()):
            return None
        some = np.zeros(which.size, np.bool_)
        some[rows[late]] = True
        report_late(step, self, delta, which[some], times, self.rows_schema, self.input_origins)
        keep = some[rows] & ~late
        rows, start, end = which[rows[keep]], start[keep], end[keep]
        single = Delta(
            take_rows(delta.batch, rows), None if delta.weights is None else delta.weights[rows]
        )
        cells = self._partial(single, np.arange(rows.size), rows.size)
        rest = np.ones(times.size, np.bool_)
        rest[which[some]] = False
        kept = np.flatnonzero(rest)
        return delta.take(kept), times[kept], (self._keys(delta.batch, rows, start, end), cells)


def _stacked(parts: list[tuple[pa.RecordBatch, Cells]]) -> tuple[pa.RecordBatch, Cells]:
    batches = [keys for keys, _ in parts if keys.num_rows]
    if not batches:
        return parts[0]
    return pa.concat_batches(batches), np.concatenate([c for k, c in parts if k.num_rows])


@dataclass(frozen=True)
class Below:
    """An Aggregate over a window function, turned into one over the rows below it.

    input: those rows. columns: of each column that the Aggregate reads, its position in the rows,
    or START, END, TIME. time_column: position of the time in the rows.
    """

    input: plan.LogicalPlan
    window: plan.TimeWindow
    columns: dict[int, int]
    time_column: int

    def below(self, column: int) -> int | None:
        """Where a column of the window function's input is in the rows, or None if it is not."""
        if self.input is self.window.input:
            return column
        assert isinstance(self.input, plan.Project)
        for i, expr in enumerate(self.input.exprs):
            if isinstance(expr, ColumnRef) and expr.index == column:
                return i
        return None


def below_window(node: plan.LogicalPlan) -> Below | None:
    """See `Below`; None if the node is not [Project] over a window function, or the projection
    computes with the window's columns."""
    if isinstance(node, plan.TimeWindow):
        n = len(node.input.schema)
        same = {i: i for i in range(n)} | {n: START, n + 1: END, n + 2: TIME}
        return Below(node.input, node, same, node.time_column)
    if not isinstance(node, plan.Project) or not isinstance(node.input, plan.TimeWindow):
        return None
    window = node.input
    n = len(window.input.schema)
    columns: dict[int, int] = {}
    exprs: list[Expr] = []
    for i, expr in enumerate(node.exprs):
        if isinstance(expr, ColumnRef) and expr.index >= n:
            columns[i] = (START, END, TIME)[expr.index - n]
        elif any(c >= n for c in row_columns(expr)):
            return None
        else:
            columns[i] = len(exprs)
            exprs.append(expr)
    time = ColumnRef(index=window.time_column, type=window.input.schema[window.time_column].type)
    if time in exprs:
        at = exprs.index(time)
    else:
        at = len(exprs)
        exprs.append(time)
    schema = Schema(tuple(Column("", e.type) for e in exprs))
    rows = plan.Project(schema=schema, input=window.input, exprs=tuple(exprs))
    return Below(rows, window, columns, at)


def lower(node: plan.Aggregate, build: Builder) -> int | None:
    """GROUP BY a window and more, over HOP or CUMULATE."""
    found = below_window(node.input)
    if found is None or found.window.kind not in ("hop", "cumulate"):
        return None
    keys = [found.columns[k] for k in node.keys]
    grid = grid_of(found.window)
    if node.grouping_sets is not None or node.grouping_calls:
        return None
    if not any(k in (START, END) for k in keys) or (grid.kind == "cumulate" and START not in keys):
        return None
    calls = moved_calls(node, found)
    if calls is None:
        return None
    source = lower_input(found.input, found.time_column, build)
    below = build.operator(source)
    folding = make_folding(calls, below.append_only)
    if folding is None or not folding.mergeable:
        return None
    late = closes_by(below, found.time_column)
    close = _close(keys, grid) if late else None
    on_close = close is not None and build.closes_here(node)
    on_error = build.options.on_error

    def make() -> PaneAggregate:
        fresh = make_folding(calls, below.append_only)
        assert fresh is not None
        made = PaneAggregate(
            node.schema, below.schema, keys, _hashed(keys, grid), fresh, found.time_column, grid,
            late=late, close=close, on_close=on_close, on_error=on_error,
        )  # fmt: skip
        pane_facts(below, made, keys, late, on_close, *exact_sizes(found.window))
        made.lateness_us = patience_us(below, found.time_column)
        made.input_origins = below.origins
        hand_marks_on(made, make)
        return made

    what = (keys, calls, node.schema, found.time_column, found.window.size, found.window.slide,
            found.window.offset, found.window.tz, grid.kind, close, on_close, on_error)  # fmt: skip
    private = close is not None or on_error == "fail"
    return build.add("panes", [source], what, make, private=private)


def moved_calls(node: plan.Aggregate, found: Below) -> tuple[AggregateCall, ...] | None:
    """The calls over the rows below the window, or None if one reads the window's columns."""
    used = {
        c
        for call in node.aggregates
        for e in (*call.args, call.filter, *(k.expr for k in call.order_by))
        if e is not None
        for c in row_columns(e)
    }
    if any(found.columns[c] < 0 for c in used):
        return None
    mapping = {c: found.columns[c] for c in used}
    return tuple(map_aggregate(c, lambda e: remap_columns(e, mapping)) for c in node.aggregates)


def _hashed(keys: Sequence[int], grid: Grid) -> list[int]:
    """Positions of the keys that identify a group: of the window's columns one is enough for HOP
    (the start, if there: by a zone's clock two windows may end together), start and end for
    CUMULATE."""
    own = [i for i, k in enumerate(keys) if k < 0]
    if grid.kind == "hop":
        needed = sorted(own, key=lambda i: keys[i] != START)[:1]
    else:
        ends = [i for i in own if keys[i] != START]
        needed = [i for i in own if keys[i] == START][:1] + ends[:1]
    return sorted([i for i, k in enumerate(keys) if k >= 0] + needed)


def _close(keys: Sequence[int], grid: Grid) -> tuple[int, int] | None:
    """Which key tells when the window closes, and the µs to add to it; None if none does."""
    for which, plus in ((END, 0), (TIME, 1), (START, exact_us(grid.size))):
        if which in keys and (which != START or grid.is_exact):
            return keys.index(which), plus
    return None


def pane_facts(
    below: Operator,
    made: Operator,
    keys: Sequence[int],
    late: bool,
    on_close: bool,
    size_us: int | None = None,
    least_us: int = 0,
) -> None:
    """What is known of the output columns of an aggregate over a window function; size_us: from
    the start of a window to its end at most, if that is known; least_us: at least (0 if a clock's
    changes or the calendar have a say in it)."""
    aggregate_facts(below, made, keys, on_close)
    made.useless = {}  # it spoke of these windows
    for i, k in enumerate(keys):
        if late and k in (END, TIME):
            made.closes = {**made.closes, i: 0 if k == END else 1}
            made.event_times |= {i}
        if late and k == START and size_us is not None and least_us:
            made.closes = {**made.closes, i: size_us}
    if late:
        starts, ends, times = ([i for i, k in enumerate(keys) if k == of]
                               for of in (START, END, TIME))  # fmt: skip
        made.gaps = {**made.gaps, **window_gaps((starts, ends, times), size_us, least_us)}
