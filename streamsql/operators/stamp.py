"""now() in a view outside of a temporal filter: the time at which each row first arrived."""

from __future__ import annotations

import numpy as np

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Column, Schema
from streamsql.core.types import TIMESTAMPTZ
from streamsql.kernels.ordered import FIRST_AT_LEAST, OrderedTree
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import to_arrow
from streamsql.operators.groups import Groups
from streamsql.operators.map import carry
from streamsql.plan import nodes as plan


class Stamp(Operator):
    """Add the clock's time to each row as it arrives (now() in a select list).

    Algebra:  each row with a column more; a retraction finds the time its row came with, the oldest
              first.  Linear but for the choice of the copy.
    Input:    delta [n rows]; any weights.
    Output:   the row's columns, the time; weights kept.
    State:    for an input that only grows none; else every row with its times, freed when rows go.
    Errors:   NegativeWeight (XX001) if a row is taken back that is not there.
    """

    algebra = Algebra.LINEAR

    def __init__(self, input_schema: Schema, keeps: bool) -> None:
        """keeps: rows may be taken back, so their times must be remembered."""
        super().__init__(Schema((*input_schema.columns, Column("now", TIMESTAMPTZ))))
        self.keeps = keeps
        self.rows = Groups(input_schema, range(len(input_schema)), 2, exact=True)
        self.times = OrderedTree(2)

    def step(self, step: Step, *deltas: Delta) -> Delta:
        delta = deltas[0]
        if not delta:
            return Delta.empty(self.schema)
        if not self.keeps:
            return self._stamped(delta, np.full(delta.num_rows, step.now_us))
        slots, _ = self.rows.upsert(delta.batch)
        weights = delta.weights_or_ones()
        touched, _ = self.rows.touch(slots, weights)
        if bool((self.rows.cells[touched, 0] < 0).any()):
            raise NegativeWeight("a row was taken back that is not there")
        came, went = np.flatnonzero(weights > 0), np.flatnonzero(weights < 0)
        parts = [self._stamped(delta.take(came), np.full(came.size, step.now_us))]
        keys = np.column_stack([slots[came], np.full(came.size, step.now_us)])
        self.times.add(keys, weights[came])
        if went.size:
            parts.append(self._taken_back(delta.take(went), slots[went]))
        self.rows.free(touched[self.rows.cells[touched, 0] == 0])
        return concat(parts, self.schema)

    def _taken_back(self, delta: Delta, slots: Int64Array) -> Delta:
        """Retractions with the times their rows came with."""
        left = -delta.weights_or_ones()
        rows = np.arange(delta.num_rows)
        parts = []
        while rows.size:
            # one entry of each row at a time: the same row may be asked for twice in a tick
            _, first = np.unique(slots[rows], return_index=True)
            now = rows[first]
            cursors = self.times.seek(slots[now].reshape(-1, 1), FIRST_AT_LEAST, 1)
            keys, counts = self.times.read(cursors)
            taken = np.minimum(left[now], counts)
            self.times.add(keys, -taken)
            part = delta.take(now)
            stamped = self._stamped(part, keys[:, 1].copy())
            parts.append(Delta(stamped.batch, -taken, part.row_watermark))
            left[now] -= taken
            rows = rows[left[rows] > 0]
        return concat(parts, self.schema)

    def _stamped(self, delta: Delta, times: Int64Array) -> Delta:
        column = to_arrow(times, TIMESTAMPTZ.arrow)
        batch = make_batch([*delta.batch.columns, column], self.schema.arrow, delta.num_rows)
        return Delta(batch, delta.weights, delta.row_watermark, delta.consolidated)

    def current(self, *inputs: Delta) -> Delta | None:
        return None

    def save(self) -> State:
        keys, counts = self.times.dump()
        times = saved.columns(slot=keys[:, 0].copy(), time=keys[:, 1].copy(), count=counts)
        return {**saved.nest("rows", self.rows.save()), "times": times}

    def load(self, state: State) -> None:
        self.rows.load(saved.inner("rows", state))
        slot, time, count = (saved.array(state["times"], n) for n in ("slot", "time", "count"))
        self.times.add(np.column_stack([slot, time]), count)

    def state_rows(self) -> int:
        return self.rows.count

    def state_bytes(self) -> int:
        return self.rows.nbytes + self.times.nbytes

    def explain(self) -> dict[str, str]:
        if not self.keeps:
            return {"detail": "now() as each row arrives"}
        return {
            "state": "every row with the time it arrived",
            "freed": "when the rows go",
            "detail": "now() as each row arrives",
        }


def lower(node: plan.Stamped, build: Builder) -> int:
    """Rows with the time they came."""
    source = build.lower(node.input)
    below = build.operator(source)

    def make() -> Stamp:
        made = Stamp(below.schema, keeps=not below.append_only)
        carry(below, made, None)
        return made

    return build.add("stamp", [source], (), make, private=True)
