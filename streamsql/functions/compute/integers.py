"""Integer and float columns: checked arithmetic with PostgreSQL's errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import DivisionByZero, NumericValueOutOfRange
from streamsql.functions.compute.columns import (
    Value,
    column,
    flat,
    validity,
    values,
    with_nulls_at,
)
from streamsql.functions.definitions import KernelCall


def numbers(value: Value) -> Any:
    """numpy data of a column, or a numpy scalar of a constant."""
    if isinstance(value, pa.Array):
        return values(value)
    if pa.types.is_floating(value.type):  # equal keys for 0.0 and -0.0: not remembered
        return value.type.to_pandas_dtype()(value.as_py())
    return _constant(value)


@lru_cache(maxsize=4096)
def _constant(value: pa.Scalar) -> Any:
    return values(pa.repeat(value, 1))[0]


def _wide(call: KernelCall, operation: Callable[[Any, Any], Any], a: Value, b: Value) -> Any:
    """Rows on which an exact computation leaves the result's range (bool [n])."""
    bits = call.type.arrow.bit_width
    if bits < 64:
        exact = operation(np.int64(numbers(a)) if np.isscalar(numbers(a)) else
                          numbers(a).astype(np.int64), numbers(b))  # fmt: skip
        return (exact < -(2 ** (bits - 1))) | (exact >= 2 ** (bits - 1))
    x = numbers(a).astype(object) if isinstance(a, pa.Array) else int(numbers(a))
    y = numbers(b).astype(object) if isinstance(b, pa.Array) else int(numbers(b))
    exact = operation(x, y)
    return np.asarray((exact < -(2**63)) | (exact >= 2**63), np.bool_)


