"""Products of exact numbers, with the fast way for an integer column times a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.functions.compute import decimals
from streamsql.functions.compute.columns import Value, column, validity
from streamsql.functions.definitions import KernelCall


def multiply(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a * b for NUMERIC operands; either may be a constant.

    A column whose values all lie in 64 bits times a constant that does is one widening multiplication a
    row and needs no check: the result type has room for both.
    """
    if isinstance(a, pa.Scalar):
        a, b = b, a
    if isinstance(b, pa.Scalar) and isinstance(a, pa.Array):
        exact = call.type.storage_precision_scale == (
            a.type.precision + b.type.precision,
            a.type.scale + b.type.scale,
        )
        factor = _unscaled(b)
        if exact and abs(factor) < 2**63:
            narrow = _as_int64(a)
            if narrow is not None:
                from streamsql.functions.compute import decimal_loops

                out = np.empty((call.num_rows, 2), np.uint64)
                decimal_loops.int_times_constant(narrow, factor, out)
                return column(out, call.type.arrow, validity(a))
    return decimals.multiply(call, a, b)


def _unscaled(b: pa.Scalar) -> int:
    words = decimals.decimal_words(pa.repeat(b, 1))[0]
    return int.from_bytes(words.tobytes(), "little", signed=True)


def _as_int64(a: pa.Array) -> Any:
    """The column's low words, if the high ones only repeat their sign; else None."""
    words = decimals.decimal_words(a).view(np.int64)
    low = np.ascontiguousarray(words[:, 0])
    return low if np.array_equal(words[:, 1], low >> 63) else None
