"""GROUP BY, kept up to date group by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, make_batch, ones
from streamsql.core.errors import NegativeWeight, StreamSqlError
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.core.types import INTEGER
from streamsql.functions.expressions import AggregateCall, Expr, column, literal
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.bad_results import BadGroups, results_and_errors
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, BoolArray, sort_order
from streamsql.operators.equal_pairs import moved_pairs, without_equal_pairs
from streamsql.operators.event_time import CloseQueue, event_time_us
from streamsql.operators.folding import (
    CLOSE_LANE,
    COUNT_LANE,
    FIRST_FREE_LANE,
    Folding,
    make_folding,
)
from streamsql.operators.groups import BatchKeys, Given, Groups
from streamsql.operators.loops import accumulate as loops
from streamsql.operators.loops import emit
from streamsql.operators.map import move
from streamsql.operators.rounds import Rounds, forget_marks, rounds_of
from streamsql.plan import nodes as plan


class Aggregate(Operator):
    """One row a group: its keys and what COUNT, SUM, AVG, MIN, … say of its rows (GROUP BY).

    Algebra:  linear in the accumulators; the output is -old +new of the groups that changed.
              NULL keys are one group. Without keys there is always one row.
    Input:    delta [n rows x input schema]; any weights.
    Output:   keys, then aggregates; weights -1 or +1; consolidated. With `on_close`: every window's
              groups once, with +1, in the order of their close and then of their keys. Where a key
              is an event time, changes carry the watermark of the row that made them (`rounds`).
    State:    `groups`: key -> cells; one entry a group with rows; freed when the last row goes, or
              when the watermark closes the group's window (a key column in `closes`).
    Cost:     O(changed rows + touched groups) per tick.
    Errors:   a group whose result can not be held (22003) is kept out and reported, or its result
              is NULL (`on_error = 'null'`), as long as that is so. NegativeWeight (XX001) if a
              group would hold fewer than 0 rows.
    Source:   Budiu et al., DBSP, VLDB 2023 (incremental aggregation).
    """

    consolidates = True

    def __init__(
        self,
        schema: Schema,
        keys: Sequence[int],
        hashed: Sequence[int],
        folding: Folding,
        *,
        close: tuple[int, int] | None = None,
        on_close: bool = False,
        input_schema: Schema | None = None,
        on_error: str = "skip",
    ) -> None:
        """keys: positions in the input. hashed: positions in `keys` that identify a group. close: a
        position in `keys` and the µs to add to it: when the group's window closes."""
        super().__init__(schema)
        self.input_schema = input_schema
        self.keys = tuple(keys)
        self.key_schema = schema.select(range(len(self.keys)))
        self.hashed = tuple(hashed)
        self.folding = folding
        self.close = close
        self.on_close = on_close
        self.needs_time = close is not None
        self.groups = Groups(self.key_schema, self.hashed, folding.width)
        self.closing = CloseQueue()
        self.rounds: Rounds | None = None
        self.again: Callable[[], Operator] | None = None  # makes one that has seen nothing
        self.started = False
        self.on_error = on_error
        self.bad = BadGroups(self.name, self.key_schema, on_error)
        self._step: Step | None = None  # where errors are told; None = nowhere
        self._given: Given | None = None
        self._kept: Int64Array | None = None  # rows of the last output that were not bad
        self.nothing = Delta.empty(schema)
        # where lanes do not tell what is printed, any change of them counts, and rows are compared
        shown = folding.shown
        self._compares = shown is None
        if shown is None:
            lanes = [0, *range(FIRST_FREE_LANE, folding.width)]
            shown = np.array([(k, 0) for k in lanes], np.int64)
        self._told_by = shown

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        delta = deltas[0]
        self._step = step
        out = self.nothing
        if not self.keys and not self.started:
            out = self._open_global()
        if delta.num_rows:
            changes = self._taken(step, delta)
            self._given = None
            self.folding.tidy(self.groups.cells)
            if not self.on_close:
                out = _pair(out, changes) if out.num_rows else changes
        self.started = True
        if self.close is not None:
            closed = self._close_windows(min(step.input_watermarks, default=NO_WATERMARK))
            out = closed if self.on_close else out
        return out

    def _taken(self, step: Step, delta: Delta) -> Delta:
        """Take the rows in; what changes by them."""
        if self.rounds is None:
            return self._changes(*self._fold(step, delta))
        return self.rounds.run((delta,), lambda part: self._changes(*self._fold(step, part)))

    @property
    def exact(self) -> bool:
        return self.folding.exact and self.close is None

    def _open_global(self) -> Delta:
        """The row of an aggregate over nothing, which is there from the start."""
        slots, _ = self.groups.upsert(make_batch([], self.key_schema.arrow, 1))
        return self._all_rows(slots)

    def _fold(self, step: Step, delta: Delta) -> tuple[Int64Array, Cells]:
        """Take the rows in; (groups touched, their cells before)."""
        columns, groups = delta.columns, self.groups
        keys = [columns[i] for i in self.keys]
        weights = NO_WEIGHTS if delta.weights is None else delta.weights
        local = groups.local(keys, delta.num_rows)
        if local is not None and self.folding.exact:
            return self._fold_locally(delta, keys, weights, local)
        distinct = None
        if local is None:
            slots, opened = groups.upsert_columns(keys, delta.num_rows)
            fresh = slots[opened]
        else:
            distinct, opened = groups.upsert_local(keys, local)
            slots, fresh = distinct[local.number], distinct[opened]
            opened = local.first[opened]
        if self.close is not None:
            self._note_closing(keys, fresh, opened)
        if local is None:
            touched, first, old = groups.touch_first(slots, weights)
        else:
            first = local.first
            touched, old = groups.touch(slots, weights, distinct)
        self._given = (keys, first)
        self.folding.fold_delta(groups.cells, delta, slots, weights)
        self.folding.settle(groups.cells, touched)
        return touched, old

    def _fold_locally(
        self, delta: Delta, keys: Sequence[pa.Array], weights: Int64Array, local: BatchKeys
    ) -> tuple[Int64Array, Cells]:
        """`_fold` in two phases: the rows are added up among themselves, in few cells that stay in
        the processor's cache, and these to the groups."""
        groups = self.groups
        part = np.zeros((local.first.size, self.folding.width), np.int64)
        loops.count_valid(part, COUNT_LANE, local.number, weights, 0, 0)
        self.folding.fold_delta(part, delta, local.number, weights)
        distinct, opened = groups.upsert_local(keys, local)
        if self.close is not None:
            self._note_closing(keys, distinct[opened], local.first[opened])
        self._given = (keys, local.first)
        old = groups.gather(distinct)
        loops.merge_sums(groups.cells, COUNT_LANE, distinct, part, 1)
        self.folding.merge(groups.cells, distinct, part)
        return distinct, old

    def _note_closing(
        self, keys: Sequence[pa.Array], opened: Int64Array, new_rows: Int64Array
    ) -> None:
        """Remember when the groups that were opened close; new_rows: the row that has the key of
        each."""
        assert self.close is not None
        if not new_rows.size:
            return
        column, plus = self.close
        times, valid = event_time_us(keys[column].take(pa.array(new_rows)))
        if valid is not None:
            times, opened = times[valid], opened[valid]
        times = times + (plus + self.lateness_us)
        self.groups.cells[opened, CLOSE_LANE] = times
        self.closing.push(times, opened)

    def _changes(self, touched: Int64Array, old: Cells) -> Delta:
        """-old +new of the touched groups; groups without rows are freed."""
        m, groups = touched.size, self.groups
        gone_slots, places = np.empty(m, np.int64), np.empty(2 * m, np.int64)
        cells = np.empty((2 * m, self.folding.width), np.int64)
        counts, pairs = np.zeros(4, np.int64), np.empty((2, m), np.int64)
        emit.changes(
            groups.cells, touched, old, self._told_by, bool(self.keys), not self.on_close,
            gone_slots, places, cells, counts, pairs,
        )  # fmt: skip
        before, after, both, gone = counts.tolist()
        if gone < 0:
            raise NegativeWeight("a row was taken back that its group does not hold")
        n = before + after
        out = self.nothing
        if n:
            out = self._rows(groups.keys_of(touched, places[:n], self._given), cells[:n], before)
            if both and self._compares:
                pairs = moved_pairs(pairs[:, :both], self._kept, n)
                if self.folding.prints_count:
                    told = cells[:n] if self._kept is None else cells[:n][self._kept]
                    same = told[pairs[0], COUNT_LANE] == told[pairs[1], COUNT_LANE]
                    pairs = pairs[:, same]
                out = without_equal_pairs(out, pairs)
        if gone:
            self._free(gone_slots[:gone])
        return out

    def _rows(self, keys: list[pa.Array], cells: Cells, before: int) -> Delta:
        """Output rows from keys and cells, the first `before` with -1 and the others with +1."""
        n = len(cells)
        weights = None
        if before:
            weights = ones(n)
            weights[:before] = -1
        self._kept = None
        try:
            results = self.folding.results(cells)
        except StreamSqlError:
            return self._rows_but_bad(keys, cells, ones(n) if weights is None else weights)
        return Delta.of(keys + results, self.schema.arrow, n, weights, None, True)

    def _rows_but_bad(self, keys: list[pa.Array], cells: Cells, weights: Int64Array) -> Delta:
        """`_rows` without the groups that a result can not be computed for, or with NULL there."""
        results, errors = results_and_errors(self.folding.accumulators, cells)
        n = len(cells)
        out = Delta.of(keys + results, self.schema.arrow, n, weights, None, True)
        named = make_batch(keys, self.key_schema.arrow, n)
        self._kept = self.bad.kept(self._step, named, errors, weights)
        return out if self._kept is None else out.take(self._kept)

    def failure(self) -> tuple[str, str] | None:
        return self.bad.failure

    def _all_rows(self, slots: Int64Array) -> Delta:
        """+1 for each of these groups as it is."""
        keys = self.groups.key_columns(self.groups.key_row[slots])
        return self._rows(keys, self.groups.gather(slots), 0)

    def _free(self, slots: Int64Array) -> None:
        if slots.size:
            self.folding.free(slots)
            self.groups.free(slots)

    # --- closing -------------------------------------------------------------------------------
    def _close_windows(self, watermark: int) -> Delta:
        """Free the groups whose window is closed; returns their rows (all +1)."""
        out = Delta.empty(self.schema)
        times, slots = self.closing.pop(watermark)
        if not slots.size:
            return out
        alive = self._alive(times, slots)
        times, slots = times[alive], slots[alive]
        if self.on_close and slots.size:
            order = sort_order([pa.array(times), *self.groups.key_rows(slots).columns])
            out = self._all_rows(slots[order])
        self._free(slots)
        return out

    # --- the rest of the contract --------------------------------------------------------------
    @property
    def replays(self) -> bool:
        return self.rounds is not None and self.close is None

    def current(self, *inputs: Delta) -> Delta | None:
        return self._current(None, inputs)

    def _current(self, step: Step | None, inputs: Sequence[Delta]) -> Delta:
        """step: takes the reports, None = nobody is told."""
        if self.replays and self.again is not None and inputs[0].row_watermark is not None:
            return self.again().step(step or Step(0, 0), *inputs)
        self._step = step
        return self._all_rows(self.groups.live())

    @property
    def retells(self) -> bool:
        try:
            self.folding.results(self.groups.gather(self.groups.live()))
        except StreamSqlError:
            return True
        return False

    def retell(self, step: Step, *inputs: Delta) -> Delta | None:
        with self.bad.retelling():
            return self._current(step, inputs)

    def save(self) -> State:
        folding = saved.nest("folding", self.folding.save())
        return {**self.groups.save(), **folding, "failure": self.bad.save()}

    def load(self, state: State) -> None:
        self.groups.load(state)
        self.folding.load(saved.inner("folding", state))
        self.started = True
        if "failure" in state:
            self.bad.load(state["failure"])
        if self.close is not None:
            live = self.groups.live()
            live = live[self._closes(live)]
            self.closing.push(self.groups.cells[live, CLOSE_LANE], live)

    def _closes(self, slots: Int64Array) -> BoolArray:
        """Which groups have a close time: all but those whose window column is NULL."""
        assert self.close is not None
        valid = event_time_us(self.groups.key_rows(slots).column(self.close[0]))[1]
        return np.ones(slots.size, np.bool_) if valid is None else valid

    @property
    def holds_open(self) -> str:
        return "window" if self.close is not None and self.close[0] in self.closes else ""

    def open_until_us(self) -> int | None:
        return self.closing.first_of(self._alive) if self.holds_open else None

    def _alive(self, times: Int64Array, slots: Int64Array) -> BoolArray:
        """Which entries of the queue speak of a group that is there."""
        held = self.groups.cells[slots]
        return (held[:, COUNT_LANE] > 0) & (held[:, CLOSE_LANE] == times)

    def state_rows(self) -> int:
        groups = self.groups.count
        if not self.keys and groups and self.groups.cells[0, COUNT_LANE] == 0:
            groups = 0
        return groups + self.folding.rows()

    def state_bytes(self) -> int:
        return self.groups.nbytes + self.folding.nbytes()

    def explain(self) -> dict[str, str]:
        freed = "when a group's last row goes"
        if self.close is not None:
            above = self.close[0] in self.useless and self.close[0] not in self.closes
            which = "windows above that a group's rows are in" if above else "group's window"
            freed = f"when the watermark closes the {which}"
        return {
            "state": ", ".join(
                [
                    f"{self.folding.width * 8} bytes and the key for every group",
                    *self.folding.keeps(),
                ]
            ),
            "freed": freed if self.keys else "never: it is one row",
            "how": self._how(),
            "detail": aggregate_text(self.key_schema, self.folding.calls, self.input_schema)
            + (", on window close" if self.on_close else ""),
        }

    def _how(self) -> str:
        """How a tick is folded in, for EXPLAIN (VERBOSE)."""
        if self.keys and self.folding.exact:
            return "in two phases: a large tick's rows among themselves, then into the groups"
        return "" if self.keys else "a tick's rows among themselves, then into the one row"


