"""The Arrow kernels of casts: (KernelCall, array) -> array of `call.type.arrow`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import Kind, SqlType
from streamsql.functions.compute import decimals
from streamsql.functions.compute.columns import (
    MONTH_DAY_NANO,
    column,
    flat,
    from_bools,
    validity,
    values,
)
from streamsql.functions.compute.zones import local_from_utc, utc_from_local
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio import json_output, output, reading
from streamsql.functions.textio.calendar import DATE_INFINITY, TIMESTAMP_INFINITY, US_PER_DAY


def relabel(call: KernelCall, a: pa.Array) -> pa.Array:
    """Another name for the same storage."""
    return a


def plain_cast(call: KernelCall, a: pa.Array) -> pa.Array:
    """Arrow's cast where it can not fail (large integers lose digits in floats, as they should)."""
    return a.cast(call.type.arrow, safe=False)


def numeric_to_float(call: KernelCall, a: pa.Array) -> pa.Array:
    """NUMERIC to REAL or DOUBLE."""
    return decimals.to_floats(a, call.type.arrow)


def integer_to_boolean(call: KernelCall, a: pa.Array) -> pa.Array:
    """0 is false."""
    return from_bools(values(a) != 0, validity(a))


def boolean_words(call: KernelCall, a: pa.Array) -> pa.Array:
    """true / false (the wire's t / f is the output function, not the cast)."""
    text = flat(pc.if_else(a, "true", "false"))
    return cut_text(call, text) if call.type.length is not None else text


def to_text(call: KernelCall, a: pa.Array) -> pa.Array:
    """The output function of any type."""
    text = output.to_text(a, call.arg_types[0], call.timezone)
    return cut_text(call, text) if call.type.length is not None else text


def cut_text(call: KernelCall, a: pa.Array) -> pa.Array:
    """CAST to VARCHAR(n) cuts."""
    if call.type.length is None:
        return a
    return flat(pc.utf8_slice_codeunits(a, 0, call.type.length))


def from_text(call: KernelCall, a: pa.Array) -> pa.Array:
    """The input function of any type."""
    return reading.read_column(a, call.type, call.timezone, call.fail)


def to_json(call: KernelCall, a: pa.Array) -> pa.Array:
    """json to jsonb; struct and map to either."""
    source = call.arg_types[0]
    jsonb = call.type.kind is Kind.JSONB
    if source.kind is Kind.JSON:
        return json_output.normalised(a)
    return _null_as(json_output.to_json(a, source, call.timezone, jsonb=jsonb), a)


def _null_as(result: pa.Array, source: pa.Array) -> pa.Array:
    if not source.null_count:
        return result
    return flat(pc.if_else(source.is_valid(), result, pa.scalar(None, result.type)))


def from_jsonb(call: KernelCall, a: pa.Array) -> pa.Array:
    """jsonb scalars to BOOLEAN and numbers: 22023 for another kind of value."""
    from streamsql.core.errors import InvalidParameterValue

    pattern = "^(true|false)$" if call.type.kind is Kind.BOOLEAN else "^-?[0-9]"
    fits = pc.match_substring_regex(a, pattern)
    good = flat(pc.if_else(fits, a, pa.scalar(None, pa.string())))
    bad = np.asarray(pc.fill_null(pc.invert(fits), False))
    if bad.any():
        kinds = _json_kinds(a)
        call.fail(
            bad,
            InvalidParameterValue,
            lambda row: f"cannot cast jsonb {kinds(row)} to type {call.type.kind.value}",
        )
    if call.type.is_integer:  # numbers with decimals are rounded
        from streamsql.core.types import NUMERIC

        inner = KernelCall(len(a), NUMERIC, (NUMERIC,))
        exact = reading.read_column(good, NUMERIC, "UTC", call.fail)
        result = decimals.to_integers(_as(inner, call.type), exact)
        call.failures.extend(inner.failures)
        return result
    return reading.read_column(good, call.type, "UTC", call.fail)


def _as(call: KernelCall, type_: SqlType) -> KernelCall:
    call.type = type_
    return call


def _json_kinds(a: pa.Array) -> Any:
    names = {"{": "object", "[": "array", '"': "string", "n": "null", "t": "boolean",
             "f": "boolean"}  # fmt: skip
    return lambda row: names.get(a[row].as_py()[:1], "numeric")


# --- nested -------------------------------------------------------------------------------------
def _inner(call: KernelCall, items: pa.Array, source: SqlType, target: SqlType) -> tuple[Any, Any]:
    """(cast items, bad items mask or None): one level down."""
    from streamsql.functions.cast_table import cast_kernel

    kernel = cast_kernel(source, target)
    assert kernel is not None
    inner = KernelCall(len(items), target, (source,), call.now_us, call.timezone)
    return kernel(inner, items), inner.failures


