"""Helpers of the function tests: SQL text to bound expressions, both evaluators, text results."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamsql import dialect
from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.functions import duckdb_eval
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Expr
from streamsql.functions.textio import to_text
from streamsql.plan.binder.context import BindContext
from streamsql.plan.binder.entry import bind_expression

ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["c0"])
NOW_US = 1_700_000_000_000_000


def bind(sql: str, schema: Schema | None = None) -> Expr:
    """The bound expression of a SQL text over the columns of `schema`."""
    context = BindContext(resolve=lambda name: None)
    return bind_expression(dialect.parse_expression(sql), schema or Schema(()), context)


def arrow(expr: Expr, batch: pa.RecordBatch, schema: Schema, timezone: str = "UTC") -> pa.Array:
    """The Arrow evaluator's column; the expression must have kernels all through."""
    evaluator = Evaluator([expr], schema)
    assert not evaluator.uses_duckdb
    return evaluator.run(batch, NOW_US, timezone)[0]


def duckdb(expr: Expr, batch: pa.RecordBatch, timezone: str = "UTC") -> pa.Array:
    """The DuckDB evaluator's column."""
    return duckdb_eval.run([expr], batch, NOW_US, timezone)[0]


def answer(sql: str, timezone: str = "UTC") -> tuple[str | None, str | None]:
    """(Arrow, DuckDB) text of a constant expression; errors as "!SQLSTATE message"."""
    try:
        expr = bind(sql)
    except StreamSqlError as e:
        return (shown(e), shown(e))
    found: list[str | None] = []
    for run in (
        lambda: Evaluator([expr], Schema(())).run(ONE_ROW, NOW_US, timezone)[0],
        lambda: duckdb(expr, ONE_ROW, timezone),
    ):
        try:
            found.append(to_text(run(), expr.type, timezone)[0].as_py())
        except StreamSqlError as e:
            found.append(shown(e))
    return found[0], found[1]


def answers(sqls: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
    """As `answer` for several expressions without errors, in one call of each evaluator; if that
    fails, one by one."""
    try:
        exprs = [bind(sql) for sql in sqls]
        rows = [
            Evaluator(exprs, Schema(())).run(ONE_ROW, NOW_US),
            duckdb_eval.run(exprs, ONE_ROW, NOW_US, "UTC"),
        ]
    except StreamSqlError:
        return {sql: answer(sql) for sql in sqls}
    texts = [
        [to_text(a, e.type)[0].as_py() for a, e in zip(row, exprs, strict=True)] for row in rows
    ]
    return dict(zip(sqls, zip(*texts, strict=True), strict=True))


def shown(error: StreamSqlError) -> str:
    """ "!SQLSTATE message"."""
    return f"!{error.sqlstate} {error.message}"


def error_of(sql: str, schema: Schema | None = None) -> StreamSqlError:
    """The error that binding raises."""
    try:
        bind(sql, schema)
    except StreamSqlError as e:
        return e
    raise AssertionError(f"{sql} bound without error")


def same(a: pa.Array, b: pa.Array) -> bool:
    """Equal columns, NaN like NaN."""
    return a.type == b.type and (a.equals(b) or repr(a.to_pylist()) == repr(b.to_pylist()))


def column_of(values: Sequence[object], t: pa.DataType) -> pa.Array:
    """A column of Python values."""
    return pa.array(values, t)
