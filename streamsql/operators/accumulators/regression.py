"""CORR, COVAR_POP, COVAR_SAMP and the REGR_ family: f(Y, X) over pairs of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array
from streamsql.functions.aggregates.overflow import LARGEST
from streamsql.functions.expressions import AggregateCall
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.accumulators.doubled import product, two_sum
from streamsql.operators.accumulators.exact import Digits, add_values, with_specials
from streamsql.operators.accumulators.moments import check_large, count_large, without_large
from streamsql.operators.accumulators.rows import RowAccumulator, expression_column
from streamsql.operators.columns import NO_WEIGHTS, to_arrow

Float64Array = npt.NDArray[np.float64]
NAMES = (
    "corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept",
    "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
)  # fmt: skip
X, Y, XY, VALUES = 0, 4, 8, 12
"""Lanes: [count, NaNs, +inf, -inf] of x, of y and (for nothing) of the products; then settled
values: mean of x, of y, and the sums of products of distances xx, yy, xy; then how many numbers are
not finite, and how many of the others have no square."""


class Regression(RowAccumulator):
    """An aggregate of pairs of which neither number is NULL.

    Algebra:  linear in n and the exact sums of x, y, x * x, y * y, x * y, from which the sums of
              products of distances follow in doubled precision: what is deleted leaves no trace.
    State:    19 numbers a group, and the digits of five sums.
    Errors:   NumericValueOutOfRange (22003) where a finite number is too large.
    """

    lanes = VALUES + 7
    keeps = "exact sums"

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.sums = {name: Digits() for name in ("x", "y", "xx", "yy", "xy")}

    def add_rows(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, batch: pa.RecordBatch
    ) -> None:
        y, x = (expression_column(a, batch) for a in self.call.args)
        if x.null_count or y.null_count:
            kept = np.flatnonzero(np.asarray(pc.and_(x.is_valid(), y.is_valid())))
            index = pa.array(kept)
            x, y, slots = x.take(index), y.take(index), slots[kept]
            weights = weights[kept] if weights.size else weights
        if not slots.size:
            return
        for column in (x, y):
            count_large(cells, self.at + VALUES + 5, slots, weights, column)
        x, y = without_large(x), without_large(y)
        for name, column, lane in (("x", x, X), ("y", y, Y)):
            add_values(self.sums[name], cells, self.at + lane, slots, weights, column,
                       squares=False)  # fmt: skip
            add_values(self.sums[name * 2], cells, self.at + lane, slots, weights, column,
                       squares=True)  # fmt: skip
        a, b = (np.asarray(c, np.float64) for c in (x, y))
        finite = np.flatnonzero((np.abs(a) <= LARGEST) & (np.abs(b) <= LARGEST))
        slots = slots[finite]
        weights = weights[finite] if weights.size else NO_WEIGHTS
        for part in product(a[finite], b[finite]):
            add_values(self.sums["xy"], cells, self.at + XY, slots, weights, pa.array(part),
                       squares=False)  # fmt: skip

    def settle(self, cells: Cells, touched: Int64Array) -> None:
        count = cells[touched, self.at]
        gone = touched[count == 0]
        for sums in self.sums.values():
            sums.free(gone)
        totals = {name: s.totals(touched, rest=True) for name, s in self.sums.items()}
        n = count.astype(np.float64)
        some = np.maximum(n, 1.0)
        with np.errstate(all="ignore"):
            found = [totals["x"][0] / some, totals["y"][0] / some]
            for a, b in ("xx", "yy", "xy"):
                spread = _distances(n, totals[a], totals[b], totals[a + b]) / some
                found.append(spread if a != b else np.maximum(spread, 0.0))
        for k, values in enumerate(found):
            cells[touched, self.at + VALUES + k] = values.view(np.int64)

    def result(self, cells: Cells) -> pa.Array:
        count = cells[:, self.at]
        if self.call.function == "regr_count":
            return to_arrow(count, self.type.arrow)
        settled = np.ascontiguousarray(cells[:, self.at + VALUES : self.at + VALUES + 5])
        mean_x, mean_y, sxx, syy, sxy = settled.view(np.float64).T
        mean_x = with_specials(mean_x, cells, self.at + X)
        mean_y = with_specials(mean_y, cells, self.at + Y)
        odd_x = (cells[:, self.at + X + 1 : self.at + X + 4] > 0).any(axis=1)
        odd_y = (cells[:, self.at + Y + 1 : self.at + Y + 4] > 0).any(axis=1)
        sxx, syy = np.where(odd_x, np.nan, sxx), np.where(odd_y, np.nan, syy)
        sxy = np.where(odd_x | odd_y, np.nan, sxy)
        with np.errstate(all="ignore"):
            value, valid = _FORMULAS[self.call.function](
                count.astype(np.float64), mean_x, mean_y, sxx, syy, sxy
            )
        found = to_arrow(np.where(valid, value, 0.0), self.type.arrow, valid & (count > 0))
        check_large(found, cells, self.at + VALUES + 5)
        return found

    def free(self, slots: Int64Array) -> None:
        for sums in self.sums.values():
            sums.free(slots)

    def side_rows(self) -> int:
        return sum(s.count for s in self.sums.values())

    def side_bytes(self) -> int:
        return sum(s.nbytes for s in self.sums.values())

    def save(self) -> Mapping[str, pa.Table]:
        state: dict[str, pa.Table] = {}
        for name, sums in self.sums.items():
            state |= saved.nest(name, sums.save())
        return state

    def load(self, state: Mapping[str, pa.Table]) -> None:
        for name, sums in self.sums.items():
            sums.load(saved.inner(name, state))


Total = tuple[Float64Array, Float64Array]
"""Sums, and what rounding left out of them."""


def _distances(n: Float64Array, a: Total, b: Total, ab: Total) -> Float64Array:
    """n * sum(a b) - sum(a) * sum(b) in doubled precision: the leading parts cancel."""
    left, left_rest = product(n, ab[0])
    right, right_rest = product(a[0], b[0])
    top, error = two_sum(left, -right)
    rest = error + left_rest - right_rest + n * ab[1]
    rest = rest - a[0] * b[1] - b[0] * a[1]
    found: Float64Array = top + rest
    return found


def _ratio(top: Float64Array, below: Float64Array, valid: np.ndarray) -> tuple[np.ndarray, ...]:
    return top / np.where(valid, below, 1.0), valid


def _always(value: Float64Array) -> tuple[np.ndarray, ...]:
    return value, np.ones(value.size, np.bool_)


Formula = Callable[..., tuple[np.ndarray, ...]]
_FORMULAS: dict[str, Formula] = {
    "corr": lambda n, mx, my, xx, yy, xy: _ratio(
        xy, np.sqrt(xx * yy), (xx != 0) & (yy != 0)
    ),
    "covar_pop": lambda n, mx, my, xx, yy, xy: _ratio(xy, n, n > 0),
    "covar_samp": lambda n, mx, my, xx, yy, xy: _ratio(xy, n - 1, n > 1),
    "regr_avgx": lambda n, mx, my, xx, yy, xy: _always(mx),
    "regr_avgy": lambda n, mx, my, xx, yy, xy: _always(my),
    "regr_sxx": lambda n, mx, my, xx, yy, xy: _always(xx),
    "regr_syy": lambda n, mx, my, xx, yy, xy: _always(yy),
    "regr_sxy": lambda n, mx, my, xx, yy, xy: _always(xy),
    "regr_slope": lambda n, mx, my, xx, yy, xy: _ratio(xy, xx, xx != 0),
    "regr_intercept": lambda n, mx, my, xx, yy, xy: (
        my - mx * (xy / np.where(xx != 0, xx, 1.0)), xx != 0
    ),
    "regr_r2": lambda n, mx, my, xx, yy, xy: (
        np.where(yy == 0, 1.0, (xy * xy) / np.where((xx != 0) & (yy != 0), xx * yy, 1.0)), xx != 0
    ),
}  # fmt: skip


def make_regression(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of an aggregate of pairs of doubles."""
    return Regression(call)
