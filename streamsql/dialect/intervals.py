"""PostgreSQL's interval input: text to months, days and microseconds.

All its forms: '1 day 02:03:04', '-3 mons', '1.5 hours', '@ 1 year ago', '1-2', '3 4:05:06' (SQL
standard), ISO 8601 ('P1Y2M3DT4H5M6S', 'P0001-02-03T04:05:06'), and a bare number whose unit the
literal gives.
"""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from streamsql.core.errors import DatetimeFieldOverflow, InvalidDatetimeFormat
from streamsql.core.interval_fields import cut, digits_of, first_field, last_field, modifier

Parts = tuple[int, int, int]
"""months, days, microseconds."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
DAYS_PER_MONTH = 30

# unit -> (months, days, µs) of one
_UNITS: dict[str, Parts] = {}
for _names, _size in (
    ("us usec usecs usecond useconds microsecond microseconds microsecon", (0, 0, 1)),
    ("ms msec msecs msecond mseconds millisecond milliseconds millisecon", (0, 0, 1000)),
    ("s sec secs second seconds", (0, 0, SECOND)),
    ("m min mins minute minutes", (0, 0, MINUTE)),
    ("h hr hrs hour hours", (0, 0, HOUR)),
    ("d day days", (0, 1, 0)),
    ("w week weeks", (0, 7, 0)),
    ("mon mons month months", (1, 0, 0)),
    ("qtr quarter quarters", (3, 0, 0)),
    ("y yr yrs year years", (12, 0, 0)),
    ("dec decs decade decades", (120, 0, 0)),
    ("c cent century centuries", (1200, 0, 0)),
    ("mil mils millennia millennium", (12000, 0, 0)),
):
    for _name in _names.split():
        _UNITS[_name] = _size

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<clock>[+-]?\d+:\d+(?::\d+)?(?:\.\d*)?)
    | (?P<yearmonth>[+-]?\d+-\d+)(?![\d.])
    | (?P<number>{_NUMBER}(?:[eE][+-]?\d+)?)
    | (?P<word>[a-zA-Z]+)
    )""",
    re.VERBOSE,
)
_ISO = re.compile(
    rf"(?P<sign>-)?P(?=.)(?P<date>(?:{_NUMBER}[YMWD])*)(?:T(?P<time>(?:{_NUMBER}[HMS])+))?",
    re.IGNORECASE,
)
_ISO_ALTERNATIVE = re.compile(
    r"P(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d(?:\.\d+)?))?", re.IGNORECASE
)
_ISO_PART = re.compile(rf"({_NUMBER})([A-Z])", re.IGNORECASE)
_INT32 = 2**31


def interval_parts(interval: exp.Interval | str, unit: str | None = None) -> Parts:
    """(months, days, µs) of an interval literal or of an interval's text.

    unit: what a number without a unit counts ("MINUTE"); seconds if not given.
    Raises: InvalidDatetimeFormat (22007), DatetimeFieldOverflow (22008).

    >>> interval_parts("1 day 02:03:04")
    (0, 1, 7384000000)
    >>> interval_parts("-3 mons"), interval_parts("1.5 hours"), interval_parts("P1Y2M")
    ((-3, 0, 0), (0, 0, 5400000000), (14, 0, 0))
    """
    first = last = unit.lower() if unit else None
    if isinstance(interval, str):
        text = interval
    else:
        text = interval.this.name
        given = interval.args.get("unit")
        if isinstance(given, exp.IntervalSpan):
            first, last = given.this.name.lower(), given.expression.name.lower()
        elif given is not None:
            first = last = given.name.lower()
    parts = _Reader(text, first, last).read()
    if first is not None and last is not None:
        parts = cut(*parts, modifier(last, last, None) or 0)  # as PostgreSQL does
    if not isinstance(interval, str):
        parts = _rounded(parts, interval.args.get("digits"))
    if not (
        -_INT32 <= parts[0] < _INT32 and -_INT32 <= parts[1] < _INT32 and abs(parts[2]) < 2**63
    ):
        raise DatetimeFieldOverflow(f'interval field value out of range: "{text}"')
    return parts


def kept_parts(interval: exp.Interval, number: int) -> Parts:
    """What a cast to an INTERVAL type with this modifier (core/interval_fields.py) keeps; a number
    without a unit counts its last field.

    >>> kept_parts(exp.Interval(this=exp.Literal.string("1.5 s")), 0)
    (0, 0, 2000000)
    """
    first, last = first_field(number), last_field(number)
    if interval.args.get("unit") is None and first is not None and last is not None:
        span = exp.IntervalSpan(this=exp.Var(this=first), expression=exp.Var(this=last))
        interval = exp.Interval(this=interval.this.copy(), unit=span)
    parts = interval_parts(interval)
    return _rounded(cut(*parts, number), digits_of(number))


def interval_text(months: int, days: int, us: int) -> str:
    """An interval as text that `interval_parts` reads back."""
    return f"{months} mons {days} days {us} us"


