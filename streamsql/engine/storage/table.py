"""A table's rows: the arrangement, row ids, the watermark each row arrived under.

The store holds the user's columns, then `row id` (BIGINT: the order of arrival, unique for ever),
then, for tables with a watermark, the watermark before the row (BIGINT, µs).
All methods are called under the database's state lock, or by the engine thread alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Delta, Int64Array
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, DATETIME_KINDS, INTEGER_KINDS, TEXT_KINDS, Kind
from streamsql.engine.relations import Key, Relation
from streamsql.engine.storage.changelog import ChangeLog, Keep
from streamsql.engine.storage.key_index import KeyIndex, follow
from streamsql.engine.storage.watermarks import WatermarkState, WatermarkTracker
from streamsql.state.arrangement import Arrangement

BoolArray = npt.NDArray[np.bool_]

ROW_ID = "\x00row_id"
ROW_WATERMARK = "\x00row_watermark"


@dataclass(frozen=True)
class TableChange:
    """One tick's change of one table, ready to apply.

    stored: the Z-set in the store's schema. visible: the same in the user's schema, with the row
    watermarks. before: what an undo restores. ahead: positions (in `inserted`) of rows too far in
    the future.
    """

    relation_id: int
    retracted: pa.RecordBatch
    inserted: pa.RecordBatch
    stored: Delta
    visible: Delta
    watermark: int
    before: tuple[int, WatermarkState | None]
    ahead: Int64Array
    partition: str = ""
    temporary: bool = False


class TableState:
    """The rows of one table. relation: its definition (replaced when it is altered)."""

    def __init__(self, relation: Relation, tracker: WatermarkTracker | None = None) -> None:
        self.relation = relation
        self.tracker = tracker
        self.num_columns = len(relation.columns)
        hidden = [Column(ROW_ID, BIGINT, False)]
        if tracker is not None:
            hidden.append(Column(ROW_WATERMARK, BIGINT, False))
        self.schema = Schema((*relation.columns.columns, *hidden))
        self.identity = relation.primary_key or (self.num_columns,)
        self.store = Arrangement(self.schema, self.identity, by_value=True)
        self.next_row_id = 1
        self.indexes: dict[int, KeyIndex] = {}
        self.log = ChangeLog(0)  # before its first change a table is empty
        # the identity index tells rows apart by representation; where SQL's equality is the same,
        # it serves look-ups by key as well, and no second index is built
        self._exact_identity = is_exact(self.schema, self.identity)
        self._keys: dict[tuple[int, ...], int] = {}
        self._empty = pa.RecordBatch.from_arrays(
            [pa.array([], f.type) for f in self.schema.arrow], schema=self.schema.arrow
        )

    @property
    def exact_identity(self) -> tuple[int, ...] | None:
        """The primary key, where a look-up by it finds what SQL calls equal."""
        return self.identity if self._exact_identity and self.relation.primary_key else None

    @property
    def keys(self) -> tuple[Key, ...]:
        """The constraints that rows must keep: those of the definition, and unique indexes."""
        unique = [i for i in self.indexes.values() if i.unique]
        return self.relation.keys + tuple(Key(i.name, i.unique, False, i.oid, 0) for i in unique)

    @property
    def watermark(self) -> int:
        """The watermark, µs."""
        return NO_WATERMARK if self.tracker is None else self.tracker.value

    # reading ------------------------------------------------------------------------------------
    def snapshot(self) -> pa.Table:
        """All live rows in the store's schema; immutable."""
        return self.store.snapshot()

    def read(self, version: int) -> Callable[[], pa.Table]:
        """The stored rows at a version that is still retained; see `ReadView`."""
        rows = self.store.snapshot()
        later = self.log.later(version)
        return lambda: rewind_rows(rows, later, self.num_columns)

    def arrivals(self) -> Delta:
        """All rows as a delta in the user's schema, in order of arrival, each with the watermark
        it arrived under: what a view made now is filled from."""
        return self.in_order(self.store.snapshot())

    def in_order(self, stored: pa.Table) -> Delta:
        """The same for stored rows of some version."""
        rows = stored.combine_chunks()
        ids = row_ids(rows, self.num_columns)
        if ids.size and bool((ids[1:] < ids[:-1]).any()):
            rows = rows.take(pa.array(np.argsort(ids, kind="stable"))).combine_chunks()
        batches = rows.to_batches()
        if not batches:
            return Delta.empty(self.relation.columns)
        watermark = None
        if self.tracker is not None:
            watermark = np.asarray(batches[0].column(self.num_columns + 1), np.int64)
        visible = batches[0].select(list(range(self.num_columns)))
        return Delta(visible, None, watermark)

    def probe(
        self,
        columns: tuple[int, ...],
        batch: pa.RecordBatch,
        batch_columns: Sequence[int],
        *,
        null_safe: bool = False,
    ) -> tuple[Int64Array, pa.RecordBatch]:
        """Live rows whose `columns` equal the batch's: (position in batch int64[m], rows [m]).
        null_safe: NULLs are equal."""
        if columns == self.identity and self._exact_identity:
            rows = self.store.find(batch, batch_columns)
            probe = np.flatnonzero(rows >= 0)
            return probe, self.store.take(rows[probe]) if probe.size else self._empty
        if columns not in self._keys:
            self._keys[columns] = self.store.add_key(columns)
        key = self._keys[columns]
        probe, rows = self.store.probe(key, batch, list(batch_columns), null_safe=null_safe)
        return probe, self.store.take(rows)

    def check_indexes(self, rows: pa.RecordBatch, dropped: frozenset[int] = frozenset()) -> None:
        """New rows (at least the user's columns) have a place in every index but those that are
        dropped. Raises: errors of the indexes' expressions."""
        for index in self.indexes.values():
            if index.oid not in dropped:
                index.check(rows)

    def index_keys(self) -> None:
        """Make now what the first write would make: the indexes that keys are looked up by."""
        self.store.merge()
        for key in self.keys:
            exact = key.columns == self.identity and self._exact_identity
            if not exact and key.columns not in self._keys:
                self._keys[key.columns] = self.store.add_key(key.columns)

    def are_live(self, rows: pa.RecordBatch) -> BoolArray:
        """Which of these rows (store's schema) are still the present rows, bool[n]."""
        live = np.zeros(rows.num_rows, np.bool_)
        if rows.num_rows:
            probe, found = self.probe(self.identity, rows, self.identity)
            wanted = row_ids(rows, self.num_columns)[probe]
            same = row_ids(found, self.num_columns) == wanted
            live[probe[same]] = True
        return live

    # writing ------------------------------------------------------------------------------------
    def prepare(
        self,
        retracted: pa.RecordBatch,
        inserted: pa.RecordBatch,
        now_us: int,
        partition: str = "",
    ) -> TableChange:
        """Give row ids and watermarks to the rows of one change, and move the watermark.

        retracted: store's schema. inserted: user's schema, in order of arrival.
        """
        before = (self.next_row_id, self.tracker.state if self.tracker else None)
        n = inserted.num_rows
        ids = np.arange(self.next_row_id, self.next_row_id + n, dtype=np.int64)
        self.next_row_id += n
        hidden = [pa.array(ids)]
        ahead = np.empty(0, np.int64)
        row_watermark: Int64Array | None = None
        if self.tracker is not None:
            at_start = self.tracker.value
            observed = self.tracker.observe(inserted, now_us, partition)
            ahead = observed.ahead
            hidden.append(pa.array(observed.before))
            starts = np.full(retracted.num_rows, at_start, np.int64)
            row_watermark = np.concatenate([starts, observed.before])
        new_rows = pa.RecordBatch.from_arrays(
            [*inserted.columns, *hidden], schema=self.schema.arrow
        )
        stored = signed(retracted, new_rows)
        visible = Delta.of(
            stored.columns[: self.num_columns], self.relation.columns.arrow, stored.num_rows,
            stored.weights, row_watermark,
        )  # fmt: skip
        return TableChange(
            self.relation.oid, retracted, new_rows, stored, visible, self.watermark, before, ahead,
            partition, self.relation.temporary,
        )  # fmt: skip

    def apply(self, change: TableChange, version: int, keep: Keep | None) -> None:
        """Make the change (the arrangement takes retractions before insertions)."""
        follow(self.indexes, self.store.apply(change.stored))
        self.log.append(version, change.stored, keep)

    def undo(self, change: TableChange) -> None:
        """Take back the newest change (its tick could not be made durable)."""
        follow(self.indexes, self.store.apply(change.stored.negate()))
        self.log.drop_last()
        self.next_row_id, state = change.before
        if self.tracker is not None and state is not None:
            self.tracker.state = state

    def no_rows(self) -> pa.RecordBatch:
        """An empty batch in the store's schema."""
        return self._empty


