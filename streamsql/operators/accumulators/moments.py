"""VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP (and VARIANCE, STDDEV)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array
from streamsql.core.errors import NumericValueOutOfRange
from streamsql.core.types import Kind, SqlType
from streamsql.functions.aggregates.overflow import LARGEST
from streamsql.functions.expressions import AggregateCall
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.accumulators.doubled import (
    Pair,
    decimals,
    divide,
    fits,
    product,
    root,
    two_sum,
)
from streamsql.operators.accumulators.exact import (
    Digits,
    add_values,
    check_finite,
    count_rows,
    finite_or,
)
from streamsql.operators.columns import flat, to_arrow
from streamsql.operators.loops import accumulate as loops

NAMES = frozenset({"var_samp", "var_pop", "variance", "stddev", "stddev_samp", "stddev_pop"})


class Moments(Accumulator):
    """Variance of values whose rows are never taken back: Welford's running mean and M2.

    Algebra:  count, mean and sum of squared distances; partial groups by Chan's rule.  Not linear
    in
              floats: `ExactMoments` does it under deletes.
    State:    [count, mean, M2] a group.
    """

    lanes = 3
    retracts = False

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        column = as_number(column)
        address, width, valid, offset = flat(column)
        if not pa.types.is_floating(column.type):
            width = -width
        if weights.size and bool((weights != 1).any()):  # a bag's copies, one by one
            rows = np.repeat(np.arange(slots.size), weights)
            self.add(cells, slots[rows], np.empty(0, np.int64), column.take(pa.array(rows)))
            return
        loops.add_moments(
            cells, cells.view(np.float64), self.at, slots, address, width, 1.0, valid, offset
        )

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        reals = cells.view(np.float64)
        loops.merge_moments(cells, reals, self.at, slots, part, part.view(np.float64))

    def result(self, cells: Cells) -> pa.Array:
        count = cells[:, self.at]
        spread = np.ascontiguousarray(cells[:, self.at + 2]).view(np.float64)
        return variance(self.call, count, spread)


class CheckedMoments(Moments):
    """`Moments` that tells numbers without a square from infinities.

    State:    [count, mean, M2, values that are NaN or infinite, values beyond LARGEST] a group.
    Errors:   NumericValueOutOfRange (22003) where a finite number is too large.
    """

    lanes = 5

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        super().add(cells, slots, weights, column)
        count_large(cells, self.at + 3, slots, weights, column)

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        super().merge(cells, slots, part)
        loops.merge_sums(cells, self.at + 3, slots, part, 2)

    def result(self, cells: Cells) -> pa.Array:
        found = super().result(cells)
        check_large(found, cells, self.at + 3)
        return found


def count_large(
    cells: Cells, lane: int, slots: Int64Array, weights: Int64Array, column: pa.Array
) -> None:
    """Count values that are not finite, and behind that finite ones that are too large."""
    if not pa.types.is_floating(column.type):
        return
    values = np.abs(finite_or(column, 0.0))
    finite = np.isfinite(values)
    count_rows(cells, lane, slots, weights, ~finite)
    if column.type == pa.float64():  # no REAL is that large
        count_rows(cells, lane + 1, slots, weights, finite & (values > LARGEST))


def check_large(found: pa.Array, cells: Cells, lane: int) -> None:
    """Raises: NumericValueOutOfRange (22003) for a result of finite numbers that are too large."""
    plain = cells[:, lane] <= 0
    large = plain & (cells[:, lane + 1] > 0) & np.asarray(found.is_valid())
    if bool(large.any()):
        raise NumericValueOutOfRange("value out of range: overflow")
    check_finite(found, plain)


class ExactMoments(Accumulator):
    """Variance of values whose rows may be taken back, and of exact numbers: sums of x and x * x.

    Algebra:  linear: n, sum x, sum x^2, all exact; the variance is (n * sum x^2 - (sum x)^2) / n^2
              in doubled precision, so that integers and NUMERIC have all digits that are shown.
    State:    [count, NaNs, +inf, -inf, n * variance and what it leaves out, values that are not
              finite, those beyond LARGEST] a group, and the digits of two sums.
    Errors:   NumericValueOutOfRange (22003) where a finite number is too large.
    """

    lanes = 8
    mergeable = False
    keeps = "exact sums"

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.sums, self.squares = Digits(), Digits()
        self.unit = 10.0 ** -exact_scale(call.args[0].type)

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        column = unscaled(column, self.call.args[0].type)
        count_large(cells, self.at + 6, slots, weights, column)
        column = without_large(column)
        add_values(self.sums, cells, self.at, slots, weights, column, squares=False)
        add_values(self.squares, cells, self.at, slots, weights, column, squares=True)

    def settle(self, cells: Cells, touched: Int64Array) -> None:
        gone = touched[cells[touched, self.at] == 0]
        self.sums.free(gone)
        self.squares.free(gone)
        count = cells[touched, self.at].astype(np.float64)
        s, s_rest = self.sums.totals(touched, rest=True)
        q, q_rest = self.squares.totals(touched, rest=True)
        with np.errstate(all="ignore"):
            # n * q - s * s in doubled precision: the leading parts cancel, the rests remain
            nq, nq_rest = product(count, q)
            ss, ss_rest = product(s, s)
            top, error = two_sum(nq, -ss)
            rest = error + nq_rest - ss_rest + count * q_rest - 2.0 * s * s_rest
            spread = divide(two_sum(top, rest), np.maximum(count, 1.0))
        cells[touched, self.at + 4] = spread[0].view(np.int64)
        cells[touched, self.at + 5] = spread[1].view(np.int64)

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        raise NotImplementedError("exact sums are not merged")

    def result(self, cells: Cells) -> pa.Array:
        count = cells[:, self.at]
        high = np.ascontiguousarray(cells[:, self.at + 4]).view(np.float64)
        low = np.ascontiguousarray(cells[:, self.at + 5]).view(np.float64)
        if pa.types.is_decimal(self.call.type.arrow):
            found = exact_variance(self.call, count, (high, low), self.unit)
            if found is not None:
                return found
        special = (cells[:, self.at + 1 : self.at + 4] > 0).any(axis=1)
        spread = np.where(special, np.nan, high * self.unit * self.unit)
        result = variance(self.call, count, spread)
        if self.call.args[0].type.is_float:
            check_large(result, cells, self.at + 6)
        return result

    def free(self, slots: Int64Array) -> None:
        self.sums.free(slots)
        self.squares.free(slots)

    def side_rows(self) -> int:
        return self.sums.count + self.squares.count

    def side_bytes(self) -> int:
        return self.sums.nbytes + self.squares.nbytes

    def save(self) -> Mapping[str, pa.Table]:
        return {
            **saved.nest("sums", self.sums.save()),
            **saved.nest("squares", self.squares.save()),
        }

    def load(self, state: Mapping[str, pa.Table]) -> None:
        self.sums.load(saved.inner("sums", state))
        self.squares.load(saved.inner("squares", state))


def variance(call: AggregateCall, count: Int64Array, spread: np.ndarray) -> pa.Array:
    """The result from n and the sum of squared distances from the mean."""
    sample = not call.function.endswith("_pop")
    least = 2 if sample else 1
    with np.errstate(all="ignore"):
        value = np.maximum(spread, 0.0) / np.maximum(count - (1 if sample else 0), 1)
        value = np.where(np.isnan(spread), np.nan, value)
        if call.function.startswith("stddev"):
            value = np.sqrt(value)
    valid = count >= least
    found = to_arrow(np.where(valid, value, 0.0), pa.float64(), valid)
    target = call.type.arrow
    if pa.types.is_decimal(target):
        return found.cast(target, safe=False)
    return found if found.type == target else found.cast(target)


def exact_variance(
    call: AggregateCall, count: Int64Array, spread: Pair, unit: float
) -> pa.Array | None:
    """`variance` of exact numbers in units of `unit`, all digits right; None if it is too large."""
    sample = not call.function.endswith("_pop")
    valid = count >= (2 if sample else 1)
    zero = ~valid | (spread[0] <= 0.0)
    spread = (np.where(zero, 0.0, spread[0]), np.where(zero, 0.0, spread[1]))
    rows = np.maximum(count - (1 if sample else 0), 1).astype(np.float64)
    found = divide(spread, rows * (1.0 / unit))
    found = divide(found, np.full(count.size, 1.0 / unit))
    if call.function.startswith("stddev"):
        found = root(found)
    if not fits(found):
        return None
    target = call.type.arrow
    made = decimals(found, target.scale).cast(target)
    return pc.if_else(pa.array(valid), made, pa.scalar(None, target))


def without_large(column: pa.Array) -> pa.Array:
    """The column with 0 for finite floats that have no square: what they would give is an error."""
    if column.type != pa.float64():
        return column
    values = finite_or(column, 0.0)
    large = np.isfinite(values) & (np.abs(values) > LARGEST)
    return (
        pc.if_else(pa.array(large), pa.scalar(0.0, column.type), column) if large.any() else column
    )


def exact_scale(type_: SqlType) -> int:
    """Decimals of a NUMERIC whose unscaled integers the loops add exactly; else 0."""
    return type_.scale or 0 if _unscaled(type_) else 0


def _unscaled(type_: SqlType) -> bool:
    arrow = type_.arrow
    # as in a plain query: of more digits the squares have no room in 38
    return bool(pa.types.is_decimal(arrow)) and 2 * arrow.precision <= 28


def unscaled(column: pa.Array, type_: SqlType) -> pa.Array:
    """The column as floats or integers the loops can read; NUMERIC in units of its last digit."""
    if _unscaled(type_):
        arrow = pa.decimal128(type_.arrow.precision, 0)
        return column.view(arrow).cast(pa.int64())
    return as_number(column)


def as_number(column: pa.Array) -> pa.Array:
    """The column as floats or integers the loops can read."""
    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column


def make_moments(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of a variance, or None if there is none for the type."""
    source = call.args[0].type
    if not (source.is_float or source.is_integer or source.kind is Kind.NUMERIC):
        return None
    return CheckedMoments(call) if append_only and source.is_float else ExactMoments(call)
