"""ASOF joins under EMIT ON WINDOW CLOSE: each row once, when its nearest row is known for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import any_null, hash_columns
from streamsql.operators import saved
from streamsql.operators.asof_join import MODES, nearest_text, tie_columns
from streamsql.operators.builder import Builder
from streamsql.operators.event_time import CloseQueue, event_time_column, event_time_us
from streamsql.operators.hold_back import HoldBack
from streamsql.operators.join_condition import NearestJoin
from streamsql.operators.join_marks import JoinMarks
from streamsql.operators.late import is_late, report_late
from streamsql.operators.map import move
from streamsql.operators.timed_rows import COUNT, PART, TimedRows
from streamsql.plan import nodes as plan


class AsofJoinOnClose(Operator):
    """Every left row with the right row nearest before it, once both watermarks have passed it.

    Algebra:  that of AsofJoin over the rows that were on time, restricted to left rows whose time
              both watermarks have passed. Non-linear in time: what was put out is final.
    Input:    two deltas, with row watermarks.
    Output:   left's columns, then right's, in the order of the times; weights > 0.
    State:    left rows that wait; right rows, but those before the nearest one of every time that
              may still be asked for.
    Cost:     O((changed rows + what comes out) x log rows).
    Errors:   rows that both watermarks have passed are late, and dropped.
    """

    needs_time = True
    on_close = True

    def __init__(
        self, schema: Schema, inputs: tuple[Schema, Schema], parts: NearestJoin,
        closes: tuple[int, int], lateness_us: int, *, outer: bool,
    ) -> None:  # fmt: skip
        """closes: µs after the time of a left row, and of a right row, that it is final. A left row
        waits until all right rows that may be nearest are."""
        super().__init__(schema)
        self.inputs = inputs
        self.parts = parts
        self.after = closes
        self.lateness_us = lateness_us
        self.outer = outer
        self.marks = JoinMarks()
        self.origins_of_left: dict[int, tuple[int, int]] = {}
        self._reset()

    def _reset(self) -> None:
        parts = self.parts
        columns = {parts.left_time: max(self.after)}
        self.waiting = HoldBack(self.inputs[0], columns, self.lateness_us, True)
        self.right = TimedRows(self.inputs[1], parts.right_time, tie_columns(self.inputs[1], parts))
        self.keys = HashIndex(reuse=True)
        self.passing = CloseQueue()

    @property
    def name(self) -> str:
        return "AsofLeftJoin" if self.outer else "AsofJoin"

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        a, b = deltas
        watermark = min(step.input_watermarks, default=NO_WATERMARK)
        self.marks.begin(step.input_watermarks)
        if b:
            self._right_changed(self._on_time(step, b))
        self.waiting.origins, self.waiting.port = self.origins_of_left, 0
        inner = replace(step, input_watermarks=(watermark,))
        least = self.marks.least(0, a, filling=step.filling)
        due = self.waiting.step(inner, Delta(a.batch, a.weights, least))
        step.null_event_times = inner.null_event_times
        out = self._put_out(due) if due else Delta.empty(self.schema)
        self._forget(watermark)
        return out

    def _on_time(self, step: Step, b: Delta) -> Delta:
        """Right entries that can match and were not late; late ones are reported."""
        least = self.marks.least(1, b, filling=step.filling)
        times, _ = event_time_us(b.batch.column(self.parts.right_time))
        nulls = any_null(b.batch, [*self.parts.right_keys, self.parts.right_time])
        late = is_late(times + self.after[1], least, self.lateness_us) & ~nulls
        if bool(late.any()):
            judged = Delta(b.batch, b.weights, least)
            report_late(step, self, judged, np.flatnonzero(late), times, self.inputs[1],
                        port=1)  # fmt: skip
        return Delta(b.batch, b.weights).take(np.flatnonzero(~late & ~nulls))

    def _right_changed(self, b: Delta) -> None:
        changed, by, gone = self.right.count(b)
        rows = self.right.rows.key_rows(changed)
        parts, _ = self.keys.upsert_rows(*hash_columns(rows, self.parts.right_keys))
        self.right.enter(changed, parts, by)
        times, _ = event_time_us(rows.column(self.parts.right_time))
        self.passing.push(times + self.lateness_us + self.after[1], parts)
        self.right.rows.free(gone)
        self._free_keys(np.unique(parts[by < 0]))

    def _put_out(self, due: Delta) -> Delta:
        found = self.keys.find(*hash_columns(due.batch, self.parts.left_keys))
        found[any_null(due.batch, list(self.parts.left_keys))] = -1
        times = due.batch.column(self.parts.left_time)
        partner = self.right.nearest(found, times, MODES[self.parts.function])
        chosen = np.arange(partner.size) if self.outer else np.flatnonzero(partner >= 0)
        right = self.right.take(partner[chosen])
        left = due.batch.take(pa.array(chosen))
        columns = [
            *left.columns[: self.parts.left_width],
            *right.columns[: self.parts.right_width],
        ]
        weights = None if due.weights is None else due.weights[chosen]
        return Delta(make_batch(columns, self.schema.arrow, chosen.size), weights)

    # --- freeing -------------------------------------------------------------------------------
    def _forget(self, watermark: int) -> None:
        """Drop right rows before the nearest one of the earliest time that may still come."""
        parts = np.unique(self.passing.pop(watermark)[1])
        if not parts.size:
            return
        # the row that is kept must be final itself: it may not be taken back any more
        reached = watermark - self.lateness_us - max(self.after[0] - 1, self.after[1])
        horizon = event_time_column(np.full(parts.size, reached), self.right.type)
        nearest = self.right.nearest(parts, horizon, MODES[self.parts.function])
        parts = parts[nearest >= 0]
        if not parts.size:
            return
        kept = self.right.times(nearest[nearest >= 0])
        before = self.right.index.rank(parts, [kept, *self._nothing(parts.size)])
        slots = self.right.between(parts, np.zeros(parts.size, np.int64), before)
        cells = self.right.rows.cells
        self.right.enter(slots, cells[slots, PART].copy(), np.full(slots.size, -1))
        cells[slots, COUNT] = 0
        self.right.rows.free(slots)

    def _nothing(self, n: int) -> list[pa.Array]:
        return [pa.nulls(n, column.type) for _, column in self.right.ties]

    def _free_keys(self, parts: Int64Array) -> None:
        self.keys.remove(parts[self.right.index.first(parts) < 0])

    # --- the rest of the contract --------------------------------------------------------------
    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        self.marks.note_sources(sources)

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        self.marks.end(inputs)
        return super().advance_watermark(inputs)

    def save(self) -> State:
        return {
            **saved.nest("waiting", self.waiting.save()),
            **saved.nest("right", self.right.save()),
            **saved.nest("keys", self.keys.save()),
            **self.marks.save(),
        }

    def load(self, state: State) -> None:
        self._reset()
        self.waiting.load(saved.inner("waiting", state))
        self.right.load(saved.inner("right", state))
        self.keys = HashIndex.load(saved.inner("keys", state))
        self.marks.load(state)
        live = self.right.rows.live()
        if live.size:
            times, _ = event_time_us(self.right.times(live))
            self.passing.push(
                times + self.lateness_us + self.after[1], self.right.rows.cells[live, PART].copy()
            )

    def state_rows(self) -> int:
        return self.waiting.state_rows() + self.right.rows.count

    def state_bytes(self) -> int:
        return int(self.waiting.state_bytes() + self.right.nbytes + self.keys.nbytes)

    def explain(self) -> dict[str, str]:
        return {
            "state": "left rows that wait, and the right rows they may be put beside",
            "freed": "when both watermarks have passed a row, and a later one is nearer",
            "detail": nearest_text(self.inputs, self.parts),
        }


def add_on_close(build: Builder, parts: NearestJoin, node: plan.Join) -> int | None:
    """The operator, where the nearest row before a time is asked for and both sides tell when their
    times have passed."""
    if parts.function not in ("ge", "gt"):
        return None
    sources = [build.lower(parts.left), build.lower(parts.right)]
    left, right = (build.operator(s) for s in sources)
    after = (_after(left, parts.left_time), _after(right, parts.right_time))
    if after[0] is None or after[1] is None:
        return None
    closes = (after[0], after[1])
    outer = node.kind == "asof_left"

    def make() -> AsofJoinOnClose:
        lateness = max(left.lateness_us, right.lateness_us)
        made = AsofJoinOnClose(
            node.schema, (left.schema, right.schema), parts, closes, lateness, outer=outer
        )
        made.append_only = True
        made.lateness_us = lateness
        move(left, made, {i: [i] for i in range(parts.left_width)})
        made.origins_of_left = dict(left.origins)
        return made

    keys = (parts.left_keys, parts.right_keys, parts.left_time, parts.right_time, parts.function)
    what = (keys, parts.left_width, parts.right_width, outer, closes)
    return build.add("asof-on-close", sources, what, make, private=True)


def _after(below: Operator, column: int) -> int | None:
    """µs after the column's value that a row is final; None if no watermark speaks of it."""
    if column in below.closes:
        return below.closes[column]
    return 1 + below.delays.get(column, 0) if column in below.event_times else None
