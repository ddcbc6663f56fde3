"""Temporal joins by processing time: each row beside what the other side held when it came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.errors import FeatureNotSupported, NegativeWeight
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT
from streamsql.functions.expressions import ColumnRef, Expr
from streamsql.functions.resolve import can_fail
from streamsql.kernels.hashing import any_null, hash_columns
from streamsql.operators import saved
from streamsql.operators.arrange import Arrange, add_arrange
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, take_rows, to_arrow
from streamsql.operators.groups import Groups
from streamsql.operators.join import Side, match
from streamsql.operators.join_condition import EquiJoin, equalities_text, split
from streamsql.operators.map import add_map, move
from streamsql.operators.pair_condition import PairCondition
from streamsql.plan import nodes as plan
from streamsql.state.arrangement import Arrangement
from streamsql.state.consolidate import consolidate
from streamsql.state.ordered_index import OrderedIndex

COUNT = 0


class TemporalJoin(Operator):
    """Every left row with the right rows of the moment it came (FOR SYSTEM_TIME AS OF PROCTIME()).

    Algebra:  out(t) = sum over ticks of dA(tick) * B(tick), B as of the end of that tick: later
              changes of the right side change nothing. A retraction of a left row takes back
              exactly what the row put out; of equal rows the one that came first goes first.
    Input:    left as it comes, right from an arrangement; any weights.
    Output:   left's columns, then right's (LEFT: NULLs where nothing matched); not consolidated.
    State:    the right arrangement, which may be shared; unless left rows only come, also what
              each of them put out, freed when it goes.
    Cost:     O(changed left rows + matches); a change of the right side costs its arrangement.
    Errors:   NegativeWeight (XX001) if a left row is taken back that is not there.
    """

    leads = True

    def __init__(
        self, left: Schema, right: Side, parts: EquiJoin, condition: PairCondition | None,
        *, outer: bool, remembers: bool,
    ) -> None:  # fmt: skip
        """condition: over left's columns then right's. remembers: left rows may be taken back."""
        super().__init__(left + right.arrange.schema)
        self.left_schema = left
        self.right = right
        self.parts = parts
        self.condition = condition
        self.outer = outer
        self.remembers = remembers
        pairs = zip(parts.left_keys, parts.null_safe, strict=True)
        self.strict = [k for k, safe in pairs if not safe]
        self.right_schema = right.arrange.schema
        self.given_schema = Schema(
            (Column("arrival", BIGINT), Column("times", BIGINT), *self.right_schema.columns)
        )
        self._reset()

    def _reset(self) -> None:
        self.rows = Groups(self.left_schema, range(len(self.left_schema)), 2, exact=True)
        self.arrivals = OrderedIndex([], with_tie=True)  # by left row: numbers, with copies
        self.given = Arrangement(self.given_schema)  # what each arrival was put beside
        self.by_arrival = self.given.add_key((0,))
        self.next_arrival = 1

    @property
    def name(self) -> str:
        return "TemporalLeftJoin" if self.outer else "TemporalJoin"

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        a, b = deltas
        if not a:
            return Delta.empty(self.schema)
        if not self.remembers or a.weights is None:
            return self._came(step, a, b)
        a = consolidate(a, ignore_watermark=True)
        signs = np.sign(a.weights_or_ones())
        gone, come = a.take(np.flatnonzero(signs < 0)), a.take(np.flatnonzero(signs > 0))
        parts = [self._went(gone)] if gone else []
        return concat([*parts, self._came(step, come, b)] if come else parts, self.schema)

    def _came(self, step: Step, a: Delta, b: Delta) -> Delta:
        """New left rows beside the right rows that there are at the end of this tick."""
        position, found = self._matches(a, b)
        if self.condition is not None:
            batch = self._beside(a.batch, position, found.batch)
            kept = np.flatnonzero(self.condition.holds(step, batch))
            position, found = position[kept], found.take(kept)
        if self.outer:
            alone = np.ones(a.num_rows, np.bool_)
            alone[position] = False
            at = np.flatnonzero(alone)
            nothing = [pa.nulls(at.size, c.type.arrow) for c in self.right_schema]
            missing = Delta(make_batch(nothing, self.right_schema.arrow, at.size))
            position = np.concatenate([position, at])
            found = concat([found, missing], self.right_schema)
        times = found.weights_or_ones()
        if self.remembers:
            self._remember(a, position, found.batch, times)
        weights = a.weights_or_ones()[position] * times
        marks = None if a.row_watermark is None else a.row_watermark[position]
        return self._output(a.batch, position, found.batch, weights, marks)

    def _matches(self, a: Delta, b: Delta) -> tuple[Int64Array, Delta]:
        """(position in a, right rows with their weights) of all that agree in the keys."""
        a_lanes = hash_columns(a.batch, self.parts.left_keys)
        a_skip = any_null(a.batch, self.strict)
        position, row, weight = self.right.probe(a_lanes, a_skip)
        old = Delta(self.right.arrange.rows.take(row), weight)
        if not b:
            return position, old
        i, j = match(a_lanes, a_skip, *self.right.lanes(b.batch))
        new = Delta(take_rows(b.batch, j), b.weights_or_ones()[j])
        both = concat([old, new], self.right_schema)
        at = np.concatenate([position, i])
        if b.weights is None:
            return at, both
        schema = Schema((Column("", BIGINT), *self.right_schema.columns))
        columns = [to_arrow(at, pa.int64()), *both.batch.columns]
        net = consolidate(Delta(make_batch(columns, schema.arrow, at.size), both.weights))
        batch = make_batch(net.batch.columns[1:], self.right_schema.arrow, net.num_rows)
        return np.asarray(net.batch.column(0), np.int64), Delta(batch, net.weights)

    def _beside(
        self, left: pa.RecordBatch, position: Int64Array, right: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Whole rows of both sides."""
        columns = [*take_rows(left, position).columns, *right.columns]
        return make_batch(columns, self.schema.arrow, position.size)

    def _output(
        self, left: pa.RecordBatch, position: Int64Array, right: pa.RecordBatch,
        weights: Int64Array, marks: Int64Array | None,
    ) -> Delta:  # fmt: skip
        plain = bool((weights == 1).all())
        return Delta(self._beside(left, position, right), None if plain else weights, marks)

    # --- what was put out ----------------------------------------------------------------------
    def _remember(
        self, a: Delta, position: Int64Array, right: pa.RecordBatch, times: Int64Array
    ) -> None:
        slots, _ = self.rows.upsert(a.batch)
        self.rows.touch(slots, NO_WEIGHTS if a.weights is None else a.weights)
        numbers = np.arange(self.next_arrival, self.next_arrival + a.num_rows)
        self.next_arrival += a.num_rows
        self.arrivals.add(slots, [], a.weights_or_ones(), numbers)
        self.given.apply(self._noted(numbers[position], times, right, None))

    def _noted(
        self, numbers: Int64Array, times: Int64Array, right: pa.RecordBatch,
        weights: Int64Array | None,
    ) -> Delta:  # fmt: skip
        columns = [to_arrow(numbers, pa.int64()), to_arrow(times, pa.int64()), *right.columns]
        return Delta(make_batch(columns, self.given_schema.arrow, numbers.size), weights)

    def _went(self, gone: Delta) -> Delta:
        """Take back what these left rows (consolidated) put out, the oldest arrivals first."""
        slots, _ = self.rows.upsert(gone.batch)
        need = -gone.weights_or_ones()
        touched, _ = self.rows.touch(slots, -need)
        counts = self.rows.cells[touched, COUNT]
        if bool((counts < 0).any()):
            raise NegativeWeight("a row was taken back that the left side does not hold")
        parts = []
        at = np.arange(slots.size)
        while at.size:
            cursors = self.arrivals.first(slots[at])
            entries = self.arrivals.read(cursors)
            taken = np.minimum(need[at], entries.counts)
            parts.append(self._taken_back(gone, at, entries.ties, taken, entries.counts))
            self.arrivals.add(slots[at], [], -taken, entries.ties)
            need[at] -= taken
            at = at[need[at] > 0]
        self.rows.free(touched[counts == 0])
        return concat(parts, self.schema)

    def _taken_back(
        self, gone: Delta, at: Int64Array, numbers: Int64Array, taken: Int64Array,
        held: Int64Array,
    ) -> Delta:  # fmt: skip
        """The output of `taken` copies of these arrivals, as retractions."""
        keys = make_batch([to_arrow(numbers, pa.int64())], pa.schema([("c0", pa.int64())]), at.size)
        which, row = self.given.probe(self.by_arrival, keys, [0])
        noted, copies = self.given.take(row), self.given.weights(row)
        times = np.asarray(noted.column(1), np.int64)
        right = make_batch(noted.columns[2:], self.right_schema.arrow, row.size)
        marks = None if gone.row_watermark is None else gone.row_watermark[at[which]]
        out = self._output(gone.batch, at[which], right, -taken[which] * times * copies, marks)
        over = np.flatnonzero((taken == held)[which])
        if over.size:
            self.given.apply(Delta(take_rows(noted, over), -copies[over]))
        return out

    # --- the rest of the contract --------------------------------------------------------------
    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        """That of the left side alone: no change of the right one changes a row put out."""
        return super().advance_watermark(inputs[:1])

    def save(self) -> State:
        if not self.remembers:
            return {}
        return {
            **saved.nest("rows", self.rows.save()),
            **saved.nest("arrivals", self.arrivals.save()),
            **saved.nest("given", self.given.save()),
            "next": saved.numbers(arrival=self.next_arrival),
        }

    def load(self, state: State) -> None:
        if not self.remembers:
            return
        self._reset()
        self.rows.load(saved.inner("rows", state))
        self.arrivals.load(saved.inner("arrivals", state))
        self.given.load(saved.inner("given", state))
        self.next_arrival = saved.number(state["next"], "arrival")

    def state_rows(self) -> int:
        return self.rows.count + self.given.live_rows

    def state_bytes(self) -> int:
        return int(self.rows.nbytes + self.arrivals.nbytes + self.given.nbytes)

    def explain(self) -> dict[str, str]:
        keys = equalities_text(self.left_schema, self.right_schema, self.parts)
        where = "" if self.condition is None else f" where {self.condition.text()}"
        return {
            "state": "what every left row put out" if self.remembers else "none of its own",
            "freed": "when the left row goes" if self.remembers else "",
            "detail": f"{keys}{where}; as of the tick a left row comes in",
        }


