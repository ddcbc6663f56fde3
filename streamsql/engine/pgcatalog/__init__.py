"""`pg_catalog` and `information_schema`: what psql, drivers and BI tools ask about the database.

A catalog query is compiled (`queries`, `expressions`) to DuckDB text over tables of our own with
PostgreSQL 15's columns (`store`): static rows from `pg15.parquet`, and rows made from the engine's
catalog (`dynamic`, `views`). The compiler knows PostgreSQL's types, so results carry its OIDs.
"""

from streamsql.engine.pgcatalog.facade import PgCatalog

__all__ = ["PgCatalog"]
