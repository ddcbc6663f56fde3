"""JSON documents as they were written: json, unlike jsonb, keeps the order of keys, keys that are
there twice, blanks and the digits of numbers."""

from __future__ import annotations

import json
import re

from streamsql.core.errors import InvalidParameterValue

_BLANKS = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def array_items(text: str) -> list[str]:
    """The text of each element. Raises: InvalidParameterValue (22023) if it is no array.

    >>> array_items('[1.0, {"a" :2}]')
    ['1.0', '{"a" :2}']
    """
    at = _skip(text, 0)
    if text[at] != "[":
        what = "an object" if text[at] == "{" else "a scalar"
        raise InvalidParameterValue(f"cannot extract elements from {what}")
    found: list[str] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = _decode(text, at)
        found.append(text[at:end])
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def object_items(text: str, function: str) -> list[tuple[str, str]]:
    """(key, text of the value) of each member. Raises: InvalidParameterValue (22023) if it is no
    object.

    >>> object_items('{"b": 1, "a": [ ], "b": 2}', "json_each")
    [('b', '1'), ('a', '[ ]'), ('b', '2')]
    """
    at = _skip(text, 0)
    if text[at] != "{":
        what = "an array" if text[at] == "[" else "a scalar"
        raise InvalidParameterValue(f"cannot call {function} on {what}")
    found: list[tuple[str, str]] = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, end = _decode(text, at)
        at = _skip(text, _skip(text, end) + 1)  # behind the colon
        _, end = _decode(text, at)
        found.append((key, text[at:end]))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def shown(text: str) -> str | None:
    """A value's text as ->> gives it: strings without quotes, null as NULL."""
    if text == "null":
        return None
    return str(json.loads(text)) if text[0] == '"' else text
