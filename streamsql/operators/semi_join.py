"""Semi and anti joins: EXISTS, IN, and their negations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.errors import NegativeWeight
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.functions.expressions import ColumnRef
from streamsql.kernels.arrays import lengthen, room_for
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import Lanes, UInt64Array, any_null, hash_columns
from streamsql.operators import saved
from streamsql.operators.arrange import Arrange, add_arrange, as_long_as, ends_of, freed_by
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, BoolArray, take_rows
from streamsql.operators.event_time import CloseQueue, event_time_us
from streamsql.operators.join import Side, keys_text
from streamsql.operators.join_condition import EquiJoin, split
from streamsql.operators.join_marks import JoinMarks
from streamsql.operators.late import drop_closed, is_late
from streamsql.operators.loops import distinct as loops
from streamsql.operators.map import add_map, move
from streamsql.operators.on_time_rule import Rule, judged_by_marks, rule_of
from streamsql.operators.windows_apart import apart_of
from streamsql.plan import nodes as plan


class LetIn:
    """Keys whose left rows come in by a change of this tick, and the mark of that change: a left
    row that came in the same tick is there when both are."""

    def __init__(self, h0: UInt64Array, h1: UInt64Array, marks: Int64Array) -> None:
        self.index = HashIndex()
        slots, _ = self.index.upsert(h0, h1)
        self.marks = np.full(self.index.num_slots, NO_WATERMARK)
        np.maximum.at(self.marks, slots, marks)

    def marked(self, rows: Delta, lanes: Lanes) -> Delta:
        """Left rows under their marks, or their keys' (lanes) where those are later."""
        assert rows.row_watermark is not None
        slots = self.index.find(*lanes)
        met = np.flatnonzero(slots >= 0)
        marks = rows.row_watermark.copy()
        marks[met] = np.maximum(marks[met], self.marks[slots[met]])
        return Delta(rows.batch, rows.weights, marks, rows.consolidated)


