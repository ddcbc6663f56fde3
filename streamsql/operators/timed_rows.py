"""The rows of one side of a join, by key in the order of their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.kernels.order_keys import OrderColumn
from streamsql.operators.columns import NO_WEIGHTS
from streamsql.operators.groups import Groups
from streamsql.state.ordered_index import Edge, Entries, OrderedIndex

COUNT, PART = 0, 2
"""Lanes of a row: how often it is there, the slot of its key."""


STRETCH_ROWS = 1 << 20  # rows of stretches that are read in one go


class TimedRows:
    """Distinct rows with their counts, by key slot in the order (time, tie columns).

    time: position of the column that orders them; no row with a NULL there may be given. ties: the
    columns, with their orders, that tell rows of one time apart.
    Cost: O(log rows) a change or question.
    """

    def __init__(
        self, schema: Schema, time: int, ties: Sequence[tuple[int, OrderColumn]] = ()
    ) -> None:
        self.schema = schema
        self.time = time
        self.ties = tuple(ties)
        self.type = schema[time].type.arrow
        self._reset()

    def _reset(self) -> None:
        self.rows = Groups(self.schema, range(len(self.schema)), 3, exact=True)
        columns = [OrderColumn(self.type, not_null=True), *(column for _, column in self.ties)]
        self.index = OrderedIndex(columns, with_tie=True, breakers=len(self.ties))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.rows.nbytes + self.index.nbytes

    # --- changes -------------------------------------------------------------------------------
    def count(self, delta: Delta) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Count entries in: (slots of rows that appeared or vanished, +1 or -1, slots of rows that
        are not there any more, for `free`). The index does not know of them yet.

        Raises: NegativeWeight (XX001).
        """
        slots, _ = self.rows.upsert(delta.batch)
        weights = NO_WEIGHTS if delta.weights is None else delta.weights
        touched, old = self.rows.touch(slots, weights)
        counts = self.rows.cells[touched, COUNT]
        if bool((counts < 0).any()):
            raise NegativeWeight("a row was taken back that is not there")
        was, now = old[:, COUNT] > 0, counts > 0
        changed = was != now
        return touched[changed], np.where(now[changed], 1, -1), touched[~now]

    def enter(self, slots: Int64Array, parts: Int64Array, by: Int64Array) -> None:
        """Bring the index up to date with rows that appeared (by = 1) or vanished (-1)."""
        if slots.size:
            self.rows.cells[slots, PART] = parts
            self.index.add(parts, self._values(slots), by, slots)

    def _values(self, slots: Int64Array) -> list[pa.Array]:
        batch = self.rows.key_rows(slots)
        return [batch.column(self.time), *(batch.column(i) for i, _ in self.ties)]

    # --- questions -----------------------------------------------------------------------------
    def times(self, slots: Int64Array) -> pa.Array:
        """The times of these rows."""
        return self.rows.keys.take_column(self.time, self.rows.key_row[slots])

    def weights(self, slots: Int64Array) -> Int64Array:
        """How often these rows are there, int64[n]."""
        return self.rows.cells[slots, COUNT]

    def nearest(self, parts: Int64Array, times: pa.Array, mode: int) -> Int64Array:
        """Slot of the row that `mode` (as of `OrderedIndex.find`) finds by its time, -1 = none."""
        cursors = self._find(parts, times, mode)
        return np.where(cursors >= 0, self.index.ties(cursors), -1)

    def neighbour(
        self, parts: Int64Array, times: pa.Array, mode: int
    ) -> tuple[Int64Array, Int64Array, Entries]:
        """(positions that have a neighbour in time by `mode`, its cursor, the neighbour)."""
        cursors = self._find(parts, times, mode)
        found = np.flatnonzero(cursors >= 0)
        cursors = cursors[found]
        return found, cursors, self.index.read(cursors)

    def _find(self, parts: Int64Array, times: pa.Array, mode: int) -> Int64Array:
        nothing = [pa.nulls(parts.size, column.type) for _, column in self.ties]
        return self.index.find(parts, [times, *nothing], mode)

    def stretch(
        self, parts: Int64Array, low: Edge | None, high: Edge | None
    ) -> tuple[Int64Array, Int64Array]:
        """Rows of these keys between two edges in time: (position asked, slot)."""
        found = list(self.index.between(parts, low, high, STRETCH_ROWS))
        nothing = np.empty(0, np.int64)
        of, slots = zip(*found, strict=True) if found else ([nothing], [nothing])
        return np.concatenate(of), np.concatenate(slots)

    def between(self, parts: Int64Array, start: Int64Array, end: Int64Array) -> Int64Array:
        """Slots, ascending, of the rows of these keys at the places start <= place < end."""
        length = np.maximum(end - start, 0)
        which = np.repeat(np.arange(parts.size), length)
        within = np.arange(which.size) - np.repeat(np.cumsum(length) - length, length)
        return np.unique(self.index.ties(self.index.nth(parts[which], start[which] + within)))

    def take(self, slots: Int64Array) -> pa.RecordBatch:
        """The rows of these slots; -1 gives NULLs."""
        rows = np.where(slots >= 0, self.rows.key_row[np.maximum(slots, 0)], -1)
        return self.rows.keys.take(rows, negative=True)

    # --- saving --------------------------------------------------------------------------------
    def save(self) -> dict[str, pa.Table]:
        """The rows; the index is made anew from them."""
        return self.rows.save()

    def load(self, state: Mapping[str, pa.Table]) -> None:
        """Inverse of `save`."""
        self._reset()
        self.rows.load(state)
        live = self.rows.live()
        parts = self.rows.cells[live, PART].copy()
        if live.size:
            self.index.add(parts, self._values(live), np.ones(live.size, np.int64), live)
