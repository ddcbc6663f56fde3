"""VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP (and VARIANCE, STDDEV)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.types import Kind
from streamsql.functions.expressions import AggregateCall
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.accumulators.exact import Digits, add_values
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


class ExactMoments(Accumulator):
    """Variance of values whose rows may be taken back: exact sums of x and of x * x.

    Algebra:  linear: n, sum x, sum x^2; the variance is (n * sum x^2 - (sum x)^2) / n^2 in
    doubled precision.
    State:    [count, NaNs, +inf, -inf, n * variance] a group, and the digits of two sums.
    """

    lanes = 5
    mergeable = False

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.sums, self.squares = Digits(), Digits()

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        column = as_number(column)
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
            nq, nq_rest = _product(count, q)
            ss, ss_rest = _product(s, s)
            top = nq - ss
            rest = _sum_error(nq, -ss, top) + nq_rest - ss_rest + count * q_rest - 2.0 * s * s_rest
            spread = np.maximum(top + rest, 0.0) / np.maximum(count, 1.0)
        cells[touched, self.at + 4] = spread.view(np.int64)

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        raise NotImplementedError("exact sums are not merged")

    def result(self, cells: Cells) -> pa.Array:
        spread = np.ascontiguousarray(cells[:, self.at + 4]).view(np.float64)
        special = (cells[:, self.at + 1 : self.at + 4] > 0).any(axis=1)
        return variance(self.call, cells[:, self.at], np.where(special, np.nan, spread))

    def free(self, slots: Int64Array) -> None:
        self.sums.free(slots)
        self.squares.free(slots)

    def side_rows(self) -> int:
        return self.sums.index.count + self.squares.index.count

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


def as_number(column: pa.Array) -> pa.Array:
    """The column as floats or integers the loops can read."""
    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column


def _product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a * b rounded, what rounding left out): Dekker's product."""
    high = a * b
    a1, b1 = _upper(a), _upper(b)
    a2, b2 = a - a1, b - b1
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


def _upper(a: np.ndarray) -> np.ndarray:
    split = 134217729.0 * a
    return split - (split - a)


def _sum_error(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """What a + b = total left out: Knuth's two-sum."""
    part = total - a
    return (a - (total - part)) + (b - part)


def make_moments(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of a variance, or None if there is none for the type."""
    source = call.args[0].type
    if not (source.is_float or source.is_integer or source.kind is Kind.NUMERIC):
        return None
    return Moments(call) if append_only else ExactMoments(call)
