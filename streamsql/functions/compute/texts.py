"""Kernels of the text functions; positions count code points from 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import InvalidParameterValue, ProgramLimitExceeded, SubstringError
from streamsql.core.types import Kind
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    flat,
    text_buffers,
    text_column,
    valid_mask,
    validity,
    validity_from,
    values,
)
from streamsql.functions.compute.grouped import by_value, by_value_failing, constants
from streamsql.functions.definitions import KernelCall
from streamsql.functions.textio.output import to_text

_HIGH_BITS = np.uint64(0x8080808080808080)


def is_ascii(array: Any) -> bool:
    """Whether the column's text is ASCII only (then bytes are characters)."""
    offsets, data = text_buffers(array)
    used = data[offsets[0] : offsets[-1]] if len(offsets) else data
    if len(used) < 64:
        return not used.size or int(used.max()) < 128
    whole = len(used) // 8 * 8
    # one pass without a temporary: or all words together
    words = np.bitwise_or.reduce(used[:whole].view(np.uint64))
    return not (words & _HIGH_BITS) and not (used[whole:] & 0x80).any()


def lower(call: KernelCall, a: pa.Array) -> Any:
    """Lower case."""
    return pc.ascii_lower(a) if is_ascii(a) else pc.utf8_lower(a)


def upper(call: KernelCall, a: pa.Array) -> Any:
    """Upper case."""
    return pc.ascii_upper(a) if is_ascii(a) else pc.utf8_upper(a)


def length(call: KernelCall, a: pa.Array) -> Any:
    """Characters."""
    return pc.binary_length(a) if is_ascii(a) else pc.utf8_length(a)


def octet_length(call: KernelCall, a: pa.Array) -> Any:
    """Bytes."""
    return pc.binary_length(a)


def bit_length(call: KernelCall, a: pa.Array) -> Any:
    """Bits."""
    return pc.multiply(pc.binary_length(a), 8)


def reverse(call: KernelCall, a: pa.Array) -> Any:
    """Back to front."""
    return pc.utf8_reverse(a)


def initcap(call: KernelCall, a: pa.Array) -> Any:
    """Words with a capital first letter; a word is a run of letters and digits."""
    if not is_ascii(a):
        return by_value(a, _initcap, pa.string())
    text = pc.ascii_lower(a)
    offsets, data = text_buffers(text)
    out = data.copy()
    alnum = ((out >= 48) & (out <= 57)) | ((out >= 97) & (out <= 122))
    inside = np.zeros(len(out), np.bool_)
    inside[1:] = alnum[:-1]
    starts = offsets[:-1][offsets[:-1] < len(out)]
    inside[starts] = False
    head = alnum & ~inside & (out >= 97)
    out[head] -= 32
    return text_column(offsets, out, validity(text))


def _initcap(text: str) -> str:
    out, inside = [], False
    for c in text:
        out.append(c.lower() if inside else c.upper())
        inside = c.isalnum()
    return "".join(out)


def concat(call: KernelCall, *args: Value) -> Any:
    """All arguments' text one after the other; NULL counts as empty."""
    texts = [_shown(call, i, a) for i, a in enumerate(args)]
    joined = pc.binary_join_element_wise(*texts, "", null_handling="replace", null_replacement="")
    return broadcast(joined, call.num_rows)


def concat_op(call: KernelCall, a: Value, b: Value) -> Any:
    """||"""
    return pc.binary_join_element_wise(a, b, pa.scalar("", a.type))


def bytea_concat(call: KernelCall, a: Value, b: Value) -> Any:
    """|| of bytea."""
    return pc.binary_join_element_wise(a, b, pa.scalar(b"", pa.binary()))


def concat_ws(call: KernelCall, separator: Value, *args: Value) -> Any:
    """The arguments that are not NULL, with a separator between."""
    texts = [_shown(call, i + 1, a) for i, a in enumerate(args)]
    if isinstance(separator, pa.Scalar) and not separator.is_valid:
        return separator
    plain = pc.fill_null(separator, "") if isinstance(separator, pa.Array) else separator
    joined = pc.binary_join_element_wise(*texts, plain, null_handling="skip")
    if isinstance(separator, pa.Array) and separator.null_count:
        joined = pc.if_else(separator.is_valid(), joined, pa.scalar(None, pa.string()))
    return joined


def _shown(call: KernelCall, i: int, a: Value) -> Value:
    """Text of any argument by its output function."""
    t = call.arg_types[i]
    if isinstance(a, pa.Scalar):
        if not a.is_valid:
            return pa.scalar(None, pa.string())
        return to_text(pa.repeat(a, 1), t, call.timezone)[0]
    return to_text(a, t, call.timezone)


