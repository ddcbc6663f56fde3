"""Decimal columns: arithmetic, comparison and conversion over the loops of `decimal_loops.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import DivisionByZero, NumericValueOutOfRange
from streamsql.core.types import SqlType
from streamsql.functions.compute.columns import (
    Value,
    column,
    decimal_words,
    validity,
    values,
    with_nulls_at,
)
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.scalar_input import numeric_overflow

_UP, _TRUNCATE, _FLOOR, _CEILING = 0, 1, 2, 3


@lru_cache(maxsize=4096)
def _constant_words(value: pa.Scalar) -> Any:
    return decimal_words(pa.repeat(value, 1))


def _words(value: Value) -> tuple[Any, int, int]:
    """(uint64 [m, 2], step, scale): m = n and step 1 for a column, m = 1 and step 0 for a
    constant."""
    if isinstance(value, pa.Array):
        return decimal_words(value), 1, value.type.scale
    return _constant_words(value), 0, value.type.scale


@lru_cache(maxsize=4096)
def unscaled_constant(value: pa.Scalar) -> int:
    """The digits of a constant as one integer."""
    return int.from_bytes(_constant_words(value)[0].tobytes(), "little", signed=True)


def as_int64(a: pa.Array) -> Any:
    """The column's low words [n], if every value fits in 64 bits; else None."""
    words = decimal_words(a).view(np.int64)
    low = words[:, 0]
    return low if np.array_equal(words[:, 1], low >> 63) else None


@lru_cache(maxsize=4096)
def constant_as(value: pa.Scalar, t: pa.DataType) -> pa.Scalar | None:
    """The constant in another decimal type, or None if that does not hold it exactly."""
    shift = t.scale - value.type.scale
    digits = unscaled_constant(value)
    if shift < 0 and digits % 10**-shift:
        return None
    scaled = digits * 10**shift if shift >= 0 else digits // 10**-shift
    if abs(scaled) >= 10**t.precision:
        return None
    raw = scaled.to_bytes(16, "little", signed=True)
    return pa.Array.from_buffers(t, 1, [None, pa.py_buffer(raw)])[0]


def decimal_result(
    call: KernelCall, out: Any, bad: Any, any_bad: bool, *arguments: Value
) -> pa.Array:
    """The result column; rows marked bad fail (22003 or 22012) and are NULL."""
    result = column(out, call.type.arrow, validity(*arguments))
    return report(call, result, bad, call.type) if any_bad else result


def report(call: KernelCall, result: pa.Array, bad: Any, t: SqlType) -> pa.Array:
    """Tell the call about the rows marked 1 (does not fit `t`) or 2 (division by zero)."""
    overflow, zero = bad == 1, bad == 2
    if overflow.any():
        error = numeric_overflow(t) if t.arrow.id == pa.decimal128(1, 0).id else None
        message = f"{t.kind.value} out of range" if error is None else error.message
        call.fail(
            overflow, NumericValueOutOfRange, message, None if error is None else error.detail
        )
    if zero.any():
        call.fail(zero, DivisionByZero, "division by zero")
    return with_nulls_at(result, bad != 0)


def _sum(subtract: bool) -> Callable[..., pa.Array]:
    def kernel(call: KernelCall, a: Value, b: Value) -> pa.Array:
        from streamsql.functions.compute import decimal_loops

        (wa, sa, ka), (wb, sb, kb) = _words(a), _words(b)
        precision, scale = call.type.storage_precision_scale
        n = call.num_rows
        out, bad = np.empty((n, 2), np.uint64), np.zeros(n, np.uint8)
        any_bad = decimal_loops.add(
            wa, sa, scale - ka, wb, sb, scale - kb, subtract, precision, out, bad
        )
        return decimal_result(call, out, bad, any_bad, a, b)

    return kernel


add = _sum(False)
subtract = _sum(True)


