"""DuckDB as the evaluator of what has no operator of its own: batches in, one batch out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from streamsql.core.errors import StatementTooComplex
from streamsql.core.schema import Schema
from streamsql.operators.columns import concat_batches

RECURSION_S_MAX = 10.0
_local = threading.local()


def _connection() -> Any:
    """One in-memory DuckDB a thread: a tick runs on one thread, and one tick at a time."""
    connection = getattr(_local, "connection", None)
    if connection is None:
        import duckdb

        from streamsql.functions.duckdb_sql import configure

        connection = duckdb.connect(":memory:")
        configure(connection, threads=1)
        _local.connection = connection
    return connection


def run(
    sql: str, inputs: Sequence[tuple[str, pa.Table]], schema: Schema, now_us: int = 0
) -> pa.RecordBatch:
    """The rows of one SELECT whose columns are c0, c1, …, over tables by name.

    now_us: what now() in it means.

    Raises: the StreamSqlError that DuckDB's error stands for.
    """
    import duckdb

    from streamsql.functions.duckdb_errors import translate

    connection = _connection()
    for name, table in inputs:
        connection.register(name, _with_column(table))
    if "ssql_now()" in sql:
        connection.execute(f"SET VARIABLE streamsql_now = make_timestamptz({int(now_us)}::BIGINT)")
    try:
        found = _fetched(connection, sql)
    except duckdb.Error as error:
        raise translate(error) from error
    finally:
        for name, _ in inputs:
            connection.unregister(name)
    return as_batch(found, schema)


def _fetched(connection: Any, sql: str) -> pa.Table:
    """The rows; a recursion gets `RECURSION_S_MAX` of time, or one without an end would never give
    the engine's thread back.

    Raises: StatementTooComplex (54001) when it needs more.
    """
    if "WITH RECURSIVE" not in sql:
        return connection.sql(sql).to_arrow_table()
    import duckdb

    timer = threading.Timer(RECURSION_S_MAX, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        return connection.sql(sql).to_arrow_table()
    except duckdb.InterruptException as error:
        text = f"recursive query did not end within {RECURSION_S_MAX:g} s"
        raise StatementTooComplex(f"{text}; add a condition that ends it") from error
    finally:
        timer.cancel()


def _with_column(table: pa.Table) -> pa.Table:
    """DuckDB takes no table without columns: the rows of one are counted by a column nobody
    reads."""
    if table.num_columns:
        return table
    return pa.table({"nothing": pa.nulls(table.num_rows, pa.bool_())})


def as_batch(table: pa.Table, schema: Schema) -> pa.RecordBatch:
    """A result as one batch of exactly the schema's types."""
    if table.schema.types != schema.arrow.types:
        table = table.rename_columns(schema.arrow.names).cast(schema.arrow)
    else:
        table = table.rename_columns(schema.arrow.names)
    batches = table.to_batches()
    if not batches:
        return pa.RecordBatch.from_arrays(
            [pa.array([], type=f.type) for f in schema.arrow], schema=schema.arrow
        )
    return concat_batches(batches)
