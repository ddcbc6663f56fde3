"""Folding rows into the cells of their groups.

`cells` is int64 [groups, lanes], one row a group, so that everything known of a group is in one or
two cache lines. Lane 0 holds the number of rows, lane 1 the stamp of the tick that touched the
group last; aggregates own the lanes from `at` on. Common arguments: `slots` int64[n], the group of
each row; `weights` int64[n], or empty = all +1; a column as (`address`, `width`, `valid`,
`valid_offset`), see `columns.Flat`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsql.kernels.bits import (
    bit,
    bits_of,
    float_of,
    load_f32,
    load_f64,
    load_i64,
    load_integer,
    multiply_high,
    prefetch,
)
from streamsql.kernels.jit import device, kernel

Cells = Any
AHEAD = 12


@kernel
def touch(
    cells: Cells, base: int, slots: Any, weights: Any, stamp: int,
    touched: Any, first: Any, old: Cells,
) -> int:  # fmt: skip
    """Count the rows into lane 0; list each group met, the first row that met it, and its cells as
    they were.

    base: address of `cells`. touched, first: int64[n], old: int64[n, lanes], filled up to the
    returned number of groups. stamp: unlike the one of every earlier call.
    """
    found = 0
    lanes = cells.shape[1]
    n = slots.size
    weighted = weights.size > 0
    for i in range(n):
        if i + AHEAD < n:
            at = base + slots[i + AHEAD] * lanes * 8
            prefetch(at)
            prefetch(at + lanes * 8 - 8)
        s = slots[i]
        if cells[s, 1] != stamp:
            cells[s, 1] = stamp
            touched[found] = s
            first[found] = i
            for k in range(lanes):
                old[found, k] = cells[s, k]
            found += 1
        cells[s, 0] += weights[i] if weighted else 1
    return found


@kernel
def gather(cells: Cells, slots: Any, out: Cells) -> None:
    """out[i] = cells[slots[i]]."""
    for i in range(slots.size):
        for k in range(cells.shape[1]):
            out[i, k] = cells[slots[i], k]


@kernel
def scatter(cells: Cells, at: int, slots: Any, values: Any) -> None:
    """cells[slots[i], at] = values[i]."""
    for i in range(slots.size):
        cells[slots[i], at] = values[i]


@kernel
def count_valid(
    cells: Cells, at: int, slots: Any, weights: Any, valid: int, valid_offset: int
) -> None:
    """cells[slot, at] += weight of rows that are not NULL."""
    weighted = weights.size > 0
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            cells[slots[i], at] += weights[i] if weighted else 1


@kernel
def extreme_word(
    cells: Cells, at: int, slots: Any, weights: Any, keys: Any, sign: int, stale: Any
) -> int:
    """Lanes [count, word]: the smallest (sign -1) or largest (1) word; no rows = word 0.

    keys: int64[n, 2], each row's word behind its group; of rows of one tick those that come are
    first. stale: int64[n], groups that lost a row which holds their word: whether another one
    holds it too, or which word is the next, others must tell. Returns how many they are.
    """
    weighted = weights.size > 0
    found = 0
    for i in range(slots.size):
        s, word = slots[i], keys[i, 1]
        w = weights[i] if weighted else 1
        before = cells[s, at]
        cells[s, at] = before + w
        if before + w == 0:
            cells[s, at + 1] = 0
        elif w > 0:
            shown = cells[s, at + 1]
            if before == 0 or (word > shown if sign > 0 else word < shown):
                cells[s, at + 1] = word
        elif word == cells[s, at + 1]:
            stale[found] = s
            found += 1
    return found


@kernel
def add_int64(
    cells: Cells, at: int, slots: Any, weights: Any,
    address: int, width: int, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [count, sum]: integers that can not overflow 64 bits (int16, int32)."""
    weighted = weights.size > 0
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            w = weights[i] if weighted else 1
            s = slots[i]
            cells[s, at] += w
            cells[s, at + 1] += w * load_integer(address, width, i)


@device
def add_wide(cells: Cells, s: int, at: int, low: int, high: int) -> None:
    """Add a 128-bit number to the lanes [low, high]."""
    before = cells[s, at]
    after = before + low
    cells[s, at] = after
    carry = 1 if np.uint64(after) < np.uint64(before) else 0
    cells[s, at + 1] += high + carry


