"""Products of exact numbers, with the fast way for an integer column times a constant."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.types import SqlType
from streamsql.functions.compute import decimals
from streamsql.functions.compute.columns import Value, column, validity, values
from streamsql.functions.definitions import KernelCall


def multiply(call: KernelCall, a: Value, b: Value) -> pa.Array:
    """a * b for NUMERIC operands; either may be a constant.

    A column whose values all lie in 64 bits times a constant that does is one widening
    multiplication a row and needs no check: the result type has room for both.
    """
    if isinstance(a, pa.Scalar):
        a, b = b, a
    if isinstance(b, pa.Scalar) and isinstance(a, pa.Array):
        exact = call.type.storage_precision_scale == (
            a.type.precision + b.type.precision,
            a.type.scale + b.type.scale,
        )
        factor = decimals.unscaled_constant(b)
        if exact and abs(factor) < 2**63:
            narrow = decimals.as_int64(a)
            if narrow is not None:
                from streamsql.functions.compute import decimal_loops

                out = np.empty((call.num_rows, 2), np.uint64)
                decimal_loops.int_times_constant(np.ascontiguousarray(narrow), factor, out)
                return column(out, call.type.arrow, validity(a))
    return decimals.multiply(call, a, b)


def fits(constant: pa.Scalar, column_type: SqlType, result: SqlType) -> bool:
    """Whether `multiply_integers` gives the exact product of such a column and the constant."""
    precision, scale = column_type.storage_precision_scale
    exact = (precision + constant.type.precision, scale + constant.type.scale)
    return (
        scale == 0
        and result.storage_precision_scale == exact
        and abs(decimals.unscaled_constant(constant)) < 2**63
    )


def multiply_integers(call: KernelCall, a: pa.Array, b: pa.Scalar) -> pa.Array:
    """An integer column times a NUMERIC constant."""
    from streamsql.functions.compute import decimal_loops

    out = np.empty((len(a), 2), np.uint64)
    wide = np.ascontiguousarray(values(a), np.int64)
    constant = b if isinstance(b, pa.Scalar) else b[0]
    decimal_loops.int_times_constant(wide, decimals.unscaled_constant(constant), out)
    return column(out, call.type.arrow, validity(a))
