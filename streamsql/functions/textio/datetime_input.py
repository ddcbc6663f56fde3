"""Reading one date, time or timestamp as PostgreSQL does (DateStyle ISO, MDY).

The slow path: one Python call a value, used for literals and for the distinct values that the
vectorised readers in `datetimes.py` do not recognise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamsql.core.errors import (
    DatetimeFieldOverflow,
    InvalidDatetimeFormat,
    InvalidParameterValue,
)
from streamsql.functions.textio.calendar import (
    DATE_INFINITY,
    TIMESTAMP_INFINITY,
    US_PER_DAY,
    civil_from_days,
    days_from_civil,
    days_in_month,
)
from streamsql.functions.textio.zones import ABBREVIATIONS, local_to_utc, zone_exists

JULIAN_1970 = 2440588
"""The Julian day of 1970-01-01."""
_MONTHS = {
    name: i + 1
    for i, names in enumerate(
        ("jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july",
         "aug august", "sep sept september", "oct october", "nov november", "dec december")
    )
    for name in names.split()
}  # fmt: skip
_WEEKDAYS = frozenset(
    [
        "mon",
        "monday",
        "tue",
        "tues",
        "tuesday",
        "wed",
        "wednesday",
        "weds",
        "thu",
        "thur",
        "thurs",
        "thursday",
        "fri",
        "friday",
        "sat",
        "saturday",
        "sun",
        "sunday",
    ]
)
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<time>\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?)
    | (?P<isodate>\d{4,7}-\d{1,2}-\d{1,2})
    | (?P<tz>[+-]\d{1,2}(?::?\d{2}(?::?\d{2})?)?)
    | (?P<dashdate>\d{1,2}-(?:\d{1,2}|[A-Za-z]{3,9})-\d{1,4}|\d{4}-[A-Za-z]{3,9}-\d{1,2})
    | (?P<slashdate>\d{1,4}[/.]\d{1,2}[/.]\d{1,4})
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<zone>[A-Za-z]+(?:/[A-Za-z_+\-0-9]+)+)
    | (?P<julian>[Jj]\d{1,8}(?![A-Za-z0-9]))
    | (?P<word>[A-Za-z]+)
    | (?P<sep>[,\-])
    )""",
    re.VERBOSE,
)


@dataclass
class Fields:
    """What was read: date (year None = no date given), time of day in µs, and a zone."""

    year: int | None = None
    month: int = 1
    day: int = 1
    time_us: int | None = None
    offset_s: int | None = None
    zone: str | None = None
    special: str | None = None
    bc: bool = False
    short_year: bool = False
    meridian: str | None = None


def _bad(kind: str, text: str) -> InvalidDatetimeFormat:
    return InvalidDatetimeFormat(f'invalid input syntax for type {kind}: "{text}"')


def _overflow(text: str, *, hint: bool = False) -> DatetimeFieldOverflow:
    return DatetimeFieldOverflow(
        f'date/time field value out of range: "{text}"',
        hint='Perhaps you need a different "datestyle" setting.' if hint else None,
    )


def read_fields(text: str, kind: str) -> Fields:
    """Split the text into fields. Raises: 22007, 22008."""
    f = Fields()
    at = 0
    body = text.strip()
    loose: list[str] = []
    if not body:
        raise _bad(kind, text)
    while at < len(body):
        m = _TOKEN.match(body, at)
        if m is None or m.end() == at:
            if body[at].isspace():
                at += 1
                continue
            raise _bad(kind, text)
        at = m.end()
        _take(f, m.lastgroup or "", m.group(m.lastgroup or 0), loose, text, kind)
    if loose:
        _take_loose(f, loose, text, kind)
    return _checked(f, text)


