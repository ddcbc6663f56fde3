"""Columns of any type as JSON text, a column at a time: to_jsonb and the text of STRUCT and MAP."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import Kind, SqlType
from streamsql.functions.compute.columns import column, flat, values
from streamsql.functions.textio import json_column, json_text
from streamsql.functions.textio.output import to_text

_SPECIAL_FLOATS = r"^(NaN|-?Infinity)$"


def to_json(array: pa.Array, t: SqlType, timezone: str = "UTC", *, jsonb: bool = True) -> pa.Array:
    """JSON text of each value; NULL becomes `null`. jsonb: keys in jsonb's order, normal
    spacing."""
    return flat(pc.fill_null(_json(array, t, timezone, jsonb), "null"))


def quote(text: pa.Array) -> pa.Array:
    """JSON string literals of a text column."""
    special = pc.match_substring_regex(text, '[\\x00-\\x1f"\\\\]')
    plain = pc.binary_join_element_wise('"', text, '"', "")
    if not pc.any(special, min_count=0).as_py():
        return flat(plain)
    mask = pc.fill_null(special, False)
    hard = text.filter(mask)
    encoded = flat(hard.dictionary_encode())
    quoted = pa.array([json_text.quote(v) for v in encoded.dictionary.to_pylist()], pa.string())
    return flat(pc.replace_with_mask(plain, mask, quoted.take(encoded.indices)))


def _json(array: pa.Array, t: SqlType, timezone: str, jsonb: bool) -> pa.Array:
    kind = t.kind
    if kind is Kind.JSONB:
        return array
    if kind is Kind.JSON:
        return normalised(array) if jsonb else array
    if kind is Kind.BOOLEAN:
        return flat(pc.if_else(array, "true", "false"))
    if t.is_integer or kind is Kind.NUMERIC:
        return to_text(array, t)
    if t.is_float:
        text = to_text(array, t)
        if jsonb:
            text = _plain_numbers(text)
        special = pc.match_substring_regex(text, _SPECIAL_FLOATS)
        return flat(pc.if_else(special, pc.binary_join_element_wise('"', text, '"', ""), text))
    if kind is Kind.ARRAY:
        return _array(array, t, timezone, jsonb)
    if kind is Kind.STRUCT:
        return _struct(array, t, timezone, jsonb)
    if kind is Kind.MAP:
        return _map(array, t, timezone, jsonb)
    text = to_text(array, t, timezone)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        text = _iso(text)
    return quote(text)


def _plain_numbers(text: pa.Array) -> pa.Array:
    """jsonb keeps numbers as numeric: 1e+20 becomes 100000000000000000000."""
    mask = pc.fill_null(pc.match_substring(text, "e"), False)
    if not pc.any(mask, min_count=0).as_py():
        return text
    fixed = [json_text.normalise(v) for v in text.filter(mask).to_pylist()]
    return flat(pc.replace_with_mask(text, mask, pa.array(fixed, pa.string())))


def _iso(text: pa.Array) -> pa.Array:
    """ISO 8601 with T, and the zone with minutes, as PostgreSQL writes timestamps in JSON."""
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    return flat(pc.replace_substring_regex(text, r"(T.*[+-]\d\d)$", r"\1:00"))


def normalised(array: pa.Array) -> pa.Array:
    """jsonb text of a column of valid JSON."""
    if not len(array):
        return array
    done, hard = json_column.normalise(array)
    if not hard.any():
        return done
    encoded = flat(json_column.hard_rows(array, hard).dictionary_encode())
    texts = [None if v is None else json_text.normalise(v) for v in encoded.dictionary.to_pylist()]
    return json_column.merged(done, hard, json_column.spread(texts, encoded))


def _lists(array: pa.Array, items: pa.Array) -> pa.Array:
    """Rebuild a list column over `items`, one for each value that `flatten` gives."""
    lengths = values(flat(pc.fill_null(pc.list_value_length(array), 0)))
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(column(offsets, pa.int32()), items)


def _nulls_of(result: pa.Array, source: pa.Array) -> pa.Array:
    if not source.null_count:
        return flat(result)
    return flat(pc.if_else(source.is_valid(), result, pa.scalar(None, pa.string())))


def _array(array: pa.Array, t: SqlType, timezone: str, jsonb: bool) -> pa.Array:
    assert t.element is not None
    items = to_json(array.flatten(), t.element, timezone, jsonb=jsonb)
    body = pc.binary_join(_lists(array, items), ", " if jsonb else ",")
    return _nulls_of(pc.binary_join_element_wise("[", body, "]", ""), array)


def _struct(array: pa.Array, t: SqlType, timezone: str, jsonb: bool) -> pa.Array:
    fields = list(enumerate(t.fields))
    if jsonb:
        fields.sort(key=lambda f: (len(f[1][0].encode()), f[1][0].encode()))
    pieces: list[object] = []
    for n, (i, (name, field_type)) in enumerate(fields):
        separator = "" if n == 0 else (", " if jsonb else ",")
        pieces.append(separator + json_text.quote(name) + (": " if jsonb else ":"))
        pieces.append(to_json(array.field(i), field_type, timezone, jsonb=jsonb))
    if not pieces:
        return _nulls_of(pa.repeat(pa.scalar("{}"), len(array)), array)
    return _nulls_of(pc.binary_join_element_wise("{", *pieces, "}", ""), array)


def _map(array: pa.Array, t: SqlType, timezone: str, jsonb: bool) -> pa.Array:
    assert t.key is not None and t.value is not None
    entries = flat(array.cast(pa.list_(pa.struct([("k", t.key.arrow), ("v", t.value.arrow)]))))
    rows = entries.flatten()
    keys = quote(flat(to_text(rows.field(0), t.key, timezone)))
    items = pc.binary_join_element_wise(
        keys, ": " if jsonb else ":", to_json(rows.field(1), t.value, timezone, jsonb=jsonb), ""
    )
    body = pc.binary_join(_lists(entries, flat(items)), ", " if jsonb else ",")
    text = _nulls_of(pc.binary_join_element_wise("{", body, "}", ""), array)
    return normalised(text) if jsonb else text
