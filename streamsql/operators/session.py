"""SESSION row by row, under inserts, deletes and out-of-order input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.errors import NegativeWeight
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.kernels.ordered import OrderedTree
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, select
from streamsql.operators.event_time import event_time_column, finite_times
from streamsql.operators.groups import Groups
from streamsql.operators.late import report_late
from streamsql.operators.loops import sessions as loops
from streamsql.operators.loops.pieces import close, judge
from streamsql.operators.rounds import forget_marks
from streamsql.operators.session_bounds import NO_TIME, SessionBounds
from streamsql.operators.session_rows import Changed, Placed, within
from streamsql.operators.time_window import closes_by, patience_us, window_facts
from streamsql.operators.window_grid import us_text
from streamsql.plan import nodes as plan
from streamsql.plan.window_grids import exact_us
from streamsql.state.consolidate import consolidate

TIME, PART, WIDTH = 2, 3, 4
"""Lanes of a stored row beside its weight (0) and stamp (1)."""


class Session(Operator):
    """Each row with the bounds of its session (SESSION … PARTITION BY).

    Algebra:  a session is a run of rows of one partition, neighbours at most `gap` apart.
    Non-linear: a row that
              joins two sessions takes the rows of both back and puts them out with new bounds; a
              delete may split one.
    Input:    delta [n rows]; any weights; rows without an event time give nothing and are counted.
    Output:   the row's columns, window_start, window_end, window_time; consolidated.
    State:    every row, in order of (partition, time), and the bounds of every session; freed when
              the watermark closes the session, under `max` piece by piece.
    Cost:     O(changed rows x log rows + rows of the sessions whose bounds moved); under `max` the
              open rows of a chain of pieces are looked at, and those are put out whose piece moved.
    Errors:   a row (or retraction) within the gap of a closed session is late, and dropped. Under
              `max` a piece is final once the watermark has reached its end; a row is late if it
              would change a closed piece, or its own would be closed; what is behind a closed piece
              is cut anew from its end.
    """

    consolidates = True

    def __init__(
        self, schema: Schema, input_schema: Schema, node: plan.TimeWindow, *,
        lateness_us: int, closes: bool,
    ) -> None:  # fmt: skip
        super().__init__(schema)
        self.input_schema = input_schema
        self.time_column = node.time_column
        self.partition_by = node.partition_by
        self.longest_us = 0 if node.max_size is None else exact_us(node.max_size)
        self.partition_schema = input_schema.select(node.partition_by)
        self.needs_time = closes
        self.bounds = SessionBounds(
            self.partition_schema, exact_us(node.size), lateness_us, closes, self.longest_us
        )
        self.rows = Groups(input_schema, range(len(input_schema)), WIDTH, exact=True)
        self.order = OrderedTree(3)

    input_origins: Mapping[int, tuple[int, int]] = {}
    """Where the input's columns come from."""

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        delta, parts = deltas[0], []
        if delta:
            times, valid = finite_times(delta.batch.column(self.time_column))
            if valid is not None:
                step.null_event_times += int(times.size - np.count_nonzero(valid))
                delta, times = delta.take(np.flatnonzero(valid)), times[valid]
            if self.bounds.doubtful(times, delta.row_watermark):
                if self.longest_us:
                    delta, times = self._whose_pieces_are_open(step, delta, times)
                for rows in self._runs(delta):
                    part, of = delta.take(rows), times[rows]
                    if not self.longest_us:
                        part, of = self._on_time(step, part, of)
                    parts.append(self._judged(part, self._take(part, of)))
            else:
                parts.append(self._take(delta, times))
        if self.bounds.closes:
            freeing = self._close_pieces if self.longest_us else self._close
            freeing(min(step.input_watermarks, default=NO_WATERMARK))
        return consolidate(concat(parts, self.schema))

    def _runs(self, delta: Delta) -> Iterator[Int64Array]:
        """Stretches of entries of one sign, in their order."""
        positive = delta.weights_or_ones() > 0
        other = positive[1:] != positive[:-1]
        yield from np.split(np.arange(positive.size), np.flatnonzero(other) + 1)

    def _judged(self, run: Delta, out: Delta) -> Delta:
        """What a run made, under the watermark that it is judged by above: a session that lost rows
        may end before it. One that got some ends behind the watermark of each of them."""
        if not out or run.row_watermark is None:
            return out
        took = run.weights is not None and int(run.weights[0]) < 0
        mark = int(run.row_watermark.max() if took else run.row_watermark.min())
        return Delta(out.batch, out.weights, np.full(out.num_rows, mark), out.consolidated)

    def _keys(self, delta: Delta) -> pa.RecordBatch:
        return select(delta.batch, self.partition_by, self.partition_schema)

    def _on_time(self, step: Step, delta: Delta, times: Int64Array) -> tuple[Delta, Int64Array]:
        """Without late entries; the weights are all positive or all negative."""
        marks, bounds = delta.row_watermark, self.bounds
        assert marks is not None
        parts = bounds.partition_slots(self._keys(delta))
        weights = delta.weights_or_ones()
        if weights[0] > 0:
            kept = np.where(bounds.late_inserts(parts, times, marks), 0, weights)
        else:
            kept = np.where(bounds.late_deletes(parts, times, marks), 0, weights)
            kept = self._there(delta, kept)
        return self._kept(step, delta, times, parts, kept)

    def _there(self, delta: Delta, weights: Int64Array) -> Int64Array:
        """How much of these retractions (weights <= 0) is of rows that are here: a session may have
        grown over the time of a row that was late."""
        slots, new_rows = self.rows.upsert(delta.batch)
        order = np.argsort(slots, kind="stable")
        of, need = slots[order], -weights[order]
        taken = np.cumsum(need) - need
        first = np.append(True, of[1:] != of[:-1])
        taken -= np.maximum.accumulate(np.where(first, taken, 0))
        kept = np.empty(weights.size, np.int64)
        kept[order] = -np.clip(self.rows.cells[of, 0] - taken, 0, need)
        self.rows.free(slots[new_rows])
        return kept

    def _kept(
        self, step: Step, delta: Delta, times: Int64Array, parts: Int64Array, kept: Int64Array
    ) -> tuple[Delta, Int64Array]:
        """Entries with so much of their weights; the rest is late."""
        late = np.flatnonzero(kept != delta.weights_or_ones())
        if not late.size:
            return delta, times
        report_late(step, self, delta, late, times, self.input_schema, self.input_origins)
        there = np.flatnonzero(kept)
        self.bounds.forget_partitions(parts[late])
        rest = delta.take(there)
        return Delta(rest.batch, kept[there], rest.row_watermark), times[there]

    def _whose_pieces_are_open(
        self, step: Step, delta: Delta, times: Int64Array
    ) -> tuple[Delta, Int64Array]:
        """Under `max`: without late entries, judged one after the other (`loops.pieces.judge`)."""
        marks, bounds, weights = delta.row_watermark, self.bounds, delta.weights_or_ones()
        assert marks is not None
        parts = bounds.partition_slots(self._keys(delta))
        slots, new_rows = self.rows.upsert(delta.batch)
        self.rows.cells[slots[new_rows], TIME] = times[new_rows]
        self.rows.cells[slots[new_rows], PART] = parts[new_rows]
        touched = np.unique(parts)
        # no row that is ahead of all these watermarks decides whether a piece is open
        from_us, to_us = np.full(touched.size, NO_TIME), np.full(touched.size, int(marks.max()))
        _, known, _ = self._span(touched, from_us, to_us)
        rows = np.union1d(known, slots)
        rows = rows[np.lexsort((self.rows.cells[rows, TIME], self.rows.cells[rows, PART]))]
        cells = self.rows.gather(rows)
        by_slot = np.argsort(rows)
        places = by_slot[np.searchsorted(rows[by_slot], slots)]
        begin = np.searchsorted(cells[:, PART], np.append(touched, touched[-1] + 1))
        floor = bounds.floor[touched]
        horizon = np.where(floor == NO_TIME, NO_TIME, floor + (bounds.gap_us + 1))
        kept = np.empty(weights.size, np.int64)
        judge(
            np.searchsorted(touched, parts), places, times, weights, marks,
            cells[:, TIME].copy(), cells[:, 0].copy(), begin, horizon,
            bounds.gap_us, self.longest_us, bounds.lateness_us, kept,
        )  # fmt: skip
        self.rows.free(slots[new_rows])
        return self._kept(step, delta, times, parts, kept)

    def _take(self, delta: Delta, times: Int64Array) -> Delta:
        """Take entries in that are on time; returns the change of the output."""
        if not delta:
            return Delta.empty(self.schema)
        bounds = self.bounds
        changed, parts = self._count(delta, times)
        came, went = changed.only(changed.old == 0), changed.only(changed.new == 0)
        before = changed.only(changed.old > 0)
        was_in = bounds.locate(before.parts, before.times)
        _, touched = bounds.place(came.parts, came.times, None)
        lost = bounds.locate(went.parts, went.times)
        # under `max` one row more may move all cuts behind it: the whole session is put out anew
        touched = np.concatenate([touched, bounds.touch(was_in if self.longest_us else lost)])
        self._reorder(came, went)
        made = self._shrink(np.unique(lost))
        existed = touched[bounds.old_first[touched] != NO_TIME]
        alive = touched[(bounds.parent[touched] < 0)]
        moved = existed[self._moved(existed)]
        fresh = np.concatenate([alive[self._moved(alive)], made])
        out = [
            *self._replaced(self._old_rows(moved, changed), self._new_rows(fresh)),
            *self._in_place(before, was_in, came, fresh, moved),
        ]
        bounds.release(touched[bounds.parent[touched] >= 0])
        gone = self._empty(touched)
        bounds.remove(gone)
        bounds.release(gone)
        self.rows.free(went.slots)
        bounds.forget_partitions(parts)
        return concat(out, self.schema)

    def _count(self, delta: Delta, times: Int64Array) -> tuple[Changed, Int64Array]:
        """Add the weights to the stored rows; (those whose weight is another now, all
        partitions)."""
        parts = self.bounds.partition_slots(self._keys(delta))
        slots, new_rows = self.rows.upsert(delta.batch)
        self.rows.cells[slots[new_rows], TIME] = times[new_rows]
        self.rows.cells[slots[new_rows], PART] = parts[new_rows]
        weights = NO_WEIGHTS if delta.weights is None else delta.weights
        touched, old = self.rows.touch(slots, weights)
        new = self.rows.gather(touched)
        if bool((new[:, 0] < 0).any()):
            raise NegativeWeight("a row was taken back that is not there")
        nothing = touched[(old[:, 0] == 0) & (new[:, 0] == 0)]
        differs = old[:, 0] != new[:, 0]
        changed = Changed(
            touched[differs], new[differs, PART], new[differs, TIME], old[differs, 0],
            new[differs, 0],
        )  # fmt: skip
        self.rows.free(nothing)
        return changed, parts

    def _reorder(self, came: Changed, went: Changed) -> None:
        for rows, weight in ((came, 1), (went, -1)):
            if rows.slots.size:
                keys = np.column_stack([rows.parts, rows.times, rows.slots])
                self.order.add(keys, np.full(rows.slots.size, weight))

    def _span(
        self, parts: Int64Array, first: Int64Array, last: Int64Array
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(which span, row slot, time) of all stored rows in these spans, in order."""
        which, cursors = self.order.span(
            np.column_stack([parts, first]), np.column_stack([parts, last])
        )
        keys, _ = self.order.read(cursors)
        return which, keys[:, 2].copy(), keys[:, 1].copy()

    def _shrink(self, sessions: Int64Array) -> Int64Array:
        """Give sessions that lost rows their new bounds; returns those that split off."""
        bounds = self.bounds
        sessions = sessions[sessions >= 0]
        if not sessions.size:
            return sessions
        parts = bounds.part_of[sessions]
        which, _, times = self._span(parts, bounds.first[sessions], bounds.last[sessions])
        if not which.size:
            return which
        cut = np.ones(which.size, np.bool_)
        cut[1:] = (which[1:] != which[:-1]) | (times[1:] - times[:-1] > bounds.gap_us)
        starts = np.flatnonzero(cut)
        ends = np.append(starts[1:], which.size) - 1
        of, first, last = which[starts], times[starts], times[ends]
        newest = np.ones(of.size, np.bool_)
        newest[:-1] = of[1:] != of[:-1]
        # the newest piece keeps the slot: it is where rows are expected next
        kept = sessions[of[newest]]
        bounds.first[kept], bounds.last[kept] = first[newest], last[newest]
        bounds.expect(kept)
        rest = ~newest
        return bounds.make(parts[of[rest]], first[rest], last[rest])

    def _moved(self, sessions: Int64Array) -> np.ndarray:
        """Whether sessions have other bounds than before this run, or are new or merged away."""
        b = self.bounds
        same = (b.first[sessions] == b.old_first[sessions]) & (
            b.last[sessions] == b.old_last[sessions]
        )
        return ~same | (b.parent[sessions] >= 0) | bool(self.longest_us)

    def _empty(self, touched: Int64Array) -> Int64Array:
        """Touched sessions in which no row is left."""
        b = self.bounds
        alive = touched[b.parent[touched] < 0]
        which, _, _ = self._span(b.part_of[alive], b.first[alive], b.last[alive])
        filled = np.zeros(alive.size, np.bool_)
        filled[which] = True
        return alive[~filled]

    # --- output --------------------------------------------------------------------------------
    def _replaced(self, old: Placed | None, new: Placed | None) -> list[Delta]:
        """-1 for old rows, +1 for new ones. Under `max`, where all pieces of a chain are looked at,
        only from the first cut that moved to where the cuts are the same again."""
        if self.longest_us and old is not None and new is not None:
            _, was, now = np.intersect1d(old.slots, new.slots, True, True)
            same = np.ones(was.size, np.bool_)
            for a, b in zip(old[1:], new[1:], strict=True):
                same &= a[was] == b[now]
            old = Placed(*(np.delete(a, was[same]) for a in old))
            new = Placed(*(np.delete(a, now[same]) for a in new))
        out = []
        if old is not None:
            out.append(self._delta(old.slots, -old.weights, old.start, old.end))
        if new is not None:
            out.append(self._delta(*new))
        return out

    def _old_rows(self, moved: Int64Array, changed: Changed) -> Placed | None:
        """Every row that was in a session whose bounds moved."""
        b = self.bounds
        if not moved.size:
            return None
        parts, first, last = b.part_of[moved], b.old_first[moved], b.old_last[moved]
        which, slots, times = self._span(parts, first, last)
        weights = self.rows.cells[slots, 0].copy()
        by_slot = np.argsort(changed.slots)
        at = np.searchsorted(changed.slots[by_slot], slots)
        at = np.minimum(at, max(changed.slots.size - 1, 0))
        if changed.slots.size:
            hit = changed.slots[by_slot][at] == slots
            weights[hit] = changed.old[by_slot][at][hit]
        # rows that went are in the order no more
        went = changed.only(changed.new == 0)
        inside, session = within(went, parts, first, last)
        which = np.concatenate([which, session])
        slots = np.concatenate([slots, went.slots[inside]])
        times = np.concatenate([times, went.times[inside]])
        weights = np.concatenate([weights, went.old[inside]])
        order = np.lexsort((times, which))
        rows = weights[order] > 0
        order = order[rows]
        return self._with_bounds(which[order], slots[order], times[order], weights[order])

    def _new_rows(self, fresh: Int64Array) -> Placed | None:
        """Every row that is in a session with new bounds."""
        b = self.bounds
        if not fresh.size:
            return None
        which, slots, times = self._span(b.part_of[fresh], b.first[fresh], b.last[fresh])
        return self._with_bounds(which, slots, times, self.rows.cells[slots, 0])

    def _in_place(
        self, before: Changed, was_in: Int64Array, came: Changed,
        fresh: Int64Array, moved: Int64Array,
    ) -> list[Delta]:  # fmt: skip
        """Changed rows in sessions that kept their bounds."""
        b = self.bounds
        out = []
        quiet = np.flatnonzero(~np.isin(was_in, moved, kind="sort"))
        if quiet.size:
            sessions, rows = was_in[quiet], before.only(quiet)
            out.append(self._as_delta(sessions, rows.slots, rows.new - rows.old))
        now_in = b.locate(came.parts, came.times)
        quiet = np.flatnonzero(~np.isin(now_in, fresh, kind="sort"))
        if quiet.size:
            rows = came.only(quiet)
            out.append(self._as_delta(now_in[quiet], rows.slots, rows.new))
        return out

    def _as_delta(self, sessions: Int64Array, slots: Int64Array, weights: Int64Array) -> Delta:
        start = self.bounds.first[sessions]
        return self._delta(slots, weights, start, self.bounds.last[sessions] + self.bounds.gap_us)

    def _with_bounds(
        self, group: Int64Array, slots: Int64Array, times: Int64Array, weights: Int64Array
    ) -> Placed:
        """Rows in order of (group, time) with the bounds that follow from their times."""
        start, end = np.empty(times.size, np.int64), np.empty(times.size, np.int64)
        loops.pieces(group, times, self.bounds.gap_us, self.longest_us, start, end)
        return Placed(slots, weights, start, end)

    def _delta(
        self, slots: Int64Array, weights: Int64Array, start: Int64Array, end: Int64Array
    ) -> Delta:
        type_ = self.schema[len(self.schema) - 3].type.arrow
        times = [event_time_column(t, type_) for t in (start, end, end - 1)]
        arrays = [*self.rows.key_rows(slots).columns, *times]
        return Delta(make_batch(arrays, self.schema.arrow, slots.size), weights)

    # --- closing -------------------------------------------------------------------------------
    def _close(self, watermark: int) -> None:
        """Free the sessions that the watermark closes, and their rows."""
        b = self.bounds
        closed = b.close(watermark)
        if not closed.size:
            return
        parts = b.part_of[closed]
        which, slots, times = self._span(parts, b.first[closed], b.last[closed])
        keys = np.column_stack([parts[which], times, slots])
        self.order.add(keys, np.full(slots.size, -1))
        self.rows.free(slots)
        b.release(closed)

    def _close_pieces(self, watermark: int) -> None:
        """Under `max`: free the pieces that the watermark closes, and their rows."""
        b = self.bounds
        found = b.due(watermark)
        if found.size:
            parts, bound = b.part_of[found], watermark - b.lateness_us
            last = np.minimum(b.last[found], bound + b.gap_us)
            which, slots, times = self._span(parts, b.first[found], last)
            closed = np.zeros(slots.size, np.bool_)
            start, floor = np.full((2, found.size), NO_TIME)
            close(which, times, b.gap_us, self.longest_us, bound, closed, start, floor)
            keys = np.column_stack([parts[which], times, slots])[closed]
            self.order.add(keys, np.full(len(keys), -1))
            self.rows.free(slots[closed])
            b.shorten(found, start, floor)
        b.forget(watermark)

    # --- the rest of the contract --------------------------------------------------------------
    def current(self, *inputs: Delta) -> Delta | None:
        keys, _ = self.order.dump()
        slots = keys[:, 2].copy()
        weights = self.rows.cells[slots, 0]
        placed = self._with_bounds(keys[:, 0].copy(), slots, keys[:, 1].copy(), weights)
        return self._delta(*placed)

    def save(self) -> State:
        return {
            **saved.nest("bounds", self.bounds.save()),
            **saved.nest("rows", self.rows.save()),
        }

    def load(self, state: State) -> None:
        self.bounds.load(saved.inner("bounds", state))
        self.rows.load(saved.inner("rows", state))
        live = self.rows.live()
        cells = self.rows.cells[live]
        self.order.add(
            np.column_stack([cells[:, PART], cells[:, TIME], live]), np.ones(live.size, np.int64)
        )

    @property
    def holds_open(self) -> str:
        return "window" if self.needs_time else ""

    def open_until_us(self) -> int | None:
        return self.bounds.first_close_us() if self.needs_time else None

    def state_rows(self) -> int:
        return self.rows.count + self.bounds.count

    def state_bytes(self) -> int:
        return self.rows.nbytes + self.order.nbytes + self.bounds.nbytes

    def explain(self) -> dict[str, str]:
        return {
            "state": "every row in order of time, and the bounds of every session",
            "freed": "when the watermark closes the session"
            if self.bounds.closes
            else "when the rows go",
            "detail": f"gap {us_text(self.bounds.gap_us)}"
            + (f", at most {us_text(self.longest_us)}" if self.longest_us else ""),
        }


def lower(node: plan.TimeWindow, build: Builder) -> int | None:
    """SESSION with exact sizes; calendar ones are recomputed by partition."""
    if node.kind != "session" or node.size.months or (node.tz is not None and node.size.days):
        return None
    if node.max_size is not None and (
        node.max_size.months or (node.tz is not None and node.max_size.days)
    ):
        return None
    source = build.lower(node.input)
    below = build.operator(source)
    closes = closes_by(below, node.time_column)

    def make() -> Session:
        made = Session(
            node.schema,
            below.schema,
            node,
            lateness_us=patience_us(below, node.time_column),
            closes=closes,
        )
        window_facts(below, made, node, closes)
        forget_marks(made)
        made.recedes = closes
        made.input_origins = below.origins
        made.append_only = False
        return made

    what = (node.time_column, node.size, node.max_size, node.partition_by)
    return build.add("session", [source], what, make, private=closes)
