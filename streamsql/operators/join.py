"""Inner and cross joins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.schema import Schema
from streamsql.functions.expressions import ColumnRef, Expr, columns_used
from streamsql.functions.resolve import can_fail
from streamsql.kernels.hashing import Lanes, any_null, hash_columns
from streamsql.kernels.multimap import Multimap
from streamsql.operators.arrange import (
    Arrange,
    Reader,
    add_arrange,
    as_long_as,
    freed_by,
)
from streamsql.operators.builder import Builder
from streamsql.operators.columns import BoolArray, take_rows
from streamsql.operators.join_condition import EquiJoin, split
from streamsql.operators.join_marks import JoinMarks
from streamsql.operators.late import drop_closed, may_be_late
from streamsql.operators.map import add_map, is_plain, move
from streamsql.operators.windows_apart import apart_ends, apart_of
from streamsql.plan import nodes as plan
from streamsql.plan.visit import remap_columns

NOBODY = np.empty(0, np.int64)


class Side(Reader):
    """One input of a join: its arrangement and the key it is probed by."""

    def __init__(self, arrange: Arrange, keys: Sequence[int], null_safe: Sequence[bool]) -> None:
        self.arrange = arrange
        self.keys = tuple(keys)
        self.strict = [k for k, safe in zip(keys, null_safe, strict=True) if not safe]
        self.key_id = arrange.add_reader(self.keys)

    @property
    def key_columns(self) -> tuple[int, ...]:
        return self.keys

    def done(self, reader: Operator, watermark: int) -> None:
        """The reader drops from now on what would change a window that this watermark closes."""
        self.arrange.passed[reader] = watermark

    def lanes(self, batch: pa.RecordBatch) -> tuple[Lanes, BoolArray]:
        """(hashed keys, rows whose key matches nothing because of a NULL)."""
        return hash_columns(batch, self.keys), any_null(batch, self.strict)

    def probe(self, lanes: Lanes, skip: BoolArray) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(position in the probing batch, stored row, its weight) of every match, as of before
        this tick."""
        rows = self.arrange.rows
        if not rows.live_rows:
            return NOBODY, NOBODY, NOBODY
        position, row = rows.probe_lanes(self.key_id, lanes, skip)
        return position, row, rows.weights(row)


