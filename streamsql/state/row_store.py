"""RowStore: the rows of an arrangement with a weight each, in chunks that are used again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.errors import ProgramLimitExceeded
from streamsql.kernels import zset
from streamsql.kernels.arrays import int64s, lengthen, room_for
from streamsql.kernels.columns import CHUNK_BITS, CHUNK_MASK, CHUNK_ROWS
from streamsql.kernels.zset import CHANGED, FILLED, LIVE, ODD
from streamsql.state.append_log import SMALL_ROWS, AppendLog
from streamsql.state.column_store import ColumnStore

Int64Array = npt.NDArray[np.int64]

NO_WEIGHTS = np.empty(0, np.int64)
ROWS_MAX = 2**31 - 2


class RowStore:
    """Rows with weights.

    A row is written once and never moves in memory, so readers keep what they were given. Rows of
    weight 0 are dead. A chunk without a live row is released and written anew by later rows; the
    owner makes such chunks by copying the last live rows of a chunk elsewhere. While every weight
    is 1 none is kept.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._columns = ColumnStore(schema)
        self._log = AppendLog(schema)
        self.weights = NO_WEIGHTS  # int64 by row; empty = every row has weight 1
        self.books = np.zeros((1, 4), np.int64)
        self.totals = np.zeros(3, np.int64)
        self._free: list[int] = []  # released chunks, the next one to use last
        self._chunk, self._at = 0, 0  # where the next row goes
        self._chunks = 0
        self._cache: dict[int, list[pa.RecordBatch]] = {}

    @property
    def columns(self) -> ColumnStore:
        """The rows by number; those kept by reference so far are copied in first."""
        if self._log:
            log, self._log = self._log, AppendLog(self.schema)
            for batch in log.batches:
                self.write(batch.columns, batch.num_rows)
        return self._columns

    @property
    def live_rows(self) -> int:
        """Rows of weight != 0."""
        return int(self.totals[0]) if self.weights.size else self.written_rows

    @property
    def total_weight(self) -> int:
        """Sum of all weights."""
        return int(self.totals[1]) if self.weights.size else self.written_rows

    @property
    def written_rows(self) -> int:
        """Rows that take up memory, dead ones too."""
        if not self.weights.size:
            return self._columns.num_rows + self._log.rows
        return int(self.totals[2])

    @property
    def dead_rows(self) -> int:
        """Rows of weight 0 that take up memory."""
        return int(self.totals[2] - self.totals[0]) if self.weights.size else 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = self._columns.nbytes + self._log.nbytes
        return int(held + self.weights.nbytes + self.books.nbytes)

    # -- writing ---------------------------------------------------------------------------------
    def keep_weights(self) -> None:
        """From now on weights are kept; until now all were 1."""
        if self.weights.size:
            return
        n = self.columns.num_rows  # also brings the rows kept by reference in
        self.weights = np.ones(n + 1024, np.int64)
        full, rest = n >> CHUNK_BITS, n & CHUNK_MASK
        self._room(full)
        self.books[:full, FILLED] = CHUNK_ROWS
        if rest:
            self.books[full, FILLED] = rest
        self.books[:, LIVE] = self.books[:, FILLED]
        self.totals[:] = n

    def next_rows(self, n: int) -> Int64Array:
        """Numbers that the next n rows to be written will have, int64[n]; weights have room for
        them.

        Raises: ProgramLimitExceeded (54000) beyond 2^31 - 2.
        """
        if self._log:
            _ = self.columns
        at = self._at
        if at + n <= CHUNK_ROWS:
            start = (self._chunk << CHUNK_BITS) + at
            rows = np.arange(start, start + n)
            top = start + n
        else:
            chunks = [self._chunk, *self._chunks_ahead((at + n - 1) >> CHUNK_BITS)]
            starts = np.array(chunks, np.int64) << CHUNK_BITS
            rows = (starts.reshape(-1, 1) + np.arange(CHUNK_ROWS)).ravel()[at : at + n]
            top = int(rows.max()) + 1
        if top > ROWS_MAX:
            raise ProgramLimitExceeded("a relation holds at most 2147483646 rows")
        if self.weights.size and top > self.weights.size:
            lengthen(self, "weights", room_for(top))
        self._room(top >> CHUNK_BITS)
        return rows

    def write(self, columns: Sequence[pa.Array], n: int) -> None:
        """Write n rows, at the numbers `next_rows` gave; their weights and books are the
        caller's."""
        start = 0
        while start < n:
            size = min(n - start, CHUNK_ROWS - self._at)
            pieces = columns if size == n else [c.slice(start, size) for c in columns]
            self._columns.write(self._chunk, self._at, pieces, size)
            start += size
            self._at += size
            if self._chunk >= self._chunks:
                self._chunks = self._chunk + 1
                self._room(self._chunk)
            if self._at == CHUNK_ROWS:
                self._chunk = self._free.pop() if self._free else self._chunks
                self._at = 0

    def append(self, columns: Sequence[pa.Array], n: int, weights: Int64Array | None) -> Int64Array:
        """Write n rows with these weights (None = all 1); returns their numbers int64[n]."""
        if weights is not None and not self.weights.size and bool((weights != 1).any()):
            self.keep_weights()
        rows = self.next_rows(n)
        if self.weights.size:
            new = NO_WEIGHTS if weights is None else int64s(weights)
            zset.add_rows(self.weights, self.books, self.totals, rows, new)
        self.write(columns, n)
        return rows

    def append_by_reference(self, batch: pa.RecordBatch) -> Int64Array:
        """Add rows of weight 1 that are kept as they came until somebody looks rows up by number;
        returns their numbers. Only while no weights are kept."""
        base = self.written_rows
        self._log.append(batch)
        return np.arange(base, base + batch.num_rows)

    def takes_references(self, rows: int) -> bool:
        """Whether so many more rows may be kept by reference: no weights yet, and not too small."""
        return not self.weights.size and (self._log.rows > 0 or rows > SMALL_ROWS)

    def _chunks_ahead(self, n: int) -> list[int]:
        """The next n chunks after the present one."""
        reused = self._free[::-1][:n]
        first = max(self._chunks, self._chunk + 1)
        return reused + list(range(first, first + n - len(reused)))

    def _room(self, chunk: int) -> None:
        if chunk >= len(self.books):
            books = np.zeros((chunk + chunk // 2 + 1, 4), np.int64)
            books[: len(self.books)] = self.books
            self.books = books

    # -- dead rows -------------------------------------------------------------------------------
    def release_dead_chunks(self) -> None:
        """Let go of the memory of chunks that are full of dead rows."""
        books = self.books[: self._chunks]
        for chunk in np.flatnonzero((books[:, FILLED] == CHUNK_ROWS) & (books[:, LIVE] == 0)):
            if chunk == self._chunk:
                continue
            self.columns.release(int(chunk))
            self.totals[2] -= self.books[chunk, FILLED]
            self.books[chunk] = 0
            self._cache.pop(int(chunk), None)
            self._free.append(int(chunk))

    def emptiest_chunk(self) -> int:
        """The full chunk with the fewest live rows; -1 if none has a dead one."""
        books = self.books[: self._chunks]
        full = (books[:, FILLED] == CHUNK_ROWS) & (books[:, LIVE] < CHUNK_ROWS)
        full[self._chunk :][:1] = False
        if not full.any():
            return -1
        return int(np.argmin(np.where(full, books[:, LIVE], CHUNK_ROWS + 1)))

    def live_in_chunk(self, chunk: int, most: int) -> Int64Array:
        """Live rows of a chunk, at most so many."""
        rows = np.empty(min(most, int(self.books[chunk, LIVE])), np.int64)
        start = chunk << CHUNK_BITS
        n = zset.live_in(self.weights, start, start + int(self.books[chunk, FILLED]), rows)
        return rows[:n]

    # -- reading ---------------------------------------------------------------------------------
    def weights_of(self, rows: Int64Array) -> Int64Array:
        """Weights of these rows, int64[n]."""
        if not self.weights.size:
            return np.ones(rows.size, np.int64)
        return self.weights[rows]

    def live(self) -> Int64Array:
        """Numbers of all live rows."""
        if not self.weights.size:
            return np.arange(self.written_rows)
        parts = [self.live_in_chunk(c, CHUNK_ROWS) for c in range(self._chunks)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def chunks(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """(number of the first row, rows) of all that is written, dead rows too, without a copy."""
        columns = self.columns
        for chunk in range(self._chunks):
            filled = int(self.books[chunk, FILLED])
            if not self.weights.size:
                filled = min(CHUNK_ROWS, columns.num_rows - (chunk << CHUNK_BITS))
            base = chunk << CHUNK_BITS
            for batch in columns.chunk_batches(chunk, filled) if filled else ():
                yield base, batch
                base += batch.num_rows

    def table(self) -> pa.Table:
        """All rows, each as often as its weight says. Chunks in which every weight is 1 are the
        store's own memory; a copied chunk is copied again only after a change in it."""
        if self._log:
            return pa.concat_tables([self._columns.table(), self._log.table()])
        if not self.weights.size:
            return self._columns.table()
        batches: list[pa.RecordBatch] = []
        for chunk in range(self._chunks):
            if self.books[chunk, FILLED]:
                batches += self._chunk_rows(chunk)
        return pa.Table.from_batches(batches, schema=self.schema)

    def _chunk_rows(self, chunk: int) -> list[pa.RecordBatch]:
        filled = int(self.books[chunk, FILLED])
        cached = self._cache.get(chunk)
        if cached is None or self.books[chunk, CHANGED]:
            if self.books[chunk, ODD]:
                start = chunk << CHUNK_BITS
                weights = self.weights[start : start + filled]
                rows = np.empty(int(np.maximum(weights, 0).sum()), np.int64)
                zset.expand(self.weights, start, start + filled, rows)
                cached = [self.columns.take(rows)]
            else:
                cached = self.columns.chunk_batches(chunk, filled)
            self._cache[chunk] = cached
            self.books[chunk, CHANGED] = 0
        return cached
