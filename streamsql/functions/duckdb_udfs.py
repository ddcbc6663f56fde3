"""Arrow UDFs that DuckDB gets from us, for what it lacks or does otherwise than PostgreSQL."""

from __future__ import annotations

from typing import Any


class UdfError(Exception):
    """Carries "streamsql:<sqlstate>:<message>" through DuckDB."""


def _raise(messages: Any) -> Any:
    for chunk in messages.chunks:
        for message in chunk:
            if message.is_valid:
                raise UdfError(message.as_py())
    return messages


def register(con: Any) -> None:
    """Register every UDF on the connection's database."""
    con.create_function(
        "ssql_raise", _raise, ["VARCHAR"], "VARCHAR", type="arrow", null_handling="special"
    )
