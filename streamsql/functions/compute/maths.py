"""Kernels of the mathematical functions over numpy, with PostgreSQL's domain errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import (
    InvalidArgumentForLogarithm,
    InvalidArgumentForPower,
    InvalidArgumentForWidthBucket,
    NullValueNotAllowed,
    NumericValueOutOfRange,
    StreamSqlError,
)
from streamsql.core.types import BOOLEAN, Kind
from streamsql.functions.compute import decimals
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    decimal_words,
    from_bools,
    validity,
    values,
    with_nulls_at,
)
from streamsql.functions.compute.grouped import by_value_failing, constants
from streamsql.functions.compute.integers import float_result, numbers
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.scalar_input import fit_decimal

_WIDE = Context(prec=60)


def _unary(ufunc: Callable[[Any], Any]) -> Callable[..., Any]:
    """A numpy function defined everywhere."""

    def kernel(call: KernelCall, a: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            return float_result(call, ufunc(values(a)), a)

    return kernel


def _domain(
    ufunc: Callable[[Any], Any],
    outside: Callable[[Any], Any],
    error: type[StreamSqlError],
    message: Callable[[float], str] | str,
) -> Callable[..., Any]:
    """A numpy function with a domain; rows outside fail."""

    def kernel(call: KernelCall, a: pa.Array) -> pa.Array:
        data = values(a)
        with np.errstate(all="ignore"):
            bad = outside(data)
            if not bad.any():
                return float_result(call, ufunc(data), a)
            text = message if isinstance(message, str) else lambda row: message(float(data[row]))  # type: ignore[operator]
            call.fail(bad, error, text)
            safe = np.where(bad, 1.0, data)
            return with_nulls_at(float_result(call, ufunc(safe), a), bad)

    return kernel


def _log_message(x: float) -> str:
    return f"cannot take logarithm of {'zero' if x == 0 else 'a negative number'}"


def _nonpositive(x: Any) -> Any:
    return x <= 0


_OUT = "input is out of range"
sqrt = _domain(np.sqrt, lambda x: x < 0, InvalidArgumentForPower,
               "cannot take square root of a negative number")  # fmt: skip
ln = _domain(np.log, _nonpositive, InvalidArgumentForLogarithm, _log_message)
log10 = _domain(np.log10, _nonpositive, InvalidArgumentForLogarithm, _log_message)
log2 = _domain(np.log2, _nonpositive, InvalidArgumentForLogarithm, _log_message)
asin = _domain(np.arcsin, lambda x: np.abs(x) > 1, NumericValueOutOfRange, _OUT)
acos = _domain(np.arccos, lambda x: np.abs(x) > 1, NumericValueOutOfRange, _OUT)
acosh = _domain(np.arccosh, lambda x: x < 1, NumericValueOutOfRange, _OUT)
atanh = _domain(np.arctanh, lambda x: np.abs(x) > 1, NumericValueOutOfRange, _OUT)
sin, cos, tan, cot = (
    _domain(f, np.isinf, NumericValueOutOfRange, _OUT)
    for f in (np.sin, np.cos, np.tan, lambda x: 1 / np.tan(x))
)
atan = _unary(np.arctan)
sinh, cosh, tanh, asinh = _unary(np.sinh), _unary(np.cosh), _unary(np.tanh), _unary(np.arcsinh)
degrees, radians = _unary(np.degrees), _unary(np.radians)
cbrt, exp = _unary(np.cbrt), _unary(np.exp)
ceil, floor, trunc, rint = _unary(np.ceil), _unary(np.floor), _unary(np.trunc), _unary(np.rint)
sign = _unary(lambda x: np.where(np.isnan(x), 0.0, np.sign(x)))


def atan2(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """atan2(y, x)."""
    return float_result(call, np.arctan2(numbers(a), numbers(b)), a, b)


def power(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a ^ b of floats."""
    x = np.broadcast_to(numbers(a), call.num_rows)
    y = np.broadcast_to(numbers(b), call.num_rows)
    with np.errstate(all="ignore"):
        complex_ = (x < 0) & (y != np.trunc(y)) & ~np.isinf(y)
        zero = (x == 0) & (y < 0)
        data = np.power(x, y)
    bad = complex_ | zero
    if complex_.any():
        message = "a negative number raised to a non-integer power yields a complex result"
        call.fail(complex_, InvalidArgumentForPower, message)
    if zero.any():
        message = "zero raised to a negative power is undefined"
        call.fail(zero, InvalidArgumentForPower, message)
    if bad.any():
        data = np.where(bad, 1.0, data)
        return with_nulls_at(float_result(call, data, a, b), bad)
    return float_result(call, data, a, b)


