"""Which time windows a row belongs to. All times are int64 µs since the epoch, UTC."""

from __future__ import annotations

from typing import Any

from streamsql.kernels.bits import load_i64, store_i64
from streamsql.kernels.jit import device, kernel

INFINITY = 2**63 - 1


@device
def floor_to(t: int, step: int, offset: int) -> int:
    """The largest k * step + offset that is <= t."""
    return (t - offset) // step * step + offset


@kernel
def tumble(times: Any, size: int, offset: int, out: Any) -> None:
    """out: int64[n], the start of the window of each time."""
    start = 0
    known = False
    for i in range(times.size):
        t = times[i]
        # times come mostly in order: a division is needed once a window
        if not known or t < start or t - start >= size:
            start = floor_to(t, size, offset)
            known = True
        out[i] = start


@kernel
def tumble_column(times: int, n: int, size: int, offset: int, room: int, out: int) -> bool:
    """Starts, ends, and last µs of the windows of n times (int64 at the address `times`), as three
    columns of `room` bytes one after the other at the address `out`. Returns whether all times
    were finite; else what was written means nothing."""
    start = 0
    known = False
    for i in range(n):
        t = load_i64(times + 8 * i)
        if t == INFINITY or t <= -INFINITY:
            return False
        if not known or t < start or t - start >= size:
            start = floor_to(t, size, offset)
            known = True
        store_i64(out + 8 * i, start)
    for i in range(n):  # by itself, so that several go at once
        store_i64(out + room + 8 * i, load_i64(out + 8 * i) + size)
    for i in range(n):
        store_i64(out + 2 * room + 8 * i, load_i64(out + 8 * i) + (size - 1))
    return True


@kernel
def count_hops(times: Any, size: int, slide: int, offset: int) -> int:
    """How many (row, window) pairs there are."""
    total = 0
    for i in range(times.size):
        last = floor_to(times[i], slide, offset)
        # starts last, last - slide, … while start > t - size
        total += max(0, (last - (times[i] - size) + slide - 1) // slide)
    return total


@kernel
def hops(times: Any, size: int, slide: int, offset: int, out_row: Any, out_start: Any) -> None:
    """(row, window start) of every window [start, start + size) that holds the row's time."""
    k = 0
    for i in range(times.size):
        t = times[i]
        start = floor_to(t, slide, offset)
        first = start
        while first - slide > t - size:
            first -= slide
        while first <= start:
            if first > t - size:
                out_row[k], out_start[k] = i, first
                k += 1
            first += slide


@kernel
def cumulates(
    times: Any, step: int, size: int, offset: int, out_row: Any, out_start: Any, out_end: Any
) -> int:
    """(row, start, end): windows that grow from a common start by `step` up to `size`.

    Outputs have room for n * ceil(size / step) entries; returns how many there are.
    """
    k = 0
    for i in range(times.size):
        start = floor_to(times[i], size, offset)
        last = start + size
        end = min(start + ((times[i] - start) // step + 1) * step, last)
        while True:
            out_row[k], out_start[k], out_end[k] = i, start, end
            k += 1
            if end == last:
                break
            end = min(end + step, last)
    return k


@kernel
def month_of(days: Any, out: Any) -> None:
    """out: int64[n], months since 1970-01 of days since 1970-01-01 (proleptic Gregorian)."""
    for i in range(days.size):
        z = days[i] + 719468
        era = z // 146097
        day = z - era * 146097
        year = (day - day // 1460 + day // 36524 - day // 146096) // 365
        yday = day - (365 * year + year // 4 - year // 100)
        m = (5 * yday + 2) // 153
        month = m + 3 if m < 10 else m - 9
        out[i] = (year + era * 400 + (1 if month <= 2 else 0) - 1970) * 12 + month - 1


@kernel
def day_of_month_start(months: Any, out: Any) -> None:
    """out: int64[n], days since 1970-01-01 of the first day of months since 1970-01."""
    for i in range(months.size):
        year = months[i] // 12 + 1970
        month = months[i] - months[i] // 12 * 12 + 1
        y = year - 1 if month <= 2 else year
        era = y // 400
        yoe = y - era * 400
        doy = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5
        out[i] = era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468
