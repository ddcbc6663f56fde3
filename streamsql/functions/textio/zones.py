"""Time zones by name: local time ↔ UTC with PostgreSQL's choice in gaps and overlaps."""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from zoneinfo import ZoneInfo

from streamsql.core.errors import InvalidParameterValue

ABBREVIATIONS: dict[str, int] = {
    name: int(hours * 3600)
    for name, hours in {
        "utc": 0, "gmt": 0, "z": 0, "zulu": 0, "ut": 0, "wet": 0, "west": 1, "bst": 1, "cet": 1,
        "cest": 2, "met": 1, "mest": 2, "eet": 2, "eest": 3, "msk": 3, "ist": 2, "jst": 9,
        "kst": 9, "hkt": 8, "sgt": 8, "aest": 10, "aedt": 11, "acst": 9.5, "acdt": 10.5,
        "awst": 8, "nzst": 12, "nzdt": 13, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7,
        "mdt": -6, "pst": -8, "pdt": -7, "akst": -9, "akdt": -8, "hst": -10, "ast": -4, "adt": -3,
        "nst": -3.5, "ndt": -2.5,
    }.items()
}  # fmt: skip
"""Offsets in seconds of the abbreviations in PostgreSQL's Default list that people write."""

_EPOCH = datetime.datetime(1970, 1, 1)
_MAX_US = 253_402_300_799_999_999  # year 9999: zoneinfo's reach
_MIN_US = -62_135_596_800_000_000


@lru_cache(maxsize=512)
def _zone(name: str) -> ZoneInfo | None:
    if not name or name.startswith(("/", ".")):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def zone_exists(name: str) -> bool:
    """Whether the IANA database has a zone of this name."""
    return _zone(name) is not None


@lru_cache(maxsize=512)
def canonical_zone(name: str) -> str:
    """The zone's IANA name, or a fixed offset "+HH:MM" as Arrow reads it.

    Accepts names in any case, abbreviations ("CET" is a name, "EDT" an offset) and offsets; a bare
    number or ISO offset is *east* positive here, while POSIX text such as "UTC+3" is west positive.
    Raises: InvalidParameterValue (22023).

    >>> canonical_zone("europe/paris"), canonical_zone("+05:30")
    ('Europe/Paris', '+05:30')
    """
    text = name.strip()
    if zone_exists(text):
        return text
    lowered = text.lower()
    if lowered in ABBREVIATIONS:
        return offset_name(ABBREVIATIONS[lowered])
    m = re.fullmatch(r"([+-]?)(\d{1,2})(?::?(\d{2}))?", text)
    if m:
        seconds = int(m[2]) * 3600 + int(m[3] or 0) * 60
        return offset_name(-seconds if m[1] == "-" else seconds)
    m = re.fullmatch(r"(?:<[^>]+>|[a-z]{3,})([+-]?)(\d{1,2})(?::?(\d{2}))?", lowered)
    if m:  # POSIX: the sign counts westwards
        seconds = int(m[2]) * 3600 + int(m[3] or 0) * 60
        return offset_name(seconds if m[1] == "-" else -seconds)
    found = _by_lower_case().get(lowered)
    if found is None:
        raise InvalidParameterValue(f'time zone "{name}" not recognized')
    return found


@lru_cache(maxsize=1)
def _by_lower_case() -> dict[str, str]:
    from zoneinfo import available_timezones

    return {n.lower(): n for n in available_timezones()}


def offset_name(seconds: int) -> str:
    """ "+HH:MM" for an offset east of UTC."""
    sign = "-" if seconds < 0 else "+"
    return f"{sign}{abs(seconds) // 3600:02d}:{abs(seconds) // 60 % 60:02d}"


def fixed_offset(zone: str) -> int | None:
    """Seconds east of UTC if the canonical zone is a fixed offset or UTC, else None."""
    if zone in ("UTC", "Etc/UTC", "GMT"):
        return 0
    if zone[:1] in "+-":
        seconds = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        return -seconds if zone[0] == "-" else seconds
    return None


def local_to_utc(local_us: int, zone_name: str) -> int:
    """UTC µs of a wall-clock time. In a gap the offset before it applies, in an overlap the later
    one (standard time), as PostgreSQL does."""
    zone = canonical_zone(zone_name)
    fixed = fixed_offset(zone)
    if fixed is not None:
        return local_us - fixed * 1_000_000
    info = _zone(zone)
    clamped = min(max(local_us, _MIN_US + 10**11), _MAX_US - 10**11)
    wall = _EPOCH + datetime.timedelta(microseconds=clamped)
    first = wall.replace(tzinfo=info, fold=0).utcoffset()
    second = wall.replace(tzinfo=info, fold=1).utcoffset()
    assert first is not None and second is not None
    # overlap: fold=1 has the smaller offset (standard time); gap: fold=0 has the offset before
    offset = min(first, second)
    return local_us - int(offset.total_seconds()) * 1_000_000


def utc_offset_s(utc_us: int, zone_name: str) -> int:
    """Seconds east of UTC that hold in the zone at this instant."""
    zone = canonical_zone(zone_name)
    fixed = fixed_offset(zone)
    if fixed is not None:
        return fixed
    clamped = min(max(utc_us, _MIN_US + 10**11), _MAX_US - 10**11)
    moment = _EPOCH + datetime.timedelta(microseconds=clamped)
    offset = moment.replace(tzinfo=datetime.UTC).astimezone(_zone(zone)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
