"""Which values each group holds, for COUNT(DISTINCT x) and its kin."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import State
from streamsql.core.delta import Int64Array
from streamsql.core.errors import NegativeWeight
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import hash_arrays
from streamsql.operators import saved
from streamsql.operators.loops import distinct as loops

FIRST_SLOTS = 64


class DistinctValues:
    """Counts by (group, values): turns rows into first appearances (+1) and last departures (-1).

    Algebra:  distinct(Z)(g, v) = 1 if Z(g, v) > 0 else 0.  Non-linear.
    State:    one entry per (group, value); freed at count 0, or with its group.
    """

    def __init__(self) -> None:
        self.index = HashIndex(reuse=True)
        self.counts = np.zeros(FIRST_SLOTS, np.int64)
        self.group = np.zeros(FIRST_SLOTS, np.int64)
        self.marks = np.zeros(FIRST_SLOTS, np.uint8)

    def step(
        self, groups: Int64Array, weights: Int64Array, columns: list[pa.Array]
    ) -> tuple[Int64Array, Int64Array]:
        """(rows int64[m], weights int64[m]): the entries of `groups` that count.

        groups: int64[n], the group slot of each row; weights: int64[n] or empty = +1; columns: the
        distinct values. Raises: NegativeWeight (XX001) if a value is taken back too often.
        """
        h0, h1 = hash_arrays([pa.array(groups), *columns], groups.size)
        slots, new_rows = self.index.upsert_rows(h0, h1)
        self._room(self.index.num_slots)
        self.group[slots[new_rows]] = groups[new_rows]
        rows, signs = np.empty(slots.size, np.int64), np.empty(slots.size, np.int64)
        found, lowest = loops.crossings(self.counts, slots, weights, rows, signs)
        if lowest < 0 and bool((self.counts[slots] < 0).any()):
            raise NegativeWeight("a value was taken back that its group does not hold")
        if weights.size:
            gone = np.empty(slots.size, np.int64)
            count = loops.empty_slots(self.counts, slots, self.marks, gone)
            self.index.remove(gone[:count])
        return rows[:found], signs[:found]

    def free(self, groups: Int64Array) -> None:
        """Forget every value of these groups."""
        live = self.index.live_slots()
        if not live.size or not groups.size:
            return
        marked = np.zeros(max(int(groups.max()), int(self.group[live].max())) + 1, np.bool_)
        marked[groups] = True
        gone = live[marked[self.group[live]]]
        self.counts[gone] = 0
        self.index.remove(gone)

    def _room(self, slots: int) -> None:
        if slots > self.counts.size:
            size = max(slots, 2 * self.counts.size)
            for name in ("counts", "group", "marks"):
                old = getattr(self, name)
                grown = np.zeros(size, old.dtype)
                grown[: old.size] = old
                setattr(self, name, grown)

    @property
    def rows(self) -> int:
        """Entries held."""
        return self.index.count

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.index.nbytes + self.counts.nbytes + self.group.nbytes + self.marks.nbytes)

    def save(self) -> State:
        """The index, counts and groups by slot."""
        used = self.index.num_slots
        return {
            **saved.nest("index", self.index.save()),
            "values": saved.columns(count=self.counts[:used], group=self.group[:used]),
        }

    def load(self, state: State) -> None:
        """Inverse of `save`."""
        self.index = HashIndex.load(saved.inner("index", state))
        counts, group = (saved.array(state["values"], n) for n in ("count", "group"))
        self._room(counts.size)
        self.counts[: counts.size] = counts
        self.group[: group.size] = group
