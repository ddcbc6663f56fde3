"""Session windows row by row: where each row belongs, which sessions grow together, what is late.

The sessions of a partition are a list from the newest to the oldest (`head`, `older`, `newer`). Two
of them are always more than `gap` apart. All times are int64 µs. A session is closed for a row when
last + gap + lateness <= the row's watermark.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsql.kernels.bits import load_i64, prefetch
from streamsql.kernels.jit import Int, device, kernel

NONE = -1
NO_TIME = -(2**63)
"""No floor, no watermark, no bounds before this tick."""

FRESH, FREE, TOUCHED = 0, 1, 2
"""Positions in `numbers`: next slot never used, slots in the free list, sessions touched."""

FIRST_AT, OLDER_AT, SESSION_BYTES = 0, 16, 72
"""Where a session's `first` and `older` are among what is known of it, and how much that is."""
TOGETHER = 16  # rows whose lists are followed at once


@device
def _slot(free: Any, numbers: Any) -> Int:
    """A session slot that is not in use."""
    if numbers[FREE] > 0:
        numbers[FREE] -= 1
        return free[numbers[FREE]]
    numbers[FRESH] += 1
    return numbers[FRESH] - 1


@device
def _note(
    s: Int, tick: Int, first: Any, last: Any, stamp: Any, old_first: Any, old_last: Any,
    touched: Any, numbers: Any,
) -> None:  # fmt: skip
    """At the first touch of session s in this tick: remember its bounds, list it."""
    if stamp[s] != tick:
        stamp[s], old_first[s], old_last[s] = tick, first[s], last[s]
        touched[numbers[TOUCHED]] = s
        numbers[TOUCHED] += 1


@device
def _fetch(parts: Any, times: Any, i: Int, gap: int, head: Any, at: Int, ahead: Any) -> None:
    """Ask for the sessions that the rows from i on meet on their way, and the next one: rows take
    each step together, so that they wait for memory once. at: address of session 0; ahead:
    int64[TOGETHER], scratch."""
    n = min(ahead.size, parts.size - i)
    for j in range(n):
        ahead[j] = head[parts[i + j]]
        if ahead[j] >= 0:
            _ask(at + SESSION_BYTES * ahead[j])
    going = True
    while going:
        going = False
        for j in range(n):
            if ahead[j] < 0:
                continue
            session = at + SESSION_BYTES * ahead[j]
            older = load_i64(session + OLDER_AT)
            if older >= 0:
                _ask(at + SESSION_BYTES * older)
            if load_i64(session + FIRST_AT) <= times[i + j] + gap:
                older = NONE
            ahead[j] = older
            going = going or older >= 0


@device
def _ask(session: Int) -> None:
    """Ask for what is known of a session."""
    prefetch(session)
    prefetch(session + SESSION_BYTES - 8)


@kernel
def place(
    parts: Any, times: Any, marks: Any, gap: int, lateness: int, tick: int,
    head: Any, floor: Any,
    first: Any, last: Any, older: Any, newer: Any, parent: Any, stamp: Any,
    old_first: Any, old_last: Any, part_of: Any,
    free: Any, numbers: Any, touched: Any, out: Any, at: Int,
) -> None:  # fmt: skip
    """Put each row into its session, in the order of arrival.

    parts, times: int64[n], partition slot and event time. marks: int64[n], the watermark before
    each row, or empty = nothing is ever late. floor: int64[partitions], the last event time of the
    newest session that was freed; nothing at most `gap` above it is on time. Sessions: bounds
    `first`, `last`; `parent` = the session it was merged into, or NONE; `old_first`, `old_last` its
    bounds before this tick (NO_TIME = it is new), valid once `stamp` is `tick`. touched: slots met
    in this tick, merged ones too. out: int64[n], the session (before later merges), or NONE = late.
    at: address of session 0, or 0: they are near.
    """
    judged = marks.size > 0
    ahead = np.empty(TOGETHER, np.int64)
    for i in range(parts.size):
        if at != 0 and i % TOGETHER == 0:
            _fetch(parts, times, i, gap, head, at, ahead)
        p, t = parts[i], times[i]
        bound = NO_TIME  # sessions whose last event is at or below it are closed for this row
        if judged and marks[i] > NO_TIME + gap + lateness:
            bound = marks[i] - gap - lateness
        n, s = NONE, head[p]
        while s >= 0 and first[s] > t + gap:
            n, s = s, older[s]
        near = s >= 0 and last[s] >= t - gap
        o = NONE  # a second session near the row: the row joins both
        if near and older[s] >= 0 and last[older[s]] >= t - gap:
            o = older[s]
        if judged:
            late = floor[p] != NO_TIME and floor[p] >= t - gap
            if bound != NO_TIME:
                if near:
                    late = late or last[s] <= bound or (o >= 0 and last[o] <= bound)
                else:
                    late = late or t <= bound
            if late:
                out[i] = NONE
                continue
        if not near:
            k = _slot(free, numbers)
            first[k] = last[k] = t
            parent[k], part_of[k] = NONE, p
            older[k], newer[k] = s, n
            if s >= 0:
                newer[s] = k
            if n >= 0:
                older[n] = k
            else:
                head[p] = k
            stamp[k], old_first[k], old_last[k] = tick, NO_TIME, NO_TIME
            touched[numbers[TOUCHED]] = k
            numbers[TOUCHED] += 1
            out[i] = k
            continue
        _note(s, tick, first, last, stamp, old_first, old_last, touched, numbers)
        first[s] = min(first[s], t)
        last[s] = max(last[s], t)
        if o >= 0:
            _note(o, tick, first, last, stamp, old_first, old_last, touched, numbers)
            parent[o] = s
            first[s] = first[o]
            older[s] = older[o]
            if older[o] >= 0:
                newer[older[o]] = s
        out[i] = s


