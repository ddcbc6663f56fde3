"""EMIT ON WINDOW CLOSE for any rows: keep them until the watermark has passed their window."""

from __future__ import annotations

import heapq

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.errors import NegativeWeight
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import sort_order
from streamsql.operators.event_time import event_time_us
from streamsql.operators.late import is_late, report_late
from streamsql.operators.map import move
from streamsql.state.consolidate import consolidate


class HoldBack(Operator):
    """Give every row out once, when its window closes (EMIT ON WINDOW CLOSE).

    Algebra:  of the input's Z-set, the rows whose close time the watermark has reached.
    Non-linear in
              time: what is given out is final.
    Input:    delta [n rows]; close time = the largest of the close columns, plus the allowed
    lateness.
    Output:   rows with weights > 0, in the order of their close times and then of their columns.
    State:    the rows that wait, by close time; freed when they are given out.
    Cost:     O(changed rows), and a sort of what closes.
    Errors:   a change to a row that closed before it came is late, and dropped.
    """

    needs_time = True

    def __init__(
        self, schema: Schema, columns: dict[int, int], lateness_us: int, judges: bool
    ) -> None:
        """columns: position -> µs to add to its value (window_end 0, an event time 1). judges: rows
        stand for themselves, so late ones are found here; else the windows below did that, and
        what comes for a closed window (a delete made its session end earlier) is final too."""
        super().__init__(schema)
        self.port: int | None = None  # the input of a join that it holds back
        self.judges = judges
        self.columns = columns
        self.time_column = next(iter(columns)) if judges and len(columns) == 1 else None
        self.lateness_us = lateness_us
        self.waiting: dict[int, list[Delta]] = {}
        self.heap: list[int] = []
        self.released = NO_WATERMARK
        self.entries = 0

    def step(self, step: Step, *deltas: Delta) -> Delta:
        if deltas[0]:
            self._take(step, deltas[0])
        return self._release(min(step.input_watermarks, default=NO_WATERMARK))

    def _take(self, step: Step, delta: Delta) -> None:
        times, valid = self._close_us(delta.batch)
        if valid is not None:
            step.null_event_times += int(times.size - np.count_nonzero(valid))
            delta, times = delta.take(np.flatnonzero(valid)), times[valid]
        if self.judges:
            delta, times = self._on_time(step, delta, times)
        self._keep(Delta(delta.batch, delta.weights), times)

    def _on_time(self, step: Step, delta: Delta, times: Int64Array) -> tuple[Delta, Int64Array]:
        """Without the entries whose row closed before they came."""
        before = delta.row_watermark
        if before is None:
            before = np.full(times.size, self.released)
        late = is_late(times, before, self.lateness_us)
        if not bool(late.any()):
            return delta, times
        judged = Delta(delta.batch, delta.weights, before)
        report_late(step, self, judged, np.flatnonzero(late), times - 1, self.schema, self.origins,
                    self.port)  # fmt: skip
        kept = np.flatnonzero(~late)
        return delta.take(kept), times[kept]

    def _close_us(self, batch: pa.RecordBatch) -> tuple[Int64Array, np.ndarray | None]:
        """(close time of each row without the allowed lateness, which rows have one or None)."""
        found: Int64Array | None = None
        mask: np.ndarray | None = None
        for column, plus in self.columns.items():
            values, valid = event_time_us(batch.column(column))
            found = values + plus if found is None else np.maximum(found, values + plus)
            if valid is not None:
                mask = valid if mask is None else mask & valid
        assert found is not None
        return found, mask

    def _keep(self, delta: Delta, times: Int64Array) -> None:
        if not times.size:
            return
        order = np.argsort(times, kind="stable")
        distinct, starts = np.unique(times[order], return_index=True)
        for time_us, rows in zip(distinct.tolist(), np.split(order, starts[1:]), strict=True):
            part = delta.take(rows) if distinct.size > 1 else delta
            bucket = self.waiting.get(time_us)
            if bucket is None:
                self.waiting[time_us] = [part]
                heapq.heappush(self.heap, time_us)
            else:
                bucket.append(part)
                if len(bucket) > 64:
                    self._shrink(time_us)
            self.entries += part.num_rows

    def _shrink(self, time_us: int) -> Delta:
        """The rows of one close time, consolidated."""
        bucket = self.waiting[time_us]
        before = sum(d.num_rows for d in bucket)
        whole = consolidate(concat(bucket, self.schema))
        self.waiting[time_us] = [whole]
        self.entries += whole.num_rows - before
        return whole

    def _release(self, watermark: int) -> Delta:
        out = []
        limit = (
            watermark - self.lateness_us
            if watermark > NO_WATERMARK + self.lateness_us
            else watermark
        )
        while self.heap and watermark < END_OF_TIME and self.heap[0] <= limit:
            time_us = heapq.heappop(self.heap)
            whole = self._shrink(time_us)
            del self.waiting[time_us]
            self.entries -= whole.num_rows
            if not whole:
                continue
            if whole.weights is not None and int(whole.weights.min()) < 0:
                raise NegativeWeight("a row that waited for its window was taken back too often")
            out.append(whole.take(sort_order(whole.batch.columns)))
        self.released = max(self.released, watermark)
        return concat(out, self.schema)

    def state_rows(self) -> int:
        return sum(self._shrink(t).num_rows for t in list(self.waiting))

    def state_bytes(self) -> int:
        return sum(int(d.batch.nbytes) for parts in self.waiting.values() for d in parts)

    def save(self) -> State:
        parts = [d for bucket in self.waiting.values() for d in bucket]
        whole = concat(parts, self.schema)
        return {
            "rows": pa.Table.from_batches([whole.batch]),
            "weights": saved.columns(weight=whole.weights_or_ones()),
            "released": saved.numbers(watermark=self.released),
        }

    def load(self, state: State) -> None:
        self.released = saved.number(state["released"], "watermark")
        batch = saved.table_batch(state["rows"], self.schema)
        times, _ = self._close_us(batch)
        self._keep(Delta(batch, saved.array(state["weights"], "weight")), times)

    def explain(self) -> dict[str, str]:
        return {
            "state": "the rows whose window is open",
            "freed": "when the watermark closes their window",
            "detail": "EMIT ON WINDOW CLOSE",
        }


def add_hold_back(build: Builder, source: int) -> int | None:
    """Hold back the rows of a node by its windows, else by its event times; None if it has none."""
    below = build.operator(source)
    judges = not below.closes
    columns = dict(below.closes) or dict.fromkeys(sorted(below.event_times), 1)
    if not columns:
        return None

    def make() -> HoldBack:
        made = HoldBack(below.schema, columns, below.lateness_us, judges)
        move(below, made, {i: [i] for i in range(len(below.schema))})
        made.closes = columns
        made.append_only = True
        return made

    return build.add("hold-back", [source], columns, make, private=True)