@constants(1, 2)
def substring(call: KernelCall, a: pa.Array, start: pa.Scalar, count: Any = None) -> Any:
    """Characters from position `start` (1 is the first), `count` of them."""
    begin = start.as_py()
    stop: int | None = None
    if count is not None:
        if count.as_py() < 0:
            call.fail(True, SubstringError, "negative substring length not allowed")
            return pa.scalar(None, pa.string())
        stop = max(begin + count.as_py() - 1, 0)
    low = max(begin - 1, 0)
    if stop is not None and stop <= low:
        return pc.if_else(a.is_valid(), "", pa.scalar(None, pa.string()))
    return _slice(a, low, stop)


def _slice(a: pa.Array, start: int, stop: int | None) -> Any:
    limit = 2**31 - 1
    if stop is not None:
        stop = min(stop, limit)
    if is_ascii(a):
        return pc.binary_slice(a.cast(pa.binary()), min(start, limit), stop).cast(pa.string())
    return pc.utf8_slice_codeunits(a, min(start, limit), stop)


@constants(1)
def left(call: KernelCall, a: pa.Array, n: pa.Scalar) -> Any:
    """The first n characters; negative: all but the last |n|."""
    return pc.utf8_slice_codeunits(a, 0, n.as_py())


@constants(1)
def right(call: KernelCall, a: pa.Array, n: pa.Scalar) -> Any:
    """The last n characters; negative: all but the first |n|."""
    count = n.as_py()
    if count == 0:
        return pc.if_else(a.is_valid(), "", pa.scalar(None, pa.string()))
    return pc.utf8_slice_codeunits(a, -count, None)


@constants(1)
def position(call: KernelCall, a: pa.Array, needle: pa.Scalar) -> Any:
    """Where the needle starts, 0 if nowhere."""
    at = flat(pc.find_substring(a, needle.as_py()))
    found = values(at)
    if is_ascii(a):
        return column(found + 1, pa.int32(), validity(a))
    text = needle.as_py()
    return by_value(a, lambda s: s.find(text) + 1, pa.int32())


@constants(1, 2)
def replace(call: KernelCall, a: pa.Array, old: pa.Scalar, new: pa.Scalar) -> Any:
    """Every occurrence of `old` as `new`."""
    before, after = old.as_py(), new.as_py()
    if not before:
        return a
    raw = before.encode()
    if len(raw) == 1 and not after:
        from streamsql.functions.compute import text_loops

        offsets, data = text_buffers(a)
        out_offsets = np.zeros(len(a) + 1, np.int32)
        out = np.empty(max(int(offsets[-1] - offsets[0]), 1), np.uint8)
        size = text_loops.remove_byte(offsets, data, raw[0], out_offsets, out)
        return text_column(out_offsets, out[:size], validity(a))
    return pc.replace_substring(a, before, after)


@constants(1)
def btrim(call: KernelCall, a: pa.Array, chars: Any = None) -> Any:
    """Without the characters at both ends."""
    return pc.utf8_trim(a, " " if chars is None else chars.as_py())


@constants(1)
def ltrim(call: KernelCall, a: pa.Array, chars: Any = None) -> Any:
    """Without the characters at the front."""
    return pc.utf8_ltrim(a, " " if chars is None else chars.as_py())


@constants(1)
def rtrim(call: KernelCall, a: pa.Array, chars: Any = None) -> Any:
    """Without the characters at the end."""
    return pc.utf8_rtrim(a, " " if chars is None else chars.as_py())


@constants(1, 2)
def lpad(call: KernelCall, a: pa.Array, width: pa.Scalar, fill: Any = None) -> Any:
    """Filled at the front to `width` characters, or cut to them."""
    return _pad(a, width.as_py(), " " if fill is None else fill.as_py(), front=True)


@constants(1, 2)
def rpad(call: KernelCall, a: pa.Array, width: pa.Scalar, fill: Any = None) -> Any:
    """Filled at the end to `width` characters, or cut to them."""
    return _pad(a, width.as_py(), " " if fill is None else fill.as_py(), front=False)


