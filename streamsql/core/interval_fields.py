"""What an INTERVAL type keeps: INTERVAL SECOND(2), INTERVAL DAY TO MINUTE, as one number.

The number is PostgreSQL's own typmod: fields in the upper 16 bits, digits of a second in the lower
(`ALL_DIGITS` = as they are); of an INTERVAL(p), which has all fields, the digits alone.
"""

from __future__ import annotations

ALL_DIGITS = 0xFFFF
_ALL_FIELDS = 0x7FFF
_MASKS = {"year": 1 << 2, "month": 1 << 1, "day": 1 << 3, "hour": 1 << 10, "minute": 1 << 11,
          "second": 1 << 12}  # fmt: skip
_SPANS = (("year", "month"), ("day", "hour", "minute", "second"))


def _ranges() -> dict[int, tuple[str, str]]:
    """(first, last) field by their mask."""
    found = {}
    for names in _SPANS:
        for i, first in enumerate(names):
            for j in range(i, len(names)):
                found[sum(_MASKS[n] for n in names[i : j + 1])] = (first, names[j])
    return found


RANGES = _ranges()
"""(first, last) field by the mask of all between them."""
_OF_RANGE = {names: mask for mask, names in RANGES.items()}


def is_range(first: str, last: str) -> bool:
    """Whether PostgreSQL knows an interval from one field to the other: DAY TO SECOND."""
    return (first, last) in _OF_RANGE


def modifier(first: str, last: str, digits: int | None) -> int | None:
    """The number for fields from first to last (in lower case); None if nothing is cut.

    >>> modifier("second", "second", 2) == 4096 << 16 | 2, modifier("week", "week", None)
    (True, None)
    """
    mask = _OF_RANGE.get((first, last))
    if mask is None:
        return digits
    return mask << 16 | (ALL_DIGITS if digits is None else digits)


def first_field(number: int) -> str | None:
    """The coarsest field that has a name of its own, None if all are kept."""
    mask = number >> 16
    return RANGES[mask][0] if mask else None


def last_field(number: int) -> str | None:
    """The finest field that is kept, None if all are."""
    mask = number >> 16
    return RANGES[mask][1] if mask else None


def digits_of(number: int) -> int | None:
    """How many digits of a second are kept, None = all."""
    digits = number & ALL_DIGITS
    return None if digits == ALL_DIGITS else digits


def typmod(number: int) -> int:
    """PostgreSQL's typmod."""
    return number if number >> 16 else number | _ALL_FIELDS << 16


def words(number: int) -> str:
    """What stands behind `interval` in the type's name.

    >>> words(modifier("day", "second", 3)), words(modifier("year", "year", None)), words(2)
    (' day to second(3)', ' year', '(2)')
    """
    digits = digits_of(number)
    shown = "" if digits is None else f"({digits})"
    if not number >> 16:
        return shown
    first, last = RANGES[number >> 16]
    return f" {first}{'' if first == last else f' to {last}'}{shown}"


def cut(months: int, days: int, us: int, number: int) -> tuple[int, int, int]:
    """An interval without what is finer than the last field; digits are not looked at.

    >>> cut(14, 3, 14_706_000_000, modifier("day", "minute", None))
    (14, 3, 14700000000)
    """
    last = last_field(number)
    step = STEPS_US.get(last or "")
    if step is not None:
        return months, days, towards_zero(us, step)
    if last == "day":
        return months, days, 0
    if last == "month":
        return months, 0, 0
    return (towards_zero(months, 12), 0, 0) if last == "year" else (months, days, us)


STEPS_US = {"hour": 3_600_000_000, "minute": 60_000_000}
"""µs of the fields that cut off a part of the time of day."""


def towards_zero(value: int, step: int) -> int:
    """The multiple of step next to value, on the side of 0."""
    return value - abs(value) % step * (1 if value >= 0 else -1)
