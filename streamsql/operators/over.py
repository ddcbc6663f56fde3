"""OVER: window functions and aggregates over frames, kept up to date around what changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, RowError, State, Step
from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.errors import StreamSqlError
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.functions.expressions import ColumnRef, WindowCall
from streamsql.operators.accumulators.base import Cells
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, select
from streamsql.operators.map import add_map, move, rows_json
from streamsql.operators.over_calls import Load, Order, Reach, order_of, refusal
from streamsql.operators.over_final import Final, waits
from streamsql.operators.over_frames import Changes, Frames, Loaded, frames_of, reached
from streamsql.operators.over_rows import OverRows, sorted_distinct
from streamsql.operators.over_shifts import OrderValues
from streamsql.operators.over_values import Value, make_value
from streamsql.operators.rounds import forget_marks
from streamsql.operators.ties import Tie
from streamsql.plan import nodes as plan
from streamsql.plan.properties import unique_keys
from streamsql.state.consolidate import consolidate


class Over(Operator):
    """Window functions and aggregates OVER one PARTITION BY and ORDER BY, with any frame.

    Algebra:  every row of a partition, by (ORDER BY, ties), with f(the rows of its frame).
              Non-linear. A row that comes or goes has a say in the rows whose frame holds it (a
              *stretch* of its partition); these alone are computed again, and those whose stored
              result changed are given out, -1 as they were and +1 as they are.
    Input:    delta [n rows x input schema]; any weights. Equal rows are as many copies.
    Output:   the row's columns, then one a call. Consolidated where something was taken back.
    State:    every row in order, and by row a few numbers a call: a row picked by it (LAG, MIN) is
              kept as its number, an aggregate as its partial sums, from which running frames go on.
    Cost:     LAG, LEAD, bounded frames: O(changed rows x frame); running aggregates, ranks: the
              rows from the first change to the partition's end; frames that end nowhere: those
              from its start; PERCENT_RANK, CUME_DIST, NTILE, EXCLUDE without bounds: the partition.
    Errors:   a row whose result can not be held (22003) is kept out and reported, or its result is
              NULL (`on_error = 'null'`), as long as that is so. NegativeWeight (XX001) if a row is
              taken back that is not there.
    """

    def __init__(
        self,
        schema: Schema,
        input_schema: Schema,
        order: Order,
        calls: Sequence[WindowCall],
        *,
        retracts: bool,
        close: tuple[int, int] | None,
        lateness_us: int,
        in_order: bool = False,
        on_error: str = "skip",
    ) -> None:
        """retracts: rows of the input may be taken back. close: position in PARTITION BY and µs to
        add to it, when a partition is final. in_order: rows come by their first ORDER BY column,
        which the watermark speaks of: each is given out once, when it is final."""
        super().__init__(schema)
        self.input_schema = input_schema
        self.order = order
        self.lateness_us = lateness_us
        self.on_error = on_error
        self.bad_rows = 0
        self._failure: tuple[str, str] | None = None
        self.needs_time = close is not None or in_order
        self.values = [make_value(call) for call in calls]
        lane = 0
        for value in self.values:
            value.at = lane
            lane += value.lanes
        self.copy_lanes = [v.at + k for v in self.values for k in v.copy_lanes]
        self._needs_peers = any(value.reach.mode != "rows" for value in self.values)
        self.order_values = OrderValues(order.order[0][1] if order.order else None)
        self.rows = OverRows(
            input_schema, order, lane, retracts=retracts, close=close, lateness_us=lateness_us
        )
        self.final: Final | None = None
        if in_order:
            self.final = Final(self.rows, calls, self.order_values, self.copy_lanes)
        self.time_column: int | None = None
        self.behind_us = 0
        """The column in whose order rows are given out, and how far behind the watermark."""
        self.rows_computed = 0
        """Rows that were computed since the operator was made, call by call."""

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        watermark = min(step.input_watermarks, default=NO_WATERMARK)
        if self.final is not None:
            return self._step_final(step, self.final, deltas[0], watermark)
        out = self._change(step, deltas[0]) if deltas[0] else Delta.empty(self.schema)
        if self.needs_time:
            self.rows.close(watermark)
        return out

    def _step_final(self, step: Step, final: Final, delta: Delta, watermark: int) -> Delta:
        came = self._exchange(delta)[0] if delta else np.empty(0, np.int64)
        if came.size:
            self._compute(self._loads(came, came[:0]))
        behind = self.lateness_us + self.behind_us
        frontier = watermark - behind if watermark > NO_WATERMARK + behind else NO_WATERMARK
        ready = final.advance(came, frontier)
        out = self._output(step, ready, self.rows.cells[ready], 0)
        final.forget(came, ready)
        return out

    def _exchange(self, delta: Delta) -> tuple[Int64Array, Int64Array]:
        batch = select(delta.batch, range(len(self.input_schema)), self.input_schema)
        weights = NO_WEIGHTS if delta.weights is None else delta.weights
        return self.rows.exchange(batch, weights)

    def _change(self, step: Step, delta: Delta) -> Delta:
        came, went = self._exchange(delta)
        if not came.size and not went.size:
            return Delta.empty(self.schema)
        loads = self._loads(came, went)
        stayed = self._stayed(loads, came)
        old = self.rows.cells[stayed]
        self._compute(loads)
        moved = (self.rows.cells[stayed] != old).any(axis=1)
        gone = np.concatenate([went, stayed[moved]])
        there = np.concatenate([stayed[moved], came])
        cells = np.concatenate([self.rows.cells[went], old[moved], self.rows.cells[there]])
        out = self._output(step, np.concatenate([gone, there]), cells, gone.size)
        self.rows.free(went)
        return out

    def _loads(self, came: Int64Array, went: Int64Array) -> dict[tuple[Reach, Load], Loaded]:
        """What must be read and computed; calls that reach and read alike share it."""
        copies = np.concatenate([went, came])
        width = np.zeros(copies.size, np.int64)
        width[went.size :] = 1
        places = self.rows.places(copies, peers=self._needs_peers)
        changes = Changes(copies, places, width, self.rows.part[copies])
        loads = {}
        for value in self.values:
            key = value.reach, value.load
            if key not in loads:
                stretches = reached(self.rows, changes, value.reach, self.order_values)
                loads[key] = Loaded(self.rows, stretches, value.load, self.order_values)
        return loads

    def _stayed(self, loads: dict[tuple[Reach, Load], Loaded], came: Int64Array) -> Int64Array:
        """The rows to compute that were there before."""
        touched = sorted_distinct(np.concatenate([x.targets for x in loads.values()]))
        return touched[~np.isin(touched, came)]

    def _compute(self, loads: dict[tuple[Reach, Load], Loaded]) -> None:
        frames: dict[int, Frames] = {}
        for value in self.values:
            loaded = loads[value.reach, value.load]
            if not loaded.size:
                continue
            if id(loaded) not in frames:
                frames[id(loaded)] = frames_of(loaded)
            found = value.compute(loaded, frames[id(loaded)])
            self.rows.cells[loaded.targets, value.at : value.at + value.lanes] = found
            self.rows_computed += loaded.targets.size

    def _output(self, step: Step, copies: Int64Array, cells: Cells, gone: int) -> Delta:
        """Copies with their results, the first `gone` of them taken back."""
        if not copies.size:
            return Delta.empty(self.schema)
        weights = np.ones(copies.size, np.int64)
        weights[:gone] = -1
        try:
            results = [self._result(value, copies, cells) for value in self.values]
        except StreamSqlError:
            copies, cells, weights = self._without_bad(step, copies, cells, weights)
            if not copies.size:
                return Delta.empty(self.schema)
            results = [self._result(value, copies, cells) for value in self.values]
        arrays = [*self.rows.take(copies).columns, *results]
        batch = make_batch(arrays, self.schema.arrow, copies.size)
        if not gone:
            return Delta(batch)
        return consolidate(Delta(batch, weights))

    def _result(self, value: Value, copies: Int64Array, cells: Cells) -> pa.Array:
        return value.column(self.rows, copies, cells[:, value.at : value.at + value.lanes])

    def _without_bad(
        self, step: Step, copies: Int64Array, cells: Cells, weights: Int64Array
    ) -> tuple[Int64Array, Cells, Int64Array]:
        """Without the rows that a result can not be computed for, or with NULL there."""
        cells, bad = cells.copy(), np.zeros(copies.size, np.bool_)
        for value in self.values:
            for i, error in self._failing(value, copies, cells, np.arange(copies.size)):
                if not bad[i]:
                    self._report(step, copies[i : i + 1], error, int(weights[i]))
                bad[i] = True
                cells[i, value.at : value.at + value.lanes] = 0  # no rows: NULL
        if self.on_error == "null":
            return copies, cells, weights
        return copies[~bad], cells[~bad], weights[~bad]

    def _failing(
        self, value: Value, copies: Int64Array, cells: Cells, among: Int64Array
    ) -> list[tuple[int, StreamSqlError]]:
        """Positions whose result fails, found by halving."""
        try:
            self._result(value, copies[among], cells[among])
        except StreamSqlError as error:
            if among.size == 1:
                return [(int(among[0]), error)]
            halves = np.array_split(among, 2)
            return [pair for half in halves for pair in self._failing(value, copies, cells, half)]
        return []

    def _report(self, step: Step, copy: Int64Array, error: StreamSqlError, weight: int) -> None:
        row = Delta(self.rows.take(copy))
        text = rows_json(row, np.zeros(1, np.int64), self.input_schema)[0]
        step.errors.append(RowError(self.name, error.sqlstate, error.message, text, weight))
        if self.on_error == "fail":
            self.bad_rows += weight
            self._failure = (error.sqlstate, error.message) if self.bad_rows > 0 else None

    # --- the rest of the contract --------------------------------------------------------------
    def current(self, *inputs: Delta) -> Delta | None:
        return self.retell(Step(0, 0), *inputs)

    @property
    def retells(self) -> bool:
        return True  # a sum may have left the range

    def retell(self, step: Step, *inputs: Delta) -> Delta | None:
        copies = self.rows.in_order_of_arrival()
        bad = self.bad_rows, self._failure
        out = self._output(step, copies, self.rows.cells[copies], 0)
        self.bad_rows, self._failure = bad
        return out

    def failure(self) -> tuple[str, str] | None:
        return self._failure

    def save(self) -> State:
        sqlstate, message = self._failure or ("", "")
        failure = pa.table({"rows": [self.bad_rows], "sqlstate": [sqlstate], "message": [message]})
        return {**self.rows.save(self.copy_lanes), "failure": failure}

    def load(self, state: State) -> None:
        self.rows.load(state)
        (row,) = state["failure"].to_pylist()
        self.bad_rows = row["rows"]
        self._failure = (row["sqlstate"], row["message"]) if row["sqlstate"] else None
        if self.final is not None:
            self.final.reset()

    def state_rows(self) -> int:
        return self.rows.entries

    def state_bytes(self) -> int:
        return self.rows.nbytes

    def explain(self) -> dict[str, str]:
        from streamsql.operators.over_explain import detail

        state, freed = "every row, in order, with its results", "when it goes"
        if self.final is not None:
            state = "every row" if self.final.keeps_all else "the rows that later frames need"
            freed = (
                "never" if self.final.keeps_all else "when the watermark has passed their frames"
            )
        elif self.needs_time:
            freed = "when it goes, or the watermark closes its window"
        return {
            "state": state,
            "freed": freed,
            "detail": detail([value.call for value in self.values], self.input_schema),
        }


def lower(node: plan.Window, build: Builder) -> int | None:
    """The calls that can be kept incrementally, one operator for each order; the others below."""
    kept = [i for i, call in enumerate(node.calls) if refusal(call) is None]
    if not kept:
        return None
    width = len(node.input.schema)
    done = [i for i in range(len(node.calls)) if i not in kept]
    below = _schema(node, done)
    if done:
        rest = tuple(node.calls[i] for i in done)
        source = build.lower(replace(node, calls=rest, schema=below))
    else:
        source = build.lower(node.input)
    by_order: dict[Order, list[int]] = {}
    for i in sorted(kept, key=lambda i: waits(node.calls[i])):
        by_order.setdefault(order_of(node.calls[i]), []).append(i)
    keyed = bool(unique_keys(node.input))
    late = {order: any(waits(node.calls[i]) for i in calls) for order, calls in by_order.items()}
    for order, calls in sorted(by_order.items(), key=lambda item: late[item[0]]):
        whole = order
        if order.ties and not keyed:  # equal rows are told apart by the results they have already
            results = [Tie(width + i, below[width + i].type, False) for i in range(len(done))]
            whole = replace(order, ties=(*order.ties, *(r for r in results if r.orders)))
        done += calls
        below = _schema(node, done)
        source = add_over(build, source, whole, [node.calls[i] for i in calls], below)
    if done == sorted(done):
        return source
    places = [*range(width), *(width + done.index(i) for i in range(len(node.calls)))]
    exprs = [ColumnRef(index=i, type=below[i].type) for i in places]
    return add_map(build, source, None, exprs, node.schema)


def _schema(node: plan.Window, calls: Sequence[int]) -> Schema:
    """The columns of the node's input and of these calls."""
    width = len(node.input.schema)
    return Schema((*node.input.schema.columns, *(node.schema[width + i] for i in calls)))


