"""MIN and MAX of fixed-width values whose rows are never taken back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.types import Kind
from streamsql.functions.expressions import AggregateCall
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.columns import flat, to_arrow
from streamsql.operators.loops import accumulate as loops

_WORDS = frozenset({
    Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DATE, Kind.TIME, Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ, Kind.REAL, Kind.DOUBLE,
})  # fmt: skip


class Extreme(Accumulator):
    """The smallest or largest value seen; NULLs are ignored, NaN is above every number.

    Algebra:  max(A + B) = greater of max(A), max(B) while weights are positive.  Not linear.
    State:    [count, value] a group.
    """

    lanes = 2
    retracts = False

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.sign = 1 if call.function == "max" else -1
        self.real = call.args[0].type.is_float

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        fold = loops.extreme_real if self.real else loops.extreme_int
        fold(cells, self.at, slots, self.sign, *flat(column))

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        loops.merge_extreme(cells, self.at, slots, part, self.sign, self.real)

    def result(self, cells: Cells) -> pa.Array:
        values = np.ascontiguousarray(cells[:, self.at + 1])
        if self.real:
            values = values.view(np.float64)
        return to_arrow(values, self.type.arrow, cells[:, self.at] > 0)


def make_extreme(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of min(x) or max(x), or None if there is none for the input."""
    if append_only and call.args[0].type.kind in _WORDS:
        return Extreme(call)
    return None
