"""Loops of BIT_AND, BIT_OR, BIT_XOR and of pairs of numbers; arguments as in `loops.accumulate`."""

from __future__ import annotations

from typing import Any

from streamsql.kernels.bits import bit, load_integer
from streamsql.kernels.jit import kernel


@kernel
def count_bits_set(
    cells: Any, at: int, bits: int, slots: Any, weights: Any,
    address: int, width: int, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [rows that are not NULL, rows with bit 0 set, with bit 1 set, …]."""
    weighted = weights.size > 0
    for i in range(slots.size):
        if not bit(valid, valid_offset + i):
            continue
        w = weights[i] if weighted else 1
        s = slots[i]
        cells[s, at] += w
        word = load_integer(address, width, i)
        for k in range(bits):
            cells[s, at + 1 + k] += w * ((word >> k) & 1)


@kernel
def toggle_bits(
    cells: Any, at: int, slots: Any, weights: Any,
    address: int, width: int, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [rows that are not NULL, XOR of the values]: what comes twice is gone."""
    weighted = weights.size > 0
    for i in range(slots.size):
        if not bit(valid, valid_offset + i):
            continue
        w = weights[i] if weighted else 1
        s = slots[i]
        cells[s, at] += w
        if w & 1:
            cells[s, at + 1] ^= load_integer(address, width, i)


@kernel
def merge_toggled(cells: Any, at: int, slots: Any, part: Any) -> None:
    """Fold the [rows, XOR] of part[i] into group slots[i]."""
    for i in range(slots.size):
        cells[slots[i], at] += part[i, at]
        cells[slots[i], at + 1] ^= part[i, at + 1]
