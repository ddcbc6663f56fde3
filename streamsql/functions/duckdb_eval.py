"""The DuckDB evaluator: expressions over one batch in one SELECT.

One configured in-memory database for the process, one connection of it for each thread; the batch
is scanned where it lies.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.errors import StreamSqlError
from streamsql.functions.compute.columns import column, flat
from streamsql.functions.duckdb_errors import translate
from streamsql.functions.duckdb_sql import configure, expression_sql
from streamsql.functions.expressions import Expr
from streamsql.functions.literals import freeze_now

_local = threading.local()
_lock = threading.Lock()


@cache
def _database() -> Any:
    import duckdb

    con = duckdb.connect(":memory:")
    configure(con, threads=1)
    return con


def _connection() -> Any:
    con = getattr(_local, "connection", None)
    if con is None:
        with _lock:
            con = _local.connection = _database().cursor()
    return con


def _select(sqls: Sequence[str], batch: pa.RecordBatch) -> list[pa.Array]:
    import duckdb

    con = _connection()
    names = [f"c{i}" for i in range(batch.num_columns)]
    if names:
        table = pa.Table.from_arrays(batch.columns, names=names)
    else:  # no columns, but rows
        table = pa.table({"row": pa.nulls(batch.num_rows, pa.bool_())})
    con.register("batch", table)
    try:
        items = ", ".join(f"{sql} AS r{i}" for i, sql in enumerate(sqls))
        result = con.sql(f"SELECT {items} FROM batch").to_arrow_table()
    except duckdb.Error as e:
        raise translate(e) from e
    finally:
        con.unregister("batch")
    return [flat(c.combine_chunks()) for c in result.columns]


def _sqls(exprs: Sequence[Expr], now_us: int, timezone: str) -> list[str]:
    return [
        expression_sql(freeze_now(e, now_us), lambda c: f"c{c.index}", timezone=timezone)
        for e in exprs
    ]


def _typed(arrays: Sequence[pa.Array], exprs: Sequence[Expr]) -> list[pa.Array]:
    return [
        a if a.type == e.type.arrow else a.cast(e.type.arrow)
        for a, e in zip(arrays, exprs, strict=True)
    ]


def run(exprs: Sequence[Expr], batch: pa.RecordBatch, now_us: int, timezone: str) -> list[pa.Array]:
    """One array an expression. Raises: the error of a bad row."""
    return _typed(_select(_sqls(exprs, now_us, timezone), batch), exprs)


def run_skipping(
    exprs: Sequence[Expr], batch: pa.RecordBatch, now_us: int, timezone: str
) -> tuple[list[pa.Array], dict[int, tuple[str, str]]]:
    """The arrays with NULL in bad rows, and row -> (SQLSTATE, message)."""
    sqls = _sqls(exprs, now_us, timezone)
    try:
        return _typed(_select(sqls, batch), exprs), {}
    except StreamSqlError:
        pass
    errors: dict[int, tuple[str, str]] = {}
    arrays = []
    for sql, expr in zip(sqls, exprs, strict=True):
        array, bad = _one_skipping(sql, batch)
        arrays.append(array)
        for row, error in bad.items():
            errors.setdefault(row, error)
        del expr
    return _typed(arrays, exprs), errors


def _one_skipping(sql: str, batch: pa.RecordBatch) -> tuple[pa.Array, dict[int, tuple[str, str]]]:
    """One expression: TRY finds the suspects (NULLs), halving tells the bad among them."""
    try:
        return _select([sql], batch)[0], {}
    except StreamSqlError:
        pass
    errors: dict[int, tuple[str, str]] = {}
    try:
        tried = _select([f"TRY({sql})"], batch)[0]
        suspects = np.flatnonzero(np.asarray(tried.is_null()))
    except StreamSqlError:  # volatile: TRY is not allowed
        tried = None
        suspects = np.arange(batch.num_rows)
    _halve(sql, batch, suspects, errors)
    if tried is None:
        good = np.setdiff1d(np.arange(batch.num_rows), list(errors))
        part = _select([sql], batch.take(column(good, pa.int64())))[0]
        back = np.full(batch.num_rows, -1, np.int64)
        back[good] = np.arange(good.size)
        valid = pa.py_buffer(np.packbits(back >= 0, bitorder="little"))
        tried = part.take(column(np.maximum(back, 0), pa.int64(), valid))
    return tried, errors


def _halve(sql: str, batch: pa.RecordBatch, rows: Any, errors: dict[int, tuple[str, str]]) -> None:
    if not len(rows):
        return
    try:
        _select([sql], batch.take(column(rows.astype(np.int64), pa.int64())))
        return
    except StreamSqlError as e:
        if len(rows) == 1:
            errors[int(rows[0])] = (e.sqlstate, e.message)
            return
    middle = len(rows) // 2
    _halve(sql, batch, rows[:middle], errors)
    _halve(sql, batch, rows[middle:], errors)
