"""Loops over decimal128 columns: exact, rounding half away from zero, overflow found per row.

Columns are uint64 [n, 2] (two's complement words); a step of 0 repeats a constant. Each loop fills
`bad`: uint8 [n], 0 = fine, 1 = does not fit the result's precision, 2 = division by zero. Rows
under NULL are computed too (on whatever lies there) and their `bad` is for the caller to mask.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamsql.functions.compute.int128 import (
    LIMBS,
    POW10,
    U0,
    U1,
    U32,
    U63,
    add128,
    less128,
    limbs_divmod,
    limbs_scale_down,
    limbs_scale_up,
    limbs_to_128,
    magnitude,
    mul128_limbs,
    neg128,
    umul64,
)
from streamsql.functions.compute.loops import loop

BAD_OVERFLOW = 1
BAD_ZERO = 2


@loop(0)
def int_times_constant(a, m, out):  # type: ignore[no-untyped-def]
    """out = a * m for int64 a [n] and an int64 m: always fits."""
    negative_m = m < 0
    um = np.uint64(-m) if negative_m else np.uint64(m)
    for i in range(a.size):
        x = a[i]
        negative = x < 0
        ux = U0 - np.uint64(x) if negative else np.uint64(x)
        low, high = umul64(ux, um)
        if negative != negative_m:
            low, high = neg128(low, high)
        out[i, 0] = low
        out[i, 1] = high


@loop(0)
def int_to_decimal(a, out):  # type: ignore[no-untyped-def]
    """Sign-extend int64 [n] to 128 bits."""
    for i in range(a.size):
        out[i, 0] = np.uint64(a[i])
        out[i, 1] = np.uint64(a[i] >> 63)


@njit(inline="always")
def _store(out, bad, i, negative, low, high, ll, lh):  # type: ignore[no-untyped-def]
    if not less128(low, high, ll, lh):
        bad[i] = BAD_OVERFLOW
        low, high = U0, U0
    if negative:
        low, high = neg128(low, high)
    out[i, 0] = low
    out[i, 1] = high


@loop(0, 2)
def multiply(a, sa, b, sb, drop, precision, out, bad):  # type: ignore[no-untyped-def]
    """out = round(a * b / 10^drop), below 10^precision."""
    limbs = np.zeros(LIMBS, np.uint64)
    ll, lh = POW10[precision, 0], POW10[precision, 1]
    any_bad = False
    for i in range(bad.size):
        na, al, ah = magnitude(a[i * sa, 0], a[i * sa, 1])
        nb, bl, bh = magnitude(b[i * sb, 0], b[i * sb, 1])
        fits = True
        if ah == U0 and bh == U0 and drop == 0:
            low, high = umul64(al, bl)
            fits = (high >> U63) == U0
        else:
            mul128_limbs(al, ah, bl, bh, limbs)
            if drop > 0:
                limbs_scale_down(limbs, drop)
            fits, low, high = limbs_to_128(limbs)
        if not fits:
            low, high = ll, lh
        _store(out, bad, i, na != nb, low, high, ll, lh)
        any_bad = any_bad or bad[i] != 0
    return any_bad


@njit(inline="always")
def _up(low, high, k):  # type: ignore[no-untyped-def]
    """(fits 127 bits, low, high) of a magnitude times 10^k, k <= 38."""
    if k == 0:
        return True, low, high
    pl, ph = POW10[k, 0], POW10[k, 1]
    l0, h0 = umul64(low, pl)
    if high == U0 and ph == U0:
        return (h0 >> U63) == U0, l0, h0
    if min(high, ph) != U0:
        return False, U0, U0
    l1, h1 = umul64(low, ph) if ph != U0 else umul64(high, pl)
    top = h0 + l1
    overflow = h1 != U0 or top < h0 or (top >> U63) != U0
    return not overflow, l0, top


@loop(0, 3)
def add(a, sa, ka, b, sb, kb, subtract, precision, out, bad):  # type: ignore[no-untyped-def]
    """out = a * 10^ka ± b * 10^kb, below 10^precision."""
    ll, lh = POW10[precision, 0], POW10[precision, 1]
    any_bad = False
    for i in range(bad.size):
        na, al, ah = magnitude(a[i * sa, 0], a[i * sa, 1])
        nb, bl, bh = magnitude(b[i * sb, 0], b[i * sb, 1])
        fa, al, ah = _up(al, ah, ka)
        fb, bl, bh = _up(bl, bh, kb)
        nb = nb != subtract
        if na == nb:
            low, high = add128(al, ah, bl, bh)
            negative = na
            fits = (high >> U63) == U0
        elif less128(al, ah, bl, bh):
            nl, nh = neg128(al, ah)
            low, high = add128(bl, bh, nl, nh)
            negative, fits = nb, True
        else:
            nl, nh = neg128(bl, bh)
            low, high = add128(al, ah, nl, nh)
            negative, fits = na, True
        if not (fa and fb and fits):
            low, high = ll, lh
        _store(out, bad, i, negative, low, high, ll, lh)
        any_bad = any_bad or bad[i] != 0
    return any_bad


@loop(0)
def rescale(a, k, precision, mode, out, bad):  # type: ignore[no-untyped-def]
    """out = a * 10^k below 10^precision; for k < 0 by mode: 0 half away, 1 towards zero,
    2 floor, 3 ceiling."""
    limbs = np.zeros(8, np.uint64)
    ll, lh = POW10[precision, 0], POW10[precision, 1]
    any_bad = False
    for i in range(bad.size):
        negative, low, high = magnitude(a[i, 0], a[i, 1])
        fits = True
        if k >= 0:
            fits, low, high = _up(low, high, k)
        elif mode == 0:
            mul128_limbs(low, high, U1, U0, limbs)
            limbs_scale_down(limbs, -k)
            fits, low, high = limbs_to_128(limbs)
        else:
            low, high = _truncate(low, high, -k, limbs, (mode == 2) == negative and mode != 1)
        if not fits:
            low, high = ll, lh
        _store(out, bad, i, negative, low, high, ll, lh)
        any_bad = any_bad or bad[i] != 0
    return any_bad


@njit
def _truncate(low, high, k, limbs, away):  # type: ignore[no-untyped-def]
    """Magnitude // 10^k, plus one when `away` and something was cut off."""
    mul128_limbs(low, high, U1, U0, limbs)
    sticky = False
    while k > 0:
        step = min(k, 9)
        divisor = U1
        for _ in range(step):
            divisor *= np.uint64(10)
        rest = U0
        for j in range(3, -1, -1):
            t = (rest << U32) | limbs[j]
            limbs[j] = t // divisor
            rest = t - limbs[j] * divisor
        sticky = sticky or rest != U0
        k -= step
    low = limbs[0] | (limbs[1] << U32)
    high = limbs[2] | (limbs[3] << U32)
    if away and sticky:
        low, high = add128(low, high, U1, U0)
    return low, high