@kernel
def resolve(slots: Any, parent: Any) -> None:
    """Replace each session by the one it was merged into in the end; NONE stays."""
    for i in range(slots.size):
        s = slots[i]
        if s >= 0:
            while parent[s] >= 0:
                s = parent[s]
            slots[i] = s


@kernel
def unlink(
    slots: Any, head: Any, floor: Any, last: Any, older: Any, newer: Any, part_of: Any
) -> None:
    """Take sessions out of their lists; they are closed, and raise their partition's floor."""
    for i in range(slots.size):
        s = slots[i]
        p = part_of[s]
        o, n = older[s], newer[s]
        if o >= 0:
            newer[o] = n
        if n >= 0:
            older[n] = o
        else:
            head[p] = o
        floor[p] = max(floor[p], last[s])


@kernel
def relink(
    parts: Any, slots: Any, head: Any, first: Any, older: Any, newer: Any, part_of: Any
) -> None:
    """Put new sessions (with bounds set) into their partitions' lists."""
    for i in range(slots.size):
        p, k = parts[i], slots[i]
        n, s = NONE, head[p]
        while s >= 0 and first[s] > first[k]:
            n, s = s, older[s]
        older[k], newer[k], part_of[k] = s, n, p
        if s >= 0:
            newer[s] = k
        if n >= 0:
            older[n] = k
        else:
            head[p] = k


@kernel
def locate(
    parts: Any, times: Any, head: Any, first: Any, last: Any, older: Any, out: Any, at: Int
) -> None:
    """out: int64[n], the session that spans each time, or NONE. at: as for `place`."""
    ahead = np.empty(TOGETHER, np.int64)
    for i in range(parts.size):
        if at != 0 and i % TOGETHER == 0:
            _fetch(parts, times, i, 0, head, at, ahead)
        s = head[parts[i]]
        while s >= 0 and first[s] > times[i]:
            s = older[s]
        out[i] = s if s >= 0 and last[s] >= times[i] else NONE


@kernel
def touch(
    slots: Any, tick: int, first: Any, last: Any, stamp: Any, old_first: Any, old_last: Any,
    touched: Any,
) -> int:  # fmt: skip
    """Remember the bounds of sessions that are about to change; the new ones go to `touched`."""
    found = 0
    for i in range(slots.size):
        s = slots[i]
        if s >= 0 and stamp[s] != tick:
            stamp[s], old_first[s], old_last[s] = tick, first[s], last[s]
            touched[found] = s
            found += 1
    return found


@kernel
def pieces(group: Any, times: Any, gap: int, longest: int, out_start: Any, out_end: Any) -> None:
    """Bounds of the session of each row, rows sorted by (group, time): cut at gaps, and where a
    row lies `longest` (0 = no limit) or more behind its session's start."""
    n = times.size
    i = 0
    while i < n:
        j = i + 1
        while (
            j < n
            and group[j] == group[i]
            and times[j] - times[j - 1] <= gap
            and (longest == 0 or times[j] - times[i] < longest)
        ):
            j += 1
        end = times[j - 1] + gap
        if longest != 0:
            end = min(end, times[i] + longest)
        for k in range(i, j):
            out_start[k], out_end[k] = times[i], end
        i = j
