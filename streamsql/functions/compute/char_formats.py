"""The templates of to_char, to_date and to_timestamp, and Flink's DATE_FORMAT patterns.

A template is compiled to a tuple of items; a value is a `Moment`. One Python call a *distinct*
value, and the columns are cut to the finest unit of the template first, so distinct values are few.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from streamsql.functions.textio.calendar import (
    US_PER_DAY,
    civil_from_days,
    days_from_civil,
)

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]

_KEYWORDS = sorted(
    [
        "HH24",
        "HH12",
        "HH",
        "MI",
        "SS",
        "MS",
        "US",
        "FF1",
        "FF2",
        "FF3",
        "FF4",
        "FF5",
        "FF6",
        "SSSSS",
        "SSSS",
        "AM",
        "PM",
        "A.M.",
        "P.M.",
        "am",
        "pm",
        "a.m.",
        "p.m.",
        "Y,YYY",
        "YYYY",
        "YYY",
        "YY",
        "Y",
        "IYYY",
        "IYY",
        "IY",
        "I",
        "BC",
        "AD",
        "B.C.",
        "A.D.",
        "bc",
        "ad",
        "b.c.",
        "a.d.",
        "MONTH",
        "Month",
        "month",
        "MON",
        "Mon",
        "mon",
        "MM",
        "DAY",
        "Day",
        "day",
        "DY",
        "Dy",
        "dy",
        "DDD",
        "IDDD",
        "DD",
        "D",
        "ID",
        "W",
        "WW",
        "IW",
        "CC",
        "J",
        "Q",
        "RM",
        "rm",
        "TZ",
        "tz",
        "OF",
        "TZH",
        "TZM",
        "hh24",
        "hh12",
        "hh",
        "mi",
        "ss",
        "ms",
        "us",
        "yyyy",
        "yyy",
        "yy",
        "y",
        "iyyy",
        "dd",
        "d",
        "ddd",
        "mm",
        "q",
        "j",
        "ww",
        "iw",
        "cc",
        "sssss",
        "w",
        "iy",
        "i",
        "id",
    ],
    key=len,
    reverse=True,
)
_TOKEN = re.compile(
    r'"((?:[^"\\]|\\.)*)"|(FM|fm|TM)?(' + "|".join(re.escape(k) for k in _KEYWORDS)
    + r")(TH|th)?|(FM|fm|FX|TM)|(.)",
    re.DOTALL,
)  # fmt: skip


@dataclass(frozen=True)
class Item:
    """One piece: literal text (key ""), or a field with fill mode and ordinal suffix."""

    key: str
    text: str = ""
    fill: bool = False
    suffix: str = ""


@dataclass(frozen=True)
class Moment:
    """A timestamp taken apart. us: local. offset_s, zone: for TZ, OF."""

    us: int
    offset_s: int = 0
    zone: str = ""


@lru_cache(maxsize=512)
def compile_template(template: str) -> tuple[Item, ...]:
    """The items of a to_char template."""
    items: list[Item] = []
    for m in _TOKEN.finditer(template):
        if m[1] is not None:
            items.append(Item("", m[1].replace('\\"', '"').replace("\\\\", "\\")))
        elif m[3]:
            items.append(Item(m[3], fill=(m[2] or "").upper() == "FM", suffix=m[4] or ""))
        elif m[6]:
            items.append(Item("", m[6]))
    return tuple(items)


_FINEST = (
    (1, {"US", "FF4", "FF5", "FF6"}),
    (1000, {"MS", "FF1", "FF2", "FF3"}),
    (1_000_000, {"SS", "SSSS", "SSSSS"}),
    (60_000_000, {"MI"}),
    (3_600_000_000, {"HH", "HH12", "HH24", "AM", "PM", "A.M.", "P.M."}),
)


@lru_cache(maxsize=512)
def finest_unit(template: str) -> int:
    """µs of the finest unit that the template shows; a day at most."""
    keys = {i.key.upper() for i in compile_template(template)}
    for size, names in _FINEST:
        if keys & names:
            return size
    return US_PER_DAY


def _ordinal(number: str, suffix: str) -> str:
    if not suffix:
        return number
    last, teen = number[-1:], number[-2:-1] == "1"
    end = "th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(last, "th")
    return number + (end.upper() if suffix == "TH" else end)


def iso_week(days: int) -> tuple[int, int]:
    """(ISO year, week)."""
    thursday = days - (days + 3) % 7 + 3
    year, _, _ = civil_from_days(thursday)
    return year, (thursday - days_from_civil(year, 1, 1)) // 7 + 1


def render(template: str, moment: Moment) -> str:
    """to_char of one timestamp."""
    return "".join(_item(i, moment) for i in compile_template(template))


def _item(item: Item, moment: Moment) -> str:
    if not item.key:
        return item.text
    text = _clock(item, moment)
    if text is None:
        text = _date(item, moment)
    return text


def _number(item: Item, value: int, width: int) -> str:
    shown = str(value) if item.fill else f"{value:0{width}d}"
    return _ordinal(shown, item.suffix)


def _clock(item: Item, m: Moment) -> str | None:
    key = item.key.upper()
    us = m.us % US_PER_DAY
    seconds, fraction = divmod(us, 1_000_000)
    hour = seconds // 3600
    if key in ("HH", "HH12"):
        return _number(item, (hour + 11) % 12 + 1, 2)
    if key == "HH24":
        return _number(item, hour, 2)
    if key == "MI":
        return _number(item, seconds // 60 % 60, 2)
    if key == "SS":
        return _number(item, seconds % 60, 2)
    if key in ("SSSS", "SSSSS"):
        return _ordinal(str(seconds), item.suffix)
    if key == "MS":
        return _number(item, fraction // 1000, 3)
    if key == "US":
        return _number(item, fraction, 6)
    if key.startswith("FF"):
        return f"{fraction:06d}"[: int(key[2])]
    if key in ("AM", "PM", "A.M.", "P.M."):
        word = "PM" if hour >= 12 else "AM"
        word = f"{word[0]}.{word[1]}." if "." in key else word
        return word.lower() if item.key.islower() else word
    if key == "TZ":
        return m.zone.lower() if item.key.islower() else m.zone
    if key in ("OF", "TZH", "TZM"):
        sign = "-" if m.offset_s < 0 else "+"
        hours, minutes = divmod(abs(m.offset_s) // 60, 60)
        if key == "TZM":
            return f"{minutes:02d}"
        tail = f":{minutes:02d}" if minutes and key == "OF" else ""
        return f"{sign}{hours:02d}{tail}"
    return None


def _named(item: Item, name: str, width: int) -> str:
    """A month's or day's name in the case of the key, padded unless filled."""
    if item.key.isupper():
        name = name.upper()
    elif item.key.islower():
        name = name.lower()
    return name if item.fill else name.ljust(width)


def _date(item: Item, m: Moment) -> str:
    key = item.key.upper()
    days = m.us // US_PER_DAY
    year, month, day = civil_from_days(days)
    shown = 1 - year if year <= 0 else year
    if key in ("MONTH", "MON"):
        name = MONTHS[month - 1]
        return _named(item, name if key == "MONTH" else name[:3], 9 if key == "MONTH" else 0)
    if key in ("DAY", "DY"):
        name = DAYS[(days + 4) % 7]
        return _named(item, name if key == "DAY" else name[:3], 9 if key == "DAY" else 0)
    if key == "RM":
        roman = ROMAN[month - 1]
        roman = roman.lower() if item.key.islower() else roman
        return roman if item.fill else roman.ljust(4)
    if key in ("BC", "AD", "B.C.", "A.D."):
        word = "BC" if year <= 0 else "AD"
        word = f"{word[0]}.{word[1]}." if "." in key else word
        return word.lower() if item.key.islower() else word
    if key == "Y,YYY":
        return _ordinal(f"{shown // 1000},{shown % 1000:03d}", item.suffix)
    iso_year, week = iso_week(days)
    iso_shown = 1 - iso_year if iso_year <= 0 else iso_year
    doy = days - days_from_civil(year, 1, 1) + 1
    century = (year + 99) // 100 if year > 0 else -((99 - (year - 1)) // 100)
    numbers: dict[str, tuple[int, int]] = {
        "YYYY": (shown, 4), "YYY": (shown % 1000, 3), "YY": (shown % 100, 2), "Y": (shown % 10, 1),
        "IYYY": (iso_shown, 4), "IYY": (iso_shown % 1000, 3), "IY": (iso_shown % 100, 2),
        "I": (iso_shown % 10, 1), "MM": (month, 2), "DD": (day, 2), "DDD": (doy, 3),
        "D": ((days + 4) % 7 + 1, 1), "ID": ((days + 3) % 7 + 1, 1), "W": ((day - 1) // 7 + 1, 1),
        "WW": ((doy - 1) // 7 + 1, 2), "IW": (week, 2), "CC": (century, 2),
        "J": (days + 2440588, 1), "Q": ((month - 1) // 3 + 1, 1),
        "IDDD": ((week - 1) * 7 + (days + 3) % 7 + 1, 3),
    }  # fmt: skip
    value, width = numbers[key]
    return _number(item, value, width)


# --- Java patterns (Flink's DATE_FORMAT) --------------------------------------------------------
_JAVA = {
    "yyyy": "YYYY", "uuuu": "YYYY", "yy": "YY", "y": "FMYYYY", "MM": "MM", "M": "FMMM",
    "MMM": "FMMon", "MMMM": "FMMonth", "dd": "DD", "d": "FMDD", "HH": "HH24", "H": "FMHH24",
    "hh": "HH12", "h": "FMHH12", "mm": "MI", "m": "FMMI", "ss": "SS", "s": "FMSS", "a": "AM",
    "SSS": "MS", "SSSSSS": "US", "S": "FF1", "SS": "FF2", "EEE": "Dy", "EEEE": "FMDay",
    "E": "Dy", "D": "FMDDD", "DDD": "DDD", "w": "FMIW", "ww": "IW", "q": "Q", "Q": "Q",
    "SSSS": "FF4", "SSSSS": "FF5", "u": "ID",
}  # fmt: skip


@lru_cache(maxsize=512)
def from_java(pattern: str) -> str:
    """A to_char template for a java.time pattern.

    >>> from_java("yyyy-MM-dd HH:mm")
    'YYYY-MM-DD HH24:MI'
    """
    out: list[str] = []
    for m in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", pattern, re.DOTALL):
        if m[1] is not None:
            out.append('"' + (m[1].replace("''", "'") or "'").replace('"', '\\"') + '"')
        elif m[2]:
            out.append(_JAVA.get(m[0], f'"{m[0]}"'))
        else:
            out.append(m[0])
    return "".join(out)