def checked(
    arrow: Callable[[Any, Any], Any],
    unchecked: Callable[[Any, Any], Any],
    exact: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    """An integer operator: Arrow's checked kernel, and only if that finds an overflow, which
    rows."""

    def kernel(call: KernelCall, a: Value, b: Value) -> Any:
        try:
            return arrow(a, b)
        except pa.ArrowInvalid:
            bad = np.broadcast_to(_wide(call, exact, a, b), call.num_rows)
            if not bad.any():  # only slots under NULL overflow
                return unchecked(a, b)
            call.fail(bad, NumericValueOutOfRange, f"{call.type.kind.value} out of range")
            return with_nulls_at(flat(unchecked(a, b)), bad)

    return kernel


add = checked(pc.add_checked, pc.add, lambda x, y: x + y)
subtract = checked(pc.subtract_checked, pc.subtract, lambda x, y: x - y)
multiply = checked(pc.multiply_checked, pc.multiply, lambda x, y: x * y)


def _zero_rows(call: KernelCall, b: Value) -> Any:
    return np.broadcast_to(numbers(b) == 0, call.num_rows)


def divide(call: KernelCall, a: Value, b: Value) -> Any:
    """Integer division towards zero."""
    try:
        return pc.divide_checked(a, b)
    except pa.ArrowInvalid:
        pass
    zero = _zero_rows(call, b)
    x, y = numbers(a), numbers(b)
    low = np.iinfo(call.type.arrow.to_pandas_dtype()).min
    overflow = np.broadcast_to((x == low) & (y == -1), call.num_rows)
    if zero.any():
        call.fail(zero, DivisionByZero, "division by zero")
    if overflow.any():
        call.fail(overflow, NumericValueOutOfRange, f"{call.type.kind.value} out of range")
    bad = zero | overflow
    safe = np.where(bad, 1, np.broadcast_to(y, call.num_rows)).astype(np.asarray(y).dtype)
    divisor = column(safe, call.type.arrow)
    result = flat(pc.divide(a if isinstance(a, pa.Array) else pa.repeat(a, call.num_rows), divisor))
    result = with_nulls_at(result, bad)
    if isinstance(b, pa.Array) and b.null_count:
        result = flat(pc.if_else(b.is_valid(), result, pa.scalar(None, result.type)))
    return result


def modulo(call: KernelCall, a: Value, b: Value) -> Any:
    """Remainder with the sign of the dividend."""
    x, y = numbers(a), numbers(b)
    if isinstance(b, pa.Scalar) and y not in (0, -1):
        return column(_remainder(x, y), call.type.arrow, validity(a))
    zero = np.broadcast_to(y == 0, call.num_rows)
    if zero.any():
        call.fail(zero, DivisionByZero, "division by zero")
    # min % -1 overflows in C; the remainder by 1 is the same
    safe = np.where((y == 0) | (y == -1), 1, y).astype(np.asarray(y).dtype)
    data = np.broadcast_to(np.fmod(x, safe), call.num_rows)
    result = column(data, call.type.arrow, validity(a, b))
    return with_nulls_at(result, zero) if zero.any() else result


def _remainder(x: Any, y: Any) -> Any:
    """fmod by a constant: numpy turns a division by one number, unlike fmod, into products."""
    if not isinstance(x, np.ndarray) or x.dtype != np.asarray(y).dtype:
        return np.fmod(x, y)
    floored = np.floor_divide(x, y)
    floored *= y
    rest = np.subtract(x, floored, out=floored)  # has the sign of y
    if y < 0 or (x.size and x.min() < 0):
        rest[(rest != 0) & ((x < 0) != (y < 0))] -= y
    return rest


def negate(call: KernelCall, a: pa.Array) -> Any:
    """-a; the least integer has no opposite."""
    return subtract(call, pa.scalar(0, a.type), a)


def absolute(call: KernelCall, a: pa.Array) -> Any:
    """|a|."""
    low = np.iinfo(a.type.to_pandas_dtype()).min
    bad = values(a) == low
    if bad.any():
        call.fail(bad, NumericValueOutOfRange, f"{call.type.kind.value} out of range")
    return pc.abs(a)


# --- floats -------------------------------------------------------------------------------------
def float_result(call: KernelCall, data: Any, *args: Value, zero_ok: Any = True) -> pa.Array:
    """A float column; infinity out of finite arguments fails, and so does a zero that was not one.

    zero_ok: rows (or all) on which a zero result is exact.
    """
    data = np.broadcast_to(data, call.num_rows).astype(
        call.type.arrow.to_pandas_dtype(), copy=False
    )
    result = column(data, call.type.arrow, validity(*args))
    bad = None
    infinite = np.isinf(data)
    if infinite.any():
        fine = np.zeros(call.num_rows, np.bool_)
        for a in args:
            fine |= np.isinf(np.broadcast_to(numbers(a), call.num_rows))
        bad = infinite & ~fine
        if bad.any():
            call.fail(bad, NumericValueOutOfRange, "value out of range: overflow")
    if zero_ok is not True:
        lost = (data == 0) & ~np.broadcast_to(zero_ok, call.num_rows)
        if lost.any():
            call.fail(lost, NumericValueOutOfRange, "value out of range: underflow")
            bad = lost if bad is None else bad | lost
    return result if bad is None or not bad.any() else with_nulls_at(result, bad)


def float_add(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a + b."""
    with np.errstate(all="ignore"):
        return float_result(call, numbers(a) + numbers(b), a, b)


def float_subtract(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a - b."""
    with np.errstate(all="ignore"):
        return float_result(call, numbers(a) - numbers(b), a, b)


def float_multiply(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a * b."""
    x, y = numbers(a), numbers(b)
    with np.errstate(all="ignore"):
        return float_result(call, x * y, a, b, zero_ok=(x == 0) | (y == 0))


def float_divide(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a / b; by zero is an error even for floats."""
    x, y = numbers(a), numbers(b)
    zero = np.broadcast_to((y == 0) & ~np.isnan(x), call.num_rows)
    if zero.any():
        call.fail(zero, DivisionByZero, "division by zero")
        y = np.where(y == 0, np.ones_like(y), y)
    with np.errstate(all="ignore"):
        result = float_result(call, x / y, a, b, zero_ok=(x == 0) | np.isinf(y) | zero)
    return with_nulls_at(result, zero) if zero.any() else result


def to_narrow(call: KernelCall, a: pa.Array) -> Any:
    """An integer column in a narrower type."""
    try:
        return a.cast(call.type.arrow)
    except pa.ArrowInvalid:
        bits = call.type.arrow.bit_width
        data = values(a)
        bad = (data < -(2 ** (bits - 1))) | (data >= 2 ** (bits - 1))
        call.fail(bad, NumericValueOutOfRange, f"{call.type.kind.value} out of range")
        return with_nulls_at(a.cast(call.type.arrow, safe=False), bad)


def float_to_integer(call: KernelCall, a: pa.Array) -> pa.Array:
    """A float column rounded half to even; NaN and what does not fit fail."""
    data = np.rint(values(a).astype(np.float64))
    bits = call.type.arrow.bit_width
    with np.errstate(invalid="ignore"):
        bad = ~((data >= -(2.0 ** (bits - 1))) & (data < 2.0 ** (bits - 1)))
    if bad.any():
        call.fail(bad, NumericValueOutOfRange, f"{call.type.kind.value} out of range")
        data = np.where(bad, 0, data)
    result = column(data.astype(f"i{bits // 8}"), call.type.arrow, validity(a))
    return with_nulls_at(result, bad) if bad.any() else result


def to_real(call: KernelCall, a: pa.Array) -> pa.Array:
    """DOUBLE to REAL; what leaves its range fails."""
    data = values(a)
    with np.errstate(all="ignore"):
        narrow = data.astype(np.float32)
    return float_result(call, narrow, a, zero_ok=data == 0)


def float_negate(call: KernelCall, a: pa.Array) -> Any:
    """-a."""
    return pc.negate(a)


def float_absolute(call: KernelCall, a: pa.Array) -> Any:
    """|a|."""
    return pc.abs(a)
