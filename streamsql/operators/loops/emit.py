"""What groups give out: which of them differ, and their lanes as columns.

`cells` as in `accumulate`: int64 [groups, lanes].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsql.kernels.bits import store_i16, store_i32, store_i64, store_u8
from streamsql.kernels.jit import device, kernel

Cells = Any


@device
def differ(cells: Cells, s: int, old: Cells, i: int, shown: Any) -> bool:
    """Whether group s shows anything else than old[i]."""
    for j in range(shown.shape[0]):
        k = shown[j, 0]
        if shown[j, 1]:
            if (cells[s, k] > 0) != (old[i, k] > 0):
                return True
        elif cells[s, k] != old[i, k]:
            return True
    return False


@kernel
def changes(
    cells: Cells, touched: Any, old: Cells, shown: Any, keyed: bool, emit: bool,
    gone_slots: Any, places: Any, out: Cells, counts: Any, pairs: Any,
) -> None:  # fmt: skip
    """What the touched groups give out: -old and +new of those that differ.

    shown: int64[k, 2], (lane, whether only its being above 0 counts): what tells two states of a
    group apart. keyed: groups without rows are not there. places: int64[2m], filled with where the
    groups of the old ones, then of the new ones stand in `touched`; out: int64[2m, lanes], their
    cells. pairs: int64[2, m], where a group gives both. gone_slots: int64[m], groups without rows.
    counts: int64[4], filled with how many old, new, pairs, and groups without rows there are; the
    last is -1 if a group has fewer than 0.
    """
    m, lanes = touched.size, cells.shape[1]
    before, both, gone = 0, 0, 0
    for i in range(m):
        s = touched[i]
        if cells[s, 0] < 0:
            counts[3] = -1
            return
        there = not keyed or cells[s, 0] > 0
        if not there:
            gone_slots[gone] = s
            gone += 1
        was = not keyed or old[i, 0] > 0
        if emit and was and (not there or differ(cells, s, old, i, shown)):
            places[before] = i
            for k in range(lanes):
                out[before, k] = old[i, k]
            if there:
                pairs[0, both] = before
                both += 1
            before += 1
    after, both = before, 0
    for i in range(m):
        s = touched[i]
        if not emit or (keyed and cells[s, 0] <= 0):
            continue
        was = not keyed or old[i, 0] > 0
        if not was or differ(cells, s, old, i, shown):
            if was:
                pairs[1, both] = after
                both += 1
            places[after] = i
            for k in range(lanes):
                out[after, k] = cells[s, k]
            after += 1
    counts[0], counts[1], counts[2], counts[3] = before, after - before, both, gone


@kernel
def lane(cells: Cells, at: int, count: int, width: int, out: int, bits: int) -> int:
    """Write lane `at` as integers of `width` bytes at the address `out`, and at `bits` a validity
    bitmap: NULL where lane `count` is not above 0 (-1 = nowhere). Returns the number of NULLs."""
    nulls = 0
    byte = np.uint64(0)
    n = cells.shape[0]
    for i in range(n):
        if count < 0 or cells[i, count] > 0:
            byte |= np.uint64(1) << np.uint64(i & 7)
        else:
            nulls += 1
        if i & 7 == 7 or i == n - 1:
            store_u8(bits + (i >> 3), byte)
            byte = np.uint64(0)
        v = cells[i, at]
        if width == 8:
            store_i64(out + 8 * i, v)
        elif width == 4:
            store_i32(out + 4 * i, v)
        elif width == 2:
            store_i16(out + 2 * i, v)
        else:
            store_u8(out + i, np.uint64(v))
    return nulls
