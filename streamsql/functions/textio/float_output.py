"""Columns of REAL and DOUBLE PRECISION as PostgreSQL's text: the shortest that reads back the same.

Arrow's cast finds the same digits but writes some numbers another way: with an exponent from 1e10
on (PostgreSQL: 1e15, REAL 1e6) and only below 1e-5 (1e-4), `1e-7` for `1e-07`, `inf`, `nan`. Those
rows are rewritten, all of a kind at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.functions.compute.columns import flat, from_bools, values

_ARROW_HIGH = 1e10
_LOW = 1e-4


def float_column(array: pa.Array, *, single: bool) -> pa.Array:
    """Texts of a float column; NULL stays NULL."""
    high = 1e6 if single else 1e15
    out = flat(array.cast(pa.string()))
    data = values(array)
    size = np.abs(data)
    with np.errstate(invalid="ignore"):
        kinds: list[tuple[Any, Callable[[pa.Array, Any], pa.Array]]] = [
            (np.isnan(data), lambda s, v: pa.repeat("NaN", len(s))),
            (np.isinf(data), lambda s, v: pc.if_else(from_bools(v > 0), "Infinity", "-Infinity")),
            ((size > 0) & (size < _LOW), lambda s, v: _small(s)),
        ]
        if single:
            kinds.append(((size >= high) & (size < _ARROW_HIGH), lambda s, v: _with_exponent(s)))
        else:
            kinds.append(((size >= _ARROW_HIGH) & (size < high), lambda s, v: _plain(s)))
    rewritten = out
    for rows, rewrite in kinds:
        if rows.any():
            mask = from_bools(rows)
            texts = rewrite(out.filter(mask), data[rows])
            rewritten = flat(pc.replace_with_mask(rewritten, mask, flat(texts)))
    if rewritten is not out and array.null_count:  # anything may lie under a NULL
        rewritten = flat(pc.if_else(array.is_valid(), rewritten, pa.scalar(None, pa.string())))
    return rewritten


def _small(texts: pa.Array) -> pa.Array:
    """Two digits in the exponent; `0.0000123` to `1.23e-05`."""
    for pattern, replacement in (
        (r"e-(\d)$", r"e-0\1"),
        (r"^(-?)0\.0000(\d)$", r"\1\2e-05"),
        (r"^(-?)0\.0000(\d)(\d+)$", r"\1\2.\3e-05"),
    ):
        texts = pc.replace_substring_regex(texts, pattern=pattern, replacement=replacement)
    return texts


def _plain(texts: pa.Array) -> pa.Array:
    """`1.23e+12` to `1230000000000`: one pass for each exponent that occurs."""
    exponents = pc.replace_substring_regex(texts, pattern=r"^.*e\+", replacement="")
    for exponent in pc.unique(exponents).to_pylist():
        if exponent is None:
            continue
        where = pc.fill_null(pc.equal(exponents, exponent), False)
        part = pc.extract_regex(texts.filter(where), pattern=r"^(?P<head>-?\d)\.?(?P<tail>\d*)e")
        tail = pc.utf8_rpad(part.field("tail"), int(exponent), "0")
        whole = pc.utf8_slice_codeunits(tail, 0, int(exponent))
        rest = pc.utf8_slice_codeunits(tail, int(exponent))
        point = pc.if_else(pc.equal(rest, ""), "", ".")
        plain = pc.binary_join_element_wise(part.field("head"), whole, point, rest, "")
        texts = pc.replace_with_mask(texts, where, flat(plain))
    return texts


def _with_exponent(texts: pa.Array) -> pa.Array:
    """`1234567.5` to `1.2345675e+06` (REAL only)."""
    part = pc.extract_regex(texts, pattern=r"^(?P<head>-?\d)(?P<whole>\d*)\.?(?P<rest>\d*)$")
    exponent = pc.utf8_lpad(pc.utf8_length(part.field("whole")).cast(pa.string()), 2, "0")
    digits = pc.binary_join_element_wise(part.field("whole"), part.field("rest"), "")
    digits = pc.ascii_rtrim(digits, "0")
    point = pc.if_else(pc.equal(digits, ""), "", ".")
    return pc.binary_join_element_wise(part.field("head"), point, digits, "e+", exponent, "")
