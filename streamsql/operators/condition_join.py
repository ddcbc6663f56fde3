"""Joins by any condition: non-equi inner joins, outer joins and EXISTS with more than keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.schema import Schema
from streamsql.functions.expressions import columns_used
from streamsql.kernels.hash_index import HashIndex
from streamsql.operators import saved
from streamsql.operators.arrange import (
    closed_rows,
    ends_of,
    same_window,
)
from streamsql.operators.builder import Builder
from streamsql.operators.columns import BoolArray
from streamsql.operators.interval_bounds import pair_times
from streamsql.operators.interval_spans import SpanRule, rule_of
from streamsql.operators.join_condition import equalities_text, split
from streamsql.operators.join_marks import JoinMarks
from streamsql.operators.join_rows import COUNT, MATCHES, JoinRows
from streamsql.operators.late import drop_closed
from streamsql.operators.map import move
from streamsql.operators.open_spans import Holding, holding_of
from streamsql.operators.pair_condition import PairCondition
from streamsql.operators.pair_search import Search, search_of
from streamsql.operators.windows_apart import apart_ends, apart_of
from streamsql.plan import nodes as plan
from streamsql.plan.visit import remap_columns
from streamsql.state.consolidate import consolidate

PAIRED = frozenset({"inner", "cross", "left", "right", "full"})
Came = tuple[Int64Array, Int64Array]  # rows that this tick changed, ascending, and their marks
FREE_FROM = 1024
"""Rows below which nothing is looked for that could be freed."""


class ConditionJoin(Operator):
    """Pairs of rows that satisfy a condition, and the rows that no other row does.

    Algebra:  d(A * B) = dA * B + (A + dA) * dB over the pairs that hold. For every row of a side
              that is kept whole (LEFT, RIGHT, FULL, EXISTS) the number of its matches is kept; when
              it leaves or reaches 0 the row's lonely entry comes or goes. Non-linear.
    Input:    two deltas; any weights.
    Output:   left's columns, then right's, NULLs for what is missing (semi, anti: left's only); not
              consolidated unless both sides changed.
    State:    both sides' rows with their matches; found by key, by key and the order of one column
              where the condition compares one, else all of them are tried. Freed when the rows go;
              also rows of closed windows, of which nothing may change any more.
    Cost:     O(changed rows x rows they may match), in blocks of 64 Ki pairs: of all the pairs
              only those that hold are ever kept.
    Errors:   NegativeWeight (XX001) if a row is taken back that is not there. A pair the condition
              fails on does not match, and is reported until it is gone.
    Source:   Larson and Zhou, Efficient Maintenance of Materialized Outer-Join Views, ICDE 2007.
    """

    def __init__(
        self, schema: Schema, inputs: tuple[Schema, Schema], search: Search, kind: str,
        timezone: str, on_error: str, frees: tuple[dict[int, int], dict[int, int]],
        rule: SpanRule | None = None,
    ) -> None:  # fmt: skip
        """frees: by side the columns (and µs to add) that tell when its rows are done with. rule:
        the same of rows whose partners lie in a span of time."""
        super().__init__(schema)
        self.inputs = inputs
        self.search = search
        self.kind = kind
        self.timezone = timezone
        self.on_error = on_error
        self.frees = frees
        self.rule = rule
        parts = search.parts
        self.keys = (parts.left_keys, parts.right_keys)
        self.widths = (parts.left_width, parts.right_width)
        safe = parts.null_safe
        self.strict = [[k for k, s in zip(keys, safe, strict=True) if not s] for keys in self.keys]
        self.counted = (
            kind in ("left", "full", "semi", "anti"),
            kind in ("right", "full"),
        )
        self.watermarks = JoinMarks()
        self.holding: Holding | None = None
        self._came: tuple[list[Came], list[Came]] = ([], [])
        self._condition()
        self._reset()

    def _condition(self) -> None:
        """What is tested on pairs: only the columns that the condition reads are fetched."""
        predicate, wide = self.search.parts.residual, len(self.inputs[0])
        self.condition: PairCondition | None = None
        self.read: tuple[list[int], list[int]] = ([], [])
        if predicate is None:
            return
        used = sorted(columns_used(predicate))
        self.read = ([i for i in used if i < wide], [i - wide for i in used if i >= wide])
        schema = (self.inputs[0] + self.inputs[1]).select(used)
        small = remap_columns(predicate, {old: new for new, old in enumerate(used)})
        self.condition = PairCondition(small, schema, self.timezone, "Join")

    def _reset(self) -> None:
        self.parts = HashIndex(reuse=True)
        self.sides = tuple(
            JoinRows(
                self.inputs[s], self.keys[s], self.strict[s], self.search.ranges[s], self.parts
            )
            for s in (0, 1)
        )
        self._kept = FREE_FROM

    @property
    def name(self) -> str:
        words = {"inner": "Join", "cross": "Join", "semi": "SemiJoin", "anti": "AntiJoin"}
        return words.get(self.kind, f"{self.kind.capitalize()}Join")

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        outs: list[Delta] = []
        self.watermarks.begin(step.input_watermarks)
        given = list(deltas)
        for side, came in enumerate(deltas):
            if self.rule is not None and came:
                given[side] = self.rule.on_time(step, self, side, came, self.watermarks)
        self._came = [], []
        for side, delta in self.watermarks.in_order(given, self._judged):
            if self.holding is not None:
                self.holding.take(side, delta)
            for part in self._apart(side, delta):
                outs += self._change(step, side, part)
        out = concat(outs, self.schema)
        if all(deltas) and self.kind not in ("inner", "cross"):
            # by watermark: a lonely row stays where the match that would end it comes too late
            out = consolidate(out)
        return drop_closed(step, self, out if self.holding is None else self.holding.marked(out))

    def _apart(self, side: int, delta: Delta) -> Iterator[Delta]:
        """The delta in parts, none of which has a row twice, where each entry is judged by the
        watermark it came under."""
        if not delta or delta.row_watermark is None or not self._judged:
            if delta:
                yield delta
            return
        slots, _ = self.sides[side].rows.upsert(delta.batch)
        rest = np.arange(slots.size)
        while rest.size:
            _, first = np.unique(slots[rest], return_index=True)
            chosen = np.sort(first)
            yield delta if chosen.size == slots.size else delta.take(rest[chosen])
            rest = np.delete(rest, chosen)

    @property
    def _judged(self) -> bool:
        return bool(self.event_times or self.closes or self.waits)

    def _marks(self, side: int, delta: Delta, slots: Int64Array) -> Int64Array:
        """The watermark by which what these changed rows make is judged late."""
        if not self._judged:
            return slots[:0]
        of_row, _ = self.sides[side].rows.upsert(delta.batch)
        order = np.argsort(of_row, kind="stable")
        entry = order[np.searchsorted(of_row[order], slots)]
        return self.watermarks.of(side, delta.row_watermark, entry)

    def _change(self, step: Step, side: int, delta: Delta) -> list[Delta]:
        """One side's entries against the other side as it stands."""
        own, other = self.sides[side], self.sides[1 - side]
        touched, old, now = own.count(Delta(delta.batch, delta.weights))
        differs = np.flatnonzero(old != now)
        slots, old, now = touched[differs], old[differs], now[differs]
        by = now - old
        marks = self._marks(side, delta, slots)
        outs, matches, met = self._pairs(step, side, slots, by, marks)
        if marks.size:
            order = np.argsort(slots)
            self._came[side].append((slots[order], marks[order]))
        opened = old == 0
        cells = own.rows.cells
        if self.counted[side]:
            cells[slots[opened], MATCHES] = matches[opened]
            outs += self._alone(side, slots, cells[slots, MATCHES], by, marks)
        own.link(slots[opened])
        gone = slots[now == 0]
        parts = own.unlink(gone)
        own.rows.free(touched[own.rows.cells[touched, COUNT] == 0])
        if parts.size:
            self._free_keys(parts)
        return outs + self._flipped(1 - side, other, *met)

    def _pairs(
        self, step: Step, side: int, slots: Int64Array, by: Int64Array, marks: Int64Array
    ) -> tuple[list[Delta], Int64Array, tuple[Int64Array, Int64Array, Int64Array]]:
        """(pairs that hold, matches of each changed row, (slots of the other side, by how much
        their matches change, under which watermark))."""
        own, other = self.sides[side], self.sides[1 - side]
        batch = own.rows.key_rows(slots)
        matches = np.zeros(slots.size, np.int64)
        outs, met, by_met, at_met = [], [], [], []
        search = other.search
        tested = self.condition if search is None or not search.exact else None
        for pair in other.candidates(own, batch):
            position, slot = pair
            if tested is not None:
                holds = self._holds(step, tested, side, batch, position, slot, by)
                position, slot = position[holds], slot[holds]
            if not position.size:
                continue
            made = self._later(1 - side, slot, marks[position]) if marks.size else marks
            weights = other.rows.cells[slot, COUNT]
            if self.counted[side]:
                np.add.at(matches, position, weights)
            if self.counted[1 - side]:
                met.append(slot)
                by_met.append(by[position])
                at_met.append(made)
            if self.kind in PAIRED:
                right = other.rows.key_rows(slot)
                weights = by[position] * weights
                outs.append(self._output(side, batch, position, right, weights, made))
        if not met:
            return outs, matches, (slots[:0], slots[:0], slots[:0])
        changed = (np.concatenate(met), np.concatenate(by_met), np.concatenate(at_met))
        return outs, matches, changed

    def _later(self, side: int, slots: Int64Array, marks: Int64Array) -> Int64Array:
        """The marks of pairs with these rows of a side: of two that came in this tick the later one
        made the pair."""
        for came, theirs in self._came[side]:
            at = np.minimum(np.searchsorted(came, slots), came.size - 1)
            marks = np.where(came[at] == slots, np.maximum(marks, theirs[at]), marks)
        return marks

    def _holds(
        self, step: Step, tested: PairCondition, side: int, batch: pa.RecordBatch,
        position: Int64Array, slot: Int64Array, by: Int64Array,
    ) -> BoolArray:  # fmt: skip
        """bool[pairs]: the condition is TRUE."""
        other = self.sides[1 - side].rows
        rows = other.key_row[slot]
        at = pa.array(position)
        mine = [batch.column(i).take(at) for i in self.read[side]]
        theirs = [other.keys.take_column(i, rows) for i in self.read[1 - side]]
        columns = [*mine, *theirs] if side == 0 else [*theirs, *mine]
        pairs = make_batch(columns, tested.schema.arrow, position.size)
        return tested.holds(step, pairs, by[position] * other.cells[slot, COUNT])

    def _output(
        self, side: int, own: pa.RecordBatch, position: Int64Array, other: pa.RecordBatch | None,
        weights: Int64Array, marks: Int64Array,
    ) -> Delta:  # fmt: skip
        """Entries of one side's rows beside those of the other, or beside NULLs."""
        at = pa.array(position)
        columns = [[], []]  # type: list[list[pa.Array]]
        columns[side] = [own.column(i).take(at) for i in range(self.widths[side])]
        if self.kind in PAIRED:
            of_other = range(self.widths[1 - side])
            if other is None:
                types = self.inputs[1 - side].arrow.types
                columns[1 - side] = [pa.nulls(position.size, types[i]) for i in of_other]
            else:
                columns[1 - side] = [other.column(i) for i in of_other]
        batch = make_batch([*columns[0], *columns[1]], self.schema.arrow, position.size)
        plain = bool((weights == 1).all())
        return Delta(batch, None if plain else weights, marks if self._judged else None)

    def _alone(
        self, side: int, slots: Int64Array, matches: Int64Array, by: Int64Array, marks: Int64Array
    ) -> list[Delta]:
        """Changed rows of a side that stand alone (semi: that do not)."""
        wanted = matches > 0 if self.kind == "semi" else matches == 0
        at = np.flatnonzero(wanted)
        if not at.size:
            return []
        batch = self.sides[side].rows.key_rows(slots[at])
        own = marks[at] if marks.size else marks
        return [self._output(side, batch, np.arange(at.size), None, by[at], own)]

    def _flipped(
        self, side: int, rows: JoinRows, met: Int64Array, by: Int64Array, marks: Int64Array
    ) -> list[Delta]:
        """Rows of the side that did not change which lost their last match or got a first one."""
        if not met.size:
            return []
        slots, which = np.unique(met, return_inverse=True)
        cells = rows.rows.cells
        before = cells[slots, MATCHES].copy()
        np.add.at(cells[:, MATCHES], met, by)
        after = cells[slots, MATCHES]
        flips = np.flatnonzero((before == 0) != (after == 0))
        if not flips.size:
            return []
        own = marks
        if marks.size:  # the first match that came, or the last one that went
            first = np.full(slots.size, np.iinfo(np.int64).max)
            last = np.full(slots.size, np.iinfo(np.int64).min)
            np.minimum.at(first, which, marks)
            np.maximum.at(last, which, marks)
            own = np.where(before == 0, first, last)[flips]
        came = (after[flips] == 0) != (self.kind == "semi")
        weights = np.where(came, 1, -1) * cells[slots[flips], COUNT]
        batch = rows.rows.key_rows(slots[flips])
        return [self._output(side, batch, np.arange(flips.size), None, weights, own)]

    # --- freeing -------------------------------------------------------------------------------
    def _free_keys(self, parts: Int64Array) -> None:
        for side in self.sides:
            if side.ordered is not None:
                parts = parts[side.lacks(parts)]
        self.parts.remove(parts)

    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        self.watermarks.note_sources(sources)

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        self.watermarks.end(inputs)
        held = inputs if self.holding is None else self.holding.held(inputs)
        return super().advance_watermark(held)

    def commit(self) -> None:
        if (self.rule is not None or any(self.frees)) and self.state_rows() >= 2 * self._kept:
            for side in (0, 1):
                self._free_closed(side)
            self._kept = max(FREE_FROM, self.state_rows())

    def _free_closed(self, at: int) -> None:
        """Forget rows of windows that were closed before this tick: changes to them are late; and
        rows whose span is over for both sides: no partner of theirs counts any more."""
        side, columns = self.sides[at], self.frees[at]
        live = side.rows.live()
        rows = side.rows.key_row[live]

        def column(i: int) -> pa.Array:
            return side.rows.keys.take_column(i, rows)

        if columns:
            over = closed_rows(column, columns, self.watermark, self.lateness_us)
        elif self.rule is not None:
            over = self.rule.over(at, column, self.watermarks.before)
        else:
            return
        closed = live[over]
        parts = side.unlink(closed)
        side.rows.free(closed)
        if parts.size:
            self._free_keys(parts)

    # --- the rest of the contract --------------------------------------------------------------
    def save(self) -> State:
        return {
            **saved.nest("left", self.sides[0].rows.save()),
            **saved.nest("right", self.sides[1].rows.save()),
            **saved.nest("parts", self.parts.save()),
            **self.watermarks.save(),
            **({} if self.holding is None else self.holding.save()),
            **saved.nest("condition", {} if self.condition is None else self.condition.save()),
        }

    def load(self, state: State) -> None:
        self._reset()
        self.watermarks.load(state)
        if self.holding is not None:
            self.holding.load(state)
        loaded = HashIndex.load(saved.inner("parts", state))
        self.parts = loaded
        for side, name in zip(self.sides, ("left", "right"), strict=True):
            side.parts = loaded
            side.load(saved.inner(name, state))
        if self.condition is not None:
            self.condition.load(saved.inner("condition", state))

    def failure(self) -> tuple[str, str] | None:
        if self.on_error != "fail" or self.condition is None:
            return None
        return self.condition.failure

    def state_rows(self) -> int:
        return sum(side.rows.count for side in self.sides)

    def state_bytes(self) -> int:
        return int(sum(side.nbytes for side in self.sides) + self.parts.nbytes)

    def explain(self) -> dict[str, str]:
        keys = equalities_text(*self.inputs, self.search.parts) if self.keys[0] else ""
        tested = "" if self.condition is None else self.condition.text()
        closes = ", or when the watermark closes their window" if any(self.frees) else ""
        if self.rule is not None:
            closes = ", or when both watermarks have passed the end of their span"
        return {
            "state": f"the rows of both sides{self._found()}",
            "freed": f"when the rows go{closes}",
            "detail": " and ".join(t for t in (keys, tested) if t) or "every pair of rows",
        }

    def _found(self) -> str:
        ranges = zip(self.inputs, self.search.ranges, strict=True)
        names = [
            (s[r.column].name or "?") + ("" if r.until is None else f" to {s[r.until].name or '?'}")
            for s, r in ranges
            if r is not None
        ]
        if len(names) == 2:
            return f", in the order of {names[0]} and {names[1]}"
        return ", by their keys" if self.keys[0] else ", all of which are tried"


def lower(node: plan.Join, build: Builder) -> int | None:
    """Joins that need more than equalities: the other operators have had their turn."""
    if node.kind not in PAIRED | {"semi", "anti"} or node.lateral or node.null_aware:
        return None
    parts = split(node)
    if parts is None or (parts.residual is None and parts.left_keys):
        return None
    if node.kind in ("inner", "cross") and (parts.left_keys or parts.residual is None):
        return None  # an equi-join with a filter, which may share its arrangements
    return add_condition_join(build, search_of(parts), node)


def add_condition_join(build: Builder, search: Search, node: plan.Join) -> int:
    """The operator of such a join, with the node's columns."""
    parts = search.parts
    sources = [build.lower(parts.left), build.lower(parts.right)]
    left, right = (build.operator(s) for s in sources)
    n = parts.left_width
    sides: Sequence[str] = {"inner": "lr", "cross": "lr", "right": "r", "full": ""}.get(
        node.kind, "l"
    )
    of_left, of_right = ends_of(left), ends_of(right)
    paired = list(zip(parts.left_keys, parts.right_keys, strict=True))
    together, apart = same_window(left, right, paired), apart_of(parts, left, right)
    final = build.options.on_close
    rule = rule_of(parts, left, right, strict=final and node.kind == "full")
    frees = (
        (apart.frees(0), apart.frees(1))
        if apart is not None
        else ({}, {})
        if rule is not None
        else (
            dict(left.closes) if "l" in sides and left.closes else of_left if together else {},
            dict(right.closes) if "r" in sides and right.closes else of_right if together else {},
        )
    )

    def make() -> ConditionJoin:
        made = ConditionJoin(
            node.schema, (left.schema, right.schema), search, node.kind, build.options.timezone,
            build.options.on_error, frees, rule,
        )  # fmt: skip
        grows = left.append_only and right.append_only
        made.append_only = grows and node.kind in ("inner", "cross", "semi")
        made.lateness_us = max(left.lateness_us, right.lateness_us)
        if "l" in sides:
            move(left, made, {i: [i] for i in range(n)})
        if "r" in sides:
            move(right, made, {i: [n + i] for i in range(parts.right_width)})
        if apart is not None:
            made.closes = {}
            made.ends = apart_ends(apart, node.kind, left, right, n)
            made.ends_suffice = node.kind not in ("inner", "cross") and apart.ends(node.kind)
            if not made.ends:
                made.event_times = frozenset()
        if rule is not None:
            made.waits = {**made.waits, **rule.waits(node.kind, (n, parts.right_width))}
            wide = len(left.schema)
            places = {i: [i] for i in range(n)} if "l" in sides else {}
            if "r" in sides:
                places |= {wide + i: [n + i] for i in range(parts.right_width)}
            times = pair_times(rule.span, left, right)
            times.tell(made, places)
            if made.lost_times or not build.closes_here(node):
                held, patience = times.held, rule.patience_us
                made.holding = holding_of(rule.span, held, places, wide, patience)
        return made

    keys = (parts.left_keys, parts.right_keys, parts.null_safe)
    what = (node.kind, keys, parts.residual, search.ranges, build.options.timezone,
            build.options.on_error, node.schema)  # fmt: skip
    return build.add("condition-join", sources, what, make, private=True)
