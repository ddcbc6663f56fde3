"""Small pieces of DuckDB SQL that several families write."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from streamsql.core.errors import StreamSqlError
from streamsql.core.types import SqlType
from streamsql.functions.definitions import Kernel, SqlTemplate
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.literals import sql_string


def raise_sql(error: type[StreamSqlError], message: str, type_: SqlType) -> str:
    """An expression of `type_` that raises when a row reaches it.

    `ssql_raise` is used and not DuckDB's error(), because that one is volatile and forbids TRY.
    """
    text = sql_string(f"streamsql:{error.sqlstate}:{message}")
    return f"CAST(ssql_raise({text}) AS {type_.duckdb})"


def cast_sql(sql: str, type_: SqlType) -> str:
    """CAST to the exact DuckDB type."""
    return f"CAST({sql} AS {type_.duckdb})"


_TEXT = re.compile(r"'(?:[^']|'')*'")
_INTEGER = re.compile(r"CAST\((-?\d+) AS (?:SMALLINT|INTEGER|BIGINT)\)")


def constant_text(sql: str) -> str | None:
    """The text of a string literal, None for any other SQL."""
    return sql[1:-1].replace("''", "'") if _TEXT.fullmatch(sql) else None


def constant_integer(sql: str) -> int | None:
    """The value of an integer literal as `literal_sql` writes it, None for any other SQL."""
    m = _INTEGER.fullmatch(sql)
    return None if m is None else int(m[1])


Writer = Callable[[Sequence[str], tuple[SqlType, ...]], "str | None"]


def native_or_kernel(name: str, kernel: Kernel, write: Writer) -> SqlTemplate:
    """DuckDB's own SQL where `write` gives some, because it means the same there and runs in
    parallel; else the kernel."""

    def template(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        sql = write(a, types)
        return kernel_sql(name, kernel, a, types, result) if sql is None else sql

    return template
