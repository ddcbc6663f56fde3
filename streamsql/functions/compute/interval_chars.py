"""to_char of intervals."""

from __future__ import annotations

from typing import Any

from streamsql.functions.compute.char_formats import compile_template


def render_interval(template: str, value: Any) -> str:
    """value: MonthDayNano."""
    months, days, us = value.months, value.days, value.nanoseconds // 1000
    sign = -1 if us < 0 else 1
    seconds, fraction = divmod(abs(us), 1_000_000)
    hours = sign * (seconds // 3600)
    years = int(months / 12)
    fields: dict[str, tuple[int, int]] = {
        "HH24": (hours, 2), "HH": ((abs(hours) + 11) % 12 + 1, 2),
        "HH12": ((abs(hours) + 11) % 12 + 1, 2), "MI": (sign * (seconds // 60 % 60), 2),
        "SS": (sign * (seconds % 60), 2), "MS": (sign * (fraction // 1000), 3),
        "US": (sign * fraction, 6), "SSSS": (sign * seconds, 1), "SSSSS": (sign * seconds, 1),
        "YYYY": (years, 4), "YYY": (years % 1000, 3), "YY": (years % 100, 2), "Y": (years % 10, 1),
        "MM": (months - years * 12, 2), "DD": (days, 2), "DDD": (days + months * 30, 3),
    }  # fmt: skip
    out: list[str] = []
    for item in compile_template(template):
        if not item.key:
            out.append(item.text)
            continue
        number, width = fields.get(item.key.upper(), (0, 0))
        if item.key.upper() in ("AM", "PM"):
            out.append("PM" if hours % 24 >= 12 else "AM")
        elif width:
            out.append(str(number) if item.fill else f"{number:0{width + (number < 0)}d}")
    return "".join(out)