EXACT_KINDS = INTEGER_KINDS | TEXT_KINDS | DATETIME_KINDS | {
    Kind.BOOLEAN, Kind.UUID, Kind.NUMERIC
}  # fmt: skip


def is_exact(schema: Schema, columns: Sequence[int]) -> bool:
    """Whether equal values of these columns always have one representation."""
    return all(schema[i].type.kind in EXACT_KINDS for i in columns)


def row_ids(rows: pa.RecordBatch | pa.Table, num_columns: int) -> Int64Array:
    """The row ids of stored rows, int64[n]."""
    return np.asarray(rows.column(num_columns), np.int64)


def signed(retracted: pa.RecordBatch, inserted: pa.RecordBatch) -> Delta:
    """The Z-set: retractions (-1), then insertions (+1)."""
    if not retracted.num_rows:
        return Delta(inserted, None, None, True)
    if not inserted.num_rows:
        return Delta(retracted, np.full(retracted.num_rows, -1, np.int64), None, True)
    both = pa.Table.from_batches([retracted, inserted]).combine_chunks().to_batches()[0]
    weights = np.ones(both.num_rows, np.int64)
    weights[: retracted.num_rows] = -1
    return Delta(both, weights, None, True)


def rewind_rows(rows: pa.Table, later: Sequence[Delta], num_columns: int) -> pa.Table:
    """A table's stored rows before these changes; row ids make it a filter and an append."""
    if not later:
        return rows
    born: list[Int64Array] = []
    gone: list[pa.RecordBatch] = []
    for delta in later:
        ids = row_ids(delta.batch, num_columns)
        weights = delta.weights_or_ones()
        born.append(ids[weights > 0])
        if delta.weights is not None:
            gone.append(delta.batch.filter(pa.array(weights < 0)))
    new = pa.array(np.concatenate(born))
    both = pa.concat_tables([rows, *(pa.Table.from_batches([b]) for b in gone)])
    return both.filter(pc.invert(pc.is_in(both.column(num_columns), value_set=new)))
