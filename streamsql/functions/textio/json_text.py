"""JSON text: checking, and jsonb's normal form exactly as PostgreSQL prints it.

jsonb: keys sorted by byte length, then bytes; the last of duplicate keys wins; ", " and ": "
between; numbers as numeric prints them (1.50 stays, 1e2 is 100); strings with PostgreSQL's escapes.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from streamsql.core.errors import InvalidTextRepresentation

DIGITS_MAX = 131_071
"""Digits of a number in PostgreSQL."""


class Number(str):
    """A JSON number kept as its normal text."""

    __slots__ = ()


def _number(text: str) -> Number:
    if "e" in text or "E" in text:
        value = Decimal(text)
        if value and abs(value.adjusted()) > DIGITS_MAX:
            raise ValueError(f"number {text[:40]} is out of range")
        text = format(value, "f") if value else "0"
    return Number("0" + text[2:] if re.fullmatch(r"-0(\.0*)?", text) else text)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"Token {name} is invalid")


_DECODER = json.JSONDecoder(
    parse_float=_number, parse_int=_number, parse_constant=_refuse_constant, strict=True
)


def load(text: str) -> Any:
    """The document as dicts, lists, str, bool, None and `Number`. Raises: 22P02."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise InvalidTextRepresentation("invalid input syntax for type json") from None


def checked(text: str) -> str:
    """The text itself, once it is known to be JSON. Raises: 22P02."""
    load(text)
    return text


_ESCAPE = re.compile(r'[\x00-\x1f"\\]')
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def quote(text: str) -> str:
    """A JSON string literal with PostgreSQL's escapes.

    >>> print(quote('a"b'))
    "a\\"b"
    """
    return '"' + _ESCAPE.sub(lambda m: _ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04x}", text) + '"'


def _key_order(item: tuple[str, Any]) -> tuple[int, bytes]:
    raw = item[0].encode("utf-8", "surrogatepass")
    return len(raw), raw


def dump(value: Any) -> str:
    """jsonb text of a loaded document."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, Number):
        return str.__str__(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return "[" + ", ".join([dump(v) for v in value]) + "]"
    if isinstance(value, dict):
        items = sorted(value.items(), key=_key_order)
        return "{" + ", ".join([f"{quote(k)}: {dump(v)}" for k, v in items]) + "}"
    return str(value)


def normalise(text: str) -> str:
    """jsonb text of a JSON document. Raises: 22P02.

    >>> normalise('{"bb":1,"a":[1,2.50,1e2]}')
    '{"a": [1, 2.50, 100], "bb": 1}'
    """
    return dump(load(text))
