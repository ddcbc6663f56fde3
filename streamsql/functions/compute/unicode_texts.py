"""Kernels of Unicode's normal forms and escapes, and of identifiers."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import pyarrow as pa

from streamsql.core.errors import InvalidParameterValue, SqlSyntaxError
from streamsql.functions.compute.grouped import by_value, by_value_failing, constants
from streamsql.functions.definitions import KernelCall

FORMS = ("NFC", "NFD", "NFKC", "NFKD")


@constants(1)
def normalize(call: KernelCall, a: pa.Array, form: Any = None) -> Any:
    """The text in one of Unicode's normal forms (NFC if none is named)."""
    name = _form(call, form)
    if name is None:
        return pa.scalar(None, pa.string())
    return by_value(a, lambda s: unicodedata.normalize(name, s), pa.string())


@constants(1)
def is_normalized(call: KernelCall, a: pa.Array, form: Any = None) -> Any:
    """Whether the text is in that normal form."""
    name = _form(call, form)
    if name is None:
        return pa.scalar(None, pa.bool_())
    return by_value(a, lambda s: unicodedata.is_normalized(name, s), pa.bool_())


def _form(call: KernelCall, form: Any) -> Any:
    name = "NFC" if form is None else str(form.as_py()).upper()
    if name in FORMS:
        return name
    call.fail(True, InvalidParameterValue, f"invalid normalization form: {form.as_py()}")
    return None


_ESCAPE = re.compile(
    r"\\\\|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})|\\\+([0-9A-Fa-f]{6})"
    r"|\\([0-9A-Fa-f]{4})|\\"
)


def unistr(call: KernelCall, a: pa.Array) -> Any:
    """Unicode escapes (\\XXXX, \\+XXXXXX, \\uXXXX, \\UXXXXXXXX) as the characters they are."""
    return by_value_failing(call, a, _unistr, pa.string())


def _unistr(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[0] == "\\\\":
            return "\\"
        digits = next((g for g in match.groups() if g is not None), None)
        if digits is None:
            raise SqlSyntaxError("invalid Unicode escape")
        code = int(digits, 16)
        if not 0 < code <= 0x10FFFF:
            raise InvalidParameterValue(f"invalid Unicode code point: {code:04X}")
        return chr(code)

    found = _ESCAPE.sub(one, text)
    try:  # two escapes may be the halves of one character
        return found.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise SqlSyntaxError("invalid Unicode surrogate pair") from None


_PART = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([A-Za-z_\x80-\U0010ffff][\w$]*))\s*')


@constants(1)
def parse_ident(call: KernelCall, a: pa.Array, strict: Any = None) -> Any:
    """A qualified name as the array of its parts, folded as SQL folds them."""
    exact = True if strict is None else bool(strict.as_py())
    return by_value_failing(call, a, lambda s: _parts(s, exact), pa.list_(pa.string()))


def _parts(text: str, exact: bool) -> list[str]:
    parts: list[str] = []
    at = 0
    refused = InvalidParameterValue(f'string is not a valid identifier: "{text}"')
    while True:
        match = _PART.match(text, at)
        if match is None:
            raise refused
        parts.append(match[2].lower() if match[1] is None else match[1].replace('""', '"'))
        if not parts[-1]:
            raise refused
        at = match.end()
        if not text.startswith(".", at):
            break
        at += 1
    if exact and at < len(text):
        raise refused
    return parts
