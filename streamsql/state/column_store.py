"""ColumnStore: rows in columns, appended to, read by number, seen from Arrow without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.delta import make_batch
from streamsql.kernels.arrays import int64s
from streamsql.kernels.columns import CHUNK_BITS, CHUNK_MASK, CHUNK_ROWS
from streamsql.state.columns import BytesColumn, column_for

Int64Array = npt.NDArray[np.int64]


class ColumnStore:
    """Append-only rows of one Arrow schema, numbered from 0.

    Rows once written never change, so tables and batches handed out stay valid whatever comes
    later; `rebuild` starts new buffers and leaves the old ones to their readers.
    Cost: append = a copy of the bytes; take = one gather a column; table = O(chunks), no copy.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._reset()

    def _reset(self) -> None:
        self._columns = [column_for(field.type) for field in self.schema]
        self._rows = 0
        # exported full chunks, by column; a chunk may export as several arrays
        self._sealed: list[list[list[pa.Array]]] = [[] for _ in self._columns]
        self._sealed_chunks = 0
        self._table: pa.Table | None = None

    @property
    def num_rows(self) -> int:
        """Rows appended so far: the number of the next one."""
        return self._rows

    @property
    def nbytes(self) -> int:
        """Bytes held by the buffers (readers' older buffers not counted)."""
        return sum(column.nbytes for column in self._columns)

    def append(self, batch: pa.RecordBatch) -> int:
        """Add the rows; returns the number of the first: they are base, base + 1, …"""
        return self.append_columns(batch.columns, batch.num_rows)

    def append_columns(self, columns: Sequence[pa.Array], n: int) -> int:
        """`append` for n rows that are arrays."""
        base = self._rows
        start = 0
        while start < n:
            chunk, at = self._rows >> CHUNK_BITS, self._rows & CHUNK_MASK
            size = min(n - start, CHUNK_ROWS - at)
            pieces = columns if size == n else [c.slice(start, size) for c in columns]
            self.write(chunk, at, pieces, size)
            start += size
        return base

    def write(self, chunk: int, at: int, columns: Sequence[pa.Array], n: int) -> None:
        """For owners who give out row numbers themselves: write n rows at, at + 1, … of a chunk,
        which has that many, or is written anew (at = 0). It must hold them."""
        for column, array in zip(self._columns, columns, strict=True):
            column.append(array, chunk, at)
        self._rows = max(self._rows, (chunk << CHUNK_BITS) + at + n)
        self._table = None

    def release(self, chunk: int) -> None:
        """For the same owners: none of the chunk's rows will be asked for until it is written
        anew."""
        for column in self._columns:
            column.release(chunk)

    def take(self, rows: Int64Array, *, negative: bool = False) -> pa.RecordBatch:
        """The rows with these numbers (int64[n], any order, repeats allowed).

        negative: numbers below 0 may occur and give a row of NULLs (outer joins).
        Raises: IndexError for a number that is not there; ProgramLimitExceeded (54000) when one
        text column of the result passes 2 GB.
        """
        rows = int64s(rows)
        if rows.size:
            low, high = int(rows.min()), int(rows.max())
            if high >= self._rows or (low < 0 and not negative):
                raise IndexError(f"rows {low} to {high} of a store of {self._rows}")
            negative = low < 0
        arrays = [column.take(rows, negative) for column in self._columns]
        return make_batch(arrays, self.schema, rows.size)

    def take_columns(self, rows: Int64Array) -> list[pa.Array]:
        """The columns of these rows (int64[n], our own memory; all of them must be there)."""
        return [column.take(rows, False) for column in self._columns]

    def take_column(self, column: int, rows: Int64Array) -> pa.Array:
        """One column of these rows (all of them must be there)."""
        return self._columns[column].take(int64s(rows), False)

    def text_places(self, column: int) -> npt.NDArray[np.int64]:
        """By chunk, where a text column keeps its values: int64[chunks, 3] addresses of offsets,
        1 where these have 8 bytes (else 4), addresses of bytes. Good until the next change."""
        held = self._columns[column]
        assert isinstance(held, BytesColumn)
        return held.places()

    def table(self, rows: int | None = None) -> pa.Table:
        """The first `rows` rows (None = all) as an Arrow table over the store's own memory."""
        n = self._rows if rows is None else rows
        if self._table is not None and self._table.num_rows == n:
            return self._table
        if n > self._rows:
            raise IndexError(f"{n} rows of a store of {self._rows}")
        if not self._columns:
            table = pa.Table.from_batches([make_batch([], self.schema, n)])
        else:
            table = self._table_of(n)
        if n == self._rows:
            self._table = table
        return table

    def batches(self, start: int = 0) -> Iterator[pa.RecordBatch]:
        """Rows from `start` on, as batches of at most one chunk, without a copy."""
        table = self.table().slice(start)
        if not self._columns:
            yield make_batch([], self.schema, table.num_rows)
            return
        yield from table.to_batches(max_chunksize=CHUNK_ROWS)

    def chunk_batches(self, chunk: int, n: int | None = None) -> list[pa.RecordBatch]:
        """The first n rows of one chunk (None = all) without a copy; several where text is
        split."""
        if n is None:
            n = min(self._rows - (chunk << CHUNK_BITS), CHUNK_ROWS)
        if not self._columns:
            return [make_batch([], self.schema, n)]
        arrays = [pa.chunked_array(c.export(chunk, n), type=c.type) for c in self._columns]
        table = pa.Table.from_arrays(arrays, schema=self.schema)
        return list(table.to_batches())

    def rebuild(self, keep: Int64Array) -> None:
        """Keep only these rows, in this order; row i is then what was keep[i]. Readers' tables
        are not touched."""
        pieces = ColumnStore(self.schema)
        for start in range(0, keep.size, CHUNK_ROWS):
            pieces.append(self.take(keep[start : start + CHUNK_ROWS]))
        if not self._columns:
            pieces._rows = keep.size
        self._columns, self._rows = pieces._columns, pieces._rows
        self._sealed, self._sealed_chunks = pieces._sealed, 0
        self._table = None

    def clear(self) -> None:
        """Forget all rows."""
        self._reset()

    def _table_of(self, n: int) -> pa.Table:
        full = n >> CHUNK_BITS
        for chunk in range(self._sealed_chunks, full):
            for column, arrays in zip(self._columns, self._sealed, strict=True):
                arrays.append(column.export(chunk, CHUNK_ROWS))
        self._sealed_chunks = max(self._sealed_chunks, full)
        rest = n & CHUNK_MASK
        columns = []
        for column, sealed in zip(self._columns, self._sealed, strict=True):
            parts = [array for arrays in sealed[:full] for array in arrays]
            if rest:
                parts += column.export(full, rest)
            columns.append(pa.chunked_array(parts, type=column.type))
        return pa.Table.from_arrays(columns, schema=self.schema)
