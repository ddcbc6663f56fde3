"""How each cast is computed: its DuckDB SQL, its Arrow kernel, and whether it can fail."""

from __future__ import annotations

from streamsql.core.types import Kind, SqlType

_WIDER: dict[Kind, frozenset[Kind]] = {
    Kind.SMALLINT: frozenset({Kind.INTEGER, Kind.BIGINT, Kind.REAL, Kind.DOUBLE}),
    Kind.INTEGER: frozenset({Kind.BIGINT, Kind.REAL, Kind.DOUBLE}),
    Kind.BIGINT: frozenset({Kind.REAL, Kind.DOUBLE}),
    Kind.REAL: frozenset({Kind.DOUBLE}),
    Kind.DATE: frozenset({Kind.TIMESTAMP}),
}


def cast_can_fail(source: SqlType, target: SqlType) -> bool:
    """Whether some value of `source` has no counterpart in `target`."""
    if source == target or target.is_text and target.length is None:
        return False
    return target.kind not in _WIDER.get(source.kind, frozenset())


def cast_sql_of(sql: str, source: SqlType, target: SqlType, timezone: str = "UTC") -> str:
    """DuckDB SQL of the cast."""
    return f"CAST({sql} AS {target.duckdb})"
