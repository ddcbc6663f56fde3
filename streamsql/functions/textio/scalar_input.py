"""Reading one value of any type from its PostgreSQL text: the slow path under `parse_text`.

Returns the Python value Arrow takes for the type; INTERVAL as (months, days, µs); dates and
timestamps as the integers they are stored as (days, µs), because Python's datetime ends at year
9999.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np

from streamsql.core.errors import (
    InvalidParameterValue,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
    StringTooLong,
)
from streamsql.core.interval_fields import first_field, last_field
from streamsql.core.types import Kind, SqlType
from streamsql.functions.textio import array_input, json_text
from streamsql.functions.textio.datetime_input import (
    parse_date,
    parse_time,
    parse_timestamp,
    parse_timestamptz,
)
from streamsql.functions.textio.interval_input import parse_interval
from streamsql.functions.textio.time_digits import rounded_value

_INT_RANGE = {Kind.SMALLINT: 15, Kind.INTEGER: 31, Kind.BIGINT: 63}
_INT = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+[ \t\n\v\f\r]*")
_NUMERIC = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_FLOAT = re.compile(
    r"\s*(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?P<word>[+-]?inf(?:inity)?|nan))\s*",
    re.ASCII | re.IGNORECASE,
)
_WIDE = Context(prec=2000)
_TRUE = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"})
_FALSE = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})


def _bad(t: SqlType, text: str) -> InvalidTextRepresentation:
    return InvalidTextRepresentation(f'invalid input syntax for type {base_name(t)}: "{text}"')


def base_name(t: SqlType) -> str:
    """The type's name without modifiers, as error messages have it."""
    return t.kind.value if t.kind is not Kind.ARRAY else str(t)


def _integer(text: str, t: SqlType) -> int:
    if not _INT.fullmatch(text):
        raise _bad(t, text)
    value = int(text)
    bits = _INT_RANGE[t.kind]
    if not -(2**bits) <= value < 2**bits:
        raise NumericValueOutOfRange(f'value "{text}" is out of range for type {t.kind.value}')
    return value


def _boolean(text: str, t: SqlType) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise _bad(t, text)


def _float(text: str, t: SqlType) -> float:
    m = _FLOAT.fullmatch(text)
    if not m:
        raise _bad(t, text)
    value = float(text)
    if t.kind is Kind.REAL and math.isfinite(value):
        with np.errstate(over="ignore"):
            narrow = float(np.float32(value))
        lost = math.isinf(narrow) or (narrow == 0.0 and value != 0.0)
        value = narrow
    else:
        zero = value == 0.0 and re.search(r"[1-9]", re.split("[eE]", text)[0]) is not None
        lost = zero or (math.isinf(value) and not m["word"])
    if lost:
        raise NumericValueOutOfRange(f'"{text.strip()}" is out of range for type {t.kind.value}')
    return value


def _numeric(text: str, t: SqlType) -> Decimal:
    if not _NUMERIC.fullmatch(text):
        word = text.strip().lower()
        if word in ("nan", "infinity", "-infinity", "inf", "-inf", "+infinity", "+inf"):
            raise NumericValueOutOfRange(
                f'numeric value "{text.strip()}" is not supported',
                hint="NUMERIC is stored with 38 digits; use DOUBLE PRECISION for NaN and Infinity.",
            )
        raise _bad(t, text)
    try:
        return fit_decimal(Decimal(text.strip()), t)
    except InvalidOperation:
        raise NumericValueOutOfRange("value overflows numeric format") from None


def fit_decimal(value: Decimal, t: SqlType) -> Decimal:
    """Round half away from zero to the type's scale. Raises: 22003 beyond its precision."""
    precision, scale = t.storage_precision_scale
    rounded = value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_WIDE)
    if rounded.copy_abs() >= Decimal(10) ** (precision - scale):
        raise numeric_overflow(t)
    return rounded if rounded else rounded.copy_abs()  # no arithmetic: it would round to 28 digits