def _pad(a: pa.Array, width: int, fill: str, *, front: bool) -> Any:
    width = max(width, 0)
    cut = pc.utf8_slice_codeunits(a, 0, width)
    if not fill:
        return cut
    missing = width - values(flat(pc.fill_null(pc.utf8_length(cut), width)))
    pads = pa.array([(fill * (k // len(fill) + 1))[:k] for k in range(int(missing.max()) + 1)])
    padding = pads.take(column(missing.astype(np.int64), pa.int64()))
    parts = (padding, cut) if front else (cut, padding)
    return pc.binary_join_element_wise(*parts, "")


def repeat(call: KernelCall, a: Value, count: Value) -> Any:
    """The text `count` times."""
    times = pc.max_element_wise(count, pa.scalar(0, pa.int32()))
    return pc.binary_repeat(a, times)


@constants(1, 2)
def split_part(call: KernelCall, a: pa.Array, separator: pa.Scalar, n: pa.Scalar) -> Any:
    """The n-th field between separators; empty if there is none."""
    index, text = n.as_py(), separator.as_py()
    if index == 0:
        call.fail(True, InvalidParameterValue, "field position must not be zero")
        return pa.scalar(None, pa.string())
    if not text:
        if index in (1, -1):
            return a
        return pc.if_else(a.is_valid(), "", pa.scalar(None, pa.string()))
    return split_field(a, text, index)


def split_field(a: pa.Array, separator: str, index: int, *, or_null: bool = False) -> pa.Array:
    """The index-th field by the byte loops; what is not there is empty, or NULL."""
    from streamsql.functions.compute import text_loops

    offsets, data = text_buffers(a)
    starts, ends = np.empty(len(a), np.int32), np.empty(len(a), np.int32)
    there = np.zeros(len(a), np.bool_)
    raw = np.frombuffer(separator.encode(), np.uint8)
    text_loops.split_ranges(offsets, data, raw, index, starts, ends, there)
    if or_null:
        mask = valid_mask(a)
        valid = validity_from(there if mask is None else there & mask)
    else:
        valid = validity(a)
    return gather(data, starts, ends, valid)


def gather(data: Any, starts: Any, ends: Any, valid: pa.Buffer | None) -> pa.Array:
    """The column of the byte ranges [start, end)."""
    from streamsql.functions.compute import text_loops

    out_offsets = np.zeros(len(starts) + 1, np.int32)
    out = np.empty(text_loops.gather_offsets(starts, ends, out_offsets), np.uint8)
    text_loops.gather(data, starts, ends, out_offsets, out)
    return text_column(out_offsets, out, valid)


@constants(1, 2)
def split_index(call: KernelCall, a: pa.Array, separator: pa.Scalar, n: pa.Scalar) -> Any:
    """Flink's SPLIT_INDEX: fields count from 0; NULL if there is none."""
    index, text = n.as_py(), separator.as_py()
    if index < 0:
        return pa.scalar(None, pa.string())
    if not text:
        text = " "
    return split_field(a, text, index + 1, or_null=True)


@constants(1, 2)
def translate(call: KernelCall, a: pa.Array, old: pa.Scalar, new: pa.Scalar) -> Any:
    """Each character of `old` as the one at its place in `new`; without a place it goes."""
    before, after = old.as_py(), new.as_py()
    table: dict[int, str | None] = {}
    for i, c in enumerate(before):
        table.setdefault(ord(c), after[i] if i < len(after) else None)
    return by_value(a, lambda s: s.translate(table), pa.string())


def ascii_code(call: KernelCall, a: pa.Array) -> Any:
    """Code point of the first character; 0 for the empty text."""
    first = pc.utf8_slice_codeunits(a, 0, 1)
    return by_value(flat(first), lambda c: ord(c) if c else 0, pa.int32())


def chr_(call: KernelCall, a: pa.Array) -> Any:
    """The character of a code point."""

    def one(code: int) -> str:
        if code == 0:
            raise ProgramLimitExceeded("null character not permitted")
        if not 0 < code <= 0x10FFFF or 0xD800 <= code < 0xE000:
            raise InvalidParameterValue(f"requested character too large for encoding: {code}")
        return chr(code)

    return by_value_failing(call, a, one, pa.string())


@constants(1)
def starts_with(call: KernelCall, a: pa.Array, prefix: pa.Scalar) -> Any:
    """Whether the text begins with the prefix."""
    return pc.starts_with(a, prefix.as_py())


@constants(1)
def ends_with(call: KernelCall, a: pa.Array, suffix: pa.Scalar) -> Any:
    """Whether the text ends with the suffix."""
    return pc.ends_with(a, suffix.as_py())


@constants(1, 2, 3)
def overlay(
    call: KernelCall, a: pa.Array, new: pa.Scalar, start: pa.Scalar, count: Any = None
) -> Any:
    """The text with `count` characters from `start` replaced."""
    text, begin = new.as_py(), start.as_py()
    if begin <= 0:
        call.fail(True, SubstringError, "negative substring length not allowed")
        return pa.scalar(None, pa.string())
    n = len(text) if count is None else count.as_py()
    head = pc.utf8_slice_codeunits(a, 0, begin - 1)
    tail = pc.utf8_slice_codeunits(a, max(begin - 1 + n, 0), None)
    return pc.binary_join_element_wise(head, text, tail, "")


def to_hex(call: KernelCall, a: pa.Array) -> Any:
    """Hexadecimal of an integer; negative ones as two's complement."""
    mask = 2 ** (a.type.bit_width) - 1
    return by_value(a, lambda v: format(v & mask, "x"), pa.string())


# --- quoting ---------------------------------------------------------------------------------------
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
    shown = _shown(call, 0, a)
    return by_value(broadcast(shown, call.num_rows), quoted_literal, pa.string())


def quote_nullable(call: KernelCall, a: Value) -> Any:
    """As quote_literal, NULL for NULL."""
    shown = broadcast(_shown(call, 0, a), call.num_rows)
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
        index, kind, width, flush_left = piece
        shown: Any = broadcast(_shown(call, index + 1, args[index]), call.num_rows)
        if kind == "I":
            shown = by_value(shown, quoted_identifier, pa.string())
        elif kind == "L":
            shown = pc.fill_null(by_value(shown, quoted_literal, pa.string()), "NULL")
        shown = flat(pc.fill_null(shown, ""))
        if width:
            longest = max(width, pc.max(pc.utf8_length(shown)).as_py() or 0)
            padded = _pad(shown, width, " ", front=not flush_left)
            short = pc.less(pc.utf8_length(shown), min(width, longest))
            shown = flat(pc.if_else(short, padded, shown))
        parts.append(shown)
    return broadcast(pc.binary_join_element_wise(*parts, "", ""), call.num_rows)


# --- bytea -----------------------------------------------------------------------------------------
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
            return bytes(parse_value("\\x" + text, BYTEA))
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


# --- arrays of text --------------------------------------------------------------------------------
@constants(1, 2)
def string_to_array(call: KernelCall, a: pa.Array, separator: pa.Scalar, null: Any = None) -> Any:
    """The fields between separators; the empty text has none."""
    text = separator.as_py()
    if not text:
        lists = by_value(a, lambda s: [s] if s else [], pa.list_(pa.string()))
    else:
        lists = flat(pc.split_pattern(a, text)).cast(pa.list_(pa.string()))
        empty = pc.equal(a, "")
        if pc.any(empty).as_py():
            lists = flat(pc.if_else(empty, pa.scalar([], pa.list_(pa.string())), lists))
    if null is not None:
        word = null.as_py()
        items = pc.if_else(pc.equal(lists.values, word), pa.scalar(None, pa.string()), lists.values)
        lists = pa.ListArray.from_buffers(
            lists.type,
            len(lists),
            lists.buffers()[:2],
            lists.null_count,
            lists.offset,
            [flat(items)],
        )
    return lists


def string_to_chars(call: KernelCall, a: pa.Array) -> Any:
    """string_to_array with a NULL separator: every character."""
    return by_value(a, list, pa.list_(pa.string()))


@constants(1, 2)
def array_to_string(call: KernelCall, a: pa.Array, separator: pa.Scalar, null: Any = None) -> Any:
    """The elements' text with separators; NULL elements are left out or shown as `null`."""
    element = call.arg_types[0].element
    assert element is not None
    while element.kind is Kind.ARRAY and element.element is not None:
        a = _flattened_once(a)
        element = element.element
    items = to_text(a.flatten(), element, call.timezone)
    lengths = values(flat(pc.fill_null(pc.list_value_length(a), 0)))
    if null is not None and null.is_valid:
        items = flat(pc.fill_null(items, null.as_py()))
    elif items.null_count:
        rows = np.repeat(np.arange(len(a)), lengths)
        keep = np.asarray(items.is_valid())
        lengths = np.bincount(rows[keep], minlength=len(a))
        items = items.drop_null()
    offsets = np.zeros(len(a) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(column(offsets, pa.int32()), items),
                            separator.as_py())  # fmt: skip
    if a.null_count:
        joined = pc.if_else(a.is_valid(), joined, pa.scalar(None, pa.string()))
    return joined


def _flattened_once(a: pa.Array) -> pa.Array:
    """A list of lists as one list of their elements."""
    inner = a.flatten()
    outer_lengths = values(flat(pc.fill_null(pc.list_value_length(a), 0)))
    inner_lengths = values(flat(pc.fill_null(pc.list_value_length(inner), 0)))
    ends = np.concatenate(([0], np.cumsum(inner_lengths)))
    bounds = np.concatenate(([0], np.cumsum(outer_lengths)))
    offsets = ends[bounds].astype(np.int32)
    return pa.ListArray.from_arrays(column(offsets, pa.int32()), inner.flatten())
