"""Delta: the Z-set of one tick's changes, as an Arrow batch plus integer weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema

Int64Array = npt.NDArray[np.int64]


_WIDTHS: dict[int, int] = {
    t.id: t.bit_width // 8
    for t in (
        pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(),
        pa.time64("us"), pa.timestamp("us"), pa.decimal128(1, 0),
    )
}  # fmt: skip
"""Arrow type id -> bytes a value."""


class Delta:
    """Rows with weights; never changed once it is made.

    batch: RecordBatch [n rows], schema = `Schema.arrow` of the edge (fields c0, c1, …); columns:
        its arrays. One is made of the other when it is first asked for.
    weights: int64 [n], or None = all +1 (the append-only fast path). An update is −1 old, +1 new.
    row_watermark: int64 [n], µs: the watermark of the row's source *before* the row arrived, which
        decides whether the row is late; None = the source has no watermark. A retraction carries
        the watermark at the time of the retraction. Rows keep it through filters and projections.
    consolidated: True when no row appears twice and no weight is 0.
    """

    __slots__ = (
        "_batch", "_columns", "_schema", "consolidated", "num_rows", "row_watermark", "weights",
    )  # fmt: skip

    def __init__(
        self,
        batch: pa.RecordBatch,
        weights: Int64Array | None = None,
        row_watermark: Int64Array | None = None,
        consolidated: bool = False,
    ) -> None:
        self._batch = batch
        self._columns: list[pa.Array] | None = None
        self._schema: pa.Schema | None = None
        self.num_rows: int = batch.num_rows
        self.weights = weights
        self.row_watermark = row_watermark
        self.consolidated = consolidated

    @classmethod
    def of(
        cls,
        columns: list[pa.Array],
        schema: pa.Schema,
        num_rows: int,
        weights: Int64Array | None = None,
        row_watermark: Int64Array | None = None,
        consolidated: bool = False,
    ) -> Delta:
        """A delta of arrays, which become a batch of this schema only where one is needed."""
        self = cls.__new__(cls)
        self._batch = None
        self._columns = columns
        self._schema = schema
        self.num_rows = num_rows
        self.weights = weights
        self.row_watermark = row_watermark
        self.consolidated = consolidated
        return self

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows."""
        found = self._batch
        if found is None:
            assert self._columns is not None and self._schema is not None
            found = self._batch = make_batch(self._columns, self._schema, self.num_rows)
        return found

    @property
    def columns(self) -> list[pa.Array]:
        """The rows' columns; not to be changed."""
        found = self._columns
        if found is None:
            found = self._columns = self._batch.columns
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        total, n = 0, self.num_rows
        for column in self.columns:
            width = _WIDTHS.get(column.type.id, 0)
            total += n * width if width else column.nbytes
        return total

    def __repr__(self) -> str:
        return (
            f"Delta({self.batch!r}, weights={self.weights!r}, "
            f"row_watermark={self.row_watermark!r}, consolidated={self.consolidated})"
        )

    def __bool__(self) -> bool:
        return self.num_rows > 0

    @classmethod
    def empty(cls, schema: Schema) -> Delta:
        """A delta without rows; one object a schema, because idle edges ask for it every tick."""
        found: Delta | None = schema.__dict__.get("_empty_delta")
        if found is None:
            found = cls(empty_batch(schema.arrow), consolidated=True)
            schema.__dict__["_empty_delta"] = found
        return found

    def weights_or_ones(self) -> Int64Array:
        """The weights, written out."""
        if self.weights is None:
            return ones(self.num_rows)
        return self.weights

    def take(self, rows: Int64Array) -> Delta:
        """The entries at these positions, in this order."""
        return Delta(
            self.batch.take(pa.array(rows)),
            None if self.weights is None else self.weights[rows],
            None if self.row_watermark is None else self.row_watermark[rows],
            self.consolidated,
        )

    def with_columns(self, arrays: Sequence[pa.Array], schema: Schema) -> Delta:
        """The same entries with other columns (a projection)."""
        return Delta.of(list(arrays), schema.arrow, self.num_rows, self.weights, self.row_watermark)

    def negate(self) -> Delta:
        """Every weight with its sign turned."""
        return Delta(self.batch, -self.weights_or_ones(), self.row_watermark, self.consolidated)


def ones(n: int) -> Int64Array:
    """n times 1."""
    out = np.empty(n, np.int64)
    out.fill(1)
    return out


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A RecordBatch of this schema without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], type=f.type) for f in schema], schema=schema)


def make_batch(arrays: Sequence[pa.Array], schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    """RecordBatch from arrays; keeps the row count where there are no columns at all."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    holder = pa.RecordBatch.from_arrays([pa.nulls(num_rows)], names=["x"])
    return holder.select([])


def concat(deltas: Sequence[Delta], schema: Schema) -> Delta:
    """The sum of Z-sets, unconsolidated: entries one after the other. If some have row watermarks,
    the entries of the others get the lowest one, under which nothing is late."""
    filled = [d for d in deltas if d]
    if not filled:
        return Delta.empty(schema)
    if len(filled) == 1:
        return filled[0]
    batch = pa.Table.from_batches([d.batch for d in filled]).combine_chunks().to_batches()[0]
    weights = None
    if any(d.weights is not None for d in filled):
        weights = np.concatenate([d.weights_or_ones() for d in filled])
    watermark = None
    if any(d.row_watermark is not None for d in filled):
        watermark = np.concatenate([_marks(d) for d in filled])
    return Delta(batch, weights, watermark, False)


def _marks(delta: Delta) -> Int64Array:
    marks = delta.row_watermark
    return np.full(delta.num_rows, NO_WATERMARK, np.int64) if marks is None else marks