def _pair(first: Delta, second: Delta) -> Delta:
    """The opening row of a global aggregate and the first change to it: only the new row is
    left."""
    if not second:
        return first
    weights = second.weights_or_ones()
    return Delta(second.take(np.flatnonzero(weights > 0)).batch, consolidated=True)


def aggregate_text(keys: Schema, calls: Sequence[AggregateCall], rows: Schema | None) -> str:
    """What is grouped by and computed, for EXPLAIN."""
    from streamsql.plan.render import render_aggregate

    listed = ", ".join(render_aggregate(c, rows) for c in calls)
    by = f"by {', '.join(keys.names)}" if len(keys) else ""
    return ": ".join(part for part in (by, listed) if part)


def lower(node: plan.Aggregate, build: Builder) -> int | None:
    """GROUP BY whose aggregates all have an accumulator."""
    if node.grouping_sets is not None or node.grouping_calls:
        return build.lower(expand_grouping_sets(node))
    source = build.lower(node.input)
    below = build.operator(source)
    probe = make_folding(node.aggregates, below.append_only)
    if probe is None:
        return None
    close = freeing_key(node.keys, below)
    on_close = closing_key(node.keys, below) is not None and build.closes_here(node)

    def make() -> Aggregate:
        folding = make_folding(node.aggregates, below.append_only)
        assert folding is not None
        hashed = identifying(node.keys, below)
        made = Aggregate(
            node.schema, node.keys, hashed, folding,
            close=close, on_close=on_close, input_schema=below.schema,
            on_error=build.options.on_error,
        )  # fmt: skip
        aggregate_facts(below, made, node.keys, on_close)
        hand_marks_on(made, make)
        return made

    on_error = build.options.on_error
    what = (node.keys, node.aggregates, node.schema, close, on_close, probe.layout, on_error)
    private = close is not None or on_error == "fail"
    return build.add("aggregate", [source], what, make, private=private)


