"""Reading one INTERVAL as PostgreSQL does: units, ISO 8601, and SQL-standard forms."""

from __future__ import annotations

import re
from decimal import Decimal

from streamsql.core.errors import DatetimeFieldOverflow, InvalidDatetimeFormat

Interval = tuple[int, int, int]
"""(months, days, µs)"""


def _units(sizes: dict[str, int]) -> dict[str, int]:
    """{"d day days": 1} as {"d": 1, "day": 1, "days": 1}."""
    return {name: size for names, size in sizes.items() for name in names.split()}


_US = _units({
    "us usec usecs usecond useconds microsecond microseconds microsecon": 1,
    "ms msec msecs msecond mseconds millisecond milliseconds millisecon": 1000,
    "s sec secs second seconds": 1_000_000,
    "m min mins minute minutes": 60_000_000,
    "h hr hrs hour hours": 3_600_000_000,
})  # fmt: skip
_DAYS = _units({"d day days": 1, "w week weeks": 7})
_MONTHS = _units({
    "mon mons month months": 1,
    "qtr quarter quarters": 3,
    "y yr yrs year years": 12,
    "dec decs decade decades": 120,
    "c cent century centuries": 1200,
    "mil mils millennium millennia": 12000,
})  # fmt: skip
_US_PER_DAY = 86_400_000_000
_TOKEN = re.compile(
    r"\s*(?:(?P<clock>[+-]?\d+:\d{1,2}(?::\d{1,2})?(?:\.\d*)?)"
    r"|(?P<ym>[+-]?\d+-\d{1,2})(?![\d.])"
    r"|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
    r"|(?P<word>[A-Za-z]+)|(?P<at>@))",
    re.IGNORECASE,
)


def parse_interval(text: str, unit: str = "second", *, first: str | None = None) -> Interval:
    """(months, days, µs) of the text. A bare number counts in `unit`; two of a clock are minutes
    and seconds if the interval's `first` field is the minute. Raises: 22007, 22008 (as 22P02 is
    for plain values, PostgreSQL gives intervals 22007).

    >>> parse_interval("1 year 2 mons 3 days 04:05:06")
    (14, 3, 14706000000)
    """
    body = text.strip()
    if re.fullmatch(r"-?P.*", body):
        return _parse_iso(body, text)
    total = _Sum()
    ago = False
    pending: Decimal | None = None
    at = 0
    while at < len(body):
        m = _TOKEN.match(body, at)
        if m is None:
            if body[at].isspace():
                at += 1
                continue
            raise _bad(text)
        at = m.end()
        if m["at"]:
            continue
        if m["word"]:
            word = m["word"].lower()
            if word == "ago":
                ago = True
            elif pending is None:
                raise _bad(text)
            else:
                total.add(pending, word, text)
                pending = None
            continue
        if pending is not None:  # '1 04:05': days before a clock, without their unit
            if not m["clock"]:
                raise _bad(text)
            total.add(pending, "day", text)
            pending = None
        if m["clock"]:
            total.us += _clock(m["clock"], text, first == "minute")
        elif m["ym"]:
            years, months = m["ym"].lstrip("+-").split("-")
            count = int(years) * 12 + int(months)
            total.months += -count if m["ym"][0] == "-" else count
        else:
            pending = Decimal(m["number"])
        total.seen = True
    if pending is not None:
        total.add(pending, unit, text)
    if not total.seen:
        raise _bad(text)
    return total.result(text, -1 if ago else 1)


class _Sum:
    """The parts added so far; fractions of a month go to days, of a day to µs."""

    def __init__(self) -> None:
        self.months = 0
        self.days = 0
        self.us = 0
        self.seen = False

    def add(self, amount: Decimal, word: str, text: str) -> None:
        """Add `amount` units named `word`."""
        if word in _US:
            self.us += int((amount * _US[word]).to_integral_value())
        elif word in _DAYS:
            self._add_days(amount * _DAYS[word])
        elif word in _MONTHS:
            exact = amount * _MONTHS[word]
            whole = int(exact)
            self.months += whole
            if _MONTHS[word] == 1:
                self._add_days((exact - whole) * 30)
            else:  # PostgreSQL rounds fractions of a year to months
                self.months += int((exact - whole).to_integral_value())
        else:
            raise _bad(text)

    def _add_days(self, days: Decimal) -> None:
        whole = int(days)
        self.days += whole
        self.us += int(((days - whole) * _US_PER_DAY).to_integral_value())

    def result(self, text: str, sign: int) -> Interval:
        """The three numbers, range-checked."""
        if abs(self.months) >= 2**31 or abs(self.days) >= 2**31 or abs(self.us) >= 2**63:
            raise DatetimeFieldOverflow(f'interval field value out of range: "{text}"')
        return sign * self.months, sign * self.days, sign * self.us


def _clock(token: str, text: str, from_minutes: bool) -> int:
    """µs of hh:mm, hh:mm:ss; a fraction is one of seconds: mm:ss.f."""
    sign = -1 if token[0] == "-" else 1
    parts = token.lstrip("+-").split(":")
    if len(parts) == 2:
        parts = ["0", *parts] if from_minutes or "." in parts[1] else [*parts, "0"]
    hours, minutes, seconds = int(parts[0]), int(parts[1]), Decimal(parts[2])
    if minutes > 59 or seconds >= 61:  # 1:02:60 is 1:03:00
        raise DatetimeFieldOverflow(f'interval field value out of range: "{text}"')
    us = (hours * 60 + minutes) * 60_000_000 + int((seconds * 1_000_000).to_integral_value())
    return sign * us


def _parse_iso(body: str, text: str) -> Interval:
    sign = -1 if body[0] == "-" else 1
    m = re.fullmatch(r"-?P([^T]*)(?:T(.*))?", body)
    assert m is not None
    total = _Sum()
    date_units = {"Y": "year", "M": "month", "W": "week", "D": "day"}
    time_units = {"H": "hour", "M": "minute", "S": "second"}
    for part, units in ((m[1], date_units), (m[2] or "", time_units)):
        taken = 0
        for item in re.finditer(r"([+-]?\d+(?:\.\d*)?)([A-Z])", part):
            if item[2] not in units or item.start() != taken:
                raise _bad(text)
            total.add(Decimal(item[1]), units[item[2]], text)
            total.seen = True
            taken = item.end()
        if taken != len(part):
            raise _bad(text)
    if not total.seen:
        raise _bad(text)
    return total.result(text, sign)


def _bad(text: str) -> InvalidDatetimeFormat:
    return InvalidDatetimeFormat(f'invalid input syntax for type interval: "{text}"')
