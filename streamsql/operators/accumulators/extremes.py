"""MIN and MAX: one value while rows only come, an ordered multiset when they may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array, ones
from streamsql.core.types import Kind
from streamsql.functions.expressions import AggregateCall, Expr
from streamsql.kernels.hashing import hash_arrays
from streamsql.kernels.order_keys import OrderColumn, can_order, floats_of
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.accumulators.ordered_values import OrderedValues
from streamsql.operators.columns import flat, lane_column, to_arrow
from streamsql.operators.loops import accumulate as loops
from streamsql.state.column_store import ColumnStore
from streamsql.state.ordered_index import OrderedIndex

SPARE_ROWS = 4096
"""Old values kept before they are swept."""

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
    exact = True

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.sign = 1 if call.function == "max" else -1
        self.real = call.args[0].type.is_float

    def shown_by(self) -> Sequence[tuple[int, bool]]:
        return ((self.at, True), (self.at + 1, False))

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        fold = loops.extreme_real if self.real else loops.extreme_int
        fold(cells, self.at, slots, self.sign, *flat(column))

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        loops.merge_extreme(cells, self.at, slots, part, self.sign, self.real)

    def result(self, cells: Cells) -> pa.Array:
        if not self.real:
            return lane_column(cells, self.at + 1, self.at, self.type.arrow)
        values = np.ascontiguousarray(cells[:, self.at + 1]).view(np.float64)
        return to_arrow(values, self.type.arrow, cells[:, self.at] > 0)


class Multiset(OrderedValues, Accumulator):
    """What MIN and MAX share where values may be taken back.

    Algebra:  the first or last of the values that are left.  Not linear.
    State:    [count, what is shown] a group; `held`: (group, value) -> count in order.
    Cost:     O(log values) a row.
    """

    lanes = 2
    mergeable = False
    keeps = "its values in order"

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        type_ = call.args[0].type.arrow
        self.held = OrderedIndex([OrderColumn(type_, not_null=True)])
        self.latest = call.function == "max"

    def ordered_value(self) -> Expr | None:
        return self.call.args[0]

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        if column.null_count:
            kept = np.flatnonzero(np.asarray(column.is_valid()))
            column, slots = column.take(pa.array(kept)), slots[kept]
            weights = weights[kept] if weights.size else weights
        if weights.size > 1 and bool((weights < 0).any()):
            # a value may be taken back before it comes, within one tick
            order = np.argsort(weights < 0, kind="stable")
            slots, weights, column = slots[order], weights[order], column.take(pa.array(order))
        self._count(cells, slots, weights, column)

    def _count(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array
    ) -> None:
        """Take in values that are not NULL, those that come first."""
        loops.count_valid(cells, self.at, slots, weights, 0, 0)
        if not self.follows:
            self.held.add(slots, [column], weights if weights.size else ones(slots.size))

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        raise NotImplementedError("ordered multisets are not merged")

    def free(self, slots: Int64Array) -> None:
        if self.held.entries and not self.follows:
            self.held.remove_groups(slots)

    def side_rows(self) -> int:
        return 0 if self.follows else self.held.entries

    def side_bytes(self) -> int:
        return 0 if self.follows else self.held.nbytes

    def save(self) -> Mapping[str, pa.Table]:
        return {} if self.follows else saved.nest("values", self.held.save())

    def load(self, state: Mapping[str, pa.Table]) -> None:
        if not self.follows:
            self.held.load(saved.inner("values", state))


class OrderedWord(Multiset):
    """MIN and MAX under deletes of numbers, dates and times: the cell holds the value's word.

    State:    [count, word] a group, beside `held`, which is asked only where a value went that is
              the one shown.
    """

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.real = call.args[0].type.is_float
        self.sign = 1 if self.latest else -1
        self._stale: list[Int64Array] = []

    def shown_by(self) -> Sequence[tuple[int, bool]]:
        return ((self.at, True), (self.at + 1, False))

    def _count(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array
    ) -> None:
        keys = self.held.keys(slots, [column])
        stale = np.empty(slots.size, np.int64)
        found = loops.extreme_word(cells, self.at, slots, weights, keys, self.sign, stale)
        if found:
            self._stale.append(stale[:found])
        if not self.follows:
            self.held.add_keys(keys, weights if weights.size else ones(slots.size))

    def settle(self, cells: Cells, touched: Int64Array) -> None:
        if self._stale:
            stale = np.unique(np.concatenate(self._stale))
            self._stale.clear()
            words, _ = self.held.end_words(stale, self.latest)
            loops.scatter(cells, self.at + 1, stale, words)

    def result(self, cells: Cells) -> pa.Array:
        if not self.real:
            return lane_column(cells, self.at + 1, self.at, self.type.arrow)
        words = np.ascontiguousarray(cells[:, self.at + 1])
        return to_arrow(floats_of(words), self.type.arrow, cells[:, self.at] > 0)


class OrderedExtreme(Multiset):
    """MIN and MAX under deletes of text, NUMERIC, intervals.

    State:    [count, reference] a group, beside `held`; `shown`: the value each group
              shows now, which the reference names.
    """

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        type_ = call.args[0].type.arrow
        self.shown = ColumnStore(pa.schema([("c0", type_)]))

    def shown_by(self) -> Sequence[tuple[int, bool]]:
        return ((self.at + 1, False),)

    def settle(self, cells: Cells, touched: Int64Array) -> None:
        find = self.held.last if self.latest else self.held.first
        found = self.held.read(find(touched))
        there = np.flatnonzero(found.counts > 0)
        new = found.values[0].take(pa.array(there))
        held = cells[touched[there], self.at + 1]
        before = self.shown.take(held - 1, negative=True).column(0)
        a, b = hash_arrays([new], exact=True), hash_arrays([before], exact=True)
        differs = (a[0] != b[0]) | (a[1] != b[1]) | (held == 0)
        cells[touched[found.counts <= 0], self.at + 1] = 0
        if not bool(differs.any()):
            return
        fresh = new.take(pa.array(np.flatnonzero(differs)))
        base = self.shown.append(pa.record_batch([fresh], schema=self.shown.schema))
        cells[touched[there[differs]], self.at + 1] = base + 1 + np.arange(len(fresh))

    def tidy(self, cells: Cells) -> None:
        if not self._is_full():
            return
        held = int(np.count_nonzero(cells[:, self.at + 1]))
        if self.shown.num_rows > 2 * held:
            slots = np.flatnonzero(cells[:, self.at + 1])
            self.shown.rebuild(cells[slots, self.at + 1] - 1)
            cells[slots, self.at + 1] = 1 + np.arange(slots.size)
        self._looked_at = self.shown.num_rows

    def _is_full(self) -> bool:
        return self.shown.num_rows > 2 * self._looked_at + SPARE_ROWS

    _looked_at = 0

    def result(self, cells: Cells) -> pa.Array:
        rows = cells[:, self.at + 1] - 1
        found = self.shown.take(rows, negative=True).column(0)
        return found if found.type == self.type.arrow else found.cast(self.type.arrow)

    def side_bytes(self) -> int:
        return super().side_bytes() + self.shown.nbytes

    def save(self) -> Mapping[str, pa.Table]:
        return {**super().save(), "shown": self.shown.table()}

    def load(self, state: Mapping[str, pa.Table]) -> None:
        super().load(state)
        for batch in state["shown"].to_batches():
            self.shown.append(batch)


def make_extreme(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of min(x) or max(x), or None if its type has no order."""
    source = call.args[0].type
    if append_only and source.kind in _WORDS:
        return Extreme(call)
    if source.kind in _WORDS:
        return OrderedWord(call)
    # an index gives back how long an interval is, not how it was written; see `optimizer.ties`
    known = can_order(source.arrow) and source.kind is not Kind.INTERVAL
    return OrderedExtreme(call) if known else None
