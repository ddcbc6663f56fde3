"""DuckDB's own functions, for names our registry does not know: kind, result type, volatility.

A scratch DuckDB over no data answers; results are cached per name and argument types.
"""

from __future__ import annotations

import threading
from functools import cache, lru_cache
from typing import Any

from streamsql.core.types import SqlType, from_arrow
from streamsql.functions.definitions import Volatility

_LOCK = threading.Lock()

_REFUSED_PREFIXES = ("read_", "write_", "parquet_", "pg_", "duckdb_", "pragma_", "sniff_", "has_",
                     "ssql_", "json_execute", "set_", "aes_", "create_")  # fmt: skip
_REFUSED = frozenset(
    [
        "getenv",
        "getvariable",
        "current_setting",
        "current_database",
        "current_schema",
        "current_schemas",
        "current_query",
        "query",
        "query_table",
        "nextval",
        "currval",
        "in_search_path",
        "txid_current",
        "version",
        "glob",
        "checkpoint",
        "force_checkpoint",
        "error",
        "error_message",
        "current_connection_id",
        "current_query_id",
        "current_transaction_id",
        "get_current_time",
        "now",
        "today",
        "current_date",
        "current_timestamp",
        "get_current_timestamp",
        "transaction_timestamp",
        "format_pg_type",
        "json_serialize_sql",
        "json_deserialize_sql",
        "json_serialize_plan",
        "enum_first",
        "enum_last",
        "enum_code",
        "enum_range",
        "user",
        "current_user",
        "session_user",
        "current_role",
        "current_catalog",
        "alias",
        "stats",
        "sleep_ms",
        "which_secret",
        "write_log",
        "parse_duckdb_log_message",
        "getfunction",
        "col_description",
        "obj_description",
    ]
)


@cache
def _scratch() -> Any:
    import duckdb

    from streamsql.functions.duckdb_sql import configure

    con = duckdb.connect(":memory:")
    configure(con)
    return con


@cache
def _catalog() -> dict[str, tuple[str, str]]:
    """name -> (kind, stability) of every function that may be offered."""
    with _LOCK:
        rows = (
            _scratch()
            .execute(
                "SELECT lower(function_name), function_type, max(coalesce(stability, '')) "
                "FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate') "
                "GROUP BY ALL"
            )
            .fetchall()
        )
    return {
        name: (kind, stability)
        for name, kind, stability in sorted(rows)
        if name not in _REFUSED and not name.startswith(_REFUSED_PREFIXES) and name.isidentifier()
    }


def kind(name: str) -> str | None:
    """ "scalar" or "aggregate" if DuckDB has it and it may be used, else None."""
    found = _catalog().get(name)
    return None if found is None else found[0]


@lru_cache(maxsize=4096)
def result_type(name: str, types: tuple[SqlType, ...]) -> SqlType | None:
    """The type DuckDB gives the call, or None if it refuses the arguments."""
    import duckdb

    args = ", ".join(f"CAST(NULL AS {t.duckdb})" for t in types)
    with _LOCK:
        try:
            schema = _scratch().sql(f'SELECT "{name}"({args}) AS x').to_arrow_table().schema
        except duckdb.Error:
            return None
    try:
        return from_arrow(schema.field(0).type)
    except TypeError:
        return None


def volatility(name: str) -> Volatility:
    """As DuckDB declares it."""
    found = _catalog().get(name, ("", "VOLATILE"))[1]
    if found == "CONSISTENT":
        return Volatility.IMMUTABLE
    if found == "CONSISTENT_WITHIN_QUERY":
        return Volatility.STABLE
    return Volatility.VOLATILE