def lower(node: plan.Join, build: Builder) -> int | None:
    """Joins to a relation as of PROCTIME(). Raises: FeatureNotSupported (0A000)."""
    if node.kind not in ("lookup", "lookup_left"):
        return None
    parts = split(node)
    if parts is None or node.lateral:
        raise FeatureNotSupported(
            "the condition of a temporal join can not hold a subquery, the clock or an outer row",
            hint="Join with FOR SYSTEM_TIME AS OF first, and filter the result.",
        )
    outer = node.kind == "lookup_left"
    guarded = parts.residual is not None and can_fail(parts.residual)
    if guarded and outer:
        raise FeatureNotSupported(
            "the condition of a temporal LEFT JOIN can not hold expressions that may fail",
            hint="Compute the expression in a subquery, or write an inner join.",
        )
    whole = _add(build, parts, None if guarded else parts.residual, outer)
    n, wide = parts.left_width, len(parts.left.schema)
    kept = [*range(n), *range(wide, wide + parts.right_width)]
    schema = build.operator(whole).schema
    if not guarded and len(kept) == len(schema):
        return whole
    exprs = [ColumnRef(index=i, type=schema[i].type) for i in kept]
    return add_map(build, whole, parts.residual if guarded else None, exprs, node.schema)


def _add(build: Builder, parts: EquiJoin, condition: Expr | None, outer: bool) -> int:
    left = build.lower(parts.left)
    right = add_arrange(build, build.lower(parts.right))
    below, arrange = build.operator(left), build.operator(right)
    assert isinstance(arrange, Arrange)
    schema = below.schema + arrange.schema
    timezone = build.options.timezone

    def make() -> TemporalJoin:
        tested = None
        if condition is not None:
            tested = PairCondition(condition, schema, timezone, "TemporalJoin")
        side = Side(arrange, parts.right_keys, parts.null_safe)
        made = TemporalJoin(
            below.schema, side, parts, tested, outer=outer, remembers=not below.append_only
        )
        made.append_only = below.append_only
        made.lateness_us = below.lateness_us
        move(below, made, {i: [i] for i in range(len(below.schema))})
        return made

    keys = (parts.left_keys, parts.right_keys, parts.null_safe)
    what = (keys, condition, timezone, outer, below.append_only)
    return build.add("temporal-join", [left, right], what, make, private=True)