def add_over(
    build: Builder,
    source: int,
    order: Order,
    calls: Sequence[WindowCall],
    schema: Schema,
) -> int:
    """The operator of calls of one order over a circuit node."""
    below = build.operator(source)
    in_order = _comes_in_order(below, order)
    found = [(i, below.closes[k]) for i, k in enumerate(order.partition) if k in below.closes]
    close = None if in_order else min(found, key=lambda pair: pair[1], default=None)
    waiting = any(waits(call) for call in calls)
    on_error = build.options.on_error
    behind = getattr(below, "behind_us", 0) if in_order else 0

    def make() -> Over:
        made = Over(
            schema, below.schema, order, calls, retracts=not below.append_only, close=close,
            lateness_us=below.lateness_us, in_order=in_order, on_error=on_error,
        )  # fmt: skip
        if close is not None or (in_order and not waiting):
            move(below, made, {i: [i] for i in range(len(below.schema))})
        if not in_order:
            forget_marks(made)
        if in_order:
            made.append_only = True
            made.time_column = None if waiting else order.order[0][0]
            made.behind_us = behind
        return made

    what = (order, tuple(calls), schema, on_error)
    private = close is not None or in_order or on_error == "fail"
    return build.add("over", [source], what, make, private=private)


def _comes_in_order(below: Operator, order: Order) -> bool:
    """Whether rows come in the order of the first ORDER BY column, as HoldBack gives them out."""
    column = getattr(below, "time_column", None)
    if column is None or not order.order:
        return False
    first, how = order.order[0]
    return bool(first == column and not how.descending)
