"""The rows of OVER: every copy of a row in ORDER BY order, with the stored results of its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import hash_rows
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.columns import NO_WEIGHTS, select, take_rows
from streamsql.operators.loops import over as loops
from streamsql.operators.over_calls import Order
from streamsql.operators.top_n_append import Partitions, Ranking
from streamsql.state.column_store import ColumnStore
from streamsql.state.ordered_index import OrderedIndex, Places

FIRST_COPIES = 64
COMPACT_FROM = 4096  # stored rows below which dead ones are left alone


class OverRows:
    """Copies of rows, numbered; equal rows are as many copies, each in its own place.

    A copy stands in its partition by (ORDER BY, ties). Copies that went keep their rows and cells
    until `free`, so that a tick can say what they were.
    cells: int64[copies, lanes], the caller's. dropped: by partition, rows that were forgotten in
    front of those that are there; given: rows that will not be computed again; size: rows there
    are. retracts: whether rows may be taken back; if not, equal rows need not be found.
    """

    def __init__(
        self,
        schema: Schema,
        order: Order,
        lanes: int,
        *,
        retracts: bool,
        close: tuple[int, int] | None = None,
        lateness_us: int = 0,
    ) -> None:
        """close: position in the partition's columns and µs to add, when a partition is final."""
        self.schema = schema
        self.order = order
        self.lanes = lanes
        self.retracts = retracts
        self._ranking = Ranking("row_number", order.partition, order.order, 0, close=close)
        self._lateness_us = lateness_us
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        keys = self.schema.select(self.order.partition)
        self.parts = Partitions(keys, self._ranking, self._lateness_us)
        ties = self.order.ties
        columns = [*(column for _, column in self.order.order), *(t.column for t in ties)]
        self.index = OrderedIndex(columns, with_tie=True, breakers=len(ties))
        self.store = ColumnStore(self.schema.arrow)
        self.equal = HashIndex(reuse=True)
        self.count, self.head = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.dropped, self.given, self.size = (np.zeros(0, np.int64) for _ in range(3))
        self.below, self.slot, self.row, self.arrival, self.part = (
            np.full(FIRST_COPIES, -1, np.int64) for _ in range(5)
        )
        self._free = np.empty(FIRST_COPIES, np.int64)
        self.cells: Cells = np.zeros((FIRST_COPIES, self.lanes), np.int64)
        self.numbers = np.zeros(5, np.int64)
        self.arrivals = 0

    # --- changes -------------------------------------------------------------------------------
    def exchange(self, batch: pa.RecordBatch, weights: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(copies that came, in order of arrival, copies that went); the index knows both.

        weights: int64[n], or empty = all +1. Raises: NegativeWeight (XX001).
        """
        if self.retracts:
            came, entry, went = self._exchange_equal(batch, weights)
        else:
            came, entry, went = self._append(batch.num_rows, weights)
        self.arrival[came] = np.arange(self.arrivals, self.arrivals + came.size)
        self.arrivals += came.size
        self._move(batch, came, entry, went)
        return came, went

    def _move(
        self, batch: pa.RecordBatch, came: Int64Array, entry: Int64Array, went: Int64Array
    ) -> None:
        """Keep the rows of new copies, and tell the index of them and of those that went."""
        self._store(batch, came, entry)
        moved = np.concatenate([went, came])
        by = np.ones(moved.size, np.int64)
        by[: went.size] = -1
        if moved.size:
            parts = self.part[moved]
            self.index.add(parts, self._values(moved), by, moved)
            np.add.at(self.size, parts, by)

    def _append(self, n: int, weights: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        entry = np.arange(n)
        if weights.size and bool((weights != 1).any()):
            if int(weights.min()) < 0:
                raise NegativeWeight("a row was taken back from an append-only input")
            entry = np.repeat(entry, weights)
        self._room(entry.size)
        spare = min(int(self.numbers[loops.FREE]), entry.size)
        left = int(self.numbers[loops.FREE]) - spare
        fresh = int(self.numbers[loops.FRESH])
        new = np.arange(fresh, fresh + entry.size - spare)
        came = np.concatenate([self._free[left : left + spare], new])
        self.numbers[loops.FREE], self.numbers[loops.FRESH] = left, fresh + new.size
        return came, entry, np.empty(0, np.int64)

    def _exchange_equal(
        self, batch: pa.RecordBatch, weights: Int64Array
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        slots, _ = self.equal.upsert_rows(*hash_rows(batch))
        self.count = _longer(self.count, self.equal.num_slots, 0)
        self.head = _longer(self.head, self.equal.num_slots, -1)
        touched, rows = slots, None
        if weights.size:
            slots, weights, rows = _added_up(slots, weights)
        most = slots.size if not weights.size else int(np.maximum(weights, 0).sum())
        fewest = 0 if not weights.size else int(np.maximum(-weights, 0).sum())
        self._room(most)
        came, entry, went = (
            np.empty(most, np.int64),
            np.empty(most, np.int64),
            np.empty(fewest, np.int64),
        )
        self.numbers[loops.MISSING] = 0
        loops.exchange(
            slots, weights, self.count, self.head, self.below, self.slot, self._free,
            self.numbers, came, entry, went,
        )  # fmt: skip
        if self.numbers[loops.MISSING]:
            raise NegativeWeight("a row was taken back that is not there")
        came, entry = came[: self.numbers[loops.CAME]], entry[: self.numbers[loops.CAME]]
        went = went[: self.numbers[loops.WENT]]
        if rows is not None:
            entry = rows[entry]
            self._forget_rows(touched)
        return came, entry, went

    def _forget_rows(self, slots: Int64Array) -> None:
        """Rows that are gone are looked for no more."""
        distinct = sorted_distinct(slots)
        gone = distinct[self.count[distinct] == 0]
        self.head[gone] = -1
        self.equal.remove(gone)

    def _store(self, batch: pa.RecordBatch, came: Int64Array, entry: Int64Array) -> None:
        """Keep the rows of the new copies and find their partitions."""
        if not came.size:
            return
        rows = batch
        if came.size != batch.num_rows or bool((entry != np.arange(came.size)).any()):
            rows = take_rows(batch, entry)
        base = self.store.append(rows)
        self.row[came] = np.arange(base, base + came.size)
        parts, _ = self.parts.enter(select(rows, self.order.partition, self.parts.schema))
        for name in ("dropped", "given", "size"):
            longer = _longer(getattr(self, name), self.parts.index.num_slots, 0)
            setattr(self, name, longer)
        self.part[came] = parts
        self.cells[came] = 0

    def free(self, went: Int64Array) -> None:
        """Forget copies that are in the index no more, and partitions without rows."""
        if not went.size:
            return
        parts = sorted_distinct(self.part[went])
        self.part[went] = -1
        self._give_back(went)
        empty = parts[self.size[parts] == 0]
        self.dropped[empty], self.given[empty] = 0, 0
        self.parts.free(empty)
        if self.store.num_rows > COMPACT_FROM and self.store.num_rows > 2 * self.entries:
            live = self._live()
            self.store.rebuild(self.row[live])
            self.row[live] = np.arange(live.size)

    def _give_back(self, copies: Int64Array) -> None:
        spare = int(self.numbers[loops.FREE])
        self._free[spare : spare + copies.size] = copies
        self.numbers[loops.FREE] = spare + copies.size

    def drop(self, copies: Int64Array) -> None:
        """Forget rows that no frame needs any more (of an input that only grows); partitions stay
        known by the rows that are left in them."""
        parts, by = self.part[copies], np.full(copies.size, -1, np.int64)
        self.index.add(parts, self._values(copies), by, copies)
        np.add.at(self.size, parts, -1)
        np.add.at(self.dropped, parts, 1)
        self.free(copies)

    def close(self, watermark: int) -> None:
        """Forget the partitions that the watermark closes."""
        closed = self.parts.closed(watermark)
        if not closed.size:
            return
        _, cursors = self.index.group(closed)
        gone = self.index.ties(cursors)
        self.index.remove_groups(closed)
        self.size[closed] = 0
        if self.retracts:
            slots = self.slot[gone]
            distinct = sorted_distinct(slots)
            self.count[distinct], self.head[distinct] = 0, -1
            self.equal.remove(distinct)
        self.free(gone)

    # --- questions -----------------------------------------------------------------------------
    @property
    def entries(self) -> int:
        """Copies that are there."""
        return self.index.entries

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self.count, self.head, self.below, self.slot, self.row, self.arrival, self.part,
                  self._free, self.cells)  # fmt: skip
        held = sum(a.nbytes for a in arrays) + self.store.nbytes + self.index.nbytes
        return int(held + self.equal.nbytes + self.parts.nbytes)

    def places(self, copies: Int64Array, *, peers: bool) -> Places:
        """Where copies stand, or stood; their peers only if asked for."""
        parts = self.part[copies]
        return self.index.places(parts, self._values(copies), copies, self.size[parts], peers=peers)

    def column(self, column: int, copies: Int64Array) -> pa.Array:
        """One column of these copies."""
        return self.store.take_column(column, self.row[copies])

    def take(self, copies: Int64Array) -> pa.RecordBatch:
        """The rows of these copies."""
        return self.store.take(self.row[copies])

    def at_ranks(self, ranks: Int64Array) -> Int64Array:
        """The copies at these places of the whole index."""
        return self.index.ties(self.index.tree.select(ranks))

    def in_order_of_arrival(self) -> Int64Array:
        """All copies."""
        live = self._live()
        return live[np.argsort(self.arrival[live], kind="stable")]

    def _live(self) -> Int64Array:
        return np.flatnonzero(self.part[: self.numbers[loops.FRESH]] >= 0)

    def _values(self, copies: Int64Array) -> Sequence[pa.Array]:
        """What the index orders copies by."""
        rows = self.row[copies]
        columns = [self.store.take_column(i, rows) for i, _ in self.order.order]
        ties = self.order.ties
        return [*columns, *(t.values(self.store.take_column(t.index, rows)) for t in ties)]

    def _room(self, more: int) -> None:
        needed = int(self.numbers[loops.FRESH]) + more
        if needed <= self.row.size:
            return
        for name in ("below", "slot", "row", "arrival", "part", "_free"):
            setattr(self, name, _longer(getattr(self, name), needed, -1))
        cells = np.zeros((self.row.size, self.lanes), np.int64)
        cells[: len(self.cells)] = self.cells
        self.cells = cells

    # --- saving --------------------------------------------------------------------------------
    def save(self, copy_lanes: Sequence[int]) -> dict[str, pa.Table]:
        """Everything, copies renumbered by arrival. copy_lanes: lanes that hold copies."""
        copies = self.in_order_of_arrival()
        cells = self.cells[copies]
        number = np.full(self.row.size + 1, -1, np.int64)
        number[copies] = np.arange(copies.size)
        for lane in copy_lanes:
            cells[:, lane] = number[cells[:, lane]]
        return {
            **saved.nest("parts", self.parts.save()),
            "rows": pa.Table.from_batches([self.take(copies)]),
            "copies": saved.columns(arrival=self.arrival[copies], part=self.part[copies]),
            "cells": saved.matrix(cells),
            "partitions": saved.columns(dropped=self.dropped, given=self.given),
            "numbers": saved.numbers(arrivals=self.arrivals),
        }

    def load(self, state: Mapping[str, pa.Table]) -> None:
        """Inverse of `save`."""
        self.reset()
        self.parts.load(saved.inner("parts", state))
        self.parts.reopen()
        self.dropped = saved.array(state["partitions"], "dropped")
        self.given = saved.array(state["partitions"], "given")
        self.size = np.zeros(self.given.size, np.int64)
        part = saved.array(state["copies"], "part")
        n = part.size
        if n:
            batch = saved.table_batch(state["rows"], self.schema)
            if self.retracts:
                copies, _, _ = self._exchange_equal(batch, NO_WEIGHTS)
            else:
                copies, _, _ = self._append(n, NO_WEIGHTS)
            self.row[copies] = self.store.append(batch) + np.arange(n)
            self.part[copies] = part
            self.arrival[copies] = saved.array(state["copies"], "arrival")
            self.cells[copies] = saved.from_matrix(state["cells"], 0)[:, : self.lanes]
            self.index.add(part, self._values(copies), np.ones(n, np.int64), copies)
            np.add.at(self.size, part, 1)
        self.arrivals = saved.number(state["numbers"], "arrivals")


def _added_up(slots: Int64Array, weights: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The weights of each row added up: (slots, weights, none of them 0, an entry of each), by
    first entry. What went and came again has not moved."""
    distinct, first, which = np.unique(slots, return_index=True, return_inverse=True)
    by = np.zeros(distinct.size, np.int64)
    np.add.at(by, which, weights)
    kept = np.flatnonzero(by)
    kept = kept[np.argsort(first[kept])]
    return distinct[kept], by[kept], first[kept]


def sorted_distinct(values: Int64Array) -> Int64Array:
    """The distinct values, ascending; `numpy.unique` hashes, which takes ten times as long."""
    values = np.sort(values)
    keep = np.ones(values.size, np.bool_)
    keep[1:] = values[1:] != values[:-1]
    return values[keep]


def _longer(array: Int64Array, size: int, fill: int) -> Int64Array:
    """The array, or a longer copy of at least this size."""
    if size <= array.size:
        return array
    out = np.full(max(size, 2 * array.size), fill, np.int64)
    out[: array.size] = array
    return out
