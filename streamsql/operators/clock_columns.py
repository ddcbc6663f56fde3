"""Conditions on now() as columns of their rows: whoever reads them need not know of the clock."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.errors import NegativeWeight
from streamsql.core.logical_time import END_OF_TIME
from streamsql.core.schema import Schema
from streamsql.core.types import BOOLEAN
from streamsql.functions.expressions import Expr
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.clock_expressions import Condition, Moments, conditions
from streamsql.operators.columns import to_arrow
from streamsql.operators.event_time import CloseQueue
from streamsql.operators.groups import Groups
from streamsql.operators.map import Map, move
from streamsql.operators.temporal_filter import marks_of_turns
from streamsql.plan import nodes as plan

NEXT, TRUTH = 2, 3
"""Lanes of a waiting row beside weight and stamp: its next moment (µs); then the conditions."""
UNKNOWN = 2  # a condition that is NULL


class ClockColumns(Map):
    """Add a column for each condition on now() that turns by the clock (ON, CASE, FILTER, EXISTS).

    Algebra:  each row with columns more; when one of its conditions turns, the row is taken back
              and put out anew.  Linear in the rows, not in time.
    Input:    delta [n rows]; any weights.
    Output:   the row's columns, one BOOLEAN a condition.
    State:    the rows with a condition that will turn again: the next moment and the columns as
              put out; freed at the last turn.
    Cost:     O(changed rows + rows whose moment has come).
    Errors:   as Project; NegativeWeight (XX001) if a waiting row is taken back too often.
    """

    algebra = Algebra.NON_LINEAR
    rowwise = False

    def __init__(
        self, schema: Schema, input_schema: Schema, exprs: Sequence[Expr],
        found: Sequence[Condition], *, on_error: str, timezone: str,
    ) -> None:  # fmt: skip
        super().__init__(schema, input_schema, None, exprs, on_error=on_error, timezone=timezone)
        self.moments = Moments(found, input_schema, timezone)
        width = TRUTH + len(exprs)
        self.waiting = Groups(input_schema, range(len(input_schema)), width, exact=True)
        self.queue = CloseQueue()

    @property
    def name(self) -> str:
        return "Clock columns"

    def step(self, step: Step, *deltas: Delta) -> Delta:
        parts = [self._wake(step)]
        if deltas[0]:
            parts.append(self._take(step, deltas[0]))
        return concat(parts, self.schema)

    def _take(self, step: Step, delta: Delta) -> Delta:
        assert self._outputs is not None
        columns, delta = self._run(self._outputs, step, delta)
        if not delta:
            return Delta.empty(self.schema)
        truth = _truth(columns)
        moments = self.moments.next(delta.batch, step.now_us)
        keep = np.flatnonzero(moments < END_OF_TIME)
        if keep.size:
            self._store(delta.take(keep), truth[keep], moments[keep])
        return self._with(delta.batch, truth, delta.weights_or_ones(), delta.row_watermark)

    def _with(
        self, rows: pa.RecordBatch, truth: Int64Array, weights: Int64Array,
        row_watermark: Int64Array | None = None,
    ) -> Delta:  # fmt: skip
        """Rows with their conditions [n, k] as columns."""
        columns = [
            to_arrow(truth[:, k] == 1, BOOLEAN.arrow, truth[:, k] != UNKNOWN)
            for k in range(truth.shape[1])
        ]
        batch = make_batch([*rows.columns, *columns], self.schema.arrow, rows.num_rows)
        return Delta(batch, weights, row_watermark)

    def _store(self, delta: Delta, truth: Int64Array, moments: Int64Array) -> None:
        slots, new_rows = self.waiting.upsert(delta.batch)
        opened = slots[new_rows]
        self.waiting.cells[opened, NEXT] = moments[new_rows]
        self.waiting.cells[opened, TRUTH:] = truth[new_rows]
        self.queue.push(moments[new_rows], opened)
        touched, _ = self.waiting.touch(slots, delta.weights_or_ones())
        weights = self.waiting.cells[touched, 0]
        if bool((weights < 0).any()):
            raise NegativeWeight("a row was taken back that waits for no turn of the clock")
        self.waiting.free(touched[weights == 0])

    def _wake(self, step: Step) -> Delta:
        """Rows whose moment has come, as they were and as they are."""
        times, slots = self.queue.pop(step.now_us)
        if not slots.size:
            return Delta.empty(self.schema)
        cells = self.waiting.cells[slots]
        slots = np.unique(slots[(cells[:, 0] > 0) & (cells[:, NEXT] == times)])
        batch = self.waiting.key_rows(slots)
        assert self._outputs is not None
        found = self._outputs.run_skipping(
            batch, step.now_us, on_error="null", timezone=self.timezone
        )
        now, cells = _truth(found.columns), self.waiting.cells[slots]
        weights, before = cells[:, 0], cells[:, TRUTH:]
        turned = np.flatnonzero((now != before).any(axis=1))
        moments = self.moments.next(batch, step.now_us)
        again = moments < END_OF_TIME
        self.waiting.cells[slots, NEXT] = moments
        self.waiting.cells[slots, TRUTH:] = now
        self.queue.push(moments[again], slots[again])
        self.waiting.free(slots[~again])
        rows = batch.take(pa.array(turned))
        marks = marks_of_turns(step, turned.size)
        gone = self._with(rows, before[turned], -weights[turned], marks)
        return concat([gone, self._with(rows, now[turned], weights[turned], marks)], self.schema)

    def next_timer_us(self) -> int | None:
        return self.queue.next_us()

    def current(self, *inputs: Delta) -> Delta | None:
        """As of the moment of the last tick, which is not known here."""
        return None

    def save(self) -> State:
        return {**saved.nest("bad", super().save()), **saved.nest("rows", self.waiting.save())}

    def load(self, state: State) -> None:
        super().load(saved.inner("bad", state))
        self.waiting.load(saved.inner("rows", state))
        live = self.waiting.live()
        self.queue.push(self.waiting.cells[live, NEXT], live)

    def state_rows(self) -> int:
        return self.waiting.count

    def state_bytes(self) -> int:
        return self.waiting.nbytes

    def explain(self) -> dict[str, str]:
        from streamsql.plan.render import render

        listed = ", ".join(render(e, self.input_schema) for e in self.exprs or ())
        return {
            "state": "rows with a condition that turns by the clock",
            "freed": "when it has turned for the last time",
            "detail": listed,
        }


def _truth(columns: Sequence[pa.Array]) -> Int64Array:
    """int64 [n, k]: 1 = TRUE, 0 = FALSE, UNKNOWN = NULL."""
    lanes = []
    for column in columns:
        lane = np.asarray(column.fill_null(False)).astype(np.int64)
        if column.null_count:
            lane[np.asarray(column.is_null())] = UNKNOWN
        lanes.append(lane)
    return np.column_stack(lanes)


def lower(node: plan.ClockColumns, build: Builder) -> int:
    """Rows with the conditions that others read."""
    source = build.lower(node.input)
    below = build.operator(source)
    options = build.options
    found = [c for e in node.conditions for c in conditions(e) or ()]

    def make() -> Operator:
        made = ClockColumns(
            node.schema, below.schema, node.conditions, list(dict.fromkeys(found)),
            on_error=options.on_error, timezone=options.timezone,
        )  # fmt: skip
        move(below, made, {i: [i] for i in range(len(below.schema))})
        made.closes, made.ends = {}, {}  # the clock takes rows of closed windows back
        made.lateness_us = below.lateness_us
        return made

    what = (node.conditions, options.on_error, options.timezone)
    return build.add("clock", [source], what, make, private=True)
