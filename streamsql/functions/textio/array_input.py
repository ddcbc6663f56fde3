"""Reading array literals `{1,NULL,"a b"}` and JSON text of STRUCT and MAP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamsql.core.errors import InvalidTextRepresentation
from streamsql.core.types import Kind, SqlType
from streamsql.functions.textio import json_text

ReadElement = Callable[[str, SqlType], Any]


def _malformed(text: str, detail: str) -> InvalidTextRepresentation:
    return InvalidTextRepresentation(f'malformed array literal: "{text}"', detail=detail)


def parse_array(text: str, t: SqlType, read: ReadElement) -> list[Any]:
    """The elements of an array literal; `read` makes an element from its text. Raises: 22P02."""
    body = text.strip()
    if body.startswith("["):  # explicit bounds '[0:2]={…}' are read, the bounds not kept
        _, _, body = body.partition("=")
        body = body.strip()
    if not body.startswith("{"):
        raise _malformed(text, 'Array value must start with "{" or dimension information.')
    values, end = _parse_level(body, 0, t, read, text)
    if body[end:].strip():
        raise _malformed(text, "Junk after closing right brace.")
    return values


def _parse_level(
    body: str, at: int, t: SqlType, read: ReadElement, text: str
) -> tuple[list[Any], int]:
    """Elements from the brace at `at`; returns them and the position after its closing brace."""
    assert t.element is not None
    values: list[Any] = []
    at += 1
    while True:
        while at < len(body) and body[at].isspace():
            at += 1
        if at >= len(body):
            raise _malformed(text, "Unexpected end of input.")
        if body[at] == "}":
            if values:
                raise _malformed(text, 'Unexpected "}" character.')
            return values, at + 1
        if body[at] == "{":
            if t.element.kind is not Kind.ARRAY:
                raise _malformed(text, 'Unexpected "{" character.')
            value, at = _parse_level(body, at, t.element, read, text)
            if values and (values[0] is None or len(value) != len(values[0])):
                raise _malformed(
                    text, "Multidimensional arrays must have sub-arrays with matching dimensions."
                )
            values.append(value)
        else:
            token, quoted, at = _token(body, at, text)
            null = not quoted and token.upper() == "NULL"
            if not quoted and not token:
                raise _malformed(text, f'Unexpected "{body[at]}" character.')
            values.append(None if null else read(token, t.element))
        while at < len(body) and body[at].isspace():
            at += 1
        if at >= len(body):
            raise _malformed(text, "Unexpected end of input.")
        if body[at] == "}":
            return values, at + 1
        if body[at] != ",":
            raise _malformed(text, "Unexpected array element.")
        at += 1
        rest = body[at:].lstrip()
        if rest.startswith("}"):
            raise _malformed(text, 'Unexpected "}" character.')


def _token(body: str, at: int, text: str) -> tuple[str, bool, int]:
    """One element's text, whether it was quoted, and the position after it."""
    out: list[str] = []
    if body[at] == '"':
        at += 1
        while at < len(body) and body[at] != '"':
            if body[at] == "\\":
                at += 1
            out.append(body[at : at + 1])
            at += 1
        if at >= len(body):
            raise _malformed(text, "Unexpected end of input.")
        return "".join(out), True, at + 1
    while at < len(body) and body[at] not in ",}":
        if body[at] in '{"':
            raise _malformed(text, f'Unexpected "{body[at]}" character.')
        if body[at] == "\\":
            at += 1
        out.append(body[at : at + 1])
        at += 1
    return "".join(out).rstrip(), False, at


def parse_composite(text: str, t: SqlType, read: ReadElement) -> Any:
    """A STRUCT or MAP from JSON text (an object). Raises: 22P02."""
    document = json_text.load(text)
    if not isinstance(document, dict):
        raise InvalidTextRepresentation(
            f'invalid input syntax for type {t}: "{text}"', detail="A JSON object is expected."
        )
    return from_json(document, t, read)


def from_json(value: Any, t: SqlType, read: ReadElement) -> Any:
    """A parsed JSON value as a value of type `t`; leaves are read from their text."""
    if value is None:
        return None
    if t.kind is Kind.STRUCT and isinstance(value, dict):
        return {name: from_json(value.get(name), ft, read) for name, ft in t.fields}
    if t.kind is Kind.MAP and isinstance(value, dict):
        assert t.key is not None and t.value is not None
        return [(read(k, t.key), from_json(v, t.value, read)) for k, v in value.items()]
    if t.kind is Kind.ARRAY and isinstance(value, list):
        assert t.element is not None
        return [from_json(v, t.element, read) for v in value]
    if t.kind in (Kind.JSON, Kind.JSONB):
        return json_text.dump(value)
    return read(value if isinstance(value, str) else json_text.dump(value), t)
