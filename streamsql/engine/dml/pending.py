"""Writes decided but not yet part of the table: a statement's, or a transaction's so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array
from streamsql.core.errors import SerializationFailure
from streamsql.core.schema import Schema
from streamsql.engine.catalog import OidCounter
from streamsql.engine.relations import Key
from streamsql.engine.storage.table import TableState, row_ids
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import any_null
from streamsql.kernels.jsonb import hash_keys

BoolArray = npt.NDArray[np.bool_]

_provisional = OidCounter(1)


@dataclass(frozen=True)
class PendingWrites:
    """What to take out of a table and what to put in; a value: savepoints keep the old one.

    retracted: present rows of the table, in the store's schema. inserted: new rows in the store's
    schema, in order of arrival; their row ids are negative until the commit gives real ones.
    rules: those of the table (`Relation.rules`) that they were made by.
    """

    table: TableState
    retracted: pa.RecordBatch
    inserted: pa.RecordBatch
    rules: int

    @classmethod
    def none(cls, table: TableState) -> PendingWrites:
        """No writes yet."""
        return cls(table, table.no_rows(), table.no_rows(), table.relation.rules)

    def check_layout(self, table: TableState) -> None:
        """Raises: SerializationFailure (40001) if columns of the table came or went meanwhile."""
        if self.rules != table.relation.rules:
            raise SerializationFailure(
                "could not serialize access due to concurrent update",
                detail=f'Table "{table.relation.name}" was altered.',
                hint="Run the transaction again.",
            )

    def __bool__(self) -> bool:
        return bool(self.retracted.num_rows or self.inserted.num_rows)

    def add(self, retract: pa.RecordBatch, insert: pa.RecordBatch) -> PendingWrites:
        """With one statement more. retract: store's schema, rows of the table or of `inserted`.
        insert: user's schema."""
        n = self.table.num_columns
        own = row_ids(retract, n) < 0
        retracted, inserted = self.retracted, self.inserted
        if own.any():
            going = pa.array(row_ids(retract.filter(pa.array(own)), n))
            inserted = inserted.filter(pc.invert(pc.is_in(inserted.column(n), value_set=going)))
        base = retract.filter(pa.array(~own)) if own.any() else retract
        retracted = joined([retracted, base])
        if insert.num_rows:
            inserted = joined([inserted, with_provisional_ids(self.table, insert)])
        return PendingWrites(self.table, retracted, inserted, self.rules)

    def over(self, rows: pa.Table) -> pa.Table:
        """The table's stored rows as the transaction sees them."""
        if not self:
            return rows
        n = self.table.num_columns
        if self.retracted.num_rows:
            gone = pa.array(row_ids(self.retracted, n))
            rows = rows.filter(pc.invert(pc.is_in(rows.column(n), value_set=gone)))
        return pa.concat_tables([rows, pa.Table.from_batches([self.inserted])])


def with_provisional_ids(table: TableState, rows: pa.RecordBatch) -> pa.RecordBatch:
    """User rows → stored rows with negative row ids, falling: later rows have lower ones."""
    first = _provisional.allocate(rows.num_rows)
    ids = -np.arange(first, first + rows.num_rows, dtype=np.int64)
    hidden = [pa.array(ids)]
    if table.tracker is not None:
        hidden.append(pa.array(np.zeros(rows.num_rows, np.int64)))
    return pa.RecordBatch.from_arrays([*rows.columns, *hidden], schema=table.schema.arrow)


class TableImage:
    """A table with pending writes on top, as constraint checks see it.

    Used under the state lock, or by the engine thread. keys: what rows are unique by, where that
    is not what the table knows (None): the same transaction has changed it.
    """

    def __init__(
        self,
        table: TableState,
        pending: PendingWrites | None = None,
        keys: tuple[Key, ...] | None = None,
    ) -> None:
        self.table = table
        self.pending = pending or PendingWrites.none(table)
        self._keys = keys

    @property
    def keys(self) -> tuple[Key, ...]:
        """The constraints that rows must keep."""
        return self.table.keys if self._keys is None else self._keys

    def matches(
        self, columns: tuple[int, ...], batch: pa.RecordBatch
    ) -> tuple[Int64Array, pa.RecordBatch]:
        """Rows whose key `columns` equal those of the batch (user's schema, same positions):
        (position in batch int64[m], stored rows [m]). NULL keys match nothing."""
        if not batch.num_rows:
            return np.empty(0, np.int64), self.table.no_rows()
        n = self.table.num_columns
        probe, rows = self.table.probe(columns, batch, columns)
        if not probe.size and not self.pending.inserted.num_rows:
            return probe, rows
        if self.pending.retracted.num_rows and rows.num_rows:
            gone = pa.array(row_ids(self.pending.retracted, n))
            kept = np.asarray(pc.invert(pc.is_in(rows.column(n), value_set=gone)))
            probe, rows = probe[kept], rows.filter(pa.array(kept))
        if self.pending.inserted.num_rows:
            more, own = lookup(batch, self.pending.inserted, columns, self.table.schema)
            probe = np.concatenate([probe, more])
            rows = joined([rows, own])
        nulls = any_null(batch, columns)
        if nulls.any() and probe.size:
            kept = ~nulls[probe]
            probe, rows = probe[kept], rows.filter(pa.array(kept))
        return probe, rows

    def gone(self, rows: pa.RecordBatch) -> BoolArray:
        """Which of these stored rows the pending writes have taken out already, bool[n]."""
        n = self.table.num_columns
        ids = row_ids(rows, n)
        gone = np.isin(ids, row_ids(self.pending.retracted, n))
        own = ids < 0
        if own.any():
            gone |= own & ~np.isin(ids, row_ids(self.pending.inserted, n))
        return gone

    def are_live(self, rows: pa.RecordBatch) -> BoolArray:
        """Which of these stored rows are still there, bool[n]."""
        n = self.table.num_columns
        own = row_ids(rows, n) < 0
        live = own.copy()
        if not own.all():
            base = rows.filter(pa.array(~own)) if own.any() else rows
            live[~own] = self.table.are_live(base)
        return live


def lookup(
    batch: pa.RecordBatch, rows: pa.RecordBatch, columns: Sequence[int], schema: Schema
) -> tuple[Int64Array, pa.RecordBatch]:
    """Equi-join of two small batches on the same columns, `rows` unique by them:
    (position in batch int64[m], rows [m])."""
    index = HashIndex(expected=rows.num_rows)
    slots, _ = index.upsert(*hash_keys(rows, columns, schema))
    last = np.empty(index.num_slots, np.int64)
    last[slots] = np.arange(rows.num_rows)
    found = index.find(*hash_keys(batch, columns, schema))
    positions = np.flatnonzero(found >= 0)
    return positions, rows.take(pa.array(last[found[positions]]))


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all rows; the batches have one schema."""
    filled = [b for b in batches if b.num_rows]
    if not filled:
        return batches[0]
    if len(filled) == 1:
        return filled[0]
    return pa.Table.from_batches(filled).combine_chunks().to_batches()[0]
