"""Make `streamsql/engine/pgcatalog/pg15.parquet`, the rows of PostgreSQL 15's own catalogs that never change.

Run against an empty PostgreSQL 15 whose superuser and only database are called `streamsql`:

    initdb -D pg -U streamsql --locale=C.UTF-8 -E UTF8
    pg_ctl -D pg -o '-p 25998' start
    psql -p 25998 -U streamsql -d template1 -c 'ALTER DATABASE postgres RENAME TO streamsql'
    python -m tests.engine.generate_pg15 'host=127.0.0.1 port=25998 user=streamsql'

The file has one row a relation: schema, name, oid, its columns as JSON [[name, type oid], …] in
PostgreSQL's order, and its rows as one Arrow IPC stream (storage types of `pgtypes.storage`).
OIDs that initdb gave out (12000 and above) are moved to 14000 and above, since our own schemas
and system relations have OIDs of that range.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from streamsql.engine.pgcatalog import pgtypes
from streamsql.engine.pgcatalog.static import FILE

OUTPUT = FILE
INITDB_OIDS = range(12_000, 14_000)
MOVED_BY = 2_000
SCHEMA_OID = {"information_schema": 13_000}

NO_ROWS = {
    # about this server, which is not ours, or about statistics
    "pg_statistic", "pg_stats", "pg_stats_ext", "pg_stats_ext_exprs", "pg_stat_activity",
    "pg_locks", "pg_shdepend", "pg_depend", "pg_init_privs", "pg_rewrite", "pg_cursors",
    "pg_prepared_statements", "pg_file_settings", "pg_hba_file_rules", "pg_ident_file_mappings",
    "pg_config", "pg_shmem_allocations", "pg_backend_memory_contexts", "pg_largeobject",
    "pg_available_extensions", "pg_available_extension_versions", "pg_extension", "pg_database",
    "pg_stat_database", "pg_stat_database_conflicts", "pg_stat_ssl", "pg_stat_gssapi",
    "pg_rules", "pg_replication_origin_status", "pg_subscription", "pg_shadow", "pg_authid",
    "pg_timezone_abbrevs", "pg_statistic_ext_data", "pg_stat_io",
}  # fmt: skip
SCHEMA_ROWS = {"sql_features", "sql_implementation_info", "sql_parts", "sql_sizing",
               "schemata", "tables", "columns", "views", "information_schema_catalog_name",
               "character_sets", "collations", "enabled_roles", "applicable_roles"}  # fmt: skip
"""Relations of information_schema that keep their rows."""


def main(dsn: str) -> None:
    """Read everything, write the file."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET extra_float_digits = 1")
        for name, oid in SCHEMA_OID.items():
            found = connection.execute("SELECT %s::regnamespace::oid::int8", (name,)).fetchone()
            assert found is not None
            _SET[found[0]] = oid
        relations = connection.execute(
            "SELECT n.nspname, c.relname, c.oid FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v')"
            " AND n.nspname IN ('pg_catalog', 'information_schema') ORDER BY 1 DESC, 2"
        ).fetchall()
        out = [_relation(connection, *row) for row in relations]
        out += [_extra(connection, name) for name in EXTRAS]
    table = pa.Table.from_pylist(
        out,
        schema=pa.schema(
            [
                ("schema", pa.string()), ("name", pa.string()), ("oid", pa.int64()),
                ("columns", pa.string()), ("rows", pa.binary()),
            ]
        ),
    )  # fmt: skip
    pq.write_table(table, OUTPUT, compression="zstd", compression_level=19)
    print(f"{OUTPUT}: {len(out)} relations, {OUTPUT.stat().st_size:,} bytes")


def _relation(connection: Any, schema: str, name: str, oid: int) -> dict[str, Any]:
    columns = connection.execute(
        "SELECT a.attname, coalesce(nullif(t.typbasetype, 0), t.oid)::int8, a.attnotnull"
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (oid,),
    ).fetchall()
    names = [(str(n), int(t)) for n, t, _ in columns]
    fields = pa.schema([pa.field(n, pgtypes.storage(t).arrow) for n, t in names])
    keep = name not in NO_ROWS if schema == "pg_catalog" else name in SCHEMA_ROWS
    rows: list[tuple[Any, ...]] = []
    if keep:
        wanted = ", ".join(_readable(n, t) for n, t in names)
        rows = connection.execute(f'SELECT {wanted} FROM {schema}."{name}"').fetchall()
    arrays = [
        pa.array([_value(row[i], name, column, type_) for row in rows], fields.field(i).type)
        for i, (column, type_) in enumerate(names)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, fields) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=fields))
    return {
        "schema": schema,
        "name": name,
        "oid": _moved(oid),
        "columns": json.dumps(names),
        "rows": sink.getvalue().to_pybytes(),
    }


