"""WHERE t > now() - INTERVAL …: rows that enter and leave by the clock alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.errors import NegativeWeight
from streamsql.core.logical_time import END_OF_TIME
from streamsql.core.schema import Schema
from streamsql.functions.expressions import Expr
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.clock_expressions import (
    Condition,
    Moments,
    conditions,
)
from streamsql.operators.clock_keys import reads_clock
from streamsql.operators.columns import BoolArray
from streamsql.operators.event_time import CloseQueue
from streamsql.operators.groups import Groups
from streamsql.operators.map import Map, move
from streamsql.plan import nodes as plan

NEXT, INSIDE, WIDTH = 2, 3, 4
"""Lanes of a waiting row beside weight and stamp: its next moment (µs), whether it is in the
output."""


class TemporalFilter(Map):
    """Keep the rows for which a condition on now() is true (temporal filter).

    Algebra:  filter by a condition that changes with the clock.  Linear in the rows, not in time.
    Input:    delta [n rows]; any weights.
    Output:   the rows that pass now; at a row's moments (where a comparison with now() turns) it
              is put out or taken back.
    State:    the rows whose condition will change again, each with its next moment; freed at the
    last one.
    Cost:     O(changed rows + rows whose moment has come).
    Errors:   as Filter; NegativeWeight (XX001) if a waiting row is taken back too often.
    """

    algebra = Algebra.NON_LINEAR
    rowwise = False

    def __init__(
        self, schema: Schema, predicate: Expr, found: Sequence[Condition], *,
        on_error: str, timezone: str,
    ) -> None:  # fmt: skip
        super().__init__(schema, schema, predicate, None, on_error=on_error, timezone=timezone)
        self.moments = Moments(found, schema, timezone)
        self.waiting = Groups(schema, range(len(schema)), WIDTH, exact=True)
        self.queue = CloseQueue()

    @property
    def name(self) -> str:
        return "Temporal filter"

    def step(self, step: Step, *deltas: Delta) -> Delta:
        parts = [self._wake(step)]
        if deltas[0]:
            parts.append(self._take(step, deltas[0]))
        return concat(parts, self.schema)

    # --- rows that come and go -----------------------------------------------------------------
    def _take(self, step: Step, delta: Delta) -> Delta:
        assert self._predicate is not None
        columns, delta = self._run(self._predicate, step, delta)
        inside = _true(columns[0])
        moments = self.moments.next(delta.batch, step.now_us)
        keep = np.flatnonzero(moments < END_OF_TIME)
        if keep.size:
            self._store(delta.take(keep), inside[keep], moments[keep])
        out = delta.take(np.flatnonzero(inside))
        return Delta(out.batch, out.weights, out.row_watermark, False)

    def _store(self, delta: Delta, inside: BoolArray, moments: Int64Array) -> None:
        slots, new_rows = self.waiting.upsert(delta.batch)
        opened = slots[new_rows]
        self.waiting.cells[opened, NEXT] = moments[new_rows]
        self.waiting.cells[opened, INSIDE] = inside[new_rows]
        self.queue.push(moments[new_rows], opened)
        touched, _ = self.waiting.touch(slots, delta.weights_or_ones())
        weights = self.waiting.cells[touched, 0]
        if bool((weights < 0).any()):
            raise NegativeWeight("a row was taken back that the filter does not hold")
        self.waiting.free(touched[weights == 0])

    # --- the clock -----------------------------------------------------------------------------
    def _wake(self, step: Step) -> Delta:
        """Rows whose moment has come: what changes for them."""
        times, slots = self.queue.pop(step.now_us)
        if not slots.size:
            return Delta.empty(self.schema)
        cells = self.waiting.cells[slots]
        slots = np.unique(slots[(cells[:, 0] > 0) & (cells[:, NEXT] == times)])
        batch = self.waiting.key_rows(slots)
        inside = self._now_inside(step, batch)
        cells = self.waiting.cells[slots]
        change = (inside.astype(np.int64) - cells[:, INSIDE]) * cells[:, 0]
        moments = self.moments.next(batch, step.now_us)
        again = moments < END_OF_TIME
        self.waiting.cells[slots, NEXT] = moments
        self.waiting.cells[slots, INSIDE] = inside
        self.queue.push(moments[again], slots[again])
        self.waiting.free(slots[~again])
        rows = np.flatnonzero(change)
        marks = marks_of_turns(step, rows.size)
        return Delta(batch.take(pa.array(rows)), change[rows], marks)

    def _now_inside(self, step: Step, batch: pa.RecordBatch) -> BoolArray:
        assert self._predicate is not None
        found = self._predicate.run_skipping(
            batch, step.now_us, on_error="null", timezone=self.timezone
        )
        return _true(found.columns[0])

    def next_timer_us(self) -> int | None:
        return self.queue.next_us()

    # --- the rest of the contract --------------------------------------------------------------
    def current(self, *inputs: Delta) -> Delta | None:
        """As of the moment of the last tick a row's state is `INSIDE`; others never change."""
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
        return {
            "state": "rows that will enter or leave by the clock",
            "freed": "when they have left",
            "detail": "temporal filter",
        }


def marks_of_turns(step: Step, count: int) -> Int64Array | None:
    """The watermark that changes by the clock are judged by: that of now. What closed before is
    final, and stays as it was when it closed."""
    watermark = min(step.input_watermarks, default=END_OF_TIME)
    return None if watermark == END_OF_TIME else np.full(count, watermark)


def _true(column: pa.Array) -> BoolArray:
    return np.asarray(column.fill_null(False))


def lower(node: plan.Filter, build: Builder) -> int | None:
    """A filter that compares with now()."""
    if not reads_clock(node.predicate):
        return None
    found = conditions(node.predicate)
    if found is None:
        return None
    source = build.lower(node.input)
    below = build.operator(source)
    options = build.options

    def make() -> Operator:
        made = TemporalFilter(
            below.schema, node.predicate, found,
            on_error=options.on_error, timezone=options.timezone,
        )  # fmt: skip
        move(below, made, {i: [i] for i in range(len(below.schema))})
        made.closes, made.ends = {}, {}  # the clock takes rows of closed windows back
        made.lateness_us = below.lateness_us
        return made

    what = (node.predicate, options.on_error, options.timezone)
    return build.add("temporal", [source], what, make, private=True)