@njit
def _divide_small(a, factor, b):  # type: ignore[no-untyped-def]
    """(low, high, remainder) of a * factor // b for a 32-bit b."""
    mask = np.uint64(0xFFFFFFFF)
    low, high = umul64(a, factor)
    q3 = (high >> U32) // b
    rest = (high >> U32) - q3 * b
    t = (rest << U32) | (high & mask)
    q2 = t // b
    t = ((t - q2 * b) << U32) | (low >> U32)
    q1 = t // b
    t = ((t - q1 * b) << U32) | (low & mask)
    q0 = t // b
    return (q1 << U32) | q0, (q3 << U32) | q2, t - q0 * b


@loop(0, 2)
def divide(a, sa, b, sb, k, precision, out, bad):  # type: ignore[no-untyped-def]
    """out = round(a * 10^k / b), below 10^precision; k <= 76."""
    u = np.zeros(LIMBS, np.uint64)
    v = np.zeros(4, np.uint64)
    q = np.zeros(LIMBS, np.uint64)
    ll, lh = POW10[precision, 0], POW10[precision, 1]
    any_bad = False
    for i in range(bad.size):
        na, al, ah = magnitude(a[i * sa, 0], a[i * sa, 1])
        nb, bl, bh = magnitude(b[i * sb, 0], b[i * sb, 1])
        if bl == U0 and bh == U0:
            bad[i] = BAD_ZERO
            any_bad = True
            out[i, 0] = U0
            out[i, 1] = U0
            continue
        if ah == U0 and bh == U0 and k <= 19 and (bl >> U32) == U0:
            # a 128-bit dividend and a 32-bit divisor: four machine divisions
            low, high, rl = _divide_small(al, POW10[k, 0], bl)
            if rl * np.uint64(2) >= bl:
                low, high = add128(low, high, U1, U0)
            _store(out, bad, i, na != nb, low, high, ll, lh)
            any_bad = any_bad or bad[i] != 0
            continue
        mul128_limbs(al, ah, U1, U0, u)
        limbs_scale_up(u, k)
        v[0] = bl & np.uint64(0xFFFFFFFF)
        v[1] = bl >> U32
        v[2] = bh & np.uint64(0xFFFFFFFF)
        v[3] = bh >> U32
        limbs_divmod(u, v, q)
        fits, low, high = limbs_to_128(q)
        _, rl, rh = limbs_to_128(u)
        # round half away: remainder * 2 >= divisor
        tl, th = add128(rl, rh, rl, rh)
        if not less128(tl, th, bl, bh):
            low, high = add128(low, high, U1, U0)
        if not fits or (high >> U63) != U0:
            low, high = ll, lh
        _store(out, bad, i, na != nb, low, high, ll, lh)
        any_bad = any_bad or bad[i] != 0
    return any_bad


