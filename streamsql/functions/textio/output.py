"""Writing columns as PostgreSQL's text: `to_text` for every type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import Kind, SqlType
from streamsql.functions.compute.columns import (
    MONTH_DAY_NANO,
    column,
    decimal_words,
    flat,
    from_bools,
    text_buffers,
    text_column,
    validity,
    values,
)
from streamsql.functions.numeric_types import MAX_PRECISION, MIN_DIVISION_SCALE
from streamsql.functions.textio.calendar import (
    DATE_INFINITY,
    TIMESTAMP_INFINITY,
    US_PER_DAY,
    civil_from_days,
)
from streamsql.functions.textio.zone_tables import named_offsets
from streamsql.functions.textio.zones import canonical_zone, fixed_offset

_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31


def to_text(array: Any, t: SqlType, timezone: str = "UTC") -> pa.Array:
    """Each value's PostgreSQL output text (booleans t/f); NULL stays NULL.

    array: Array or ChunkedArray of `t.arrow`. timezone: the session's, for TIMESTAMPTZ.
    """
    array = flat(array)
    if not len(array):
        return pa.array([], pa.string())
    writer = _WRITERS.get(t.kind)
    if writer is None:  # text, varchar, uuid, json, jsonb, unknown: stored as their text
        return array if array.type == pa.string() else array.cast(pa.string())
    return writer(array, t, timezone)


def _boolean(array: pa.Array, _t: SqlType, _z: str) -> pa.Array:
    return flat(pc.if_else(array, "t", "f"))


def _integer(array: pa.Array, _t: SqlType, _z: str) -> pa.Array:
    return array.cast(pa.string())


def _float(array: pa.Array, t: SqlType, _z: str) -> pa.Array:
    from streamsql.functions.textio.float_output import float_column

    return float_column(array, single=t.kind is Kind.REAL)


def patched(text: pa.Array, rows: Any, write: Callable[[int], str]) -> pa.Array:
    """The text column with other texts at the masked rows (few, or of few distinct values)."""
    at = np.flatnonzero(rows)
    if not at.size:
        return text
    fixed = pa.array([write(int(i)) for i in at], pa.string())
    replaced = flat(pc.replace_with_mask(text, from_bools(rows), fixed))
    if text.null_count:
        replaced = flat(pc.if_else(text.is_valid(), replaced, pa.scalar(None, pa.string())))
    return replaced


def trims(t: SqlType) -> bool:
    """Whether a NUMERIC's trailing zeros are storage, not something that the user wrote.

    Those of bare NUMERIC, quotients and averages are; sums and products keep their operands' scale.
    """
    if t.precision is None:
        return True
    widened = not t.constrained and t.precision == MAX_PRECISION
    return widened and (t.scale or 0) >= MIN_DIVISION_SCALE


def _numeric(array: pa.Array, t: SqlType, _z: str) -> pa.Array:
    from streamsql.functions.compute import format_loops

    words = decimal_words(array)
    scale = array.type.scale
    offsets = np.zeros(len(array) + 1, np.int32)
    drop = np.zeros(len(array), np.int8)
    total = format_loops.decimal_offsets(words, scale, trims(t), offsets, drop)
    out = np.empty(total, np.uint8)
    format_loops.decimal_text(words, scale, offsets, drop, out)
    return text_column(offsets, out, validity(array))


def _usual_days(days: Any) -> Any:
    return (days >= _FIRST_DAY) & (days <= _LAST_DAY)


def date_text(days: int) -> str:
    """One date of any year, as PostgreSQL prints it."""
    if abs(days) == DATE_INFINITY:
        return "infinity" if days > 0 else "-infinity"
    year, month, day = civil_from_days(days)
    era = ""
    if year <= 0:
        year, era = 1 - year, " BC"
    return f"{year:04d}-{month:02d}-{day:02d}{era}"


def _date(array: pa.Array, _t: SqlType, _z: str) -> pa.Array:
    from streamsql.functions.compute import format_loops

    days = values(array)
    usual = _usual_days(days)
    n = len(array)
    out = np.empty(n * 10, np.uint8)
    format_loops.date_text(days, usual, out)
    offsets = np.arange(0, 10 * n + 1, 10, dtype=np.int32)
    return patched(text_column(offsets, out, validity(array)), ~usual & _valid(array),
                   lambda i: date_text(int(days[i])))  # fmt: skip


def _valid(array: pa.Array) -> Any:
    from streamsql.functions.compute.columns import valid_mask

    mask = valid_mask(array)
    return np.ones(len(array), np.bool_) if mask is None else mask


def _time(array: pa.Array, _t: SqlType, _z: str) -> pa.Array:
    from streamsql.functions.compute import format_loops

    us = values(array)
    offsets = np.zeros(len(array) + 1, np.int32)
    out = np.empty(format_loops.time_offsets(us, offsets), np.uint8)
    format_loops.time_text(us, offsets, out)
    return text_column(offsets, out, validity(array))


def zone_offsets(us: Any, timezone: str) -> Any:
    """Seconds east of UTC at each instant. us: int64 [n], UTC."""
    zone = canonical_zone(timezone)
    fixed = fixed_offset(zone)
    if fixed is not None:
        return np.full(len(us), fixed, np.int64)
    return named_offsets(us, zone)


def clock_text(us: int) -> str:
    """HH:MM:SS[.ffffff] of µs since midnight."""
    seconds, fraction = divmod(us, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + f".{fraction:06d}".rstrip("0") if fraction else text


def timestamp_text(us: int, offset_s: int | None = None) -> str:
    """One timestamp of any year; us is local time, offset_s its zone suffix."""
    if abs(us) == TIMESTAMP_INFINITY:
        return "infinity" if us > 0 else "-infinity"
    date = date_text(us // US_PER_DAY)
    era = " BC" if date.endswith(" BC") else ""
    text = f"{date.removesuffix(' BC')} {clock_text(us % US_PER_DAY)}"
    return text + ("" if offset_s is None else offset_text(offset_s)) + era


def offset_text(seconds: int) -> str:
    """+HH[:MM[:SS]]."""
    sign = "-" if seconds < 0 else "+"
    s = abs(seconds)
    text = f"{sign}{s // 3600:02d}"
    if s % 3600:
        text += f":{s // 60 % 60:02d}"
    if s % 60:
        text += f":{s % 60:02d}"
    return text


def _timestamp(array: pa.Array, t: SqlType, timezone: str) -> pa.Array:
    from streamsql.functions.compute import format_loops

    us = values(array)
    offsets_s = np.zeros(0, np.int64)
    local = us
    finite = np.abs(us) != TIMESTAMP_INFINITY
    if t.kind is Kind.TIMESTAMPTZ:
        offsets_s = zone_offsets(us, timezone)
        local = np.where(finite, us + offsets_s * 1_000_000, us)
    usual = (local >= _FIRST_DAY * US_PER_DAY) & (local < (_LAST_DAY + 1) * US_PER_DAY)
    offsets = np.zeros(len(array) + 1, np.int32)
    total = format_loops.timestamp_offsets(local, offsets_s, usual, offsets)
    out = np.empty(total, np.uint8)
    format_loops.timestamp_text(local, offsets_s, usual, offsets, out)

    def write(i: int) -> str:
        return timestamp_text(int(local[i]), int(offsets_s[i]) if offsets_s.size else None)

    return patched(text_column(offsets, out, validity(array)), ~usual & _valid(array), write)


def interval_text(months: int, days: int, us: int) -> str:
    """IntervalStyle postgres.

    >>> interval_text(14, 3, 14706000000), interval_text(0, 0, 0), interval_text(-1, 1, 0)
    ('1 year 2 mons 3 days 04:05:06', '00:00:00', '-1 mons +1 day')
    """
    parts: list[str] = []
    negative = False
    years = int(months / 12)
    for amount, one, many in (
        (years, "year", "years"), (months - 12 * years, "mon", "mons"), (days, "day", "days"),
    ):  # fmt: skip
        if amount:
            sign = "+" if negative and amount > 0 else ""
            parts.append(f"{sign}{amount} {one if amount == 1 else many}")
            negative = amount < 0
    if us or not parts:
        sign = "-" if us < 0 else "+" if negative else ""
        parts.append(sign + clock_text(abs(us)))
    return " ".join(parts)


def _interval(array: pa.Array, _t: SqlType, _z: str) -> pa.Array:
    raw = interval_parts(array)
    distinct, index = np.unique(raw, return_inverse=True)
    texts = [
        interval_text(int(v["months"]), int(v["days"]), int(v["ns"]) // 1000) for v in distinct
    ]
    found = pa.array(texts, pa.string()).take(column(index.astype(np.int64), pa.int64()))
    return _null_as(found, array)


def interval_parts(array: pa.Array) -> Any:
    """Structured numpy view (months, days, ns) [n] of an INTERVAL column."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), MONTH_DAY_NANO)
    return np.frombuffer(buffer, MONTH_DAY_NANO)[array.offset : array.offset + len(array)]


