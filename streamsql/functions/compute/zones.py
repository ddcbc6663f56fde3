"""Local time ↔ UTC for whole columns, with PostgreSQL's choice in gaps and overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsql.functions.textio.calendar import TIMESTAMP_INFINITY
from streamsql.functions.textio.output import zone_offsets
from streamsql.functions.textio.zones import canonical_zone, fixed_offset

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


def _keep_infinity(source: Any, moved: Any) -> Any:
    infinite = np.abs(source) == TIMESTAMP_INFINITY
    return np.where(infinite, source, moved) if infinite.any() else moved


def local_from_utc(us: Any, timezone: str) -> Any:
    """Wall-clock µs of instants. us: int64 [n]."""
    zone = canonical_zone(timezone)
    fixed = fixed_offset(zone)
    if fixed == 0:
        return us
    return _keep_infinity(us, us + zone_offsets(us, zone) * _SECOND)


def utc_from_local(us: Any, timezone: str) -> Any:
    """Instants of wall-clock µs: a time in an overlap is the later one (standard time), a time in a
    gap is taken with the offset before the gap. us: int64 [n]."""
    zone = canonical_zone(timezone)
    fixed = fixed_offset(zone)
    if fixed is not None:
        return us if fixed == 0 else _keep_infinity(us, us - fixed * _SECOND)
    inside = np.abs(us) != TIMESTAMP_INFINITY
    safe = np.where(inside, us, 0)
    before = zone_offsets(safe - _DAY, zone)
    after = zone_offsets(safe + _DAY, zone)
    # away from a change both agree; near one, the offset in force at the candidate decides
    by_after = safe - after * _SECOND
    after_holds = zone_offsets(by_after, zone) == after
    by_before = safe - before * _SECOND
    before_holds = zone_offsets(by_before, zone) == before
    overlap = after_holds & before_holds & (before != after)
    smaller = np.minimum(before, after)
    offset = np.where(overlap, smaller, np.where(after_holds, after, before))
    return _keep_infinity(us, safe - offset * _SECOND)
