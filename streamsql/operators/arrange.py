"""Arrange: a relation kept for those who look rows up in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.operators.builder import Builder
from streamsql.operators.columns import BoolArray
from streamsql.operators.event_time import event_time_us
from streamsql.operators.late import is_late
from streamsql.operators.map import move
from streamsql.state.arrangement import Arrangement

FREE_FROM = 1024
"""Rows below which nothing is looked for that could be freed."""


class Reader:
    """An input of an operator that looks rows up in an arrangement, and keeps nothing that only
    this one has (row numbers)."""

    arrange: Arrange
    key_id: int

    @property
    def key_columns(self) -> tuple[int, ...]:
        """The columns that it is probed by."""
        raise NotImplementedError

    def move(self, arrange: Arrange) -> None:
        """Look into another arrangement of the same rows from now on."""
        self.arrange = arrange
        self.key_id = arrange.add_reader(self.key_columns)


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

    def __init__(self, schema: Schema, frees: Mapping[int, int] | None = None) -> None:
        """frees: columns, and µs to add to them, that tell when a row is needed no more."""
        super().__init__(schema)
        self.frees = dict(frees or {})
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

    @property
    def exact(self) -> bool:
        return not self.frees

    def has_key(self, columns: Sequence[int]) -> bool:
        """Whether the rows are indexed by these columns."""
        return self._stored.has_key(columns)

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
        open_ = ~closed_rows(rows.batch.column, self.frees, watermark, self.lateness_us)
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

    @property
    def replays(self) -> bool:
        return not self.frees

    def current(self, *inputs: Delta) -> Delta | None:
        if not self.frees and inputs and inputs[0].row_watermark is not None:
            return inputs[0]  # the same rows, and how late each of them was
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


def closed_rows(
    column: Callable[[int], pa.Array], ends: Mapping[int, int], watermark: int, lateness_us: int
) -> BoolArray:
    """bool[n]: of these columns (and µs to add) all that are not NULL are behind the watermark, and
    there is one."""
    known: BoolArray | None = None
    open_: BoolArray | None = None
    for i, plus in ends.items():
        event, valid = event_time_us(column(i))
        late = is_late(event + plus, np.full(event.size, watermark), lateness_us)
        here = np.ones(event.size, np.bool_) if valid is None else valid
        known = here if known is None else known | here
        open_ = here & ~late if open_ is None else open_ | (here & ~late)
    assert known is not None and open_ is not None
    return known & ~open_


def ends_of(operator: Operator) -> dict[int, int]:
    """All columns that tell when a row is final (`Operator.closes` and `.ends`)."""
    return {**operator.ends, **operator.closes}


def same_window(left: Operator, right: Operator, pairs: Iterable[tuple[int, int]]) -> bool:
    """Whether the keys (a column of the left, one of the right) say that two rows are of windows
    that close together."""
    own, there = ends_of(left), ends_of(right)
    return any(a in own and own[a] == there.get(b) for a, b in pairs)


def close_apart(left: Operator, right: Operator, pairs: Iterable[tuple[int, int]]) -> bool:
    """Whether two rows that meet may be of windows that close at different times: what is made of
    them changes until both have closed, and a closed one still meets rows of the other side."""
    return of_windows(left) and of_windows(right) and not same_window(left, right, pairs)


def of_windows(operator: Operator) -> bool:
    """Whether rows change no more once a window has closed, be its end among the columns or not."""
    return operator.lost_ends or bool(ends_of(operator))


def freed_by(
    below: Operator, keys: Sequence[int], other: Operator, other_keys: Sequence[int]
) -> dict[int, int]:
    """What tells when a join needs a row of one side no more: its windows close, and then the join
    drops what would change them; or a window of it is compared with one of the other side, of which
    no row comes any more either."""
    pairs = list(zip(keys, other_keys, strict=True))
    if close_apart(below, other, pairs):
        return {}
    if below.closes:
        return dict(below.closes)
    return ends_of(below) if same_window(below, other, pairs) else {}


def as_long_as(frees: Mapping[int, int], below: Operator, other: Operator) -> dict[int, int]:
    """The same where rows of the other side may come later than an arrangement's own ones."""
    more = max(0, other.lateness_us - below.lateness_us)
    return {column: us + more for column, us in frees.items()}


def add_arrange(build: Builder, source: int, *, frees: Mapping[int, int] | None = None) -> int:
    """The arrangement of a circuit node. frees: see `freed_by`."""
    below = build.operator(source)
    if isinstance(below, Arrange):
        return source

    def make() -> Arrange:
        made = Arrange(below.schema, frees)
        made.append_only = below.append_only
        made.lateness_us = below.lateness_us
        move(below, made, {i: [i] for i in range(len(below.schema))})
        return made

    what = ("frees", sorted(frees.items())) if frees else ()
    return build.add("arrange", [source], what, make, private=bool(frees))
