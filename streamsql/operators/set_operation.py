"""EXCEPT and INTERSECT, with and without ALL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, select
from streamsql.operators.groups import Groups
from streamsql.operators.join_marks import JoinMarks
from streamsql.operators.loops import accumulate as loops
from streamsql.operators.rounds import Rounds, rounds_of
from streamsql.plan import nodes as plan

LEFT, RIGHT = 2, 3
WIDTH = 4


class SetOperation(Operator):
    """Rows of the left input without, or together with, those of the right (EXCEPT, INTERSECT).

    Algebra:  by the counts l, r of each row on both sides: EXCEPT ALL max(l - r, 0); EXCEPT l > 0
    and r = 0;
              INTERSECT ALL min(l, r); INTERSECT l > 0 and r > 0. Non-linear. NULLs are equal here.
    Output:   the change of that number for the rows that were touched; consolidated. What is above
              judges it late by both inputs, as `JoinMarks` says, row by row (`rounds`).
    State:    two counts for every distinct row of either side; freed when both are 0.
    Cost:     O(changed rows).
    Errors:   NegativeWeight (XX001) if a side takes back a row it does not hold.
    """

    consolidates = True

    def __init__(self, schema: Schema, kind: str, keep_all: bool) -> None:
        super().__init__(schema)
        self.kind = kind
        self.keep_all = keep_all
        self.groups = Groups(schema, range(len(schema)), WIDTH)
        self.marks = JoinMarks()
        self.rounds: Rounds | None = None

    @property
    def name(self) -> str:
        return self.kind.capitalize() + (" all" if self.keep_all else "")

    def step(self, step: Step, *deltas: Delta) -> Delta:
        if self.rounds is None:
            return self._changes(*deltas)
        self.marks.begin(step.input_watermarks)
        judged = [self.marks.judged(side, d) for side, d in enumerate(deltas)]
        return self.rounds.run(judged, self._changes)

    def _changes(self, *deltas: Delta) -> Delta:
        sides = []
        for lane, delta in zip((LEFT, RIGHT), deltas, strict=True):
            if delta:
                rows = select(delta.batch, range(len(self.schema)), self.schema)
                slots, _ = self.groups.upsert(rows)
                sides.append((lane, slots, NO_WEIGHTS if delta.weights is None else delta.weights))
        if not sides:
            return Delta.empty(self.schema)
        touched, old = self.groups.touch(np.concatenate([s for _, s, _ in sides]), NO_WEIGHTS)
        for lane, slots, weights in sides:
            loops.count_valid(self.groups.cells, lane, slots, weights, 0, 0)
        new = self.groups.gather(touched)
        if bool((new[:, LEFT:] < 0).any()):
            raise NegativeWeight("a row was taken back that its side does not hold")
        change = self._count(new) - self._count(old)
        rows = np.flatnonzero(change)
        weights = change[rows]
        batch = self.groups.key_rows(touched[rows])
        self.groups.free(touched[(new[:, LEFT] == 0) & (new[:, RIGHT] == 0)])
        plain = bool((weights == 1).all())
        return Delta(batch, None if plain else weights, None, True)

    def _count(self, cells: Cells) -> Int64Array:
        left, right = cells[:, LEFT], cells[:, RIGHT]
        if self.kind == "except":
            if self.keep_all:
                return np.maximum(left - right, 0)
            return ((left > 0) & (right == 0)).astype(np.int64)
        if self.keep_all:
            return np.minimum(left, right)
        return ((left > 0) & (right > 0)).astype(np.int64)

    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        self.marks.note_sources(sources)

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        self.marks.end(inputs)
        return super().advance_watermark(inputs)

    @property
    def replays(self) -> bool:
        return self.rounds is not None and not any(self.marks.others)

    def current(self, *inputs: Delta) -> Delta | None:
        if self.replays and all(d.row_watermark is not None for d in inputs if d):
            again = SetOperation(self.schema, self.kind, self.keep_all)
            again.rounds, again.marks.others = self.rounds, self.marks.others
            return again.step(Step(0, 0), *inputs)
        live = self.groups.live()
        count = self._count(self.groups.gather(live))
        rows = np.flatnonzero(count)
        return Delta(self.groups.key_rows(live[rows]), count[rows], None, True)

    def save(self) -> State:
        return {**self.groups.save(), **self.marks.save()}

    def load(self, state: State) -> None:
        self.groups.load(state)
        self.marks.load(state)

    def state_rows(self) -> int:
        return self.groups.count

    def state_bytes(self) -> int:
        return self.groups.nbytes

    def explain(self) -> dict[str, str]:
        return {
            "state": "two counts for every distinct row",
            "freed": "when neither side has the row",
        }


def lower(node: plan.SetOperation, build: Builder) -> int | None:
    """EXCEPT and INTERSECT."""
    if node.kind not in ("except", "intersect"):
        return None
    inputs = [build.lower(node.left), build.lower(node.right)]
    left, right = (build.operator(i) for i in inputs)

    def make() -> SetOperation:
        made = SetOperation(node.schema, node.kind, node.all)
        made.lateness_us = max(left.lateness_us, right.lateness_us)
        # a row's count is final when neither side changes it any more; both have dropped what is
        # late already
        made.ends = {
            column: max(plus, right.closes[column])
            for column, plus in left.closes.items()
            if column in right.closes
        }
        made.ends_suffice = bool(made.ends)
        made.event_times = left.event_times & right.event_times
        same = {i: i for i in range(len(node.schema))}
        made.rounds = rounds_of(made, [same, same])
        return made

    what = (node.kind, node.all, node.schema)
    return build.add(node.kind, inputs, what, make)
