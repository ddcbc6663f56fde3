"""The rows of one side of a join that knows, for each of them, how many rows match it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import any_null, hash_columns
from streamsql.kernels.multimap import Multimap
from streamsql.kernels.order_keys import OrderColumn
from streamsql.operators.columns import NO_WEIGHTS, BoolArray, int64_values
from streamsql.operators.groups import Groups
from streamsql.operators.pair_search import PAIRS_MAX, Range, blocks, plus
from streamsql.operators.span_search import CLASSES, earliest, length_class, whole_numbers
from streamsql.state.ordered_index import Edge, OrderedIndex

COUNT, MATCHES, PART = 0, 2, 3
"""Lanes of a row: how often it is there, how many rows match it, the slot of its key."""
LANES = 4


class JoinRows:
    """Distinct rows, found by key, by key and range, or all of them.

    keys: positions that are compared by equality. strict: those whose NULLs match nothing. search:
    how rows are found by the order of a column, None = by key alone. parts: key slots, shared by
    both sides of the join.
    """

    def __init__(
        self, schema: Schema, keys: Sequence[int], strict: Sequence[int], search: Range | None,
        parts: HashIndex,
    ) -> None:  # fmt: skip
        self.schema = schema
        self.keys = tuple(keys)
        self.strict = list(strict)
        self.search = search
        self.parts = parts
        self.rows = Groups(schema, range(len(schema)), LANES, exact=True)
        self.map = Multimap()
        self.ordered: OrderedIndex | None = None
        self.lengths = np.zeros(CLASSES, np.int64)  # rows of each length, where spans are searched
        if search is not None:
            type_ = pa.int64() if search.counted else schema[search.column].type.arrow
            self.ordered = OrderedIndex([OrderColumn(type_, not_null=True)], with_tie=True)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        index = self.map.nbytes if self.ordered is None else self.ordered.nbytes
        return int(self.rows.nbytes + index)

    # --- changes -------------------------------------------------------------------------------
    def count(self, delta: Delta) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Count entries in: (slots touched, their counts before, their counts now).

        Raises: NegativeWeight (XX001).
        """
        slots, _ = self.rows.upsert(delta.batch)
        weights = NO_WEIGHTS if delta.weights is None else delta.weights
        touched, old = self.rows.touch(slots, weights)
        now = self.rows.cells[touched, COUNT]
        if bool((now < 0).any()):
            raise NegativeWeight("a row was taken back that is not there")
        return touched, old[:, COUNT].copy(), now.copy()

    def link(self, slots: Int64Array) -> None:
        """Let rows that appeared be found; those with a NULL that matches nothing are not."""
        if not slots.size:
            return
        batch = self.rows.key_rows(slots)
        self.rows.cells[slots, PART] = -1
        found = np.flatnonzero(~self._nulls(batch))
        lanes = hash_columns(batch, self.keys)
        h0, h1, chosen = lanes[0][found], lanes[1][found], slots[found]
        if self.ordered is None:
            if self.keys:
                self.rows.cells[chosen, PART] = 0
                self.map.link(h0, h1, chosen)
            return
        parts, _ = self.parts.upsert_rows(h0, h1)
        self.rows.cells[chosen, PART] = parts
        self._order(batch, found, parts, chosen, 1)

    def unlink(self, slots: Int64Array) -> Int64Array:
        """Rows that vanished are found no more; returns the key slots that they had."""
        parts = self.rows.cells[slots, PART]
        chosen, parts = slots[parts >= 0], parts[parts >= 0]
        if not chosen.size:
            return chosen
        if self.ordered is None:
            if self.keys:
                self.map.unlink(chosen)
            return chosen[:0]
        batch = self.rows.key_rows(chosen)
        self._order(batch, np.arange(chosen.size), parts, chosen, -1)
        return np.unique(parts)

    def _order(
        self, batch: pa.RecordBatch, rows: Int64Array, parts: Int64Array, slots: Int64Array, by: int
    ) -> None:
        """Put these rows of the batch into the order, or (by = -1) take them out."""
        assert self.ordered is not None and self.search is not None
        values = self._compared(batch.column(self.search.column), rows, 0)
        if self.search.until is not None:
            ends = self._compared(batch.column(self.search.until), rows, 0)
            bits = length_class(int64_values(values), int64_values(ends))
            self.lengths += by * np.bincount(bits, minlength=CLASSES)
            parts = parts * CLASSES + bits
        self.ordered.add(parts, [values], np.full(slots.size, by), slots)

    def lacks(self, parts: Int64Array) -> BoolArray:
        """Whether the order has no row of each key slot, bool[n]."""
        assert self.ordered is not None
        if self.search is None or self.search.until is None:
            return self.ordered.first(parts) < 0
        groups = (parts.reshape(-1, 1) * CLASSES + np.arange(CLASSES)).reshape(-1)
        found: BoolArray = self.ordered.first(groups).reshape(-1, CLASSES).max(axis=1) < 0
        return found

    def _nulls(self, batch: pa.RecordBatch) -> BoolArray:
        strict = list(self.strict)
        if self.search is not None:
            strict.append(self.search.column)
            strict += [] if self.search.until is None else [self.search.until]
        return any_null(batch, strict)

    def _compared(self, column: pa.Array, rows: Int64Array, constant: int) -> pa.Array:
        """Values (of rows without NULLs there) as they stand in the order."""
        assert self.search is not None
        chosen = column if rows.size == len(column) else column.take(pa.array(rows))
        return pa.array(plus(whole_numbers(chosen), constant)) if self.search.counted else chosen

    # --- questions -----------------------------------------------------------------------------
    def candidates(self, other: JoinRows, batch: pa.RecordBatch) -> Iterator[
        tuple[Int64Array, Int64Array]
    ]:  # fmt: skip
        """(position in batch, slot here) of all pairs that may match, PAIRS_MAX at a time.

        batch: whole rows of the other side.
        """
        if not self.rows.count:
            return
        nulls = any_null(batch, other.strict)
        if self.ordered is not None:
            yield from self._by_range(other, batch, nulls)
        elif self.keys:
            yield from self._by_key(other, batch, nulls)
        else:
            live = self.rows.live()
            start = np.zeros(batch.num_rows, np.int64)
            for position, place in blocks(start, np.full(batch.num_rows, live.size)):
                yield position, live[place]

    def _by_key(
        self, other: JoinRows, batch: pa.RecordBatch, nulls: BoolArray
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        h0, h1 = hash_columns(batch, other.keys)
        for position, slot in self.map.probe_parts(h0, h1, nulls, PAIRS_MAX):
            for at in range(0, position.size, PAIRS_MAX):
                part = slice(at, at + PAIRS_MAX)
                yield position[part], slot[part]

    def _by_range(
        self, other: JoinRows, batch: pa.RecordBatch, nulls: BoolArray
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        assert self.ordered is not None and self.search is not None
        parts = self.parts.find(*hash_columns(batch, other.keys))
        nulls = nulls | any_null(batch, [bound.column for bound in self.search.bounds])
        at = np.flatnonzero((parts >= 0) & ~nulls)
        parts = parts[at]
        if self.search.until is not None:
            yield from self._by_span(batch, at, parts)
            return
        low: Edge | None = None
        high: Edge | None = None
        for bound in self.search.bounds:
            values = self._compared(batch.column(bound.column), at, bound.plus)
            edge = Edge([values], bound.function in ("gt", "lt"))
            low, high = (low, edge) if bound.function in ("lt", "le") else (edge, high)
        for position, slots in self.ordered.between(parts, low, high, PAIRS_MAX):
            yield at[position], slots

    def _by_span(
        self, batch: pa.RecordBatch, at: Int64Array, parts: Int64Array
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        """A stretch of starts in each length class, for each row of the other side."""
        assert self.ordered is not None and self.search is not None
        below, above = self.search.bounds
        until = int64_values(self._compared(batch.column(below.column), at, below.plus))
        since = int64_values(self._compared(batch.column(above.column), at, above.plus))
        bits = np.flatnonzero(self.lengths)
        if not bits.size or not at.size:
            return
        groups = (parts.reshape(-1, 1) * CLASSES + bits).reshape(-1)
        first = np.column_stack([earliest(until, int(b)) for b in bits]).reshape(-1)
        low = Edge([pa.array(first)], False)
        high = Edge([pa.array(np.repeat(since, bits.size))], above.function == "lt")
        for position, slots in self.ordered.between(groups, low, high, PAIRS_MAX):
            yield at[position // bits.size], slots

    # --- saving --------------------------------------------------------------------------------
    def load(self, state: Mapping[str, pa.Table]) -> None:
        """Inverse of `rows.save`, with the key slots loaded already."""
        self.rows.load(state)
        live = self.rows.live()
        if not live.size:
            return
        batch = self.rows.key_rows(live)
        found = np.flatnonzero(self.rows.cells[live, PART] >= 0)
        chosen = live[found]
        if self.ordered is not None:
            parts = self.rows.cells[chosen, PART].copy()
            self._order(batch, found, parts, chosen, 1)
        elif self.keys:
            h0, h1 = hash_columns(batch, self.keys)
            self.map.link(h0[found], h1[found], chosen)