def _take(f: Fields, what: str, token: str, loose: list[str], text: str, kind: str) -> None:
    if what == "time":
        f.time_us = _read_time(token, text)
    elif what == "isodate":
        y, mo, d = token.split("-")
        f.year, f.month, f.day = int(y), int(mo), int(d)
    elif what == "tz":
        if f.time_us is None and f.year is None and not loose:
            raise _bad(kind, text)
        f.offset_s = _read_offset(token, text)
    elif what == "dashdate":
        a, b, c = token.split("-")
        if b.isalpha() and len(a) == 4:
            _set_date(f, a, _month(b, text, kind), int(c))
        elif b.isalpha():
            _set_date(f, c, _month(b, text, kind), int(a))
        else:
            _set_date(f, c, int(a), int(b))
    elif what == "slashdate":
        a, b, c = re.split(r"[/.]", token)
        if len(a) >= 3:
            f.year, f.month, f.day = int(a), int(b), int(c)
        else:
            _set_date(f, c, int(a), int(b))
    elif what == "julian":
        _set_days(f, int(token[1:]) - JULIAN_1970)
    elif what == "number":
        _take_number(f, token, loose, text, kind)
    elif what == "zone":
        if not zone_exists(token):
            raise InvalidParameterValue(f'time zone "{token.lower()}" not recognized')
        f.zone = token
    elif what == "word":
        _take_word(f, token.lower(), loose, text, kind)


def _take_number(f: Fields, token: str, loose: list[str], text: str, kind: str) -> None:
    if token.isdigit() and len(token) == 8 and f.year is None:
        f.year, f.month, f.day = int(token[:4]), int(token[4:6]), int(token[6:])
    elif token.isdigit() and len(token) == 6 and f.year is not None and f.time_us is None:
        f.time_us = _read_time(f"{token[:2]}:{token[2:4]}:{token[4:]}", text)
    elif token.isdigit() and len(token) == 6 and f.year is None and kind != "time":
        _set_date(f, token[:2], int(token[2:4]), int(token[4:]))
    elif token.isdigit():
        loose.append(token)
    elif f.year is None and re.fullmatch(r"\d{4}\.\d{3}", token):  # a year and its day
        first = days_from_civil(int(token[:4]), 1, 1)
        _set_days(f, first + int(token[5:]) - 1)
    else:
        raise _bad(kind, text)


def _take_word(f: Fields, word: str, loose: list[str], text: str, kind: str) -> None:
    if word in ("now", "today", "tomorrow", "yesterday", "epoch", "infinity"):
        f.special = "-" + word if text.strip().startswith("-") else word
    elif word in ("am", "pm"):
        f.meridian = word
    elif word in ("bc", "ad"):
        f.bc = word == "bc"
    elif word == "allballs":
        f.time_us = 0
    elif word in _MONTHS:
        loose.append(word)
    elif word in _WEEKDAYS or word in ("t", "at", "on"):
        return
    elif word in ABBREVIATIONS:
        f.offset_s = ABBREVIATIONS[word]
    elif zone_exists(word) or zone_exists(word.upper()):
        f.zone = word.upper() if zone_exists(word.upper()) else word
    else:
        raise _bad(kind, text)


def _take_loose(f: Fields, loose: list[str], text: str, kind: str) -> None:
    """Dates with a month name ("January 5, 2020", "5 Jan 2020", "2020 Jan 5")."""
    month = next((t for t in loose if t in _MONTHS), None)
    numbers = [t for t in loose if t.isdigit()]
    if month is None or len(numbers) != 2:
        raise _bad(kind, text)
    first, second = numbers
    if len(first) > 2:
        first, second = second, first
    _set_date(f, second, _MONTHS[month], int(first))


def _month(name: str, text: str, kind: str) -> int:
    found = _MONTHS.get(name.lower())
    if found is None:
        raise _bad(kind, text)
    return found


def _set_date(f: Fields, year: str, month: int, day: int) -> None:
    f.year, f.month, f.day = int(year), month, day
    f.short_year = len(year) <= 2


def _set_days(f: Fields, days: int) -> None:
    """The date of a day number, counted from 1970."""
    year, f.month, f.day = civil_from_days(days)
    f.bc = year <= 0
    f.year = 1 - year if f.bc else year


def _read_time(token: str, text: str) -> int:
    parts = token.split(":")
    hour, minute = int(parts[0]), int(parts[1])
    seconds = parts[2] if len(parts) > 2 else "0"
    whole, _, fraction = seconds.partition(".")
    us = round(int((fraction + "0" * 9)[:9] or 0) / 1000)
    if minute > 59 or int(whole) > 60 or hour > 24:
        raise _overflow(text)
    total = ((hour * 60 + minute) * 60 + int(whole)) * 1_000_000 + us
    if total > US_PER_DAY:
        raise _overflow(text)
    return total