class Join(Operator):
    """All pairs of rows with equal keys (JOIN … ON a.k = b.k; without keys: all pairs).

    Algebra:  d(A * B) = dA * B + A * dB + dA * dB.  Bilinear. NULL keys match nothing, except those
              compared by IS NOT DISTINCT FROM.
    Input:    two deltas that come from arrangements; any weights.
    Output:   left's columns, then right's; weight = product of the weights; not consolidated.
    State:    none of its own: the two arrangements, which other joins may share.
    Cost:     O(changed rows + matches).
    Source:   Budiu et al., DBSP, VLDB 2023 (bilinear join).
    """

    algebra = Algebra.BILINEAR

    def __init__(
        self, schema: Schema, left: Side, right: Side, picks: Sequence[int] | None = None
    ) -> None:
        """picks: the output's columns, as positions in left's columns followed by right's."""
        super().__init__(schema)
        self.left = left
        self.right = right
        width = len(left.arrange.schema)
        self.picks = tuple(range(len(schema)) if picks is None else picks)
        self.left_columns = [c for c in self.picks if c < width]
        self.right_columns = [c - width for c in self.picks if c >= width]
        order = [*self.left_columns, *(c + width for c in self.right_columns)]
        self._places = [order.index(c) for c in self.picks]
        self.marks = JoinMarks()

    @property
    def exact(self) -> bool:
        return not self.closes and not self.event_times

    def step(self, step: Step, *deltas: Delta) -> Delta:
        a, b = deltas
        self.marks.begin(step.input_watermarks)
        whole = a and b and self._alone(self.left) and not self.left.arrange.given_whole
        if whole and not self._doubtful(a, b):
            out = self._both_sides(a, b)
        else:
            out = self._each_side(a, b)
        return drop_closed(step, self, out)

    def _doubtful(self, a: Delta, b: Delta) -> bool:
        """Whether a pair of two changed rows may be late, so that it matters which made it when."""
        if not self.event_times and not self.closes:
            return False
        last = max(self.marks.last(0, a.row_watermark), self.marks.last(1, b.row_watermark))
        sides = ((self.left.arrange, a), (self.right.arrange, b))
        return any(may_be_late(below, delta, last, self.lateness_us) for below, delta in sides)

    def _each_side(self, a: Delta, b: Delta) -> Delta:
        """dA * B + A * dB + dA * dB, with both arrangements as before this tick."""
        parts = []
        if a:
            a_lanes, a_skip = self.left.lanes(a.batch)
            found = self.right.probe(a_lanes, a_skip)
            parts.append(self._left_changed(a, *found))
        if b:
            b_lanes, b_skip = self.right.lanes(b.batch)
            found = self.left.probe(b_lanes, b_skip)
            parts.append(self._right_changed(b, *found))
        if a and b:
            i, j = match(a_lanes, a_skip, b_lanes, b_skip)
            parts.append(self._both_changed(a, b, i, j))
        return concat(parts, self.schema)

    def _both_sides(self, a: Delta, b: Delta) -> Delta:
        """The same where nobody else reads the left rows: dA * B + (A + dA) * dB looks up each
        changed row once, and if rows only come, all of them are fetched at once."""
        left, right = self.left.arrange, self.right.arrange
        grows = left.appends and right.appends and self._alone(self.right)
        a_lanes, a_skip = self.left.lanes(a.batch)
        of_a, at_b, weight_b = self.right.probe(a_lanes, a_skip)
        rows_a = left.take_in()
        b_lanes, b_skip = self.right.lanes(b.batch)
        of_b, at_a, weight_a = self.left.probe(b_lanes, b_skip)
        plain = grows and rows_a is not None and _ones(weight_a) and _ones(weight_b)
        rows_b = right.take_in() if plain else None
        if rows_a is None or rows_b is None:
            parts = [self._left_changed(a, of_a, at_b, weight_b)]
            parts.append(self._right_changed(b, of_b, at_a, weight_a))
            return concat(parts, self.schema)
        left_rows = np.concatenate([rows_a[of_a], at_a])
        right_rows = np.concatenate([at_b, rows_b[of_b]])
        columns = self._arranged(
            left.rows.take(left_rows, self.left_columns).columns,
            right.rows.take(right_rows, self.right_columns).columns,
        )
        marks = [self._watermark(a, of_a, 0), self._watermark(b, of_b, 1)]
        watermark = None
        if marks[0] is not None and marks[1] is not None:
            watermark = np.concatenate([marks[0], marks[1]])
        return Delta(make_batch(columns, self.schema.arrow, left_rows.size), None, watermark)

    def _alone(self, side: Side) -> bool:
        """Whether this join is the only reader of one side's arrangement."""
        return side.arrange.readers == 1 and self.left.arrange is not self.right.arrange

    def _arranged(self, left: list[pa.Array], right: list[pa.Array]) -> list[pa.Array]:
        """Columns of both sides in the output's order."""
        both = [*left, *right]
        return [both[place] for place in self._places]

    def _left_changed(
        self, a: Delta, position: Int64Array, row: Int64Array, weight: Int64Array
    ) -> Delta:
        left = take_entries(a.batch.select(self.left_columns), position)
        right = self.right.arrange.rows.take(row, self.right_columns)
        columns = self._arranged(left.columns, right.columns)
        watermark = self._watermark(a, position, 0)
        return self._pairs(columns, a, position, weight, watermark)

    def _right_changed(
        self, b: Delta, position: Int64Array, row: Int64Array, weight: Int64Array
    ) -> Delta:
        right = take_entries(b.batch.select(self.right_columns), position)
        left = self.left.arrange.rows.take(row, self.left_columns)
        columns = self._arranged(left.columns, right.columns)
        watermark = self._watermark(b, position, 1)
        return self._pairs(columns, b, position, weight, watermark)

    def _both_changed(self, a: Delta, b: Delta, i: Int64Array, j: Int64Array) -> Delta:
        columns = self._arranged(
            take_rows(a.batch.select(self.left_columns), i).columns,
            take_rows(b.batch.select(self.right_columns), j).columns,
        )
        weight = NOBODY if b.weights is None else b.weights[j]
        watermark = self._watermark(a, i, 0)
        other = self._watermark(b, j, 1)
        if watermark is not None and other is not None:
            watermark = np.maximum(watermark, other)  # the later one made the pair
        return self._pairs(columns, a, i, weight, watermark)

    def _watermark(self, changed: Delta, position: Int64Array, side: int) -> Int64Array | None:
        """The watermark that the pairs of changed rows of a side are judged late by."""
        if not self.event_times and not self.closes:
            return None
        return self.marks.of(side, changed.row_watermark, position)

    def _pairs(
        self, columns: list[pa.Array], changed: Delta, position: Int64Array, weight: Int64Array,
        watermark: Int64Array | None,
    ) -> Delta:  # fmt: skip
        """Pairs of changed entries and what they meet; weight: of the other row, empty = 1."""
        batch = make_batch(columns, self.schema.arrow, position.size)
        own = None if changed.weights is None else changed.weights[position]
        if own is None:
            plain = not weight.size or bool((weight == 1).all())
            return Delta(batch, None if plain else weight, watermark)
        return Delta(batch, own * weight if weight.size else own, watermark)

    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        self.marks.note_sources(sources)

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        reached = super().advance_watermark(inputs)
        self.marks.end(inputs)
        self.left.done(self, reached)
        self.right.done(self, reached)
        return reached

    def save(self) -> State:
        return self.marks.save()

    def load(self, state: State) -> None:
        self.marks.load(state)

    @property
    def replays(self) -> bool:
        return self.marks.one_clock  # else no one knows how far the others were

    def current(self, *inputs: Delta) -> Delta | None:
        a, b = inputs
        if not a:
            return Delta.empty(self.schema)
        lanes, skip = self.left.lanes(a.batch)
        judged = bool(self.event_times or self.closes)
        if judged and b and any(d.row_watermark is not None for d in inputs):
            # as in the first tick of a new node: of the two rows of a pair the later one made it
            pairs = match(lanes, skip, *self.right.lanes(b.batch))
            with self.marks.retelling():
                return drop_closed(Step(0, 0), self, self._both_changed(a, b, *pairs))
        position, row, weight = self.right.probe(lanes, skip)
        with self.marks.retelling():
            return self._left_changed(a, position, row, weight)

    def explain(self) -> dict[str, str]:
        return {"detail": keys_text(self.left, self.right.arrange.schema, self.right.keys)}


