"""UTC offsets of named zones for whole columns.

Arrow does not follow the rule that holds after a zone's last listed transition (its summers end in
2037), so the transitions come from `zoneinfo`, once per zone and year.
"""

from __future__ import annotations

import datetime
import functools
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

DAY_S = 86_400
CYCLE_S = 146_097 * DAY_S  # the Gregorian calendar repeats every 400 years
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799  # years 1 to 9999
_STEP_S = 7 * DAY_S  # no zone changed twice within a week and came back
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def named_offsets(us: Any, zone: str) -> Any:
    """Seconds east of UTC in an IANA zone at each instant. us: int64 [n], µs since 1970, UTC.

    >>> named_offsets(np.array([2_540_000_000_000_000]), "America/New_York").tolist()  # June 2050
    [-14400]
    """
    at = us // 1_000_000
    at = np.where(at < _FIRST_S, _FIRST_S, at)  # local mean time, as ever before
    at = np.where(at > _LAST_S, at - ((at - _LAST_S) // CYCLE_S + 1) * CYCLE_S, at)
    years = np.unique(at.astype("M8[s]").astype("M8[Y]").astype(np.int64)) + 1970
    tables = [_transitions(zone, int(year)) for year in years]
    starts = np.concatenate([table[0] for table in tables] or [np.empty(0, np.int64)])
    values = np.concatenate([table[1] for table in tables] or [np.empty(0, np.int64)])
    return values[np.searchsorted(starts, at, side="right") - 1]


def _offset_at(zone: ZoneInfo, second: int) -> int:
    moment = (_EPOCH + datetime.timedelta(seconds=second)).replace(tzinfo=zone)
    shift = zone.fromutc(moment).utcoffset()
    assert shift is not None
    return int(shift.total_seconds())


@functools.lru_cache(maxsize=16_384)
def _transitions(name: str, year: int) -> tuple[Any, Any]:
    """From which second on (UTC) which offset holds, within one year."""
    zone = ZoneInfo(name)
    start = int(np.datetime64(f"{year:04d}-01-01", "s").astype(np.int64))
    days = 366 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 365
    end = start + days * DAY_S
    # `fromutc` must not leave the years that datetime knows
    low, high = max(start, _FIRST_S + DAY_S), min(end, _LAST_S - DAY_S)
    starts, values = [start], [_offset_at(zone, low)]
    at = low
    while at < high:
        ahead = min(at + _STEP_S, high)
        value = _offset_at(zone, ahead)
        if value != values[-1]:
            first, last = at, ahead
            while last - first > 1:
                middle = (first + last) // 2
                if _offset_at(zone, middle) == values[-1]:
                    first = middle
                else:
                    last = middle
            starts.append(last)
            values.append(value)
        at = ahead
    return np.array(starts, np.int64), np.array(values, np.int64)
