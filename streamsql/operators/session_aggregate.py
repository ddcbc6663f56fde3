"""GROUP BY over SESSION windows of an input that only grows: no row is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.errors import InvariantViolation, StreamSqlError
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.aggregate import aggregate_text
from streamsql.operators.bad_results import BadGroups, results_and_errors
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, select, sort_order, take_rows
from streamsql.operators.event_time import event_time_column, finite_times
from streamsql.operators.folding import COUNT_LANE, Folding, make_folding
from streamsql.operators.late import report_late
from streamsql.operators.loops import accumulate as loops
from streamsql.operators.panes import END, START, TIME, below_window, moved_calls, pane_facts
from streamsql.operators.rounds import forget_marks
from streamsql.operators.session_bounds import NO_TIME, SessionBounds
from streamsql.operators.time_window import closes_by, patience_us
from streamsql.operators.window_grid import us_text
from streamsql.plan import nodes as plan
from streamsql.plan.window_grids import exact_us


class SessionAggregate(Operator):
    """GROUP BY a session window and its partition.

    Algebra:  a row extends a session, opens one, or joins two; the aggregates of joined sessions
              are merged. Non-linear. The output is -old +new of the sessions that changed.
    Input:    delta [n rows] below the window function; weights > 0 (an append-only input).
    Output:   keys, then aggregates; consolidated. With `on_close`: each session once, when the
              watermark passes its end, in the order of ends and then of keys.
    State:    one entry a session: bounds and cells; freed when the watermark closes it.
    Cost:     O(changed rows); a row far behind its partition's newest sessions walks past them.
    Errors:   rows within the gap of a closed session, or alone and too old, are late. A session
              whose result can not be held (22003) is kept out, or it is NULL (`on_error`).
    Source:   Akidau et al., The Dataflow Model, VLDB 2015 (merging windows).
    """

    consolidates = True

    def __init__(
        self,
        schema: Schema,
        input_schema: Schema,
        keys: Sequence[int],
        partition_by: Sequence[int],
        folding: Folding,
        time_column: int,
        gap_us: int,
        *,
        lateness_us: int,
        closes: bool,
        on_close: bool,
        on_error: str = "skip",
    ) -> None:
        """keys: positions in the input (partition columns), or START, END, TIME."""
        super().__init__(schema)
        self.keys = tuple(keys)
        self.partition_by = tuple(partition_by)
        self.input_schema = input_schema
        self.folding = folding
        self.time_column = time_column
        self.on_close = on_close
        self.needs_time = closes
        self.partition_schema = input_schema.select(self.partition_by)
        self.bad = BadGroups(self.name, schema.select(range(len(self.keys))), on_error)
        self.bounds = SessionBounds(self.partition_schema, gap_us, lateness_us, closes)
        self.cells: Cells = np.zeros((64, folding.width), np.int64)

    input_origins: Mapping[int, tuple[int, int]] = {}
    """Where the input's columns come from."""

    @property
    def name(self) -> str:
        return "Session aggregate"

    def step(self, step: Step, *deltas: Delta) -> Delta:
        out = Delta.empty(self.schema)
        if deltas[0]:
            out = self._take(step, deltas[0])
        if self.bounds.closes:
            closed = self._close(step, min(step.input_watermarks, default=NO_WATERMARK))
            if self.on_close:
                return closed
        return out

    def _take(self, step: Step, delta: Delta) -> Delta:
        if delta.weights is not None and int(delta.weights.min()) < 0:
            raise InvariantViolation("a row was taken back from an append-only input")
        times, valid = finite_times(delta.batch.column(self.time_column))
        if valid is not None:
            step.null_event_times += int(times.size - np.count_nonzero(valid))
            delta, times = delta.take(np.flatnonzero(valid)), times[valid]
        bounds = self.bounds
        keys = select(delta.batch, self.partition_by, self.partition_schema)
        sessions, touched = bounds.place(bounds.partition_slots(keys), times, delta.row_watermark)
        late = np.flatnonzero(sessions < 0)
        if late.size:
            report_late(step, self, delta, late, times, self.input_schema, self.input_origins)
            kept = np.flatnonzero(sessions >= 0)
            delta, sessions = delta.take(kept), sessions[kept]
        self._room()
        was = touched[bounds.old_first[touched] != NO_TIME]
        old_cells = self._gather(was)
        old_bounds = bounds.old_first[was], bounds.old_last[was]
        self._fold(delta, sessions)
        merged = touched[bounds.parent[touched] >= 0]
        self._merge(merged)
        now = touched[bounds.parent[touched] < 0]
        out = Delta.empty(self.schema)
        if not self.on_close:
            old, _ = self._rows(step, was, old_bounds, old_cells, -1)
            present = bounds.first[now], bounds.last[now]
            new, _ = self._rows(step, now, present, self._gather(now), 1)
            out = self._difference(old, new)
        self._release(merged)
        return out

    def _fold(self, delta: Delta, sessions: Int64Array) -> None:
        weights = NO_WEIGHTS if delta.weights is None else delta.weights
        loops.count_valid(self.cells, COUNT_LANE, sessions, weights, 0, 0)
        self.folding.fold(self.cells, delta.batch, sessions, weights)

    def _merge(self, merged: Int64Array) -> None:
        """Fold the cells of sessions into those that they were merged into."""
        if not merged.size:
            return
        into = merged.copy()
        from streamsql.operators.loops.sessions import resolve

        resolve(into, self.bounds.parent)
        part = self._gather(merged)
        loops.merge_sums(self.cells, COUNT_LANE, into, part, 1)
        self.folding.merge(self.cells, into, part)

    def _gather(self, slots: Int64Array) -> Cells:
        out = np.empty((slots.size, self.folding.width), np.int64)
        loops.gather(self.cells, slots, out)
        return out

    def _room(self) -> None:
        if self.bounds.slots > len(self.cells):
            cells = np.zeros((2 * self.bounds.slots, self.folding.width), np.int64)
            cells[: len(self.cells)] = self.cells
            self.cells = cells

    def _release(self, slots: Int64Array) -> None:
        self.cells[slots] = 0
        self.bounds.release(slots)

    def _rows(
        self, step: Step | None, slots: Int64Array, bounds: tuple[Int64Array, Int64Array],
        cells: Cells, weight: int,
    ) -> tuple[pa.RecordBatch, Int64Array | None]:  # fmt: skip
        """Output rows of sessions with these bounds and cells, and which of them have a result
        (None = all). weight: -1 where they are taken back."""
        first, last = bounds
        end = last + self.bounds.gap_us
        times = {START: first, END: end, TIME: end - 1}
        parts = self.bounds.partitions.key_rows(self.bounds.part_of[slots])
        arrays = []
        for position, k in enumerate(self.keys):
            if k >= 0:
                arrays.append(parts.column(self.partition_by.index(k)))
            else:
                arrays.append(event_time_column(times[k], self.schema[position].type.arrow))
        kept = None
        try:
            results = self.folding.results(cells)
        except StreamSqlError:
            results, errors = results_and_errors(self.folding.accumulators, cells)
            keys = make_batch(list(arrays), self.bad.schema.arrow, slots.size)
            kept = self.bad.kept(step, keys, errors, np.full(slots.size, weight))
        batch = make_batch([*arrays, *results], self.schema.arrow, slots.size)
        return (batch if kept is None else take_rows(batch, kept)), kept

    def _difference(self, old: pa.RecordBatch, new: pa.RecordBatch) -> Delta:
        if not old.num_rows:
            return Delta(new, consolidated=True)
        batch = pa.concat_batches([old, new]) if new.num_rows else old
        weights = np.ones(old.num_rows + new.num_rows, np.int64)
        weights[: old.num_rows] = -1
        from streamsql.state.consolidate import consolidate

        return consolidate(Delta(batch, weights))

    def _close(self, step: Step, watermark: int) -> Delta:
        closed = self.bounds.close(watermark)
        if not closed.size:
            return Delta.empty(self.schema)
        out = Delta.empty(self.schema)
        if self.on_close:
            bounds = self.bounds.first[closed], self.bounds.last[closed]
            batch, kept = self._rows(step, closed, bounds, self._gather(closed), 1)
            ends = bounds[1] if kept is None else bounds[1][kept]
            order = sort_order([pa.array(ends), *batch.columns[: len(self.keys)]])
            out = Delta(take_rows(batch, order), consolidated=True)
        self._release(closed)
        return out

    # --- the rest of the contract --------------------------------------------------------------
    def current(self, *inputs: Delta) -> Delta | None:
        return self._current(None)

    def _current(self, step: Step | None) -> Delta:
        live = self.bounds.live()
        bounds = self.bounds.first[live], self.bounds.last[live]
        batch, _ = self._rows(step, live, bounds, self._gather(live), 1)
        return Delta(batch, consolidated=True)

    @property
    def retells(self) -> bool:
        return True  # a sum may have left the range

    def retell(self, step: Step, *inputs: Delta) -> Delta | None:
        with self.bad.retelling():
            return self._current(step)

    def failure(self) -> tuple[str, str] | None:
        return self.bad.failure

    def save(self) -> State:
        return {
            "failure": self.bad.save(),
            **saved.nest("bounds", self.bounds.save()),
            **saved.nest("folding", self.folding.save()),
            "cells": saved.matrix(self.cells[: self.bounds.slots]),
        }

    def load(self, state: State) -> None:
        self.bounds.load(saved.inner("bounds", state))
        self.folding.load(saved.inner("folding", state))
        self.bad.load(state["failure"])
        self.cells = saved.from_matrix(state["cells"], 64)

    @property
    def holds_open(self) -> str:
        return "window" if self.needs_time else ""

    def open_until_us(self) -> int | None:
        return self.bounds.first_close_us() if self.needs_time else None

    def state_rows(self) -> int:
        return self.bounds.count

    def state_bytes(self) -> int:
        return int(self.bounds.nbytes + self.cells.nbytes)

    def explain(self) -> dict[str, str]:
        keys = self.schema.select(range(len(self.keys)))
        return {
            "state": "bounds and aggregates of every session, no rows",
            "freed": "when the watermark closes the session" if self.bounds.closes else "never",
            "detail": f"gap {us_text(self.bounds.gap_us)}, "
            + aggregate_text(keys, self.folding.calls, self.input_schema)
            + (", on window close" if self.on_close else ""),
        }


