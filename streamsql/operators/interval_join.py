"""Joins whose condition keeps the two rows near each other in time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.functions.expressions import ColumnRef, conjunction
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import take_rows
from streamsql.operators.interval_bounds import Bound, Span, pair_times, patience_of, span_of
from streamsql.operators.interval_log import IntervalLog, Piece, on_time, passed_us
from streamsql.operators.join_condition import EquiJoin, split
from streamsql.operators.join_marks import JoinMarks
from streamsql.operators.late import drop_closed
from streamsql.operators.loops import intervals as loops
from streamsql.operators.map import add_map, move
from streamsql.operators.open_spans import Holding, holding_of
from streamsql.operators.windows_apart import apart_ends, apart_of
from streamsql.plan import nodes as plan


class IntervalJoin(Operator):
    """Pairs with equal keys near in time (JOIN … ON a.k = b.k AND b.t BETWEEN a.t AND a.u).

    Algebra:  as Join: d(A * B) = dA * B + (A + dA) * dB.  Bilinear. Both sides have event times,
              each compared with the other side, so a row's partners lie in a span of time.
    Input:    two deltas; any weights.
    Output:   the columns asked for; weight = product of the weights; not consolidated. An entry
              whose span was over when it came (b.t in [a.t - i, a.t + j]: a.t + j is below the
              watermark of both sides; a span that ends at another column: a.t is) is late, and
              dropped.
    State:    by side the rows that may still meet partners; freed when both watermarks have passed
              the end of their span, and no late partner counts any more. Rows are kept as they
              came; an index is made where it pays.
    Cost:     O(changed rows + matches), for every piece of rows kept (few: small ones are merged).
    """

    algebra = Algebra.BILINEAR
    needs_time = True

    def __init__(
        self, schema: Schema, inputs: tuple[Schema, Schema], parts: EquiJoin, span: Span,
        patience_us: tuple[int, int], picks: Sequence[int],
    ) -> None:  # fmt: skip
        """patience_us: by side, how far behind its watermark a row may come. picks: the output's
        columns, as positions in left's columns followed by right's."""
        super().__init__(schema)
        self.inputs = inputs
        self.keys = (parts.left_keys, parts.right_keys)
        self.span = span
        self.patience_us = patience_us
        width = len(inputs[0])
        self.picks = tuple((0, c) if c < width else (1, c - width) for c in picks)
        self.strict = [
            [k for k, safe in zip(keys, parts.null_safe, strict=True) if not safe]
            for keys in self.keys
        ]
        self.marks = JoinMarks()
        self.holding: Holding | None = None
        self.logs = self._empty()

    def _empty(self) -> tuple[IntervalLog, IntervalLog]:
        bounds = (self.span.left, self.span.right)
        logs = [
            IntervalLog(self.inputs[s], self.keys[s], self.strict[s], bounds[s], bounds[1 - s])
            for s in (0, 1)
        ]
        return logs[0], logs[1]

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        outs: list[Delta] = []
        self.marks.begin(step.input_watermarks)
        given = list(deltas)
        for side, came in enumerate(deltas):
            if came:
                column, patience = self.logs[side].time_column, self.patience_us[side]
                least = self.marks.least(side, came, filling=step.filling)
                judged = Delta(came.batch, came.weights, least, came.consolidated)
                given[side] = on_time(step, self, side, judged, self.inputs[side], column, patience)
        timed = bool(self.event_times or self.closes)
        fresh: tuple[list[Piece], list[Piece]] = ([], [])
        for side, delta in self.marks.in_order(given, timed):
            piece = self.logs[side].piece(delta)
            outs += self._changed(side, piece, fresh[1 - side])
            fresh[side].append(piece)
        for log, pieces in zip(self.logs, fresh, strict=True):
            for piece in pieces:
                log.append(piece)
        watermark = min(step.input_watermarks, default=NO_WATERMARK)
        for side, log in enumerate(self.logs):
            log.forget(passed_us(watermark, self.patience_us[1 - side]))
        out = concat(outs, self.schema)
        return drop_closed(step, self, out if self.holding is None else self.holding.marked(out))

    def _changed(self, side: int, piece: Piece, fresh: Sequence[Piece]) -> list[Delta]:
        """One side's entries against the other side's rows: those kept, and those of this tick."""
        found = []
        for other in (*self.logs[1 - side].pieces, *fresh):
            if not other.time.size:
                continue
            i, j = other.probe(piece.lanes)
            kept = loops.within(i, j, piece.time, piece.bound, other.time, other.bound)
            if kept:
                came = any(other is f for f in fresh)
                found.append(self._pairs(side, piece, other, i[:kept], j[:kept], came))
        if self.holding is not None:
            self.holding.take(side, piece.delta)
        return found

    def _pairs(
        self, side: int, piece: Piece, other: Piece, i: Int64Array, j: Int64Array, came: bool
    ) -> Delta:
        """came: the other rows are of this tick too, so that the later row of each pair made it."""
        batches, rows = [piece.delta.batch, other.delta.batch], [i, j]
        weights = [piece.delta.weights, other.delta.weights]
        if side == 1:
            batches.reverse()
            rows.reverse()
            weights.reverse()
        sides = []
        for s in (0, 1):
            wanted = sorted({c for at, c in self.picks if at == s})
            taken = take_rows(batches[s].select(wanted), rows[s])
            sides.append(dict(zip(wanted, taken.columns, strict=True)))
        columns = [sides[s][c] for s, c in self.picks]
        weight = None
        if weights[0] is not None or weights[1] is not None:
            weight = np.ones(i.size, np.int64)
            for own, at in zip(weights, rows, strict=True):
                weight = weight if own is None else weight * own[at]
        marks = None
        if self.event_times or self.closes:
            marks = self.marks.of(side, piece.delta.row_watermark, i)
            if came:
                theirs = self.marks.of(1 - side, other.delta.row_watermark, j)
                marks = np.maximum(marks, theirs)
        return Delta(make_batch(columns, self.schema.arrow, i.size), weight, marks)

    # --- the rest of the contract --------------------------------------------------------------
    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        self.marks.note_sources(sources)

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        self.marks.end(inputs)
        held = inputs if self.holding is None else self.holding.held(inputs)
        return super().advance_watermark(held)

    def save(self) -> State:
        held = {} if self.holding is None else self.holding.save()
        state: dict[str, pa.Table] = {**self.marks.save(), **held}
        for side, log in enumerate(self.logs):
            whole = log.contents()
            state[f"rows{side}"] = pa.Table.from_batches([whole.batch])
            state[f"weights{side}"] = saved.columns(weight=whole.weights_or_ones())
        return state

    def load(self, state: State) -> None:
        self.marks.load(state)
        if self.holding is not None:
            self.holding.load(state)
        self.logs = self._empty()
        for side, log in enumerate(self.logs):
            batch = saved.table_batch(state[f"rows{side}"], self.inputs[side])
            weights = saved.array(state[f"weights{side}"], "weight")
            plain = bool((weights == 1).all())
            log.append(log.piece(Delta(batch, None if plain else weights)))

    def state_rows(self) -> int:
        return sum(log.shrink() for log in self.logs)

    def state_bytes(self) -> int:
        return sum(log.nbytes for log in self.logs)

    def explain(self) -> dict[str, str]:
        left, right = self.inputs
        names = [
            f"{left[a].name or '?'} = {right[b].name or '?'}"
            for a, b in zip(*self.keys, strict=True)
        ]
        spans = [
            _span_text(self.span.left, right, left),
            _span_text(self.span.right, left, right),
        ]
        return {
            "state": "by side, the rows whose span of time is open",
            "freed": "when both watermarks have passed the end of their span",
            "detail": " and ".join([*names, *spans]),
        }


def _span_text(bound: Bound, times: Schema, untils: Schema) -> str:
    text = f"{times[bound.time].name or '?'} <= {untils[bound.until].name or '?'}"
    if not bound.plus_us:
        return text
    seconds = abs(bound.plus_us) / 1e6
    return f"{text} {'+' if bound.plus_us > 0 else '-'} {seconds:g} s"


def lower_join(node: plan.Join, build: Builder) -> int | None:
    """An inner join with an equality and a span of time on both sides."""
    return _lower(node, build, None, node.schema)


def lower_project(node: plan.Project, build: Builder) -> int | None:
    """A choice of columns over such a join: only these are fetched."""
    below = node.input
    if not isinstance(below, plan.Join) or not all(isinstance(e, ColumnRef) for e in node.exprs):
        return None
    chosen = [e.index for e in node.exprs if isinstance(e, ColumnRef)]
    return _lower(below, build, chosen, node.schema)


def _lower(
    node: plan.Join, build: Builder, chosen: Sequence[int] | None, schema: Schema
) -> int | None:
    """chosen: columns of the join's output; None = all, in their order."""
    if node.kind not in ("inner", "cross") or node.lateral:
        return None
    parts = split(node)
    if parts is None or not parts.left_keys or parts.residual is None:
        return None
    sources = [build.lower(parts.left), build.lower(parts.right)]
    left, right = (build.operator(s) for s in sources)
    span = span_of(parts.residual, left, right)
    if span is None or (span.rest and chosen is not None):
        return None
    n, wide = parts.left_width, len(parts.left.schema)
    output = range(n + parts.right_width) if chosen is None else chosen
    picks = [i if i < n else wide + i - n for i in output]
    if span.rest:
        picks = list(range(wide + len(parts.right.schema)))
    apart = apart_of(parts, left, right)
    whole = left.schema + right.schema
    joined = whole.select(picks) if span.rest else schema

    def make() -> IntervalJoin:
        lateness = (left.lateness_us, right.lateness_us)
        patience = patience_of(span, left, right, strict=False)
        made = IntervalJoin(joined, (left.schema, right.schema), parts, span, patience, picks)
        made.append_only = left.append_only and right.append_only
        made.lateness_us = max(lateness)
        places: dict[int, list[int]] = {}
        for i, column in enumerate(picks):
            places.setdefault(column, []).append(i)
        move(left, made, {i: places[i] for i in range(wide) if i in places})
        rest = range(len(right.schema))
        move(right, made, {i: places[wide + i] for i in rest if wide + i in places})
        if apart is not None:
            known = apart_ends(apart, "inner", left, right, wide)
            made.ends = {j: us for i, us in known.items() for j in places.get(i, ())}
            made.closes = {}
        times = pair_times(span, left, right)
        times.tell(made, places)
        # pairs that are given out by all of their times come when the last of these has passed
        if apart is None and (made.lost_times or not build.closes_here(node)):
            made.holding = holding_of(span, times.held, places, wide, patience)
        return made

    what = (parts.left_keys, parts.right_keys, parts.null_safe, span, picks)
    added = build.add("interval-join", sources, what, make, private=True)
    if not span.rest:
        return added
    kept = [*range(n), *range(wide, wide + parts.right_width)]
    exprs = [ColumnRef(index=i, type=whole[i].type) for i in kept]
    return add_map(build, added, conjunction(list(span.rest)), exprs, schema)
