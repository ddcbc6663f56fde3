"""Event times in µs, whatever the column's type, and the queue of what closes when."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import END_OF_TIME, US_PER_DAY
from streamsql.operators.columns import BoolArray, int64_values, to_arrow, valid_mask


def event_time_us(column: pa.Array) -> tuple[Int64Array, BoolArray | None]:
    """(µs since the epoch int64[n], valid mask or None) of a DATE or TIMESTAMP[TZ] column."""
    values = int64_values(column)
    if pa.types.is_date32(column.type):
        values = values * US_PER_DAY
    return values, valid_mask(column)


INFINITY = 2**63 - 1
"""'infinity' as a timestamp; its negative is '-infinity'."""


def finite_times(column: pa.Array) -> tuple[Int64Array, BoolArray | None]:
    """`event_time_us` where infinite times count as missing: they belong to no window."""
    values, valid = event_time_us(column)
    if values.size and (int(values.max()) == INFINITY or int(values.min()) <= -INFINITY):
        finite = (values != INFINITY) & (values > -INFINITY)
        valid = finite if valid is None else valid & finite
    return values, valid


def event_time_column(
    us: Int64Array, type_: pa.DataType, valid: BoolArray | None = None
) -> pa.Array:
    """µs as a column of that type; a DATE is the day that holds the instant."""
    if pa.types.is_date32(type_):
        us = np.floor_divide(us, US_PER_DAY)
    return to_arrow(us, type_, valid)


class CloseQueue:
    """Slots by the time their window closes (µs).

    Slots may be freed or reused behind the queue's back: who pops checks them against the close
    time that the group holds now.
    Kept as a few sorted runs, the next one at most half as long as the one before it: O(log
    entries) an entry, in loops over arrays, however many different times there are.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Int64Array, Int64Array]] = []  # (times in order, slots)
        self._first = END_OF_TIME  # the earliest time of all

    def push(self, close_us: Int64Array, slots: Int64Array) -> None:
        """Note when these slots close."""
        if not slots.size:
            return
        runs = self._runs
        runs.append(_in_order(close_us, slots))
        self._first = min(self._first, int(runs[-1][0][0]))
        while len(runs) > 1 and runs[-2][0].size <= min(2 * runs[-1][0].size, MERGED_MAX):
            (late, later), (early, earlier) = runs.pop(), runs.pop()
            runs.append(_in_order(np.concatenate([early, late]), np.concatenate([earlier, later])))

    def pop(self, watermark: int) -> tuple[Int64Array, Int64Array]:
        """(close times int64[n], slots int64[n]) of everything that closes at or before the
        watermark, in order of time, then of slot; each pair once."""
        if not self._first <= watermark < END_OF_TIME:
            return NOTHING, NOTHING
        out, kept = [], []
        for times, slots in self._runs:
            n = int(np.searchsorted(times, watermark, "right"))
            out.append((times[:n], slots[:n]))
            if n < times.size:
                kept.append((_released(times[n:]), _released(slots[n:])))
        self._runs = kept
        self._first = min((int(times[0]) for times, _ in kept), default=END_OF_TIME)
        times = np.concatenate([part[0] for part in out])
        slots = np.concatenate([part[1] for part in out])
        order = np.lexsort((slots, times))
        times, slots = times[order], slots[order]
        again = (times[1:] == times[:-1]) & (slots[1:] == slots[:-1])
        if bool(again.any()):
            new = np.append(True, ~again)
            times, slots = times[new], slots[new]
        return times, slots

    def first_of(self, alive: Callable[[Int64Array, Int64Array], BoolArray]) -> int | None:
        """The earliest time of an entry that is not freed or reused; None if there is none.
        alive: (times, slots) -> which entries still hold."""
        found = []
        for times, slots in list(self._runs):
            held = np.flatnonzero(alive(times, slots))
            if held.size:
                found.append(int(times[held[0]]))
        return min(found, default=None)

    def next_us(self) -> int | None:
        """The time of the first entry, or None."""
        return self._first if self._runs else None


MERGED_MAX = 1 << 18  # entries of a run that is merged no more, or some push would be a pause
NOTHING = np.empty(0, np.int64)


def _released(rest: Int64Array) -> Int64Array:
    """The end of a run; a copy once most of it has left, whose memory it holds."""
    whole = rest.base
    return rest.copy() if whole is not None and whole.size > 2 * rest.size else rest


def _in_order(times: Int64Array, slots: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Both by time; copies, which nobody changes."""
    if times.size < 2 or bool((times[1:] >= times[:-1]).all()):
        return times.copy(), slots.copy()
    order = np.argsort(times, kind="stable")
    return times[order], slots[order]