def cast_elements(call: KernelCall, a: pa.Array) -> pa.Array:
    """An array, element by element."""
    source, target = call.arg_types[0].element, call.type.element
    assert source is not None and target is not None
    items, failures = _inner(call, a.flatten(), source, target)
    lengths = values(flat(pc.fill_null(pc.list_value_length(a), 0)))
    for failure in failures:
        rows_of_items = np.repeat(np.arange(len(a)), lengths)
        bad = np.zeros(len(a), np.bool_)
        bad[rows_of_items[np.asarray(failure.rows)]] = True
        first = int(np.flatnonzero(failure.rows)[0])
        call.fail(bad, failure.error, failure.text(first), failure.detail)
    offsets = np.zeros(len(a) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_buffers(
        call.type.arrow, len(a), [validity(a), pa.py_buffer(offsets)], children=[items]
    )


def cast_fields(call: KernelCall, a: pa.Array) -> pa.Array:
    """A struct, field by field in order."""
    children = []
    pairs = zip(call.arg_types[0].fields, call.type.fields, strict=True)
    for i, ((_, source), (_, target)) in enumerate(pairs):
        items, failures = _inner(call, a.field(i), source, target)
        call.failures.extend(failures)
        children.append(items)
    return pa.StructArray.from_buffers(call.type.arrow, len(a), [validity(a)], children=children)


def cast_entries(call: KernelCall, a: pa.Array) -> pa.Array:
    """A map, keys and values."""
    source, target = call.arg_types[0], call.type
    assert source.key and source.value and target.key and target.value
    as_struct = pa.list_(pa.struct([("k", source.key.arrow), ("v", source.value.arrow)]))
    entries = flat(a.cast(as_struct))
    rows = entries.flatten()
    keys, bad_keys = _inner(call, rows.field(0), source.key, target.key)
    items, bad_items = _inner(call, rows.field(1), source.value, target.value)
    call.failures.extend([*bad_keys, *bad_items])
    lengths = values(flat(pc.fill_null(pc.list_value_length(entries), 0)))
    offsets = np.zeros(len(a) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    entry_type = target.arrow
    pairs = pa.StructArray.from_arrays(
        [keys, items], fields=[entry_type.key_field, entry_type.item_field]
    )
    return pa.MapArray.from_buffers(
        entry_type, len(a), [validity(a), pa.py_buffer(offsets)], children=[pairs]
    )


# --- dates and times ----------------------------------------------------------------------------
def _days_to_us(a: pa.Array) -> Any:
    days = values(a).astype(np.int64)
    us = days * US_PER_DAY
    infinite = np.abs(days) == DATE_INFINITY
    if infinite.any():
        us = np.where(infinite, np.sign(days) * TIMESTAMP_INFINITY, us)
    return us


def date_to_timestamp(call: KernelCall, a: pa.Array) -> pa.Array:
    """Midnight."""
    return column(_days_to_us(a), call.type.arrow, validity(a))


def date_to_timestamptz(call: KernelCall, a: pa.Array) -> pa.Array:
    """Local midnight."""
    return column(utc_from_local(_days_to_us(a), call.timezone), call.type.arrow, validity(a))


def _us_to_days(us: Any) -> Any:
    days = us // US_PER_DAY
    infinite = np.abs(us) == TIMESTAMP_INFINITY
    if infinite.any():
        days = np.where(infinite, np.sign(us) * DATE_INFINITY, days)
    return days.astype(np.int32)


def timestamp_to_date(call: KernelCall, a: pa.Array) -> pa.Array:
    """The day."""
    return column(_us_to_days(values(a)), call.type.arrow, validity(a))


def timestamp_to_time(call: KernelCall, a: pa.Array) -> pa.Array:
    """The time of day."""
    return column(values(a) % US_PER_DAY, call.type.arrow, validity(a))


def timestamp_to_timestamptz(call: KernelCall, a: pa.Array) -> pa.Array:
    """Wall-clock time of the session's zone."""
    return column(utc_from_local(values(a), call.timezone), call.type.arrow, validity(a))


def timestamptz_to_timestamp(call: KernelCall, a: pa.Array) -> pa.Array:
    """To wall-clock time of the session's zone."""
    return column(local_from_utc(values(a), call.timezone), call.type.arrow, validity(a))


def timestamptz_to_date(call: KernelCall, a: pa.Array) -> pa.Array:
    """The local day."""
    local = local_from_utc(values(a), call.timezone)
    return column(_us_to_days(local), call.type.arrow, validity(a))


def timestamptz_to_time(call: KernelCall, a: pa.Array) -> pa.Array:
    """The local time of day."""
    local = local_from_utc(values(a), call.timezone)
    return column(local % US_PER_DAY, call.type.arrow, validity(a))


def time_to_interval(call: KernelCall, a: pa.Array) -> pa.Array:
    """The time since midnight."""
    out = np.zeros(len(a), MONTH_DAY_NANO)
    out["ns"] = values(a) * 1000
    return column(out, call.type.arrow, validity(a))


def interval_to_time(call: KernelCall, a: pa.Array) -> pa.Array:
    """The time part, modulo a day."""
    us = output.interval_parts(a)["ns"] // 1000 % US_PER_DAY
    return column(us, call.type.arrow, validity(a))