def multiply(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a * b, rounded to the result's scale."""
    from streamsql.functions.compute import decimal_loops

    precision, scale = call.type.storage_precision_scale
    (wa, sa, ka), (wb, sb, kb) = _words(a), _words(b)
    n = call.num_rows
    out, bad = np.empty((n, 2), np.uint64), np.zeros(n, np.uint8)
    any_bad = decimal_loops.multiply(wa, sa, wb, sb, ka + kb - scale, precision, out, bad)
    return decimal_result(call, out, bad, any_bad, a, b)


def divide(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a / b, rounded half away from zero to the result's scale."""
    from streamsql.functions.compute import decimal_loops

    precision, scale = call.type.storage_precision_scale
    (wa, sa, ka), (wb, sb, kb) = _words(a), _words(b)
    n = call.num_rows
    out, bad = np.empty((n, 2), np.uint64), np.zeros(n, np.uint8)
    any_bad = decimal_loops.divide(wa, sa, wb, sb, scale - ka + kb, precision, out, bad)
    return decimal_result(call, out, bad, any_bad, a, b)


def modulo(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a % b with the sign of a."""
    from streamsql.functions.compute import decimal_loops

    precision, scale = call.type.storage_precision_scale
    (wa, sa, ka), (wb, sb, kb) = _words(a), _words(b)
    top = max(ka, kb)
    n = call.num_rows
    out, bad = np.empty((n, 2), np.uint64), np.zeros(n, np.uint8)
    any_bad = decimal_loops.remainder(wa, sa, top - ka, wb, sb, top - kb, out, bad)
    if top != scale:
        out, bad2, more = _rescaled(out, scale - top, precision, _UP)
        bad, any_bad = np.maximum(bad, bad2), any_bad or more
    return decimal_result(call, out, bad, any_bad, a, b)


def compare(a: Value, b: Value, n: int) -> Any:
    """int8 [n]: -1, 0 or 1, exact whatever the scales."""
    from streamsql.functions.compute import decimal_loops

    (wa, sa, ka), (wb, sb, kb) = _words(a), _words(b)
    top = max(ka, kb)
    out = np.empty(n, np.int8)
    decimal_loops.compare(wa, sa, top - ka, wb, sb, top - kb, out)
    return out


def _rescaled(words: Any, k: int, precision: int, mode: int) -> tuple[Any, Any, bool]:
    from streamsql.functions.compute import decimal_loops

    out, bad = np.empty((len(words), 2), np.uint64), np.zeros(len(words), np.uint8)
    any_bad = decimal_loops.rescale(words, k, precision, mode, out, bad)
    return out, bad, any_bad


def rescale(call: KernelCall, a: pa.Array, mode: int = _UP) -> pa.Array:
    """A NUMERIC column in another precision and scale: `call.type`."""
    precision, scale = call.type.storage_precision_scale
    shift = scale - a.type.scale
    if shift == 0 and precision >= a.type.precision:
        return column(decimal_words(a), call.type.arrow, validity(a))
    out, bad, any_bad = _rescaled(decimal_words(a), shift, precision, mode)
    return decimal_result(call, out, bad, any_bad, a)


def round_at(call: KernelCall, a: pa.Array, places: int, mode: int) -> pa.Array:
    """Round, truncate, floor or ceil at `places` decimals (negative = before the point)."""
    precision, scale = call.type.storage_precision_scale
    source_scale = a.type.scale
    words = decimal_words(a)
    bad: Any = np.zeros(len(a), np.uint8)
    any_bad = False
    if places < source_scale:
        if places <= source_scale - 38:
            words = np.zeros((len(a), 2), np.uint64)
        else:
            words, bad, any_bad = _rescaled(words, places - source_scale, 38, mode)
        source_scale = places
    out, more_bad, more = _rescaled(words, scale - source_scale, precision, _UP)
    return decimal_result(call, out, np.maximum(bad, more_bad), any_bad or more, a)


def from_integers(call: KernelCall, a: pa.Array) -> pa.Array:
    """An integer column as NUMERIC."""
    from streamsql.functions.compute import decimal_loops

    precision, scale = call.type.storage_precision_scale
    wide = np.ascontiguousarray(values(a), np.int64)
    out = np.empty((len(a), 2), np.uint64)
    decimal_loops.int_to_decimal(wide, out)
    if scale == 0 and precision >= 19:
        return column(out, call.type.arrow, validity(a))
    out, bad, any_bad = _rescaled(out, scale, precision, _UP)
    return decimal_result(call, out, bad, any_bad, a)


_LIMITS = {2: 2**15 - 1, 4: 2**31 - 1, 8: 2**63 - 1}


def to_integers(call: KernelCall, a: pa.Array) -> pa.Array:
    """A NUMERIC column rounded to an integer type."""
    from streamsql.functions.compute import decimal_loops

    out, bad = np.empty(len(a), np.int64), np.zeros(len(a), np.uint8)
    width = call.type.arrow.bit_width // 8
    any_bad = decimal_loops.to_int64(
        decimal_words(a), a.type.scale, np.uint64(_LIMITS[width]), out, bad
    )
    result = column(out.astype(f"i{width}"), call.type.arrow, validity(a))
    return report(call, result, bad, call.type) if any_bad else result


def to_floats(a: pa.Array, t: pa.DataType) -> pa.Array:
    """A NUMERIC column as the nearest floats."""
    words = decimal_words(a)
    low = words[:, 0].view(np.int64)
    fits = (words[:, 1].view(np.int64) == low >> 63) & (np.abs(low) < 2**53)
    if a.type.scale <= 22 and fits.all():  # both sides exact: one correctly rounded division
        data = low.astype(np.float64) / 10.0**a.type.scale
        return column(data, pa.float64(), validity(a)).cast(t)
    return a.cast(pa.string()).cast(pa.float64()).cast(t)


def from_floats(call: KernelCall, a: pa.Array) -> pa.Array:
    """A float column as NUMERIC: 15 significant digits (real: 6), as PostgreSQL converts."""
    from decimal import Decimal

    from streamsql.core.errors import StreamSqlError
    from streamsql.functions.textio.scalar_input import fit_decimal

    digits = 15 if a.type == pa.float64() else 6
    encoded = a.dictionary_encode()
    read: list[Decimal | None] = []
    bad = np.zeros(len(encoded.dictionary), np.bool_)
    for i, x in enumerate(encoded.dictionary.to_pylist()):
        try:
            read.append(fit_decimal(Decimal(f"{x:.{digits}g}"), call.type))
        except (StreamSqlError, ArithmeticError):
            read.append(None)
            bad[i] = True
    result = pa.array(read, call.type.arrow).take(encoded.indices)
    if bad.any():
        rows = bad[np.asarray(encoded.indices.fill_null(0))]
        if a.null_count:
            rows = rows & np.asarray(a.is_valid())
        error = numeric_overflow(call.type)
        call.fail(rows, NumericValueOutOfRange, error.message, error.detail)
    return result


def negate(call: KernelCall, a: pa.Array) -> pa.Array:
    """-a."""
    words = decimal_words(a)
    out = np.empty_like(words)
    np.subtract(np.uint64(0), words[:, 0], out=out[:, 0])
    out[:, 1] = ~words[:, 1] + (out[:, 0] == 0).astype(np.uint64)
    return column(out, a.type, validity(a))


def absolute(call: KernelCall, a: pa.Array) -> pa.Array:
    """|a|."""
    words = decimal_words(a)
    negative = words[:, 1].view(np.int64) < 0
    if not negative.any():
        return a
    opposite = decimal_words(negate(call, a))
    return column(np.where(negative[:, None], opposite, words), a.type, validity(a))


def sign(a: pa.Array) -> Any:
    """int64 [n]: -1, 0, 1."""
    words = decimal_words(a)
    negative = words[:, 1].view(np.int64) < 0
    nonzero = (words[:, 0] != 0) | (words[:, 1] != 0)
    return np.where(negative, -1, nonzero.astype(np.int64))
