"""Kernels of the text functions; positions count code points from 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.errors import InvalidParameterValue, ProgramLimitExceeded, SubstringError
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    flat,
    from_bools,
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
    texts = [shown_text(call, i, a) for i, a in enumerate(args)]
    joined = pc.binary_join_element_wise(*texts, "", null_handling="replace", null_replacement="")
    return broadcast(joined, call.num_rows)


def concat_op(call: KernelCall, a: Value, b: Value) -> Any:
    """||"""
    return pc.binary_join_element_wise(a, b, pa.scalar("", a.type))


def bytea_concat(call: KernelCall, a: Value, b: Value) -> Any:
    """|| of bytea."""
    return pc.binary_join_element_wise(a, b, pa.scalar(b"", pa.binary()))


@constants(0)
def concat_ws(call: KernelCall, separator: pa.Scalar, *args: Value) -> Any:
    """The arguments that are not NULL, with a separator between."""
    constant = separator if isinstance(separator, pa.Scalar) else separator[0]
    if not constant.is_valid:
        return pa.scalar(None, pa.string())
    # Arrow's own "skip" loses rows that are NULL in every argument: here each piece brings its
    # separator, and the one at the front is cut off
    text = constant.as_py()
    pieces: list[Any] = []
    for i, a in enumerate(args):
        shown = broadcast(shown_text(call, i + 1, a), call.num_rows)
        pieces.append(pc.fill_null(pc.binary_join_element_wise(text, shown, ""), ""))
    joined = flat(pc.binary_join_element_wise(*pieces, ""))
    if not text:
        return joined
    return byte_slice(joined, len(text.encode()), None)


def shown_text(call: KernelCall, i: int, a: Value) -> Value:
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
        return byte_slice(a, min(start, limit), stop)
    return pc.utf8_slice_codeunits(a, min(start, limit), stop)


def byte_slice(a: pa.Array, start: int, stop: int | None) -> pa.Array:
    """Bytes [start, stop) of each text (Arrow's binary_slice fails where all are shorter)."""
    offsets, data = text_buffers(a)
    low, high = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    starts = np.minimum(low + start, high)
    ends = high if stop is None else np.clip(low + stop, starts, high)
    return gather(data, starts, ends, validity(a))


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
    text = needle.as_py()
    if is_ascii(a):
        return column(find(a, text) + np.int32(1), pa.int32(), validity(a))
    return by_value(a, lambda s: s.find(text) + 1, pa.int32())


def find(a: pa.Array, needle: str) -> Any:
    """int32 [n]: byte position of the needle in each text, -1 if it is not there."""
    from streamsql.functions.compute import text_loops

    out = np.zeros(len(a), np.int32)
    raw = np.frombuffer(needle.encode(), np.uint8)
    if not raw.size:
        return out
    shift = np.full(256, raw.size, np.int64)
    shift[raw[:-1]] = np.arange(raw.size - 1, 0, -1)  # of equal bytes the last one counts
    offsets, data = text_buffers(a)
    text_loops.find(offsets, data, raw, shift, out)
    return out


def contains(a: pa.Array, needle: str) -> pa.Array:
    """Whether each text holds the needle."""
    return from_bools(find(a, needle) >= 0, validity(a))


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
    return padded(a, width.as_py(), " " if fill is None else fill.as_py(), front=True)


@constants(1, 2)
def rpad(call: KernelCall, a: pa.Array, width: pa.Scalar, fill: Any = None) -> Any:
    """Filled at the end to `width` characters, or cut to them."""
    return padded(a, width.as_py(), " " if fill is None else fill.as_py(), front=False)


def padded(a: pa.Array, width: int, fill: str, *, front: bool) -> Any:
    """Filled to `width` characters at one end, or cut to them."""
    width = max(width, 0)
    cut = pc.utf8_slice_codeunits(a, 0, width)
    if not fill:
        return cut
    missing = width - values(flat(pc.fill_null(pc.utf8_length(cut), width))).astype(np.int64)
    check_size(len(fill.encode()) * int(missing.max(initial=0)), missing.size)
    distinct, which = np.unique(missing, return_inverse=True)
    pads = pa.array([(fill * (int(k) // len(fill) + 1))[:k] for k in distinct], pa.string())
    padding = pads.take(column(which.astype(np.int64), pa.int64()))
    parts = (padding, cut) if front else (cut, padding)
    return pc.binary_join_element_wise(*parts, "")


VALUE_BYTES_MAX = 2**30 - 1
"""PostgreSQL's largest value; a column of texts holds twice that in one batch."""


def check_size(value_bytes: int, rows: int) -> None:
    """Refuse texts that no value or no batch can hold, before any memory is taken for them.

    Raises: ProgramLimitExceeded (54000).
    """
    if value_bytes > VALUE_BYTES_MAX or value_bytes * rows > 2 * VALUE_BYTES_MAX:
        raise ProgramLimitExceeded("requested length too large")


def repeat(call: KernelCall, a: Value, count: Value) -> Any:
    """The text `count` times."""
    times = pc.max_element_wise(count, pa.scalar(0, pa.int32()), skip_nulls=False)
    sizes = pc.multiply(pc.binary_length(a).cast(pa.int64()), times.cast(pa.int64()))
    one = isinstance(sizes, pa.Scalar)
    longest = (sizes if one else pc.max(sizes)).as_py() or 0
    total = (sizes if one else pc.sum(sizes)).as_py() or 0
    check_size(max(longest, total // 2), 1)
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
    starts, ends = np.empty(len(a), np.int64), np.empty(len(a), np.int64)
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
        if code < 0:
            raise InvalidParameterValue("character number must be positive")
        if code > 0x10FFFF:
            raise ProgramLimitExceeded(f"requested character too large for encoding: {code}")
        if 0xD800 <= code < 0xE000:
            raise ProgramLimitExceeded(f"requested character not valid for encoding: {code}")
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
