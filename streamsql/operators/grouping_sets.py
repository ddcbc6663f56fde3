"""GROUPING SETS, ROLLUP and CUBE: every row is folded once, whatever the number of sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import hash_arrays
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.aggregate import (
    Aggregate,
    aggregate_text,
    closing_key,
    freeing_key,
    identifying,
)
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS
from streamsql.operators.folding import COUNT_LANE, Folding, make_folding
from streamsql.operators.groups import batch_keys, is_word
from streamsql.operators.loops import accumulate as loops
from streamsql.operators.map import move
from streamsql.operators.panes import below_window
from streamsql.operators.rounds import Rounds, forget_marks, rounds_of
from streamsql.plan import nodes as plan


class OneSet(Aggregate):
    """The groups of one grouping set; takes partial groups instead of rows."""

    partial: tuple[Sequence[pa.Array], Cells] = ((), np.empty((0, 0), np.int64))
    """(key columns, cells) of the tick's distinct keys, of the finest set."""

    def __init__(self, chosen: Sequence[int], *args: object, **more: object) -> None:
        """chosen: positions of its keys among all keys."""
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self.chosen = tuple(chosen)

    def _fold(self, step: Step, delta: Delta) -> tuple[Int64Array, Cells]:
        columns, cells = self.partial
        keys = [columns[i] for i in self.chosen]
        slots, new_rows = self.groups.upsert_columns(keys, len(cells))
        if self.close is not None:
            self._note_closing(keys, slots[new_rows], new_rows)
        counts = np.ascontiguousarray(cells[:, COUNT_LANE])
        touched, first, old = self.groups.touch_first(slots, counts)
        self._given = (keys, first)
        self.folding.merge(self.groups.cells, slots, cells)
        self.folding.settle(self.groups.cells, touched)
        return touched, old

    def forget(self, watermark: int) -> None:
        """Free the groups whose windows above are closed."""
        if self.close is not None:
            self._close_windows(watermark)


class GroupingSets(Operator):
    """Several GROUP BY over the same rows, keys outside of a row's set as NULL.

    Algebra:  linear in the accumulators: the tick's rows are added up by all keys first, and these
              few partial groups are merged into the groups of every set.
    Input:    delta [n rows x input schema]; any weights.
    Output:   all keys, aggregates, GROUPING(…) calls; weights -1 or +1. The set without keys has a
              row from the start. Where a key of all sets is an event time, changes carry the
              watermark of the row that made them (`rounds`).
    State:    as `Aggregate`, for each set.
    Cost:     O(changed rows + sets x distinct keys among them).
    Errors:   as `Aggregate`.
    Source:   Gray et al., Data Cube, ICDE 1996 (aggregates of a cube from finer ones).
    """

    def __init__(
        self, node: plan.Aggregate, sets: Sequence[OneSet], folding: Folding, below: Operator
    ) -> None:
        """folding: of the partial groups."""
        super().__init__(node.schema)
        self.node = node
        self.sets = tuple(sets)
        self.folding = folding
        self.input_schema = below.schema
        self.hashed = identifying(node.keys, below)
        self.needs_time = any(s.needs_time for s in sets)
        self._expected = 64
        self.rounds: Rounds | None = None
        self.again: Callable[[], Operator] | None = None

    @property
    def name(self) -> str:
        return "Grouping sets"

    @property
    def holds_open(self) -> str:
        return "window" if any(one.holds_open for one in self.sets) else ""

    def open_until_us(self) -> int | None:
        found = [until for one in self.sets if (until := one.open_until_us()) is not None]
        return min(found, default=None)

    def step(self, step: Step, *deltas: Delta) -> Delta:
        if self.rounds is None:
            return self._taken(step, deltas[0])
        if not self.needs_time:
            return self.rounds.run(deltas, lambda part: self._taken(step, part))
        open_ = replace(step, input_watermarks=())  # nothing is freed from one round to the next
        out = self.rounds.run(deltas, lambda part: self._taken(open_, part))
        for one in self.sets:
            one.forget(min(step.input_watermarks, default=NO_WATERMARK))
        return out

    def _taken(self, step: Step, delta: Delta) -> Delta:
        if delta:
            partial = self._partial(delta)
            for one in self.sets:
                one.partial = partial
        parts = [self._widened(one, one.step(step, delta)) for one in self.sets]
        return concat([p for p in parts if p], self.schema)

    def _partial(self, delta: Delta) -> tuple[list[pa.Array], Cells]:
        """The tick's rows by all keys: (key columns of the distinct keys, their cells)."""
        keys = [delta.batch.column(k) for k in self.node.keys]
        number, first = self._distinct([keys[i] for i in self.hashed], delta.num_rows)
        cells = np.zeros((first.size, self.folding.width), np.int64)
        weights = NO_WEIGHTS if delta.weights is None else delta.weights
        loops.count_valid(cells, COUNT_LANE, number, weights, 0, 0)
        self.folding.fold(cells, delta.batch, number, weights)
        rows = pa.array(first)
        return [k.take(rows) for k in keys], cells

    def _distinct(self, columns: list[pa.Array], n: int) -> tuple[Int64Array, Int64Array]:
        """(number of each row's key, first row of each key)."""
        if columns and all(is_word(c.type) for c in columns):
            found = batch_keys(columns, n, n, self._expected)
            if found is not None:
                self._expected = max(64, found.first.size)
                return found.number, found.first
        h0, h1 = hash_arrays(columns, n)
        return HashIndex(expected=min(n, 1 << 14)).upsert_rows(h0, h1)

    def _widened(self, one: OneSet, delta: Delta) -> Delta:
        """The rows of one set with all keys and the GROUPING(…) numbers."""
        n = delta.num_rows
        if not n:
            return delta
        types = self.schema.arrow
        columns = delta.batch.columns
        keys = len(one.chosen)
        arrays: list[pa.Array] = []
        for i in range(len(self.node.keys)):
            given = i in one.chosen
            nulls = None if given else pa.nulls(n, types.field(i).type)
            arrays.append(columns[one.chosen.index(i)] if given else nulls)
        arrays += columns[keys:]
        for call in self.node.grouping_calls:
            bits = "".join("0" if i in one.chosen else "1" for i in call)
            arrays.append(pa.array(np.full(n, int(bits or "0", 2), np.int32)))
        return Delta(make_batch(arrays, types, n), delta.weights)

    # --- the rest of the contract --------------------------------------------------------------
    @property
    def replays(self) -> bool:
        return self.rounds is not None and not self.needs_time

    def current(self, *inputs: Delta) -> Delta | None:
        return self.retell(Step(0, 0), *inputs)

    @property
    def retells(self) -> bool:
        return any(one.retells for one in self.sets)

    def retell(self, step: Step, *inputs: Delta) -> Delta | None:
        if self.again is not None and inputs[0].row_watermark is not None:
            return self.again().step(step, *inputs)
        given = [(one, one.retell(step)) for one in self.sets]
        return concat([self._widened(one, rows) for one, rows in given if rows], self.schema)

    def save(self) -> State:
        state: dict[str, pa.Table] = {}
        for i, one in enumerate(self.sets):
            state |= saved.nest(f"set{i}", one.save())
        return state

    def load(self, state: State) -> None:
        for i, one in enumerate(self.sets):
            one.load(saved.inner(f"set{i}", state))

    def state_rows(self) -> int:
        return sum(one.state_rows() for one in self.sets)

    def state_bytes(self) -> int:
        return sum(one.state_bytes() for one in self.sets)

    def explain(self) -> dict[str, str]:
        names = self.schema.names
        listed = ", ".join(f"({', '.join(names[i] for i in s.chosen)})" for s in self.sets)
        calls = aggregate_text(Schema(()), self.node.aggregates, self.input_schema)
        freed = "when a group's last row goes"
        if self.needs_time:
            freed += ", or the watermark closes its window"
        return {
            "state": f"{self.folding.width * 8} bytes and the key for every group of every set",
            "freed": freed,
            "detail": ": ".join(part for part in (listed, calls) if part),
            "how": "each row once into a tick's finest groups, these into the groups of every set",
        }


