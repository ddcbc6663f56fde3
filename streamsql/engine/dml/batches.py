"""All rows of a table as one batch."""

from __future__ import annotations

import pyarrow as pa

from streamsql.core.delta import make_batch
from streamsql.core.schema import Schema


def one_batch(table: pa.Table, schema: Schema) -> pa.RecordBatch:
    """All rows as one batch of that schema."""
    batches = table.combine_chunks().to_batches()
    if not batches:
        return make_batch([pa.array([], f.type) for f in schema.arrow], schema.arrow, 0)
    return make_batch(batches[0].columns, schema.arrow, batches[0].num_rows)
