"""Aggregates that need more of a row than one argument, and those whose value is kept as it was
shown."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.errors import InvariantViolation
from streamsql.functions.expressions import AggregateCall, Cast, ColumnRef, Expr, Literal
from streamsql.kernels.hashing import hash_arrays
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.ties import tie_of
from streamsql.state.column_store import ColumnStore

SPARE_ROWS = 4096
SPARE_BYTES = 1 << 22
"""Old values kept before they are swept."""


class RowAccumulator(Accumulator):
    """An accumulator that is given whole rows: it has several arguments, or an order."""

    mergeable = False

    @abc.abstractmethod
    def add_rows(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, batch: pa.RecordBatch
    ) -> None:
        """Fold rows in. batch: [n] rows of the node's input; slots, weights as for `add`."""

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        raise NotImplementedError("this aggregate takes whole rows")

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        raise NotImplementedError("this aggregate is not merged")


class Remembered(RowAccumulator):
    """An aggregate whose value is made anew for each touched group, once a tick.

    State:    [reference] a group: the row of `printed`, from 1, that holds the group's value;
              0 = it is NULL.
    """

    lanes = 1

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.printed = ColumnStore(pa.schema([("c0", call.type.arrow)]))
        self._kept_rows = self._kept_bytes = 0

    def shown_by(self) -> Sequence[tuple[int, bool]] | None:
        return [(self.at, False)]

    @abc.abstractmethod
    def values(self, groups: Int64Array) -> pa.Array:
        """The value of each of these (distinct) groups, in `call.type.arrow`."""

    def settle(self, cells: Cells, touched: Int64Array) -> None:
        if not touched.size:
            return
        new = self.values(touched)
        there = np.asarray(new.is_valid())
        held = cells[touched, self.at]
        before = self.printed.take(held - 1, negative=True).column(0)
        a, b = hash_arrays([new], exact=True), hash_arrays([before], exact=True)
        differs = there & ((a[0] != b[0]) | (a[1] != b[1]) | (held == 0))
        cells[touched[~there], self.at] = 0
        changed = np.flatnonzero(differs)
        if changed.size:
            fresh = new.take(pa.array(changed))
            base = self.printed.append(pa.record_batch([fresh], schema=self.printed.schema))
            cells[touched[changed], self.at] = base + 1 + np.arange(changed.size)

    def tidy(self, cells: Cells) -> None:
        rows, size = self.printed.num_rows, self.printed.nbytes
        few = rows <= 2 * self._kept_rows + SPARE_ROWS
        if few and size <= 2 * self._kept_bytes + SPARE_BYTES:
            return
        slots = np.flatnonzero(cells[:, self.at])
        self.printed.rebuild(cells[slots, self.at] - 1)
        cells[slots, self.at] = 1 + np.arange(slots.size)
        self._kept_rows, self._kept_bytes = self.printed.num_rows, self.printed.nbytes

    def result(self, cells: Cells) -> pa.Array:
        return self.printed.take(cells[:, self.at] - 1, negative=True).column(0)

    def save(self) -> Mapping[str, pa.Table]:
        return {**saved.nest("held", self.save_rows()), "printed": self.printed.table()}

    def load(self, state: Mapping[str, pa.Table]) -> None:
        self.load_rows(saved.inner("held", state))
        for batch in state["printed"].to_batches():
            self.printed.append(batch)

    @abc.abstractmethod
    def save_rows(self) -> Mapping[str, pa.Table]:
        """What the values are made from."""

    @abc.abstractmethod
    def load_rows(self, state: Mapping[str, pa.Table]) -> None:
        """Inverse of `save_rows`."""


def positive_first(
    slots: Int64Array, weights: Int64Array, columns: list[pa.Array]
) -> tuple[Int64Array, Int64Array, list[pa.Array]]:
    """The same rows, arrivals before departures: a value may be taken back before it comes, within
    one tick. The weights are written out."""
    if not weights.size:
        return slots, np.ones(slots.size, np.int64), columns
    if int(weights.min(initial=0)) >= 0:
        return slots, weights, columns
    order = np.argsort(weights < 0, kind="stable")
    rows = pa.array(order)
    return slots[order], weights[order], [c.take(rows) for c in columns]


def expression_column(expr: Expr, batch: pa.RecordBatch) -> pa.Array:
    """A ColumnRef, Literal or tie over a batch: all that aggregates may hold after binding."""
    if isinstance(expr, ColumnRef):
        return batch.column(expr.index)
    if isinstance(expr, Cast):
        tie = tie_of(expr)
        return tie.values(batch.column(tie.index))
    if isinstance(expr, Literal):
        from streamsql.functions.literals import to_arrow_scalar

        return pa.repeat(to_arrow_scalar(expr), batch.num_rows)
    raise InvariantViolation(f"an aggregate over {type(expr).__name__} was not projected below it")
