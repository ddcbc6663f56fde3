"""Plan → DuckDB SQL: one SELECT with columns c0, c1, … of exact types.

It answers ad-hoc reads, runs the recompute operators, and is the oracle of all operator tests.
"""

from streamsql.plan.sql.lowering import to_duckdb_sql

__all__ = ["to_duckdb_sql"]
