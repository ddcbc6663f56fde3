"""Inner and cross joins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.logical_time import END_OF_TIME
from streamsql.core.schema import Schema
from streamsql.functions.expressions import ColumnRef
from streamsql.kernels.hashing import Lanes, any_null, hash_columns
from streamsql.kernels.multimap import Multimap
from streamsql.operators.arrange import Arrange, add_arrange
from streamsql.operators.builder import Builder
from streamsql.operators.columns import BoolArray, take_rows
from streamsql.operators.join_condition import EquiJoin, split
from streamsql.operators.late import drop_closed
from streamsql.operators.map import add_map, move
from streamsql.plan import nodes as plan

NOBODY = np.empty(0, np.int64)


class Side:
    """One input of a join: its arrangement and the key it is probed by."""

    def __init__(self, arrange: Arrange, keys: Sequence[int], null_safe: Sequence[bool]) -> None:
        self.arrange = arrange
        self.keys = tuple(keys)
        self.strict = [k for k, safe in zip(keys, null_safe, strict=True) if not safe]
        self.key_id = arrange.add_reader(self.keys)

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

    def __init__(self, schema: Schema, left: Side, right: Side) -> None:
        super().__init__(schema)
        self.left = left
        self.right = right

    def step(self, step: Step, *deltas: Delta) -> Delta:
        a, b = deltas
        parts = []
        if a:
            a_lanes, a_skip = self.left.lanes(a.batch)
            position, row, weight = self.right.probe(a_lanes, a_skip)
            if position.size:
                parts.append(self._pairs(self._left_changed(a, position, row), a, position, weight,
                                         self._watermark(a, position, self.right)))  # fmt: skip
        early = bool(a) and bool(b) and self._alone(self.left)
        if early:
            # nobody else reads the left rows: take the new ones in now, and look once instead of twice
            self.left.arrange.commit()
        if b:
            b_lanes, b_skip = self.right.lanes(b.batch)
            position, row, weight = self.left.probe(b_lanes, b_skip)
            if position.size:
                parts.append(self._pairs(self._right_changed(b, position, row), b, position, weight,
                                         self._watermark(b, position, self.left)))  # fmt: skip
        if a and b and not early:
            i, j = match(a_lanes, a_skip, b_lanes, b_skip)
            if i.size:
                parts.append(self._both_changed(a, b, i, j))
        return drop_closed(step, self, concat(parts, self.schema))

    def _alone(self, side: Side) -> bool:
        """Whether this join is the only reader of one side's arrangement."""
        return side.arrange.readers == 1 and self.left.arrange is not self.right.arrange

    def _left_changed(self, a: Delta, position: Int64Array, row: Int64Array) -> list[pa.Array]:
        left = take_entries(a.batch, position)
        return [*left.columns, *self.right.arrange.rows.take(row).columns]

    def _right_changed(self, b: Delta, position: Int64Array, row: Int64Array) -> list[pa.Array]:
        right = take_entries(b.batch, position)
        return [*self.left.arrange.rows.take(row).columns, *right.columns]

    def _both_changed(self, a: Delta, b: Delta, i: Int64Array, j: Int64Array) -> Delta:
        columns = [*take_rows(a.batch, i).columns, *take_rows(b.batch, j).columns]
        weight = NOBODY if b.weights is None else b.weights[j]
        watermark = self._watermark(a, i, self.right)
        if watermark is not None:
            other = self._watermark(b, j, self.left)
            watermark = watermark if other is None else np.minimum(watermark, other)
        return self._pairs(columns, a, i, weight, watermark)

    def _watermark(self, changed: Delta, position: Int64Array, other: Side) -> Int64Array | None:
        """The watermark that a pair is judged late by: that of the changed row where the other
        input has none, else the join's own before this tick, which is the least of both."""
        if not self.event_times and not self.closes:
            return None
        if changed.row_watermark is not None and other.arrange.watermark == END_OF_TIME:
            return changed.row_watermark[position]
        return np.full(position.size, self.watermark)

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

    def current(self, *inputs: Delta) -> Delta | None:
        a = inputs[0]
        if not a:
            return Delta.empty(self.schema)
        lanes, skip = self.left.lanes(a.batch)
        position, row, weight = self.right.probe(lanes, skip)
        columns = self._left_changed(a, position, row)
        return self._pairs(columns, a, position, weight, None)

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
    j, i = table.probe(*b, NOBODY, b_skip)
    return i, j


def lower_inner(node: plan.Join, build: Builder) -> int | None:
    """Inner and cross joins; what is not an equality becomes a filter above."""
    if node.kind not in ("inner", "cross") or node.lateral:
        return None
    parts = split(node)
    if parts is None:
        return None
    joined = add_join(build, parts)
    return trim(build, joined, parts, node)


def add_sides(build: Builder, parts: EquiJoin) -> tuple[int, int]:
    """The arrangements of both inputs."""
    return (
        add_arrange(build, build.lower(parts.left)),
        add_arrange(build, build.lower(parts.right)),
    )


def make_sides(build: Builder, parts: EquiJoin, left: int, right: int) -> tuple[Side, Side]:
    """Both inputs with the keys they are probed by."""
    a, b = build.operator(left), build.operator(right)
    assert isinstance(a, Arrange) and isinstance(b, Arrange)
    return Side(a, parts.left_keys, parts.null_safe), Side(b, parts.right_keys, parts.null_safe)


def add_join(build: Builder, parts: EquiJoin) -> int:
    """The pairs that agree in the keys, all columns of both (extended) inputs."""
    left, right = add_sides(build, parts)
    a, b = build.operator(left), build.operator(right)
    schema = a.schema + b.schema
    n = len(a.schema)

    def make() -> Join:
        made = Join(schema, *make_sides(build, parts, left, right))
        made.append_only = a.append_only and b.append_only
        made.lateness_us = max(a.lateness_us, b.lateness_us)
        move(a, made, {i: [i] for i in range(n)})
        move(b, made, {i: [n + i] for i in range(len(b.schema))})
        return made

    what = (parts.left_keys, parts.right_keys, parts.null_safe)
    return build.add("join", [left, right], what, make)


def trim(build: Builder, joined: int, parts: EquiJoin, node: plan.Join) -> int:
    """Apply the rest of the condition, and drop the keys that were computed for the join."""
    schema = build.operator(joined).schema
    wide = len(parts.left.schema)
    extended = wide != parts.left_width or len(parts.right.schema) != parts.right_width
    if parts.residual is None and not extended:
        return joined
    exprs = None
    if extended:
        kept = [*range(parts.left_width), *range(wide, wide + parts.right_width)]
        exprs = [ColumnRef(index=i, type=schema[i].type) for i in kept]
    return add_map(build, joined, parts.residual, exprs, node.schema if extended else schema)