def numeric_overflow(t: SqlType) -> NumericValueOutOfRange:
    """The error for a value with too many whole digits."""
    precision, scale = t.storage_precision_scale
    whole = precision - scale
    limit = f"10^{whole}" if whole else "1"
    if t.precision is not None and t.constrained:
        return NumericValueOutOfRange(
            "numeric field overflow",
            detail=f"A field with precision {precision}, scale {scale} must round to an absolute "
            f"value less than {limit}.",
        )
    return NumericValueOutOfRange(
        "value overflows numeric format",
        detail=f"This numeric holds {whole} digits before the decimal point and {scale} after it.",
    )


def _text(text: str, t: SqlType) -> str:
    if t.length is not None and len(text) > t.length:
        if text[t.length :].strip(" "):
            raise StringTooLong(f"value too long for type {t}")
        return text[: t.length]
    return text


def _bytea(text: str, t: SqlType) -> bytes:
    if text.startswith("\\x"):
        digits = re.sub(r"\s", "", text[2:])
        try:
            return bytes.fromhex(digits)
        except ValueError:
            if len(digits) % 2 and re.fullmatch("[0-9a-fA-F]*", digits):
                raise InvalidParameterValue(
                    "invalid hexadecimal data: odd number of digits"
                ) from None
            bad = next(c for c in digits if c not in "0123456789abcdefABCDEF")
            raise InvalidParameterValue(f'invalid hexadecimal digit: "{bad}"') from None
    out = bytearray()
    raw = text.encode()
    i = 0
    while i < len(raw):
        if raw[i] != 0x5C:
            out.append(raw[i])
            i += 1
        elif raw[i + 1 : i + 2] == b"\\":
            out.append(0x5C)
            i += 2
        elif re.fullmatch(rb"[0-3][0-7]{2}", raw[i + 1 : i + 4]):
            out.append(int(raw[i + 1 : i + 4], 8))
            i += 4
        else:
            raise _bad(t, text)
    return bytes(out)


_UUID = re.compile(r"\{?(?:[0-9a-f]{4}-?){7}[0-9a-f]{4}\}?")


def _uuid(text: str, t: SqlType) -> str:
    lowered = text.lower()
    braces = lowered.startswith("{") == lowered.endswith("}")
    if not _UUID.fullmatch(lowered) or not braces:
        raise _bad(t, text)
    h = re.sub("[{}-]", "", lowered)
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


_READERS: dict[Kind, Callable[[str, SqlType], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.SMALLINT: _integer,
    Kind.INTEGER: _integer,
    Kind.BIGINT: _integer,
    Kind.REAL: _float,
    Kind.DOUBLE: _float,
    Kind.NUMERIC: _numeric,
    Kind.TEXT: _text,
    Kind.VARCHAR: _text,
    Kind.UNKNOWN: _text,
    Kind.BYTEA: _bytea,
    Kind.UUID: _uuid,
    Kind.JSON: lambda text, t: json_text.checked(text),
    Kind.JSONB: lambda text, t: json_text.normalise(text),
    Kind.DATE: lambda text, t: parse_date(text),
    Kind.TIME: lambda text, t: parse_time(text),
    Kind.TIMESTAMP: lambda text, t: parse_timestamp(text),
    Kind.INTERVAL: lambda text, t: parse_interval(text),
}


def parse_value(text: str, t: SqlType, timezone: str = "UTC") -> Any:
    """The value of one text. Raises: 22P02, 22003, 22007, 22008, 22001."""
    if t.digits is not None:
        unit = last_field(t.digits) if t.kind is Kind.INTERVAL else None
        if unit is None:
            return rounded_value(parse_value(text, t.plain, timezone), t)
        return rounded_value(parse_interval(text, unit, first=first_field(t.digits)), t)
    if t.kind is Kind.ARRAY:
        assert t.element is not None
        return array_input.parse_array(text, t, lambda x, e: parse_value(x, e, timezone))
    if t.kind is Kind.TIMESTAMPTZ:
        return parse_timestamptz(text, timezone)
    if t.kind in (Kind.STRUCT, Kind.MAP):
        return array_input.parse_composite(text, t, lambda x, e: parse_value(x, e, timezone))
    return _READERS[t.kind](text, t)
