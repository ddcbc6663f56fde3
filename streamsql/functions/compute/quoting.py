"""Kernels of quote_*, format, encode and decode."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import InvalidParameterValue, NullValueNotAllowed
from streamsql.functions.compute.columns import Value, broadcast, flat
from streamsql.functions.compute.grouped import by_value, by_value_failing, constants
from streamsql.functions.compute.texts import padded, shown_text
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.output import to_text

_RESERVED = frozenset(
    [
        "all",
        "analyse",
        "analyze",
        "and",
        "any",
        "array",
        "as",
        "asc",
        "asymmetric",
        "both",
        "case",
        "cast",
        "check",
        "collate",
        "column",
        "constraint",
        "create",
        "current_date",
        "current_role",
        "current_time",
        "current_timestamp",
        "current_user",
        "default",
        "deferrable",
        "desc",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "false",
        "fetch",
        "for",
        "foreign",
        "from",
        "grant",
        "group",
        "having",
        "in",
        "initially",
        "intersect",
        "into",
        "lateral",
        "leading",
        "limit",
        "localtime",
        "localtimestamp",
        "not",
        "null",
        "offset",
        "on",
        "only",
        "or",
        "order",
        "placing",
        "primary",
        "references",
        "returning",
        "select",
        "session_user",
        "some",
        "symmetric",
        "table",
        "then",
        "to",
        "trailing",
        "true",
        "union",
        "unique",
        "user",
        "using",
        "variadic",
        "when",
        "where",
        "window",
        "with",
    ]
)


def quoted_identifier(name: str) -> str:
    """The name as SQL can read it back.

    >>> quoted_identifier("a b"), quoted_identifier("abc")
    ('"a b"', 'abc')
    """
    plain = name[:1].isalpha() or name[:1] == "_"
    plain = plain and name.isascii() and name.replace("_", "a").isalnum() and name == name.lower()
    if plain and name not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted_literal(text: str) -> str:
    """The text as a string literal."""
    body = text.replace("'", "''")
    return f" E'{body.replace(chr(92), chr(92) * 2)}'".strip() if "\\" in text else f"'{body}'"


def quote_ident(call: KernelCall, a: pa.Array) -> Any:
    """quote_ident."""
    return by_value(a, quoted_identifier, pa.string())


def quote_literal(call: KernelCall, a: Value) -> Any:
    """quote_literal of any value."""
    shown = shown_text(call, 0, a)
    return by_value(broadcast(shown, call.num_rows), quoted_literal, pa.string())


def quote_nullable(call: KernelCall, a: Value) -> Any:
    """As quote_literal, NULL for NULL."""
    shown = broadcast(shown_text(call, 0, a), call.num_rows)
    return pc.fill_null(by_value(shown, quoted_literal, pa.string()), "NULL")


@constants(0)
def format_(call: KernelCall, pattern: Value, *args: Value) -> Any:
    """format('%s …'): %s text, %I identifier, %L literal; %n$s picks an argument."""
    from streamsql.functions.compute.format_text import pieces

    constant = pattern if isinstance(pattern, pa.Scalar) else pattern[0]
    if not constant.is_valid:
        return pa.scalar(None, pa.string())
    found, problem = pieces(constant.as_py(), len(args))
    if problem:
        call.fail(True, InvalidParameterValue, problem)
        return pa.scalar(None, pa.string())
    parts: list[Any] = []
    for piece in found:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        index, kind, width, flush_left, width_from = piece
        shown: Any = broadcast(shown_text(call, index + 1, args[index]), call.num_rows)
        if kind == "I":
            if shown.null_count:
                message = "null values cannot be formatted as an SQL identifier"
                call.fail(shown.is_null(), NullValueNotAllowed, message)
            shown = by_value(shown, quoted_identifier, pa.string())
        elif kind == "L":
            shown = pc.fill_null(by_value(shown, quoted_literal, pa.string()), "NULL")
        shown = flat(pc.fill_null(shown, ""))
        if width_from is not None:
            shown = _wide_as(call, shown, broadcast(args[width_from], call.num_rows), flush_left)
        parts.append(_wide(shown, width, flush_left))
    return broadcast(pc.binary_join_element_wise(*parts, "", ""), call.num_rows)


def _wide(shown: pa.Array, width: int, flush_left: bool) -> pa.Array:
    """Filled with spaces to `width` characters; longer texts stay whole."""
    if not width:
        return shown
    filled = padded(shown, width, " ", front=not flush_left)
    return flat(pc.if_else(pc.less(pc.utf8_length(shown), width), filled, shown))


def _wide_as(call: KernelCall, shown: pa.Array, widths: pa.Array, flush_left: bool) -> pa.Array:
    """The same by a column of widths: below 0 to the left, NULL is no width."""
    made: list[str] = []
    for text, width in zip(shown.to_pylist(), widths.to_pylist(), strict=True):
        size = int(width or 0)
        left = flush_left or size < 0
        made.append(text.ljust(abs(size)) if left else text.rjust(size))
    return pa.array(made, pa.string())


@constants(1)
def encode(call: KernelCall, a: pa.Array, form: pa.Scalar) -> Any:
    """bytea as text in hex, base64 or escape form."""
    import base64

    name = form.as_py().lower()
    if name == "hex":
        shown = to_text(a, call.arg_types[0])
        return pc.utf8_slice_codeunits(shown, 2, None)
    if name == "base64":
        # PostgreSQL breaks lines after 76 characters
        def one(raw: bytes) -> str:
            text = base64.b64encode(raw).decode()
            return "\n".join(text[i : i + 76] for i in range(0, len(text), 76))

        return by_value(a, one, pa.string())
    if name == "escape":
        return by_value(a, _escape, pa.string())
    call.fail(True, InvalidParameterValue, f'unrecognized encoding: "{form.as_py()}"')
    return pa.scalar(None, pa.string())


def _escape(raw: bytes) -> str:
    return "".join("\\\\" if b == 92 else chr(b) if 0 < b < 128 else f"\\{b:03o}" for b in raw)


def _from_hex(text: str) -> bytes:
    digits = "".join(text.split())
    bad = next((c for c in digits if c not in "0123456789abcdefABCDEF"), None)
    if bad is not None:
        raise InvalidParameterValue(f'invalid hexadecimal digit: "{bad}"')
    if len(digits) % 2:
        raise InvalidParameterValue("invalid hexadecimal data: odd number of digits")
    return bytes.fromhex(digits)


@constants(1)
def decode(call: KernelCall, a: pa.Array, form: pa.Scalar) -> Any:
    """Text in hex, base64 or escape form as bytea."""
    import base64
    import binascii

    from streamsql.core.types import BYTEA
    from streamsql.functions.textio.scalar_input import parse_value

    name = form.as_py().lower()

    def one(text: str) -> bytes:
        if name == "hex":
            return _from_hex(text)
        if name == "escape":
            return bytes(parse_value(text, BYTEA))
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except binascii.Error:
            raise InvalidParameterValue("invalid base64 end sequence") from None

    if name not in ("hex", "base64", "escape"):
        call.fail(True, InvalidParameterValue, f'unrecognized encoding: "{form.as_py()}"')
        return pa.scalar(None, pa.binary())
    return by_value_failing(call, a, one, pa.binary())
