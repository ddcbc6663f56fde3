"""Rows whose conditions on now() will turn: what temporal filters and clock columns share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.errors import NegativeWeight
from streamsql.core.logical_time import END_OF_TIME
from streamsql.core.schema import Schema
from streamsql.operators import saved
from streamsql.operators.clock_expressions import Moments
from streamsql.operators.event_time import CloseQueue
from streamsql.operators.groups import Groups
from streamsql.operators.map import Map, move

NEXT, TRUTH = 2, 3
"""Lanes of a waiting row beside weight and stamp: its next moment (µs); then the conditions."""


class ClockRows:
    """The rows with a condition that will turn again: the next moment and what it was last time.

    conditions: how many there are. Rows are freed at their last turn, or when they go.
    """

    def __init__(self, schema: Schema, moments: Moments, conditions: int) -> None:
        self.moments = moments
        self.waiting = Groups(schema, range(len(schema)), TRUTH + conditions, exact=True)
        self.queue = CloseQueue()

    def take(self, delta: Delta, truth: Int64Array, now_us: int) -> None:
        """Rows come and go. truth: int64 [n, conditions], as of now.

        Raises: NegativeWeight (XX001) if a row is taken back too often.
        """
        moments = self.moments.next(delta.batch, now_us)
        keep = np.flatnonzero(moments < END_OF_TIME)
        if not keep.size:
            return
        delta, truth, moments = delta.take(keep), truth[keep], moments[keep]
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

    def due(self, now_us: int) -> Int64Array:
        """Slots of the rows whose moment has come, each once."""
        times, slots = self.queue.pop(now_us)
        cells = self.waiting.cells[slots]
        return np.unique(slots[(cells[:, 0] > 0) & (cells[:, NEXT] == times)])

    def turn(
        self, slots: Int64Array, rows: pa.RecordBatch, truth: Int64Array, now_us: int
    ) -> tuple[Int64Array, Int64Array]:
        """(before int64 [n, conditions], weights int64 [n]): what due rows were, now that they are
        `truth`; they wait for their next moments."""
        cells = self.waiting.cells[slots]
        moments = self.moments.next(rows, now_us)
        again = moments < END_OF_TIME
        self.waiting.cells[slots, NEXT] = moments
        self.waiting.cells[slots, TRUTH:] = truth
        self.queue.push(moments[again], slots[again])
        self.waiting.free(slots[~again])
        return cells[:, TRUTH:], cells[:, 0]

    def load(self, state: State) -> None:
        """Continue with what `waiting.save()` gave."""
        self.waiting.load(state)
        live = self.waiting.live()
        self.queue.push(self.waiting.cells[live, NEXT], live)


class ByTheClock(Map):
    """A map whose rows change by the clock alone. rows: those that will change again."""

    algebra = Algebra.NON_LINEAR
    rowwise = False
    rows: ClockRows

    def step(self, step: Step, *deltas: Delta) -> Delta:
        parts = [self._wake(step)]
        if deltas[0]:
            parts.append(self._take(step, deltas[0]))
        return concat(parts, self.schema)

    def _wake(self, step: Step) -> Delta:
        slots = self.rows.due(step.now_us)
        if not slots.size:
            return Delta.empty(self.schema)
        return self._turned(step, slots, self.rows.waiting.key_rows(slots))

    def _turned(self, step: Step, slots: Int64Array, rows: pa.RecordBatch) -> Delta:
        """What changes for rows whose moment has come."""
        raise NotImplementedError

    def _take(self, step: Step, delta: Delta) -> Delta:
        """What rows give that come and go."""
        raise NotImplementedError

    def next_timer_us(self) -> int | None:
        return self.rows.queue.next_us()

    def current(self, *inputs: Delta) -> Delta | None:
        """As of the moment of the last tick, which is not known here."""
        return None

    def save(self) -> State:
        return {**saved.nest("bad", super().save()), **saved.nest("rows", self.rows.waiting.save())}

    def load(self, state: State) -> None:
        super().load(saved.inner("bad", state))
        self.rows.load(saved.inner("rows", state))

    def state_rows(self) -> int:
        return self.rows.waiting.count

    def state_bytes(self) -> int:
        return self.rows.waiting.nbytes


def clock_facts(below: Operator, made: ByTheClock) -> None:
    """What is known of the input's columns, which come first in the output."""
    move(below, made, {i: [i] for i in range(len(below.schema))})
    made.closes, made.ends = {}, {}  # the clock takes rows of closed windows back
    made.lateness_us = below.lateness_us


def marks_of_turns(step: Step, count: int) -> Int64Array | None:
    """The watermark that changes by the clock are judged by: that of now. What closed before is
    final, and stays as it was when it closed."""
    watermark = min(step.input_watermarks, default=END_OF_TIME)
    return None if watermark == END_OF_TIME else np.full(count, watermark)