@kernel
def add_int128(
    cells: Cells, at: int, slots: Any, weights: Any,
    address: int, width: int, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [count, low, high]: integers, summed in 128 bits."""
    weighted = weights.size > 0
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            w = weights[i] if weighted else 1
            s = slots[i]
            cells[s, at] += w
            v = load_integer(address, width, i)
            add_wide(cells, s, at + 1, v * w, multiply_high(v, w))


@kernel
def add_decimal(
    cells: Cells, at: int, slots: Any, weights: Any,
    address: int, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [count, low, high]: decimal128 values (16 bytes each)."""
    weighted = weights.size > 0
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            w = weights[i] if weighted else 1
            s = slots[i]
            cells[s, at] += w
            low, high = load_i64(address + 16 * i), load_i64(address + 16 * i + 8)
            if w == 1:
                add_wide(cells, s, at + 1, low, high)
            else:
                # low is unsigned here: high word of (unsigned low) * w, from the signed product
                top = multiply_high(low, w) + (w if low < 0 else 0)
                add_wide(cells, s, at + 1, low * w, top + high * w)


@kernel
def add_interval(
    cells: Cells, at: int, slots: Any, weights: Any,
    address: int, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [count, months, days, ns]: Arrow's month_day_nano values."""
    weighted = weights.size > 0
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            w = weights[i] if weighted else 1
            s = slots[i]
            cells[s, at] += w
            cells[s, at + 1] += w * load_integer(address, 4, 4 * i)
            cells[s, at + 2] += w * load_integer(address, 4, 4 * i + 1)
            cells[s, at + 3] += w * load_i64(address + 16 * i + 8)


@device
def load_real(address: int, width: int, i: int) -> float:
    """Value i of a float column of this width."""
    return load_f64(address + 8 * i) if width == 8 else load_f32(address + 4 * i)


@kernel
def add_real(
    cells: Cells, reals: Any, at: int, slots: Any,
    address: int, width: int, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [count, sum, correction] for rows that are never taken back: Neumaier's sum.

    reals: `cells` seen as float64.
    """
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            s = slots[i]
            cells[s, at] += 1
            two_sum(reals, s, at + 1, load_real(address, width, i))


@device
def two_sum(reals: Any, s: int, at: int, x: float) -> None:
    """Add x to the lanes [sum, correction]; the correction stays finite when the sum does not."""
    total = reals[s, at]
    after = total + x
    if abs(after) < np.inf:
        if abs(total) >= abs(x):
            reals[s, at + 1] += (total - after) + x
        else:
            reals[s, at + 1] += (x - after) + total
    reals[s, at] = after


@kernel
def add_moments(
    cells: Cells, reals: Any, at: int, slots: Any,
    address: int, width: int, scale: float, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [count, mean, M2] for rows that are never taken back: Welford's update.

    width: 8 or 4 = floats, -8, -4, -2 = integers, times `scale`.
    """
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            s = slots[i]
            if width > 0:
                x = load_real(address, width, i)
            else:
                x = load_integer(address, -width, i) * scale
            n = cells[s, at] + 1
            cells[s, at] = n
            step = x - reals[s, at + 1]
            reals[s, at + 1] += step / n
            reals[s, at + 2] += step * (x - reals[s, at + 1])


@kernel
def merge_moments(cells: Cells, reals: Any, at: int, slots: Any, part: Cells, more: Any) -> None:
    """Chan's rule: fold the [count, mean, M2] of part[i] into group slots[i]."""
    for i in range(slots.size):
        m = part[i, at]
        if m > 0:
            s = slots[i]
            n = cells[s, at]
            step = more[i, at + 1] - reals[s, at + 1]
            cells[s, at] = n + m
            reals[s, at + 1] += step * m / (n + m)
            reals[s, at + 2] += more[i, at + 2] + step * step * n * m / (n + m)


@kernel
def count_bits(
    cells: Cells, at: int, slots: Any, weights: Any, address: int, valid: int, valid_offset: int
) -> None:
    """Lanes [true, false]: rows of each truth value."""
    weighted = weights.size > 0
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            w = weights[i] if weighted else 1
            cells[slots[i], at + (0 if bit(address, i) else 1)] += w


@kernel
def extreme_int(
    cells: Cells, at: int, slots: Any, sign: int,
    address: int, width: int, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [count, value]: the largest (sign 1) or smallest (sign -1) integer."""
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            s = slots[i]
            v = load_integer(address, width, i)
            if cells[s, at] == 0 or (v > cells[s, at + 1] if sign > 0 else v < cells[s, at + 1]):
                cells[s, at + 1] = v
            cells[s, at] += 1


@device
def real_above(a: float, b: float) -> bool:
    """a > b in PostgreSQL's order of floats: NaN is the largest."""
    if a != a:
        return b == b
    return a > b


@kernel
def extreme_real(
    cells: Cells, at: int, slots: Any, sign: int,
    address: int, width: int, valid: int, valid_offset: int,
) -> None:  # fmt: skip
    """Lanes [count, bits]: the largest or smallest float."""
    for i in range(slots.size):
        if bit(valid, valid_offset + i):
            s = slots[i]
            v = load_real(address, width, i)
            held = float_of(np.uint64(cells[s, at + 1]))
            better = real_above(v, held) if sign > 0 else real_above(held, v)
            if cells[s, at] == 0 or better:
                cells[s, at + 1] = np.int64(bits_of(v))
            cells[s, at] += 1


@kernel
def merge_extreme(cells: Cells, at: int, slots: Any, part: Cells, sign: int, as_real: bool) -> None:
    """Fold the [count, value] of part[i] into group slots[i]."""
    for i in range(slots.size):
        if part[i, at] <= 0:
            continue
        s = slots[i]
        v, held = part[i, at + 1], cells[s, at + 1]
        if as_real:
            a, b = float_of(np.uint64(v)), float_of(np.uint64(held))
            better = real_above(a, b) if sign > 0 else real_above(b, a)
        else:
            better = v > held if sign > 0 else v < held
        if cells[s, at] == 0 or better:
            cells[s, at + 1] = v
        cells[s, at] += part[i, at]


@kernel
def merge_sums(cells: Cells, at: int, slots: Any, part: Cells, lanes: int) -> None:
    """Add `lanes` plain integer lanes of part[i] to group slots[i]."""
    for i in range(slots.size):
        for k in range(at, at + lanes):
            cells[slots[i], k] += part[i, k]


@kernel
def merge_wide(cells: Cells, at: int, slots: Any, part: Cells) -> None:
    """Add the 128-bit lanes [low, high] of part[i] to group slots[i]."""
    for i in range(slots.size):
        add_wide(cells, slots[i], at, part[i, at], part[i, at + 1])


@kernel
def merge_reals(reals: Any, at: int, slots: Any, more: Any) -> None:
    """Add the lanes [sum, correction] of more[i] to group slots[i]."""
    for i in range(slots.size):
        two_sum(reals, slots[i], at, more[i, at])
        reals[slots[i], at + 1] += more[i, at + 1]
