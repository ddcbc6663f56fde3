"""Rows as JSON texts, column-wise."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.schema import Schema
from streamsql.core.types import NUMERIC_KINDS, Kind
from streamsql.functions.textio import to_text

_RAW = (NUMERIC_KINDS - {Kind.REAL, Kind.DOUBLE}) | {Kind.JSON, Kind.JSONB}
_PLAIN = {Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.UUID}  # nothing to escape
_CONTROL = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def rows_as_json(batch: pa.RecordBatch, schema: Schema) -> pa.Array:
    """One JSON object a row: {"name":value,…}; string[n].

    Numbers and JSON stand as they are, everything else as PostgreSQL's text in a JSON string.
    """
    if not len(schema):
        return pa.array(["{}"] * batch.num_rows, pa.string())
    pieces: list[pa.Array | str] = []
    for i, column in enumerate(schema):
        head = "{" if i == 0 else ","
        pieces.append(f"{head}{quoted_name(column.name)}:")
        text = to_text(batch.column(i), column.type)
        if column.type.kind is Kind.BOOLEAN:
            text = batch.column(i).cast(pa.string())
        elif column.type.kind in _PLAIN:
            text = pc.binary_join_element_wise('"', text, '"', "")
        elif column.type.kind not in _RAW:
            text = _quoted(text)
        pieces.append(pc.fill_null(text, "null"))
    pieces.append("}")
    return pc.binary_join_element_wise(*pieces, "")


def quoted_name(name: str) -> str:
    """A name as a JSON string."""
    import json

    return json.dumps(name, ensure_ascii=False)


def _quoted(text: pa.Array) -> pa.Array:
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    for raw, escaped in _CONTROL.items():
        text = pc.replace_substring(text, raw, escaped)
    return pc.binary_join_element_wise('"', text, '"', "")