def keys_text(left: Side, right: Schema, right_keys: Sequence[int]) -> str:
    """The equalities of a join, for EXPLAIN."""
    if not left.keys:
        return "every pair of rows is tried"
    rows = left.arrange.schema
    return " and ".join(
        f"{rows[a].name or '?'} = {right[b].name or '?'}"
        for a, b in zip(left.keys, right_keys, strict=True)
    )


def take_entries(batch: pa.RecordBatch, position: Int64Array) -> pa.RecordBatch:
    """The entries at these ascending positions; the batch itself where each matched once."""
    n = batch.num_rows
    if position.size == n and bool((position[1:] > position[:-1]).all()):
        return batch
    return take_rows(batch, position)


def match(
    a: Lanes, a_skip: BoolArray, b: Lanes, b_skip: BoolArray
) -> tuple[Int64Array, Int64Array]:
    """(position in a, position in b) of all pairs of equal lanes."""
    if a[0].size > b[0].size:
        j, i = match(b, b_skip, a, a_skip)
        return i, j
    table = Multimap()
    rows = np.flatnonzero(~a_skip) if a_skip.size and bool(a_skip.any()) else np.arange(a[0].size)
    table.link(a[0][rows], a[1][rows], rows)
    if not rows.size:
        return NOBODY, NOBODY
    j, i = table.probe(*b, b_skip)
    return i, j


def _ones(weight: Int64Array) -> bool:
    return not weight.size or bool((weight == 1).all())


def lower_inner(node: plan.Join, build: Builder) -> int | None:
    """Inner and cross joins; what is not an equality becomes a filter above."""
    if node.kind not in ("inner", "cross") or node.lateral:
        return None
    parts = split(node)
    if parts is None:
        return None
    wide = len(parts.left.schema)
    kept = [*range(parts.left_width), *range(wide, wide + parts.right_width)]
    if parts.residual is None:
        return add_join(build, parts, kept, node.schema)
    joined = add_join(build, parts, None, None)
    schema = build.operator(joined).schema
    exprs = None
    if len(kept) != len(schema):
        exprs = [ColumnRef(index=i, type=schema[i].type) for i in kept]
    return add_map(build, joined, parts.residual, exprs, schema if exprs is None else node.schema)