def closing_key(keys: Sequence[int], below: Operator) -> tuple[int, int] | None:
    """(position in the keys, µs to add to it) of the key that tells when a group is closed."""
    found = [(i, below.closes[k]) for i, k in enumerate(keys) if k in below.closes]
    return min(found, key=lambda pair: pair[1], default=None)


def freeing_key(keys: Sequence[int], below: Operator) -> tuple[int, int] | None:
    """The same of the key that tells when a group can be forgotten: it is closed, or all windows
    above that its rows are in are."""
    found = [(i, below.useless[k]) for i, k in enumerate(keys) if k in below.useless]
    return closing_key(keys, below) or min(found, key=lambda pair: pair[1], default=None)


def identifying(keys: Sequence[int], below: Operator) -> list[int]:
    """Positions of the keys that are not decided by another one."""
    return [i for i, k in enumerate(keys) if below.determined.get(k) not in keys]


def aggregate_facts(below: Operator, made: Operator, keys: Sequence[int], on_close: bool) -> None:
    """What is known of the output columns of an aggregate."""
    places: dict[int, list[int]] = {}
    for i, k in enumerate(keys):
        places.setdefault(k, []).append(i)
    move(below, made, places)
    made.lost_ends = False  # groups over windows change as long as there are new ones
    made.append_only = on_close
    made.lateness_us = below.lateness_us