def _read_offset(token: str, text: str) -> int:
    sign = -1 if token[0] == "-" else 1
    digits = token[1:].replace(":", "")
    if len(digits) <= 2:
        digits = digits.zfill(2) + "0000"
    else:
        digits = digits.zfill(4 if len(digits) <= 4 else 6).ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6])
    if int(digits[:2]) > 15 or int(digits[2:4]) > 59:
        raise InvalidParameterValue(f'time zone displacement out of range: "{text}"')
    return sign * seconds


def _checked(f: Fields, text: str) -> Fields:
    if f.meridian is not None:
        if f.time_us is None:
            raise _bad("timestamp", text)
        hour = f.time_us // 3_600_000_000
        if not 1 <= hour <= 12:
            raise _overflow(text)
        shift = (0 if hour == 12 else hour) + (12 if f.meridian == "pm" else 0)
        f.time_us += (shift - hour) * 3_600_000_000
    if f.year is not None:
        if f.short_year and not f.bc:  # 99 is 1999, but 99 BC is 99 BC
            f.year += 2000 if f.year < 70 else 1900
        if f.bc:
            f.year = 1 - f.year
        elif f.year == 0:
            raise _overflow(text)
        if not 1 <= f.month <= 12 or not 1 <= f.day <= 31:
            raise _overflow(text, hint=True)
        if f.day > days_in_month(f.year, f.month):
            raise _overflow(text)
    return f


def parse_date(text: str, now_us: int | None = None) -> int:
    """Days since 1970-01-01. Raises: 22007, 22008."""
    f = read_fields(text, "date")
    if f.special is not None:
        if f.special.endswith("infinity"):
            return DATE_INFINITY if f.special == "infinity" else -DATE_INFINITY
        return _special_us(f.special, now_us) // US_PER_DAY
    if f.year is None:
        raise _bad("date", text)
    days = days_from_civil(f.year, f.month, f.day)
    if not -2440588 <= days < 2145031949:
        raise DatetimeFieldOverflow(f'date out of range: "{text}"')
    return days


def parse_time(text: str) -> int:
    """Microseconds since midnight. Raises: 22007, 22008."""
    body = text.strip()
    if re.fullmatch(r"\d{4}|\d{6}", body):
        body = ":".join(body[i : i + 2] for i in range(0, len(body), 2))
    try:
        f = read_fields(body, "time")
    except InvalidDatetimeFormat:
        raise _bad("time", text) from None
    if f.special == "now":
        raise _bad("time", text)
    if f.time_us is None:
        raise _bad("time", text)
    return f.time_us


def parse_timestamp(text: str, now_us: int | None = None) -> int:
    """Local microseconds since 1970-01-01; a zone in the text is read and ignored, as PostgreSQL
    does.

    Raises: 22007, 22008.
    """
    f = read_fields(text, "timestamp")
    if f.special is not None:
        return _special_us(f.special, now_us, f.time_us or 0)
    return _local_us(f, text, "timestamp")


def parse_timestamptz(text: str, timezone: str, now_us: int | None = None) -> int:
    """UTC microseconds; a text without a zone is local to `timezone`. Raises: 22007, 22008."""
    f = read_fields(text, "timestamp with time zone")
    if f.special is not None:
        return _special_us(f.special, now_us, f.time_us or 0)
    local = _local_us(f, text, "timestamp with time zone")
    if f.offset_s is not None:
        return local - f.offset_s * 1_000_000
    return local_to_utc(local, f.zone or timezone)


def _local_us(f: Fields, text: str, kind: str) -> int:
    if f.year is None:
        raise _bad(kind, text)
    us = days_from_civil(f.year, f.month, f.day) * US_PER_DAY + (f.time_us or 0)
    if not -210_866_803_200_000_000 <= us < 9_223_371_331_200_000_000 - 946_684_800_000_000:
        raise DatetimeFieldOverflow(f'timestamp out of range: "{text}"')
    return us


def _special_us(special: str, now_us: int | None, time_us: int = 0) -> int:
    if special == "infinity":
        return TIMESTAMP_INFINITY
    if special == "-infinity":
        return -TIMESTAMP_INFINITY
    if special == "epoch":
        return 0
    if now_us is None:
        import time

        now_us = time.time_ns() // 1000
    if special == "now":
        return now_us
    shift = {"today": 0, "tomorrow": 1, "yesterday": -1}[special]
    return (now_us // US_PER_DAY + shift) * US_PER_DAY + time_us
