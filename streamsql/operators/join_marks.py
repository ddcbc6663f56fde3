"""By which watermark the output of a join or a UNION is judged late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from streamsql.circuit.operator import State
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.kernels.hashing import hash_rows
from streamsql.operators import saved

BoolArray = npt.NDArray[np.bool_]


class JoinMarks:
    """The watermarks of the inputs as a changed row saw them.

    An entry that a row makes is judged by the least of its own input's watermark before the row,
    and of the others' before the tick. So it does not matter how the rows of one relation are cut
    into ticks; rows of two relations in one tick (a transaction) came together, and neither
    sees how far the other one moved its watermark. Of two rows that both changed the later one
    made the pair: else it could be taken back before it is there. An input that reads nothing but
    what the row's own one reads too (a self join, branches of a UNION over one table) is never
    behind that.

    Of a tick that changes both sides of a join that takes them one after the other, what goes is
    over before anything comes (so that no pair is taken back that was too late to be put out), and
    what comes from a side without watermark is there before what comes from the other one, whose
    rows say themselves how late they are.
    """

    def __init__(self, inputs: int = 2) -> None:
        self.before = (NO_WATERMARK,) * inputs
        self.now = self.before
        self.others = tuple(tuple(j for j in range(inputs) if j != i) for i in range(inputs))

    one_clock = False
    """Whether rows that have watermarks say all of how late what they make is: no input that has
    one waits for another."""

    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        """sources: of each input, the nodes from which its watermark comes."""
        self.others = tuple(
            tuple(j for j, theirs in enumerate(sources) if j != i and not theirs <= own)
            for i, own in enumerate(sources)
        )
        self.one_clock = not any(o for o, own in zip(self.others, sources, strict=True) if own)

    def begin(self, inputs: tuple[int, ...]) -> None:
        """A tick, after which the inputs' watermarks are these."""
        if len(inputs) == len(self.now):
            self.now = inputs

    def end(self, inputs: tuple[int, ...]) -> None:
        """The tick is over."""
        self.begin(inputs)
        self.before = self.now

    @contextmanager
    def retelling(self) -> Iterator[None]:
        """What is told a new reader came in one tick, the first, as it does to a new node: no row
        is late by what another input knows of time by now."""
        before, self.before = self.before, (NO_WATERMARK,) * len(self.before)
        try:
            yield
        finally:
            self.before = before

    def of_others(self, side: int) -> int:
        """How far the inputs beside this one were before the tick; those that have no watermark
        never hold back."""
        known = (END_OF_TIME if self.now[j] == END_OF_TIME else self.before[j]
                 for j in self.others[side])  # fmt: skip
        return min(known, default=END_OF_TIME)

    def in_order(self, deltas: Sequence[Delta], judged: bool) -> Iterator[tuple[int, Delta]]:
        """The changes of both sides of a join, one after the other: (side, its changes). judged:
        whether what they make has a watermark."""
        first = int(self.now[0] != END_OF_TIME == self.now[1])
        order = (first, 1 - first)
        if not judged or not all(deltas) or all(d.weights is None for d in deltas):
            yield from ((side, deltas[side]) for side in order if deltas[side])
            return
        goes = [only_goes(d) for d in deltas]
        for side in order:
            if bool(goes[side].any()):
                yield side, deltas[side].take(np.flatnonzero(goes[side]))
        for side in order:
            if not bool(goes[side].all()):
                yield side, deltas[side].take(np.flatnonzero(~goes[side]))

    def of(self, side: int, row_watermark: Int64Array | None, position: Int64Array) -> Int64Array:
        """int64[n] for entries that come of these changed rows of a side (0 = left)."""
        other = self.of_others(side)
        if row_watermark is None:
            own = self.now[side] if self.now[side] == END_OF_TIME else self.before[side]
            return np.full(position.size, min(own, other))
        return np.minimum(row_watermark[position], other)

    def last(self, side: int, row_watermark: Int64Array | None) -> int:
        """The greatest of the marks `of` gives for all changed rows of a side (there is one)."""
        at = np.zeros(1, np.int64) if row_watermark is None else np.argmax(row_watermark).reshape(1)
        return int(self.of(side, row_watermark, at)[0])

    def least(self, side: int, delta: Delta, *, filling: bool) -> Int64Array:
        """int64[n]: the least of all inputs' watermarks when each entry of one came, by which the
        join itself judges it. filling: all that came so far comes at once, and how far the others
        were is not known: they are taken to have been where they are now. So rows that were late
        stay late, and are late too that came while another input was behind and is not any more."""
        known = (self.now[j] for j in self.others[side])
        others = min(known, default=END_OF_TIME) if filling else self.of_others(side)
        marks = delta.row_watermark
        if marks is None:
            marks = np.full(delta.num_rows, self.before[side])
        return np.minimum(marks, others)

    def judged(self, side: int, delta: Delta) -> Delta:
        """An input's entries under the marks of what is made of them; as they are where they have
        none."""
        marks, others = delta.row_watermark, self.of_others(side)
        if marks is None or others == END_OF_TIME:
            return delta
        return Delta(delta.batch, delta.weights, np.minimum(marks, others), delta.consolidated)

    def save(self) -> State:
        """The watermarks before the next tick."""
        return {"marks": saved.columns(before=np.array(self.before, np.int64))}

    def load(self, state: State) -> None:
        """Inverse of `save`."""
        if "marks" in state:
            self.before = tuple(saved.array(state["marks"], "before").tolist())
            self.now = self.before


def only_goes(delta: Delta) -> BoolArray:
    """Entries of rows that are taken back and do not come as well, bool[n]."""
    negative: BoolArray = delta.weights_or_ones() < 0
    if not bool(negative.any()) or bool(negative.all()):
        return negative
    lanes = hash_rows(delta.batch)
    _, row = np.unique(np.column_stack(lanes), axis=0, return_inverse=True)
    comes = np.zeros(delta.num_rows, np.bool_)
    comes[row[~negative]] = True
    return ~comes[row]
