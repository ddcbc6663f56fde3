"""The first rows of each partition where rows only come and never go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT
from streamsql.kernels.order_keys import OrderColumn, encode
from streamsql.kernels.text_pool import TextPool
from streamsql.operators import saved
from streamsql.operators.columns import select, to_arrow
from streamsql.operators.event_time import CloseQueue, event_time_us
from streamsql.operators.groups import Groups
from streamsql.operators.loops import top_n as loops
from streamsql.operators.ties import Tie
from streamsql.state.column_store import ColumnStore

FIRST_ENTRIES = 256
COMPACT_FROM = 4096  # rows below which dead ones are left alone
COUNT, CLOSE = 0, 2
"""Lanes of a partition: 1 once it is known, its close time (µs) where it closes."""


@dataclass(frozen=True)
class Ranking:
    """Which rows are the first of their partition, and what is put out.

    function: row_number, rank or dense_rank; a row is kept while its number is <= limit. partition:
    positions in the input. order: positions in the input and how they are ordered; ties: what
    orders rows that are equal there, so that neither ticks nor arrival decide. offset: rows left
    out at the start (row_number only). numbered: the number is put out behind the row's columns.
    close: position in `partition` and µs to add to it, when a partition is final.
    """

    function: str
    partition: tuple[int, ...]
    order: tuple[tuple[int, OrderColumn], ...]
    limit: int
    offset: int = 0
    numbered: bool = False
    close: tuple[int, int] | None = None
    ties: tuple[Tie, ...] = ()

    def describe(self) -> str:
        """For EXPLAIN."""
        what = f"first {self.limit} by {self.function}"
        return f"{what}, behind the first {self.offset}" if self.offset else what


class Partitions(Groups):
    """The partitions of a Top-N: key -> slot, and when each one closes."""

    def __init__(self, schema: Schema, ranking: Ranking, lateness_us: int) -> None:
        super().__init__(schema, range(len(schema)), 3)
        self._close = ranking.close
        self._lateness_us = lateness_us
        self._closing = CloseQueue()

    def enter(self, keys: pa.RecordBatch) -> tuple[Int64Array, Int64Array]:
        """(partition slot of every row int64[n], slots that are new)."""
        slots, new_rows, _ = self.upsert_distinct(keys)
        opened = slots[new_rows]
        self.cells[opened, COUNT] = 1
        if self._close is not None and new_rows.size:
            column, plus = self._close
            times, valid = event_time_us(keys.column(column).take(pa.array(new_rows)))
            closing = opened if valid is None else opened[valid]
            times = (times if valid is None else times[valid]) + (plus + self._lateness_us)
            self.cells[closing, CLOSE] = times
            self._closing.push(times, closing)
        return slots, opened

    def closed(self, watermark: int) -> Int64Array:
        """Slots of the partitions that the watermark closes."""
        times, slots = self._closing.pop(watermark)
        if not slots.size:
            return slots
        held = self.cells[slots]
        return slots[(held[:, COUNT] > 0) & (held[:, CLOSE] == times)]

    def reopen(self) -> None:
        """After `load`: know again what closes when."""
        if self._close is None:
            return
        live = self.live()
        valid = event_time_us(self.key_rows(live).column(self._close[0]))[1]
        live = live if valid is None else live[valid]
        self._closing.push(self.cells[live, CLOSE], live)


class TopNAppend(Operator):
    """The first n rows of each partition, of rows that only come.

    Algebra:  top(Z) = the n least rows of each partition by (ORDER BY, ties).
              Non-linear.
    Input:    delta [n rows x input schema]; weights > 0.
    Output:   the row's columns [and its number]: -1 for a row that fell out, +1 for one that came
              in, and with a number both for those that moved. Weights -1 and +1; consolidated
              until the first equal rows.
    State:    the first n rows of each partition alone; freed when better ones come, or when the
              watermark closes the partition's window.
    Cost:     O(changed rows); a row that comes in passes the rows behind it, at most n.
    """

    def __init__(
        self, schema: Schema, input_schema: Schema, ranking: Ranking, lateness_us: int
    ) -> None:
        super().__init__(schema)
        self.input_schema = input_schema
        self.ranking = ranking
        self.lateness_us = lateness_us
        self.needs_time = ranking.close is not None
        ties = [t for t in ranking.ties if not t.column.is_text]
        self.texts = [t for t in ranking.ties if t.column.is_text]
        self.ties = [(t.index, t.column) for t in ties]
        self.order_words = sum(column.words for _, column in ranking.order)
        words = self.order_words + sum(column.words for _, column in self.ties) + len(self.texts)
        self.words = max(words, 1)
        self._reset()

    def _reset(self) -> None:
        keys = self.input_schema.select(self.ranking.partition)
        self.parts = Partitions(keys, self.ranking, self.lateness_us)
        self.rows = ColumnStore(self.input_schema.arrow)
        self.head = np.full(FIRST_ENTRIES, loops.NONE, np.int64)
        self.size = np.zeros(FIRST_ENTRIES, np.int64)
        self.stamp = np.zeros(FIRST_ENTRIES, np.int64)
        self.lead = np.zeros(FIRST_ENTRIES, np.int64)
        self.better = np.empty(FIRST_ENTRIES, np.int64)
        self.row = np.full(FIRST_ENTRIES, loops.NONE, np.int64)
        self.free = np.empty(FIRST_ENTRIES, np.int64)
        self.key_words = np.empty(FIRST_ENTRIES * self.words, np.int64)
        self.numbers = np.zeros(3, np.int64)
        self.tick = 0

    @property
    def name(self) -> str:
        return "TopN"

    @property
    def entries(self) -> int:
        """Rows in all lists."""
        return int(self.numbers[loops.FRESH] - self.numbers[loops.FREE])

    @property
    def _distinct(self) -> bool:
        """Whether no list ever held a row twice."""
        return not self.numbers[loops.EQUAL]

    # --- stepping ------------------------------------------------------------------------------
    def step(self, step: Step, *deltas: Delta) -> Delta:
        delta = deltas[0]
        out = self._insert(delta) if delta else Delta.empty(self.schema)
        if self.needs_time:
            self._close(min(step.input_watermarks, default=NO_WATERMARK))
        return out

    def _insert(self, delta: Delta) -> Delta:
        batch = _repeated(delta, self.ranking.limit)
        parts, opened = self.parts.enter(select(batch, self.ranking.partition, self.parts.schema))
        self._room_for_parts(self.parts.index.num_slots)
        self.head[opened], self.size[opened] = loops.NONE, 0
        keys = self._keys(batch)
        chosen = np.empty(parts.size, np.int64)
        found = loops.candidates(
            parts, keys.reshape(-1), self.words, self.order_words, self.ranking.limit,
            self.head, self.size, self.key_words, chosen,
        )  # fmt: skip
        if self.ranking.limit == 1:
            self.tick += 1
            found = loops.leaders(
                chosen[:found], parts, keys.reshape(-1), self.words, self.order_words,
                self.tick, self.stamp, self.lead,
            )  # fmt: skip
        if not found:
            return Delta.empty(self.schema)
        if found < parts.size:
            chosen = chosen[:found]
            batch, parts, keys = batch.take(pa.array(chosen)), parts[chosen], keys[chosen]
        self._encode_ties(batch, keys)
        return self._place(batch, parts, np.ascontiguousarray(keys).reshape(-1))

    def _keys(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Keys int64[n, words], those of the ties still open."""
        keys = np.zeros((batch.num_rows, self.words), np.int64)
        columns = [batch.column(i) for i, _ in self.ranking.order]
        order = [c for _, c in self.ranking.order]
        encode(columns, order, TextPool(), keys[:, : self.order_words])
        return keys

    def _encode_ties(self, batch: pa.RecordBatch, keys: npt.NDArray[np.int64]) -> None:
        """Numbers behind the order's words, then whether each text is NULL."""
        at = self.words - len(self.texts)
        columns = [batch.column(i) for i, _ in self.ties]
        encode(columns, [c for _, c in self.ties], TextPool(), keys[:, self.order_words : at])
        for k, tie in enumerate(self.texts):
            column = batch.column(tie.index)
            keys[:, at + k] = column.is_null().to_numpy(zero_copy_only=False)

    def _text_places(
        self, batch: pa.RecordBatch
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the texts of the batch and of the store are, for `loops.insert`."""
        fresh = np.zeros((len(self.texts), 2), np.int64)
        for k, tie in enumerate(self.texts):
            column = batch.column(tie.index)
            _, offsets, data = column.buffers()
            fresh[k] = offsets.address + 4 * column.offset, 0 if data is None else data.address
        places = [self.rows.text_places(t.index) for t in self.texts]
        stored = np.stack(places) if places else np.zeros((0, 0, 3), np.int64)
        return fresh, stored

    def _place(self, batch: pa.RecordBatch, parts: Int64Array, keys: Int64Array) -> Delta:
        self.tick += 1
        n, base = parts.size, self.rows.num_rows
        self._room_for_entries(n)
        touched = np.empty(n, np.int64)
        found, held = loops.touch(parts, self.tick, self.stamp, self.size, touched)
        touched = touched[:found]
        old = self._lists(touched, held) if self.ranking.numbered else None
        alive, evicted = np.zeros(n, np.uint8), np.empty(n, np.int64)
        fresh, stored = self._text_places(batch)
        gone = loops.insert(
            parts, keys, self.words, self.ranking.limit, base,
            self.head, self.size, self.better, self.row, self.key_words, self.free, self.numbers,
            alive, evicted, fresh, stored,
        )  # fmt: skip
        kept = np.flatnonzero(alive)
        loops.renumber(
            touched, self.head, self.better, self.row, base, np.cumsum(alive, dtype=np.int64) - 1
        )
        added = batch if kept.size == n else batch.take(pa.array(kept))
        self.rows.append(added)
        if old is None:
            out = self._changed(evicted[:gone], added)
        else:
            out = self._renumbered(touched, *old)
        self._compact_if_due()
        return out

    def _changed(self, evicted: Int64Array, added: pa.RecordBatch) -> Delta:
        """-1 for the rows that fell out, +1 for those that came in."""
        if not evicted.size:
            return Delta(added, None, None, self._distinct)
        batch = pa.concat_batches([self.rows.take(evicted), added])
        weights = np.ones(batch.num_rows, np.int64)
        weights[: evicted.size] = -1
        return Delta(batch, weights, None, self._distinct)

    def _lists(self, parts: Int64Array, held: int) -> tuple[Int64Array, Int64Array]:
        """(where each partition's rows start int64[parts + 1], row numbers, best first)."""
        starts, rows = np.empty(parts.size + 1, np.int64), np.empty(held, np.int64)
        loops.lists(parts, self.head, self.size, self.better, self.row, starts, rows)
        return starts, rows

    def _renumbered(self, touched: Int64Array, starts: Int64Array, old: Int64Array) -> Delta:
        """The rows whose place changed, with their numbers."""
        new_starts, new = self._lists(touched, int(self.size[touched].sum()))
        most = old.size + new.size
        rows, ranks, weights = (np.empty(most, np.int64) for _ in range(3))
        found = loops.changes(starts, old, new_starts, new, rows, ranks, weights)
        return self._numbered(rows[:found], ranks[:found], weights[:found])

    def _numbered(self, rows: Int64Array, ranks: Int64Array, weights: Int64Array) -> Delta:
        arrays = [*self.rows.take(rows).columns, to_arrow(ranks, BIGINT.arrow)]
        plain = not weights.size or int(weights.min()) > 0
        batch = make_batch(arrays, self.schema.arrow, rows.size)
        return Delta(batch, None if plain else weights, None, self._distinct)

    # --- room ----------------------------------------------------------------------------------
    def _room_for_parts(self, slots: int) -> None:
        if slots > self.head.size:
            size = max(slots, 2 * self.head.size)
            self.head = _grown(self.head, size, loops.NONE)
            self.size = _grown(self.size, size, 0)
            self.stamp = _grown(self.stamp, size, 0)
            self.lead = _grown(self.lead, size, None)

    def _room_for_entries(self, more: int) -> None:
        needed = int(self.numbers[loops.FRESH]) + more
        if needed > self.row.size:
            size = max(needed, 2 * self.row.size)
            self.row = _grown(self.row, size, loops.NONE)
            self.better = _grown(self.better, size, None)
            self.free = _grown(self.free, size, None)
            self.key_words = _grown(self.key_words, size * self.words, None)

    def _compact_if_due(self) -> None:
        """Drop the rows of the store that are in no list, when they are most of it."""
        stored, live = self.rows.num_rows, self.entries
        if stored > COMPACT_FROM and stored > 2 * live:
            _, rows = self._lists(self.parts.live(), live)
            keep = np.sort(rows)
            self.rows.rebuild(keep)
            new_number = np.full(stored, loops.NONE, np.int64)
            new_number[keep] = np.arange(keep.size)
            loops.remap(self.row, int(self.numbers[loops.FRESH]), new_number)

    def _close(self, watermark: int) -> None:
        closed = self.parts.closed(watermark)
        if closed.size:
            loops.drop(closed, self.head, self.size, self.better, self.free, self.numbers)
            self.parts.free(closed)
            self._compact_if_due()

    # --- the rest of the contract --------------------------------------------------------------
    def current(self, *inputs: Delta) -> Delta | None:
        starts, rows = self._lists(self.parts.live(), self.entries)
        if not self.ranking.numbered:
            return Delta(self.rows.take(rows), None, None, self._distinct)
        ranks = np.arange(rows.size) - np.repeat(starts[:-1], np.diff(starts)) + 1
        return self._numbered(rows, ranks, np.ones(rows.size, np.int64))

    def save(self) -> State:
        live = self.parts.live()
        starts, rows = self._lists(live, self.entries)
        parts = np.repeat(live, np.diff(starts))
        return {
            **saved.nest("parts", self.parts.save()),
            "rows": pa.Table.from_batches([self.rows.take(rows)]),
            "places": saved.columns(part=parts),
        }

    def load(self, state: State) -> None:
        self._reset()
        self.parts.load(saved.inner("parts", state))
        self.parts.reopen()
        self._room_for_parts(self.parts.index.num_slots)
        batch = saved.table_batch(state["rows"], self.input_schema)
        if batch.num_rows:
            keys = self._keys(batch)
            self._encode_ties(batch, keys)
            self._place(batch, saved.array(state["places"], "part"), keys.reshape(-1))

    def state_rows(self) -> int:
        return self.entries

    def state_bytes(self) -> int:
        arrays = (
            self.head,
            self.size,
            self.stamp,
            self.lead,
            self.row,
            self.better,
            self.free,
            self.key_words,
        )
        return int(sum(a.nbytes for a in arrays) + self.parts.nbytes + self.rows.nbytes)

    def explain(self) -> dict[str, str]:
        return {
            "state": f"the first {self.ranking.limit} rows of every partition",
            "freed": "when better rows come"
            + ("" if self.ranking.close is None else ", or the watermark closes the window"),
            "detail": self.ranking.describe(),
        }


def _repeated(delta: Delta, limit: int) -> pa.RecordBatch:
    """The rows, each as often as its weight says, but no more often than it can be shown."""
    weights = delta.weights
    if weights is None or bool((weights == 1).all()):
        return delta.batch
    times = np.clip(weights, 0, limit)
    return delta.batch.take(pa.array(np.repeat(np.arange(delta.num_rows), times)))


def _grown(array: Int64Array, size: int, fill: int | None) -> Int64Array:
    """A longer copy; fill: of the new part, None = it is written before it is read."""
    out = np.empty(size, np.int64)
    out[: array.size] = array
    if fill is not None:
        out[array.size :] = fill
    return out


def rankable(ranking: Ranking) -> bool:
    """Whether the order is by columns of fixed width, which lists compare without a text pool;
    texts that break ties are compared where they are stored."""
    texts = any(column.is_text for _, column in ranking.order)
    return not texts and not any(tie.as_text for tie in ranking.ties)
