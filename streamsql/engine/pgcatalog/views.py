"""Rows of pg_catalog's views and of information_schema for our own relations."""

from __future__ import annotations

from typing import Any

from streamsql.core.interval_fields import digits_of, last_field, words
from streamsql.core.schema import Column
from streamsql.core.types import Kind, SqlType
from streamsql.engine.catalog import DATABASE, OWNER, Catalog
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.dynamic import (
    Rows,
    columns_of,
    expressions_of,
    index_definition,
    view_text,
)
from streamsql.engine.pgcatalog.names import quote_ident
from streamsql.engine.relations import OBJECTS, Relation

_UDT = {
    t.BOOL: "bool", t.INT8: "int8", t.INT2: "int2", t.INT4: "int4", t.FLOAT4: "float4",
    t.FLOAT8: "float8", t.NUMERIC_OID: "numeric", t.TEXT_OID: "text", t.VARCHAR: "varchar",
    t.BYTES: "bytea", t.DATE_OID: "date", t.TIME_OID: "time", t.TIMESTAMP_OID: "timestamp",
    t.TIMESTAMPTZ_OID: "timestamptz", t.INTERVAL_OID: "interval", t.UUID_OID: "uuid",
    t.JSON_OID: "json", t.JSONB_OID: "jsonb",
}  # fmt: skip
_PRECISION = {t.INT2: 16, t.INT4: 32, t.INT8: 64, t.FLOAT4: 24, t.FLOAT8: 53}
_OCTETS_MAX = 2**30
_PRIVILEGES = ("INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")


def view_rows(catalog: Catalog) -> Rows:
    """All rows, by `schema.name` of the relation."""
    rows: Rows = {}
    for name in catalog.schemas:
        _add(
            rows, "information_schema.schemata", catalog_name=DATABASE, schema_name=name,
            schema_owner=OWNER,
        )  # fmt: skip
    for relation in catalog.relations.values():
        if relation.kind == "index":
            _index(rows, catalog, relation)
    relations = [r for r in catalog.relations.values() if r.kind not in OBJECTS]
    for relation in relations:
        _pg_views(rows, relation)
        _tables(rows, relation)
        for key in relation.keys:
            _constraint(rows, relation, key.name, key.primary, key.columns)
        if relation.kind in ("view", "materialized_view"):
            _usage(rows, catalog, relation)
    for relation, attnum, column in columns_of(relations):
        _column(rows, relation, attnum, column)
    return rows


def _add(rows: Rows, relation: str, **values: Any) -> None:
    rows.setdefault(relation, []).append(values)


def _pg_views(rows: Rows, relation: Relation) -> None:
    schema, name, kind = relation.schema, relation.name, relation.kind
    if kind in ("table", "source", "system"):
        _add(
            rows, "pg_catalog.pg_tables", schemaname=schema, tablename=name, tableowner=OWNER,
            tablespace=None, hasindexes=bool(relation.keys),
        )  # fmt: skip
    elif kind == "materialized_view":
        _add(
            rows, "pg_catalog.pg_matviews", schemaname=schema, matviewname=name,
            matviewowner=OWNER, tablespace=None, ispopulated=True, definition=view_text(relation),
        )  # fmt: skip
    else:
        _add(
            rows, "pg_catalog.pg_views", schemaname=schema, viewname=name, viewowner=OWNER,
            definition=view_text(relation),
        )  # fmt: skip
    if kind in ("table", "source", "materialized_view"):
        for view in ("pg_stat_user_tables", "pg_stat_all_tables"):
            _add(rows, f"pg_catalog.{view}", relid=relation.oid, schemaname=schema, relname=name)
    for key in relation.keys:
        listed = ", ".join(quote_ident(relation.columns[i].name) for i in key.columns)
        table = f"{quote_ident(schema)}.{quote_ident(name)}"
        _add(
            rows, "pg_catalog.pg_indexes", schemaname=schema, tablename=name, indexname=key.name,
            tablespace=None, indexdef=f"CREATE UNIQUE INDEX {quote_ident(key.name)} ON {table}"
            f" USING btree ({listed})",
        )  # fmt: skip


def _index(rows: Rows, catalog: Catalog, relation: Relation) -> None:
    owner = catalog.relations[relation.extra["of"]]
    _add(
        rows, "pg_catalog.pg_indexes", schemaname=relation.schema, tablename=owner.name,
        indexname=relation.name, tablespace=None, indexdef=index_definition(relation, owner),
    )  # fmt: skip