def _rounded(parts: Parts, digits: int | None) -> Parts:
    """INTERVAL '…' SECOND(p): so many digits of a second are kept, halves go away from 0."""
    if digits is None:
        return parts
    months, days, us = parts
    step: int = SECOND // 10**digits
    size = (abs(us) + step // 2) // step * step
    return months, days, size if us >= 0 else -size


class _Reader:
    """One interval text. Amounts are exact fractions until they are spread over the fields."""

    def __init__(self, text: str, first: str | None, last: str | None) -> None:
        self.text = text
        self.first = first
        self.last = last
        self.months = 0
        self.days = 0
        self.us = Fraction(0)

    def read(self) -> Parts:
        text = self.text.strip()
        if text[:1] in ("P", "p") or text[:2] in ("-P", "-p"):
            self.iso(text)
        else:
            self.words(text)
        return self.months, self.days, _round(self.us)

    def bad(self) -> InvalidDatetimeFormat:
        return InvalidDatetimeFormat(f'invalid input syntax for type interval: "{self.text}"')

    def add(self, amount: Fraction, unit: str) -> None:
        """Add amount × unit; a fraction of a month spills into days, of a day into time."""
        size = _UNITS.get(unit)
        if size is None:
            raise self.bad()
        months, days, us = size
        if months:
            whole = amount * months
            self.months += int(whole)
            # PostgreSQL drops the fraction of months below a year's units, and spills a month's
            rest = whole - int(whole)
            if rest and months == 1:
                self.add_days(rest * DAYS_PER_MONTH)
            elif rest:
                self.months += _round(rest)
        elif days:
            self.add_days(amount * days)
        else:
            self.us += amount * us

    def add_days(self, days: Fraction) -> None:
        self.days += int(days)
        self.us += (days - int(days)) * DAY

    # '1 day 02:03:04' -------------------------------------------------------------------------
    def words(self, text: str) -> None:
        negate = False
        if text.startswith("@"):
            text = text[1:]
        pending: str | None = None  # a number that waits for its unit
        position, seen = 0, 0
        while text[position:].strip():
            token = _TOKEN.match(text, position)
            if token is None:
                raise self.bad()
            position = token.end()
            seen += 1
            if token["word"] is not None:
                word = token["word"].lower()
                if word == "ago" and not text[position:].strip() and seen > 1:
                    negate = True
                elif pending is not None:
                    self.add(_fraction(pending), word)
                    pending = None
                elif word not in ("and", "t"):
                    raise self.bad()
            else:
                if pending is not None:
                    # SQL standard '3 4:05:06': a number before a clock counts days
                    if token["clock"] is None:
                        raise self.bad()
                    self.add(_fraction(pending), "day")
                    pending = None
                if token["clock"] is not None:
                    self.clock(token["clock"])
                elif token["yearmonth"] is not None:
                    self.year_month(token["yearmonth"])
                else:
                    pending = token["number"]
        if seen == 0:
            raise self.bad()
        if pending is not None:
            self.add(_fraction(pending), self.last or "second")
        if negate:
            self.months, self.days, self.us = -self.months, -self.days, -self.us

    def clock(self, text: str) -> None:
        """hh:mm[:ss[.f]]; mm:ss where the literal says MINUTE TO SECOND."""
        sign = -1 if text[0] == "-" else 1
        fields = text.lstrip("+-").split(":")
        if len(fields) == 2 and (self.first == "minute" or "." in fields[1]):
            fields.insert(0, "0")
        if len(fields) == 2:
            fields.append("0")
        hours, minutes, seconds = int(fields[0]), int(fields[1]), Fraction(fields[2])
        if minutes > 59 or seconds >= 61:
            raise DatetimeFieldOverflow(f'interval field value out of range: "{self.text}"')
        self.us += sign * (hours * HOUR + minutes * MINUTE + seconds * SECOND)

    def year_month(self, text: str) -> None:
        """years-months of the SQL standard."""
        sign = -1 if text[0] == "-" else 1
        years, months = text.lstrip("+-").split("-")
        if int(months) > 11:
            raise DatetimeFieldOverflow(f'interval field value out of range: "{self.text}"')
        self.months += sign * (int(years) * 12 + int(months))

    # 'P1Y2M' ----------------------------------------------------------------------------------
    def iso(self, text: str) -> None:
        fixed = _ISO_ALTERNATIVE.fullmatch(text)
        if fixed:
            years, months, days, *clock = fixed.groups()
            self.months = int(years) * 12 + int(months)
            self.days = int(days)
            if clock[0] is not None:
                self.clock(":".join(clock))
            return
        found = _ISO.fullmatch(text)
        if found is None or not (found["date"] or found["time"]):
            raise self.bad()
        date_units = {"Y": "year", "M": "month", "W": "week", "D": "day"}
        time_units = {"H": "hour", "M": "minute", "S": "second"}
        for part, units in ((found["date"], date_units), (found["time"] or "", time_units)):
            for amount, letter in _ISO_PART.findall(part):
                self.add(_fraction(amount), units[letter.upper()])
        if found["sign"]:
            self.months, self.days, self.us = -self.months, -self.days, -self.us


def _fraction(text: str) -> Fraction:
    return Fraction(text.rstrip(".") if text.endswith(".") else text)


def _round(value: Fraction) -> int:
    """Half away from zero, as C's rint on the values that occur here."""
    return int(value + Fraction(1, 2)) if value >= 0 else -int(-value + Fraction(1, 2))
