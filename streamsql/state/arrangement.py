"""Arrangement: a Z-set of rows, stored by column and indexed by identity and by join keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.kernels import hash_table, zset
from streamsql.kernels.columns import CHUNK_BITS, CHUNK_ROWS
from streamsql.kernels.hash_index import LOAD_DENOMINATOR, LOAD_NUMERATOR, places_for
from streamsql.kernels.hashing import Lanes, any_null, hash_columns, hash_rows
from streamsql.kernels.multimap import Multimap
from streamsql.state.append_log import SMALL_ROWS, AppendLog
from streamsql.state.checkpoint import mark_immutable
from streamsql.state.column_store import ColumnStore
from streamsql.state.consolidate import consolidate

State = Mapping[str, pa.Table]
Moved = Callable[[Int64Array, Int64Array], None]

COMPACT_MIN = 4096  # dead rows before compaction is worth thinking about
NO_WEIGHTS = np.empty(0, np.int64)
NO_SKIP = np.empty(0, np.bool_)


@dataclass(frozen=True)
class Applied:
    """What `apply` did, entry by entry of `delta` (the consolidated form of what was given).

    rows: int64[n], row number in the arrangement; old, new: int64[n], its weight before and after.
    Row numbers hold until the next `apply` or `compact`.
    """

    delta: Delta
    rows: Int64Array
    old: Int64Array
    new: Int64Array


class Arrangement:
    """A Z-set of rows.

    identity: columns that identify a row (a primary key): a retraction then finds its row by them
    alone.
        None = all columns; equal rows share one stored row and its weight.
    allow_negative: weights may fall below 0 (intermediate Z-sets); else that is NegativeWeight.
    State: column store, a weight per row once one differs from 1, identity index once something is
    retracted,
        a multimap per key that is probed. Dead rows are dropped when they outnumber the live ones.
    Cost: append of insertions = memory speed; else O(delta), whatever is stored.
    """

    def __init__(
        self,
        schema: Schema,
        identity: Sequence[int] | None = None,
        *,
        allow_negative: bool = False,
    ) -> None:
        if identity is not None and len(identity) < len(schema) and allow_negative:
            raise ValueError("negative weights need the whole row as identity")
        self.schema = schema
        self.identity = None if identity is None else tuple(identity)
        self.allow_negative = allow_negative
        self.generation = 0
        self.on_move: list[Moved] = []
        """Called by compaction with (old row numbers, new row numbers) of all rows kept."""
        self._keys: list[tuple[int, ...]] = []
        self._reset()

    def _reset(self) -> None:
        self._settled = ColumnStore(self.schema.arrow)
        self._log = AppendLog(self.schema.arrow)
        self._maps = [Multimap() for _ in self._keys]
        self._weights = NO_WEIGHTS  # empty = every weight is 1
        self._odd = np.zeros(0, np.int32)
        self._dirty = np.zeros(0, np.bool_)
        self._totals = np.zeros(2, np.int64)  # rows of weight != 0, sum of weights
        self._table = NO_TABLE  # identity index; empty = not built
        self._entries = 0
        self._snapshot: pa.Table | None = None
        self._chunks: dict[int, list[pa.RecordBatch]] = {}

    @property
    def _store(self) -> ColumnStore:
        """The rows by number: what was only logged so far is moved in first."""
        if self._log:
            log, self._log = self._log, AppendLog(self.schema.arrow)
            for batch in log.batches:
                self._settled.append(batch)
        return self._settled

    @property
    def live_rows(self) -> int:
        """Stored rows whose weight is not 0."""
        return int(self._totals[0])

    @property
    def total_weight(self) -> int:
        """Sum of all weights: the rows of `snapshot`, if none is negative."""
        return int(self._totals[1])

    @property
    def num_rows(self) -> int:
        """Stored rows, dead ones too: the number of the next row."""
        return self._settled.num_rows + self._log.rows

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        indexes = self._table.nbytes + sum(m.nbytes for m in self._maps)
        return int(self._settled.nbytes + self._log.nbytes + self._weights.nbytes + indexes)

    # -- changes ---------------------------------------------------------------------------------
    def apply(self, delta: Delta) -> Applied:
        """Add the delta. Raises: NegativeWeight (XX001), and then nothing was changed."""
        self.compact_if_due()
        retracts = delta.weights is not None and bool((delta.weights <= 0).any())
        if retracts or self._indexed:
            delta = consolidate(delta, ignore_watermark=True)
        if not delta:
            return Applied(delta, NO_WEIGHTS, NO_WEIGHTS, NO_WEIGHTS)
        if retracts or self._indexed:
            applied = self._fold(delta)
        elif delta.weights is None and self._may_log(delta.num_rows):
            applied = self._append_to_log(delta)
        else:
            applied = self._append(delta)
        self.generation += 1
        self._snapshot = None
        return applied

    def clear(self) -> None:
        """Forget all rows; keys stay declared."""
        self._reset()
        self.generation += 1

    @property
    def _indexed(self) -> bool:
        return self._table.size > 0

    def _may_log(self, rows: int) -> bool:
        """Whether insertions may be kept as they came: large, and nobody looks rows up."""
        return (
            not self._keys and not self._weights.size and (self._log.rows > 0 or rows > SMALL_ROWS)
        )

    def _append_to_log(self, delta: Delta) -> Applied:
        """Insertions that need not be copied until rows are looked up by number."""
        n, base = delta.num_rows, self.num_rows
        self._log.append(delta.batch)
        self._totals += n
        return Applied(
            delta, np.arange(base, base + n), np.zeros(n, np.int64), np.ones(n, np.int64)
        )

    def _append(self, delta: Delta) -> Applied:
        """Insertions while there is no identity index: rows go to the end as they are."""
        n = delta.num_rows
        base = self._store.num_rows
        new = delta.weights_or_ones()
        self._add_rows(delta.batch, new if delta.weights is not None else None)
        rows = np.arange(base, base + n)
        self._link(delta.batch, rows)
        return Applied(delta, rows, np.zeros(n, np.int64), new)

    def _fold(self, delta: Delta) -> Applied:
        """A consolidated delta, by the identity index."""
        self._build_index()
        n, w = delta.num_rows, delta.weights_or_ones()
        h0, h1 = self._identity_lanes(delta.batch)
        rows = np.full(n, -1, np.int64)
        old, new = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._reserve(n)
        address = pa.py_buffer(self._table).address
        books = (self._weights, self._odd, self._dirty, self._totals)
        if delta.weights is not None:
            bad = zset.find_retracted(
                self._table, address, h0, h1, w, self._weights, self.allow_negative, rows
            )
            if bad >= 0:
                raise NegativeWeight("a row was retracted more often than it was inserted")
            zset.fold_retractions(w, *books, rows, old, new)
        fresh, revived = np.empty(n, np.int64), np.empty(n, np.int64)
        unique = self.identity is not None and len(set(self.identity)) < len(self.schema)
        added, back, entries = zset.fold_insertions(
            self._table, address, h0, h1, w, *books, unique, self._store.num_rows,
            rows, old, new, fresh, revived,
        )  # fmt: skip
        self._entries += entries
        if back:
            self._relink(revived[:back])
        if added == n:
            self._add_rows(delta.batch, w)
            self._link(delta.batch, rows)
        elif added:
            positions = fresh[:added]
            batch = delta.batch.take(pa.array(positions))
            self._add_rows(batch, w[positions])
            self._link(batch, rows[positions])
        return Applied(delta, rows, old, new)

    def _add_rows(self, batch: pa.RecordBatch, weights: Int64Array | None) -> None:
        """Append rows to the store with their weights (None = all 1)."""
        base, n = self._store.num_rows, batch.num_rows
        self._store.append(batch)
        if weights is not None and not self._weights.size and (weights != 1).any():
            self._keep_weights(base)
        if self._weights.size:
            self._grow_weights(base + n)
            self._weights[base : base + n] = 1 if weights is None else weights
            zset.count_odd(self._weights, base, base + n, self._odd)
        self._totals[0] += n
        self._totals[1] += n if weights is None else int(weights.sum())

    def _keep_weights(self, rows: int) -> None:
        """Write the weights of the first `rows` rows out; until now all were 1."""
        if not self._weights.size:
            self._weights = np.ones(rows + 1024, np.int64)
            chunks = (self._weights.size >> CHUNK_BITS) + 1
            self._odd, self._dirty = np.zeros(chunks, np.int32), np.zeros(chunks, np.bool_)

    def _grow_weights(self, rows: int) -> None:
        if rows > self._weights.size:
            weights = np.empty(2 * rows, np.int64)
            weights[: self._weights.size] = self._weights
            self._weights = weights
            more = (weights.size >> CHUNK_BITS) + 1 - self._odd.size
            self._odd = np.concatenate([self._odd, np.zeros(more, np.int32)])
            self._dirty = np.concatenate([self._dirty, np.zeros(more, np.bool_)])

    # -- the identity index ----------------------------------------------------------------------
    def _identity_lanes(self, batch: pa.RecordBatch) -> Lanes:
        return hash_rows(batch, self.identity)

    def _build_index(self) -> None:
        """Index all stored rows, if they are not yet; equal rows are merged into the first."""
        if self._indexed:
            return
        self._keep_weights(self._store.num_rows)
        self._table = np.zeros(2 * places_for(self._store.num_rows), np.uint64)
        base = 0
        for batch in self._store.batches():
            h0, h1 = self._identity_lanes(batch)
            self._entries += zset.index_rows(
                self._table, h0, h1, base, self._weights, self._odd, self._dirty, self._totals
            )
            base += batch.num_rows

    def _reserve(self, more: int) -> None:
        """Room for so many more entries in the identity index."""
        places = self._table.size // 2
        if (self._entries + more) * LOAD_DENOMINATOR > places * LOAD_NUMERATOR:
            table = np.zeros(2 * places_for(2 * self._entries + more), np.uint64)
            hash_table.rehash(self._table, table)
            self._table = table

    # -- keys ------------------------------------------------------------------------------------
    def add_key(self, columns: Sequence[int]) -> int:
        """Index the rows by these columns; returns the key id for `probe`."""
        key = tuple(columns)
        if key in self._keys:
            return self._keys.index(key)
        self._keys.append(key)
        self._maps.append(Multimap())
        self._link_stored(len(self._keys) - 1)
        return len(self._keys) - 1

    def probe(
        self,
        key: int,
        batch: pa.RecordBatch,
        columns: Sequence[int],
        *,
        null_safe: bool = False,
    ) -> tuple[Int64Array, Int64Array]:
        """Pairs (position in `batch` int64[m], row int64[m]) of equal keys.

        Live rows only (any weight but 0; see `weights`). A key with a NULL matches nothing unless
        `null_safe` (IS NOT DISTINCT FROM). Types must be those of the key's columns.
        """
        skip = NO_SKIP if null_safe else any_null(batch, columns)
        return self.probe_lanes(key, hash_columns(batch, columns), skip)

    def probe_lanes(
        self, key: int, lanes: Lanes, skip: npt.NDArray[np.bool_] = NO_SKIP
    ) -> tuple[Int64Array, Int64Array]:
        """`probe` for keys that are hashed already; skip: bool[n] or empty, keys that match
        nothing."""
        return self._maps[key].probe(*lanes, self._weights, skip)

    def _link(self, batch: pa.RecordBatch, rows: Int64Array) -> None:
        for columns, multimap in zip(self._keys, self._maps, strict=True):
            multimap.link(*hash_columns(batch, columns), rows)

    def _relink(self, rows: Int64Array) -> None:
        """Rows that live again go back into the chains that let them go."""
        for columns, multimap in zip(self._keys, self._maps, strict=True):
            gone = rows[multimap.unlinked(rows)]
            if gone.size:
                multimap.link(*hash_columns(self._store.take(gone), columns), gone)

    def _link_stored(self, key: int) -> None:
        base = 0
        for batch in self._store.batches():
            lanes = hash_columns(batch, self._keys[key])
            self._maps[key].link(*lanes, np.arange(base, base + batch.num_rows))
            base += batch.num_rows

    # -- reads -----------------------------------------------------------------------------------
    def weights(self, rows: Int64Array) -> Int64Array:
        """Weights of these rows, int64[n]."""
        if not self._weights.size:
            return np.ones(rows.size, np.int64)
        return self._weights[rows]

    def take(self, rows: Int64Array) -> pa.RecordBatch:
        """The rows with these numbers, dead or alive."""
        return self._store.take(rows)

    def find(self, batch: pa.RecordBatch, columns: Sequence[int] | None = None) -> Int64Array:
        """Row of every identity in `batch` (its `columns`, default: the identity's own), −1 = none
        alive."""
        self._build_index()
        own = self.identity if columns is None else columns
        h0, h1 = hash_rows(batch, own)
        out = np.empty(batch.num_rows, np.int64)
        hash_table.find(self._table, pa.py_buffer(self._table).address, h0, h1, out)
        found = out >= 0
        out[found] = np.where(self._weights[out[found]] != 0, out[found], -1)
        return out

    def snapshot(self) -> pa.Table:
        """All rows, each as often as its weight says, as an Arrow table that never changes.

        Cached until the next change; chunks in which every weight is 1 are the store's own memory,
        and a chunk that was copied is copied again only when one of its rows changed.
        """
        if self._snapshot is None:
            self._snapshot = self._make_snapshot()
        return self._snapshot

    def _make_snapshot(self) -> pa.Table:
        if self._log:
            return pa.concat_tables([self._settled.table(), self._log.table()])
        n = self._store.num_rows
        if not self._weights.size or not self._odd.any():
            self._chunks.clear()
            return self._store.table()
        batches: list[pa.RecordBatch] = []
        for chunk in range((n + CHUNK_ROWS - 1) >> CHUNK_BITS):
            start = chunk << CHUNK_BITS
            end = min(n, start + CHUNK_ROWS)
            if not self._odd[chunk]:
                batches += self._store.chunk_batches(chunk)
                continue
            cached = self._chunks.get(chunk)
            whole = end == start + CHUNK_ROWS
            if cached is None or self._dirty[chunk] or not whole:
                cached = [self._store.take(self._expanded(start, end))]
                self._dirty[chunk] = False
                if whole:
                    self._chunks[chunk] = cached
            batches += cached
        return pa.Table.from_batches(batches, schema=self.schema.arrow)

    def _expanded(self, start: int, end: int) -> Int64Array:
        """Rows in [start, end), each repeated by its weight."""
        size = int(np.maximum(self._weights[start:end], 0).sum())
        rows = np.empty(size, np.int64)
        zset.live_rows(self._weights, start, end, rows)
        return rows

    def contents(self) -> Delta:
        """All live rows with their weights, as one consolidated delta per distinct row."""
        if self._log and not self._settled.num_rows:
            return Delta(pa.concat_batches(self._log.batches))
        rows = self._live()
        batch = self._store.take(rows)
        return Delta(batch, self._weights[rows] if self._weights.size else None)

    def _live(self) -> Int64Array:
        n = self._store.num_rows
        if not self._weights.size:
            return np.arange(n)
        return np.flatnonzero(self._weights[:n])

    # -- compaction, saving ----------------------------------------------------------------------
    def compact_if_due(self) -> None:
        """Compact when more rows are dead than alive."""
        dead = self.num_rows - self.live_rows
        if dead > COMPACT_MIN and dead > self.live_rows:
            self.compact()

    def compact(self) -> None:
        """Drop the dead rows. Row numbers change (`on_move`); readers' tables stay as they were."""
        keep = self._live()
        weights = self._weights[keep] if self._weights.size else NO_WEIGHTS
        self._store.rebuild(keep)
        totals, indexed = self._totals, self._indexed
        store = self._store
        self._reset()
        self._settled, self._totals = store, totals
        if weights.size and bool((weights != 1).any()):
            self._keep_weights(keep.size)
            self._weights[: keep.size] = weights
            zset.count_odd(self._weights, 0, keep.size, self._odd)
        for key in range(len(self._keys)):
            self._link_stored(key)
        if indexed:
            self._build_index()
        for moved in self.on_move:
            moved(keep, np.arange(keep.size))

    def save(self) -> State:
        """Live rows and their weights as Arrow tables that never change; chunks without a change
        since the last save or snapshot are not copied again."""
        weights = self._weights[: self._store.num_rows]
        if not weights.size or bool(((weights == 0) | (weights == 1)).all()):
            return {"rows": mark_immutable(self.snapshot())}
        rows = self._live()
        parts = [rows[i : i + CHUNK_ROWS] for i in range(0, rows.size, CHUNK_ROWS)]
        batches = [self._store.take(part) for part in parts]
        table = pa.Table.from_batches(batches, schema=self.schema.arrow)
        return {
            "rows": mark_immutable(table),
            "weights": mark_immutable(pa.table({"weight": self._weights[rows]})),
        }

    def load(self, state: State) -> None:
        """Replace the contents by what `save` gave; keys that were declared are indexed again."""
        self._reset()
        weights = state.get("weights")
        table = state["rows"]
        w = None if weights is None else weights["weight"].to_numpy().copy()
        at = 0
        for batch in table.to_batches(max_chunksize=CHUNK_ROWS):
            n = batch.num_rows
            self._add_rows(batch, None if w is None else w[at : at + n])
            at += n
        for key in range(len(self._keys)):
            self._link_stored(key)
        if w is not None and bool((w < 0).any()):
            self._build_index()  # insertions must find the rows they make up for
        self.generation += 1


NO_TABLE = np.empty(0, np.uint64)