@loop(0, 3)
def remainder(a, sa, ka, b, sb, kb, out, bad):  # type: ignore[no-untyped-def]
    """out = a * 10^ka mod b * 10^kb with the sign of a."""
    u = np.zeros(LIMBS, np.uint64)
    v = np.zeros(LIMBS, np.uint64)
    q = np.zeros(LIMBS, np.uint64)
    any_bad = False
    for i in range(bad.size):
        na, al, ah = magnitude(a[i * sa, 0], a[i * sa, 1])
        _, bl, bh = magnitude(b[i * sb, 0], b[i * sb, 1])
        if bl == U0 and bh == U0:
            bad[i] = BAD_ZERO
            any_bad = True
            out[i, 0] = U0
            out[i, 1] = U0
            continue
        mul128_limbs(al, ah, U1, U0, u)
        limbs_scale_up(u, ka)
        mul128_limbs(bl, bh, U1, U0, v)
        limbs_scale_up(v, kb)
        limbs_divmod(u, v, q)
        _, low, high = limbs_to_128(u)
        if na:
            low, high = neg128(low, high)
        out[i, 0] = low
        out[i, 1] = high
    return any_bad


@loop(0)
def to_int64(a, scale, limit, out, bad):  # type: ignore[no-untyped-def]
    """out = round(a / 10^scale), halves away from zero; bad unless -limit-1 <= out <= limit."""
    limbs = np.zeros(8, np.uint64)
    any_bad = False
    for i in range(bad.size):
        negative, low, high = magnitude(a[i, 0], a[i, 1])
        if scale > 0:
            mul128_limbs(low, high, U1, U0, limbs)
            limbs_scale_down(limbs, scale)
            _, low, high = limbs_to_128(limbs)
        top = limit + U1 if negative else limit
        if high != U0 or low > top:
            bad[i] = BAD_OVERFLOW
            any_bad = True
            out[i] = 0
        else:
            out[i] = np.int64(U0 - low) if negative else np.int64(low)
    return any_bad


@loop(0, 3)
def compare(a, sa, ka, b, sb, kb, out):  # type: ignore[no-untyped-def]
    """out = -1, 0, 1: the order of a * 10^ka and b * 10^kb, exact for any scale."""
    for i in range(out.size):
        na, al, ah = magnitude(a[i * sa, 0], a[i * sa, 1])
        nb, bl, bh = magnitude(b[i * sb, 0], b[i * sb, 1])
        if na != nb:
            out[i] = -1 if na else 1
            continue
        fa, al, ah = _up(al, ah, ka)
        fb, bl, bh = _up(bl, bh, kb)
        # only one side is scaled, so if it does not fit it is the larger one
        if not fa:
            order = 1
        elif not fb:
            order = -1
        elif al == bl and ah == bh:
            order = 0
        else:
            order = -1 if less128(al, ah, bl, bh) else 1
        out[i] = -order if na else order
