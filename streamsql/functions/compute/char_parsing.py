"""to_date and to_timestamp: reading text by a template."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from streamsql.core.errors import DatetimeFieldOverflow, InvalidDatetimeFormat
from streamsql.functions.compute.char_formats import DAYS, MONTHS, ROMAN, Item, compile_template
from streamsql.functions.textio.calendar import US_PER_DAY, days_from_civil, days_in_month

_WIDTH = {
    "HH24": 2, "HH12": 2, "HH": 2, "MI": 2, "SS": 2, "MS": 3, "US": 6, "SSSSS": 5, "SSSS": 5,
    "YYYY": 4, "YYY": 3, "YY": 2, "Y": 1, "MM": 2, "DD": 2, "DDD": 3, "D": 1, "J": 7, "CC": 2,
    "Q": 1, "WW": 2, "W": 1, "IW": 2, "IYYY": 4, "ID": 1, "FF1": 1, "FF2": 2, "FF3": 3, "FF4": 4,
    "FF5": 5, "FF6": 6, "IDDD": 3,
}  # fmt: skip


@dataclass
class Parsed:
    """Fields read so far."""

    numbers: dict[str, int] = field(default_factory=dict)
    pm: bool | None = None
    bc: bool = False
    offset_s: int | None = None


def parse(text: str, template: str) -> tuple[int, int | None]:
    """(local µs, zone offset in seconds or None). Raises: 22007, 22008."""
    found = Parsed()
    items = compile_template(template)
    at = 0
    for i, item in enumerate(items):
        while at < len(text) and text[at].isspace():
            at += 1
        if not item.key:
            if item.text.isspace():
                continue
            for c in item.text:
                # a separator of the template matches any one separator of the text
                if (at < len(text) and (text[at] == c or not text[at].isalnum())) or (
                    c.isalnum() and at < len(text)
                ):
                    at += 1
            continue
        at = _take(text, at, item, i + 1 < len(items) and bool(items[i + 1].key), found)
    return _assemble(found, text)


def _take(text: str, at: int, item: Item, adjacent: bool, found: Parsed) -> int:
    key = item.key.upper()
    rest = text[at:]
    if key in ("AM", "PM", "A.M.", "P.M."):
        m = re.match(r"([ap])\.?m\.?", rest, re.IGNORECASE)
        if m is None:
            raise _invalid(item, rest)
        found.pm = m[1].lower() == "p"
        return at + m.end()
    if key in ("BC", "AD", "B.C.", "A.D."):
        m = re.match(r"(b|a)\.?[cd]\.?", rest, re.IGNORECASE)
        if m is None:
            raise _invalid(item, rest)
        found.bc = m[1].lower() == "b"
        return at + m.end()
    if key in ("MONTH", "MON", "DAY", "DY", "RM"):
        return at + _take_name(rest, key, item, found)
    if key in ("TZH", "OF"):
        m = re.match(
            r"([+-]?)(\d{1,2})(?::?(\d{2}))?" if key == "OF" else r"([+-]?)(\d{1,2})", rest
        )
        if m is None:
            raise _invalid(item, rest)
        seconds = int(m[2]) * 3600 + (int(m[3]) * 60 if key == "OF" and m[3] else 0)
        found.offset_s = -seconds if m[1] == "-" else seconds
        return at + m.end()
    if key == "TZM":
        m = re.match(r"\d{1,2}", rest)
        minutes = int(m[0]) * 60 if m else 0
        found.offset_s = (found.offset_s or 0) + (
            -minutes if (found.offset_s or 0) < 0 else minutes
        )
        return at + (m.end() if m else 0)
    width = _WIDTH.get(key)
    if key == "Y,YYY":
        m = re.match(r"(\d+),(\d{3})", rest)
        if m is None:
            raise _invalid(item, rest)
        found.numbers["YYYY"] = int(m[1]) * 1000 + int(m[2])
        return at + m.end()
    if width is None:
        return at
    # a field takes its full width only if another one follows without a separator
    limit = str(width) if adjacent or not key.startswith("Y") else ""
    m = re.match(rf"[+-]?\d{{1,{limit}}}", rest)
    if m is None:
        raise _invalid(item, rest)
    _store(key, m[0], found)
    return at + m.end()


def _store(key: str, digits: str, found: Parsed) -> None:
    if key in ("MS", "US") or key.startswith("FF"):
        found.numbers["us"] = int(digits.ljust(6, "0")[:6])
    elif key in ("YYYY", "YYY", "YY", "Y") and len(digits) <= 3 and key != "YYYY":
        year = int(digits)
        if len(digits) <= 2:
            year += 2000 if year < 70 else 1900
        elif year < 1000:
            year += 1000 if year >= 520 else 2000
        found.numbers["YYYY"] = year
    elif key == "YYYY" and len(digits) < 3:
        year = int(digits)
        found.numbers["YYYY"] = year + (2000 if year < 70 else 1900) if len(digits) == 2 else year
    else:
        found.numbers["SSSSS" if key == "SSSS" else key] = int(digits)


def _take_name(rest: str, key: str, item: Item, found: Parsed) -> int:
    names = {"MONTH": MONTHS, "MON": [m[:3] for m in MONTHS], "DAY": DAYS,
             "DY": [d[:3] for d in DAYS], "RM": ROMAN}[key]  # fmt: skip
    lowered = rest.lower()
    best = max((n for n in names if lowered.startswith(n.lower())), key=len, default=None)
    if best is None:
        raise _invalid(item, rest)
    if key in ("MONTH", "MON", "RM"):
        found.numbers["MM"] = list(names).index(best) + 1
    return len(best)


def _invalid(item: Item, rest: str) -> InvalidDatetimeFormat:
    return InvalidDatetimeFormat(
        f'invalid value "{rest[: max(_WIDTH.get(item.key.upper(), 4), 1)]}" for "{item.key}"'
    )


def _assemble(f: Parsed, text: str) -> tuple[int, int | None]:
    n = f.numbers
    overflow = DatetimeFieldOverflow(f'date/time field value out of range: "{text}"')
    year = n.get("YYYY", n.get("IYYY", 1))
    if f.bc:
        year = 1 - year
    if "J" in n:
        days = n["J"] - 2440588
    elif "IW" in n and "IYYY" in n:
        first = days_from_civil(n["IYYY"], 1, 4)
        days = first - (first + 3) % 7 + (n["IW"] - 1) * 7 + n.get("ID", 1) - 1
    elif "DDD" in n and "MM" not in n:
        days = days_from_civil(year, 1, 1) + n["DDD"] - 1
    else:
        month, day = n.get("MM", 1), n.get("DD", 1)
        if "YYYY" not in n and "IYYY" not in n:
            year = 0  # PostgreSQL: 1 BC when no year is given
        if not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month):
            raise overflow
        days = days_from_civil(year, month, day)
        if "WW" in n and "MM" not in n:
            days = days_from_civil(year, 1, 1) + (n["WW"] - 1) * 7
    hour = n.get("HH24", 0)
    twelve = n.get("HH12", n.get("HH"))
    if twelve is not None:
        if not 1 <= twelve <= 12:
            raise DatetimeFieldOverflow(f'hour "{twelve}" is invalid for the 12-hour clock')
        hour = twelve % 12 + (12 if f.pm else 0)
    minute, second = n.get("MI", 0), n.get("SS", 0)
    if hour > 24 or minute > 59 or second > 59 + (second == 60):
        raise overflow
    seconds = n["SSSSS"] if "SSSSS" in n else (hour * 60 + minute) * 60 + second
    return days * US_PER_DAY + seconds * 1_000_000 + n.get("us", 0), f.offset_s