# --- NUMERIC ------------------------------------------------------------------------------------
def _decimal(call: KernelCall, a: pa.Array, fn: Callable[[Decimal], Decimal]) -> pa.Array:
    """A decimal function once per distinct value."""

    def one(v: Decimal) -> Decimal:
        try:
            return fit_decimal(fn(v), call.type)
        except ArithmeticError:
            raise NumericValueOutOfRange("value overflows numeric format") from None

    return by_value_failing(call, a, one, call.type.arrow)


def _positive(v: Decimal) -> Decimal:
    if v <= 0:
        raise InvalidArgumentForLogarithm(_log_message(float(v)))
    return v


def numeric_sqrt(call: KernelCall, a: pa.Array) -> pa.Array:
    """sqrt(numeric)."""

    def one(v: Decimal) -> Decimal:
        if v < 0:
            message = "cannot take square root of a negative number"
            raise InvalidArgumentForPower(message)
        return _WIDE.sqrt(v)

    return _decimal(call, a, one)


def numeric_exp(call: KernelCall, a: pa.Array) -> pa.Array:
    """exp(numeric)."""
    return _decimal(call, a, _WIDE.exp)


def numeric_ln(call: KernelCall, a: pa.Array) -> pa.Array:
    """ln(numeric)."""
    return _decimal(call, a, lambda v: _WIDE.ln(_positive(v)))


def numeric_log10(call: KernelCall, a: pa.Array) -> pa.Array:
    """log(numeric)."""
    return _decimal(call, a, lambda v: _WIDE.log10(_positive(v)))


def _pairs(
    call: KernelCall, a: Value, b: Value, fn: Callable[[Decimal, Decimal], Decimal]
) -> pa.Array:
    pair = pa.StructArray.from_arrays(
        [broadcast(a, call.num_rows), broadcast(b, call.num_rows)], names=["x", "y"]
    )
    made: list[Decimal | None] = []
    bad: dict[int, StreamSqlError] = {}
    memo: dict[tuple[Decimal, Decimal], Decimal | StreamSqlError] = {}
    for i, row in enumerate(pair.to_pylist()):
        x, y = row["x"], row["y"]
        if x is None or y is None:
            made.append(None)
            continue
        if (x, y) not in memo:
            try:
                memo[x, y] = fit_decimal(fn(x, y), call.type)
            except StreamSqlError as e:
                memo[x, y] = e
            except ArithmeticError:
                memo[x, y] = NumericValueOutOfRange("value overflows numeric format")
        found = memo[x, y]
        if isinstance(found, StreamSqlError):
            bad[i] = found
            made.append(None)
        else:
            made.append(found)
    for cls in {type(e) for e in bad.values()}:
        ours = {i: e for i, e in bad.items() if type(e) is cls}
        rows = np.isin(np.arange(call.num_rows), list(ours))
        call.fail(rows, cls, lambda r, ours=ours: ours[r].message)  # type: ignore[misc]
    return pa.array(made, call.type.arrow)


