"""EXCEPT and INTERSECT, with and without ALL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, select
from streamsql.operators.event_time import CloseQueue, event_time_us
from streamsql.operators.groups import Groups
from streamsql.operators.join_marks import JoinMarks
from streamsql.operators.loops import accumulate as loops
from streamsql.operators.on_time_rule import Rule, judged_by_marks, rule_of
from streamsql.operators.rounds import Rounds, rounds_of
from streamsql.plan import nodes as plan

LEFT, RIGHT, CLOSE = 2, 3, 4
WIDTH = 5


class SetOperation(Operator):
    """Rows of the left input without, or together with, those of the right (EXCEPT, INTERSECT).

    Algebra:  by the counts l, r of each row on both sides: EXCEPT ALL max(l - r, 0); EXCEPT l > 0
    and r = 0;
              INTERSECT ALL min(l, r); INTERSECT l > 0 and r > 0. Non-linear. NULLs are equal here.
    Output:   the change of that number for the rows that were touched; consolidated. What is above
              judges it late by both inputs, as `JoinMarks` says, row by row (`rounds`).
    State:    two counts for every distinct row of either side; freed when both are 0. Below a time
              window (`rule`): also when the windows above that the row is in have closed; what is
              late for all of these is dropped and reported, as by `OnTime`, under those watermarks.
    Cost:     O(changed rows).
    Errors:   NegativeWeight (XX001) if a side takes back a row it does not hold.
    """

    consolidates = True

    def __init__(self, schema: Schema, kind: str, keep_all: bool, rule: Rule | None = None) -> None:
        super().__init__(schema)
        self.kind = kind
        self.keep_all = keep_all
        self.groups = Groups(schema, range(len(schema)), WIDTH)
        self.marks = JoinMarks()
        self.rounds: Rounds | None = None
        self.rule = rule
        self.needs_time = rule is not None
        self.closing = CloseQueue()
        self.input_origins: Mapping[tuple[int, int], tuple[int, int]] = {}  # by (side, column)

    @property
    def name(self) -> str:
        return self.kind.capitalize() + (" all" if self.keep_all else "")

    def step(self, step: Step, *deltas: Delta) -> Delta:
        if self.rounds is None:
            return self._changes(*deltas)
        self.marks.begin(step.input_watermarks)
        judged = [self.marks.judged(side, d) for side, d in enumerate(deltas)]
        if self.rule is None:
            return self.rounds.run(judged, self._changes)
        out = self.rounds.run(
            [self._on_time(step, side, d) for side, d in enumerate(judged)], self._changes
        )
        self._free_closed(min(step.input_watermarks))
        return out

    def _on_time(self, step: Step, side: int, delta: Delta) -> Delta:
        if self.rule is None or not delta.num_rows:
            return delta
        origins = {i: at for (own, i), at in self.input_origins.items() if own == side}
        return self.rule.on_time(step, self, delta, self.schema, origins, side)

    def _free_closed(self, watermark: int) -> None:
        """Forget the rows whose windows above have closed."""
        times, slots = self.closing.pop(watermark)
        if slots.size:
            held = self.groups.cells[slots]
            there = (held[:, LEFT] > 0) | (held[:, RIGHT] > 0)
            self.groups.free(slots[there & (held[:, CLOSE] == times)])

    def _note_closing(self, rows: pa.RecordBatch, opened: Int64Array, slots: Int64Array) -> None:
        """Remember when the rows are needed no more that came for the first time."""
        assert self.rule is not None
        column = self.rule.time_column
        times, _ = event_time_us(rows.column(column).take(pa.array(opened)))
        times = times + (self.useless[column] + self.lateness_us)
        self.groups.cells[slots[opened], CLOSE] = times
        self.closing.push(times, slots[opened])

    def _changes(self, *deltas: Delta) -> Delta:
        sides = []
        for lane, delta in zip((LEFT, RIGHT), deltas, strict=True):
            if delta:
                rows = select(delta.batch, range(len(self.schema)), self.schema)
                slots, opened = self.groups.upsert(rows)
                if self.rule is not None and opened.size:
                    self._note_closing(rows, opened, slots)
                sides.append((lane, slots, NO_WEIGHTS if delta.weights is None else delta.weights))
        if not sides:
            return Delta.empty(self.schema)
        touched, old = self.groups.touch(np.concatenate([s for _, s, _ in sides]), NO_WEIGHTS)
        for lane, slots, weights in sides:
            loops.count_valid(self.groups.cells, lane, slots, weights, 0, 0)
        new = self.groups.gather(touched)
        if bool((new[:, LEFT : RIGHT + 1] < 0).any()):
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
        if self.rule is not None:
            live = self.groups.live()
            self.closing.push(self.groups.cells[live, CLOSE], live)

    def state_rows(self) -> int:
        return self.groups.count

    def state_bytes(self) -> int:
        return self.groups.nbytes

    def explain(self) -> dict[str, str]:
        return {
            "state": "two counts for every distinct row",
            "freed": "when neither side has the row"
            if self.rule is None
            else "when the watermark closes the windows above that the row is in",
        }


def lower(node: plan.SetOperation, build: Builder, above: plan.OnTime | None = None) -> int | None:
    """EXCEPT and INTERSECT. above: rows that are late for its windows are left out."""
    if node.kind not in ("except", "intersect"):
        return None
    inputs = [build.lower(node.left), build.lower(node.right)]
    left, right = (build.operator(i) for i in inputs)
    lateness_us = max(left.lateness_us, right.lateness_us)
    rule: Rule | None = None
    if above is not None and all(judged_by_marks(o, above.time_column) for o in (left, right)):
        rule = rule_of(above, lateness_us)

    def make() -> SetOperation:
        made = SetOperation(node.schema, node.kind, node.all, rule)
        made.lateness_us = lateness_us
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
        if rule is not None:
            made.useless = {rule.time_column: rule.plus_us}
            made.input_origins = {
                (i, c): at for i, o in enumerate((left, right)) for c, at in o.origins.items()
            }
        return made

    what: tuple[object, ...] = (node.kind, node.all, node.schema)
    if rule is not None:
        what = (*what, rule)
    return build.add(node.kind, inputs, what, make, private=rule is not None)
