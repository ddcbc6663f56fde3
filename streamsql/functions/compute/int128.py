"""128-bit integers as pairs of uint64 for numba, which has none of its own.

Magnitudes are unsigned (low, high); signs are kept apart. Wider products live in arrays of 32-bit
limbs, least significant first. All constants are np.uint64: mixing signed and unsigned would make
floats.
"""

from __future__ import annotations

import numpy as np
from numba import njit

U0 = np.uint64(0)
U1 = np.uint64(1)
U32 = np.uint64(32)
U63 = np.uint64(63)
MASK32 = np.uint64(0xFFFFFFFF)
LIMBS = 24  # 768 bits: 38 digits times 10^76 fits

POW10 = np.array([[10**k & (2**64 - 1), 10**k >> 64] for k in range(39)], dtype=np.uint64)
"""10^k as (low, high), k = 0 … 38."""


@njit(inline="always")
def umul64(a, b):  # type: ignore[no-untyped-def]
    """64 x 64 -> 128 bits: (low, high)."""
    a0 = a & MASK32
    a1 = a >> U32
    b0 = b & MASK32
    b1 = b >> U32
    low = a0 * b0
    mid = a1 * b0 + (low >> U32)
    mid2 = a0 * b1 + (mid & MASK32)
    return (mid2 << U32) | (low & MASK32), a1 * b1 + (mid >> U32) + (mid2 >> U32)


@njit(inline="always")
def add128(al, ah, bl, bh):  # type: ignore[no-untyped-def]
    """Sum modulo 2^128."""
    low = al + bl
    carry = U1 if low < al else U0
    return low, ah + bh + carry


@njit(inline="always")
def neg128(al, ah):  # type: ignore[no-untyped-def]
    """Two's complement negation."""
    low = ~al + U1
    high = ~ah + (U1 if low == U0 else U0)
    return low, high


@njit(inline="always")
def less128(al, ah, bl, bh):  # type: ignore[no-untyped-def]
    """a < b, unsigned."""
    return ah < bh or (ah == bh and al < bl)


@njit(inline="always")
def magnitude(low, high):  # type: ignore[no-untyped-def]
    """(negative, low, high) of a two's complement value."""
    if high >> U63:
        low, high = neg128(low, high)
        return True, low, high
    return False, low, high


@njit
def mul128_limbs(al, ah, bl, bh, out):  # type: ignore[no-untyped-def]
    """128 x 128 -> 256 bits into out[0:8]; the rest of `out` is cleared."""
    for i in range(out.size):
        out[i] = U0
    l0, h0 = umul64(al, bl)
    l1, h1 = umul64(al, bh)
    l2, h2 = umul64(ah, bl)
    l3, h3 = umul64(ah, bh)
    w1, c1 = add128(h0, U0, l1, U0)
    w1, c2 = add128(w1, U0, l2, U0)
    w2, c3 = add128(h1, U0, h2, U0)
    w2, c4 = add128(w2, U0, l3, U0)
    w2, c5 = add128(w2, U0, c1 + c2, U0)
    w3 = h3 + c3 + c4 + c5
    out[0] = l0 & MASK32
    out[1] = l0 >> U32
    out[2] = w1 & MASK32
    out[3] = w1 >> U32
    out[4] = w2 & MASK32
    out[5] = w2 >> U32
    out[6] = w3 & MASK32
    out[7] = w3 >> U32


@njit
def limbs_mul_small(limbs, factor):  # type: ignore[no-untyped-def]
    """limbs *= factor (< 2^32)."""
    carry = U0
    for i in range(limbs.size):
        t = limbs[i] * factor + carry
        limbs[i] = t & MASK32
        carry = t >> U32


@njit
def limbs_div_small(limbs, divisor):  # type: ignore[no-untyped-def]
    """limbs //= divisor (< 2^32); returns the remainder."""
    rest = U0
    for i in range(limbs.size - 1, -1, -1):
        t = (rest << U32) | limbs[i]
        limbs[i] = t // divisor
        rest = t - limbs[i] * divisor
    return rest


