"""Which pairs of an interval join hold, and keys looked up in rows that have no index."""

from __future__ import annotations

from typing import Any

from streamsql.kernels.jit import kernel


@kernel
def scan(h0: Any, h1: Any, keys0: Any, keys1: Any, out_key: Any, out_row: Any) -> int:
    """Pairs (key, row) of equal lanes by looking at every row; returns how many there are, of which
    only the first `out_key.size` were written."""
    found = 0
    room = out_key.size
    for r in range(h0.size):
        for k in range(keys0.size):
            if h1[r] == keys1[k] and h0[r] == keys0[k]:
                if found < room:
                    out_key[found], out_row[found] = k, r
                found += 1
    return found


@kernel
def within(i: Any, j: Any, time_x: Any, bound_x: Any, time_y: Any, bound_y: Any) -> int:
    """Keep the pairs (i[p], j[p]) of rows that are in each other's span, time <= the other's bound
    both ways, in place; returns how many."""
    kept = 0
    for p in range(i.size):
        x, y = i[p], j[p]
        if time_x[x] <= bound_y[y] and time_y[y] <= bound_x[x]:
            i[kept], j[kept] = x, y
            kept += 1
    return kept