def numeric_power(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """numeric ^ numeric."""

    def one(x: Decimal, y: Decimal) -> Decimal:
        if x == 0 and y < 0:
            raise InvalidArgumentForPower("zero raised to a negative power is undefined")
        if x < 0 and y != y.to_integral_value():
            message = "a negative number raised to a non-integer power yields a complex result"
            raise InvalidArgumentForPower(message)
        if x == 0:
            return Decimal(1 if y == 0 else 0)
        return _WIDE.power(x, y)

    return _pairs(call, a, b, one)


def numeric_log(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """log(base, numeric)."""
    from streamsql.core.errors import DivisionByZero

    def one(base: Decimal, x: Decimal) -> Decimal:
        divisor, dividend = _WIDE.ln(_positive(base)), _WIDE.ln(_positive(x))
        if not divisor:
            raise DivisionByZero("division by zero")
        return _WIDE.divide(dividend, divisor)

    return _pairs(call, a, b, one)


def numeric_div(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """div(a, b): the whole quotient, towards zero."""
    from streamsql.core.errors import DivisionByZero

    def one(x: Decimal, y: Decimal) -> Decimal:
        if y == 0:
            raise DivisionByZero("division by zero")
        return _WIDE.divide_int(x, y)

    return _pairs(call, a, b, one)


def numeric_sign(call: KernelCall, a: pa.Array) -> pa.Array:
    """-1, 0, 1."""
    from streamsql.functions.compute import decimal_loops

    out = np.empty((len(a), 2), np.uint64)
    decimal_loops.int_to_decimal(np.ascontiguousarray(decimals.sign(a)), out)
    return column(out, call.type.arrow, validity(a))


def numeric_ceil(call: KernelCall, a: pa.Array) -> pa.Array:
    """ceil(numeric)."""
    return decimals.round_at(call, a, 0, 3)


def numeric_floor(call: KernelCall, a: pa.Array) -> pa.Array:
    """floor(numeric)."""
    return decimals.round_at(call, a, 0, 2)


@constants(1)
def numeric_round(call: KernelCall, a: pa.Array, places: Any = None) -> pa.Array:
    """round(numeric[, places]): half away from zero."""
    return decimals.round_at(call, a, 0 if places is None else places.as_py(), 0)


@constants(1)
def numeric_trunc(call: KernelCall, a: pa.Array, places: Any = None) -> pa.Array:
    """trunc(numeric[, places])."""
    return decimals.round_at(call, a, 0 if places is None else places.as_py(), 1)


def numeric_scale(call: KernelCall, a: pa.Array) -> pa.Array:
    """Digits after the point (of storage; trailing zeros of bare NUMERIC do not count)."""
    from streamsql.functions.compute import format_loops
    from streamsql.functions.textio.output import trims

    offsets, drop = np.zeros(len(a) + 1, np.int32), np.zeros(len(a), np.int8)
    trim = trims(call.arg_types[0])
    format_loops.decimal_offsets(decimal_words(a), a.type.scale, trim, offsets, drop)
    return column((a.type.scale - drop).astype(np.int32), pa.int32(), validity(a))


def numeric_min_scale(call: KernelCall, a: pa.Array) -> pa.Array:
    """Digits after the point that the value needs."""
    from streamsql.functions.compute import format_loops

    offsets, drop = np.zeros(len(a) + 1, np.int32), np.zeros(len(a), np.int8)
    format_loops.decimal_offsets(decimal_words(a), a.type.scale, True, offsets, drop)
    return column((a.type.scale - drop).astype(np.int32), pa.int32(), validity(a))


def numeric_trim_scale(call: KernelCall, a: pa.Array) -> pa.Array:
    """The same value in storage whose trailing zeros are not shown."""
    return decimals.rescale(call, a)


# --- integers -----------------------------------------------------------------------------------
def gcd(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """Greatest common divisor."""
    data = np.broadcast_to(np.gcd(numbers(a), numbers(b)), call.num_rows)
    return column(data, call.type.arrow, validity(a, b))


def lcm(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """Least common multiple."""
    x = np.broadcast_to(numbers(a), call.num_rows).astype(object)
    y = np.broadcast_to(numbers(b), call.num_rows).astype(object)
    exact = np.array([math.lcm(int(p), int(q)) for p, q in zip(x, y, strict=True)], object)
    bits = call.type.arrow.bit_width
    bad = np.array([v >= 2 ** (bits - 1) for v in exact], np.bool_)
    data = np.array([0 if f else int(v) for v, f in zip(exact, bad, strict=True)], np.int64)
    result = column(data.astype(f"i{bits // 8}"), call.type.arrow, validity(a, b))
    if bad.any():
        call.fail(bad, NumericValueOutOfRange, f"{call.type.kind.value} out of range")
        return with_nulls_at(result, bad)
    return result


def factorial(call: KernelCall, a: pa.Array) -> pa.Array:
    """n!"""

    def one(n: int) -> Decimal:
        if n < 0:
            raise NumericValueOutOfRange("factorial of a negative number is undefined")
        if n > 33:
            raise NumericValueOutOfRange("value overflows numeric format")
        return Decimal(math.factorial(n))

    return by_value_failing(call, a, one, call.type.arrow)


def integer_sign(call: KernelCall, a: pa.Array) -> pa.Array:
    """sign of an integer, as double precision."""
    return column(np.sign(values(a)).astype(np.float64), pa.float64(), validity(a))


def _bits(ufunc: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def kernel(call: KernelCall, a: Value, b: Value) -> pa.Array:
        data = np.broadcast_to(ufunc(numbers(a), numbers(b)), call.num_rows)
        return column(data, call.type.arrow, validity(a, b))

    return kernel


bit_and, bit_or, bit_xor = _bits(np.bitwise_and), _bits(np.bitwise_or), _bits(np.bitwise_xor)


def _shift(left: bool) -> Callable[..., Any]:
    def kernel(call: KernelCall, a: Value, b: Value) -> pa.Array:
        x = np.broadcast_to(numbers(a), call.num_rows)
        mask = call.type.arrow.bit_width - 1  # as the hardware: the count modulo the width
        mask = max(mask, 31)
        count = (np.broadcast_to(numbers(b), call.num_rows) & mask).astype(x.dtype)
        data = np.left_shift(x, count) if left else np.right_shift(x, count)
        return column(data.astype(x.dtype), call.type.arrow, validity(a, b))

    return kernel


shift_left, shift_right = _shift(True), _shift(False)


def bit_not(call: KernelCall, a: pa.Array) -> pa.Array:
    """~a"""
    return column(~values(a), call.type.arrow, validity(a))


def width_bucket(call: KernelCall, a: Value, low: Value, high: Value, count: Value) -> pa.Array:
    """Which of `count` equal buckets between low and high holds the value; 0 and count+1
    outside."""
    n = call.num_rows
    if call.arg_types[0].kind is Kind.NUMERIC:
        x, lo, hi = (
            values(decimals.to_floats(broadcast(v, n), pa.float64())) for v in (a, low, high)
        )
    else:
        x, lo, hi = (values(broadcast(v, n)) for v in (a, low, high))
    buckets = values(broadcast(count, n)).astype(np.int64)
    bad_count, bad_bounds = buckets <= 0, lo == hi
    if bad_count.any():
        call.fail(bad_count, InvalidArgumentForWidthBucket, "count must be greater than zero")
    if bad_bounds.any():
        call.fail(bad_bounds & ~bad_count, InvalidArgumentForWidthBucket,
                  "lower bound cannot equal upper bound")  # fmt: skip
    span = np.where(bad_bounds, 1, hi - lo)
    inside = np.floor((x - lo) * buckets / span).astype(np.int64) + 1
    below = np.where(hi > lo, x < lo, x > lo)
    above = np.where(hi > lo, x >= hi, x <= hi)
    data = np.where(below, 0, np.where(above, buckets + 1, inside))
    result = column(data.astype(np.int32), pa.int32(), validity(a, low, high, count))
    bad = bad_count | bad_bounds
    return with_nulls_at(result, bad) if bad.any() else result


def width_bucket_array(call: KernelCall, a: Value, thresholds: Value) -> Any:
    """How many of the ascending thresholds are not above the value."""
    if isinstance(thresholds, pa.Scalar):
        return _among(call, broadcast(a, call.num_rows), thresholds)
    rows, lists = broadcast(a, call.num_rows), thresholds.to_pylist()
    groups: dict[Any, list[int]] = {}
    for i, bounds in enumerate(lists):
        groups.setdefault(repr(bounds), []).append(i)
    out = pa.nulls(call.num_rows, pa.int32())
    for at in groups.values():
        if lists[at[0]] is None:
            continue
        mine = np.zeros(call.num_rows, np.bool_)
        mine[at] = True
        inner = KernelCall(call.num_rows, call.type, call.arg_types)
        found = _among(inner, rows, thresholds[at[0]])
        call.failures += [f for f in (x.only(mine) for x in inner.failures) if f is not None]
        out = pc.if_else(from_bools(mine), found, out)
    return out


def _among(call: KernelCall, a: pa.Array, thresholds: pa.Scalar) -> Any:
    """The number of thresholds not above each value, found by halving as PostgreSQL does."""
    from streamsql.functions.compute.comparisons import compare

    bounds = thresholds.values
    if bounds.null_count:
        call.fail(True, NullValueNotAllowed, "thresholds array must not contain NULLs")
        return pa.scalar(None, pa.int32())
    kind = call.arg_types[0]
    inner = KernelCall(len(a), BOOLEAN, (kind, kind))
    low, high = np.zeros(len(a), np.int64), np.full(len(a), len(bounds), np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        bound = bounds.take(column(np.minimum(middle, len(bounds) - 1), pa.int64()))
        reached = np.asarray(compare("ge", inner, a, bound).fill_null(False))
        open_ = low < high
        low = np.where(open_ & reached, middle + 1, low)
        high = np.where(open_ & ~reached, middle, high)
    return column(low.astype(np.int32), pa.int32(), validity(a))
