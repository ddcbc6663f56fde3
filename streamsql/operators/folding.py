"""Folding a delta's rows into the cells of their groups, aggregate by aggregate.

Shared by every operator that aggregates: GROUP BY, HOP panes, sessions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import State
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.errors import InvariantViolation
from streamsql.functions.expressions import AggregateCall, ColumnRef, Expr
from streamsql.operators import saved
from streamsql.operators.accumulators import Accumulator, make
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.accumulators.count import CountRows
from streamsql.operators.accumulators.ordered_values import OrderedValues
from streamsql.operators.accumulators.rows import RowAccumulator, expression_column
from streamsql.operators.columns import NO_WEIGHTS
from streamsql.operators.distinct_values import DistinctValues

COUNT_LANE, STAMP_LANE, CLOSE_LANE = 0, 1, 2
"""Lanes every group has: rows, stamp of the tick that touched it last, close time (µs) or 0."""
FIRST_FREE_LANE = 3
NEEDS_NO_DISTINCT = frozenset({
    "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "first_value", "last_value",
    "any_value", "arg_min", "arg_max",
})  # fmt: skip
ALWAYS_DISTINCT = frozenset({"approx_count_distinct"})


class Folding:
    """The accumulators of one Aggregate node, and what stands in front of them (FILTER,
    DISTINCT)."""

    def __init__(self, calls: Sequence[AggregateCall], accumulators: Sequence[Accumulator]) -> None:
        self.calls = tuple(calls)
        self.accumulators = made = tuple(accumulators)
        lane = FIRST_FREE_LANE
        for accumulator in self.accumulators:
            accumulator.at = lane
            lane += accumulator.lanes
        self.width = lane
        self._share_values()
        self.retracts = all(a.retracts for a in self.accumulators)
        self.prints_count = any(isinstance(a, CountRows) for a in self.accumulators)
        self._distinct: dict[tuple[Expr, ...], DistinctValues] = {}
        for call in self.calls:
            key = distinct_key(call)
            if key is not None and key not in self._distinct:
                self._distinct[key] = DistinctValues()
        self.mergeable = not self._distinct and all(a.mergeable for a in self.accumulators)
        self.exact = self.mergeable and all(a.exact for a in self.accumulators)
        self.layout = tuple(type(a).__name__ for a in self.accumulators)
        self.shown = self._shown()
        self._arguments = self._plain_arguments()
        self._settling = [a for a in made if type(a).settle is not Accumulator.settle]
        self._tidying = [a for a in made if type(a).tidy is not Accumulator.tidy]
        self._freeing = [a for a in made if type(a).free is not Accumulator.free]

    def _share_values(self) -> None:
        """Accumulators over the same value of the same rows keep its order once: MIN and MAX of one
        argument, percentiles of one column."""
        first: dict[tuple[object, ...], OrderedValues] = {}
        for call, accumulator in zip(self.calls, self.accumulators, strict=True):
            if not isinstance(accumulator, OrderedValues):
                continue
            value = accumulator.ordered_value()
            if value is None:
                continue
            owner = first.setdefault((value, call.filter, distinct_key(call)), accumulator)
            if owner is not accumulator:
                accumulator.follow(owner)

    def _shown(self) -> Int64Array | None:
        """What tells two states of a group apart by what they print, int64[k, 2]: (lane, whether
        only its being above 0 counts); None if only the printed row can tell."""
        found: list[tuple[int, bool]] = []
        for accumulator in self.accumulators:
            lanes = accumulator.shown_by()
            if lanes is None:
                return None
            found += lanes
        return np.array(found, np.int64).reshape(-1, 2)

    def _plain_arguments(self) -> list[int | None] | None:
        """The argument's column of every call (None = it has none); None where a call needs more
        than its column."""
        if any(isinstance(a, RowAccumulator) for a in self.accumulators):
            return None
        found: list[int | None] = []
        for call in self.calls:
            first = call.args[0] if call.args else None
            plain = first is None or isinstance(first, ColumnRef)
            if call.filter is not None or distinct_key(call) is not None or not plain:
                return None
            found.append(first.index if isinstance(first, ColumnRef) else None)
        return found

    def fold_delta(
        self, cells: Cells, delta: Delta, slots: Int64Array, weights: Int64Array
    ) -> None:
        """`fold`, without the detours where every call reads just its column."""
        if self._arguments is None or (weights.size and not self.retracts):
            self.fold(cells, delta.batch, slots, weights)
            return
        columns = delta.columns
        for accumulator, at in zip(self.accumulators, self._arguments, strict=True):
            accumulator.add(cells, slots, weights, None if at is None else columns[at])

    def fold(
        self, cells: Cells, batch: pa.RecordBatch, slots: Int64Array, weights: Int64Array
    ) -> None:
        """Add the rows to the cells. batch: [n rows] of the node's input; slots, weights: [n].

        Raises: InvariantViolation if a row is taken back from an aggregate that can not do that.
        """
        if weights.size and not self.retracts and int(weights.min()) < 0:
            raise InvariantViolation("a row was taken back from an append-only input")
        ready: dict[tuple[Expr | None, ...], tuple[pa.Array | None, Int64Array, Int64Array]] = {}
        parts: dict[tuple[Expr | None, ...], pa.RecordBatch] = {}
        for call, accumulator in zip(self.calls, self.accumulators, strict=True):
            distinct = distinct_key(call)
            key = (call.filter, *(distinct or ()))
            if key not in ready:
                ready[key] = self._rows(batch, call, slots, weights)
            rows, part_slots, part_weights = ready[key]
            if isinstance(accumulator, RowAccumulator):
                if key not in parts:
                    parts[key] = batch if rows is None else batch.take(rows)
                accumulator.add_rows(cells, part_slots, part_weights, parts[key])
                continue
            column = argument(call, batch)
            if rows is not None and column is not None:
                column = column.take(rows)
            accumulator.add(cells, part_slots, part_weights, column)

    def _rows(
        self, batch: pa.RecordBatch, call: AggregateCall, slots: Int64Array, weights: Int64Array
    ) -> tuple[pa.Array | None, Int64Array, Int64Array]:
        """(rows that count or None = all, their slots, their weights) after FILTER and DISTINCT."""
        rows: Int64Array | None = None
        if call.filter is not None:
            mask = expression_column(call.filter, batch).fill_null(False)
            rows = np.flatnonzero(np.asarray(mask))
        distinct = distinct_key(call)
        if distinct is not None:
            if rows is None:
                rows = np.arange(batch.num_rows)
            index = pa.array(rows)
            columns = [expression_column(a, batch).take(index) for a in call.args]
            part = weights[rows] if weights.size else NO_WEIGHTS
            kept, signs = self._distinct[distinct].step(slots[rows], part, columns)
            rows = rows[kept]
            return pa.array(rows), slots[rows], signs
        if rows is None:
            return None, slots, weights
        return pa.array(rows), slots[rows], weights[rows] if weights.size else NO_WEIGHTS

    def settle(self, cells: Cells, touched: Int64Array) -> None:
        """After the last `fold` of a tick, before results are read."""
        for accumulator in self._settling:
            accumulator.settle(cells, touched)

    def tidy(self, cells: Cells) -> None:
        """After the results of a tick were read."""
        for accumulator in self._tidying:
            accumulator.tidy(cells)

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        """Fold partial groups into the groups `slots` (lane 0 is the caller's)."""
        for accumulator in self.accumulators:
            accumulator.merge(cells, slots, part)

    def results(self, cells: Cells) -> list[pa.Array]:
        """One column an aggregate for gathered cells."""
        return [a.result(cells) for a in self.accumulators]

    def free(self, slots: Int64Array) -> None:
        """These groups are gone."""
        for accumulator in self._freeing:
            accumulator.free(slots)
        for values in self._distinct.values():
            values.free(slots)

    def keeps(self) -> list[str]:
        """What is held beside the cells and the rows of groups, in words."""
        words = ["its distinct values"] if self._distinct else []
        words += [a.keeps for a in self.accumulators if a.keeps]
        return list(dict.fromkeys(words))

    def rows(self) -> int:
        """Entries held beside the groups."""
        held = sum(v.rows for v in self._distinct.values())
        return held + sum(a.side_rows() for a in self.accumulators)

    def nbytes(self) -> int:
        """Bytes held beside the groups."""
        held = sum(v.nbytes for v in self._distinct.values())
        return held + sum(a.side_bytes() for a in self.accumulators)

    def save(self) -> State:
        """State beside the cells."""
        state: dict[str, pa.Table] = {}
        for i, values in enumerate(self._distinct.values()):
            state |= saved.nest(f"distinct{i}", values.save())
        for i, accumulator in enumerate(self.accumulators):
            state |= saved.nest(f"aggregate{i}", accumulator.save())
        return state

    def load(self, state: State) -> None:
        """Inverse of `save`."""
        for i, values in enumerate(self._distinct.values()):
            values.load(saved.inner(f"distinct{i}", state))
        for i, accumulator in enumerate(self.accumulators):
            accumulator.load(saved.inner(f"aggregate{i}", state))


def make_folding(calls: Sequence[AggregateCall], append_only: bool) -> Folding | None:
    """The folding of these calls, or None when one of them has no accumulator."""
    made = []
    for call in calls:
        # values that come and go through DISTINCT are taken back only when rows are
        accumulator = make(call, append_only)
        if accumulator is None:
            return None
        made.append(accumulator)
    return Folding(calls, made)


def distinct_key(call: AggregateCall) -> tuple[Expr, ...] | None:
    """What tells the distinct values of two calls apart, or None if the call counts all rows."""
    distinct = call.distinct or call.function in ALWAYS_DISTINCT
    if not distinct or call.function in NEEDS_NO_DISTINCT:
        return None
    return call.args if call.filter is None else (*call.args, call.filter)


def argument(call: AggregateCall, batch: pa.RecordBatch) -> pa.Array | None:
    """The call's first argument as a column."""
    return expression_column(call.args[0], batch) if call.args else None