class SemiJoin(Operator):
    """Rows of the left input whose key is present in the right one (EXISTS, IN) or is not (NOT
    EXISTS).

    Algebra:  semi(A, B)(a) = A(a) if some b has a's key, else 0; anti = A - semi. Non-linear in B.
              A NULL key is never present.
    Input:    left from an arrangement; right as it comes.
    Output:   left's rows with their weights; -/+ for all left rows of a key whose presence changed.
    State:    `counts`: right key -> rows, freed at 0; beside the left arrangement, which may be
    shared and which forgets, below time windows (`rule`), rows whose windows have closed: whether
    their key is on the right matters to nobody then.
    Cost:     O(changed rows + left rows of the keys that appeared or vanished).
    Errors:   NegativeWeight (XX001) if a right row is taken back that is not there.
    Source:   Larson and Zhou, Efficient Maintenance of Materialized Outer-Join Views, ICDE 2007.
    """

    def __init__(
        self, schema: Schema, left: Side, right_schema: Schema, right_keys: Sequence[int],
        null_safe: Sequence[bool], anti: bool, close: tuple[int, int] | None = None,
        rule: Rule | None = None,
    ) -> None:  # fmt: skip
        """close: a key column of the right side and the µs to add to it: when the key's window
        closes. rule: which left rows the windows above need no more."""
        super().__init__(schema)
        self.left = left
        self.right_schema = right_schema
        self.right_keys = tuple(right_keys)
        self.right_strict = [k for k, s in zip(right_keys, null_safe, strict=True) if not s]
        self.anti = anti
        self.close = close
        self.rule = rule
        self.needs_time = close is not None
        self.closing = CloseQueue()
        self.close_at = np.zeros(64, np.int64)
        self.index = HashIndex(reuse=True)
        self.counts = np.zeros(64, np.int64)
        self.marks = np.zeros(64, np.uint8)
        self.watermarks = JoinMarks()

    @property
    def name(self) -> str:
        return "AntiJoin" if self.anti else "SemiJoin"

    @property
    def exact(self) -> bool:
        return not self.closes and not self.event_times

    def step(self, step: Step, *deltas: Delta) -> Delta:
        a, b = deltas
        self.watermarks.begin(step.input_watermarks)
        parts = []
        let_in = None
        b = self._held(b)
        if b:
            flipped, let_in = self._flipped(b)
            parts.append(flipped)
        if a:
            lanes, skip = self.left.lanes(a.batch)
            chosen = self._present(lanes, skip) != self.anti
            a = self.watermarks.judged(0, a)
            if let_in is not None and a.row_watermark is not None:
                a = let_in.marked(a, lanes)
            parts.append(a if bool(chosen.all()) else a.take(np.flatnonzero(chosen)))
        if self.close is not None:
            self._free_closed(min(self.watermark, *step.input_watermarks))
        return drop_closed(step, self, concat(parts, self.schema))

    def _held(self, b: Delta) -> Delta:
        """Without what is taken back of keys that were forgotten: a right side that was idle and
        woke up brings rows of windows that had closed without it."""
        if self.close is None or b.weights is None or not bool((b.weights < 0).any()):
            return b
        column, plus = self.close
        times, valid = event_time_us(b.batch.column(column))
        closed = is_late(times + plus, np.full(b.num_rows, self.watermark), self.lateness_us)
        gone = closed & (b.weights < 0)
        if valid is not None:
            gone &= valid
        gone &= self.index.find(*hash_columns(b.batch, self.right_keys)) < 0
        return b.take(np.flatnonzero(~gone)) if bool(gone.any()) else b

    def _free_closed(self, watermark: int) -> None:
        """Forget the keys of windows closed before this tick: a change to them is late."""
        times, slots = self.closing.pop(watermark)
        if slots.size:
            held = slots[(self.counts[slots] > 0) & (self.close_at[slots] == times)]
            self.counts[held] = 0
            self.index.remove(held)

    def _note_closing(self, b: Delta, keep: Int64Array, slots: Int64Array, new: Int64Array) -> None:
        assert self.close is not None
        column, plus = self.close
        rows = keep[new]
        times, valid = event_time_us(b.batch.column(column).take(pa.array(rows)))
        opened = slots[new]
        if valid is not None:
            times, opened = times[valid], opened[valid]
        times = times + (plus + self.lateness_us)
        self.close_at[opened] = times
        self.closing.push(times, opened)

    def _present(self, lanes: Lanes, skip: BoolArray) -> BoolArray:
        # a key is taken out in the tick that takes its last row
        found: BoolArray = (self.index.find(*lanes) >= 0) & ~skip
        return found

    def _flipped(self, b: Delta) -> tuple[Delta, LetIn | None]:
        """The left rows (as before this tick) of the keys that appeared or vanished, and which keys
        those are that let rows in now (where rows are judged late)."""
        keep = np.flatnonzero(~any_null(b.batch, self.right_strict))
        h0, h1 = hash_columns(b.batch, self.right_keys)
        h0, h1 = h0[keep], h1[keep]
        weights = NO_WEIGHTS if b.weights is None else b.weights[keep]
        slots, new = self.index.upsert_rows(h0, h1)
        self._room()
        if self.close is not None:
            self._note_closing(b, keep, slots, new)
        rows, signs = np.empty(slots.size, np.int64), np.empty(slots.size, np.int64)
        found, lowest = loops.crossings(self.counts, slots, weights, rows, signs)
        if lowest < 0 and bool((self.counts[slots] < 0).any()):
            raise NegativeWeight("a row was taken back that the right side does not hold")
        rows, signs = rows[:found], signs[:found]
        lanes = h0[rows], h1[rows]
        if weights.size:
            gone = np.empty(slots.size, np.int64)
            count = loops.empty_slots(self.counts, slots, self.marks, gone)
            self.index.remove(gone[:count])
        position, row, weight = self.left.probe(lanes, np.empty(0, np.bool_))
        batch = self.left.arrange.rows.take(row)
        sign = -signs[position] if self.anti else signs[position]
        if not (self.event_times or self.closes):
            return Delta(batch, weight * sign), None
        marks = self.watermarks.of(1, b.row_watermark, keep[rows])
        if self.rule is not None and position.size:  # others are free to be forgotten
            needed = np.flatnonzero(self.rule.needed(batch, marks[position]))
            batch, position = take_rows(batch, needed), position[needed]
            weight, sign = weight[needed], sign[needed]
        lets = (signs < 0) == self.anti
        let_in = LetIn(lanes[0][lets], lanes[1][lets], marks[lets])
        return Delta(batch, weight * sign, marks[position]), let_in

    def _room(self) -> None:
        if self.index.num_slots > self.counts.size:
            size = room_for(self.index.num_slots)
            for name in ("counts", "marks", "close_at"):
                lengthen(self, name, size)

    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        self.watermarks.note_sources(sources)

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        reached = super().advance_watermark(inputs)
        self.watermarks.end(inputs)
        self.left.done(self, reached)
        return reached

    @property
    def replays(self) -> bool:
        return self.watermarks.one_clock

    def current(self, *inputs: Delta) -> Delta | None:
        a, b = inputs
        lanes, skip = self.left.lanes(a.batch)
        chosen = self._present(lanes, skip) != self.anti
        with self.watermarks.retelling():
            a = self.watermarks.judged(0, a)
            if not self.anti and a.row_watermark is not None and b:
                a = self._let_in_once(b).marked(a, lanes)
        return a.take(np.flatnonzero(chosen))

    def _let_in_once(self, b: Delta) -> LetIn:
        """As if all rows of the right side came in this tick: the first of a key lets in."""
        keep = np.flatnonzero(~any_null(b.batch, self.right_strict))
        h0, h1 = hash_columns(b.batch, self.right_keys)
        _, new = HashIndex().upsert_rows(h0[keep], h1[keep])
        rows = keep[new]
        marks = self.watermarks.of(1, b.row_watermark, rows)
        return LetIn(h0[rows], h1[rows], marks)

    def save(self) -> State:
        used = self.index.num_slots
        by_slot = saved.columns(n=self.counts[:used], close=self.close_at[:used])
        counts = {"counts": by_slot, **self.watermarks.save()}
        return {**saved.nest("index", self.index.save()), **counts}

    def load(self, state: State) -> None:
        self.watermarks.load(state)
        self.index = HashIndex.load(saved.inner("index", state))
        counts = saved.array(state["counts"], "n")
        self._room()
        self.counts[: counts.size] = counts
        self.close_at[: counts.size] = saved.array(state["counts"], "close")
        if self.close is not None:
            held = self.index.live_slots()
            self.closing.push(self.close_at[held], held)

    def state_rows(self) -> int:
        return self.index.count

    def state_bytes(self) -> int:
        return int(self.index.nbytes + self.counts.nbytes)

    def explain(self) -> dict[str, str]:
        return {
            "state": "a count for every key of the right side",
            "freed": "when a key's last row goes"
            if self.close is None
            else "when the watermark closes the key's window",
            "detail": keys_text(self.left, self.right_schema, self.right_keys),
        }


