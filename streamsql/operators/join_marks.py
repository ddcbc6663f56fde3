"""By which watermark the output of a join is judged late."""

from __future__ import annotations

import numpy as np

from streamsql.circuit.operator import State
from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.operators import saved


class JoinMarks:
    """The watermarks of two inputs as a changed row saw them.

    An entry that a row makes is judged by the lesser of its own side's watermark before the row,
    and of the other side's before the tick. So it does not matter how the rows of one relation are
    cut into ticks; rows of two relations in one tick (a transaction) came together, and neither
    sees how far the other one moved its watermark.
    """

    def __init__(self) -> None:
        self.before = (NO_WATERMARK, NO_WATERMARK)
        self.now = (NO_WATERMARK, NO_WATERMARK)

    def begin(self, inputs: tuple[int, ...]) -> None:
        """A tick, after which the inputs' watermarks are these."""
        if len(inputs) == 2:
            self.now = (inputs[0], inputs[1])

    def end(self, inputs: tuple[int, ...]) -> None:
        """The tick is over."""
        self.begin(inputs)
        self.before = self.now

    def of(self, side: int, row_watermark: Int64Array | None, position: Int64Array) -> Int64Array:
        """int64[n] for entries that come of these changed rows of a side (0 = left)."""
        other = self.now[1 - side]
        if other != END_OF_TIME:  # else it never moves
            other = self.before[1 - side]
        if row_watermark is None:
            own = self.now[side] if self.now[side] == END_OF_TIME else self.before[side]
            return np.full(position.size, min(own, other))
        return np.minimum(row_watermark[position], other)

    def save(self) -> State:
        """Both watermarks."""
        return {"marks": saved.numbers(left=self.before[0], right=self.before[1])}

    def load(self, state: State) -> None:
        """Inverse of `save`."""
        if "marks" in state:
            numbers = state["marks"]
            self.before = (saved.number(numbers, "left"), saved.number(numbers, "right"))
            self.now = self.before
