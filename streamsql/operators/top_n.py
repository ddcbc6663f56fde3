"""The first rows of each partition: rankings that are cut off, DISTINCT ON, ORDER BY … LIMIT."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.errors import NegativeWeight
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT
from streamsql.functions.expressions import (
    ColumnRef,
    Expr,
    Literal,
    columns_used,
    conjunction,
    conjuncts,
)
from streamsql.kernels.order_keys import OrderColumn, can_order
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import NO_WEIGHTS, select, to_arrow
from streamsql.operators.groups import Groups
from streamsql.operators.map import add_map, is_plain, move
from streamsql.operators.rounds import forget_marks
from streamsql.operators.ties import ties_of
from streamsql.operators.top_n_append import Partitions, Ranking, TopNAppend, rankable
from streamsql.plan import nodes as plan
from streamsql.plan.patterns import TopN as Pattern
from streamsql.plan.patterns import top_n
from streamsql.state.ordered_index import OrderedIndex

COUNT, PART = 0, 2
"""Lanes of a row: how often it is there, the slot of its partition."""
NEAR_PLACES = 256  # places that are counted from row to row instead of through the tree
APPEND_LIMIT_MAX = 1024
"""Beyond that a list is too long to be walked for every row that comes."""


class TopN(Operator):
    """The first rows of each partition (ROW_NUMBER, RANK, DENSE_RANK() <= n, DISTINCT ON, LIMIT).

    Algebra:  top(Z) = the rows of each partition whose number is <= n, by (ORDER BY, ties): what is
              equally good is told apart by what it holds, never by ticks or arrival.
              Non-linear.
    Input:    delta [n rows x input schema]; any weights.
    Output:   the row's columns [and its number]: the difference of each touched partition's first
              rows before and after, from the first place that changed; consolidated.
    State:    every row, in order, because those in front of it may go; of rows that only come, the
              first n alone. Freed when the row goes, or when the watermark closes its partition.
    Cost:     O((changed rows + places behind them, at most n a partition) x log rows).
    Errors:   NegativeWeight (XX001) if a row is taken back that is not there.
    """

    consolidates = True

    def __init__(
        self,
        schema: Schema,
        input_schema: Schema,
        ranking: Ranking,
        lateness_us: int,
        *,
        prune: bool,
    ) -> None:
        """prune: rows never go, so that what is behind the first n never comes back."""
        super().__init__(schema)
        self.input_schema = input_schema
        self.ranking = ranking
        self.lateness_us = lateness_us
        self.prune = prune
        self.needs_time = ranking.close is not None
        self._reset()

    def _reset(self) -> None:
        keys = self.input_schema.select(self.ranking.partition)
        self.parts = Partitions(keys, self.ranking, self.lateness_us)
        self.rows = Groups(self.input_schema, range(len(self.input_schema)), 3, exact=True)
        ties = self.ranking.ties
        columns = [*(column for _, column in self.ranking.order), *(t.column for t in ties)]
        self.index = OrderedIndex(columns, with_tie=True, breakers=len(ties))

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        out = self._change(deltas[0]) if deltas[0] else Delta.empty(self.schema)
        if self.needs_time:
            self._close(min(step.input_watermarks, default=NO_WATERMARK))
        return out

    def _change(self, delta: Delta) -> Delta:
        batch = select(delta.batch, range(len(self.input_schema)), self.input_schema)
        slots, _ = self.rows.upsert(batch)
        weights = NO_WEIGHTS if delta.weights is None else delta.weights
        touched, old = self.rows.touch(slots, weights)
        counts = self.rows.cells[touched, COUNT]
        if bool((counts < 0).any()):
            raise NegativeWeight("a row was taken back that is not there")
        by = counts - old[:, COUNT]
        changed = touched[by != 0]
        out = self._rerank(changed, by[by != 0])
        self.rows.free(touched[self.rows.cells[touched, COUNT] == 0])
        return out

    def _rerank(self, slots: Int64Array, by: Int64Array) -> Delta:
        """Add `by` to the counts of these rows in the index; the difference in what is shown."""
        if not slots.size:
            return Delta.empty(self.schema)
        batch = self.rows.key_rows(slots)
        parts, _ = self.parts.enter(select(batch, self.ranking.partition, self.parts.schema))
        self.rows.cells[slots, PART] = parts
        values = self._values(batch)
        active, start = self._reached(parts, self._places(parts, values, slots))
        before = self._shown(active, start)
        self.index.add(parts, values, by, slots)
        after = self._shown(active, start)
        out = self._difference(before, after)
        if self.prune:
            self._drop_behind(np.unique(parts))
        shrunk = np.unique(parts[by < 0])
        if not self.ranking.offset:  # what is in front of the first change stays
            shrunk = np.intersect1d(shrunk, active[start == 0], assume_unique=True)
        if shrunk.size:
            self.parts.free(shrunk[self.index.first(shrunk) < 0])
        return out

    def _values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """What rows are ordered by: the ORDER BY columns, then the ties."""
        ties = [t.values(batch.column(t.index)) for t in self.ranking.ties]
        return [*(batch.column(i) for i, _ in self.ranking.order), *ties]

    def _places(self, parts: Int64Array, values: list[pa.Array], slots: Int64Array) -> Int64Array:
        """The first place (from 0) in its partition that each changed row may have a say in."""
        if self.ranking.function not in ("row_number", "rank"):
            return np.zeros(parts.size, np.int64)
        ties = slots if self.ranking.function == "row_number" else None
        if self.ranking.limit > NEAR_PLACES:
            return self.index.rank(parts, values, ties)
        return self.index.rank_up_to(parts, values, self.ranking.limit, ties)

    def _reached(self, parts: Int64Array, places: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(distinct partitions in which something shown may change, the first place of each)."""
        active, which = np.unique(parts, return_inverse=True)
        start = np.full(active.size, self.ranking.limit, np.int64)
        np.minimum.at(start, which, places)
        reached = start < self.ranking.limit
        return active[reached], np.maximum(start[reached], self.ranking.offset)

    def _shown(self, parts: Int64Array, start: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(row slots, numbers) of what these partitions show from the place `start` on."""
        limit = self.ranking.limit
        if limit <= NEAR_PLACES:
            found = self.index.heads(parts, start, limit, self.ranking.function)
            numbered = self.ranking.numbered
            return found.lasts, found.ranks + 1 if numbered else np.zeros_like(found.ranks)
        first, last = self.index.bounds(parts)
        end = self._end(parts, last - first)
        length = np.maximum(end - start, 0)
        which = np.repeat(np.arange(parts.size), length)
        within = np.arange(which.size) - np.repeat(np.cumsum(length) - length, length)
        places = start[which] + within
        cursors = self.index.at(first[which] + places)
        return self.index.ties(cursors), self._numbers(parts[which], places, cursors)

    def _end(self, parts: Int64Array, size: Int64Array) -> Int64Array:
        """How many rows of each partition, which has so many, are among the first."""
        limit = self.ranking.limit
        if self.ranking.function == "row_number":
            return np.minimum(size, limit)
        if self.ranking.function == "rank":
            last = self.index.nth(parts, np.full(parts.size, limit - 1))
            end = size
            end[last >= 0] = self.index.peers(last[last >= 0])[1]
            return end
        end = np.zeros(parts.size, np.int64)
        for _ in range(limit):
            cursors = self.index.nth(parts, end)
            more = np.flatnonzero((cursors >= 0) & (end < size))
            if not more.size:
                break
            end[more] = self.index.peers(cursors[more])[1]
        return end

    def _numbers(self, parts: Int64Array, places: Int64Array, cursors: Int64Array) -> Int64Array:
        """The number of each listed row; partitions are listed from a first peer on."""
        if not self.ranking.numbered:
            return np.zeros(places.size, np.int64)
        if self.ranking.function == "row_number" or not cursors.size:
            return places + 1
        first, _ = self.index.peers(cursors)
        if self.ranking.function == "rank":
            return first + 1
        opens = np.ones(places.size, np.bool_)
        opens[1:] = (parts[1:] != parts[:-1]) | (first[1:] != first[:-1])
        groups = np.cumsum(opens)
        at_part = np.ones(places.size, np.bool_)
        at_part[1:] = parts[1:] != parts[:-1]
        return groups - groups[np.flatnonzero(at_part)[np.cumsum(at_part) - 1]] + 1

    def _difference(
        self, before: tuple[Int64Array, Int64Array], after: tuple[Int64Array, Int64Array]
    ) -> Delta:
        slots = np.concatenate([before[0], after[0]])
        numbers = np.concatenate([before[1], after[1]])
        signs = np.ones(slots.size, np.int64)
        signs[: before[0].size] = -1
        order = np.lexsort((numbers, slots))
        slots, numbers, signs = slots[order], numbers[order], signs[order]
        if not slots.size:
            return Delta.empty(self.schema)
        starts = np.flatnonzero(
            np.concatenate([[True], (slots[1:] != slots[:-1]) | (numbers[1:] != numbers[:-1])])
        )
        weights = np.add.reduceat(signs, starts)
        kept = starts[weights != 0]
        return self._output(slots[kept], numbers[kept], weights[weights != 0])

    def _output(self, slots: Int64Array, numbers: Int64Array, weights: Int64Array) -> Delta:
        arrays = [*self.rows.key_rows(slots).columns]
        if self.ranking.numbered:
            arrays.append(to_arrow(numbers, BIGINT.arrow))
        plain = bool((weights == 1).all())
        batch = make_batch(arrays, self.schema.arrow, slots.size)
        return Delta(batch, None if plain else weights, None, True)

    # --- freeing -------------------------------------------------------------------------------
    def _drop_behind(self, parts: Int64Array) -> None:
        """Forget the rows behind the first n: nothing in front of them goes any more."""
        size = self.index.size(parts)
        end = self._end(parts, size)
        long = np.flatnonzero(end < size)
        if not long.size:
            return
        length = (size - end)[long]
        which = np.repeat(long, length)
        within = np.arange(which.size) - np.repeat(np.cumsum(length) - length, length)
        slots = self.index.ties(self.index.nth(parts[which], end[which] + within))
        slots, counts = np.unique(slots, return_counts=True)
        values = self._values(self.rows.key_rows(slots))
        self.index.add(self.rows.cells[slots, PART], values, -counts, slots)
        self.rows.cells[slots, COUNT] -= counts

    def _close(self, watermark: int) -> None:
        closed = self.parts.closed(watermark)
        if closed.size:
            _, cursors = self.index.group(closed)
            gone = self.index.ties(cursors)
            self.index.remove_groups(closed)
            self.rows.free(gone)
            self.parts.free(closed)

    # --- the rest of the contract --------------------------------------------------------------
    def current(self, *inputs: Delta) -> Delta | None:
        live = self.parts.live()
        shown = self._shown(live, np.full(live.size, self.ranking.offset, np.int64))
        nothing = np.empty(0, np.int64)
        return self._difference((nothing, nothing), shown)

    def save(self) -> State:
        return {
            **saved.nest("parts", self.parts.save()),
            **saved.nest("rows", self.rows.save()),
        }

    def load(self, state: State) -> None:
        self._reset()
        self.parts.load(saved.inner("parts", state))
        self.parts.reopen()
        self.rows.load(saved.inner("rows", state))
        live = self.rows.live()
        cells = self.rows.cells[live]
        values = self._values(self.rows.key_rows(live))
        self.index.add(cells[:, PART].copy(), values, cells[:, COUNT].copy(), live)

    def state_rows(self) -> int:
        return self.rows.count

    def state_bytes(self) -> int:
        return self.rows.nbytes + self.parts.nbytes + self.index.nbytes

    def explain(self) -> dict[str, str]:
        kept = (
            f"the first {self.ranking.limit} rows of every partition" if self.prune else "every row"
        )
        closes = ", or when the watermark closes its window" if self.ranking.close else ""
        return {
            "state": f"{kept}, in order",
            "freed": ("when better rows come" if self.prune else "when it goes") + closes,
            "detail": self.ranking.describe(),
        }


def lower(node: plan.LogicalPlan, build: Builder) -> int | None:
    """Filter over a ranking, a projection over that, DISTINCT ON, LIMIT."""
    if isinstance(node, plan.Project):
        return _lower_project(node, build)
    found = _found(node)
    if found is None:
        return None
    pattern, rest = found
    added = add_top_n(build, pattern, node.schema)
    if added is None or rest is None:
        return added
    return add_map(build, added, rest, None, node.schema)


def _lower_project(node: plan.Project, build: Builder) -> int | None:
    """A projection over such a filter; rows that only move are no change where it does not show
    the number."""
    below = node.input
    found = _found(below) if isinstance(below, plan.Filter) else None
    if found is None or not all(is_plain(e) for e in node.exprs):
        return None
    pattern, rest = found
    schema = below.schema
    shown = [*node.exprs, *([] if rest is None else [rest])]
    if not any(pattern.number_column in columns_used(e) for e in shown):
        pattern, schema = replace(pattern, number_column=None), pattern.input.schema
    added = add_top_n(build, pattern, schema)
    chosen = [e.index for e in node.exprs if isinstance(e, ColumnRef)]
    whole = len(node.exprs) == len(chosen) and chosen == list(range(len(schema)))
    if added is None or (whole and rest is None):
        return added
    return add_map(build, added, rest, node.exprs, node.schema)


def _found(node: plan.LogicalPlan) -> tuple[Pattern, Expr | None] | None:
    """(the pattern, what else its filter asks of the rows)."""
    if not isinstance(node, plan.Filter):
        found = top_n(node)
        return None if found is None else (found, None)
    bounds: list[Expr] = []
    rest: list[Expr] = []
    for part in conjuncts(node.predicate):
        bound = top_n(replace(node, predicate=part)) is not None
        (bounds if bound else rest).append(part)
    if not bounds or not all(is_plain(e) for e in rest):
        return None
    found = top_n(replace(node, predicate=conjunction(bounds)))
    return None if found is None else (found, conjunction(rest) if rest else None)


def add_top_n(build: Builder, pattern: Pattern, schema: Schema) -> int | None:
    """The operator of a pattern; None where it has none (nested ORDER BY columns, LIMIT 0)."""
    if pattern.limit <= pattern.offset or pattern.limit <= 0:
        return None
    ranking = _ranking(pattern)
    if ranking is None:
        return None
    source = build.lower(pattern.input)
    below = build.operator(source)
    close = _close(ranking.partition, below)
    ranking = replace(ranking, close=close)
    short = ranking.function == "row_number" and ranking.limit <= APPEND_LIMIT_MAX
    append = below.append_only and short and not ranking.offset and rankable(ranking)

    def make() -> Operator:
        made: Operator
        if append:
            made = TopNAppend(schema, below.schema, ranking, below.lateness_us)
        else:
            made = TopN(schema, below.schema, ranking, below.lateness_us, prune=below.append_only)
        if close is not None:
            move(below, made, {i: [i] for i in range(len(below.schema))})
            forget_marks(made)
        return made

    return build.add("top-n", [source], (ranking, schema, append), make, private=close is not None)


def _ranking(pattern: Pattern) -> Ranking | None:
    partition, order = [], []
    for expr in pattern.partition_by:
        if isinstance(expr, ColumnRef):
            partition.append(expr.index)
        elif not isinstance(expr, Literal):
            return None
    for key in pattern.order_by:
        if isinstance(key.expr, Literal):
            continue
        type_ = key.expr.type.arrow
        if not isinstance(key.expr, ColumnRef) or not can_order(type_):
            return None
        order.append((key.expr.index, OrderColumn(type_, key.descending, key.nulls_first)))
    return Ranking(
        pattern.function, tuple(partition), tuple(order), pattern.limit, pattern.offset,
        pattern.number_column is not None, ties=ties_of(pattern.ties),
    )  # fmt: skip


def _close(partition: tuple[int, ...], below: Operator) -> tuple[int, int] | None:
    """(position in the partition's columns, µs to add) of the one that tells when it is final."""
    found = [(i, below.closes[k]) for i, k in enumerate(partition) if k in below.closes]
    return min(found, key=lambda pair: pair[1], default=None)
