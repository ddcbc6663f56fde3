"""Loops that write numbers, dates and bytes as text: lengths first, then the bytes.

Text goes into one uint8 buffer at int32 offsets [n + 1], the layout of an Arrow string column. Rows
under NULL may hold anything that does not crash the loop; the caller masks them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamsql.functions.compute.int128 import POW10, U0, U32, less128, magnitude
from streamsql.functions.compute.loops import loop

_TEN9 = np.uint64(1_000_000_000)
_TEN = np.uint64(10)


@njit(inline="always")
def _split(low, high):  # type: ignore[no-untyped-def]
    """Quotient (low, high) and remainder of a magnitude by 10^9."""
    rest = U0
    t = high >> U32
    q3 = t // _TEN9
    rest = t - q3 * _TEN9
    t = (rest << U32) | (high & np.uint64(0xFFFFFFFF))
    q2 = t // _TEN9
    rest = t - q2 * _TEN9
    t = (rest << U32) | (low >> U32)
    q1 = t // _TEN9
    rest = t - q1 * _TEN9
    t = (rest << U32) | (low & np.uint64(0xFFFFFFFF))
    q0 = t // _TEN9
    rest = t - q0 * _TEN9
    return (q1 << U32) | q0, (q3 << U32) | q2, rest


@njit
def _digit_count(low, high):  # type: ignore[no-untyped-def]
    count = 1
    while count < 39 and not less128(low, high, POW10[count, 0], POW10[count, 1]):
        count += 1
        if count == 39:
            break
    return count


@njit
def _trailing_zeros(low, high, scale):  # type: ignore[no-untyped-def]
    zeros = 0
    while zeros < scale:
        ql, qh, rest = _split(low, high)
        if rest != U0:
            while zeros < scale and rest % _TEN == U0:
                rest //= _TEN
                zeros += 1
            return zeros
        if low == U0 and high == U0:
            return scale
        low, high = ql, qh
        zeros += 9
    return min(zeros, scale)


@loop(0)
def decimal_offsets(a, scale, trim, offsets, drop):  # type: ignore[no-untyped-def]
    """offsets of the texts; drop [n]: decimals left out (trailing zeros, when `trim`)."""
    total = 0
    for i in range(a.shape[0]):
        negative, low, high = magnitude(a[i, 0], a[i, 1])
        cut = _trailing_zeros(low, high, scale) if trim and scale > 0 else 0
        drop[i] = cut
        shown = scale - cut
        whole = max(_digit_count(low, high) - scale, 1)
        total += whole + (1 if negative else 0) + (shown + 1 if shown > 0 else 0)
        offsets[i + 1] = total
    return total


@loop(0, 2, 3)
def decimal_text(a, scale, offsets, drop, out):  # type: ignore[no-untyped-def]
    """Write the texts whose offsets `decimal_offsets` found."""
    digits = np.zeros(48, np.uint8)
    for i in range(a.shape[0]):
        negative, low, high = magnitude(a[i, 0], a[i, 1])
        for j in range(48):
            digits[j] = 0
        j = 0
        while low != U0 or high != U0:
            low, high, rest = _split(low, high)
            for k in range(9):
                digits[j + k] = rest % _TEN
                rest //= _TEN
            j += 9
        at = offsets[i]
        end = offsets[i + 1]
        if negative:
            out[at] = 45
            at += 1
        shown = scale - drop[i]
        whole = end - at - (shown + 1 if shown > 0 else 0)
        for k in range(whole):
            out[at] = 48 + digits[scale + whole - 1 - k]
            at += 1
        if shown > 0:
            out[at] = 46
            at += 1
            for k in range(shown):
                out[at] = 48 + digits[scale - 1 - k]
                at += 1


@njit
def _two(out, at, v):  # type: ignore[no-untyped-def]
    out[at] = 48 + v // 10
    out[at + 1] = 48 + v % 10


@njit
def _civil(days):  # type: ignore[no-untyped-def]
    days += 719468
    era = days // 146097
    doe = days - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = mp + 3 if mp < 10 else mp - 9
    year = yoe + era * 400
    if month <= 2:
        year += 1
    return year, month, day


@njit
def _date(out, at, days):  # type: ignore[no-untyped-def]
    year, month, day = _civil(days)
    _two(out, at, year // 100)
    _two(out, at + 2, year % 100)
    out[at + 4] = 45
    _two(out, at + 5, month)
    out[at + 7] = 45
    _two(out, at + 8, day)


@njit
def _fraction_width(us):  # type: ignore[no-untyped-def]
    """Characters of ".ffffff" without trailing zeros."""
    if us == 0:
        return 0
    width = 7
    while us % 10 == 0:
        us //= 10
        width -= 1
    return width


@njit
def _clock(out, at, us):  # type: ignore[no-untyped-def]
    """HH:MM:SS[.ffffff] of µs since midnight; returns the end."""
    seconds = us // 1_000_000
    fraction = us - seconds * 1_000_000
    _two(out, at, seconds // 3600)
    out[at + 2] = 58
    _two(out, at + 3, seconds // 60 % 60)
    out[at + 5] = 58
    _two(out, at + 6, seconds % 60)
    at += 8
    if fraction:
        width = _fraction_width(fraction)
        out[at] = 46
        unit = 100_000
        for k in range(1, width):
            out[at + k] = 48 + fraction // unit % 10
            unit //= 10
        at += width
    return at


@loop(0, 1)
def date_text(days, usual, out):  # type: ignore[no-untyped-def]
    """YYYY-MM-DD, 10 bytes a row; rows not `usual` (year outside 1 … 9999) are left blank."""
    for i in range(days.size):
        if usual[i]:
            _date(out, i * 10, np.int64(days[i]))
        else:
            for k in range(10):
                out[i * 10 + k] = 32


@loop(0)
def time_offsets(us, offsets):  # type: ignore[no-untyped-def]
    """offsets of HH:MM:SS[.f] texts."""
    total = 0
    for i in range(us.size):
        total += 8 + _fraction_width(us[i] % 1_000_000)
        offsets[i + 1] = total
    return total


@loop(0, 1)
def time_text(us, offsets, out):  # type: ignore[no-untyped-def]
    """HH:MM:SS[.f]."""
    for i in range(us.size):
        _clock(out, offsets[i], min(max(us[i], 0), 86_400_000_000))


@njit
def _suffix_width(offset):  # type: ignore[no-untyped-def]
    if offset % 60:
        return 9
    return 6 if offset % 3600 else 3


@loop(0, 1, 2)
def timestamp_offsets(us, zone_offsets, usual, offsets):  # type: ignore[no-untyped-def]
    """offsets of "YYYY-MM-DD HH:MM:SS[.f][+HH[:MM]]" texts. zone_offsets: seconds [n], or [0]
    without a suffix; us is local. Rows not `usual` are empty."""
    total = 0
    for i in range(us.size):
        if usual[i]:
            total += 19 + _fraction_width(us[i] % 1_000_000)
            if zone_offsets.size:
                total += _suffix_width(zone_offsets[i])
        offsets[i + 1] = total
    return total


@loop(0, 1, 2, 3)
def timestamp_text(us, zone_offsets, usual, offsets, out):  # type: ignore[no-untyped-def]
    """Write the texts whose offsets `timestamp_offsets` found."""
    for i in range(us.size):
        if not usual[i]:
            continue
        at = offsets[i]
        days = us[i] // 86_400_000_000
        _date(out, at, days)
        out[at + 10] = 32
        at = _clock(out, at + 11, us[i] - days * 86_400_000_000)
        if zone_offsets.size:
            z = zone_offsets[i]
            out[at] = 45 if z < 0 else 43
            z = abs(z)
            _two(out, at + 1, z // 3600)
            if z % 3600:
                out[at + 3] = 58
                _two(out, at + 4, z // 60 % 60)
            if z % 60:
                out[at + 6] = 58
                _two(out, at + 7, z % 60)


@loop(0, 1, 2)
def hex_text(offsets, data, out_offsets, out):  # type: ignore[no-untyped-def]
    r"""\x… of each value; out_offsets are given: 2 + 2 * length each."""
    for i in range(offsets.size - 1):
        at = out_offsets[i]
        out[at] = 92
        out[at + 1] = 120
        at += 2
        for j in range(offsets[i], offsets[i + 1]):
            byte = np.int64(data[j])
            first = byte >> 4
            second = byte & 15
            out[at] = first + (48 if first < 10 else 87)
            out[at + 1] = second + (48 if second < 10 else 87)
            at += 2
