"""The working tables of a recursive query, iteration by iteration, and what waits to enter them."""

from __future__ import annotations

import abc
import heapq

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import State
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT
from streamsql.operators import saved
from streamsql.operators.groups import Groups
from streamsql.operators.loops.accumulate import count_valid
from streamsql.state.arrangement import Arrangement
from streamsql.state.consolidate import consolidate
from streamsql.state.ordered_index import OrderColumn, OrderedIndex

NOWHERE = np.iinfo(np.int64).max
ENTRIES, SHOWN, NET, NEXT = 0, 2, 3, 4
"""Lanes of a row's cells: how often it was found; 1 + the iteration that holds it, or 0; what one
iteration adds to its count; SHOWN as it will be after the tick."""


class Iterations(abc.ABC):
    """Working tables by iteration. A tick is `wait` and `settle` in rising order of
    iterations, then `end`.

    total: rows of all working tables together.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.total = 0
        self._waiting: dict[int, list[Delta]] = {}
        self._heap: list[int] = []

    def wait(self, iteration: int, delta: Delta) -> None:
        """Rows that the step found for an iteration, to be taken in by `settle`."""
        if delta:
            self._call(iteration)
            self._waiting[iteration].append(delta)

    def _call(self, iteration: int) -> None:
        if iteration not in self._waiting:
            self._waiting[iteration] = []
            heapq.heappush(self._heap, iteration)

    def next_waiting(self) -> int | None:
        """The lowest iteration that something waits for."""
        return self._heap[0] if self._heap else None

    def _due(self, iteration: int) -> Delta:
        assert heapq.heappop(self._heap) == iteration
        return concat(self._waiting.pop(iteration), self.schema)

    @abc.abstractmethod
    def settle(self, iteration: int) -> Delta:
        """Take in what waits for the lowest iteration; the change of its working table."""

    def end(self) -> None:  # noqa: B027  (only UNION keeps something for a tick)
        """The tick is over."""

    @abc.abstractmethod
    def contents(self, iteration: int) -> Delta:
        """One working table as it is now."""

    @abc.abstractmethod
    def rows_of(self, iteration: int) -> int:
        """How many rows one working table has."""

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Entries of state."""

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Bytes of state."""

    @abc.abstractmethod
    def save(self) -> State:
        """Everything, between two ticks."""

    @abc.abstractmethod
    def load(self, state: State) -> None:
        """Inverse of `save`."""


class AllIterations(Iterations):
    """UNION ALL: a working table is what the step gave, with duplicates.

    State: `held`: (row, iteration) -> weight.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.wide = Schema((*schema.columns, Column("iteration", BIGINT, False)))
        self.held = Arrangement(self.wide)
        self.key = self.held.add_key([len(schema)])
        self.sizes: dict[int, int] = {}

    def settle(self, iteration: int) -> Delta:
        delta = consolidate(self._due(iteration))
        if not delta:
            return delta
        numbers = pa.array(np.full(delta.num_rows, iteration, np.int64))
        batch = make_batch([*delta.batch.columns, numbers], self.wide.arrow, delta.num_rows)
        self.held.apply(Delta(batch, delta.weights))
        size = self.sizes.get(iteration, 0) + int(delta.weights_or_ones().sum())
        self.sizes[iteration] = size
        if not size:
            del self.sizes[iteration]
        self.total = self.held.total_weight
        return delta

    def contents(self, iteration: int) -> Delta:
        probe = pa.record_batch([pa.array([iteration], pa.int64())], names=["c0"])
        _, rows = self.held.probe(self.key, probe, [0])
        rows = np.sort(rows)
        found = self.held.take(rows)
        arrays = found.columns[: len(self.schema)]
        batch = make_batch(arrays, self.schema.arrow, rows.size)
        return Delta(batch, self.held.weights(rows))

    def rows_of(self, iteration: int) -> int:
        return self.sizes.get(iteration, 0)

    @property
    def rows(self) -> int:
        return self.held.live_rows

    @property
    def nbytes(self) -> int:
        return self.held.nbytes

    def save(self) -> State:
        numbers = np.array(list(self.sizes), np.int64)
        sizes = np.array(list(self.sizes.values()), np.int64)
        return {
            **saved.nest("held", self.held.save()),
            "sizes": saved.columns(iteration=numbers, size=sizes),
        }

    def load(self, state: State) -> None:
        self.held.load(saved.inner("held", state))
        self.total = self.held.total_weight
        numbers, sizes = (saved.array(state["sizes"], n) for n in ("iteration", "size"))
        self.sizes = dict(zip(numbers.tolist(), sizes.tolist(), strict=True))


