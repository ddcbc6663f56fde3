"""Temporal joins by event time: each row beside the version of the other side at its own time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.errors import FeatureNotSupported
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.core.types import BOOLEAN
from streamsql.functions.expressions import Call, ColumnRef, Expr, conjunction, conjuncts
from streamsql.functions.resolve import can_fail
from streamsql.kernels.hashing import any_null, hash_columns
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import take_rows
from streamsql.operators.event_time import event_time_us
from streamsql.operators.hold_back import HoldBack
from streamsql.operators.join_condition import EquiJoin, equalities_text, extend, split
from streamsql.operators.join_marks import JoinMarks
from streamsql.operators.late import is_late, report_late
from streamsql.operators.map import add_map, move
from streamsql.operators.pair_condition import PairCondition
from streamsql.operators.versions import Versions
from streamsql.plan import nodes as plan
from streamsql.plan.properties import unique_keys


@dataclass(frozen=True)
class VersionedJoin:
    """A temporal join by event time, taken apart. parts: the equalities that make up the right
    side's primary key. left_time, right_time: columns of the extended inputs. condition: what else
    the pair must satisfy, over left's columns then right's."""

    parts: EquiJoin
    left_time: int
    right_time: int
    condition: Expr | None


class TemporalVersionJoin(Operator):
    """Every left row with the right row as it was at l.t (FOR SYSTEM_TIME AS OF l.t).

    Algebra:  out = rows of A whose time both watermarks have passed, each beside the version of its
              key that began last at or before that time. A version begins at the time of the right
              row (of several of one time the one that came last counts) and ends where the next
              one begins; a deletion ends it at the right side's watermark of that moment, an UPDATE
              does not. Non-linear in time: what was put out is final.
    Input:    two deltas, with row watermarks.
    Output:   left's columns, then right's (LEFT: NULLs where there is no version), in the order of
              the times; weights > 0.
    State:    left rows whose time has not passed; versions, but those that ended before everything
              that may still be asked for.
    Cost:     O((changed rows + what comes out) x log versions).
    Errors:   rows that both watermarks have passed are late, and dropped on both sides: a late
              version would change what was put out.
    """

    needs_time = True
    on_close = True

    def __init__(
        self, inputs: tuple[Schema, Schema], join: VersionedJoin,
        condition: PairCondition | None, lateness_us: int, *, outer: bool, behind_us: int = 0,
    ) -> None:  # fmt: skip
        """behind_us: how far behind the watermark left rows come that are on time below."""
        super().__init__(inputs[0] + inputs[1])
        self.inputs = inputs
        self.join = join
        self.condition = condition
        self.lateness_us = lateness_us
        self.outer = outer
        self.behind_us = behind_us
        self.marks = JoinMarks()
        self.origins_of_left: dict[int, tuple[int, int]] = {}
        parts = join.parts
        self.strict = (list(parts.left_keys), [*parts.right_keys, join.right_time])
        self._reset()

    def _reset(self) -> None:
        self.waiting = HoldBack(
            self.inputs[0], {self.join.left_time: 1 + self.behind_us}, self.lateness_us, True
        )
        self.versions = Versions(self.inputs[1], self.lateness_us + self.behind_us)

    @property
    def name(self) -> str:
        return "TemporalVersionLeftJoin" if self.outer else "TemporalVersionJoin"

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        a, b = deltas
        watermark = min(step.input_watermarks, default=NO_WATERMARK)
        self.marks.begin(step.input_watermarks)
        if b:
            self._take_versions(step, b)
        self.waiting.origins, self.waiting.port = self.origins_of_left, 0
        inner = replace(step, input_watermarks=(watermark,))
        least = self.marks.least(0, a, filling=step.filling)
        due = self.waiting.step(inner, Delta(a.batch, a.weights, least))
        step.null_event_times = inner.null_event_times
        out = self._put_out(step, due) if due else Delta.empty(self.schema)
        self.versions.forget(watermark)
        return out

    def _take_versions(self, step: Step, b: Delta) -> None:
        """What begins or ends a version, in the order of arrival."""
        marks = b.row_watermark  # at which deletions end versions
        if marks is None:
            marks = np.full(b.num_rows, self.marks.before[1])
        least = self.marks.least(1, b, filling=step.filling)
        times, valid = event_time_us(b.batch.column(self.join.right_time))
        if valid is not None:
            times = np.where(valid, times, NO_WATERMARK)
        keys = hash_columns(b.batch, self.join.parts.right_keys)
        weights = b.weights_or_ones()
        late = is_late(times + 1, least, self.lateness_us) & (weights > 0)
        nulls = any_null(b.batch, self.strict[1])
        if bool((late & ~nulls).any()):
            judged = Delta(b.batch, b.weights, least)
            report_late(step, self, judged, np.flatnonzero(late & ~nulls), times, self.inputs[1],
                        port=1)  # fmt: skip
        self.versions.take(b.batch, keys, times, weights, marks, late | nulls)

    def _put_out(self, step: Step, due: Delta) -> Delta:
        keys = hash_columns(due.batch, self.join.parts.left_keys)
        times, _ = event_time_us(due.batch.column(self.join.left_time))
        row = self.versions.at(keys, times)
        row[any_null(due.batch, self.strict[0])] = -1
        if self.condition is not None:
            found = np.flatnonzero(row >= 0)
            beside = self._beside(due.batch, found, row[found])
            row[found[~self.condition.holds(step, beside)]] = -1
        chosen = np.arange(row.size) if self.outer else np.flatnonzero(row >= 0)
        weights = None if due.weights is None else due.weights[chosen]
        return Delta(self._beside(due.batch, chosen, row[chosen]), weights)

    def _beside(self, left: pa.RecordBatch, at: Int64Array, row: Int64Array) -> pa.RecordBatch:
        own = left if at.size == left.num_rows else take_rows(left, at)
        columns = [*own.columns, *self.versions.rows(row).columns]
        return make_batch(columns, self.schema.arrow, at.size)

    # --- the rest of the contract --------------------------------------------------------------
    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        self.marks.note_sources(sources)

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        self.marks.end(inputs)
        return super().advance_watermark(inputs)

    def save(self) -> State:
        return {
            **saved.nest("waiting", self.waiting.save()),
            **saved.nest("versions", self.versions.save()),
            **self.marks.save(),
        }

    def load(self, state: State) -> None:
        self._reset()
        self.waiting.load(saved.inner("waiting", state))
        self.versions.load(saved.inner("versions", state))
        self.marks.load(state)

    def state_rows(self) -> int:
        return self.waiting.state_rows() + self.versions.count

    def state_bytes(self) -> int:
        return self.waiting.state_bytes() + self.versions.nbytes

    def explain(self) -> dict[str, str]:
        left, right = self.inputs
        keys = equalities_text(left, right, self.join.parts)
        where = "" if self.condition is None else f" where {self.condition.text()}"
        time = left[self.join.left_time].name or "?"
        began = right[self.join.right_time].name or "?"
        return {
            "state": "left rows that wait, and the versions they may ask for",
            "freed": "when both watermarks have passed a row's time, or a version's end",
            "detail": f"{keys}{where}; the version by {began} as of {time}",
        }


def lower(node: plan.Join, build: Builder) -> int | None:
    """Joins to a relation as of a time of the left row. Raises: FeatureNotSupported (0A000)."""
    if node.kind not in ("versioned", "versioned_left"):
        return None
    outer = node.kind == "versioned_left"
    join = _taken_apart(node)
    parts = join.parts
    guarded = join.condition is not None and can_fail(join.condition)
    if guarded and outer:
        raise FeatureNotSupported(
            "the condition of a temporal LEFT JOIN can not hold expressions that may fail",
            hint="Compute the expression in a subquery, or write an inner join.",
        )
    sources = [build.lower(parts.left), build.lower(parts.right)]
    left, right = (build.operator(s) for s in sources)
    if join.left_time not in left.event_times or join.right_time not in right.event_times:
        raise FeatureNotSupported(
            "a temporal join by event time needs watermarks on both sides",
            hint="Declare WATERMARK FOR both time columns, or join as of PROCTIME().",
        )
    whole = left.schema + right.schema
    behind = left.delays.get(join.left_time, 0)
    tested = None if guarded else join.condition
    timezone = build.options.timezone

    def make() -> TemporalVersionJoin:
        condition = None
        if tested is not None:
            condition = PairCondition(tested, whole, timezone, "TemporalVersionJoin")
        lateness = max(left.lateness_us, right.lateness_us)
        made = TemporalVersionJoin(
            (left.schema, right.schema), join, condition, lateness, outer=outer, behind_us=behind
        )
        made.append_only = True
        move(left, made, {i: [i] for i in range(len(left.schema))})
        made.closes = {join.left_time: 1 + behind}
        made.origins_of_left = dict(left.origins)
        return made

    added = build.add("temporal-version-join", sources, (join, tested, timezone, outer), make,
                      private=True)  # fmt: skip
    n, wide = parts.left_width, len(left.schema)
    kept = [*range(n), *range(wide, wide + parts.right_width)]
    if not guarded and len(kept) == len(whole):
        return added
    exprs = [ColumnRef(index=i, type=whole[i].type) for i in kept]
    return add_map(build, added, join.condition if guarded else None, exprs, node.schema)


def _taken_apart(node: plan.Join) -> VersionedJoin:
    """The key, the times (the last comparison of the condition, which the binder made) and the
    rest. Raises: FeatureNotSupported (0A000)."""
    parts = None if node.lateral else split(node)
    if parts is None or parts.residual is None:
        raise FeatureNotSupported(
            "the condition of a temporal join can not hold a subquery, the clock or an outer row",
            hint="Join with FOR SYSTEM_TIME AS OF first, and filter the result.",
        )
    *rest, moment = conjuncts(parts.residual)
    key = next((k for k in unique_keys(node.right) if k and set(k) <= set(parts.right_keys)), None)
    assert key is not None, "the binder checks that the whole primary key is compared"
    assert isinstance(moment, Call)
    assert moment.function == "ge"
    wide = len(parts.left.schema)
    used = [parts.right_keys.index(k) for k in key]
    for i, (a, b) in enumerate(zip(parts.left_keys, parts.right_keys, strict=True)):
        if i not in used:
            ends = (_column(parts.left, a, 0), _column(parts.right, b, wide))
            name = "is_not_distinct_from" if parts.null_safe[i] else "eq"
            rest.append(Call(function=name, args=ends, type=BOOLEAN))
    keyed = replace(
        parts,
        left_keys=tuple(parts.left_keys[i] for i in used),
        right_keys=tuple(parts.right_keys[i] for i in used),
        null_safe=(False,) * len(used),
    )
    extended, left_time, right_time, shifted = extend(keyed, moment, rest)
    condition = conjunction(list(shifted)) if shifted else None
    return VersionedJoin(extended, left_time, right_time, condition)


def _column(side: plan.LogicalPlan, i: int, shift: int) -> ColumnRef:
    return ColumnRef(index=i + shift, type=side.schema[i].type, name=side.schema[i].name)
