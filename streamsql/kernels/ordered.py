"""OrderedTree: counted keys in order, with neighbours, ranks and positions.

A key is a fixed number of int64 words compared one after the other; usually the first is a group
and the last a tie-break. A B+-tree of 64 entries a node on pages that are never copied: no pause
when it grows, and what is freed is used again.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.errors import NegativeWeight
from streamsql.kernels import ordered_groups as groups_of
from streamsql.kernels import ordered_loops as loops
from streamsql.kernels.arrays import int64s
from streamsql.kernels.memory import HUGE_PAGE, Block, zeroed_block
from streamsql.kernels.ordered_nodes import (
    BYTES,
    CAPACITY,
    ENTRIES,
    ERROR,
    FREE,
    FREE_INNER,
    FRESH,
    FRESH_INNER,
    HEAD_WORDS,
    KINDS,
    LEAVES,
    PAGE_BITS,
    PAGES,
    PATH,
    PLAIN,
    ROOT,
    SIZE,
    TEXT_SIZES,
    TEXTS,
    TOTAL,
    USED,
    WORDS,
    node_bytes,
)
from streamsql.kernels.ordered_search import PLACE_BYTES, TOGETHER, WAY_BYTES

Int64Array = npt.NDArray[np.int64]
Keys = npt.NDArray[np.int64]  # [n, words], C order

SPAN_PAIRS, SPAN_MOST = 4096, 1 << 20  # entries that a walk gives at first, and at most
SORT_MIN = 256  # keys from which sorting a batch pays
SORT_WORDS = 3  # as a rule the group, where NULLs stand, and the value

FIRST_AT_LEAST = loops.FIRST_AT_LEAST
FIRST_ABOVE = loops.FIRST_ABOVE
LAST_AT_MOST = loops.LAST_AT_MOST
LAST_BELOW = loops.LAST_BELOW
EQUAL = loops.EQUAL


@dataclass(frozen=True, slots=True)
class Heads:
    """The first rows of some groups, one group behind the other: of each row the last word of its
    key, its rank (from 0) and the cursor of its entry, int64[m]; by group how many, int64[n]."""

    lasts: Int64Array
    ranks: Int64Array
    cursors: Int64Array
    lengths: Int64Array


class OrderedTree:
    """A multiset of keys in order.

    kinds: by word, PLAIN (a number) or TEXT / TEXT_DESCENDING (a slot of the text pool that
    `set_texts` tells of, compared by its bytes; equal texts must be one slot). Keys are int64[n,
    words]. A cursor (int64) names an entry until the next change, -1 = none.
    Cost: O(log entries) a key; keys that come in order are several times faster.
    """

    def __init__(self, words: int, kinds: Int64Array | None = None) -> None:
        self.words = words
        self._kinds = np.full(words, PLAIN, np.int64) if kinds is None else kinds
        self._path = np.zeros(TOGETHER * WAY_BYTES // 8, np.int64)
        self._leaves = np.zeros(TOGETHER * PLACE_BYTES // 8, np.int64)
        self._head = np.zeros(HEAD_WORDS, np.int64)
        self._at = pa.py_buffer(self._head).address
        self._put(BYTES, node_bytes(words))
        self._put(WORDS, words)
        self._put(KINDS, pa.py_buffer(self._kinds).address)
        self._put(PATH, pa.py_buffer(self._path).address)
        self._put(LEAVES, pa.py_buffer(self._leaves).address)
        self.clear()

    def _put(self, field: int, value: int) -> None:
        self._head[field // 8] = value

    def clear(self) -> None:
        """Forget all entries and give the memory back."""
        for field in (ROOT, ENTRIES, TOTAL, ERROR, FRESH_INNER):
            self._put(field, 0)
        self._put(FREE, -1)
        self._put(FREE_INNER, -1)
        self._blocks: list[Block] = []
        self._pages_at = np.empty(0, np.int64)
        self._more_pages()
        self._put(USED, 1)
        self._put(FRESH, 1)  # node 0 is the root, an empty leaf
        ctypes.memmove(self._blocks[0].address + SIZE, struct.pack("iiii", 0, 0, -1, -1), 16)

    def _more_pages(self) -> None:
        """A quarter more pages, in one block: few allocations, none large enough to be a pause; on
        huge memory pages as soon as one of those would be a quarter."""
        size, had = node_bytes(self.words) << PAGE_BITS, self._pages_at.size
        wanted = size * max(1, had // 4)
        block = zeroed_block(max(wanted, HUGE_PAGE) if size * had >= 2 * HUGE_PAGE else wanted)
        self._blocks.append(block)
        new = block.address + size * np.arange(block.size // size)
        self._pages_at = np.concatenate([self._pages_at, new])
        self._put(PAGES, pa.py_buffer(self._pages_at).address)
        self._put(CAPACITY, self._pages_at.size)

    def set_texts(self, addresses: Int64Array, sizes: Int64Array) -> None:
        """Where the texts are that text words name, by slot; to be told again when the arrays
        move."""
        self._texts = addresses, sizes
        self._put(TEXTS, pa.py_buffer(addresses).address)
        self._put(TEXT_SIZES, pa.py_buffer(sizes).address)

    @property
    def address(self) -> int:
        """Where the tree's head is, for kernels (`ordered_nodes`)."""
        return self._at

    @property
    def entries(self) -> int:
        """Distinct keys."""
        return int(self._head[ENTRIES // 8])

    @property
    def total(self) -> int:
        """Sum of all counts."""
        return int(self._head[TOTAL // 8])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(block.size for block in self._blocks)

    def __len__(self) -> int:
        return self.entries

    def add(self, keys: Keys, weights: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Add to the keys' counts; returns (counts before int64[n], counts after int64[n]).

        Raises: NegativeWeight (XX001) when a count would fall below 0; earlier keys are then added.
        """
        keys, weights = self._checked(keys), int64s(weights)
        keys, order = _by_group(keys)
        if order is None:
            return self._add(keys, weights)
        old, new = self._add(keys, weights[order])
        return _as_asked(old, order), _as_asked(new, order)

    def _add(self, keys: Keys, weights: Int64Array) -> tuple[Int64Array, Int64Array]:
        old, new = np.empty(weights.size, np.int64), np.empty(weights.size, np.int64)
        address = pa.py_buffer(keys).address
        done = 0
        while True:
            done = loops.add(self._at, address, weights, done, old, new)
            if self._head[ERROR // 8]:
                self._put(ERROR, 0)
                raise NegativeWeight("a value was retracted more often than it was inserted")
            if done == weights.size:
                return old, new
            self._more_pages()

    def seek(self, keys: Keys, mode: int, prefix: int = 0) -> Int64Array:
        """Cursors of the entries that `mode` asks for (FIRST_AT_LEAST, FIRST_ABOVE, LAST_AT_MOST,
        LAST_BELOW, EQUAL); -1 unless the entry's first `prefix` words are the key's.

        Keys may have fewer words than the tree's: entries are then compared by that many.
        """
        keys, order = _by_group(keys)
        words = keys.shape[1]
        cursors = np.empty(len(keys), np.int64)
        address = pa.py_buffer(keys).address
        loops.seek(self._at, address, mode, words, prefix, 8 * words, cursors)
        return _as_asked(cursors, order)

    def ends(self, groups: Int64Array, last: bool) -> tuple[Int64Array, Int64Array]:
        """Of the first (or last) entry of every key's first word: (second word int64[n], count
        int64[n]); 0 and 0 where there is none."""
        groups = int64s(groups)
        order = None if groups.size < SORT_MIN else np.argsort(groups, kind="stable")
        asked = groups if order is None else groups[order]
        values, counts = np.empty(groups.size, np.int64), np.empty(groups.size, np.int64)
        groups_of.ends(self._at, pa.py_buffer(asked).address, int(last), values, counts)
        return _as_asked(values, order), _as_asked(counts, order)

    def read(self, cursors: Int64Array) -> tuple[Keys, Int64Array]:
        """(keys int64[n, words], counts int64[n]) under the cursors; zeros under -1."""
        keys, counts = (
            np.empty(cursors.size * self.words, np.int64),
            np.empty(cursors.size, np.int64),
        )
        loops.read(self._at, int64s(cursors), keys, counts)
        return keys.reshape(cursors.size, self.words), counts

    def step(self, cursors: Int64Array, forward: bool = True, prefix: int = 0) -> Int64Array:
        """Cursors of the next (or previous) entries with the same first `prefix` words."""
        out = np.empty(cursors.size, np.int64)
        loops.step(self._at, int64s(cursors), int(forward), prefix, out)
        return out

    def rank(self, keys: Keys, above: bool = False) -> Int64Array:
        """Rows (entries by their counts) below each key, int64[n]; with `above`, rows not above it.

        Keys may have fewer words than the tree's.
        """
        keys, order = _by_group(keys)
        words = keys.shape[1]
        ranks = np.empty(len(keys), np.int64)
        address = pa.py_buffer(keys).address
        loops.rank(self._at, address, words, int(above), 8 * words, ranks)
        return _as_asked(ranks, order)

    def rank_up_to(self, keys: Keys, most: int) -> Int64Array:
        """`rank` within the key's group (its first word), int64[n], where it is less than `most`,
        which should be small; else `most`."""
        keys, order = _by_group(keys)
        words = keys.shape[1]
        ranks = np.empty(len(keys), np.int64)
        groups_of.rank_up_to(self._at, pa.py_buffer(keys).address, words, 8 * words, most, ranks)
        return _as_asked(ranks, order)

    def rank_in_group(self, keys: Keys) -> tuple[Int64Array, Int64Array]:
        """(rows below each key int64[n], rows below its group int64[n]); both at the price of one
        where few rows of the group are below the key."""
        keys, order = _by_group(self._checked(keys))
        own, start = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        groups_of.rank_in_group(self._at, pa.py_buffer(keys).address, 8 * self.words, own, start)
        far = np.flatnonzero(start < 0)
        if far.size:
            groups, which = np.unique(keys[far, 0], return_inverse=True)
            start[far] = self.rank(groups.reshape(-1, 1))[which]
        return _as_asked(own, order), _as_asked(start, order)

    def heads(self, groups: Int64Array, begin: Int64Array, end: int, peers: int = 0) -> Heads:
        """Of the rows of each group, in order, those from number begin[i] (from 0) on whose rank is
        below `end`, which should be small: rows are walked from the group's start.

        peers: 0 = every row has a rank of its own; else entries whose first so many words agree
        share one, which is the number of rows before them (RANK) or, with a minus, of ranks
        (DENSE_RANK). groups: ascending.
        """
        groups, begin = int64s(groups), int64s(begin)
        address = pa.py_buffer(groups).address
        lengths = np.empty(groups.size, np.int64)
        room = min(int(np.maximum(end - begin, 0).sum()) * (1 if peers == 0 else 2), self.total)
        while True:
            lasts, numbers, cursors = np.empty((3, room), np.int64)
            found = groups_of.heads(
                self._at, address, begin, end, peers, lasts, numbers, cursors, lengths
            )
            if found <= room:
                return Heads(lasts[:found], numbers[:found], cursors[:found], lengths)
            room = found

    def bounds(self, keys: Keys) -> tuple[Int64Array, Int64Array]:
        """(rows below each key int64[n], rows not above it int64[n]): both ranks at the price of
        one where few entries equal the key. Keys may have fewer words than the tree's."""
        keys, order = _by_group(keys)
        words = keys.shape[1]
        low, high = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        loops.bounds(self._at, pa.py_buffer(keys).address, words, 8 * words, low, high)
        long = np.flatnonzero(high < 0)
        if long.size:
            high[long] = self.rank(keys[long], above=True)
        return _as_asked(low, order), _as_asked(high, order)

    def select(self, ranks: Int64Array) -> Int64Array:
        """Cursors of the entries that hold these rows, counted from 0; -1 beyond the ends."""
        cursors = np.empty(ranks.size, np.int64)
        loops.select(self._at, int64s(ranks), cursors)
        return cursors

    def span(self, low: Keys, high: Keys) -> tuple[Int64Array, Int64Array]:
        """All entries with low[i] <= key <= high[i]: (i int64[m], cursor int64[m]), in order.

        Keys may have fewer words than the tree's, those of `low` and `high` each their own.
        """
        found = list(self.walk(self.seek(low, FIRST_AT_LEAST), high))
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([i for i, _ in found]), np.concatenate([c for _, c in found])

    def walk(
        self, first: Int64Array, high: Keys, *, below: bool = False, most: int = SPAN_MOST
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        """`span` from the cursors first[i] (-1 = nothing) on, at most so many entries at a time;
        `below`: to the last entry below high[i]. The tree must not change in between."""
        first, high = int64s(first), np.ascontiguousarray(high, np.int64)
        ends, words = pa.py_buffer(high).address, high.shape[1]
        resume = np.array([0, -2], np.int64)
        pairs = min(SPAN_PAIRS, most)
        while resume[0] < first.size:
            entry, probe = np.empty((2, pairs), np.int64)
            m = loops.span(
                self._at, first, ends, words, 8 * words, int(below), entry, probe, resume
            )
            if m:
                yield probe[:m], entry[:m]
            pairs = min(4 * pairs, most)

    def cursors(self) -> Int64Array:
        """Cursors of all entries, in order."""
        out = np.empty(self.entries, np.int64)
        if out.size:
            loops.walk(self._at, int(self.select(np.zeros(1, np.int64))[0]), out)
        return out

    def bound_words(self, word: int) -> Int64Array:
        """The values of a word in the keys that bound nodes: those of entries that are gone too."""
        count = int(loops.bound_words(self._at, word, np.empty(0, np.int64)))
        out = np.empty(count, np.int64)
        loops.bound_words(self._at, word, out)
        return out

    def dump(self) -> tuple[Keys, Int64Array]:
        """All (keys int64[n, words], counts int64[n]) in order."""
        return self.read(self.cursors())

    def _checked(self, keys: Keys) -> Keys:
        if keys.ndim != 2 or keys.shape[1] != self.words:
            raise ValueError(f"keys of {self.words} words expected, not {keys.shape}")
        return np.ascontiguousarray(keys, np.int64)


def _by_group(keys: Keys) -> tuple[Keys, Int64Array | None]:
    """Many keys sorted by their first words, and that order; few keys as they are, and None.

    Neighbours then meet in nodes that are in cache already: two to three times as fast.
    """
    if len(keys) < SORT_MIN or not keys.shape[1]:
        return np.ascontiguousarray(keys, np.int64), None
    words = [w for w in keys[:, :SORT_WORDS].T if (w != w[0]).any()]
    if not words:
        return np.ascontiguousarray(keys, np.int64), None
    order = np.lexsort(words[::-1])
    return np.ascontiguousarray(keys[order], np.int64), order


def _as_asked(values: Int64Array, order: Int64Array | None) -> Int64Array:
    """Answers in the order of the questions."""
    if order is None:
        return values
    out = np.empty_like(values)
    out[order] = values
    return out
