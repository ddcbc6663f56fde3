"""Counts of equal things, and the moments they appear and vanish."""

from __future__ import annotations

from typing import Any

from streamsql.kernels.jit import kernel


@kernel
def crossings(
    counts: Any, slots: Any, weights: Any, out_row: Any, out_weight: Any
) -> tuple[int, int]:
    """Add each row's weight to counts[slot]; note the rows where a count leaves or reaches 0.

    weights: int64[n] or empty = +1. out_row, out_weight: int64[n], filled up to the returned
    number with (row, +1 or -1). Returns (entries, the lowest count seen).
    """
    found = 0
    lowest = 0
    weighted = weights.size > 0
    for i in range(slots.size):
        s = slots[i]
        before = counts[s]
        after = before + (weights[i] if weighted else 1)
        counts[s] = after
        lowest = min(lowest, after)
        if (before > 0) != (after > 0):
            out_row[found] = i
            out_weight[found] = 1 if after > 0 else -1
            found += 1
    return found, lowest


@kernel
def empty_slots(counts: Any, slots: Any, marks: Any, out: Any) -> int:
    """The distinct slots of the list whose count is 0; marks: uint8[all slots], left all 0."""
    found = 0
    for i in range(slots.size):
        s = slots[i]
        if counts[s] == 0 and marks[s] == 0:
            marks[s] = 1
            out[found] = s
            found += 1
    for i in range(found):
        marks[out[i]] = 0
    return found
