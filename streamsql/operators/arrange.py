"""Arrange: a relation kept for those who look rows up in it."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.operators.builder import Builder
from streamsql.operators.event_time import event_time_us
from streamsql.operators.late import is_late
from streamsql.operators.map import move
from streamsql.state.arrangement import Arrangement

FREE_FROM = 1024
"""Rows below which nothing is looked for that could be freed."""


class Arrange(Operator):
    """Keep the rows of a relation, indexed by the keys that joins and others probe.

    Algebra:  the identity; beside it the sum of all deltas so far.  Linear.
    Output:   the delta, unchanged. The stored rows change only when the tick is over (`commit`), so
              that every reader of one tick sees the rows as they were before it.
    State:    one entry a distinct row and one a key; shared by all operators that need this
              relation; freed when the rows go. With `frees`: also rows of windows that are closed
              for every reader, which would drop what they match.
    Cost:     O(changed rows); freeing looks at all rows each time they have doubled.
    Errors:   NegativeWeight (XX001) if a row is taken back that is not there.
    """

    algebra = Algebra.LINEAR

    def __init__(self, schema: Schema, frees: bool = False) -> None:
        super().__init__(schema)
        self.frees = frees
        self.passed: WeakKeyDictionary[Operator, int] = WeakKeyDictionary()
        """The watermark up to which each reader is done with closed windows."""
        self._kept = FREE_FROM
        self._stored = Arrangement(schema)
        self._nothing = Arrangement(schema)
        self.readers = 0
        self._pending: list[Delta] = []

    @property
    def rows(self) -> Arrangement:
        """The rows as they were before this tick."""
        return self._nothing if self.given_whole else self._stored

    def add_reader(self, columns: Sequence[int]) -> int:
        """Index the rows by these columns for one more operator; the key id for `rows.probe`."""
        self.readers += 1
        self._nothing.add_key(columns)
        return self._stored.add_key(columns)

    def step(self, step: Step, *deltas: Delta) -> Delta:
        if deltas[0]:
            self._pending.append(deltas[0])
        return deltas[0]

    def commit(self) -> None:
        self.take_in()
        if self.frees and self._stored.live_rows >= 2 * self._kept:
            self._free_closed()

    def _free_closed(self) -> None:
        """Forget the rows of windows that every reader has seen closing."""
        watermark = min(self.passed.values(), default=NO_WATERMARK)
        rows = self._stored.contents()
        open_ = np.zeros(rows.num_rows, np.bool_)
        for column, plus in self.closes.items():
            event, valid = event_time_us(rows.batch.column(column))
            late = is_late(event + plus, np.full(event.size, watermark), self.lateness_us)
            open_ |= ~late if valid is None else ~late & valid
        if not bool(open_.all()):
            self._stored.clear()
            self._stored.apply(rows.take(np.flatnonzero(open_)))
        self._kept = max(FREE_FROM, self._stored.live_rows)

    def take_in(self) -> Int64Array | None:
        """Take the tick's delta in now, which its only reader may ask for; the row number of each
        entry, or None if entries were added up."""
        if not self._pending:
            return None
        delta = concat(self._pending, self.schema)
        self._pending.clear()
        applied = self._stored.apply(delta)
        return applied.rows if applied.delta is delta else None

    @property
    def appends(self) -> bool:
        """Whether the tick's delta only adds rows, which will be stored as they come."""
        return all(d.weights is None for d in self._pending)

    def current(self, *inputs: Delta) -> Delta | None:
        return self._stored.contents()

    def save(self) -> State:
        return self._stored.save()

    def load(self, state: State) -> None:
        self._stored.load(state)

    def state_rows(self) -> int:
        return self._stored.live_rows

    def state_bytes(self) -> int:
        return self._stored.nbytes

    def explain(self) -> dict[str, str]:
        freed = "when the watermark closes their window, or the rows go"
        return {
            "state": "every row, and an index for each key",
            "freed": freed if self.frees else "when the rows go",
        }


def add_arrange(build: Builder, source: int, *, frees: bool = False) -> int:
    """The arrangement of a circuit node. frees: its readers are joins that drop what would change
    a closed window, and so need no rows of one."""
    below = build.operator(source)
    if isinstance(below, Arrange):
        return source
    frees = frees and bool(below.closes)

    def make() -> Arrange:
        made = Arrange(below.schema, frees)
        made.append_only = below.append_only
        made.lateness_us = below.lateness_us
        move(below, made, {i: [i] for i in range(len(below.schema))})
        return made

    what = ("frees",) if frees else ()
    return build.add("arrange", [source], what, make, private=frees)