def lower(node: plan.Aggregate, build: Builder) -> int | None:
    """Grouping sets whose aggregates can be merged; the others are one GROUP BY for each set."""
    if node.grouping_sets is None or build.options.on_close:
        return None
    window = below_window(node.input)
    if window is not None and window.window.kind != "tumble":
        return None
    source = build.lower(node.input)
    below = build.operator(source)
    probe = make_folding(node.aggregates, below.append_only)
    if probe is None or not probe.mergeable:
        return None
    sets = node.grouping_sets

    def folding() -> Folding:
        made = make_folding(node.aggregates, below.append_only)
        assert made is not None
        return made

    def make() -> GroupingSets:
        parts = []
        for chosen in sets:
            outputs = (*chosen, *range(len(node.keys), len(node.keys) + len(node.aggregates)))
            keys = [node.keys[i] for i in chosen]
            part = OneSet(
                chosen, node.schema.select(outputs), keys, identifying(keys, below), folding(),
                close=freeing_key(keys, below),
            )  # fmt: skip
            part.lateness_us = below.lateness_us
            closing = closing_key(keys, below)
            part.closes = {} if closing is None else dict([closing])
            parts.append(part)
        made = GroupingSets(node, parts, folding(), below)
        made.lateness_us = below.lateness_us
        always = set.intersection(*(set(s) for s in sets)) if sets else set()
        move(below, made, {node.keys[i]: [i] for i in sorted(always)})
        made.lost_ends = False
        if closes:
            forget_marks(made)  # windows close once a tick
        else:
            made.rounds = rounds_of(made, [{i: node.keys[i] for i in always}])
            made.again = None if made.rounds is None else make
        return made

    by_set = [[node.keys[i] for i in s] for s in sets]
    closes = any(closing_key(keys, below) is not None for keys in by_set)
    private = any(freeing_key(keys, below) is not None for keys in by_set)
    what = (node.keys, node.aggregates, sets, node.grouping_calls, node.schema, probe.layout)
    return build.add("grouping sets", [source], what, make, private=private)
