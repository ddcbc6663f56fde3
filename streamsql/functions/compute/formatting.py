"""Kernels of to_char, to_date, to_timestamp, to_number and DATE_FORMAT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import DatetimeFieldOverflow, NumericValueOutOfRange, StreamSqlError
from streamsql.core.types import DATE, TIMESTAMPTZ, Kind
from streamsql.functions.compute.char_formats import (
    Moment,
    finest_unit,
    from_java,
    render,
)
from streamsql.functions.compute.char_parsing import parse
from streamsql.functions.compute.columns import column, validity, values
from streamsql.functions.compute.grouped import by_value, by_value_failing, constants
from streamsql.functions.compute.number_formats import parse_number, render_number
from streamsql.functions.compute.zones import local_from_utc
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.calendar import TIMESTAMP_INFINITY, US_PER_DAY
from streamsql.functions.textio.output import zone_offsets
from streamsql.functions.textio.scalar_input import fit_decimal
from streamsql.functions.textio.zones import local_to_utc

_NULL = pa.scalar(None, pa.string())


def _rendered(call: KernelCall, a: pa.Array, template: str, kind: Kind) -> pa.Array:
    """Timestamps by a template: cut to its finest unit, one rendering a distinct value."""
    us = values(a).astype(np.int64)
    offsets: Any = None
    if kind is Kind.DATE:
        us = us * US_PER_DAY
    elif kind is Kind.TIMESTAMPTZ:
        if any(k in template for k in ("TZ", "tz", "OF")):
            offsets = zone_offsets(us, call.timezone)
        us = local_from_utc(us, call.timezone)
    unit = finest_unit(template)
    infinite = np.abs(us) == TIMESTAMP_INFINITY
    key = us if unit == 1 else us // unit * unit
    if offsets is not None:
        return _with_offsets(call, a, key, offsets, template)
    firsts, index = _runs(key)
    texts = pa.array([render(template, Moment(int(u))) for u in firsts], pa.string())
    valid = validity(a)
    result = texts.take(column(index, pa.int64(), valid))
    if infinite.any():
        from streamsql.functions.compute.columns import with_nulls_at

        return with_nulls_at(result, infinite)
    return result


def _with_offsets(call: KernelCall, a: pa.Array, us: Any, offsets: Any, template: str) -> pa.Array:
    pairs = np.rec.fromarrays([us, offsets])
    distinct, index = np.unique(pairs, return_inverse=True)
    zone = call.timezone if call.timezone.isupper() else ""
    texts = [render(template, Moment(int(u), int(o), zone or call.timezone)) for u, o in distinct]
    found = pa.array(texts, pa.string())
    return found.take(column(index.astype(np.int64), pa.int64(), validity(a)))


def _runs(key: Any) -> tuple[Any, Any]:
    """(values, index of each row's value): runs of equal neighbours first, since time goes on."""
    if not len(key):
        return key, np.zeros(0, np.int64)
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    lengths = np.diff(np.concatenate((starts, [len(key)])))
    distinct, index = np.unique(key[starts], return_inverse=True)
    return distinct, np.repeat(index.astype(np.int64), lengths)


@constants(1)
def to_char(call: KernelCall, a: pa.Array, template: pa.Scalar) -> Any:
    """to_char of a date or timestamp."""
    if not template.as_py():
        return _NULL
    return _rendered(call, a, template.as_py(), call.arg_types[0].kind)


@constants(1)
def interval_to_char(call: KernelCall, a: pa.Array, template: pa.Scalar) -> Any:
    """to_char of an interval: its parts stand where a timestamp's would."""
    from streamsql.functions.compute.interval_chars import render_interval

    text = template.as_py()
    return by_value(a, lambda v: render_interval(text, v), pa.string())


@constants(1)
def number_to_char(call: KernelCall, a: pa.Array, template: pa.Scalar) -> Any:
    """to_char of a number."""
    from decimal import Decimal

    text = template.as_py()
    double = a.type in (pa.float64(), pa.float32())

    def one(v: Any) -> str:
        return render_number(text, Decimal(f"{v:.15g}") if double else Decimal(v))

    return by_value(a, one, pa.string())


@constants(1)
def date_format(call: KernelCall, a: pa.Array, pattern: pa.Scalar) -> Any:
    """Flink's DATE_FORMAT(timestamp or text, java pattern)."""
    if call.arg_types[0].is_text:
        from streamsql.core.types import TIMESTAMP
        from streamsql.functions.textio.reading import read_column

        a = read_column(a, TIMESTAMP, call.timezone, call.fail)
        return _rendered(call, a, from_java(pattern.as_py()), Kind.TIMESTAMP)
    return _rendered(call, a, from_java(pattern.as_py()), call.arg_types[0].kind)


@constants(1)
def to_date(call: KernelCall, a: pa.Array, template: pa.Scalar) -> Any:
    """to_date(text, template)."""
    from streamsql.functions.literals import arrow_value

    text = template.as_py()
    return by_value_failing(
        call, a, lambda s: arrow_value(parse(s, text)[0] // US_PER_DAY, DATE), pa.date32()
    )


FIRST_US, LAST_US = -211_813_488_000_000_000, 9_223_371_331_199_999_999
"""The years that a timestamp can hold, 4713 BC to 294276, in µs since 1970."""


@constants(1)
def to_timestamp(call: KernelCall, a: pa.Array, template: pa.Scalar) -> Any:
    """to_timestamp(text, template)."""
    text = template.as_py()

    def one(s: str) -> int:
        us, offset = parse(s, text)
        if not FIRST_US <= us <= LAST_US:
            raise DatetimeFieldOverflow("timestamp out of range")
        return us - offset * 1_000_000 if offset is not None else local_to_utc(us, call.timezone)

    return by_value_failing(call, a, one, TIMESTAMPTZ.arrow)


@constants(1)
def to_number(call: KernelCall, a: pa.Array, template: pa.Scalar) -> Any:
    """to_number(text, template)."""
    text = template.as_py()

    def one(s: str) -> Any:
        try:
            return fit_decimal(parse_number(text, s), call.type)
        except StreamSqlError:
            raise
        except ArithmeticError:
            raise NumericValueOutOfRange("value overflows numeric format") from None

    return by_value_failing(call, a, one, call.type.arrow)