def lower_project(node: plan.Project, build: Builder) -> int | None:
    """A projection over an inner join by equalities and what else it asks of a pair: only the
    columns that either reads are fetched."""
    below = node.input
    if not isinstance(below, plan.Join) or below.kind not in ("inner", "cross") or below.lateral:
        return None
    parts = split(below)
    if parts is None:
        return None
    n, wide = parts.left_width, len(parts.left.schema)
    chosen = [e.index for e in node.exprs if isinstance(e, ColumnRef)]
    if parts.residual is None and len(chosen) == len(node.exprs):
        picks = [i if i < n else wide + i - n for i in chosen]
        return add_join(build, parts, picks, node.schema)
    if not all(is_plain(e) for e in node.exprs):
        return None
    places = [*range(n), *range(wide, wide + parts.right_width)]
    return _add_narrow(build, parts, [remap_columns(e, places) for e in node.exprs], node.schema)


def _add_narrow(build: Builder, parts: EquiJoin, exprs: list[Expr], schema: Schema) -> int | None:
    """These expressions over the pairs, whose other columns are not fetched; None where nothing
    would be left out, where the whole pair is told of (errors), or where event time counts."""
    read = exprs if parts.residual is None else [*exprs, parts.residual]
    if not parts.left_keys or not all(is_plain(e) and not can_fail(e) for e in read):
        return None
    left, right = (build.operator(build.lower(side)) for side in (parts.left, parts.right))
    if any(s.event_times or s.closes or s.ends or s.waits or s.delays for s in (left, right)):
        return None
    whole = left.schema + right.schema
    picks = sorted(set().union(*(columns_used(e) for e in read)))
    if not picks or len(picks) == len(whole):
        return None
    at = {column: i for i, column in enumerate(picks)}
    joined = add_join(build, parts, picks, whole.select(picks))
    tested = None if parts.residual is None else remap_columns(parts.residual, at)
    return add_map(build, joined, tested, [remap_columns(e, at) for e in exprs], schema)


def add_sides(build: Builder, parts: EquiJoin) -> tuple[int, int]:
    """The arrangements of both inputs."""
    sources = build.lower(parts.left), build.lower(parts.right)
    left, right = (build.operator(s) for s in sources)
    a, b = parts.left_keys, parts.right_keys
    apart = apart_of(parts, left, right)
    frees = (
        (freed_by(left, a, right, b), freed_by(right, b, left, a))
        if apart is None
        else (apart.frees(0), apart.frees(1))
    )
    return (
        add_arrange(build, sources[0], frees=as_long_as(frees[0], left, right)),
        add_arrange(build, sources[1], frees=as_long_as(frees[1], right, left)),
    )


def make_sides(build: Builder, parts: EquiJoin, left: int, right: int) -> tuple[Side, Side]:
    """Both inputs with the keys they are probed by."""
    a, b = build.operator(left), build.operator(right)
    assert isinstance(a, Arrange) and isinstance(b, Arrange)
    return Side(a, parts.left_keys, parts.null_safe), Side(b, parts.right_keys, parts.null_safe)


def add_join(
    build: Builder, parts: EquiJoin, picks: list[int] | None, schema: Schema | None
) -> int:
    """The pairs that agree in the keys. picks: columns of both (extended) inputs, None = all."""
    left, right = add_sides(build, parts)
    a, b = build.operator(left), build.operator(right)
    whole = a.schema + b.schema
    apart = apart_of(parts, a, b)
    n = len(a.schema)
    chosen = list(range(len(whole))) if picks is None else picks
    places: dict[int, list[int]] = {}
    for i, column in enumerate(chosen):
        places.setdefault(column, []).append(i)

    def make() -> Join:
        made = Join(schema or whole, *make_sides(build, parts, left, right), chosen)
        made.append_only = a.append_only and b.append_only
        made.lateness_us = max(a.lateness_us, b.lateness_us)
        move(a, made, {i: places[i] for i in range(n) if i in places})
        move(b, made, {i: places[n + i] for i in range(len(b.schema)) if n + i in places})
        if apart is not None:
            known = apart_ends(apart, "inner", a, b, n)
            made.ends = {j: us for i, us in known.items() for j in places.get(i, ())}
            made.closes = {}
        return made

    what = (parts.left_keys, parts.right_keys, parts.null_safe, chosen)
    return build.add("join", [left, right], what, make)
