"""Log records: one tick each, as MessagePack with Arrow record batches inside."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from streamsql.core.schema import Schema
from streamsql.engine.requests import Tick

Record = dict[str, Any]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


class CatalogChanges(msgspec.Struct):
    """The version of a record and its catalog changes: the rest is not looked at."""

    v: int
    d: list[dict[str, Any]] = []


_changes_decoder = msgspec.msgpack.Decoder(CatalogChanges)


def encode(tick: Tick) -> bytes:
    """A tick as bytes; changes of temporary tables are left out."""
    record: Record = {"v": tick.version, "t": tick.now_us}
    if tick.ddl:
        record["d"] = [op.to_json() for op in tick.ddl]
    writes = [
        [c.relation_id, batch_bytes(c.retracted), batch_bytes(visible_rows(c)), c.partition]
        for c in tick.changes
        if not c.temporary
    ]
    if writes:
        record["w"] = writes
    if tick.inputs:
        record["i"] = [
            [i.relation_id, batch_bytes(i.delta.batch), i.partition] for i in tick.inputs
        ]
    if tick.positions:
        record["p"] = [[oid, positions] for oid, positions in tick.positions.items()]
    if tick.source_errors:
        record["e"] = [list(row) for row in tick.source_errors]
    if tick.advance:
        record["a"] = list(tick.advance.items())
    if tick.clock is not None:
        record["c"] = tick.clock
    if tick.settings:
        record["s"] = tick.settings
    if tick.timed:
        record["k"] = True
    return _encoder.encode(record)


def decode(payload: bytes) -> Record:
    """Inverse of `encode`; batches stay bytes until their schema is known."""
    record: Record = _decoder.decode(payload)
    return record


def catalog_changes(payload: bytes) -> CatalogChanges:
    """What a record says of the catalog."""
    return _changes_decoder.decode(payload)


def visible_rows(change: Any) -> pa.RecordBatch:
    """The inserted rows without the hidden columns, which replay computes again."""
    n = change.visible.batch.num_columns
    return change.inserted.select(list(range(n)))


def batch_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch without its schema; b"" for no rows."""
    if not batch.num_rows:
        return b""
    if not batch.num_columns:
        return batch.num_rows.to_bytes(8, "little")
    return bytes(batch.serialize())


def batch_from(data: bytes, schema: Schema) -> pa.RecordBatch:
    """Inverse of `batch_bytes`."""
    arrow = schema.arrow
    if not data:
        return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in arrow], schema=arrow)
    if not len(schema):
        from streamsql.core.delta import make_batch

        return make_batch([], arrow, int.from_bytes(data, "little"))
    return pa.ipc.read_record_batch(pa.py_buffer(data), arrow)
