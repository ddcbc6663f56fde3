"""The loops of `hashing`: each folds one column into two 64-bit lanes per row, in place.

Common arguments: `valid` is the address of the validity bitmap (0 = no NULLs) whose bit for row i
is `valid_offset + i`; `first` = the lanes hold nothing yet (start from the key); `k0`, `k1`: the
hash key; `r0`, `r1`: uint64[n], the lanes.
"""

from __future__ import annotations

import numpy as np

from streamsql.kernels.bits import (
    bit,
    bits_of,
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    load_integer,
    load_u8,
    load_u32,
    load_u64,
    mum,
)
from streamsql.kernels.jit import Array, Int, device, kernel

Lanes = Array  # uint64[n]

# Odd constants without structure (digits of the golden ratio, pi, e and sqrt 2).
C0 = np.uint64(0x9E3779B97F4A7C15)
C1 = np.uint64(0xD1B54A32D192ED03)
C2 = np.uint64(0x8BB84B93962EACC9)
C3 = np.uint64(0x2D358DCCAA6C78A5)
C4 = np.uint64(0x4B33A62ED433D4A3)
C5 = np.uint64(0xA0761D6478BD642F)
NULL_WORD = np.uint64(0x6A09E667F3BCC909)
NAN_WORD = np.uint64(0x7FF8000000000000)
NS_PER_DAY = 86_400_000_000_000
DAYS_PER_MONTH = 30

INTEGER = 0
FLOAT = 1  # SQL equality: -0.0 = 0.0 and every NaN is one value
FLOAT_EXACT = 2  # representation: -0.0 and 0.0 differ, NaNs are one value


@device
def word(address: Int, width: Int, mode: Int, i: Int) -> Int:
    """Value i as one 64-bit word that is equal exactly when the values are."""
    if mode == INTEGER:
        return np.uint64(load_integer(address, width, i))
    value = load_f64(address + 8 * i) if width == 8 else load_f32(address + 4 * i)
    if value != value:
        return NAN_WORD
    if mode == FLOAT and value == 0.0:
        return np.uint64(0)
    return bits_of(value)


@device
def absorb0(lane: Int, value: Int) -> Int:
    """Fold a word into the first lane."""
    return mum(lane ^ value, C0)


@device
def absorb1(lane: Int, value: Int) -> Int:
    """Fold a word into the second lane; independent of the first."""
    return mum(lane ^ value, C1)


@device
def absorb_null0(lane: Int) -> Int:
    """Fold NULL into the first lane: unlike every word."""
    return mum(lane ^ NULL_WORD, C2)


@device
def absorb_null1(lane: Int) -> Int:
    """Fold NULL into the second lane."""
    return mum(lane ^ NULL_WORD, C3)


@kernel
def exact_words(
    address: Int,
    width: Int,
    mode: Int,
    valid: Int,
    valid_offset: Int,
    k0: Int,
    h0: Lanes,
    h1: Lanes,
) -> None:
    """One column of at most 8 bytes: h1 is the value itself, h0 its hash.

    NULL is h1 = 0 with the complement of 0's hash, so no value meets it.
    """
    null0 = ~mum(mum(k0, C0), C1)
    for i in range(h0.size):
        if bit(valid, valid_offset + i):
            value = word(address, width, mode, i)
            # twice: one product of consecutive numbers is a pattern that probing runs along
            h0[i] = mum(mum(value ^ k0, C0), C1)
            h1[i] = value
        else:
            h0[i] = null0
            h1[i] = np.uint64(0)


@kernel
def fold_words(
    address: Int, width: Int, mode: Int, valid: Int, valid_offset: Int,
    first: bool, k0: Int, k1: Int, r0: Lanes, r1: Lanes,
) -> None:  # fmt: skip
    """A column of at most 8 bytes a value."""
    for i in range(r0.size):
        a = k0 if first else r0[i]
        b = k1 if first else r1[i]
        if bit(valid, valid_offset + i):
            value = word(address, width, mode, i)
            r0[i] = absorb0(a, value)
            r1[i] = absorb1(b, value)
        else:
            r0[i] = absorb_null0(a)
            r1[i] = absorb_null1(b)


