"""Trigonometry in degrees: exact where the angle is, sind(30) = 0.5 (PostgreSQL's float.c)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import NumericValueOutOfRange
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    validity,
    values,
    with_nulls_at,
)
from streamsql.functions.definitions import KernelCall

_RADIANS = math.pi / 180.0
_SIN_30, _ONE_MINUS_COS_60 = math.sin(30 * _RADIANS), 1.0 - math.cos(60 * _RADIANS)
_ASIN_HALF, _ACOS_HALF = math.asin(0.5), math.acos(0.5)
_ATAN_1 = math.atan(1.0)


def _sin_0_to_30(x: Any) -> Any:
    return np.sin(x * _RADIANS) / _SIN_30 / 2.0


def _cos_0_to_60(x: Any) -> Any:
    return 1.0 - (1.0 - np.cos(x * _RADIANS)) / _ONE_MINUS_COS_60 / 2.0


def _sin_first(x: Any) -> Any:
    """sin of 0 … 90 degrees."""
    return np.where(x <= 30.0, _sin_0_to_30(x), _cos_0_to_60(90.0 - x))


def _cos_first(x: Any) -> Any:
    """cos of 0 … 90 degrees."""
    return np.where(x <= 60.0, _cos_0_to_60(x), _sin_0_to_30(90.0 - x))


def _tan_first(x: Any) -> Any:
    at = np.array([45.0])
    one = _sin_first(at) / _cos_first(at)
    return _sin_first(x) / _cos_first(x) / one


def _cot_first(x: Any) -> Any:
    at = np.array([45.0])
    one = _cos_first(at) / _sin_first(at)
    return _cos_first(x) / _sin_first(x) / one


def _folded(x: Any) -> tuple[Any, Any, Any]:
    """(angle in 0 … 90, sign of the sine, sign of the cosine)."""
    turn = np.fmod(x, 360.0)
    sine = np.where(turn < 0.0, -1.0, 1.0)
    turn = np.abs(turn)
    over = turn > 180.0
    turn = np.where(over, 360.0 - turn, turn)
    sine = np.where(over, -sine, sine)
    obtuse = turn > 90.0
    return np.where(obtuse, 180.0 - turn, turn), sine, np.where(obtuse, -1.0, 1.0)


def _sind(x: Any) -> Any:
    angle, sine, _ = _folded(x)
    return sine * _sin_first(angle)


def _cosd(x: Any) -> Any:
    angle, _, cosine = _folded(x)
    return cosine * _cos_first(angle)


def _tand(x: Any) -> Any:
    angle, sine, cosine = _folded(x)
    return sine * cosine * _tan_first(angle)


def _cotd(x: Any) -> Any:
    angle, sine, cosine = _folded(x)
    return sine * cosine * _cot_first(angle)


def _asin_first(x: Any) -> Any:
    """asin of 0 … 1 in degrees."""
    low = np.arcsin(x) / _ASIN_HALF * 30.0
    high = 90.0 - np.arccos(x) / _ACOS_HALF * 60.0
    return np.where(x <= 0.5, low, high)


def _acos_first(x: Any) -> Any:
    low = 90.0 - np.arcsin(x) / _ASIN_HALF * 30.0
    high = np.arccos(x) / _ACOS_HALF * 60.0
    return np.where(x <= 0.5, low, high)


def _asind(x: Any) -> Any:
    return np.where(x >= 0.0, _asin_first(x), -_asin_first(-x))


def _acosd(x: Any) -> Any:
    return np.where(x >= 0.0, _acos_first(x), 90.0 + _asin_first(-x))


def _atand(x: Any) -> Any:
    return np.arctan(x) / _ATAN_1 * 45.0


def _kernel(compute: Callable[[Any], Any], outside: Callable[[Any], Any]) -> Callable[..., Any]:
    def kernel(call: KernelCall, a: Value) -> Any:
        x = values(broadcast(a, call.num_rows))
        with np.errstate(all="ignore"):
            bad = outside(x)
            data = compute(np.where(bad, 0.0, x)) + 0.0
        result = column(data, pa.float64(), validity(a))
        if not bad.any():
            return result
        call.fail(bad, NumericValueOutOfRange, "input is out of range")
        return with_nulls_at(result, bad)

    return kernel


def _beyond_one(x: Any) -> Any:
    return np.abs(x) > 1.0


sind, cosd, tand, cotd = (_kernel(f, np.isinf) for f in (_sind, _cosd, _tand, _cotd))
asind, acosd = (_kernel(f, _beyond_one) for f in (_asind, _acosd))
atand = _kernel(_atand, lambda x: np.zeros(len(x), np.bool_))


def atan2d(call: KernelCall, a: Value, b: Value) -> Any:
    """The angle of the point (b, a), in degrees."""
    y, x = values(broadcast(a, call.num_rows)), values(broadcast(b, call.num_rows))
    return column(np.arctan2(y, x) / _ATAN_1 * 45.0, pa.float64(), validity(a, b))
