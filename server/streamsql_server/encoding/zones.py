"""Offsets of time zones for whole columns.

Arrow ignores the rule that holds after a zone's last listed transition (its summers end in 2037)
and needs the system's zone files; so the transitions come from `zoneinfo`, per year, once.
"""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo

import numpy as np

from streamsql.core.errors import InvalidParameterValue
from streamsql_server.encoding.pieces import AnyArray

DAY_S = 86_400
CYCLE_S = 146_097 * DAY_S  # the Gregorian calendar repeats every 400 years
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799  # years 1 to 9999
_STEP_S = 7 * DAY_S  # no zone changed twice within a week and came back
_FIXED = re.compile(r"^([+-])(\d{1,2})(?::?(\d{2}))?$")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def offsets(us: AnyArray, zone: str) -> AnyArray:
    """Seconds east of UTC in that zone at each instant (int64 [n], µs since 1970).

    A bare number of hours follows ISO (`+02` is east), as SET TIME ZONE does.
    Raises: InvalidParameterValue (22023) for an unknown zone.
    """
    fixed = _FIXED.match(zone)
    if fixed:
        sign = 1 if fixed[1] == "+" else -1
        seconds = sign * (int(fixed[2]) * 3600 + int(fixed[3] or 0) * 60)
        return np.full(len(us), seconds, np.int64)
    at = us // 1_000_000
    at = np.where(at < _FIRST_S, _FIRST_S, at)  # local mean time, as ever before
    at = np.where(at > _LAST_S, at - ((at - _LAST_S) // CYCLE_S + 1) * CYCLE_S, at)
    years = np.unique(at.astype("M8[s]").astype("M8[Y]").astype(np.int64)) + 1970
    tables = [_transitions(zone, int(year)) for year in years]
    starts = np.concatenate([table[0] for table in tables] or [np.empty(0, np.int64)])
    values = np.concatenate([table[1] for table in tables] or [np.empty(0, np.int64)])
    found: AnyArray = values[np.searchsorted(starts, at, side="right") - 1]
    return found


@functools.lru_cache(maxsize=32)
def _zone(name: str) -> zoneinfo.ZoneInfo:
    for spelling in (name, name.title(), name.upper()):
        try:
            return zoneinfo.ZoneInfo(spelling)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            continue
    raise InvalidParameterValue(f'invalid value for parameter "TimeZone": "{name}"')


def _offset_at(zone: zoneinfo.ZoneInfo, second: int) -> int:
    instant = (_EPOCH + datetime.timedelta(seconds=second)).replace(tzinfo=zone)
    shift = zone.fromutc(instant).utcoffset()
    assert shift is not None
    return int(shift.total_seconds())


@functools.lru_cache(maxsize=16_384)
def _transitions(name: str, year: int) -> tuple[AnyArray, AnyArray]:
    """From which second on which offset holds, for one year (UTC)."""
    zone = _zone(name)
    start = int(np.datetime64(f"{year:04d}-01-01", "s").astype(np.int64))
    end = start + (366 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 365) * DAY_S
    margin = DAY_S  # `fromutc` must not leave the years that datetime knows
    low, high = max(start, _FIRST_S + margin), min(end, _LAST_S - margin)
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
