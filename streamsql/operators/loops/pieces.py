"""Sessions that are cut (`max`): which pieces are closed, and what is late for them.

A chain of rows, neighbours at most `gap` apart, is cut into pieces from its start: a piece begins
at its first row, and a row `longest` or more behind that begins the next one. It ends at
min(start + longest, last + gap), and the watermark closes it there. Pieces do not overlap, and
those that are closed are final: a row belongs to one if it would change its rows or its bounds.
All of these lie before the piece's *horizon*, min(start + longest, last + gap + 1), and what is at
or behind it changes nothing before it. So a partition is told by its horizon and the rows from
there on.
All times are int64 µs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsql.kernels.jit import Int, device, kernel
from streamsql.operators.loops.sessions import NO_TIME


@device
def _close(
    p: Int, bound: Int, times: Any, weights: Any, begin: Any, horizon: Any, first: Any, far: Any,
    gap: Int, longest: Int,
) -> None:  # fmt: skip
    """Move the horizon of partition p behind the pieces that end at or before `bound`.

    first: by partition, no row before it is there and behind the horizon; far: the last row that is
    known to be in the same piece, or -1.
    """
    end = begin[p + 1]
    while True:
        i = first[p]
        while i < end and (weights[i] <= 0 or times[i] < horizon[p]):
            i += 1
        if i != first[p]:
            first[p], far[p] = i, -1
        if i == end or times[i] > bound - gap:
            return
        last = max(far[p], i)
        j = last + 1
        while j < end and times[last] <= bound - gap:
            if weights[j] > 0:
                if times[j] - times[last] > gap or times[j] - times[i] >= longest:
                    break
                last = j
            j += 1
        far[p] = last
        if min(times[i] + longest, times[last] + gap) > bound:
            return
        horizon[p] = min(times[i] + longest, times[last] + gap + 1)


@kernel
def judge(
    parts: Any, rows: Any, at: Any, entry_weights: Any, marks: Any, times: Any, weights: Any,
    begin: Any, horizon: Any, gap: int, longest: int, lateness: int, kept: Any,
) -> None:  # fmt: skip
    """Which entries are on time, in the order of arrival.

    parts, rows, at, entry_weights, marks: int64[n], of an entry its partition, its row, the row's
    time, and the watermark before it. times, weights: int64[rows], what is there of every row,
    sorted by (partition, time); begin: int64[partitions + 1], the first row of each; horizon:
    int64[partitions] or NO_TIME. kept: int64[n], how much of the entry's weight counts (0 = it is
    late). The last three by row and partition are changed.

    A row is late if it belongs to a closed piece, or its own piece would be closed. A retraction
    is late if its row's piece is closed or the row is not there; those that follow each other under
    one watermark are judged by the pieces as they are before them.
    """
    n = parts.size
    first = begin[:-1].copy()
    far = np.full(first.size, -1, np.int64)
    i = 0
    while i < n:
        stop = i + 1
        if entry_weights[i] < 0:
            while stop < n and entry_weights[stop] < 0 and marks[stop] == marks[i]:
                stop += 1
        known = marks[i] > NO_TIME + gap + lateness
        bound = marks[i] - lateness if known else NO_TIME
        if known:
            for e in range(i, stop):
                _close(parts[e], bound, times, weights, begin, horizon, first, far, gap, longest)
        for e in range(i, stop):
            p, r, t = parts[e], rows[e], at[e]
            kept[e] = 0
            if t < horizon[p]:
                continue
            if entry_weights[e] < 0:
                kept[e] = max(entry_weights[e], -weights[r])
                weights[r] += kept[e]
                far[p] = -1
                continue
            if known and t <= bound:
                f = first[p]
                there = f < begin[p + 1]
                # the only piece that may begin at or before the bound is open: it ends behind t
                if not (there and times[f] <= t):
                    near = there and times[f] - t <= gap and times[f] - t < longest
                    if t + longest <= bound or (t + gap <= bound and not near):
                        continue
            kept[e] = entry_weights[e]
            weights[r] += entry_weights[e]
            if r < first[p]:
                first[p], far[p] = r, -1
        i = stop


@kernel
def close(
    group: Any, times: Any, gap: int, longest: int, bound: int, closed: Any, start: Any, floor: Any
) -> None:
    """Which rows, sorted by (group, time), are in pieces that end at or before `bound`.

    closed: bool[n]. start, floor: int64[groups], NO_TIME so far: of each group the time of the
    first row that is left, and, where a piece is closed, the horizon less gap + 1.
    """
    n = times.size
    i = 0
    while i < n:
        g = group[i]
        j = i + 1
        while (
            j < n
            and group[j] == g
            and times[j] - times[j - 1] <= gap
            and times[j] - times[i] < longest
        ):
            j += 1
        if min(times[i] + longest, times[j - 1] + gap) > bound:
            start[g] = times[i]
            while j < n and group[j] == g:
                j += 1
        else:
            closed[i:j] = True
            floor[g] = min(times[i] + longest - gap - 1, times[j - 1])
        i = j
