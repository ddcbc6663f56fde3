"""BIT_AND, BIT_OR, BIT_XOR."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.functions.expressions import AggregateCall
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.columns import flat, to_arrow
from streamsql.operators.loops import accumulate as loops
from streamsql.operators.loops import bitwise


class BitCounts(Accumulator):
    """BIT_AND and BIT_OR of values that may be taken back.

    Algebra:  a bit is set in all rows, or in any, by how many rows have it set.  Linear.
    State:    the number of rows and one count a bit, for each group.
    """

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.bits = call.type.arrow.bit_width
        self.lanes = 1 + self.bits

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        bitwise.count_bits_set(cells, self.at, self.bits, slots, weights, *flat(column))

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        loops.merge_sums(cells, self.at, slots, part, self.lanes)

    def result(self, cells: Cells) -> pa.Array:
        rows = cells[:, self.at]
        counts = cells[:, self.at + 1 : self.at + 1 + self.bits]
        chosen = counts > 0 if self.call.function == "bit_or" else counts == rows[:, None]
        places = np.left_shift(np.int64(1), np.arange(self.bits))
        places[-1] = -(2 ** (self.bits - 1))
        words = (chosen * places).sum(axis=1, dtype=np.int64)
        return to_arrow(words, self.type.arrow, rows > 0)


class BitParity(Accumulator):
    """BIT_XOR.

    Algebra:  a value that comes an even number of times leaves no trace.  Linear over bits.
    State:    [rows, XOR of the values] a group.
    """

    lanes = 2

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        bitwise.toggle_bits(cells, self.at, slots, weights, *flat(column))

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        bitwise.merge_toggled(cells, self.at, slots, part)

    def result(self, cells: Cells) -> pa.Array:
        return to_arrow(cells[:, self.at + 1], self.type.arrow, cells[:, self.at] > 0)


def make_bits(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of a bitwise aggregate."""
    return BitParity(call) if call.function == "bit_xor" else BitCounts(call)