EXTRAS: dict[str, tuple[tuple[tuple[str, int], ...], str]] = {
    "pg_get_keywords": (
        (("word", 25), ("catcode", 18), ("barelabel", 16), ("catdesc", 25), ("baredesc", 25)),
        "SELECT * FROM pg_get_keywords()",
    ),
    "_type_names": (
        (("oid", 26), ("formatted", 25)),
        "SELECT oid::int8, format_type(oid, NULL) FROM pg_type",
    ),
    "_function_texts": (
        (("oid", 26), ("arguments", 25), ("result", 25)),
        "SELECT oid::int8, pg_get_function_arguments(oid), pg_get_function_result(oid)"
        " FROM pg_proc",
    ),
    "_views": ((("oid", 26), ("definition", 25)), "SELECT 1, '' WHERE false"),
    "_constraints": (
        (("oid", 26), ("definition", 25)),
        "SELECT oid::int8, pg_get_constraintdef(oid) FROM pg_constraint",
    ),
    "_indexes": (
        (("oid", 26), ("definition", 25), ("columns", 1009)),
        "SELECT i.indexrelid::int8, pg_get_indexdef(i.indexrelid), ARRAY(SELECT"
        " pg_get_indexdef(i.indexrelid, n, true) FROM generate_series(1, i.indnatts) n)"
        " FROM pg_index i",
    ),
}
"""Results of functions, kept as if they were relations: name -> (columns, query)."""


def _extra(connection: Any, name: str) -> dict[str, Any]:
    columns, query = EXTRAS[name]
    fields = pa.schema([pa.field(n, pgtypes.storage(t).arrow) for n, t in columns])
    rows = connection.execute(query).fetchall()
    arrays = [
        pa.array([_value(r[i], name, n, t) for r in rows], fields.field(i).type)
        for i, (n, t) in enumerate(columns)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, fields) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=fields))
    return {
        "schema": "pg_catalog",
        "name": name,
        "oid": 0,
        "columns": json.dumps(columns),
        "rows": sink.getvalue().to_pybytes(),
    }


def _readable(name: str, type_: int) -> str:
    """The column in a form that psycopg gives as number, text, list of those or time."""
    quoted = f'"{name}"'
    if type_ in pgtypes.VECTORS:
        return f"string_to_array({quoted}::text, ' ')"
    if type_ in pgtypes.OIDS:
        return f"{quoted}::oid::int8" if type_ != pgtypes.XID else f"{quoted}::text::int8"
    if type_ in pgtypes.ARRAY_OF:
        element = pgtypes.ARRAY_OF[type_]
        return f"{quoted}::int8[]" if element in pgtypes.OIDS else f"{quoted}::text[]"
    if pgtypes.storage(type_) is pgtypes.TEXT_STORAGE:
        return f"{quoted}::text"
    return quoted


def _value(value: Any, relation: str, column: str, type_: int) -> Any:
    """A value as it is stored, with moved OIDs."""
    if value is None:
        return None
    element = pgtypes.ARRAY_OF.get(type_, 0)
    if type_ in pgtypes.VECTORS or element in (21, 23):
        value = [int(v) for v in value]
    if type_ in pgtypes.OIDS:
        return _moved(int(value))
    if type_ == pgtypes.OIDVECTOR or element in pgtypes.OIDS:
        return [_moved(int(v)) for v in value]
    if column == "ev_action":
        return ""
    return value


def _moved(oid: int) -> int:
    return _SET.get(oid, oid + MOVED_BY if oid in INITDB_OIDS else oid)


_SET: dict[int, int] = {}
"""OIDs that become a certain other one."""


if __name__ == "__main__":
    main(sys.argv[1])
