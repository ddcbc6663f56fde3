"""Structs, maps and what is in them as JSON text (PostgreSQL has no type that clients know)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import Kind, SqlType
from streamsql_server.encoding.wire_type import WireContext

_PLAIN = frozenset({Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.NUMERIC})
_JSON = frozenset({Kind.JSON, Kind.JSONB})
_ESCAPES = (("\b", "\\b"), ("\f", "\\f"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def to_json(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    """JSON texts [n]; NULL stays NULL at the top and is `null` inside."""
    if type_.kind is Kind.STRUCT:
        return _struct(column, type_, context)
    if type_.kind is Kind.MAP:
        return _map(column, type_, context)
    if type_.kind is Kind.ARRAY:
        return _list(column, type_, context)
    return _scalar(column, type_, context)


def _keep_nulls(column: pa.Array, out: pa.Array) -> pa.Array:
    if not column.null_count:
        return out
    return pc.if_else(column.is_valid(), out, pa.scalar(None, pa.string()))


def _scalar(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    from streamsql_server.encoding.registry import wire_type_of

    if type_.kind is Kind.BOOLEAN:
        return pc.if_else(column, "true", "false")
    out = wire_type_of(type_).text(column, type_, context)
    if type_.kind in _PLAIN or type_.kind in _JSON:
        return out
    if type_.kind in (Kind.REAL, Kind.DOUBLE):  # JSON has no infinity and no NaN
        return pc.if_else(pc.is_finite(column), out, quote(out))
    if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        out = pc.replace_substring(out, " ", "T", max_replacements=1)
    if type_.kind is Kind.TIMESTAMPTZ:  # `+01` is not ISO 8601 in full
        out = pc.replace_substring_regex(out, pattern=r"([+-]\d\d)$", replacement=r"\1:00")
    return quote(out)


def quote(texts: pa.Array) -> pa.Array:
    """JSON string literals."""
    special = pc.fill_null(pc.match_substring_regex(texts, r'["\\\x00-\x1f]'), False)
    if pc.any(special).as_py():
        texts = pc.replace_substring_regex(texts, pattern=r'(["\\])', replacement=r"\\\1")
        for char, escape in _ESCAPES:
            texts = pc.replace_substring(texts, char, escape)
        if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
            for code in range(0x20):
                texts = pc.replace_substring(texts, chr(code), f"\\u{code:04x}")
    return pc.binary_join_element_wise('"', texts, '"', "")


def _struct(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    if not type_.fields:
        return _keep_nulls(column, pa.array(["{}"] * len(column), pa.string()))
    parts: list[pa.Array | str] = []
    for i, (name, field_type) in enumerate(type_.fields):
        key = quote(pa.array([name]))[0].as_py()
        parts.append(("{" if i == 0 else ", ") + key + ": ")
        values = pc.struct_field(column, [i])
        parts.append(pc.fill_null(to_json(values, field_type, context), "null"))
    return _keep_nulls(column, pc.binary_join_element_wise(*parts, "}", ""))


def _joined(column: pa.Array, items: pa.Array, left: str, right: str) -> pa.Array:
    """The items of each list with commas between."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    lists = pa.ListArray.from_arrays(pa.array(offsets), items.cast(pa.string()))
    joined = pc.binary_join_element_wise(left, pc.binary_join(lists, ", "), right, "")
    return _keep_nulls(column, joined)


def _list(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    assert type_.element is not None
    items = pc.fill_null(to_json(column.flatten(), type_.element, context), "null")
    return _joined(column, items, "[", "]")


def _map(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
    from streamsql_server.encoding.registry import wire_type_of

    assert type_.key is not None and type_.value is not None
    entries = pa.ListArray.from_arrays(
        column.offsets, pa.StructArray.from_arrays([column.keys, column.items], ["k", "v"])
    )
    if column.null_count:
        entries = pc.if_else(column.is_valid(), entries, pa.scalar(None, entries.type))
    flat = entries.flatten()
    keys = quote(wire_type_of(type_.key).text(pc.struct_field(flat, [0]), type_.key, context))
    values = pc.fill_null(to_json(pc.struct_field(flat, [1]), type_.value, context), "null")
    items = pc.binary_join_element_wise(keys, ": ", values, "")
    return _joined(entries, items, "{", "}")
