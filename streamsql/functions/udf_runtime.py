"""The Arrow side of a UDF call: kernel arguments in, result column or an error out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import StreamSqlError
from streamsql.functions.compute.columns import (
    bools,
    column,
    decimal_words,
    flat,
    valid_mask,
    validity,
)
from streamsql.functions.definitions import Failure, KernelCall
from streamsql.functions.duckdb_udfs import Signature, UdfError


def run_kernel(signature: Signature, columns: Any, num_rows: int) -> pa.Array:
    """The kernel's result over a vector of DuckDB's. Raises: UdfError for the first bad row."""
    args = [_argument(c, t) for c, t in zip(columns, signature.arg_types, strict=True)]
    call = KernelCall(num_rows, signature.type, signature.arg_types, 0, signature.timezone)
    try:
        result = flat(signature.kernel(call, *args))
    except StreamSqlError as e:
        raise UdfError(f"streamsql:{e.sqlstate}:{e.message}") from None
    if isinstance(result, pa.Scalar):
        result = pa.repeat(result, num_rows)
    if signature.strict and any(a.null_count for a in args):
        result = _null_where_any(result, args)
    if call.failures:
        _raise_first(call, args if signature.strict else [])
    return result


def _argument(chunked: Any, t: Any) -> pa.Array:
    array = flat(chunked)
    return array if array.type == t.arrow else array.cast(t.arrow)


def _null_where_any(result: pa.Array, args: list[pa.Array]) -> pa.Array:
    import pyarrow.compute as pc

    for a in args:
        if a.null_count:
            result = pc.if_else(a.is_valid(), result, pa.scalar(None, result.type))
    return flat(result)


def _raise_first(call: KernelCall, args: list[pa.Array]) -> None:
    valid = np.ones(call.num_rows, np.bool_)
    for a in args:
        mask = valid_mask(a)
        if mask is not None:
            valid &= mask
    first: tuple[int, Failure] | None = None
    for failure in call.failures:
        rows = failure.rows
        if rows is True:
            rows = np.ones(call.num_rows, np.bool_)
        elif isinstance(rows, pa.Array):
            rows = bools(rows)
        at = np.flatnonzero(rows & valid)
        if at.size and (first is None or at[0] < first[0]):
            first = (int(at[0]), failure)
    if first is not None:
        row, failure = first
        detail = f"\x1f{failure.detail}" if failure.detail else ""
        raise UdfError(f"streamsql:{failure.error.sqlstate}:{failure.text(row)}{detail}")


def without_point(result: pa.Array) -> pa.Array:
    """DECIMAL(p, s) digits as DECIMAL(38, 0), also inside of a list."""
    if pa.types.is_list(result.type):
        items = without_point(result.values)
        return pa.ListArray.from_buffers(
            pa.list_(pa.decimal128(38, 0)),
            len(result),
            list(result.buffers()[:2]),
            null_count=result.null_count,
            offset=result.offset,
            children=[items],
        )
    return column(decimal_words(result), pa.decimal128(38, 0), validity(result))
