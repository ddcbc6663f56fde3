"""OrderedIndex: the rows of every group in ORDER BY order, under inserts and deletes.

What MIN and MAX under deletes, Top-N, ranks, LAG and LEAD, sessions and as-of joins share. Groups
are slot numbers (of a HashIndex); an entry is (group, ordered values, tie-break) with a count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.kernels.arrays import int64s
from streamsql.kernels.order_keys import (
    OrderColumn,
    decode,
    encode,
    encode_single,
    single_width,
)
from streamsql.kernels.ordered import (
    EQUAL,
    FIRST_ABOVE,
    FIRST_AT_LEAST,
    LAST_AT_MOST,
    LAST_BELOW,
    Heads,
    OrderedTree,
)
from streamsql.kernels.ordered_nodes import PLAIN
from streamsql.kernels.text_pool import TextPool

Int64Array = npt.NDArray[np.int64]
State = Mapping[str, pa.Table]

SAVED_ROWS = 65536

RETIRED_MIN = 1024
"""Texts of gone entries that are kept without a thought."""

__all__ = [
    "EQUAL", "FIRST_ABOVE", "FIRST_AT_LEAST", "LAST_AT_MOST", "LAST_BELOW",
    "Entries", "OrderColumn", "OrderedIndex", "Places",
]  # fmt: skip


@dataclass(frozen=True)
class Entries:
    """Entries read: by entry its group int64[n], values (one array a column), tie int64[n] and
    count int64[n]. Where there is no entry (cursor -1) the count is 0 and the rest means
    nothing."""

    groups: Int64Array
    values: list[pa.Array]
    ties: Int64Array
    counts: Int64Array


@dataclass(frozen=True)
class Places:
    """Where keys stand among the rows of all groups, int64[n] each: rows before the key, before and
    up to the end of its peers, before and up to the end of its group."""

    own: Int64Array
    peers_start: Int64Array
    peers_end: Int64Array
    group_start: Int64Array
    group_end: Int64Array


@dataclass(frozen=True)
class Edge:
    """Where a stretch of a group begins or ends: at these values (by column, one for each group
    asked), with the entries that are equal to them or (`open`) without."""

    values: Sequence[pa.Array]
    open: bool

    def taken(self, order: Int64Array) -> list[pa.Array]:
        """The values in this order."""
        rows = pa.array(order)
        return [v.take(rows) for v in self.values]


class OrderedIndex:
    """Counted rows in order, by group.

    columns: what rows are ordered by. with_tie: keys have a last word of the caller's (a row
        number), so that rows of equal values stay apart and in its order; else equal values share
        an entry.
    breakers: the last so many columns only order what is equal in the others: rows that agree in
        those are peers, and one place to `find` and `rank`.
    Cursors (int64) name entries until the next `add`; -1 = none.
    Cost: O(log entries) for each key asked or changed. Memory: about 60 bytes an entry, and each
        distinct text once.
    """

    def __init__(
        self, columns: Sequence[OrderColumn], *, with_tie: bool = False, breakers: int = 0
    ) -> None:
        self.columns = tuple(columns)
        self.with_tie = with_tie
        kinds = [PLAIN, *(k for column in self.columns for k in column.kinds)]
        if with_tie:
            kinds.append(PLAIN)
        self._words = len(kinds)
        self._value_words = self._words - int(with_tie)
        self.peer_words = self._value_words
        self.peer_words -= sum(c.words for c in self.columns[len(self.columns) - breakers :])
        self._tree = OrderedTree(self._words, np.array(kinds, np.int64))
        self._pool = TextPool()
        self._single = -1 if with_tie else single_width(self.columns)
        self._texts: list[int] = []  # words that are slots of the pool
        at = 1
        for column in self.columns:
            at += column.words
            if column.is_text:
                self._texts.append(at - 1)

    @property
    def entries(self) -> int:
        """Entries held."""
        return self._tree.entries

    @property
    def total(self) -> int:
        """Sum of all counts."""
        return self._tree.total

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._tree.nbytes + self._pool.nbytes

    # -- changes ---------------------------------------------------------------------------------
    def add(
        self,
        groups: Int64Array,
        values: Sequence[pa.Array],
        weights: Int64Array,
        ties: Int64Array | None = None,
    ) -> tuple[Int64Array, Int64Array]:
        """Add weights to the counts; returns the counts (before int64[n], after int64[n]).

        Raises: NegativeWeight (XX001) when a count would fall below 0.
        """
        return self.add_keys(self.keys(groups, values, ties), weights)

    def add_keys(
        self, keys: npt.NDArray[np.int64], weights: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """`add` of what `keys` has made."""
        try:
            old, new = self._tree.add(keys, weights)
        except BaseException:
            self._release(keys)
            raise
        if self._texts:
            by = (new > 0).astype(np.int64) - (old > 0).astype(np.int64)
            for word in self._texts:
                self._pool.hold(np.ascontiguousarray(keys[:, word]), by)
            self._retire(keys)
        return old, new

    def remove_groups(self, groups: Int64Array) -> int:
        """Drop all entries of these (distinct) groups; returns how many there were."""
        bounds = groups.reshape(-1, 1)
        _, cursors = self._tree.span(bounds, bounds)
        keys, counts = self._tree.read(cursors)
        self._tree.add(keys, -counts)
        for word in self._texts:
            self._pool.hold(np.ascontiguousarray(keys[:, word]), np.full(counts.size, -1))
        self._retire(keys)
        return int(counts.size)

    def clear(self) -> None:
        """Forget everything."""
        self._tree.clear()
        self._pool = TextPool()

    # -- keys ------------------------------------------------------------------------------------
    def keys(
        self, groups: Int64Array, values: Sequence[pa.Array], ties: Int64Array | None = None
    ) -> npt.NDArray[np.int64]:
        """Keys int64[n, words] of these groups, values and ties (default 0)."""
        if self._single > 0:
            return self._single_keys(groups, values[0])
        out = np.zeros((groups.size, self._words), np.int64)
        out[:, 0] = groups
        encode(values, self.columns, self._pool, out[:, 1 : self._value_words])
        if ties is not None:
            out[:, -1] = ties
        if self._texts:
            self._tree.set_texts(self._pool.addresses, self._pool.sizes)
        return out

    def _single_keys(self, groups: Int64Array, values: pa.Array) -> npt.NDArray[np.int64]:
        """`keys` where they are a group and one number."""
        out = np.empty((groups.size, 2), np.int64)
        valid, data = values.buffers()
        address = 0 if data is None else data.address
        address += values.offset * (self._single % 10)
        bitmap = 0 if values.null_count == 0 else valid.address
        encode_single(int64s(groups), address, self._single, bitmap, values.offset, out)
        return out

    def _retire(self, keys: npt.NDArray[np.int64]) -> None:
        """Texts of entries that are gone stay while keys that bound the tree's nodes name them:
        their slots may not mean another text. They are looked through now and then."""
        if not self._texts:
            return
        pool = self._pool
        pool.retire(keys[:, self._texts].ravel())
        waiting = pool.retired
        if waiting and (not self.entries or waiting > max(RETIRED_MIN, pool.count // 2)):
            if not self.entries:
                self._tree.clear()
            pool.sweep(np.concatenate([self._tree.bound_words(w) for w in self._texts]))
        self._tree.set_texts(pool.addresses, pool.sizes)

    def _release(self, keys: npt.NDArray[np.int64]) -> None:
        """Let go of texts that came with a question, or that are in no entry any more."""
        if self._texts:
            self._pool.release(keys[:, self._texts].ravel())
            self._tree.set_texts(self._pool.addresses, self._pool.sizes)

    # -- questions -------------------------------------------------------------------------------
    def first(self, groups: Int64Array) -> Int64Array:
        """Cursor of each group's first entry."""
        return self._tree.seek(groups.reshape(-1, 1), FIRST_AT_LEAST, 1)

    def last(self, groups: Int64Array) -> Int64Array:
        """Cursor of each group's last entry."""
        return self._tree.seek(groups.reshape(-1, 1), LAST_AT_MOST, 1)

    def end_words(self, groups: Int64Array, last: bool) -> tuple[Int64Array, Int64Array]:
        """Of each group's first (or last) entry: (its first column's first word int64[n], its count
        int64[n]); 0 and 0 where there is none. `decode` makes values of words."""
        return self._tree.ends(groups, last)

    def size(self, groups: Int64Array) -> Int64Array:
        """Rows of each group: the sum of its counts, int64[n]."""
        start, end = self.bounds(groups)
        return end - start

    def bounds(self, groups: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Positions (from 0, in the order of all entries) of each group's rows: of its first row,
        and behind its last, int64[n] each."""
        return self._tree.bounds(groups.reshape(-1, 1))

    def nth(self, groups: Int64Array, n: Int64Array) -> Int64Array:
        """Cursor of the entry that holds row n (from 0; -1 = the last, …) of each group."""
        start, end = self.bounds(groups)
        rows = np.where(n >= 0, start, end) + n
        return self._tree.select(np.where((rows >= start) & (rows < end), rows, -1))

    def find(
        self,
        groups: Int64Array,
        values: Sequence[pa.Array],
        mode: int,
        ties: Int64Array | None = None,
    ) -> Int64Array:
        """Cursors in the group, by `mode` relative to the values (FIRST_AT_LEAST, FIRST_ABOVE,
        LAST_AT_MOST, LAST_BELOW, EQUAL). Without ties, all entries of equal values are one
        place."""
        keys = self.keys(groups, values, ties)
        words = self._words if ties is not None else self.peer_words
        try:
            return self._tree.seek(keys[:, :words], mode, 1)
        finally:
            self._release(keys)

    def rank(
        self,
        groups: Int64Array,
        values: Sequence[pa.Array],
        ties: Int64Array | None = None,
        *,
        peers: bool = False,
    ) -> Int64Array:
        """Rows of the group before these values, int64[n] (RANK() - 1); `peers`: and those
        equal."""
        keys = self.keys(groups, values, ties)
        words = self._words if ties is not None else self.peer_words
        try:
            if words == self._words and not peers:
                below, start = self._tree.rank_in_group(keys)
                return below - start
            below = self._tree.rank(keys[:, :words], above=peers)
            return below - self._tree.rank(groups.reshape(-1, 1))
        finally:
            self._release(keys)

    def rank_up_to(
        self,
        groups: Int64Array,
        values: Sequence[pa.Array],
        most: int,
        ties: Int64Array | None = None,
    ) -> Int64Array:
        """`rank` where it is less than `most`, else `most`: cheaper while that is small."""
        keys = self.keys(groups, values, ties)
        words = self._words if ties is not None else self.peer_words
        try:
            return self._tree.rank_up_to(keys[:, :words], most)
        finally:
            self._release(keys)

    def heads(
        self, groups: Int64Array, begin: Int64Array, end: int, function: str = "row_number"
    ) -> Heads:
        """Each group's rows from number begin[i] (from 0) on whose rank, minus 1, is below `end`,
        which should be small; `lasts` are their ties. function: row_number, rank or dense_rank.
        groups: ascending."""
        peers = {"row_number": 0, "rank": self.peer_words, "dense_rank": -self.peer_words}
        return self._tree.heads(groups, begin, end, peers[function])

    def prefix_rank(self, values: Sequence[pa.Array], *, above: bool = False) -> int:
        """Rows of group 0 whose first columns are below these values (arrays of one); `above`: not
        above them. Fewer values than columns are a prefix."""
        columns = self.columns[: len(values)]
        keys = np.zeros((1, 1 + sum(c.words for c in columns)), np.int64)
        encode(values, columns, self._pool, keys[:, 1:])
        texts = [word for word in self._texts if word < keys.shape[1]]
        if texts:
            self._tree.set_texts(self._pool.addresses, self._pool.sizes)
        try:
            return int(self._tree.rank(keys, above=above)[0])
        finally:
            if texts:
                self._pool.release(keys[:, texts].ravel())
                self._tree.set_texts(self._pool.addresses, self._pool.sizes)

    def at(self, positions: Int64Array) -> Int64Array:
        """Cursors of the rows at these positions (as `bounds` counts them); -1 beyond the ends."""
        return self._tree.select(positions)

    def positions(self, start: int, end: int) -> Int64Array:
        """Cursors of the rows at these positions (from 0) in the order of all entries."""
        return self._tree.select(np.arange(start, end))

    def places(
        self,
        groups: Int64Array,
        values: Sequence[pa.Array],
        ties: Int64Array,
        sizes: Int64Array,
        *,
        peers: bool = True,
    ) -> Places:
        """Where these keys stand, whether or not they are there. sizes: rows of each key's group,
        which the caller counts. `peers` = False: their peers are not asked for, and each key is
        said to have none."""
        keys = self.keys(groups, values, ties)
        tree = self._tree
        try:
            own, start = tree.rank_in_group(keys)
            first, last = own, own
            if peers:
                first, last = tree.bounds(keys[:, : self.peer_words])
            return Places(own, first, last, start, start + sizes)
        finally:
            self._release(keys)

    @property
    def tree(self) -> OrderedTree:
        """The tree itself, for loops that walk it."""
        return self._tree

    def next(self, cursors: Int64Array) -> Int64Array:
        """Cursors of the entries behind, in the same group."""
        return self._tree.step(cursors, True, 1)

    def previous(self, cursors: Int64Array) -> Int64Array:
        """Cursors of the entries before, in the same group."""
        return self._tree.step(cursors, False, 1)

    def span(
        self, groups: Int64Array, low: Sequence[pa.Array], high: Sequence[pa.Array]
    ) -> tuple[Int64Array, Int64Array]:
        """All entries of the group with low[i] <= values <= high[i], in order: (i, cursor)."""
        first, last = self.keys(groups, low), self.keys(groups, high)
        try:
            peers = self.peer_words
            return self._tree.span(first[:, :peers], last[:, :peers])
        finally:
            self._release(np.concatenate([first, last]))

    def between(
        self, groups: Int64Array, low: Edge | None, high: Edge | None, most: int
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        """All entries of the groups between two edges (None = the group's own): (i, ties), in
        order of groups, at most so many at a time. No `add` in between."""
        order = np.argsort(groups, kind="stable")
        groups = groups[order]
        alone = groups.reshape(-1, 1)
        first = alone if low is None else self.keys(groups, low.taken(order))
        last = alone if high is None else self.keys(groups, high.taken(order))
        try:
            mode = FIRST_ABOVE if low is not None and low.open else FIRST_AT_LEAST
            cursors = self._tree.seek(first[:, : self.peer_words], mode, 1)
            below = high is not None and high.open
            ends = last[:, : self.peer_words]
            for i, found in self._tree.walk(cursors, ends, below=below, most=most):
                yield order[i], self.ties(found)
        finally:
            asked = [keys for keys in (first, last) if keys is not alone]
            if asked:  # in one go: both may have brought the same text
                self._release(np.concatenate(asked))

    def group(self, groups: Int64Array) -> tuple[Int64Array, Int64Array]:
        """All entries of these groups, in order: (i, cursor)."""
        bounds = groups.reshape(-1, 1)
        return self._tree.span(bounds, bounds)

    def read(self, cursors: Int64Array) -> Entries:
        """What the cursors name."""
        keys, counts = self._tree.read(cursors)
        for word in self._texts:
            keys[counts == 0, word] = -1
        values = decode(keys[:, 1 : self._value_words], self.columns, self._pool)
        ties = keys[:, -1] if self.with_tie else np.zeros(cursors.size, np.int64)
        return Entries(keys[:, 0], values, ties, counts)

    def ties(self, cursors: Int64Array) -> Int64Array:
        """The tie-break of every entry, int64[n]; 0 under -1."""
        return np.ascontiguousarray(self._tree.read(cursors)[0][:, -1])

    def peers(self, cursors: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(rows of the group before each entry's peers, and with them): int64[n] each; every cursor
        must name an entry."""
        keys, _ = self._tree.read(cursors)
        own = np.ascontiguousarray(keys[:, : self.peer_words])
        start = self._tree.rank(own[:, :1])
        before, within = self._tree.bounds(own)
        return before - start, within - start

    # -- saving ----------------------------------------------------------------------------------
    def save(self) -> State:
        """All entries in order, as one Arrow table."""
        cursors = self._tree.cursors()
        tables = []
        for start in range(0, max(cursors.size, 1), SAVED_ROWS):
            part = self.read(cursors[start : start + SAVED_ROWS])
            columns = {"group": pa.array(part.groups), "tie": pa.array(part.ties)}
            columns |= {f"v{i}": array for i, array in enumerate(part.values)}
            tables.append(pa.table(columns | {"count": pa.array(part.counts)}))
        return {"entries": pa.concat_tables(tables)}

    def load(self, state: State) -> None:
        """Replace the contents by what `save` gave."""
        self.clear()
        for batch in state["entries"].to_batches(max_chunksize=SAVED_ROWS):
            values = [batch.column(f"v{i}") for i in range(len(self.columns))]
            groups, ties, counts = (
                batch.column(name).to_numpy().copy() for name in ("group", "tie", "count")
            )
            self.add(groups, values, counts, ties if self.with_tie else None)
