"""128-bit integers as two 64-bit words: division for averages, and range checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsql.kernels.bits import mum, store_i64, store_u8
from streamsql.kernels.jit import Word, device, kernel

U0, U1 = np.uint64(0), np.uint64(1)
U32, U63 = np.uint64(32), np.uint64(63)
LOW32 = np.uint64(0xFFFFFFFF)
BILLION = np.uint64(1_000_000_000)
# 10 ** 38 as (high, low)
TOP_HIGH, TOP_LOW = np.uint64(0x4B3B4CA85A86C47A), np.uint64(0x098A224000000000)


@device
def negate(high: Word, low: Word) -> tuple[Word, Word]:
    """Two's complement of a 128-bit number in uint64 words."""
    low = ~low + U1
    high = ~high + (U1 if low == U0 else U0)
    return high, low


@device
def times_plus(high: Word, low: Word, factor: Word, addend: Word) -> tuple[Word, Word]:
    """(high, low) * factor + addend in unsigned 128 bits."""
    product = low * factor
    upper = mum(low, factor) ^ product
    total = product + addend
    carry = U1 if total < addend else U0
    return high * factor + upper + carry, total


@device
def divide(high: Word, low: Word, n: Word) -> tuple[Word, Word, Word]:
    """(quotient high, quotient low, remainder) of an unsigned 128-bit number by n > 0."""
    if n <= LOW32:
        q_high, r = high // n, high % n
        part = (r << U32) | (low >> U32)
        upper, r = part // n, part % n
        part = (r << U32) | (low & LOW32)
        return q_high, (upper << U32) | (part // n), part % n
    q_high, q_low, r = U0, U0, U0
    for _ in range(128):
        top = high >> U63
        high = (high << U1) | (low >> U63)
        low = low << U1
        carry = r >> U63
        r = (r << U1) | top
        q_high = (q_high << U1) | (q_low >> U63)
        q_low = q_low << U1
        if carry == U1 or r >= n:
            r -= n
            q_low |= U1
    return q_high, q_low, r


@device
def scaled_quotient(high: Word, low: Word, n: Word, power: Word) -> tuple[Word, Word]:
    """(high, low) * 10 ** power / n, rounded half away from zero; unsigned."""
    q_high, q_low, r = divide(high, low, n)
    left = power
    while left > 0:
        if n <= LOW32 and left >= 9:
            step, left = BILLION, left - 9
        else:
            step, left = np.uint64(10), left - 1
        r = r * step
        q_high, q_low = times_plus(q_high, q_low, step, r // n)
        r = r % n
    if r >= n - r:
        q_high, q_low = times_plus(q_high, q_low, U1, U1)
    return q_high, q_low


@kernel
def average(low: Any, high: Any, count: Any, power: Word, out: Any) -> None:
    """out: int64[n, 2] (low, high) = (low, high) * 10 ** power / count; 0 where count <= 0."""
    for i in range(count.size):
        if count[i] <= 0:
            out[i, 0] = out[i, 1] = 0
            continue
        h, w = np.uint64(high[i]), np.uint64(low[i])
        negative = high[i] < 0
        if negative:
            h, w = negate(h, w)
        h, w = scaled_quotient(h, w, np.uint64(count[i]), power)
        if negative:
            h, w = negate(h, w)
        out[i, 0], out[i, 1] = np.int64(w), np.int64(h)


@kernel
def out_of_range(low: Any, high: Any, out: Any) -> bool:
    """out: bool[n], True where the number has more than 38 digits; returns whether any has."""
    some = False
    for i in range(low.size):
        h, w = np.uint64(high[i]), np.uint64(low[i])
        if high[i] < 0:
            h, w = negate(h, w)
        out[i] = h > TOP_HIGH or (h == TOP_HIGH and w >= TOP_LOW)
        some = some or out[i]
    return some


@kernel
def decimals(cells: Any, at: int, out: int, bits: int) -> int:
    """Lanes [count, low, high] from `at` on as decimal128 values at the address `out`, with a
    validity bitmap at `bits`: NULL where the count is not above 0. Returns the number of NULLs, or
    -1 if a number has more than 38 digits."""
    nulls = 0
    byte = U0
    n = cells.shape[0]
    for i in range(n):
        low, high = 0, 0
        if cells[i, at] > 0:
            byte |= U1 << np.uint64(i & 7)
            low, high = cells[i, at + 1], cells[i, at + 2]
            h, w = np.uint64(high), np.uint64(low)
            if high < 0:
                h, w = negate(h, w)
            if h > TOP_HIGH or (h == TOP_HIGH and w >= TOP_LOW):
                return -1
        else:
            nulls += 1
        if i & 7 == 7 or i == n - 1:
            store_u8(bits + (i >> 3), byte)
            byte = U0
        store_i64(out + 16 * i, low)
        store_i64(out + 16 * i + 8, high)
    return nulls


@kernel
def to_real(low: Any, high: Any, divisor: float, out: Any) -> None:
    """out: float64[n], the numbers divided by `divisor`."""
    for i in range(low.size):
        h, w = np.uint64(high[i]), np.uint64(low[i])
        negative = high[i] < 0
        if negative:
            h, w = negate(h, w)
        value = (float(h) * 18446744073709551616.0 + float(w)) / divisor
        out[i] = -value if negative else value
