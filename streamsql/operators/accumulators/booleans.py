"""BOOL_AND, BOOL_OR, EVERY."""

from __future__ import annotations

import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.columns import flat, to_arrow
from streamsql.operators.loops import accumulate as loops


class Truth(Accumulator):
    """BOOL_AND is false with any false row, BOOL_OR true with any true row; NULL rows are ignored.

    Algebra:  by counts of true and false rows.  Linear in the counts.
    State:    [true rows, false rows] a group.
    """

    lanes = 2

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        if column.offset & 7:
            column = pa.concat_arrays([column, column.slice(0, 0)])
        address, _, valid, offset = flat(column)
        loops.count_bits(cells, self.at, slots, weights, address, valid, offset)

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        loops.merge_sums(cells, self.at, slots, part, 2)

    def result(self, cells: Cells) -> pa.Array:
        true, false = cells[:, self.at], cells[:, self.at + 1]
        value = true > 0 if self.call.function == "bool_or" else false == 0
        return to_arrow(value, self.type.arrow, (true + false) > 0)
