"""PERCENTILE_CONT, PERCENTILE_DISC, MEDIAN and MODE: values of a group by their place in order, or
by how often they occur."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.types import Kind, SqlType
from streamsql.functions.expressions import AggregateCall, Expr, Literal
from streamsql.kernels.order_keys import OrderColumn, can_order
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.accumulators.doubled import product, two_sum
from streamsql.operators.accumulators.ordered_values import OrderedValues
from streamsql.operators.accumulators.rows import Remembered, expression_column, positive_first
from streamsql.state.ordered_index import OrderedIndex

Float64Array = npt.NDArray[np.float64]

NEAR_ROWS = 64  # rows of a group that are walked instead of looked for by their places


class Sorted(OrderedValues, Remembered):
    """An aggregate of the sorted values of a group; NULLs are passed over.

    State:    (group, value) -> count, in order; freed with the value's last row.
    Cost:     O(log values) a changed row and a value that is read.
    """

    keeps = "its values in order"

    def __init__(self, call: AggregateCall, value: Expr, *, descending: bool = False) -> None:
        super().__init__(call)
        self.value = value
        type_ = value.type.arrow
        self.held = OrderedIndex([OrderColumn(type_, descending=descending, not_null=True)])

    def add_rows(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, batch: pa.RecordBatch
    ) -> None:
        if self.follows:
            return
        values = expression_column(self.value, batch)
        if values.null_count:
            kept = np.flatnonzero(np.asarray(values.is_valid()))
            values, slots = values.take(pa.array(kept)), slots[kept]
            weights = weights[kept] if weights.size else weights
        if slots.size:
            slots, weights, (values,) = positive_first(slots, weights, [values])
            self.take_in(slots, values, weights)

    def take_in(self, slots: Int64Array, values: pa.Array, weights: Int64Array) -> None:
        """Count values in and out; no NULLs, arrivals first."""
        self.held.add(slots, [values], weights)

    def free(self, slots: Int64Array) -> None:
        if self.held.entries and not self.follows:
            self.held.remove_groups(slots)

    def side_rows(self) -> int:
        return 0 if self.follows else self.held.entries

    def side_bytes(self) -> int:
        return self.printed.nbytes + (0 if self.follows else self.held.nbytes)

    def save_rows(self) -> Mapping[str, pa.Table]:
        return {} if self.follows else self.held.save()

    def load_rows(self, state: Mapping[str, pa.Table]) -> None:
        if not self.follows:
            self.held.load(state)


class Percentile(Sorted):
    """PERCENTILE_CONT, PERCENTILE_DISC and MEDIAN, of one fraction or an array of them.

    Algebra:  the value at the fraction's place among the sorted values; CONT goes between two.
              Not linear.
    """

    def __init__(self, call: AggregateCall) -> None:
        key = call.order_by[0] if call.order_by else None
        down = key is not None and key.descending
        self.continuous = call.function != "percentile_disc"
        value = key.expr if key is not None else call.args[0]
        super().__init__(call, value, descending=down and not self.continuous)
        given: tuple[float | None, ...] | None = (0.5,)
        self.many = False
        if key is not None:
            direct = call.args[0]
            assert isinstance(direct, Literal)
            self.many = isinstance(direct.value, tuple | list)
            given = direct.value if self.many else (direct.value,)
        if self.continuous and down:
            given = tuple(None if f is None else 1 - f for f in given or ())
        self.given = given or ()
        self.backwards = down
        self.ascending = self.continuous or not down

    def ordered_value(self) -> Expr | None:
        return self.value if self.ascending else None

    def values(self, groups: Int64Array) -> pa.Array:
        rows = _RowsByPlace(self.held, groups)
        sizes = rows.sizes
        asked = np.array([np.nan if f is None else f for f in self.given], np.float64)
        n = np.repeat(sizes, asked.size).astype(np.float64)
        fraction = np.tile(asked, groups.size)
        which = np.repeat(np.arange(groups.size), asked.size)
        ask = (n > 0) & ~np.isnan(fraction)
        find = self._between if self.continuous else self._at
        found = find(rows, which[ask], fraction[ask], n[ask])
        place = np.where(ask, np.cumsum(ask) - 1, -1)
        flat = found.take(pa.array(place, mask=~ask))
        if not self.many:
            return flat if flat.type == self.type.arrow else flat.cast(self.type.arrow)
        offsets = np.arange(groups.size + 1, dtype=np.int32) * np.int32(asked.size)
        empty = pa.array(sizes == 0)
        return pa.ListArray.from_arrays(pa.array(offsets), flat, type=self.type.arrow, mask=empty)

    def _at(
        self, rows: _RowsByPlace, which: Int64Array, fraction: Float64Array, n: Float64Array
    ) -> pa.Array:
        """The value at ceil(fraction * n), counted as DuckDB does."""
        if self.backwards:
            place = np.maximum(np.ceil(fraction * n), 1.0) - 1
        else:
            place = np.maximum(n - np.floor(n - fraction * n), 1.0) - 1
        return rows.values(which, place)

    def _between(
        self, rows: _RowsByPlace, which: Int64Array, fraction: Float64Array, n: Float64Array
    ) -> pa.Array:
        """The value at fraction * (n - 1), between its two neighbours."""
        place = (n - 1) * fraction
        below, above = np.floor(place), np.ceil(place)
        low = np.asarray(rows.values(which, below), np.float64)
        high = np.asarray(rows.values(which, above), np.float64)
        return pa.array(np.where(below == above, low, interpolated(low, high, place - below)))


class _RowsByPlace:
    """The rows of some groups by their places: one way down the tree leads to all rows of a small
    group; only of a large one is each place looked for.

    sizes: rows of each group, int64[n].
    """

    def __init__(self, held: OrderedIndex, groups: Int64Array) -> None:
        self._held, self._groups = held, groups
        order = np.argsort(groups)
        found = held.heads(groups[order], np.zeros(groups.size, np.int64), NEAR_ROWS + 1)
        self._cursors = found.cursors
        self._first = np.empty(groups.size, np.int64)
        self._first[order] = np.cumsum(found.lengths) - found.lengths
        self.sizes = np.empty(groups.size, np.int64)
        self.sizes[order] = found.lengths
        self._far = self.sizes > NEAR_ROWS
        if self._far.any():
            self.sizes[self._far] = held.size(groups[self._far])

    def values(self, which: Int64Array, places: Float64Array) -> pa.Array:
        """The values at these places (from 0) of groups, told by their positions."""
        at, far = places.astype(np.int64), self._far[which]
        cursors = np.empty(which.size, np.int64)
        cursors[~far] = self._cursors[self._first[which[~far]] + at[~far]]
        if far.any():
            cursors[far] = self._held.nth(self._groups[which[far]], at[far])
        return self._held.read(cursors).values[0]


class Mode(Sorted):
    """MODE(): the most frequent value; of equally frequent ones the first in order.

    Algebra:  arg max of the counts.  Not linear.
    State:    as `Sorted`, and the same values in the order of their counts.
    """

    def __init__(self, call: AggregateCall) -> None:
        key = call.order_by[0]
        super().__init__(call, key.expr, descending=key.descending)
        by_count = OrderColumn(pa.int64(), descending=True, not_null=True)
        value = OrderColumn(key.expr.type.arrow, descending=key.descending, not_null=True)
        self.ranked = OrderedIndex([by_count, value])

    def take_in(self, slots: Int64Array, values: pa.Array, weights: Int64Array) -> None:
        old, new = self.held.add(slots, [values], weights)
        # entry by entry: out with the old count, in with the new one
        counts = np.stack([old, new], axis=1).reshape(-1)
        signs = np.tile(np.array([-1, 1], np.int64), slots.size)
        kept = np.flatnonzero(counts > 0)
        rows = kept >> 1
        moved = values.take(pa.array(rows))
        self.ranked.add(slots[rows], [pa.array(counts[kept]), moved], signs[kept])

    def values(self, groups: Int64Array) -> pa.Array:
        found = self.ranked.read(self.ranked.first(groups))
        there = found.counts > 0
        index = pa.array(np.arange(groups.size), mask=~there)
        best = found.values[1].take(index)
        return best if best.type == self.type.arrow else best.cast(self.type.arrow)

    def free(self, slots: Int64Array) -> None:
        super().free(slots)
        if self.ranked.entries:
            self.ranked.remove_groups(slots)

    def side_bytes(self) -> int:
        return super().side_bytes() + self.ranked.nbytes

    def save_rows(self) -> Mapping[str, pa.Table]:
        return {
            **saved.nest("held", self.held.save()),
            **saved.nest("ranked", self.ranked.save()),
        }

    def load_rows(self, state: Mapping[str, pa.Table]) -> None:
        self.held.load(saved.inner("held", state))
        self.ranked.load(saved.inner("ranked", state))


def interpolated(low: Float64Array, high: Float64Array, part: Float64Array) -> Float64Array:
    """low * (1 - part) + high * part, its first product not rounded: bit for bit what DuckDB's
    quantile_cont gives, so that a view is equal to its query."""
    with np.errstate(all="ignore"):
        first, error = product(low, 1.0 - part)
        total, rest = two_sum(first, high * part)
        exact: Float64Array = total + (error + rest)
        return np.where(np.isfinite(exact), exact, total)


def make_percentile(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of a percentile with constant fractions, over values with an order."""
    if call.order_by:
        direct = call.args[0]
        if len(call.order_by) > 1 or not isinstance(direct, Literal):
            return None
        value = call.order_by[0].expr
    else:
        value = call.args[0]
    if call.function != "percentile_disc" and not value.type.is_float:
        return None
    return Percentile(call) if _comes_back(value.type) else None


def make_mode(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of mode() over values with an order."""
    if len(call.order_by) != 1 or not _comes_back(call.order_by[0].expr.type):
        return None
    return Mode(call)


def _comes_back(type_: SqlType) -> bool:
    """Whether an ordered index gives out the values it was given: of an interval it keeps how long
    it is ('1 month' would come back as '30 days')."""
    return can_order(type_.arrow) and type_.kind is not Kind.INTERVAL
