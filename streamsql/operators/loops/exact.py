"""Exact sums of floats: every value is cut into 32-bit digits of one huge fixed-point number.

A finite float64 is m * 2^e with |m| < 2^53. With the lowest bit of all at 2^-1074, it covers at
most three digits of base 2^32, numbered from 0. Each group keeps the digits it needs, two to four
as a rule, as entries in a chain from `chain` (int64 by group, the first entry); an entry is a row
of `entries`, int64[., 2]: [number | next entry << 8, value], which lies in one cache line. Sums are
the same whatever the order of rows, and what is taken back leaves nothing behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsql.kernels.bits import bit, bits_of, load_f32, load_f64, load_integer, prefetch
from streamsql.kernels.jit import device, kernel

DIGITS = 72
NUMBER, NEXT = 255, 8  # the bits of an entry's number, and where the next entry stands
BLOCK = 32  # chains that are asked for side by side
MASK32 = 0xFFFFFFFF
FRACTION = (1 << 52) - 1
NONE = -1
SPLITTER = 134217729.0  # 2^27 + 1
LARGEST_SQUARE = 1.0e150


@device
def load_real(address: int, width: int, i: int) -> float:
    """Value i of a float column of this width."""
    return load_f64(address + 8 * i) if width == 8 else load_f32(address + 4 * i)


@device
def cut(x: float, out_digit: Any, out_value: Any, k: int) -> int:
    """Append the non-zero digits of a finite x at k; returns how many there are now."""
    if x == 0.0:
        return k
    word: Any = np.int64(bits_of(x))
    exponent = (word >> 52) & 0x7FF
    m = word & FRACTION
    if exponent == 0:
        position = 0
    else:
        m |= 1 << 52
        position = exponent - 1
    digit, shift = position >> 5, position & 31
    sign = -1 if word < 0 else 1
    low = (m << shift) & MASK32
    rest = m >> (32 - shift)
    if low != 0:
        out_digit[k], out_value[k] = digit, sign * low
        k += 1
    if (rest & MASK32) != 0:
        out_digit[k], out_value[k] = digit + 1, sign * (rest & MASK32)
        k += 1
    if (rest >> 32) != 0:
        out_digit[k], out_value[k] = digit + 2, sign * (rest >> 32)
        k += 1
    return k


@kernel
def digits_of(
    cells: Any, at: int, slots: Any, weights: Any,
    address: int, width: int, scale: float, valid: int, valid_offset: int, squares: bool,
    out_group: Any, out_digit: Any, out_value: Any,
) -> int:  # fmt: skip
    """Cut each value (or its square) into digits; count special ones in the cells.

    width: 8 or 4 = floats, negative = integers of that many bytes, times `scale`. Cells: lanes
    [count, NaNs, +infinities, -infinities] from `at`; counted only while `squares` is False.
    Outputs: int64[6 n], filled up to the returned number.
    """
    weighted = weights.size > 0
    k = 0
    for i in range(slots.size):
        if not bit(valid, valid_offset + i):
            continue
        w = weights[i] if weighted else 1
        s = slots[i]
        if width > 0:
            x = load_real(address, width, i)
        else:
            x = load_integer(address, -width, i) * scale
        special = 0
        if x != x:
            special = 1
        elif abs(x) == np.inf or (squares and abs(x) > LARGEST_SQUARE):
            special = 2 if x > 0 else 3
        if not squares:
            cells[s, at] += w
            if special:
                cells[s, at + special] += w
        if special:
            continue
        first = k
        if squares:
            high = x * x
            split = SPLITTER * x
            a = split - (split - x)
            b = x - a
            k = cut(high, out_digit, out_value, k)
            k = cut(((a * a - high) + 2.0 * a * b) + b * b, out_digit, out_value, k)
        else:
            k = cut(x, out_digit, out_value, k)
        for j in range(first, k):
            out_group[j] = s
            out_value[j] *= w
    return k


@device
def ask_for(groups: Any, start: int, chain: Any, entries: Any) -> None:
    """Prefetch the chains of the next BLOCK groups, entry by entry side by side: one after the
    other they would be as many waits for memory."""
    base = entries.ctypes.data
    at = np.empty(BLOCK, np.int64)
    live = min(BLOCK, groups.size - start)
    for i in range(live):
        prefetch(chain.ctypes.data + 8 * groups[start + i])
    for i in range(live):
        at[i] = chain[groups[start + i]]
        if at[i] >= 0:
            prefetch(base + 16 * at[i])
    while live:
        going = 0
        for i in range(live):
            if at[i] >= 0:
                at[going] = entries[at[i], 0] >> NEXT
                if at[going] >= 0:
                    prefetch(base + 16 * at[going])
                    going += 1
        live = going


@kernel
def add_digits(
    groups: Any, digits: Any, values: Any, start: int,
    chain: Any, entries: Any, free: Any, numbers: Any,
) -> int:  # fmt: skip
    """Add digit values, from `start` on, to the entries of their groups.

    numbers: [entries ever given out, entries in `free`, which are used again]. Returns where it
    stopped: n, or the first value for which there is no entry left.
    """
    for i in range(start, groups.size):
        if (i - start) % BLOCK == 0:
            ask_for(groups, i, chain, entries)
        g, digit = groups[i], digits[i]
        e = chain[g]
        while e >= 0 and entries[e, 0] & NUMBER != digit:
            e = entries[e, 0] >> NEXT
        if e < 0:
            if numbers[1] > 0:
                numbers[1] -= 1
                e = free[numbers[1]]
            elif numbers[0] < len(entries):
                e = numbers[0]
                numbers[0] += 1
            else:
                return i
            entries[e, 0] = (chain[g] << NEXT) | digit
            entries[e, 1] = 0
            chain[g] = e
        entries[e, 1] += values[i]
    return groups.size


@device
def collect(g: int, chain: Any, entries: Any, out: Any) -> bool:
    """The group's number as digits 0 <= d < 2^32 in out (int64[DIGITS]); returns whether it is
    negative (the digits then are those of its absolute value). Entries are carried as well."""
    out[:] = 0
    e = chain[g]
    while e >= 0:
        out[entries[e, 0] & NUMBER] += entries[e, 1]
        e = entries[e, 0] >> NEXT
    carry = 0
    for d in range(DIGITS):
        total = out[d] + carry
        out[d] = total & MASK32
        carry = total >> 32
    negative = carry < 0
    if negative:
        carry = 1
        for d in range(DIGITS):
            total = (MASK32 - out[d]) + carry
            out[d] = total & MASK32
            carry = total >> 32
    return negative


@device
def leading(digits: Any, top: int) -> tuple[float, int]:
    """(the three digits from `top` down as a float rounded to nearest even, the lowest of
    them)."""
    high = np.uint64(digits[top])
    middle = np.uint64(digits[top - 1]) if top >= 1 else np.uint64(0)
    low = np.uint64(digits[top - 2]) if top >= 2 else np.uint64(0)
    sticky = False
    for d in range(top - 2):
        sticky = sticky or digits[d] != 0
    # 64 bits with the highest bit set, and whether anything is below them
    word = (high << np.uint64(32)) | middle
    shift = np.uint64(0)
    while (word >> np.uint64(63)) == np.uint64(0):
        word = word << np.uint64(1)
        shift += np.uint64(1)
    if shift > np.uint64(0):
        word |= low >> (np.uint64(32) - shift)
        sticky = sticky or (low << shift) & np.uint64(MASK32) != np.uint64(0)
    else:
        sticky = sticky or low != np.uint64(0)
    kept = word >> np.uint64(11)
    rest = word & np.uint64(2047)
    half = np.uint64(1024)
    if rest > half or (rest == half and (sticky or (kept & np.uint64(1)) == np.uint64(1))):
        kept += np.uint64(1)
    # `word` stands for word * 2^(32 * (top - 1) - shift - 1074); 11 bits went
    went: Any = 32 * (top - 1) - np.int64(shift) - 1074 + 11
    return float(kept), went


@device
def power(x: float, exponent: int) -> float:
    """x * 2^exponent without an overflow on the way."""
    while exponent > 900:
        x *= 2.0**900
        exponent -= 900
    while exponent < -900:
        x *= 2.0**-900
        exponent += 900
    return x * 2.0**exponent


@device
def rounded(digits: Any, negative: bool) -> float:
    """The float nearest to the number."""
    top = DIGITS - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    value, exponent = leading(digits, top)
    value = power(value, exponent)
    return -value if negative else value


@kernel
def totals(groups: Any, chain: Any, entries: Any, out: Any, rest: Any) -> None:
    """out: float64[n], each group's sum rounded; rest: float64[n], what the rounding left out, or
    empty if it is not wanted."""
    digits = np.empty(DIGITS, np.int64)
    parts_digit, parts_value = np.empty(6, np.int64), np.empty(6, np.int64)
    for i in range(groups.size):
        if i % BLOCK == 0:
            ask_for(groups, i, chain, entries)
        negative = collect(groups[i], chain, entries, digits)
        out[i] = rounded(digits, negative)
        if rest.size == 0:
            continue
        found = 0
        if abs(out[i]) < np.inf:
            found = cut(-abs(out[i]), parts_digit, parts_value, 0)
        for j in range(found):
            digits[parts_digit[j]] += parts_value[j]
        carry = 0
        for d in range(DIGITS):
            total = digits[d] + carry
            digits[d] = total & MASK32
            carry = total >> 32
        below = carry < 0
        if below:
            carry = 1
            for d in range(DIGITS):
                total = (MASK32 - digits[d]) + carry
                digits[d] = total & MASK32
                carry = total >> 32
        rest[i] = rounded(digits, below != negative)


@kernel
def free_chains(groups: Any, chain: Any, entries: Any, free: Any, spare: int) -> int:
    """Put all entries of these groups into `free`, behind `spare` that are there, and empty their
    chains. Returns how many are there then; free as long as there may be entries."""
    for i in range(groups.size):
        e = chain[groups[i]]
        while e >= 0:
            free[spare] = e
            spare += 1
            e = entries[e, 0] >> NEXT
        chain[groups[i]] = NONE
    return spare


@device
def _put(x: float, sign: int, digits: Any, specials: Any, part_digit: Any, part_value: Any) -> None:
    """Add x (sign 1) to a running sum or take it out (-1); specials: [count, NaN, +inf, -inf]."""
    specials[0] += sign
    if x != x:
        specials[1] += sign
    elif x == np.inf:
        specials[2] += sign
    elif x == -np.inf:
        specials[3] += sign
    else:
        found = cut(x, part_digit, part_value, 0)
        for j in range(found):
            digits[part_digit[j]] += sign * part_value[j]


@device
def _read(digits: Any, scratch: Any, specials: Any) -> float:
    """The running sum, rounded once."""
    if specials[1] > 0 or (specials[2] > 0 and specials[3] > 0):
        return np.nan
    if specials[2] > 0:
        return np.inf
    if specials[3] > 0:
        return -np.inf
    carry = 0
    for d in range(DIGITS):
        total = digits[d] + carry
        scratch[d] = total & MASK32
        carry = total >> 32
    negative = carry < 0
    if negative:
        carry = 1
        for d in range(DIGITS):
            total = (MASK32 - scratch[d]) + carry
            scratch[d] = total & MASK32
            carry = total >> 32
    return rounded(scratch, negative)


@kernel
def frame_sums(
    values: Any, counts: Any, low: Any, x1: Any, x2: Any, high: Any, own: Any,
    out: Any, out_reals: Any,
) -> None:  # fmt: skip
    """[count, sum, 0] of frames (`loops.over_values`) over float64 values of which `counts` count.

    What enters and leaves from one frame to the next is added and taken out exactly, so that each
    sum is that of its own rows, rounded once.
    """
    digits, scratch = np.zeros(DIGITS, np.int64), np.empty(DIGITS, np.int64)
    specials = np.zeros(4, np.int64)
    part_digit, part_value = np.empty(6, np.int64), np.empty(6, np.int64)
    begin, end = 0, 0
    for i in range(low.size):
        if low[i] < begin or high[i] < end or low[i] >= end:
            digits[:] = 0
            specials[:] = 0
            begin, end = low[i], low[i]
        for at in range(end, high[i]):
            if counts[at]:
                _put(values[at], 1, digits, specials, part_digit, part_value)
        for at in range(begin, low[i]):
            if counts[at]:
                _put(values[at], -1, digits, specials, part_digit, part_value)
        begin, end = low[i], high[i]
        for sign in (-1, 1):
            for at in range(x1[i], x2[i]):
                if counts[at] and at != own[i]:
                    _put(values[at], sign, digits, specials, part_digit, part_value)
            if sign < 0:
                out[i, 0] = specials[0]
                out_reals[i, 1] = _read(digits, scratch, specials)
                out_reals[i, 2] = 0.0
