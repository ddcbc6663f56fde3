"""Small pieces of DuckDB SQL that several families write."""

from __future__ import annotations

from streamsql.core.errors import StreamSqlError
from streamsql.core.types import SqlType
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