def _null_as(result: pa.Array, source: pa.Array) -> pa.Array:
    if not source.null_count:
        return result
    return flat(pc.if_else(source.is_valid(), result, pa.scalar(None, result.type)))


def _bytea(array: pa.Array, _t: SqlType, _z: str) -> pa.Array:
    from streamsql.functions.compute import format_loops

    offsets, data = text_buffers(array)
    lengths = np.diff(offsets)
    out_offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(2 + 2 * lengths, out=out_offsets[1:])
    out = np.empty(int(out_offsets[-1]), np.uint8)
    format_loops.hex_text(offsets, data, out_offsets, out)
    return text_column(out_offsets, out, validity(array))


_NEEDS_QUOTES = r'(?i)^$|^null$|[{},"\\\s\x0b]'


def _array(array: pa.Array, t: SqlType, timezone: str) -> pa.Array:
    assert t.element is not None
    inner = to_text(array.flatten(), t.element, timezone)
    if t.element.kind is not Kind.ARRAY:
        quoted = pc.match_substring_regex(inner, _NEEDS_QUOTES)
        if pc.any(quoted).as_py():
            escaped = pc.replace_substring_regex(inner, r'(["\\])', r"\\\1")
            inner = pc.if_else(quoted, pc.binary_join_element_wise('"', escaped, '"', ""), inner)
    inner = flat(pc.fill_null(inner, "NULL"))
    # `flatten` left out what lies under NULL lists, so offsets are made anew from the lengths
    lengths = values(flat(pc.fill_null(pc.list_value_length(array), 0)))
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    lists = pa.ListArray.from_arrays(column(offsets, pa.int32()), inner)
    body = pc.binary_join(lists, ",")
    return _null_as(flat(pc.binary_join_element_wise("{", body, "}", "")), array)


def _json(array: pa.Array, t: SqlType, timezone: str) -> pa.Array:
    from streamsql.functions.textio.json_output import to_json

    return _null_as(to_json(array, t, timezone), array)


_WRITERS: dict[Kind, Callable[[pa.Array, SqlType, str], pa.Array]] = {
    Kind.BOOLEAN: _boolean,
    Kind.SMALLINT: _integer,
    Kind.INTEGER: _integer,
    Kind.BIGINT: _integer,
    Kind.REAL: _float,
    Kind.DOUBLE: _float,
    Kind.NUMERIC: _numeric,
    Kind.BYTEA: _bytea,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamp,
    Kind.INTERVAL: _interval,
    Kind.ARRAY: _array,
    Kind.STRUCT: _json,
    Kind.MAP: _json,
}
