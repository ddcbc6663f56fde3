"""Groups: keys to slots, the cells of every slot, and the key rows to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.schema import Schema
from streamsql.kernels.arrays import lengthen, room_for
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import hash_arrays
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.columns import flat, to_arrow
from streamsql.operators.loops import accumulate as loops
from streamsql.operators.loops.local import local_groups
from streamsql.state.column_store import ColumnStore

FIRST_SLOTS = 64
COMPACT_FROM = 4096  # key rows below which dead ones are left alone
LOCAL_FROM = 512  # rows of a batch from which its own few keys are found first
NOTHING: Mapping[int, pa.Array] = {}
Given = tuple[Sequence[pa.Array], Int64Array]
"""Key columns of a tick's rows, and in them the first row of every group that they touch."""
SPREAD_TICKS = 15  # batches that are spared the attempt after one whose keys were many


class Groups:
    """The groups of one aggregate.

    schema: of the key columns. hashed: positions *in the key* that identify a group (the others
    depend on them, as a window's end on its start). width: int64 lanes a group; lane 0 is its
    number of rows, lane 1 the stamp of the last tick that touched it. A group without rows is
    freed by its owner; its slot is used again.
    """

    def __init__(
        self, schema: Schema, hashed: Sequence[int], width: int, *, exact: bool = False
    ) -> None:
        """exact: keys are told apart by representation (the rows of a Z-set), not by SQL
        equality."""
        self.schema = schema
        self._exact = exact
        self.hashed = tuple(hashed)
        self.width = width
        self.cells: Cells = np.zeros((FIRST_SLOTS, width), np.int64)
        self._base = self.cells.ctypes.data
        self.index = HashIndex(reuse=True)
        self.keys = ColumnStore(schema.arrow)
        self.key_row = np.zeros(FIRST_SLOTS, np.int64)
        self._stamp = 0
        self.tells_keys = all(has_one_form(field.type) for field in schema.arrow)
        """Whether every row of a group has the very key that is kept of it."""
        self._by_word = all(is_word(schema[i].type.arrow) for i in self.hashed)
        self._expected = FIRST_SLOTS
        self._spread = 0

    @property
    def count(self) -> int:
        """Live groups."""
        return self.index.count

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = self.cells.nbytes + self.key_row.nbytes + self.index.nbytes + self.keys.nbytes
        return int(held)

    def upsert(self, keys: pa.RecordBatch) -> tuple[Int64Array, Int64Array]:
        """(slot of every row int64[n], rows int64[k] that opened a new group)."""
        return self.upsert_columns(keys.columns, keys.num_rows)

    def upsert_columns(self, columns: Sequence[pa.Array], n: int) -> tuple[Int64Array, Int64Array]:
        """`upsert` for key columns of n rows."""
        h0, h1 = hash_arrays([columns[i] for i in self.hashed], n, exact=self._exact)
        slots, new_rows = self.index.upsert_rows(h0, h1)
        if new_rows.size:
            self._open(columns, slots[new_rows], new_rows)
        return slots, new_rows

    def upsert_distinct(
        self, keys: pa.RecordBatch
    ) -> tuple[Int64Array, Int64Array, Int64Array | None]:
        """`upsert`, and the distinct slots if they come for free, for `touch`.

        Rows of one batch share few keys as a rule: these are found in a table that stays in the
        processor's cache, and the index is asked for each of them once.
        """
        columns = keys.columns
        local = self.local(columns, keys.num_rows)
        if local is None:
            return (*self.upsert_columns(columns, keys.num_rows), None)
        distinct, opened = self.upsert_local(columns, local)
        return distinct[local.number], local.first[opened], distinct

    def upsert_local(
        self, columns: Sequence[pa.Array], local: BatchKeys
    ) -> tuple[Int64Array, Int64Array]:
        """(slots of the batch's keys, which of them opened a new group)."""
        first, words = local.first, local.words
        if words is None:
            rows = pa.array(first)
            chosen = [columns[i].take(rows) for i in self.hashed]
        else:  # as words they hash to the same lanes, whatever their type
            chosen = [to_arrow(w, pa.int64()) for w in words]
        h0, h1 = hash_arrays(chosen, first.size)
        distinct, opened = self.index.upsert_rows(h0, h1)
        if opened.size:
            known: dict[int, pa.Array] = {}
            for i, word in zip(self.hashed, words or (), strict=False):
                type_ = self.schema[i].type.arrow
                if type_.bit_width == 64:
                    known[i] = to_arrow(word[opened], type_)
            self._open(columns, distinct[opened], first[opened], known)
        return distinct, opened

    def local(self, columns: Sequence[pa.Array], n: int) -> BatchKeys | None:
        """The distinct keys of the batch, or None where looking for them would not pay."""
        if n < LOCAL_FROM or not self._by_word or not self.hashed:
            return None
        if self._spread:
            self._spread -= 1
            return None
        found = batch_keys([columns[i] for i in self.hashed], n, n // 2, self._expected)
        if found is None:
            self._spread = SPREAD_TICKS
        else:
            self._expected = max(FIRST_SLOTS, found.first.size)
        return found

    def _open(
        self,
        columns: Sequence[pa.Array],
        slots: Int64Array,
        new_rows: Int64Array,
        known: Mapping[int, pa.Array] = NOTHING,
    ) -> None:
        """Store the keys of new groups: the slot of each, and the row that has its key. known:
        columns that are taken already."""
        self._room(self.index.num_slots)
        n = new_rows.size
        arrays = list(columns)
        if arrays and n < len(arrays[0]):
            rows = pa.array(new_rows)
            arrays = [known[i] if i in known else c.take(rows) for i, c in enumerate(arrays)]
        base = self.keys.append_columns(arrays, n)
        self.key_row[slots] = np.arange(base, base + n)

    def _room(self, slots: int) -> None:
        if slots > len(self.cells):
            size = room_for(slots)
            lengthen(self, "cells", size)
            lengthen(self, "key_row", size)
            self._base = self.cells.ctypes.data

    def touch(
        self, slots: Int64Array, weights: Int64Array, distinct: Int64Array | None = None
    ) -> tuple[Int64Array, Cells]:
        """Count the rows in; returns (the distinct slots, their cells before)."""
        if distinct is not None:
            old = self.gather(distinct)
            loops.count_valid(self.cells, 0, slots, weights, 0, 0)
            return distinct, old
        touched, _, old = self.touch_first(slots, weights)
        return touched, old

    def touch_first(
        self, slots: Int64Array, weights: Int64Array
    ) -> tuple[Int64Array, Int64Array, Cells]:
        """`touch`, and between its results the first row of each of the distinct slots."""
        self._stamp += 1
        touched, first = np.empty((2, slots.size), np.int64)
        old = np.empty((slots.size, self.width), np.int64)
        found = loops.touch(
            self.cells, self._base, slots, weights, self._stamp, touched, first, old
        )
        return touched[:found], first[:found], old[:found]

    def gather(self, slots: Int64Array) -> Cells:
        """The cells of these slots, copied."""
        out = np.empty((slots.size, self.width), np.int64)
        loops.gather(self.cells, slots, out)
        return out

    def key_columns(self, rows: Int64Array) -> list[pa.Array]:
        """The key columns at these rows (`key_row` of slots)."""
        return self.keys.take_columns(rows)

    def keys_of(
        self, touched: Int64Array, places: Int64Array, given: Given | None
    ) -> list[pa.Array]:
        """The key columns of the groups at these places of `touched`: out of the rows that touched
        them, which are at hand, where these have the very keys that are kept."""
        if given is None or not self.tells_keys:
            return self.key_columns(self.key_row[touched[places]])
        keys, first = given
        rows = pa.array(first[places])
        return [column.take(rows) for column in keys]

    def key_rows(self, slots: Int64Array) -> pa.RecordBatch:
        """The key columns of these slots."""
        return self.keys.take(self.key_row[slots])

    def free(self, slots: Int64Array) -> None:
        """Forget these (distinct, live) groups."""
        if not slots.size:
            return
        self.cells[slots] = 0
        self.index.remove(slots)
        if self.keys.num_rows > COMPACT_FROM and self.keys.num_rows > 2 * self.count:
            self._compact()

    def _compact(self) -> None:
        live = self.index.live_slots()
        self.keys.rebuild(self.key_row[live])
        self.key_row[live] = np.arange(live.size)

    def live(self) -> Int64Array:
        """Slots of all groups, ascending."""
        return self.index.live_slots()

    def save(self) -> dict[str, pa.Table]:
        """Everything, slot numbers included: what others keep by slot stays right."""
        used = self.index.num_slots
        live = self.live()
        keys = pa.Table.from_batches([self.key_rows(live)])
        return {
            **saved.nest("index", self.index.save()),
            "keys": keys,
            "live": saved.columns(slot=live),
            "cells": saved.matrix(self.cells[:used]),
        }

    def load(self, state: Mapping[str, pa.Table]) -> None:
        """Inverse of `save`."""
        self.index = HashIndex.load(saved.inner("index", state))
        self.cells = saved.from_matrix(state["cells"], FIRST_SLOTS)
        self._base = self.cells.ctypes.data
        self.cells[:, 1] = 0
        live = saved.array(state["live"], "slot")
        self.key_row = np.zeros(len(self.cells), np.int64)
        self.key_row[live] = np.arange(live.size)
        self.keys = ColumnStore(self.schema.arrow)
        if live.size:
            self.keys.append(saved.table_batch(state["keys"], self.schema))


def is_word(type_: pa.DataType) -> bool:
    """Whether SQL equality of two values is equality of at most 8 bytes."""
    return bool(
        pa.types.is_primitive(type_)
        and not pa.types.is_floating(type_)
        and not pa.types.is_decimal(type_)
        and type_ != pa.month_day_nano_interval()
        and type_.bit_width <= 64
    )


def has_one_form(type_: pa.DataType) -> bool:
    """Whether equal values of the type are the same bytes, as 0.0 and -0.0 are not."""
    return is_word(type_) or bool(
        type_ in (pa.string(), pa.binary()) or pa.types.is_decimal128(type_)
    )


class BatchKeys(NamedTuple):
    """The distinct keys of a batch: the number of each row's key int64[n], the first row of each
    key, and by column the keys' words (None if one of them is NULL)."""

    number: Int64Array
    first: Int64Array
    words: list[Int64Array] | None


def batch_keys(columns: Sequence[pa.Array], n: int, most: int, expected: int) -> BatchKeys | None:
    """The distinct keys of a batch.

    columns: words (`is_word`). None if there are more than `most`. expected: a guess of how many.
    """
    # bits become bytes: the loop takes addresses of bytes
    columns = [c.cast(pa.int8()) if pa.types.is_boolean(c.type) else c for c in columns]
    memory = np.array([flat(c) for c in columns], np.int64)
    out = np.empty(n, np.int64)
    room = max(1, min(2 * expected, most))
    while True:
        size = 1 << (4 * room - 1).bit_length()
        first, nulls = np.empty(room, np.int64), np.empty(room, np.int64)
        words = np.empty((room, len(columns)), np.int64)
        found = local_groups(memory, np.full(size, -1, np.int32), words, nulls, first, out)
        if found >= 0:
            whole = not bool(nulls[:found].any())
            kept = [words[:found, j].copy() for j in range(len(columns))] if whole else None
            return BatchKeys(out, first[:found], kept)
        if room >= most:
            return None
        room = min(4 * room, most)
