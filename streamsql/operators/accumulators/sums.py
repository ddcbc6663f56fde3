"""SUM and AVG over integers, decimals, intervals, and floats that are never taken back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.errors import NumericValueOutOfRange
from streamsql.core.types import Kind
from streamsql.functions.expressions import AggregateCall
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.accumulators.exact import ExactReal, check_finite, count_rows, finite_or
from streamsql.operators.columns import flat, lane_column, to_arrow
from streamsql.operators.loops import accumulate as loops
from streamsql.operators.loops import wide


class SumSmall(Accumulator):
    """SUM of SMALLINT or INTEGER: 64 bits hold 2^31 rows of any value.

    Algebra:  sum(Z) = sum of weight * x over rows with x not NULL; NULL without such rows.  Linear.
    State:    [count, sum] a group.
    """

    lanes = 2
    exact = True

    def shown_by(self) -> Sequence[tuple[int, bool]]:
        return ((self.at, True), (self.at + 1, False))

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        loops.add_int64(cells, self.at, slots, weights, *flat(column))

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        loops.merge_sums(cells, self.at, slots, part, 2)

    def result(self, cells: Cells) -> pa.Array:
        return lane_column(cells, self.at + 1, self.at, self.type.arrow)


class SumWide(Accumulator):
    """SUM of BIGINT or NUMERIC in 128 bits.

    Algebra:  as SumSmall.  Linear.
    State:    [count, low word, high word] a group.
    Errors:   22003 if the sum has more than 38 digits.
    """

    lanes = 3
    exact = True

    def __init__(self, call: AggregateCall, scale: int, as_decimal: bool) -> None:
        super().__init__(call)
        self.scale = scale
        self.as_decimal = as_decimal
        self._stored = pa.decimal128(38, scale)

    def shown_by(self) -> Sequence[tuple[int, bool]] | None:
        return ((self.at, True), (self.at + 1, False), (self.at + 2, False))

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        memory = flat(column)
        if self.as_decimal:
            address, _, valid, offset = memory
            loops.add_decimal(cells, self.at, slots, weights, address, valid, offset)
        else:
            loops.add_int128(cells, self.at, slots, weights, *memory)

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        loops.merge_sums(cells, self.at, slots, part, 1)
        loops.merge_wide(cells, self.at + 1, slots, part)

    def result(self, cells: Cells) -> pa.Array:
        target = self.type.arrow
        if pa.types.is_integer(target):
            words = np.ascontiguousarray(cells[:, self.at + 1 : self.at + 3])
            return _decimals(words, cells[:, self.at] > 0, target, self.scale)
        n = len(cells)
        buffer = pa.allocate_buffer(16 * n + n // 8 + 1)
        nulls = wide.decimals(cells, self.at, buffer.address, buffer.address + 16 * n)
        if nulls < 0:
            raise NumericValueOutOfRange("value overflows numeric format")
        bits = buffer.slice(16 * n) if nulls else None
        # readers of whole buffers want whole values
        found = pa.Array.from_buffers(self._stored, n, [bits, buffer.slice(0, 16 * n)], nulls)
        return found if self._stored == target else found.cast(target)


class AverageWide(SumWide):
    """AVG of an integer or NUMERIC: exact sum over count, rounded half away from zero.

    Algebra:  avg = sum / count.  Linear in its two parts.
    State:    as SumWide.
    """

    def shown_by(self) -> None:
        return None

    def result(self, cells: Cells) -> pa.Array:
        target = self.type.arrow
        count = np.ascontiguousarray(cells[:, self.at])
        low = np.ascontiguousarray(cells[:, self.at + 1])
        high = np.ascontiguousarray(cells[:, self.at + 2])
        words = np.empty((len(cells), 2), np.int64)
        wide.average(low, high, count, target.scale - self.scale, words)
        return _decimals(words, count > 0, target, target.scale)


class SumInterval(Accumulator):
    """SUM of INTERVAL: months, days and ns apart, as PostgreSQL adds them.

    Algebra:  as SumSmall, field by field.  Linear.
    State:    [count, months, days, ns] a group.
    """

    lanes = 4
    exact = True

    def shown_by(self) -> Sequence[tuple[int, bool]]:
        return ((self.at, True), *((self.at + i, False) for i in range(1, 4)))

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        address, _, valid, offset = flat_wide(column)
        loops.add_interval(cells, self.at, slots, weights, address, valid, offset)

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        loops.merge_sums(cells, self.at, slots, part, 4)

    def result(self, cells: Cells) -> pa.Array:
        months, days = cells[:, self.at + 1], cells[:, self.at + 2]
        words = np.empty((len(cells), 2), np.int64)
        words[:, 0] = (months & 0xFFFFFFFF) | (days << 32)
        words[:, 1] = cells[:, self.at + 3]
        valid = cells[:, self.at] > 0
        words[~valid] = 0
        return to_arrow(words, self.type.arrow, valid)


class SumReal(Accumulator):
    """SUM and AVG of floats whose rows are never taken back: Neumaier's compensated sum.

    Algebra:  sum(Z) over rows with x not NULL; order of rows within the group's input.  Not linear
              in floats: `ExactReal` does it under deletes.
    State:    [count, sum, correction] a group.
    """

    lanes = 3
    retracts = False

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        loops.add_real(cells, cells.view(np.float64), self.at, slots, *flat(column))

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        loops.merge_sums(cells, self.at, slots, part, 1)
        reals = cells.view(np.float64)
        loops.merge_reals(reals, self.at + 1, slots, part.view(np.float64))

    def result(self, cells: Cells) -> pa.Array:
        count = cells[:, self.at]
        reals = np.ascontiguousarray(cells).view(np.float64)
        with np.errstate(all="ignore"):
            total = reals[:, self.at + 1]
            finite = np.isfinite(total)
            total = np.where(finite, total + reals[:, self.at + 2], total)
            if self.call.function == "avg":
                total = total / np.maximum(count, 1)
            return to_arrow(total, self.type.arrow, count > 0)


class CheckedReal(SumReal):
    """`SumReal` that tells a sum that is too large from one with infinities in it.

    State:    [count, sum, correction, values that are NaN or infinite] a group.
    Errors:   NumericValueOutOfRange (22003) for a sum of finite numbers that is not finite.
    """

    lanes = 4

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        super().add(cells, slots, weights, column)
        count_rows(cells, self.at + 3, slots, weights, ~np.isfinite(finite_or(column, 0.0)))

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        super().merge(cells, slots, part)
        loops.merge_sums(cells, self.at + 3, slots, part, 1)

    def result(self, cells: Cells) -> pa.Array:
        found = super().result(cells)
        check_finite(found, cells[:, self.at + 3] == 0)
        return found


def _decimals(
    words: Int64Array, valid: np.ndarray[tuple[int], np.dtype[np.bool_]], target: pa.DataType,
    scale: int,
) -> pa.Array:  # fmt: skip
    """128-bit words [n, 2] of this scale as `target` (a decimal of the same scale, or int64).

    Raises: NumericValueOutOfRange (22003) beyond 38 digits.
    """
    words[~valid] = 0
    if pa.types.is_integer(target):
        if bool((words[:, 1] != words[:, 0] >> 63).any()):
            raise NumericValueOutOfRange("bigint out of range")
        return to_arrow(words[:, 0], target, valid)
    beyond = np.empty(len(words), np.bool_)
    low, high = np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])
    if wide.out_of_range(low, high, beyond):
        raise NumericValueOutOfRange("value overflows numeric format")
    found = to_arrow(words, pa.decimal128(38, scale), valid)
    return found if found.type == target else found.cast(target)


def flat_wide(column: pa.Array) -> tuple[int, int, int, int]:
    """`flat` for month_day_nano intervals, whose Arrow type does not tell its bit width."""
    buffer = column.buffers()[1]
    address = (0 if buffer is None else buffer.address) + 16 * column.offset
    if column.null_count == 0:
        return address, 16, 0, 0
    return address, 16, column.buffers()[0].address, column.offset


def make_sum(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of sum(x) or avg(x), or None if there is none for the type."""
    source = call.args[0].type
    if source.is_float:
        return CheckedReal(call) if append_only else ExactReal(call)
    average = call.function == "avg"
    if source.kind is Kind.NUMERIC or source.is_integer:
        if source.kind in (Kind.SMALLINT, Kind.INTEGER) and not average:
            return SumSmall(call)
        as_decimal = source.kind is Kind.NUMERIC
        scale = source.storage_precision_scale[1] if as_decimal else 0
        return (AverageWide if average else SumWide)(call, scale, as_decimal)
    # of equal intervals that look different only a whole group tells which one counts
    if source.kind is Kind.INTERVAL and not average and not call.distinct:
        return SumInterval(call)
    return None
