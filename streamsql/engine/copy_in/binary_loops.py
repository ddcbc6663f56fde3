"""Loops over PGCOPY bytes: where each field starts and how long it is; big-endian numbers."""

from __future__ import annotations

from typing import Any

from streamsql.kernels.jit import kernel

TOO_SHORT, WRONG_WIDTH, END = -1, -2, -3


@kernel
def walk_rows(data: Any, start: Any, columns: Any, offsets: Any, lengths: Any) -> Any:
    """Fields of the tuples from `start` on.

    data: uint8[size]. offsets, lengths: int64[most rows, columns], filled; length -1 = NULL.
    Returns (rows, position after them, TOO_SHORT | WRONG_WIDTH | END | 0 = arrays full).
    """
    rows = 0
    at = start
    size = data.size
    while rows < offsets.shape[0]:
        if at + 2 > size:
            return rows, at, TOO_SHORT
        width = (data[at] << 8) | data[at + 1]
        if width == 0xFFFF:
            return rows, at + 2, END
        if width != columns:
            return rows, at, WRONG_WIDTH
        here = at + 2
        for c in range(columns):
            if here + 4 > size:
                return rows, at, TOO_SHORT
            length = 0
            for k in range(4):
                length = (length << 8) | data[here + k]
            here += 4
            if length == 0xFFFFFFFF:
                length = -1
            offsets[rows, c] = here
            lengths[rows, c] = length
            if length > 0:
                here += length
            if here > size:
                return rows, at, TOO_SHORT
        at = here
        rows += 1
    return rows, at, 0


@kernel
def gather_fixed(data: Any, offsets: Any, lengths: Any, width: Any, out: Any) -> Any:
    """Fields of `width` bytes, byte order turned to little-endian: uint8[n, width].

    Returns the first row of another length than `width` (NULLs are skipped), or -1.
    """
    for i in range(offsets.size):
        if lengths[i] < 0:
            continue
        if lengths[i] != width:
            return i
        for k in range(width):
            out[i, width - 1 - k] = data[offsets[i] + k]
    return -1


@kernel
def gather_bytes(data: Any, offsets: Any, lengths: Any, ends: Any, out: Any) -> Any:
    """Fields one after the other: uint8[sum of lengths]; ends: int64[n], where each ends."""
    at = 0
    for i in range(offsets.size):
        for k in range(max(lengths[i], 0)):
            out[at + k] = data[offsets[i] + k]
        at += max(lengths[i], 0)
        ends[i] = at
    return at
