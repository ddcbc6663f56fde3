"""OVER: sums, extremes and moments over frames of rows that are loaded in their order.

A frame is the places [low, x1) and [x2, high), without what EXCLUDE leaves out between them, and
`own`, the row itself where EXCLUDE TIES keeps it (-1 = not).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsql.kernels.jit import device, kernel

NONE = -1
SIGN = -(2**63)


@device
def _plus(cells: Any, i: int, more: Any, j: int, wide: int, lanes: int, sign: int) -> None:
    """cells[i] += sign * more[j], lane by lane; `wide`, `wide` + 1 are one 128-bit number."""
    for k in range(lanes):
        a, b = cells[i, k], more[j, k]
        total = a + b if sign > 0 else a - b
        cells[i, k] = total
        if k == wide:
            if sign > 0 and (total ^ SIGN) < (a ^ SIGN):
                cells[i, k + 1] += 1
            elif sign < 0 and (a ^ SIGN) < (b ^ SIGN):
                cells[i, k + 1] -= 1


@kernel
def prefix(parts: Any, wide: int, out: Any) -> None:
    """out[k + 1] = out[k] + parts[k]; parts: int64[n, lanes], out: int64[n + 1, lanes]. wide: the
    lane of the low word of a 128-bit number, -1 = none."""
    lanes = parts.shape[1]
    for k in range(lanes):
        out[0, k] = 0
    for i in range(parts.shape[0]):
        for k in range(lanes):
            out[i + 1, k] = out[i, k]
        _plus(out, i + 1, parts, i, wide, lanes, 1)


@kernel
def sums(
    before: Any, wide: int, low: Any, x1: Any, x2: Any, high: Any, own: Any,
    base: Any, base_of: Any, out: Any,
) -> None:  # fmt: skip
    """out[i] = base[base_of[i]] + the sum over frame i, by prefix sums `before`."""
    lanes = before.shape[1]
    for i in range(low.size):
        for k in range(lanes):
            out[i, k] = base[base_of[i], k]
        _plus(out, i, before, x1[i], wide, lanes, 1)
        _plus(out, i, before, low[i], wide, lanes, -1)
        _plus(out, i, before, high[i], wide, lanes, 1)
        _plus(out, i, before, x2[i], wide, lanes, -1)
        if own[i] >= 0:
            _plus(out, i, before, own[i] + 1, wide, lanes, 1)
            _plus(out, i, before, own[i], wide, lanes, -1)


@device
def _better(words: Any, a: int, b: int) -> int:
    """Of two places the one of the lower word; of equal ones the first."""
    if a < 0:
        return b
    if b < 0 or words[a] < words[b]:
        return a
    if words[b] < words[a]:
        return b
    return min(a, b)


@device
def _best(words: Any, tree: Any, n: int, low: int, high: int, best: int) -> int:
    """The best place of [low, high) and `best`."""
    a, b = low + n, high + n
    while a < b:
        if a & 1:
            best = _better(words, best, tree[a])
            a += 1
        if b & 1:
            b -= 1
            best = _better(words, best, tree[b])
        a >>= 1
        b >>= 1
    return best


@kernel
def extremes(
    words: Any, counts: Any, tree: Any, low: Any, x1: Any, x2: Any, high: Any, own: Any,
    base: Any, base_of: Any, out: Any,
) -> None:  # fmt: skip
    """The place of the lowest word in each frame and at base[base_of[i]]; -1 = none.

    words: int64[n]; counts: uint8[n], whether the value counts; tree: int64[2 n], room for a
    segment tree of places.
    """
    n = words.size
    for i in range(n):
        tree[n + i] = i if counts[i] else NONE
    for i in range(n - 1, 0, -1):
        tree[i] = _better(words, tree[2 * i], tree[2 * i + 1])
    for i in range(low.size):
        best = base[base_of[i]]
        if best >= 0 and not counts[best]:
            best = NONE
        best = _best(words, tree, n, low[i], x1[i], best)
        if own[i] >= 0:
            best = _best(words, tree, n, own[i], own[i] + 1, best)
        out[i] = _best(words, tree, n, x2[i], high[i], best)


@device
def _neumaier(total: float, rest: float, x: float) -> tuple[float, float]:
    """Add x to a sum and its correction, which stays finite when the sum does not."""
    after = total + x
    if abs(after) < np.inf:
        if abs(total) >= abs(x):
            rest += (total - after) + x
        else:
            rest += (x - after) + total
    return after, rest


@device
def _welford(count: int, mean: float, spread: float, x: float) -> tuple[float, float]:
    """Mean and sum of squared distances with x, the value number `count`."""
    step = x - mean
    mean += step / count
    return mean, spread + step * (x - mean)


@kernel
def chain_reals(
    values: Any, counts: Any, high: Any, base_of: Any, start: Any, moments: bool,
    base: Any, base_reals: Any, out: Any, out_reals: Any,
) -> None:  # fmt: skip
    """Frames that begin with their partition: each goes on where the one before it ended.

    values: float64[n]; counts: uint8[n]. Rows of one range (base_of) stand together; they start
    from the lanes base[range] at place start[range]. Lanes: [count, sum, correction], or with
    `moments` [count, mean, sum of squared distances]; *_reals: the same memory as float64.
    """
    last, at = -1, 0
    n, a, b = 0, 0.0, 0.0
    for i in range(high.size):
        r = base_of[i]
        if r != last:
            last, at = r, start[r]
            n, a, b = base[r, 0], base_reals[r, 1], base_reals[r, 2]
        while at < high[i]:
            if counts[at]:
                n += 1
                if moments:
                    a, b = _welford(n, a, b, values[at])
                else:
                    a, b = _neumaier(a, b, values[at])
            at += 1
        out[i, 0], out_reals[i, 1], out_reals[i, 2] = n, a, b


@kernel
def frame_moments(
    values: Any, counts: Any, low: Any, x1: Any, x2: Any, high: Any, own: Any,
    out: Any, out_reals: Any,
) -> None:  # fmt: skip
    """[count, mean, sum of squared distances] of each frame, computed from its rows alone."""
    for i in range(low.size):
        n, a, b = 0, 0.0, 0.0
        for at in range(low[i], x1[i]):
            if counts[at]:
                n += 1
                a, b = _welford(n, a, b, values[at])
        if own[i] >= 0 and counts[own[i]]:
            n += 1
            a, b = _welford(n, a, b, values[own[i]])
        for at in range(x2[i], high[i]):
            if counts[at]:
                n += 1
                a, b = _welford(n, a, b, values[at])
        out[i, 0], out_reals[i, 1], out_reals[i, 2] = n, a, b
