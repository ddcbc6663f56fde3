"""What `configure` does to a DuckDB connection: settings, macros, UDFs."""

from __future__ import annotations

from typing import Any

_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET arrow_large_buffer_size = false",
    "SET default_null_order = 'NULLS_LAST'",
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",  # a missing table is no Python variable
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    # DuckDB 2.0.1 loses columns of correlated filters in it ("Failed to bind column reference"),
    # and such an internal error ends the whole instance
    "SET disabled_optimizers = 'projection_pullup'",
)

_MACROS: tuple[str, ...] = (
    # now() of a statement whose plan was not frozen; the variable is set by whoever knows the time
    "CREATE OR REPLACE MACRO ssql_now() AS "
    "coalesce(CAST(getvariable('streamsql_now') AS TIMESTAMPTZ), now())",
)


def setup(con: Any, threads: int | None = None) -> None:
    """Apply settings, then macros and UDFs, then lock the configuration."""
    from streamsql.functions.duckdb_udfs import register

    for statement in _SETTINGS:
        con.execute(statement)
    if threads is not None:
        con.execute(f"SET threads = {int(threads)}")
    register(con)
    for macro in _MACROS:
        con.execute(macro)
    con.execute("SET lock_configuration = true")
