"""x = ANY (array), x > ALL (array) and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.types import BOOLEAN
from streamsql.functions.compute import comparisons
from streamsql.functions.compute.arrays import lengths_of, valid_rows
from streamsql.functions.compute.columns import (
    Value,
    broadcast,
    column,
    flat,
    from_bools,
    validity_from,
)
from streamsql.functions.definitions import KernelCall


def quantified(operator: str, every: bool, call: KernelCall, a: Value, b: Value) -> Any:
    """a <operator> ANY / ALL (array), three-valued."""
    n = call.num_rows
    lists = broadcast(b, n)
    element = call.arg_types[0]
    items = lists.flatten()
    lengths = lengths_of(lists)
    rows = np.repeat(np.arange(n), lengths)
    left = broadcast(a, n).take(column(rows.astype(np.int64), pa.int64()))
    yes, no, unknown = (np.zeros(n, np.bool_) for _ in range(3))
    if len(items):
        inner = KernelCall(len(items), BOOLEAN, (element, element))
        compared = _compare(operator, inner, left, items)
        known = valid_rows(compared)
        truth = np.asarray(compared.fill_null(False))
        yes[rows[truth & known]] = True
        no[rows[~truth & known]] = True
        unknown[rows[~known]] = True
    decided = no if every else yes
    result = ~decided if every else decided
    valid = (decided | ~unknown) & valid_rows(lists)
    return from_bools(result, validity_from(valid))


def _compare(operator: str, inner: KernelCall, a: Value, b: Value) -> pa.Array:
    if operator in ("like", "ilike", "matches", "matches_any_case"):
        from streamsql.functions.compute import patterns

        return flat(broadcast(getattr(patterns, operator)(inner, a, b), inner.num_rows))
    if operator in ("not_like", "not_ilike"):
        return flat(pc.invert(_compare(operator[4:], inner, a, b)))
    return flat(broadcast(comparisons.compare(operator, inner, a, b), inner.num_rows))
