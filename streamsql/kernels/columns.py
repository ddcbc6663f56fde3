"""Loops of the column store: copy batches into chunks, gather rows out of them.

A store keeps each column in chunks of 2^CHUNK_BITS rows; row r is row r & CHUNK_MASK of chunk
r >> CHUNK_BITS. Tables of addresses (int64, one entry a chunk) lead to values, validity, offsets
and bytes. Gathers take `rows` (int64[n]); a negative row gives NULL. They write at addresses, and
return the number of NULLs; `out_valid` = 0 means that no row can be NULL.
"""

from __future__ import annotations

import numpy as np

from streamsql.kernels.bits import (
    bit,
    load_i16,
    load_i32,
    load_i64,
    load_integer,
    load_u8,
    load_u64,
    set_bit,
    store_i16,
    store_i32,
    store_i64,
    store_u8,
    store_u64,
)
from streamsql.kernels.jit import Array, Int, device, kernel

Addresses = Array  # int64[chunks]
Rows = Array  # int64[n]

CHUNK_BITS = 16
CHUNK_ROWS = 1 << CHUNK_BITS
CHUNK_MASK = CHUNK_ROWS - 1


@kernel
def copy_bits(source: Int, source_offset: Int, target: Int, target_offset: Int, n: Int) -> None:
    """Copy n bits; source 0 = all ones. Bits beside them in the target keep their value."""
    i = 0
    while i < n:
        at = target_offset + i
        if (at & 7) == 0 and i + 8 <= n:
            if source == 0:
                store_u8(target + (at >> 3), np.uint64(255))
            else:
                s = source_offset + i
                shift = np.uint64(s & 7)
                value = load_u8(source + (s >> 3)) >> shift
                if shift != 0:
                    value |= load_u8(source + (s >> 3) + 1) << (np.uint64(8) - shift)
                store_u8(target + (at >> 3), value)
            i += 8
            continue
        byte = target + (at >> 3)
        mask = np.uint64(1) << np.uint64(at & 7)
        if bit(source, source_offset + i):
            store_u8(byte, load_u8(byte) | mask)
        else:
            store_u8(byte, load_u8(byte) & ~mask)
        i += 1


@kernel
def copy_offsets(
    source: Int, source_width: Int, n: Int, target: Int, target_width: Int, start: Int
) -> None:
    """Write n + 1 offsets that begin at `start`, as far apart as the source's."""
    shift = start - load_integer(source, source_width, 0)
    for i in range(n + 1):
        offset = load_integer(source, source_width, i) + shift
        if target_width == 4:
            store_i32(target + 4 * i, offset)
        else:
            store_i64(target + 8 * i, offset)


@device
def _is_null(valid: Addresses, out_valid: Int, r: Int) -> bool:
    if out_valid == 0:
        return False
    return r < 0 or not bit(valid[r >> CHUNK_BITS], r & CHUNK_MASK)


@kernel
def gather_fixed(
    values: Addresses, valid: Addresses, width: Int, rows: Rows, out: Int, out_valid: Int
) -> Int:
    """Values of 1, 2, 4, 8 or 16 bytes. out_valid: zeroed bitmap or 0."""
    nulls = 0
    for i in range(rows.size):
        r = rows[i]
        if _is_null(valid, out_valid, r):
            nulls += 1
            if width == 16:
                store_i64(out + 16 * i, 0)
                store_i64(out + 16 * i + 8, 0)
            elif width == 8:
                store_i64(out + 8 * i, 0)
            elif width == 4:
                store_i32(out + 4 * i, 0)
            elif width == 2:
                store_i16(out + 2 * i, 0)
            else:
                store_u8(out + i, np.uint64(0))
            continue
        if out_valid != 0:
            set_bit(out_valid, i)
        base = values[r >> CHUNK_BITS]
        k = r & CHUNK_MASK
        if width == 8:
            store_i64(out + 8 * i, load_i64(base + 8 * k))
        elif width == 4:
            store_i32(out + 4 * i, load_i32(base + 4 * k))
        elif width == 16:
            store_i64(out + 16 * i, load_i64(base + 16 * k))
            store_i64(out + 16 * i + 8, load_i64(base + 16 * k + 8))
        elif width == 2:
            store_i16(out + 2 * i, load_i16(base + 2 * k))
        else:
            store_u8(out + i, load_u8(base + k))
    return nulls


@kernel
def gather_bits(values: Addresses, valid: Addresses, rows: Rows, out: Int, out_valid: Int) -> Int:
    """Booleans, bit-packed; out: zeroed bitmap."""
    nulls = 0
    for i in range(rows.size):
        r = rows[i]
        if _is_null(valid, out_valid, r):
            nulls += 1
            continue
        if out_valid != 0:
            set_bit(out_valid, i)
        if bit(values[r >> CHUNK_BITS], r & CHUNK_MASK):
            set_bit(out, i)
    return nulls


@kernel
def gather_offsets(
    offsets: Addresses,
    wide: Array,
    valid: Addresses,
    rows: Rows,
    out: Int,
    out_valid: Int,
    limit: Int,
) -> tuple[Int, Int]:
    """First half of gathering byte strings: int32 offsets and validity.

    wide: bool[chunks], the chunk's offsets have 8 bytes. Returns (NULLs, total bytes); stops when
    the total passes `limit`.
    """
    nulls, total = 0, 0
    store_i32(out, 0)
    for i in range(rows.size):
        r = rows[i]
        if _is_null(valid, out_valid, r):
            nulls += 1
        else:
            if out_valid != 0:
                set_bit(out_valid, i)
            c, k = r >> CHUNK_BITS, r & CHUNK_MASK
            if wide[c]:
                total += load_i64(offsets[c] + 8 * k + 8) - load_i64(offsets[c] + 8 * k)
            else:
                total += load_i32(offsets[c] + 4 * k + 4) - load_i32(offsets[c] + 4 * k)
            if total > limit:
                break
        store_i32(out + 4 * i + 4, total)
    return nulls, total


@kernel
def gather_bytes(
    offsets: Addresses, wide: Array, arenas: Addresses, rows: Rows, out_offsets: Int, out: Int
) -> None:
    """Second half: the bytes. Arenas and `out` have 8 bytes to spare at their end."""
    for i in range(rows.size):
        at = load_i32(out_offsets + 4 * i)
        size = load_i32(out_offsets + 4 * i + 4) - at
        if size == 0:
            continue
        r = rows[i]
        c, k = r >> CHUNK_BITS, r & CHUNK_MASK
        start = load_i64(offsets[c] + 8 * k) if wide[c] else load_i32(offsets[c] + 4 * k)
        source, target = arenas[c] + start, out + at
        for j in range(0, size, 8):
            store_u64(target + j, load_u64(source + j))
