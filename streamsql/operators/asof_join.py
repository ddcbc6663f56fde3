"""ASOF joins: each row beside the nearest row of the other side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import any_null, hash_columns
from streamsql.kernels.order_keys import OrderColumn, can_order
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import BoolArray
from streamsql.operators.event_time import event_time_us
from streamsql.operators.join_condition import NearestJoin, split_nearest
from streamsql.operators.join_marks import JoinMarks, only_goes
from streamsql.operators.late import doubtful, drop_closed
from streamsql.operators.map import move
from streamsql.operators.timed_rows import PART, TimedRows
from streamsql.plan import nodes as plan
from streamsql.state.ordered_index import (
    FIRST_ABOVE,
    FIRST_AT_LEAST,
    LAST_AT_MOST,
    LAST_BELOW,
    Edge,
    Entries,
)

Neighbours = tuple[Int64Array, Int64Array, Entries]
"""As `TimedRows.neighbour` finds them."""

MODES = {"ge": LAST_AT_MOST, "gt": LAST_BELOW, "le": FIRST_AT_LEAST, "lt": FIRST_ABOVE}
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


class AsofJoin(Operator):
    """Every left row with the nearest right row in time (ASOF [LEFT] JOIN … AND r.t <= l.t).

    Algebra:  asof(A, B)(a, b) = A(a) where b is the row of a's key that stands nearest to a.t on
              the side the inequality asks for. Of rows of one time the greatest counts (by its
              columns in their order, each DESC NULLS LAST), so the answer follows from the rows
              alone; how often it is there does not matter. Linear in A, non-linear in B: a right
              row has a say in the left rows between it and its neighbour, no others.
    Input:    two deltas; any weights.
    Output:   left's columns, then right's (LEFT: NULLs where there is none); -/+ for left rows
              whose nearest row changed; not consolidated.
    State:    both sides' rows in order; freed when the rows go. Rows whose key or time is NULL
              match nothing and are not kept.
    Cost:     O((changed rows + left rows that change their partner) x log rows).
    Errors:   NegativeWeight (XX001) if a row is taken back that is not there.
    """

    def __init__(
        self, schema: Schema, inputs: tuple[Schema, Schema], parts: NearestJoin, outer: bool
    ) -> None:
        super().__init__(schema)
        self.inputs = inputs
        self.parts = parts
        self.outer = outer
        self.watermarks = JoinMarks()
        self.forward = parts.function in ("ge", "gt")
        self.strict = ([*parts.left_keys, parts.left_time], [*parts.right_keys, parts.right_time])
        self._reset()

    def _reset(self) -> None:
        parts = self.parts
        self.left = TimedRows(self.inputs[0], parts.left_time)
        self.right = TimedRows(self.inputs[1], parts.right_time, tie_columns(self.inputs[1], parts))
        self.keys = HashIndex(reuse=True)

    @property
    def name(self) -> str:
        return "AsofLeftJoin" if self.outer else "AsofJoin"

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        a, b = deltas
        self.watermarks.begin(step.input_watermarks)
        outs = []
        if a and b and self._judged and a.weights is not None:
            # rows that go are beside what they were beside before the tick: a change of it may
            # come too late to be put out
            goes = only_goes(a)
            if bool(goes.any()):
                outs += self._left(a.take(np.flatnonzero(goes)))
                a = a.take(np.flatnonzero(~goes))
        if b:
            outs += self._right(self._matchable(self._under_marks(1, b), 1))
        if a:
            outs += self._left(a)
        return drop_closed(step, self, concat(outs, self.schema))

    @property
    def _judged(self) -> bool:
        return bool(self.event_times or self.closes)

    def _under_marks(self, side: int, delta: Delta) -> Delta:
        """One side's entries under the watermarks that what they make is judged late by."""
        if not self._judged:
            return Delta(delta.batch, delta.weights)
        marks = self.watermarks.of(side, delta.row_watermark, np.arange(delta.num_rows))
        return Delta(delta.batch, delta.weights, marks)

    def _matchable(self, delta: Delta, side: int) -> Delta:
        """The entries without NULLs in key and time."""
        nulls = any_null(delta.batch, self.strict[side])
        return delta if not bool(nulls.any()) else delta.take(np.flatnonzero(~nulls))

    def _left(self, a: Delta) -> list[Delta]:
        found, partner = self._partners_now(a)
        marks = self._under_marks(0, a).row_watermark
        out = self._output(a.batch, a.weights, partner, marks)
        paired = found[partner >= 0]
        self._left_changed(self._matchable(Delta(a.batch, a.weights), 0), paired)
        return [out]

    def _right(self, b: Delta) -> list[Delta]:
        """What right entries change, as if those of each watermark had come in a tick of their own.

        The entries of keys of which they reach no left row that their watermarks have passed are
        one step. Those of other keys are halved, all keys at once, until that holds or all have
        one watermark.
        """
        marks = b.row_watermark
        if marks is None or not b or int(marks.min()) == int(marks.max()) or self._in_time(b):
            return [self._right_changed(b)]
        found = self.keys.find(*hash_columns(b.batch, self.parts.right_keys))
        parts = np.unique(found[self._doubtful(b, found)])
        parts = parts[parts >= 0]
        later = np.isin(found, parts)
        sure = np.flatnonzero(~later)
        outs = [self._right_changed(b.take(sure), found[sure])]
        order = np.flatnonzero(later)
        order = order[np.argsort(found[order], kind="stable")]
        ends = np.searchsorted(found[order], parts, "right").tolist()
        waiting = [[order[i:j]] for i, j in zip([0, *ends], ends, strict=False)]
        while waiting:
            now = [stack.pop() for stack in waiting]
            chosen = np.concatenate(now)
            doubt = self._doubtful(b.take(chosen), found[chosen])
            whole = [not d[0] for d in np.split(doubt, np.cumsum([n.size for n in now[:-1]]))]
            for rows, stack, done in zip(now, waiting, whole, strict=True):
                if not done:
                    stack += [rows[rows.size // 2 :], rows[: rows.size // 2]]
            rows = np.concatenate([np.empty(0, np.int64), *itertools.compress(now, whole)])
            outs.append(self._right_changed(b.take(rows), found[rows]))
            waiting = [stack for stack in waiting if stack]
        return outs

    def _in_time(self, b: Delta) -> bool:
        """Whether all these rows, and so all left rows after them, are ahead of their watermark."""
        by_time = self.event_times == {self.parts.left_time} and not (self.closes or self.waits)
        marks = b.row_watermark
        if not by_time or not self.forward or b.weights is not None or marks is None:
            return False
        times, _ = event_time_us(b.batch.column(self.parts.right_time))
        return bool((times >= marks).all())

    def _doubtful(self, b: Delta, parts: Int64Array) -> BoolArray:
        """bool[n]: entries under different watermarks, the last of which has passed a left row of
        their key that they may change. parts: their keys' slots, -1 = no left row has it."""
        marks = b.row_watermark
        assert marks is not None
        keys, key = np.unique(parts, return_inverse=True)
        first, last = np.full(keys.size, END_OF_TIME), np.full(keys.size, NO_WATERMARK)
        np.minimum.at(first, key, marks)
        np.maximum.at(last, key, marks)
        known = np.flatnonzero((parts >= 0) & (first != last)[key])
        times = b.batch.column(self.parts.right_time).take(pa.array(known))
        slots = self._reached(parts[known], times, self._neighbours(parts[known], times))
        of_row = np.searchsorted(keys, self.left.rows.cells[slots, PART])
        rows = Delta(self.left.take(slots))
        passed = np.zeros(keys.size, np.bool_)
        passed[of_row[doubtful(self, rows, last[of_row], self.lateness_us)]] = True
        return passed[key]

    def _partners_now(self, a: Delta) -> tuple[Int64Array, Int64Array]:
        """(slots of the keys, slots of the partners as of now) of left entries, -1 = none."""
        found = self.keys.find(*hash_columns(a.batch, self.parts.left_keys))
        found[any_null(a.batch, self.strict[0])] = -1
        times = a.batch.column(self.parts.left_time)
        partner = np.full(a.num_rows, -1, np.int64)
        known = np.flatnonzero(found >= 0)
        if known.size:
            at = times if known.size == a.num_rows else times.take(pa.array(known))
            partner[known] = self.right.nearest(found[known], at, MODES[self.parts.function])
        return found, partner

    def _output(
        self, left: pa.RecordBatch, weights: Int64Array | None, partner: Int64Array,
        marks: Int64Array | None,
    ) -> Delta:  # fmt: skip
        """partner: slots of right rows, -1 = none."""
        if not self.outer and bool((partner < 0).any()):
            kept = np.flatnonzero(partner >= 0)
            left, partner = left.take(pa.array(kept)), partner[kept]
            weights = None if weights is None else weights[kept]
            marks = None if marks is None else marks[kept]
        right = self.right.take(partner)
        columns = [
            *left.columns[: self.parts.left_width],
            *right.columns[: self.parts.right_width],
        ]
        return Delta(make_batch(columns, self.schema.arrow, partner.size), weights, marks)

    def _right_changed(self, b: Delta, under: Int64Array | None = None) -> Delta:
        """Left rows whose partner is another one now. under: the slot of each entry's key, where
        they have a watermark each that their changes are judged late by; else that may be any."""
        if not b:
            return Delta.empty(self.schema)
        changed, by, gone = self.right.count(Delta(b.batch, b.weights))
        rows = self.right.rows.key_rows(changed)
        parts, _ = self.keys.upsert_rows(*hash_columns(rows, self.parts.right_keys))
        times = rows.column(self.parts.right_time)
        beyond = self._neighbours(parts, times)
        lone = self._lone(changed, by, parts, times, beyond)
        if lone is not None:
            slots, before, after, held = lone
            self.right.enter(changed, parts, by)
        else:
            held = np.empty(0, np.int64)
            slots = self._reached(parts, times, beyond)
            before = self._partners(slots)
            self.right.enter(changed, parts, by)
            after = self._partners(slots)
            differs = np.flatnonzero(before != after)
            slots, before, after = slots[differs], before[differs], after[differs]
        weights = self.left.weights(slots)
        out = self._output(
            self.left.take(np.concatenate([slots, slots])),
            np.concatenate([-weights, weights]),
            np.concatenate([before, after]),
            self._marks(b, under, np.concatenate([slots, slots])),
        )
        self.right.rows.free(gone)
        self._free_keys(parts[by < 0], held)
        return out

    def _marks(self, b: Delta, under: Int64Array | None, slots: Int64Array) -> Int64Array | None:
        """The watermarks that changes of these left rows by right entries are judged late by."""
        if b.row_watermark is None:
            return None
        if under is None:
            return np.full(slots.size, b.row_watermark.min())
        keys, key = np.unique(under, return_inverse=True)
        marks = np.full(keys.size, END_OF_TIME)
        np.minimum.at(marks, key, b.row_watermark)
        return marks[np.searchsorted(keys, self.left.rows.cells[slots, PART])]

    def _partners(self, slots: Int64Array) -> Int64Array:
        """The right row beside each of these left rows, as the index stands."""
        parts = self.left.rows.cells[slots, PART]
        return self.right.nearest(parts, self.left.times(slots), MODES[self.parts.function])

    def _lone(
        self, changed: Int64Array, by: Int64Array, parts: Int64Array, times: pa.Array,
        neighbours: Neighbours,
    ) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array] | None:  # fmt: skip
        """(left rows, partners before, partners after, keys with other right rows) where each
        changed right row stands alone: between two rows that stay, none of its time. Then left rows
        up to the one have it for their partner, or the other one. None: they do not."""
        index, forward = self.right.index, self.forward
        found, cursors, beyond = neighbours
        if not _comparable(self.right.type) or _repeat(parts, found, cursors):
            return None
        apart = np.ones(parts.size, np.bool_)
        apart[found] = False
        ends = np.flatnonzero(apart)
        near = np.empty(parts.size, np.int64)
        near[found] = index.previous(cursors) if forward else index.next(cursors)
        near[ends] = index.last(parts[ends]) if forward else index.first(parts[ends])
        gone = np.flatnonzero(by < 0)
        if gone.size:
            if not np.array_equal(index.ties(near[gone]), changed[gone]):
                return None
            near[gone] = index.previous(near[gone]) if forward else index.next(near[gone])
        entries = index.read(near)
        there = entries.counts > 0
        beside = np.where(there, entries.ties, -1)
        same = np.asarray(pc.equal(entries.values[0], times).fill_null(False)) & there
        removed = changed[gone]
        stays = not (np.isin(beside, removed).any() or np.isin(beyond.ties, removed).any())
        if bool(same.any()) or not stays:
            return None
        of, slots = self._stretches(parts, times, found, beyond.values[0])
        went = by[of] < 0
        own, other = changed[of], beside[of]
        held = parts[there | ~apart]
        return slots, np.where(went, own, other), np.where(went, other, own), held

    def _neighbours(self, parts: Int64Array, times: pa.Array) -> Neighbours:
        """The right rows nearest to these on the side of the left rows that they reach."""
        return self.right.neighbour(parts, times, FIRST_ABOVE if self.forward else LAST_BELOW)

    def _reached(self, parts: Int64Array, times: pa.Array, neighbours: Neighbours) -> Int64Array:
        """Left rows (slots) between these changed right rows and their old neighbours."""
        left, peers = self.left.index, self.parts.function in ("gt", "le")
        if not left.entries or not parts.size:
            return np.empty(0, np.int64)
        found, cursors, entries = neighbours
        beyond = entries.values[0]
        if not _repeat(parts, found, cursors):
            return np.unique(self._stretches(parts, times, found, beyond)[1])
        near = left.rank(parts, [times], peers=peers)
        far = left.size(parts) if self.forward else np.zeros(parts.size, np.int64)
        if found.size:
            far[found] = left.rank(parts[found], [beyond], peers=peers)
        # changed rows between the same old neighbours reach as far as the farthest of them
        order = np.lexsort((near if self.forward else -near, far, parts))
        parts, near, far = parts[order], near[order], far[order]
        first = np.ones(parts.size, np.bool_)
        first[1:] = (parts[1:] != parts[:-1]) | (far[1:] != far[:-1])
        start, end = (near, far) if self.forward else (far, near)
        return self.left.between(parts[first], start[first], end[first])

    def _stretches(
        self, parts: Int64Array, times: pa.Array, found: Int64Array, beyond: pa.Array
    ) -> tuple[Int64Array, Int64Array]:
        """Left rows from each changed right row on up to its neighbour, which those found have:
        (position of the changed row, slot)."""
        ends_open, apart = self.parts.function in ("ge", "le"), np.ones(parts.size, np.bool_)
        apart[found] = False
        of, slots = [], []
        for at, far in ((found, Edge([beyond], ends_open)), (np.flatnonzero(apart), None)):
            near = Edge([times.take(pa.array(at))], not ends_open)
            low, high = (near, far) if self.forward else (far, near)
            which, reached = self.left.stretch(parts[at], low, high)
            of.append(at[which])
            slots.append(reached)
        return np.concatenate(of), np.concatenate(slots)

    def _left_changed(self, a: Delta, held: Int64Array) -> None:
        """Count left entries in. held: slots of keys that have right rows."""
        changed, by, gone = self.left.count(a)
        rows = self.left.rows.key_rows(changed)
        parts, _ = self.keys.upsert_rows(*hash_columns(rows, self.parts.left_keys))
        self.left.enter(changed, parts, by)
        self.left.rows.free(gone)
        self._free_keys(parts[by < 0], held)

    def _free_keys(self, parts: Int64Array, held: Int64Array) -> None:
        """Forget those of the keys that no row of either side has. held: some of those that are
        known to have one."""
        parts = np.setdiff1d(parts, held)
        for side in (self.left, self.right):
            parts = parts[side.index.first(parts) < 0]
        self.keys.remove(parts)

    # --- the rest of the contract --------------------------------------------------------------
    def current(self, *inputs: Delta) -> Delta | None:
        if not inputs[0]:
            return Delta.empty(self.schema)
        with self.watermarks.retelling():
            a = self._under_marks(0, inputs[0])
            return self._output(a.batch, a.weights, self._partners_now(a)[1], a.row_watermark)

    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        self.watermarks.note_sources(sources)

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        self.watermarks.end(inputs)
        return super().advance_watermark(inputs)

    def save(self) -> State:
        return {
            **self.watermarks.save(),
            **saved.nest("left", self.left.save()),
            **saved.nest("right", self.right.save()),
            **saved.nest("keys", self.keys.save()),
        }

    def load(self, state: State) -> None:
        self._reset()
        self.watermarks.load(state)
        self.left.load(saved.inner("left", state))
        self.right.load(saved.inner("right", state))
        self.keys = HashIndex.load(saved.inner("keys", state))

    def state_rows(self) -> int:
        return self.left.rows.count + self.right.rows.count

    def state_bytes(self) -> int:
        return int(self.left.nbytes + self.right.nbytes + self.keys.nbytes)

    def explain(self) -> dict[str, str]:
        return {
            "state": "the rows of both sides, by key in the order of their times",
            "freed": "when the rows go",
            "detail": nearest_text(self.inputs, self.parts),
        }


def _comparable(type_: pa.DataType) -> bool:
    """Whether values of a type have one time exactly if Arrow calls them equal."""
    kinds = pa.types
    exact = (kinds.is_integer, kinds.is_timestamp, kinds.is_date, kinds.is_decimal, kinds.is_string)
    return any(test(type_) for test in exact)


def _repeat(parts: Int64Array, found: Int64Array, neighbours: Int64Array) -> bool:
    """Whether two rows of a key have the same neighbour, or both none. found: those that have."""
    at = np.full(parts.size, -1)
    at[found] = neighbours
    order = np.lexsort((at, parts))
    same = (parts[order][1:] == parts[order][:-1]) & (at[order][1:] == at[order][:-1])
    return bool(same.any())


def nearest_text(inputs: Sequence[Schema], parts: NearestJoin) -> str:
    """The condition of such a join, for EXPLAIN."""
    left, right = inputs
    names = [
        f"{left[a].name or '?'} = {right[b].name or '?'}"
        for a, b in zip(parts.left_keys, parts.right_keys, strict=True)
    ]
    time = f"{left[parts.left_time].name or '?'} {_SIGNS[parts.function]} "
    return " and ".join([*names, f"{time}{right[parts.right_time].name or '?'}"])


def tie_columns(right: Schema, parts: NearestJoin) -> list[tuple[int, OrderColumn]]:
    """What tells right rows of one key and time apart, so that the greatest is met first."""
    descending = parts.function in ("le", "lt")
    same = {*parts.right_keys, parts.right_time}
    return [
        (i, OrderColumn(c.type.arrow, descending=descending, nulls_first=not descending))
        for i, c in enumerate(right)
        if i < parts.right_width and i not in same
    ]


def lower(node: plan.Join, build: Builder) -> int | None:
    """ASOF joins by plain columns or expressions whose types can be put in order."""
    if node.kind not in ("asof", "asof_left") or node.lateral:
        return None
    parts = split_nearest(node)
    if parts is None:
        return None
    ordered = [parts.right.schema[parts.right_time], *node.right.schema]
    if not all(can_order(c.type.arrow) for c in ordered):
        return None
    if build.closes_here(node):
        from streamsql.operators.asof_on_close import add_on_close

        added = add_on_close(build, parts, node)
        if added is not None:
            return added
    return add_asof_join(build, parts, node)


def add_asof_join(build: Builder, parts: NearestJoin, node: plan.Join) -> int:
    """The operator of an ASOF join."""
    sources = [build.lower(parts.left), build.lower(parts.right)]
    left, right = (build.operator(s) for s in sources)
    outer = node.kind == "asof_left"

    def make() -> AsofJoin:
        made = AsofJoin(node.schema, (left.schema, right.schema), parts, outer)
        made.lateness_us = max(left.lateness_us, right.lateness_us)
        move(left, made, {i: [i] for i in range(parts.left_width)})
        return made

    keys = (parts.left_keys, parts.right_keys, parts.left_time, parts.right_time, parts.function)
    widths = (parts.left_width, parts.right_width)
    return build.add("asof-join", sources, (keys, widths, outer), make)
