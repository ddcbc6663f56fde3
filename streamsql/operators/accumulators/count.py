"""COUNT(*) and COUNT(x)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.columns import flat, lane_column
from streamsql.operators.loops import accumulate as loops


class CountRows(Accumulator):
    """COUNT(*) without a filter: the group's own row count, lane 0.

    Algebra:  count(Z) = sum of weights.  Linear.
    State:    none of its own.
    """

    lanes = 0
    exact = True

    def shown_by(self) -> Sequence[tuple[int, bool]]:
        return ((0, False),)

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        return None

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        return None

    def result(self, cells: Cells) -> pa.Array:
        return lane_column(cells, 0, -1, self.type.arrow)


class Count(Accumulator):
    """COUNT(x): rows where x is not NULL; also COUNT(*) FILTER (…), COUNT(DISTINCT x).

    Algebra:  count(Z) = sum of weights over rows with x not NULL.  Linear.
    State:    one number a group.
    """

    exact = True

    def shown_by(self) -> Sequence[tuple[int, bool]]:
        return ((self.at, False),)

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        valid, offset = (0, 0) if column is None else validity(column)
        loops.count_valid(cells, self.at, slots, weights, valid, offset)

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        loops.merge_sums(cells, self.at, slots, part, 1)

    def result(self, cells: Cells) -> pa.Array:
        return lane_column(cells, self.at, -1, self.type.arrow)


def validity(column: pa.Array) -> tuple[int, int]:
    """(address of the validity bitmap or 0, first bit) of a column of any type."""
    if column.null_count == 0:
        return 0, 0
    if pa.types.is_null(column.type):
        return flat(pa.nulls(len(column), pa.int8()))[2:]
    return column.buffers()[0].address, column.offset
