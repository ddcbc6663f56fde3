"""Variance and standard deviation from exact sums: one Decimal computation a group."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from streamsql.functions.definitions import Kernel, KernelCall
from streamsql.functions.textio.scalar_input import fit_decimal

_WIDE = Context(prec=100)


def variance(count: int, total: Decimal, squares: Decimal, *, sample: bool) -> Decimal | None:
    """(n Σx² − (Σx)²) / (n (n − 1)), or / n² of the population; None for too few rows."""
    if count < (2 if sample else 1):
        return None
    n = Decimal(count)
    top = _WIDE.subtract(_WIDE.multiply(n, squares), _WIDE.multiply(total, total))
    bottom = _WIDE.multiply(n, n - 1 if sample else n)
    return max(_WIDE.divide(top, bottom), Decimal(0))


def _kernel(*, sample: bool, root: bool) -> Kernel:
    def kernel(call: KernelCall, count: pa.Array, total: pa.Array, squares: pa.Array) -> Any:
        made: list[Decimal | None] = []
        rows = zip(count.to_pylist(), total.to_pylist(), squares.to_pylist(), strict=True)
        for n, s, q in rows:
            value = None if s is None or q is None else variance(n, s, q, sample=sample)
            if value is not None and root:
                value = _WIDE.sqrt(value)
            made.append(None if value is None else fit_decimal(value, call.type))
        return pa.array(made, call.type.arrow)

    return kernel


var_samp = _kernel(sample=True, root=False)
var_pop = _kernel(sample=False, root=False)
stddev_samp = _kernel(sample=True, root=True)
stddev_pop = _kernel(sample=False, root=True)
