"""AppendLog: batches kept as they came, for rows that nobody looks up one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SMALL_ROWS = 8192
"""Batches below this are merged with their like, so that a table never has too many chunks."""


class AppendLog:
    """Rows in order of arrival, held by reference: nothing is copied while batches are large.

    Small batches are merged geometrically (a batch is copied O(log SMALL_ROWS) times at most). A
    small slice that would pin a much larger buffer is copied.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.rows = 0
        self.batches: list[pa.RecordBatch] = []

    def __bool__(self) -> bool:
        return self.rows > 0

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held."""
        return sum(int(b.nbytes) for b in self.batches)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add the rows."""
        small = batch.num_rows < SMALL_ROWS and batch.num_columns > 0
        if small and 2 * batch.nbytes < batch.get_total_buffer_size():
            batch = batch.take(pa.array(np.arange(batch.num_rows)))
        self.rows += batch.num_rows
        self.batches.append(batch)
        while len(self.batches) > 1:
            left, right = self.batches[-2:]
            if left.num_rows > right.num_rows or left.num_rows >= SMALL_ROWS:
                return
            self.batches[-2:] = [pa.concat_batches([left, right])]

    def table(self) -> pa.Table:
        """All rows, without a copy."""
        return pa.Table.from_batches(self.batches, schema=self.schema)
