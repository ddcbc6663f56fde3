"""float4, float8: the shortest text that reads back as the same number; IEEE big-endian.

Arrow's cast finds the same shortest digits as PostgreSQL but writes some of them another way:
it turns to exponents at 1e10 (PostgreSQL: 1e15, float4 1e6) and below 1e-5 (1e-4), writes `1e-7`
for `1e-07`, `inf`, `nan`. Only those rows are rewritten, all of a kind at once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import SqlType
from streamsql_server.encoding.pieces import AnyArray, BoolArray, Encoded, from_fixed, numbers
from streamsql_server.encoding.pieces import valid_mask as valid_of
from streamsql_server.encoding.wire_type import BinaryEncoder, TextEncoder, WireContext, WireType

ARROW_HIGH = 1e10  # from here on Arrow writes an exponent
LOW = 1e-4  # below this PostgreSQL does


def _text(dtype: type, high: float) -> TextEncoder:
    def text(column: pa.Array, type_: SqlType, context: WireContext) -> pa.Array:
        out = column.cast(pa.string())
        valid = valid_of(column)
        filled = column if valid is None else column.fill_null(0)
        values = numbers(filled, dtype)
        size = np.abs(values)
        usual = ((size >= LOW) & (size < min(high, ARROW_HIGH))) | (size == 0)
        if usual.all():
            return out
        return _rewrite(out, values, size, high)

    return text


def _rewrite(out: pa.Array, values: AnyArray, size: AnyArray, high: float) -> pa.Array:
    kinds: list[tuple[BoolArray, Callable[[pa.Array, AnyArray], pa.Array]]] = [
        (np.isnan(values), lambda s, v: pa.array(["NaN"] * len(s), pa.string())),
        (np.isinf(values), lambda s, v: pc.if_else(pa.array(v > 0), "Infinity", "-Infinity")),
        ((size > 0) & (size < LOW), lambda s, v: _small(s)),
    ]
    if high > ARROW_HIGH:
        kinds.append(((size >= ARROW_HIGH) & (size < high), lambda s, v: _without_exponent(s)))
    else:
        kinds.append(((size >= high) & (size < ARROW_HIGH), lambda s, v: _with_exponent(s)))
    for mask, rewrite in kinds:
        if mask.any():
            where = pa.array(mask)
            out = pc.replace_with_mask(out, where, rewrite(out.filter(where), values[mask]))
    return out


def _small(texts: pa.Array) -> pa.Array:
    """Two digits in the exponent; `0.0000123` to `1.23e-05`."""
    for pattern, replacement in (
        (r"e-(\d)$", r"e-0\1"),
        (r"^(-?)0\.0000(\d)$", r"\1\2e-05"),
        (r"^(-?)0\.0000(\d)(\d+)$", r"\1\2.\3e-05"),
    ):
        texts = pc.replace_substring_regex(texts, pattern=pattern, replacement=replacement)
    return texts


def _without_exponent(texts: pa.Array) -> pa.Array:
    """`1.23e+12` to `1230000000000`: one pass for each exponent that occurs."""
    exponents = pc.replace_substring_regex(texts, pattern=r"^.*e\+", replacement="")
    for exponent in pc.unique(exponents).to_pylist():
        where = pc.equal(exponents, exponent)
        these = texts.filter(where)
        part = pc.extract_regex(these, pattern=r"^(?P<head>-?\d)\.?(?P<tail>\d*)e")
        tail = pc.utf8_rpad(part.field("tail"), int(exponent), "0")
        whole = pc.binary_join_element_wise(
            part.field("head"), pc.utf8_slice_codeunits(tail, 0, int(exponent)), ""
        )
        rest = pc.utf8_slice_codeunits(tail, int(exponent))
        point = pc.if_else(pc.equal(rest, ""), "", ".")
        plain = pc.binary_join_element_wise(whole, point, rest, "")
        texts = pc.replace_with_mask(texts, where, plain)
    return texts


def _with_exponent(texts: pa.Array) -> pa.Array:
    """`1234567.5` to `1.2345675e+06` (float4 only)."""
    part = pc.extract_regex(texts, pattern=r"^(?P<head>-?\d)(?P<whole>\d*)\.?(?P<rest>\d*)$")
    exponent = pc.utf8_lpad(pc.utf8_length(part.field("whole")).cast(pa.string()), 2, "0")
    digits = pc.binary_join_element_wise(part.field("whole"), part.field("rest"), "")
    digits = pc.ascii_rtrim(digits, "0")
    point = pc.if_else(pc.equal(digits, ""), "", ".")
    return pc.binary_join_element_wise(part.field("head"), point, digits, "e+", exponent, "")


def _binary(dtype: str) -> BinaryEncoder:
    def binary(column: pa.Array, type_: SqlType) -> Encoded:
        return from_fixed(numbers(column, "<" + dtype).astype(">" + dtype), valid_of(column))

    return binary


def _parser(layout: str) -> Callable[[bytes], float]:
    def parse_binary(data: bytes) -> float:
        value: float = struct.unpack(layout, data)[0]
        return value

    return parse_binary


def float8_text(value: float) -> str:
    """One float8 as PostgreSQL writes it.

    >>> [float8_text(x) for x in (1.0, 0.1, 1e-05, 1e15, 123456789012345.0, float("inf"))]
    ['1', '0.1', '1e-05', '1e+15', '123456789012345', 'Infinity']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    shown = repr(value)  # shortest digits too; exponents from 1e16 on and below 1e-4
    if shown.endswith(".0"):
        shown = shown[:-2]
    if 1e15 <= abs(value) < 1e16:
        digits = shown.lstrip("-").split(".")[0] + (shown.split(".")[1] if "." in shown else "")
        mantissa = (digits[0] + "." + digits[1:]).rstrip("0").rstrip(".")
        shown = ("-" if value < 0 else "") + mantissa + "e+15"
    return shown


FLOAT4 = WireType(
    700, "float4", 4, 1021, _text(np.float32, 1e6), _binary("f4"), _parser("!f"), plain=True
)  # fmt: skip
FLOAT8 = WireType(
    701, "float8", 8, 1022, _text(np.float64, 1e15), _binary("f8"), _parser("!d"), float8_text,
    plain=True,
)  # fmt: skip
