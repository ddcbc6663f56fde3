"""Numbers as the unevaluated sum of two floats (106 bits): what NUMERIC's digits need, column-wise.

A pair is (high, low), float64[n] each, |low| at most half a unit in the last place of high.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Reals = np.ndarray
Pair = tuple[Reals, Reals]
_WHOLE_MAX = 2.0**62


def product(a: Reals, b: Reals) -> Pair:
    """(a * b rounded, what rounding left out): Dekker's product."""
    high = a * b
    a1, b1 = _upper(a), _upper(b)
    a2, b2 = a - a1, b - b1
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


def _upper(a: Reals) -> Reals:
    split = 134217729.0 * a
    return split - (split - a)


def two_sum(a: Reals, b: Reals) -> Pair:
    """(a + b rounded, what rounding left out): Knuth's sum."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def divide(pair: Pair, by: Reals) -> Pair:
    """A pair divided by floats.

    >>> high, low = divide((np.array([7.0]), np.array([0.0])), np.array([3.0]))
    >>> decimals((high, low), 20)[0].as_py()
    Decimal('2.33333333333333333333')
    """
    first = pair[0] / by
    whole, rest = product(first, by)
    return two_sum(first, ((pair[0] - whole) - rest + pair[1]) / by)


def root(pair: Pair) -> Pair:
    """The square root of a pair that is not negative."""
    first = np.sqrt(pair[0])
    whole, rest = product(first, first)
    left = ((pair[0] - whole) - rest + pair[1]) / np.where(first > 0, 2.0 * first, 1.0)
    return two_sum(first, left)


def decimals(pair: Pair, scale: int) -> pa.Array:
    """Pairs as decimal128(38, scale), rounded once. Values must be below 2^62, scale from 1 to 20.

    The fraction is made 15 digits at a time, as integers that a float holds exactly.
    """
    whole = np.floor(pair[0])
    fraction: Pair = two_sum(pair[0] - whole, pair[1])
    more = np.floor(fraction[0])  # beyond 2^53 the low part has whole units too
    fraction = two_sum(fraction[0] - more, fraction[1])
    done = _as_decimal(whole.astype(np.int64) + more.astype(np.int64), 0, scale)
    step = min(scale, 15)
    at = 0
    while at < scale:
        power = np.full(pair[0].size, 10.0**step)
        high, low = product(fraction[0], power)
        high, low = two_sum(high, low + fraction[1] * power)
        last = at + step == scale
        digits = np.rint(high) if last else np.floor(high)
        left = two_sum(high - digits, low)
        if last:
            digits += np.rint(left[0])
        at += step
        done = pc.add(done, _as_decimal(digits.astype(np.int64), at, scale))
        done = done.cast(pa.decimal128(37, scale))
        fraction, step = left, min(scale - at, 15)
    return done.cast(pa.decimal128(38, scale))


def _as_decimal(values: np.ndarray, digits: int, scale: int) -> pa.Array:
    """value * 10^-digits as decimal128(37, scale), where an addition still has room."""
    words = np.empty((values.size, 2), np.int64)
    words[:, 0], words[:, 1] = values, values >> 63
    made = pa.Array.from_buffers(
        pa.decimal128(37 - scale + digits, digits), values.size, [None, pa.py_buffer(words)]
    )
    return made.cast(pa.decimal128(37, scale))


def fits(pair: Pair) -> bool:
    """Whether `decimals` can take all values."""
    return not pair[0].size or bool(np.nanmax(np.abs(pair[0])) < _WHOLE_MAX)