class FirstIterations(Iterations):
    """UNION: a row is in the working table of the first iteration that finds it, once.

    State: `found`: (row, iteration) -> how often the step finds it there; for every row the
    iteration that shows it.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self.groups = Groups(schema, range(len(schema)), 5)
        self.found = OrderedIndex([OrderColumn(pa.int64(), not_null=True)])
        self.sizes: dict[int, int] = {}
        self._agenda: dict[int, list[Int64Array]] = {}
        self._met: list[Int64Array] = []

    def settle(self, iteration: int) -> Delta:
        delta = self._due(iteration)
        slots = _distinct([self._take_in(iteration, delta), *self._agenda.pop(iteration, [])])
        first = self._first(slots)
        self._met.append(slots)
        self.groups.cells[slots, NEXT] = np.where(first == NOWHERE, 0, first + 1)
        held = self.groups.cells[slots, SHOWN]
        old = np.where(held > 0, held - 1, NOWHERE)
        for later in (first, old):  # to be looked at again: found there, or taken from there
            self._look_again(slots, later, iteration)
        comes = slots[(first == iteration) & (old != iteration)]
        goes = slots[(first != iteration) & (old == iteration)]
        self._count(iteration, comes.size - goes.size)
        rows = self.groups.key_rows(np.concatenate([goes, comes]))
        weights = np.ones(rows.num_rows, np.int64)
        weights[: goes.size] = -1
        return Delta(rows, weights if goes.size else None, None, True)

    def _take_in(self, iteration: int, delta: Delta) -> Int64Array:
        """Count what was found; the rows it is about."""
        if not delta:
            return np.empty(0, np.int64)
        slots, _ = self.groups.upsert(delta.batch)
        weights = delta.weights_or_ones()
        touched, _ = self.groups.touch(slots, weights)
        count_valid(self.groups.cells, NET, slots, weights, 0, 0)
        net = self.groups.cells[touched, NET]
        self.groups.cells[touched, NET] = 0
        some = net != 0
        chosen = touched[some]
        numbers = pa.array(np.full(chosen.size, iteration, np.int64))
        self.found.add(chosen, [numbers], net[some])
        return touched

    def _first(self, slots: Int64Array) -> Int64Array:
        """The first iteration that finds each row."""
        entries = self.found.read(self.found.first(slots))
        numbers = np.asarray(entries.values[0].fill_null(0))
        return np.where(entries.counts > 0, numbers, NOWHERE)

    def _look_again(self, slots: Int64Array, at: Int64Array, iteration: int) -> None:
        ahead = np.flatnonzero((at > iteration) & (at != NOWHERE))
        order = ahead[np.argsort(at[ahead], kind="stable")]
        numbers = at[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for later, part in zip(numbers[starts].tolist(), np.split(order, starts[1:]), strict=False):
            self._call(later)
            self._agenda.setdefault(later, []).append(slots[part])

    def _count(self, iteration: int, by: int) -> None:
        self.total += by
        size = self.sizes.pop(iteration, 0) + by
        if size:
            self.sizes[iteration] = size

    def end(self) -> None:
        if not self._met:
            return
        slots = _distinct(self._met)
        self._met.clear()
        cells = self.groups.cells
        if bool((cells[slots, ENTRIES] < 0).any()):
            raise NegativeWeight("a row was taken back that the recursion did not find")
        cells[slots, SHOWN] = cells[slots, NEXT]
        self.groups.free(slots[cells[slots, SHOWN] == 0])

    def contents(self, iteration: int) -> Delta:
        live = self.groups.live()
        return Delta(self.groups.key_rows(live[self._first(live) == iteration]), None, None, True)

    def rows_of(self, iteration: int) -> int:
        return self.sizes.get(iteration, 0)

    @property
    def rows(self) -> int:
        return self.found.entries

    @property
    def nbytes(self) -> int:
        return self.groups.nbytes + self.found.nbytes

    def save(self) -> State:
        return {
            **saved.nest("groups", self.groups.save()),
            **saved.nest("found", self.found.save()),
        }

    def load(self, state: State) -> None:
        self.groups.load(saved.inner("groups", state))
        self.found.load(saved.inner("found", state))
        shown = self.groups.cells[self.groups.live(), SHOWN]
        numbers, counts = np.unique(shown[shown > 0] - 1, return_counts=True)
        self.sizes = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        self.total = int(counts.sum())


def _distinct(parts: list[Int64Array]) -> Int64Array:
    """The distinct slots; each part is distinct in itself."""
    filled = [p for p in parts if p.size]
    if len(filled) < 2:
        return filled[0] if filled else np.empty(0, np.int64)
    slots = np.sort(np.concatenate(filled))
    keep = np.ones(slots.size, np.bool_)
    keep[1:] = slots[1:] != slots[:-1]
    return slots[keep]


def make_iterations(schema: Schema, all_rows: bool) -> Iterations:
    """The working tables of UNION ALL or of UNION."""
    return AllIterations(schema) if all_rows else FirstIterations(schema)
