"""Calendar loops over day numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from streamsql.functions.compute.loops import loop


@njit
def _civil(days):  # type: ignore[no-untyped-def]
    days += 719468
    era = days // 146097
    doe = days - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = mp + 3 if mp < 10 else mp - 9
    return yoe + era * 400 + (1 if month <= 2 else 0), month, day


@njit
def _days(year, month, day):  # type: ignore[no-untyped-def]
    if month <= 2:
        year -= 1
    era = year // 400
    yoe = year - era * 400
    doy = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


@loop(0)
def civil(days, year, month, day):  # type: ignore[no-untyped-def]
    """year, month, day [n] of day numbers int64 [n]; neighbours are often equal."""
    last = np.int64(-(2**62))
    y, m, d = np.int64(0), np.int64(0), np.int64(0)
    for i in range(days.size):
        if days[i] != last:
            last = days[i]
            y, m, d = _civil(last)
        year[i] = y
        month[i] = m
        day[i] = d


@loop(0, 1, 2)
def days_of(year, month, day, out):  # type: ignore[no-untyped-def]
    """Day numbers of dates, int64 [n] each."""
    for i in range(out.size):
        out[i] = _days(year[i], month[i], day[i])