@kernel
def fold_pairs(
    address: Int, interval: bool, valid: Int, valid_offset: Int,
    first: bool, k0: Int, k1: Int, r0: Lanes, r1: Lanes,
) -> None:  # fmt: skip
    """A column of 16-byte values: decimal128, or intervals (months, days, ns) as PostgreSQL
    compares them: a month is 30 days, a day is 24 hours."""
    for i in range(r0.size):
        a = k0 if first else r0[i]
        b = k1 if first else r1[i]
        if bit(valid, valid_offset + i):
            at = address + 16 * i
            if interval:
                ns = load_i64(at + 8)
                carry = ns // NS_PER_DAY
                days = load_i32(at) * DAYS_PER_MONTH + load_i32(at + 4) + carry
                x, y = np.uint64(days), np.uint64(ns - carry * NS_PER_DAY)
            else:
                x, y = load_u64(at), load_u64(at + 8)
            r0[i] = absorb0(absorb0(a, x), y)
            r1[i] = absorb1(absorb1(b, x), y)
        else:
            r0[i] = absorb_null0(a)
            r1[i] = absorb_null1(b)


@device
def hash_bytes(at: Int, size: Int, a: Int, b: Int) -> tuple[Int, Int]:
    """Fold `size` bytes into the lanes (a, b). Never reads outside the bytes."""
    length = np.uint64(size)
    if size > 16:
        end = at + size - 16
        while at < end:
            x, y = load_u64(at), load_u64(at + 8)
            a = mum(x ^ C4, y ^ a)
            b = mum(x ^ b, y ^ C5)
            at += 16
        x, y = load_u64(end), load_u64(end + 8)
    elif size >= 8:
        x, y = load_u64(at), load_u64(at + size - 8)
    elif size >= 4:
        x, y = load_u32(at), load_u32(at + size - 4)
    elif size > 0:
        x = load_u8(at) | (load_u8(at + (size >> 1)) << np.uint64(8))
        x |= load_u8(at + size - 1) << np.uint64(16)
        y = np.uint64(0)
    else:
        x, y = np.uint64(0), np.uint64(0)
    return mum(mum(x ^ a, y ^ C4) ^ length, a ^ C0), mum(mum(x ^ C5, y ^ b) ^ length, b ^ C1)


@kernel
def fold_bytes(
    offsets: Int, offset_width: Int, data: Int, valid: Int, valid_offset: Int,
    first: bool, k0: Int, k1: Int, r0: Lanes, r1: Lanes,
) -> None:  # fmt: skip
    """A column of byte strings; offsets of 4 or 8 bytes, already moved to the first row's."""
    start = load_integer(offsets, offset_width, 0)
    for i in range(r0.size):
        end = load_integer(offsets, offset_width, i + 1)
        a = k0 if first else r0[i]
        b = k1 if first else r1[i]
        if bit(valid, valid_offset + i):
            r0[i], r1[i] = hash_bytes(data + start, end - start, a, b)
        else:
            r0[i] = absorb_null0(a)
            r1[i] = absorb_null1(b)
        start = end


@kernel
def fold_lanes(
    c0: Lanes, c1: Lanes, valid: Int, valid_offset: Int,
    first: bool, k0: Int, k1: Int, r0: Lanes, r1: Lanes,
) -> None:  # fmt: skip
    """A column whose values are lanes already (a struct's fields)."""
    for i in range(r0.size):
        a = k0 if first else r0[i]
        b = k1 if first else r1[i]
        if bit(valid, valid_offset + i):
            r0[i] = absorb0(absorb0(a, c0[i]), c1[i])
            r1[i] = absorb1(absorb1(b, c1[i]), c0[i])
        else:
            r0[i] = absorb_null0(a)
            r1[i] = absorb_null1(b)


@kernel
def fold_lists(
    offsets: Int, c0: Lanes, c1: Lanes, valid: Int, valid_offset: Int,
    first: bool, k0: Int, k1: Int, r0: Lanes, r1: Lanes,
) -> None:  # fmt: skip
    """A column of lists (int32 offsets); c0, c1: lanes of the children from the first offset on."""
    base = load_i32(offsets)
    for i in range(r0.size):
        a = k0 if first else r0[i]
        b = k1 if first else r1[i]
        if bit(valid, valid_offset + i):
            start = load_i32(offsets + 4 * i) - base
            end = load_i32(offsets + 4 * i + 4) - base
            a = absorb0(a, np.uint64(end - start))
            b = absorb1(b, np.uint64(end - start))
            for j in range(start, end):
                a = absorb0(absorb0(a, c0[j]), c1[j])
                b = absorb1(absorb1(b, c1[j]), c0[j])
            r0[i] = a
            r1[i] = b
        else:
            r0[i] = absorb_null0(a)
            r1[i] = absorb_null1(b)


@kernel
def mark_nulls(valid: Int, valid_offset: Int, out: Array) -> None:
    """out[i] |= row i is NULL."""
    for i in range(out.size):
        if not bit(valid, valid_offset + i):
            out[i] = True
