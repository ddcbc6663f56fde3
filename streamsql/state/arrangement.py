"""Arrangement: a Z-set of rows, stored by column and indexed by identity and by join keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.kernels import hash_loops, zset
from streamsql.kernels.arrays import int64s
from streamsql.kernels.columns import CHUNK_ROWS
from streamsql.kernels.hash_table import HashTable
from streamsql.kernels.hashing import Lanes, any_null, hash_arrays, hash_columns, hash_rows
from streamsql.kernels.jsonb import hash_keys
from streamsql.kernels.multimap import NO_SKIP, Multimap
from streamsql.state.checkpoint import mark_immutable
from streamsql.state.consolidate import consolidate
from streamsql.state.row_store import NO_WEIGHTS, RowStore

State = Mapping[str, pa.Table]
Moved = Callable[[Int64Array, Int64Array], None]

DEAD_MIN = 4096  # dead rows that are never worth a thought
TEND_OFTEN = 16  # looks for dead rows while that many entries come
SMALL = 8192  # live rows up to which everything is copied at once instead
MOVE_MIN = 1024  # live rows copied in one go to empty a chunk
EXPANSION_MAX = 2  # rows saved for each stored one, before weights are saved instead


@dataclass(slots=True)
class Applied:
    """What `apply` did, entry by entry of `delta` (the consolidated form of what was given).

    rows: int64[n], row number in the arrangement; old, new: int64[n], its weight before and after.
    Row numbers hold until the next `apply` or `compact`.
    """

    delta: Delta
    rows: Int64Array
    old: Int64Array
    new: Int64Array


def _picked(columns: list[pa.Array], rows: Int64Array, rising: bool) -> list[pa.Array]:
    """The columns at these rows; a run of them (the new rows behind the old ones) without a
    copy."""
    first, n = int(rows[0]), rows.size
    if rising and int(rows[n - 1]) - first == n - 1:
        return [c.slice(first, n) for c in columns]
    taken = pa.array(rows)
    return [c.take(taken) for c in columns]


class Arrangement:
    """A Z-set of rows.

    identity: columns that identify a row (a primary key): a retraction then finds its row by them
        alone. None = all columns; equal rows share one stored row and its weight.
    by_value: keys of JSONB are equal where the documents are (operators are given such keys).
    allow_negative: weights may fall below 0 (intermediate Z-sets); else that is NegativeWeight.
    State: rows by column, a weight per row once one differs from 1, identity index once something
        is retracted, a multimap per key that is probed. Dead rows never outnumber the live ones for
        long: chunks of rows are emptied, a few rows at each change, and used again.
    Cost: append of insertions = memory speed; else O(delta), whatever is stored.
    """

    def __init__(
        self,
        schema: Schema,
        identity: Sequence[int] | None = None,
        *,
        allow_negative: bool = False,
        by_value: bool = False,
    ) -> None:
        if identity is not None and len(set(identity)) < len(schema) and allow_negative:
            raise ValueError("negative weights need the whole row as identity")
        self.schema = schema
        self.identity = None if identity is None else tuple(identity)
        self.allow_negative = allow_negative
        self.by_value = by_value
        self.generation = 0
        self.on_move: list[Moved] = []
        """Called with (old row numbers, new row numbers) of rows that were copied elsewhere."""
        self.on_apply: list[Callable[[Applied], None]] = []
        """Called with what each change did, as `apply` returns it."""
        self._keys: list[tuple[int, ...]] = []
        self._reset()

    def _reset(self) -> None:
        self._rows = RowStore(self.schema.arrow)
        self._maps = [Multimap() for _ in self._keys]
        self._index: HashTable | None = None  # identity -> row, built when first needed
        self._snapshot: pa.Table | None = None
        self._untended = 0  # entries since dead rows were looked for

    @property
    def live_rows(self) -> int:
        """Stored rows whose weight is not 0."""
        return self._rows.live_rows

    @property
    def total_weight(self) -> int:
        """Sum of all weights: the rows of `snapshot`, if none is negative."""
        return self._rows.total_weight

    @property
    def num_rows(self) -> int:
        """Stored rows, dead ones too."""
        return self._rows.written_rows

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        index = 0 if self._index is None else self._index.nbytes
        return self._rows.nbytes + index + sum(m.nbytes for m in self._maps)

    # -- changes ---------------------------------------------------------------------------------
    def apply(self, delta: Delta) -> Applied:
        """Add the delta. Raises: NegativeWeight (XX001), and then nothing was changed."""
        folds = self._index is not None
        if folds:
            self._untended += delta.num_rows
            if self._untended * TEND_OFTEN >= DEAD_MIN:
                self._tend(self._untended)
                self._untended = 0
        else:
            folds = delta.weights is not None and bool((delta.weights <= 0).any())
        if folds and not delta.consolidated:
            delta = consolidate(delta, ignore_watermark=True)
        if not delta.num_rows:
            return Applied(delta, NO_WEIGHTS, NO_WEIGHTS, NO_WEIGHTS)
        if folds:
            applied = self._fold(delta, self._index or self._built_index())
        else:
            rows = self._append(delta)
            applied = Applied(delta, rows, np.zeros(rows.size, np.int64), delta.weights_or_ones())
        self.generation += 1
        self._snapshot = None
        for heard in self.on_apply:
            heard(applied)
        return applied

    def clear(self) -> None:
        """Forget all rows; keys stay declared."""
        self._reset()
        self.generation += 1

    def _append(self, delta: Delta) -> Int64Array:
        """Insertions while there is no identity index: as they are."""
        store = self._rows
        if not self._keys and delta.weights is None and store.takes_references(delta.num_rows):
            return store.append_by_reference(delta.batch)
        rows = store.append(delta.columns, delta.num_rows, delta.weights)
        self._link(delta, rows)
        return rows

    def _fold(self, delta: Delta, index: HashTable) -> Applied:
        """A consolidated delta, by the identity index: retractions first, then insertions."""
        n, w = delta.num_rows, int64s(delta.weights_or_ones())
        columns = delta.columns
        named = columns if self.identity is None else [columns[i] for i in self.identity]
        h0, h1 = hash_arrays(named, n, exact=True)
        store = self._rows
        check = delta.weights is not None and not self.allow_negative
        next_rows = store.next_rows(n)
        rows, old, new, fresh, dead = np.empty((5, n), np.int64)
        progress = np.zeros(5, np.int64)
        if delta.weights is None:
            progress[zset.PHASE] = 1  # nothing to retract
        while True:
            status = zset.fold(
                index.head, h0, h1, w, store.weights, store.books, store.totals, check, progress,
                next_rows, rows, old, new, fresh, dead,
            )  # fmt: skip
            if status != zset.FULL:
                break
            index.grow(n - int(progress[zset.AT]))
        if status == zset.BELOW_ZERO:
            raise NegativeWeight("a row was retracted more often than it was inserted")
        _, _, added, died, unsorted = progress.tolist()
        if died and self._maps:
            for multimap in self._maps:
                multimap.unlink(dead[:died])
        if added == n and not unsorted:
            store.write(columns, n)
            self._link(delta, rows)
        elif added:
            columns = _picked(columns, fresh[:added], not unsorted)
            store.write(columns, added)
            if self._maps:
                self._link(Delta.of(columns, self.schema.arrow, added), next_rows[:added])
        return Applied(delta, rows, old, new)

    # -- the identity index ----------------------------------------------------------------------
    def _identity_lanes(self, batch: pa.RecordBatch) -> Lanes:
        return hash_rows(batch, self.identity)

    def _built_index(self) -> HashTable:
        """The identity index; the first time all rows are entered, and equal ones merged."""
        if self._index is not None:
            return self._index
        store = self._rows
        store.keep_weights()
        index = HashTable(store.columns.num_rows)
        for base, batch in store.chunks():
            h0, h1 = self._identity_lanes(batch)
            dead, counts = np.empty(2 * h0.size, np.int64), np.zeros(2, np.int64)
            at = 0
            while True:
                at = zset.index_rows(
                    index.head, h0, h1, base, at, store.weights, store.books, store.totals,
                    counts, dead,
                )  # fmt: skip
                if at == h0.size:
                    break
                index.grow(h0.size - at)
            for multimap in self._maps:
                multimap.unlink(dead[: counts[1]])
        self._index = index
        return index

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

    def has_key(self, columns: Sequence[int]) -> bool:
        """Whether the rows are indexed by these columns."""
        return tuple(columns) in self._keys

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
        return self.probe_lanes(key, self._lanes(batch, columns, self._keys[key]), skip)

    def _lanes(self, batch: pa.RecordBatch, columns: Sequence[int], key: Sequence[int]) -> Lanes:
        """The lanes of `key` in a batch that has it in these columns."""
        if self.by_value:
            return hash_keys(batch, columns, self.schema, key)
        return hash_columns(batch, columns)

    def probe_lanes(
        self, key: int, lanes: Lanes, skip: npt.NDArray[np.bool_] = NO_SKIP
    ) -> tuple[Int64Array, Int64Array]:
        """`probe` for keys that are hashed already; skip: bool[n] or empty, keys that match
        nothing."""
        return self._maps[key].probe(*lanes, skip)

    def _link(self, delta: Delta, rows: Int64Array) -> None:
        for columns, multimap in zip(self._keys, self._maps, strict=True):
            multimap.link(*self._lanes(delta.batch, columns, columns), rows)

    def _link_stored(self, key: int) -> None:
        for base, batch in self._rows.chunks():
            h0, h1 = self._lanes(batch, self._keys[key], self._keys[key])
            rows = np.arange(base, base + batch.num_rows)
            live = self._rows.weights_of(rows) != 0
            if not live.all():
                h0, h1, rows = h0[live], h1[live], rows[live]
            self._maps[key].link(h0, h1, rows)

    # -- reads -----------------------------------------------------------------------------------
    def weights(self, rows: Int64Array) -> Int64Array:
        """Weights of these rows, int64[n]."""
        return self._rows.weights_of(rows)

    def take(self, rows: Int64Array, columns: Sequence[int] | None = None) -> pa.RecordBatch:
        """The rows with these numbers, dead or alive; all columns or these (then named by their
        positions in the whole row)."""
        if columns is None:
            return self._rows.columns.take(rows)
        store = self._rows.columns
        fields = [self.schema.arrow.field(c) for c in columns]
        arrays = [store.take_column(c, rows) for c in columns]
        return make_batch(arrays, pa.schema(fields), rows.size)

    def find(self, batch: pa.RecordBatch, columns: Sequence[int] | None = None) -> Int64Array:
        """Live row of every identity in `batch` (in its `columns`, default: those of the identity),
        int64[n]; -1 = there is none. Identities are compared by representation."""
        index = self._built_index()
        h0, h1 = hash_rows(batch, self.identity if columns is None else columns)
        out = np.empty(batch.num_rows, np.int64)
        hash_loops.find(index.head, h0, h1, out)
        return out

    def snapshot(self) -> pa.Table:
        """All rows, each as often as its weight says, as an Arrow table that never changes.

        Cached until the next change; then only chunks with a change are made anew, and those in
        which every weight is 1 are never copied.
        """
        if self._snapshot is None:
            self._snapshot = self._rows.table()
        return self._snapshot

    def contents(self) -> Delta:
        """All live rows with their weights."""
        if not self._rows.weights.size and len(self.schema):
            batches = self.snapshot().combine_chunks().to_batches()
            return Delta(batches[0]) if batches else Delta.empty(self.schema)
        rows = self._rows.live()
        return Delta(self.take(rows), self._rows.weights_of(rows))

    def merge(self) -> None:
        """Store equal rows once (which happens by itself at the first retraction)."""
        self._built_index()

    def live_batches(self) -> Iterator[tuple[Int64Array, pa.RecordBatch]]:
        """All live rows with their numbers int64[n], chunk by chunk."""
        for base, batch in self._rows.chunks():
            rows = np.arange(base, base + batch.num_rows)
            live = self._rows.weights_of(rows) != 0
            if live.all():
                yield rows, batch
            elif live.any():
                yield rows[live], batch.filter(pa.array(live))

    # -- dead rows -------------------------------------------------------------------------------
    def _tend(self, changes: int) -> None:
        """Before a change: give back chunks without live rows, and go on emptying one while more
        rows are dead than alive. The work is in proportion to the change (or small)."""
        store = self._rows
        if store.dead_rows <= DEAD_MIN:
            return
        store.release_dead_chunks()
        dead = store.dead_rows
        if dead <= max(DEAD_MIN, store.live_rows):
            return
        if store.live_rows <= SMALL:
            self.compact()
            return
        self._evacuate(store.emptiest_chunk(), max(MOVE_MIN, changes))
        store.release_dead_chunks()

    def _evacuate(self, chunk: int, most: int) -> None:
        """Copy live rows out of a chunk."""
        if chunk < 0:
            return
        store, index = self._rows, self._built_index()
        rows = store.live_in_chunk(chunk, most)
        batch = self.take(rows)
        to = store.next_rows(rows.size)
        store.write(batch.columns, batch.num_rows)
        h0, h1 = self._identity_lanes(batch)
        zset.move_rows(index.head, h0, h1, store.weights, store.books, store.totals, rows, to)
        for multimap in self._maps:
            multimap.unlink(rows)
        self._link(Delta(batch), to)
        for moved in self.on_move:
            moved(rows, to)

    def compact(self) -> None:
        """Drop all dead rows at once. Row numbers change (`on_move`); readers' tables do not."""
        if self._index is None:
            return
        old, keep = self._rows, self._rows.live()
        weights = old.weights[keep]
        self._reset()
        for start in range(0, keep.size, CHUNK_ROWS):
            part = keep[start : start + CHUNK_ROWS]
            taken = old.columns.take_columns(part)
            self._rows.append(taken, part.size, weights[start : start + CHUNK_ROWS])
        for key in range(len(self._keys)):
            self._link_stored(key)
        self._built_index()
        for moved in self.on_move:
            moved(keep, np.arange(keep.size))

    # -- saving ----------------------------------------------------------------------------------
    def save(self) -> State:
        """Live rows and their weights as Arrow tables that never change; chunks without a change
        since the last save or snapshot are not copied again."""
        store = self._rows
        plain = not store.weights.size or bool((store.weights >= 0).all())
        if plain and store.total_weight <= EXPANSION_MAX * store.live_rows:
            return {"rows": mark_immutable(self.snapshot())}
        rows = store.live()
        parts = [rows[i : i + CHUNK_ROWS] for i in range(0, rows.size, CHUNK_ROWS)]
        table = pa.Table.from_batches([self.take(p) for p in parts], schema=self.schema.arrow)
        weights = pa.table({"weight": store.weights[rows]})
        return {"rows": mark_immutable(table), "weights": mark_immutable(weights)}

    def load(self, state: State) -> None:
        """Replace the contents by what `save` gave; keys that were declared are indexed again."""
        self._reset()
        saved = state.get("weights")
        weights = None if saved is None else saved["weight"].to_numpy().copy()
        at = 0
        for batch in state["rows"].to_batches(max_chunksize=CHUNK_ROWS):
            n = batch.num_rows
            part = None if weights is None else weights[at : at + n]
            self._rows.append(batch.columns, n, part)
            at += n
        for key in range(len(self._keys)):
            self._link_stored(key)
        if weights is not None and bool((weights < 0).any()):
            self._built_index()  # insertions must find the rows they make up for
        self.generation += 1