def lower(node: plan.Aggregate, build: Builder) -> int | None:
    """GROUP BY a session and all columns of its PARTITION BY, over an append-only input."""
    found = below_window(node.input)
    if found is None or found.window.kind != "session" or found.window.max_size is not None:
        return None
    window = found.window
    if window.size.months or (window.tz is not None and window.size.days):
        return None
    if node.grouping_sets is not None or node.grouping_calls:
        return None
    keys = [found.columns[k] for k in node.keys]
    partition = [found.below(c) for c in window.partition_by]
    own = [k for k in keys if k >= 0]
    calls = moved_calls(node, found)
    if calls is None or None in partition or START not in keys or set(own) != set(partition):
        return None
    source = build.lower(found.input)
    below = build.operator(source)
    folding = make_folding(calls, below.append_only)
    if folding is None or not folding.mergeable or not below.append_only:
        return None
    closes = closes_by(below, found.time_column)
    on_close = closes and build.closes_here(node)
    partition_by = [p for p in partition if p is not None]
    on_error = build.options.on_error

    def make() -> SessionAggregate:
        fresh = make_folding(calls, below.append_only)
        assert fresh is not None
        made = SessionAggregate(
            node.schema, below.schema, keys, partition_by, fresh, found.time_column,
            exact_us(window.size), lateness_us=patience_us(below, found.time_column), closes=closes,
            on_close=on_close, on_error=on_error,
        )  # fmt: skip
        pane_facts(below, made, keys, closes, on_close)
        forget_marks(made)
        made.lateness_us = patience_us(below, found.time_column)
        made.input_origins = below.origins
        return made

    what = (
        keys, partition_by, calls, node.schema, found.time_column, window.size, on_close, on_error
    )  # fmt: skip
    return build.add("sessions", [source], what, make, private=closes or on_error == "fail")