def lower(node: plan.Join, build: Builder, above: plan.OnTime | None = None) -> int | None:
    """Semi and anti joins by equalities alone. above: the windows that alone read the rows."""
    if node.kind not in ("semi", "anti") or node.lateral or node.null_aware:
        return None
    parts = split(node)
    if parts is None or parts.residual is not None:
        return None
    added = add_semi_join(build, parts, node.kind == "anti", above)
    if len(parts.left.schema) == parts.left_width:
        return added
    exprs = [ColumnRef(index=i, type=c.type) for i, c in enumerate(node.schema)]
    return add_map(build, added, None, exprs, node.schema)


def add_semi_join(
    build: Builder, parts: EquiJoin, anti: bool, above: plan.OnTime | None = None
) -> int:
    """The left rows (as extended) whose key is, or is not, on the right. above: as for `lower`."""
    source = build.lower(parts.left)
    right = build.lower(parts.right)
    below = build.operator(right)
    apart = apart_of(parts, build.operator(source), below)
    frees = (
        freed_by(build.operator(source), parts.left_keys, below, parts.right_keys)
        if apart is None
        else apart.frees(0)
    )
    frees = as_long_as(frees, build.operator(source), below)
    rule = (
        None
        if above is None or frees or apart is not None
        else _forgets(build.operator(source), below, above)
    )
    if rule is not None:
        plus_us = rule.plus_us + rule.lateness_us - build.operator(source).lateness_us
        frees = {rule.time_column: plus_us}
    left = add_arrange(build, source, frees=frees)
    arrange = build.operator(left)
    assert isinstance(arrange, Arrange)

    ends, left_ends = ends_of(below), ends_of(arrange)
    closing = [(k, ends[k]) for k in parts.right_keys if k in ends]
    # the left side's window is the same one where both are compared; else a key must stay
    paired = {r for own, r in zip(parts.left_keys, parts.right_keys, strict=True)
              if own in left_ends}  # fmt: skip
    close = min((c for c in closing if c[0] in paired), key=lambda c: c[1], default=None)
    if apart is not None:
        close = apart.key(parts)

    def make() -> SemiJoin:
        side = Side(arrange, parts.left_keys, parts.null_safe)
        made = SemiJoin(
            arrange.schema, side, below.schema, parts.right_keys, parts.null_safe, anti, close, rule
        )
        move(arrange, made, {i: [i] for i in range(len(arrange.schema))})
        made.append_only = arrange.append_only and below.append_only and not anti
        made.lateness_us = max(arrange.lateness_us, below.lateness_us)
        if apart is not None:  # whether a closed row has a partner may still change
            made.closes, made.ends = {}, apart.frees(0)
            made.ends_suffice = apart.ends("semi")
            if not made.ends:  # partners may come for ever, whatever the watermark says
                made.event_times = frozenset()
        if rule is not None:
            plus_us = rule.plus_us + rule.lateness_us - made.lateness_us
            made.useless = {rule.time_column: plus_us}
        return made

    what: tuple[object, ...] = (parts.left_keys, parts.right_keys, parts.null_safe)
    if rule is not None:
        what = (*what, rule)
    private = close is not None or rule is not None
    return build.add("anti" if anti else "semi", [left, right], what, make, private=private)


def _forgets(left: Operator, right: Operator, above: plan.OnTime) -> Rule | None:
    """When the windows above need a left row no more, whoever comes on the right. Rows that are
    taken back have to be there."""
    column = above.time_column
    if not left.append_only or column >= len(left.schema) or not judged_by_marks(left, column):
        return None
    lateness_us = max(left.lateness_us, right.lateness_us) + left.delays.get(column, 0)
    return rule_of(above, lateness_us)
