"""Versions: what the rows of a keyed relation were at each event time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array, make_batch
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BOOLEAN
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import Lanes
from streamsql.kernels.order_keys import OrderColumn
from streamsql.operators import saved
from streamsql.operators.columns import BoolArray, take_rows, to_arrow
from streamsql.operators.event_time import CloseQueue
from streamsql.state.column_store import ColumnStore
from streamsql.state.ordered_index import LAST_AT_MOST, OrderedIndex

COMPACT_FROM = 4096  # rows below which dead ones are left alone


class Versions:
    """By key, the rows in the order of the times they began at (µs), and where a key was deleted.

    A version lasts until the next one of its key begins; of those of one time the one that came
    last counts. Row numbers rise with arrival. Cost: O(log versions) a change or question.
    """

    def __init__(self, schema: Schema, lateness_us: int) -> None:
        self.schema = schema
        self.lateness_us = lateness_us
        self.stored = Schema((*schema.columns, Column("gone", BOOLEAN)))
        self._reset()

    def _reset(self) -> None:
        self.keys = HashIndex(reuse=True)
        self.index = OrderedIndex([OrderColumn(pa.int64(), not_null=True)], with_tie=True)
        self.store = ColumnStore(self.stored.arrow)
        self.ending = CloseQueue()

    @property
    def count(self) -> int:
        """Versions held, ends by deletion too."""
        return self.index.entries

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.keys.nbytes + self.index.nbytes + self.store.nbytes)

    def take(
        self, batch: pa.RecordBatch, keys: Lanes, times: Int64Array, weights: Int64Array,
        marks: Int64Array, skip: BoolArray,
    ) -> None:  # fmt: skip
        """Entries in the order of their arrival. skip: entries without a say, but an insertion
        among them still tells that a deletion of its key before it was an update's."""
        number, _ = HashIndex().upsert_rows(*keys)
        come = np.flatnonzero(weights > 0)
        last = np.full(int(number.max()) + 1, -1)
        last[number[come]] = come  # the last one stays
        gone = (weights < 0) & (np.arange(weights.size) > last[number])
        chosen = np.flatnonzero(gone | ((weights > 0) & ~skip))
        if not chosen.size:
            return
        # a row that was not there yet at the watermark never was
        began = np.where(gone, np.maximum(times, marks), times)[chosen]
        rows = take_rows(batch, chosen)
        flag = to_arrow(gone[chosen], pa.bool_())
        stored = make_batch([*rows.columns, flag], self.stored.arrow, chosen.size)
        base = self.store.append(stored)
        parts, _ = self.keys.upsert_rows(keys[0][chosen], keys[1][chosen])
        numbers = np.arange(base, base + chosen.size)
        self.index.add(parts, [pa.array(began)], np.ones(chosen.size, np.int64), numbers)
        self.ending.push(began + self.lateness_us, parts)

    def at(self, keys: Lanes, times: Int64Array) -> Int64Array:
        """Row number of the version of each key at that time, -1 = there is none."""
        parts = self.keys.find(*keys)
        cursors = self.index.find(parts, [pa.array(times)], LAST_AT_MOST)
        row = np.where(cursors >= 0, self.index.ties(cursors), -1)
        found = np.flatnonzero(row >= 0)
        row[found[self._gone(row[found])]] = -1
        return row

    def rows(self, numbers: Int64Array) -> pa.RecordBatch:
        """The rows of these numbers; -1 gives NULLs."""
        taken = self.store.take(numbers, negative=True)
        return make_batch(taken.columns[:-1], self.schema.arrow, numbers.size)

    def _gone(self, numbers: Int64Array) -> BoolArray:
        return np.asarray(self.store.take_column(len(self.schema), numbers), np.bool_)

    # --- freeing -------------------------------------------------------------------------------
    def forget(self, watermark: int) -> None:
        """Drop what ended before every time that may still be asked for."""
        parts = np.unique(self.ending.pop(watermark)[1])
        if not parts.size:
            return
        held = self.index.first(parts) >= 0  # others were forgotten before
        horizon = pa.array(np.full(parts.size, watermark - self.lateness_us))
        begun = self.index.rank(parts, [horizon], peers=True)
        current = self.index.ties(self.index.nth(parts, np.maximum(begun - 1, 0)))
        over = begun > 0
        over[over] = self._gone(current[over])
        ended = np.where(over, begun, np.maximum(begun - 1, 0))
        which = np.repeat(np.arange(parts.size), ended)
        within = np.arange(which.size) - np.repeat(np.cumsum(ended) - ended, ended)
        entries = self.index.read(self.index.nth(parts[which], within))
        self.index.add(entries.groups, entries.values, -entries.counts, entries.ties)
        self.keys.remove(parts[held & (self.index.first(parts) < 0)])
        if self.store.num_rows > max(COMPACT_FROM, 2 * self.count):
            self._compact()

    def _compact(self) -> None:
        """Number the rows that are left anew, in the same order."""
        entries = self.index.save()["entries"]
        numbers = saved.array(entries, "tie")
        kept = np.sort(numbers)
        self.store.rebuild(kept)
        self.index.clear()
        ones = np.ones(kept.size, np.int64)
        times = [pa.array(saved.array(entries, "v0"))]
        self.index.add(saved.array(entries, "group"), times, ones, np.searchsorted(kept, numbers))

    # --- saving --------------------------------------------------------------------------------
    def save(self) -> dict[str, pa.Table]:
        """Everything."""
        self._compact()
        rows = self.store.take(np.arange(self.store.num_rows))
        return {
            **saved.nest("keys", self.keys.save()),
            **saved.nest("index", self.index.save()),
            "rows": pa.Table.from_batches([rows]),
        }

    def load(self, state: Mapping[str, pa.Table]) -> None:
        """Inverse of `save`."""
        self._reset()
        self.keys = HashIndex.load(saved.inner("keys", state))
        self.index.load(saved.inner("index", state))
        batch = saved.table_batch(state["rows"], self.stored)
        if batch.num_rows:
            self.store.append(batch)
        entries = state["index.entries"]
        times, parts = saved.array(entries, "v0"), saved.array(entries, "group")
        self.ending.push(times + self.lateness_us, parts)
