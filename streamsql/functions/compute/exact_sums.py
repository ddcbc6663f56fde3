"""The sum of a list of floats, rounded once: what VERIFY compares float sums with."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import NumericValueOutOfRange
from streamsql.functions.compute.columns import Value, broadcast
from streamsql.functions.definitions import KernelCall


def exact_sum(call: KernelCall, lists: Value) -> Any:
    """SUM of the values that are not NULL, whatever cancels; NULL if there are none."""
    column = broadcast(lists, call.num_rows)
    valid = np.asarray(column.is_valid())
    sums: list[float | None] = [None] * call.num_rows
    bad = np.zeros(call.num_rows, np.bool_)
    for row in np.flatnonzero(valid).tolist():
        values = column[row].values.drop_null().to_numpy(zero_copy_only=False)
        if values.size:
            sums[row], bad[row] = _sum(values)
    if bool(bad.any()):
        call.fail(bad, NumericValueOutOfRange, "value out of range: overflow")
    return pa.array(sums, pa.float64())


def _sum(values: np.ndarray) -> tuple[float, bool]:
    """(the sum, whether it left the range)."""
    if not bool(np.isfinite(values).all()):
        with np.errstate(all="ignore"):
            return float(values[~np.isfinite(values)].sum()), False
    try:
        return math.fsum(values), False
    except OverflowError:  # a partial sum did
        pass
    try:
        return float(sum(map(Fraction, values.tolist()))), False
    except OverflowError:
        return math.inf, True