def hand_marks_on(made: Aggregate, again: Callable[[], Operator]) -> None:
    """Let an aggregate whose facts are known judge by its event times. again: makes another."""
    if made.on_close:
        forget_marks(made)  # rows come when the window closes: other times may be long over
    else:
        made.rounds = rounds_of(made, [{i: k for i, k in enumerate(made.keys) if k >= 0}])
        made.again = again


def expand_grouping_sets(node: plan.Aggregate) -> plan.LogicalPlan:
    """GROUPING SETS, ROLLUP, CUBE as the union of one GROUP BY for each set."""
    sets = node.grouping_sets if node.grouping_sets is not None else (tuple(range(len(node.keys))),)
    branches: list[plan.LogicalPlan] = []
    for chosen in sets:
        one = plan.Aggregate(
            schema=node.schema.select([*chosen, *_after(node)]),
            input=node.input,
            keys=tuple(node.keys[i] for i in chosen),
            aggregates=node.aggregates,
        )
        exprs: list[Expr] = []
        for i in range(len(node.keys)):
            type_ = node.schema[i].type
            if i in chosen:
                exprs.append(column(chosen.index(i), type_))
            else:
                exprs.append(literal(None, type_))
        for k in range(len(node.aggregates)):
            exprs.append(column(len(chosen) + k, node.schema[len(node.keys) + k].type))
        for call in node.grouping_calls:
            bits = [0 if i in chosen else 1 for i in call]
            exprs.append(literal(int("".join(map(str, bits)) or "0", 2), INTEGER))
        branches.append(plan.Project(schema=node.schema, input=one, exprs=tuple(exprs)))
    whole = branches[0]
    for branch in branches[1:]:
        whole = plan.SetOperation(
            schema=node.schema, left=whole, right=branch, kind="union", all=True
        )
    return whole


def _after(node: plan.Aggregate) -> range:
    """Positions of the aggregates in the output."""
    return range(len(node.keys), len(node.keys) + len(node.aggregates))