@njit
def limbs_scale_down(limbs, k):  # type: ignore[no-untyped-def]
    """limbs = round(limbs / 10^k), halves up in magnitude. k >= 1."""
    rest = U0
    divisor = U1
    while k > 0:
        step = min(k, 9)
        divisor = U1
        for _ in range(step):
            divisor *= np.uint64(10)
        rest = limbs_div_small(limbs, divisor)
        k -= step
    # the last, most significant remainder decides: the ones before are below it in weight
    if rest * np.uint64(2) >= divisor:
        i = 0
        while i < limbs.size:
            limbs[i] += U1
            if limbs[i] <= MASK32:
                break
            limbs[i] = U0
            i += 1


@njit
def limbs_scale_up(limbs, k):  # type: ignore[no-untyped-def]
    """limbs *= 10^k."""
    while k > 0:
        step = min(k, 9)
        factor = U1
        for _ in range(step):
            factor *= np.uint64(10)
        limbs_mul_small(limbs, factor)
        k -= step


@njit
def limbs_to_128(limbs):  # type: ignore[no-untyped-def]
    """(fits, low, high) of a limb array."""
    for i in range(4, limbs.size):
        if limbs[i] != U0:
            return False, U0, U0
    return True, limbs[0] | (limbs[1] << U32), limbs[2] | (limbs[3] << U32)


@njit
def limbs_divmod(u, v, q):  # type: ignore[no-untyped-def]
    """q = u // v, u = u % v for limb arrays; v != 0. Knuth's algorithm D, base 2^32."""
    for i in range(q.size):
        q[i] = U0
    n = v.size
    while n > 0 and v[n - 1] == U0:
        n -= 1
    m = u.size
    while m > 0 and u[m - 1] == U0:
        m -= 1
    if m < n:
        return
    if n == 1:
        rest = U0
        d = v[0]
        for i in range(m - 1, -1, -1):
            t = (rest << U32) | u[i]
            q[i] = t // d
            rest = t - q[i] * d
            u[i] = U0
        u[0] = rest
        return
    shift = U0
    top = v[n - 1]
    while (top << shift) & np.uint64(0x80000000) == U0:
        shift += U1
    un = np.zeros(m + 1, np.uint64)
    vn = np.zeros(n, np.uint64)
    for i in range(n):
        low = v[i - 1] >> (U32 - shift) if i > 0 else U0
        vn[i] = ((v[i] << shift) | low) & MASK32
    un[m] = u[m - 1] >> (U32 - shift)
    for i in range(m):
        low = u[i - 1] >> (U32 - shift) if i > 0 else U0
        un[i] = ((u[i] << shift) | low) & MASK32
    base = np.uint64(1) << U32
    for j in range(m - n, -1, -1):
        head = (un[j + n] << U32) | un[j + n - 1]
        qhat = head // vn[n - 1]
        rhat = head - qhat * vn[n - 1]
        while qhat >= base or qhat * vn[n - 2] > ((rhat << U32) | un[j + n - 2]):
            qhat -= U1
            rhat += vn[n - 1]
            if rhat >= base:
                break
        borrow = U0
        carry = U0
        for i in range(n):
            p = qhat * vn[i] + carry
            carry = p >> U32
            t = un[i + j] - (p & MASK32) - borrow
            un[i + j] = t & MASK32
            borrow = (t >> U63) & U1
        t = un[j + n] - carry - borrow
        un[j + n] = t & MASK32
        if (t >> U63) & U1:
            qhat -= U1
            carry = U0
            for i in range(n):
                t = un[i + j] + vn[i] + carry
                un[i + j] = t & MASK32
                carry = t >> U32
            un[j + n] = (un[j + n] + carry) & MASK32
        q[j] = qhat
    for i in range(u.size):
        u[i] = U0
    for i in range(n):
        high = un[i + 1] << (U32 - shift) if i + 1 <= m else U0
        u[i] = ((un[i] >> shift) | high) & MASK32