def _tables(rows: Rows, relation: Relation) -> None:
    where = {
        "table_catalog": DATABASE,
        "table_schema": relation.schema,
        "table_name": relation.name,
    }
    is_view = relation.kind == "view"
    writable = "YES" if relation.kind == "table" else "NO"
    _add(
        rows, "information_schema.tables", **where,
        # PostgreSQL leaves materialized views out; tools that know no pg_matviews would miss them
        table_type="VIEW" if is_view else "LOCAL TEMPORARY" if relation.temporary else "BASE TABLE",
        is_insertable_into=writable, is_typed="NO",
    )  # fmt: skip
    if relation.kind == "view":
        _add(
            rows, "information_schema.views", **where, view_definition=view_text(relation),
            check_option="NONE", is_updatable="NO", is_insertable_into="NO",
            is_trigger_updatable="NO", is_trigger_deletable="NO",
            is_trigger_insertable_into="NO",
        )  # fmt: skip
    for privilege in _PRIVILEGES:
        for name in ("table_privileges", "role_table_grants"):
            _add(
                rows, f"information_schema.{name}", grantor=OWNER, grantee=OWNER, **where,
                privilege_type=privilege, is_grantable="YES",
                with_hierarchy="YES" if privilege == "SELECT" else "NO",
            )  # fmt: skip


def _constraint(
    rows: Rows, relation: Relation, name: str, primary: bool, columns: tuple[int, ...]
) -> None:
    constraint = {
        "constraint_catalog": DATABASE,
        "constraint_schema": relation.schema,
        "constraint_name": name,
    }
    table = {
        "table_catalog": DATABASE,
        "table_schema": relation.schema,
        "table_name": relation.name,
    }
    _add(
        rows, "information_schema.table_constraints", **constraint, **table,
        constraint_type="PRIMARY KEY" if primary else "UNIQUE", is_deferrable="NO",
        initially_deferred="NO", enforced="YES",
    )  # fmt: skip
    for place, index in enumerate(columns, 1):
        column = relation.columns[index].name
        _add(
            rows, "information_schema.key_column_usage", **constraint, **table,
            column_name=column, ordinal_position=place,
        )  # fmt: skip
        _add(
            rows, "information_schema.constraint_column_usage", **constraint, **table,
            column_name=column,
        )  # fmt: skip


def _usage(rows: Rows, catalog: Catalog, relation: Relation) -> None:
    for oid in sorted(relation.depends_on):
        base = catalog.relations.get(oid)
        if base is not None:
            _add(
                rows, "information_schema.view_table_usage", view_catalog=DATABASE,
                view_schema=relation.schema, view_name=relation.name, table_catalog=DATABASE,
                table_schema=base.schema, table_name=base.name,
            )  # fmt: skip


def _column(rows: Rows, relation: Relation, attnum: int, column: Column) -> None:
    type_ = column.type
    given = expressions_of(relation).get(column.name)
    is_array = type_.kind is Kind.ARRAY
    length = type_.length if type_.kind is Kind.VARCHAR else None
    _add(
        rows, "information_schema.columns", table_catalog=DATABASE, table_schema=relation.schema,
        table_name=relation.name, column_name=column.name, ordinal_position=attnum,
        column_default=given[1] if given and not given[0] else None,
        is_nullable="YES" if column.nullable else "NO", data_type=_data_type(type_),
        character_maximum_length=length,
        character_octet_length=(
            (length * 4 if length else _OCTETS_MAX) if type_.is_text else None
        ),
        **_numeric(type_), datetime_precision=_datetime_precision(type_),
        interval_type=_interval_type(type_),
        udt_catalog=DATABASE, udt_schema="pg_catalog",
        udt_name=f"_{_UDT[t.element_of(type_.oid)]}" if is_array else _UDT[type_.oid],
        dtd_identifier=str(attnum), is_self_referencing="NO", is_identity="NO",
        identity_cycle="NO", is_generated="ALWAYS" if given and given[0] else "NEVER",
        generation_expression=given[1] if given and given[0] else None,
        is_updatable="YES" if relation.kind == "table" else "NO",
    )  # fmt: skip


def _data_type(type_: SqlType) -> str:
    if type_.kind is Kind.ARRAY:
        return "ARRAY"
    if type_.kind in (Kind.STRUCT, Kind.MAP):
        return "jsonb"
    return type_.kind.value


def _numeric(type_: SqlType) -> dict[str, Any]:
    if type_.kind is Kind.NUMERIC:
        known = type_.precision is not None and type_.constrained
        return {
            "numeric_precision": type_.precision if known else None,
            "numeric_precision_radix": 10,
            "numeric_scale": (type_.scale or 0) if known else None,
        }
    precision = _PRECISION.get(type_.oid)
    if precision is None:
        return {}
    scale = 0 if type_.is_integer else None
    return {
        "numeric_precision": precision,
        "numeric_precision_radix": 2,
        "numeric_scale": scale,
    }


def _interval_type(type_: SqlType) -> str | None:
    if type_.kind is not Kind.INTERVAL or type_.digits is None or not last_field(type_.digits):
        return None
    return words(type_.digits).strip().upper()


def _datetime_precision(type_: SqlType) -> int | None:
    if type_.kind is Kind.DATE:
        return 0
    if type_.kind in (Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL):
        kept = None if type_.digits is None else digits_of(type_.digits)
        return 6 if kept is None else kept
    return None
