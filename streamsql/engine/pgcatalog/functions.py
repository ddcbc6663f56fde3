"""The functions of catalog queries: DuckDB text for each, its type, the types of its arguments.

In a template `{0}`, `{1}`… are the arguments, which name columns with unique aliases only, so a
subquery in a template can not capture them. Catalog lookups read the tables of `store.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streamsql.core.interval_fields import RANGES
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.scope import Context, Typed

Result = int | Callable[[Sequence[Typed]], int]
Sql = str | Callable[[Context, Sequence[str]], str]


@dataclass(frozen=True)
class Function:
    """One function, any number of overloads by count of arguments.

    sql: a template, or (context, arguments) -> DuckDB text. arguments: types they are brought to,
    0 = as they are (the last one repeats). session: knows the catalog or the session, so that a
    query of nothing else belongs here. counts: allowed numbers of arguments, () = any.
    """

    result: Result
    sql: Sql
    arguments: tuple[int, ...] = (0,)
    session: bool = True
    counts: tuple[int, ...] = ()

    def result_type(self, arguments: Sequence[Typed]) -> int:
        """OID of the result."""
        return self.result if isinstance(self.result, int) else self.result(arguments)

    def text(self, context: Context, arguments: Sequence[str]) -> str:
        """The call as DuckDB text."""
        if isinstance(self.sql, str):
            return self.sql.format(*arguments)  # IndexError: too few arguments
        return self.sql(context, arguments)


# --- helpers of the table -----------------------------------------------------------------------
def _first(arguments: Sequence[Typed]) -> int:
    type_ = arguments[0].type
    return t.TEXT_OID if type_ == t.UNKNOWN else type_


def _array_of_first(arguments: Sequence[Typed]) -> int:
    return t.ARRAY_TYPE.get(_first(arguments), 1009)


def _element(arguments: Sequence[Typed]) -> int:
    return t.element_of(arguments[0].type)


def _sum(arguments: Sequence[Typed]) -> int:
    type_ = arguments[0].type
    return t.INT8 if type_ in (t.INT2, t.INT4) else t.NUMERIC_OID if type_ == t.INT8 else type_


def _ask(value: Callable[[Any], Any], cast: str) -> Callable[[Context, Sequence[str]], str]:
    """Something that only the session knows."""
    return lambda context, arguments: f"CAST({context.session_value(value)} AS {cast})"


def _lookup(column: str, relation: str, key: str = "oid") -> str:
    return f"(SELECT l.{column} FROM {relation} l WHERE l.{key} = {{0}})"


def _visible(relation: str, namespace: str) -> str:
    return (
        f"((SELECT l.{namespace} FROM pgc.{relation} l WHERE l.oid = {{0}})"
        " IN (SELECT p.oid FROM pgc._path p))"
    )


def _allowed(*counts: int) -> Function:
    """has_…_privilege: everything is allowed to everybody who was let in."""
    return Function(t.BOOL, "true", (0,), counts=counts)


def _constant(type_: int, sql: str, *counts: int) -> Function:
    return Function(type_, sql, (0,), counts=counts)


def _plain(result: Result, sql: Sql, arguments: tuple[int, ...] = (0,), *counts: int) -> Function:
    """A function that knows nothing of catalogs."""
    return Function(result, sql, arguments, session=False, counts=counts)


def _size_pretty(context: Context, arguments: Sequence[str]) -> str:
    value = arguments[0]
    steps = [(10 * 1024, "bytes", 1)]
    steps += [(10 * 1024 * 1024**i, unit, 1024**i) for i, unit in enumerate(("kB", "MB", "GB"), 1)]
    cases = " ".join(
        f"WHEN abs({value}) < {limit} THEN CAST(CAST(round({value} / {size}) AS BIGINT) AS VARCHAR)"
        f" || ' {unit}'"
        for limit, unit, size in steps
    )
    big = f"CAST(CAST(round({value} / {1024**4}) AS BIGINT) AS VARCHAR) || ' TB'"
    return f"CASE {cases} ELSE {big} END"


IDENTIFIER = r"[a-z_][a-z0-9_$]*"
QUOTE_IDENT = (
    "CASE WHEN regexp_full_match({0}, '" + IDENTIFIER.replace("{", "{{").replace("}", "}}") + "')"
    " AND {0} NOT IN (SELECT k.word FROM pgc.pg_get_keywords k WHERE k.catcode <> 'U')"
    " THEN {0} ELSE '\"' || replace({0}, '\"', '\"\"') || '\"' END"
)
QUOTE_LITERAL = (
    "CASE WHEN contains({0}, '\\') THEN 'E' ELSE '' END || ''''"
    " || replace(replace({0}, '''', ''''''), '\\', '\\\\') || ''''"
)
_DESCRIPTION = (
    "(SELECT l.description FROM pgc.pg_description l WHERE l.objoid = {0} AND l.objsubid = 0"
    " AND l.classoid = (SELECT c.oid FROM pgc.pg_class c WHERE c.relname = {1}"
    " AND c.relnamespace = 11))"
)
_INTERVAL_FIELDS = (
    "CASE ({1} >> 16) & 32767 "
    + " ".join(
        f"WHEN {mask} THEN ' {first}{'' if first == last else ' to ' + last}'"
        for mask, (first, last) in RANGES.items()
    )
    + " ELSE '' END"
)
_FORMAT_TYPE = (
    "(SELECT CASE WHEN l.typlen = -2 OR {1} IS NULL OR {1} < 0 THEN l._formatted"
    # times: the digits stand behind the first word, an interval's fields before them
    " WHEN l.oid IN (1186, 1187)"
    f" THEN regexp_replace(l._formatted, '^interval', 'interval' || {_INTERVAL_FIELDS}"
    " || CASE WHEN ({1} & 65535) = 65535 THEN '' ELSE '(' || ({1} & 65535) || ')' END)"
    " WHEN l.oid IN (1083, 1114, 1115, 1183, 1184, 1185)"
    " THEN regexp_replace(l._formatted, '^(\\w+)', '\\1(' || ({1} & 65535) || ')')"
    " WHEN {1} < 4 THEN l._formatted"
    " WHEN l.oid IN (1042, 1043) THEN l._formatted || '(' || ({1} - 4) || ')'"
    " WHEN l.oid = 1700 THEN l._formatted || '(' || (({1} - 4) >> 16) || ','"
    " || (({1} - 4) & 65535) || ')' ELSE l._formatted END"
    " FROM pgc.pg_type l WHERE l.oid = {0})"
)


def _age_type(arguments: Sequence[Typed]) -> int:
    return t.INT4 if len(arguments) == 1 else t.INTERVAL_OID


def _age(context: Context, arguments: Sequence[str]) -> str:
    """age(xid), and age(timestamp, timestamp) as in `age(now(), query_start)`."""
    if len(arguments) == 1:
        return "0"
    return f"age({', '.join(f'CAST({a} AS TIMESTAMP)' for a in arguments)})"


CATALOG_FUNCTIONS: dict[str, Function] = {
    # names and definitions
    "format_type": Function(t.TEXT_OID, _FORMAT_TYPE, (t.OID, t.INT4), counts=(2,)),
    "pg_get_userbyid": Function(t.NAME, _lookup("rolname", "pgc.pg_roles"), (t.OID,)),
    "pg_get_expr": Function(t.TEXT_OID, "{0}", (0, 0), counts=(2, 3)),
    "pg_get_viewdef": Function(t.TEXT_OID, _lookup("definition", "pgc._views"), (t.REGCLASS, 0)),
    "pg_get_indexdef": Function(
        t.TEXT_OID,
        lambda c, a: (
            f"(SELECT CASE WHEN {a[1] if len(a) > 1 else 0} = 0 THEN l.definition"
            f" ELSE l.columns[{a[1] if len(a) > 1 else 0}] END"
            f" FROM pgc._indexes l WHERE l.oid = {a[0]})"
        ),
        (t.REGCLASS, t.INT4, 0),
    ),
    "pg_get_constraintdef": Function(
        t.TEXT_OID, _lookup("definition", "pgc._constraints"), (t.OID, 0)
    ),
    "pg_get_functiondef": Function(t.TEXT_OID, _lookup("prosrc", "pgc.pg_proc"), (t.OID,)),
    "pg_get_function_arguments": Function(
        t.TEXT_OID, _lookup("_arguments", "pgc.pg_proc"), (t.OID,)
    ),
    "pg_get_function_identity_arguments": Function(
        t.TEXT_OID, _lookup("_arguments", "pgc.pg_proc"), (t.OID,)
    ),
    "pg_get_function_result": Function(t.TEXT_OID, _lookup("_result", "pgc.pg_proc"), (t.OID,)),
    "pg_get_function_sqlbody": _constant(t.TEXT_OID, "CAST(NULL AS VARCHAR)"),
    "pg_get_function_arg_default": _constant(t.TEXT_OID, "CAST(NULL AS VARCHAR)"),
    "pg_get_triggerdef": _constant(t.TEXT_OID, "CAST(NULL AS VARCHAR)"),
    "pg_get_ruledef": Function(
        t.TEXT_OID,
        lambda c, a: (
            f"(SELECT nullif(l.ev_action, '<>') FROM pgc.pg_rewrite l WHERE l.oid = {a[0]})"
        ),
        (t.OID, 0),
    ),
    "pg_get_partkeydef": _constant(t.TEXT_OID, "CAST(NULL AS VARCHAR)"),
    "pg_get_partition_constraintdef": _constant(t.TEXT_OID, "CAST(NULL AS VARCHAR)"),
    "pg_get_statisticsobjdef": _constant(t.TEXT_OID, "CAST(NULL AS VARCHAR)"),
    "pg_get_statisticsobjdef_columns": _constant(t.TEXT_OID, "CAST(NULL AS VARCHAR)"),
    "pg_get_statisticsobjdef_expressions": _constant(1009, "CAST(NULL AS VARCHAR[])"),
    "pg_get_serial_sequence": _constant(t.TEXT_OID, "CAST(NULL AS VARCHAR)"),
    "pg_describe_object": Function(
        t.TEXT_OID,
        "(SELECT 'table ' || l.relname FROM pgc.pg_class l WHERE l.oid = {1} AND {0} = 1259)",
        (t.OID, t.OID, t.INT4),
    ),
    "obj_description": Function(
        t.TEXT_OID,
        lambda c, a: (
            _DESCRIPTION.format(*a)
            if len(a) > 1
            else "(SELECT min(l.description) FROM pgc.pg_description l"
            f" WHERE l.objoid = {a[0]} AND l.objsubid = 0)"
        ),
        (t.OID, t.TEXT_OID),
    ),
    "col_description": Function(
        t.TEXT_OID,
        "(SELECT l.description FROM pgc.pg_description l WHERE l.objoid = {0}"
        " AND l.objsubid = {1} AND l.classoid = 1259)",
        (t.OID, t.INT4),
    ),
    "shobj_description": Function(
        t.TEXT_OID,
        "(SELECT min(l.description) FROM pgc.pg_shdescription l WHERE l.objoid = {0})",
        (t.OID, 0),
    ),
    "quote_ident": Function(t.TEXT_OID, QUOTE_IDENT, (t.TEXT_OID,), session=False),
    "quote_literal": _plain(t.TEXT_OID, QUOTE_LITERAL, (t.TEXT_OID,)),
    "quote_nullable": _plain(
        t.TEXT_OID, "CASE WHEN {0} IS NULL THEN 'NULL' ELSE " + QUOTE_LITERAL + " END",
        (t.TEXT_OID,),
    ),
    "pg_get_keywords": Function(t.RECORD, "NULL", counts=(0,)),
    "to_regclass": Function(t.REGCLASS, "pgc.to_regclass({0})", (t.TEXT_OID,), counts=(1,)),
    "to_regtype": Function(t.REGTYPE, "pgc.to_regtype({0})", (t.TEXT_OID,), counts=(1,)),
    "to_regproc": Function(t.REGPROC, "pgc.to_regproc({0})", (t.TEXT_OID,), counts=(1,)),
    "to_regnamespace": Function(
        t.REGNAMESPACE, "pgc.to_regnamespace({0})", (t.TEXT_OID,), counts=(1,)
    ),
    "to_regrole": Function(t.REGROLE, "pgc.to_regrole({0})", (t.TEXT_OID,), counts=(1,)),
    # what is visible
    "pg_table_is_visible": Function(
        t.BOOL, "({0} IN (SELECT v.oid FROM pgc._visible v))", (t.OID,)
    ),
    "pg_type_is_visible": Function(t.BOOL, _visible("pg_type", "typnamespace"), (t.OID,)),
    "pg_function_is_visible": Function(t.BOOL, _visible("pg_proc", "pronamespace"), (t.OID,)),
    "pg_operator_is_visible": Function(t.BOOL, _visible("pg_operator", "oprnamespace"), (t.OID,)),
    "pg_opclass_is_visible": Function(t.BOOL, _visible("pg_opclass", "opcnamespace"), (t.OID,)),
    "pg_opfamily_is_visible": Function(t.BOOL, _visible("pg_opfamily", "opfnamespace"), (t.OID,)),
    "pg_collation_is_visible": Function(
        t.BOOL, _visible("pg_collation", "collnamespace"), (t.OID,)
    ),
    "pg_conversion_is_visible": Function(
        t.BOOL, _visible("pg_conversion", "connamespace"), (t.OID,)
    ),
    "pg_statistics_obj_is_visible": _constant(t.BOOL, "true"),
    "pg_ts_config_is_visible": Function(t.BOOL, _visible("pg_ts_config", "cfgnamespace"), (t.OID,)),
    "pg_ts_dict_is_visible": Function(t.BOOL, _visible("pg_ts_dict", "dictnamespace"), (t.OID,)),
    "pg_ts_parser_is_visible": Function(t.BOOL, _visible("pg_ts_parser", "prsnamespace"), (t.OID,)),
    "pg_ts_template_is_visible": _constant(t.BOOL, "true"),
    "pg_relation_is_publishable": _constant(t.BOOL, "false"),
    "pg_is_other_temp_schema": _constant(t.BOOL, "false"),
    "pg_my_temp_schema": _constant(t.OID, "CAST(0 AS BIGINT)"),
    # privileges
    **{
        f"has_{what}_privilege": _allowed(2, 3, 4)
        for what in (
            "table", "any_column", "column", "schema", "database", "function", "sequence", "type",
            "language", "tablespace", "server", "foreign_data_wrapper", "parameter",
        )
    },
    "pg_has_role": _allowed(2, 3),
    "row_security_active": _constant(t.BOOL, "false"),
    # sizes and statistics: not kept by relation
    "pg_relation_size": _constant(t.INT8, "CAST(0 AS BIGINT)"),
    "pg_total_relation_size": _constant(t.INT8, "CAST(0 AS BIGINT)"),
    "pg_table_size": _constant(t.INT8, "CAST(0 AS BIGINT)"),
    "pg_indexes_size": _constant(t.INT8, "CAST(0 AS BIGINT)"),
    "pg_database_size": _constant(t.INT8, "CAST(0 AS BIGINT)"),
    "pg_tablespace_size": _constant(t.INT8, "CAST(0 AS BIGINT)"),
    "pg_relation_filenode": _constant(t.OID, "CAST(NULL AS BIGINT)"),
    "pg_size_pretty": Function(t.TEXT_OID, _size_pretty, (0,)),
    "pg_tablespace_location": _constant(t.TEXT_OID, "''"),
    "pg_stat_get_numscans": _constant(t.INT8, "CAST(0 AS BIGINT)"),
    "pg_stat_get_live_tuples": _constant(t.INT8, "CAST(0 AS BIGINT)"),
    "pg_indexam_has_property": _constant(t.BOOL, "true"),
    "pg_index_column_has_property": _constant(t.BOOL, "true"),
    "pg_index_has_property": _constant(t.BOOL, "true"),
    "pg_column_size": _constant(t.INT4, "4"),
    # encodings
    "pg_encoding_to_char": Function(
        t.NAME, "CASE {0} WHEN 6 THEN 'UTF8' WHEN 0 THEN 'SQL_ASCII' ELSE '' END", (t.INT4,)
    ),
    "pg_char_to_encoding": Function(
        t.INT4, "CASE upper(replace({0}, '-', '')) WHEN 'UTF8' THEN 6 WHEN 'SQL_ASCII' THEN 0"
        " ELSE -1 END", (t.TEXT_OID,),
    ),
    "getdatabaseencoding": _constant(t.NAME, "'UTF8'", 0),
    "pg_client_encoding": _constant(t.NAME, "'UTF8'", 0),
    # the session and the server
    "version": Function(t.TEXT_OID, _ask(lambda s: s.version_text(), "VARCHAR"), counts=(0,)),
    "current_database": Function(t.NAME, _ask(lambda s: s.database_name, "VARCHAR"), counts=(0,)),
    "current_catalog": Function(t.NAME, _ask(lambda s: s.database_name, "VARCHAR"), counts=(0,)),
    "current_schema": Function(t.NAME, _ask(lambda s: s.current_schema(), "VARCHAR"), counts=(0,)),
    "current_schemas": Function(
        1003,
        lambda c, a: (
            f"CAST(CASE WHEN {a[0]} THEN {c.session_value(lambda s: s.schemas(True))}"
            f" ELSE {c.session_value(lambda s: s.schemas(False))} END AS VARCHAR[])"
        ),
        (t.BOOL,), counts=(1,),
    ),
    "current_user": Function(t.NAME, _ask(lambda s: s.user, "VARCHAR"), counts=(0,)),
    "session_user": Function(t.NAME, _ask(lambda s: s.user, "VARCHAR"), counts=(0,)),
    "current_setting": Function(
        t.TEXT_OID,
        "(SELECT l.setting FROM pgc._settings l WHERE l.lowered = lower({0}))",
        (t.TEXT_OID, 0), counts=(1, 2),
    ),
    "pg_backend_pid": Function(t.INT4, _ask(lambda s: s.backend_pid, "INTEGER"), counts=(0,)),
    "pg_is_in_recovery": _constant(t.BOOL, "false", 0),
    "pg_is_wal_replay_paused": _constant(t.BOOL, "false", 0),
    "pg_postmaster_start_time": Function(
        t.TIMESTAMPTZ_OID, _ask(lambda s: s.started, "TIMESTAMPTZ"), counts=(0,)
    ),
    "pg_conf_load_time": Function(
        t.TIMESTAMPTZ_OID, _ask(lambda s: s.started, "TIMESTAMPTZ"), counts=(0,)
    ),
    "txid_current": Function(t.INT8, _ask(lambda s: s.version, "BIGINT"), counts=(0,)),
    "pg_current_xact_id": Function(t.INT8, _ask(lambda s: s.version, "BIGINT"), counts=(0,)),
    "txid_current_if_assigned": _constant(t.INT8, "CAST(NULL AS BIGINT)", 0),
    "pg_export_snapshot": _constant(t.TEXT_OID, "'00000003-00000001-1'", 0),
    "inet_server_addr": _constant(t.INET, "CAST(NULL AS VARCHAR)", 0),
    "inet_client_addr": _constant(t.INET, "CAST(NULL AS VARCHAR)", 0),
    "inet_server_port": _constant(t.INT4, "CAST(NULL AS INTEGER)", 0),
    "inet_client_port": _constant(t.INT4, "CAST(NULL AS INTEGER)", 0),
    "pg_jit_available": _constant(t.BOOL, "false", 0),
    "pg_cancel_backend": _constant(t.BOOL, "false", 1),
    "pg_terminate_backend": _constant(t.BOOL, "false", 1, 2),
    "pg_notify": _constant(t.VOID, "''", 2),
    "pg_advisory_lock": _constant(t.VOID, "''"),
    "pg_advisory_unlock": _constant(t.BOOL, "true"),
    "pg_advisory_unlock_all": _constant(t.VOID, "''", 0),
    "pg_try_advisory_lock": _constant(t.BOOL, "true"),
    "pg_advisory_xact_lock": _constant(t.VOID, "''"),
    "pg_try_advisory_xact_lock": _constant(t.BOOL, "true"),
    "pg_blocking_pids": _constant(1007, "CAST([] AS INTEGER[])", 1),
    "age": Function(_age_type, _age, (0,), counts=(1, 2)),
    "mxid_age": Function(t.INT4, "0", (0,), counts=(1,)),
    "set_config": Function(t.TEXT_OID, "{1}", (t.TEXT_OID, t.TEXT_OID, t.BOOL), counts=(3,)),
    "has_search_path": _constant(t.BOOL, "true"),
}  # fmt: skip

_TEXT2 = (t.TEXT_OID, t.TEXT_OID)
PLAIN_FUNCTIONS: dict[str, Function] = {
    # text
    "lower": _plain(t.TEXT_OID, "lower({0})", (t.TEXT_OID,)),
    "upper": _plain(t.TEXT_OID, "upper({0})", (t.TEXT_OID,)),
    "length": _plain(t.INT4, "CAST(length({0}) AS INTEGER)", (t.TEXT_OID,)),
    "char_length": _plain(t.INT4, "CAST(length({0}) AS INTEGER)", (t.TEXT_OID,)),
    "octet_length": _plain(t.INT4, "CAST(strlen({0}) AS INTEGER)", (t.TEXT_OID,)),
    "btrim": _plain(t.TEXT_OID, lambda c, a: f"trim({', '.join(a)})", (t.TEXT_OID,)),
    "ltrim": _plain(t.TEXT_OID, lambda c, a: f"ltrim({', '.join(a)})", (t.TEXT_OID,)),
    "rtrim": _plain(t.TEXT_OID, lambda c, a: f"rtrim({', '.join(a)})", (t.TEXT_OID,)),
    "replace": _plain(t.TEXT_OID, "replace({0}, {1}, {2})", (t.TEXT_OID,), 3),
    "left": _plain(t.TEXT_OID, "left({0}, {1})", (t.TEXT_OID, t.INT8), 2),
    "right": _plain(t.TEXT_OID, "right({0}, {1})", (t.TEXT_OID, t.INT8), 2),
    "repeat": _plain(t.TEXT_OID, "repeat({0}, {1})", (t.TEXT_OID, t.INT8), 2),
    "strpos": _plain(t.INT4, "CAST(strpos({0}, {1}) AS INTEGER)", _TEXT2, 2),
    "position": _plain(t.INT4, "CAST(strpos({0}, {1}) AS INTEGER)", _TEXT2, 2),
    "split_part": _plain(t.TEXT_OID, "split_part({0}, {1}, {2})", (*_TEXT2, t.INT8), 3),
    "starts_with": _plain(t.BOOL, "starts_with({0}, {1})", _TEXT2, 2),
    "ascii": _plain(t.INT4, "ascii({0})", (t.TEXT_OID,), 1),
    "chr": _plain(t.TEXT_OID, "chr({0})", (t.INT4,), 1),
    "md5": _plain(t.TEXT_OID, "md5({0})", (t.TEXT_OID,), 1),
    "hashtext": _plain(t.INT4, "CAST(hash({0}) % 2147483647 AS INTEGER)", (t.TEXT_OID,), 1),
    "string_to_array": _plain(1009, "string_split({0}, {1})", _TEXT2, 2),
    "parse_ident": _plain(1009, "string_split({0}, '.')", (t.TEXT_OID,), 1),
    # numbers
    "abs": _plain(_first, "abs({0})", (0,), 1),
    "mod": _plain(_first, "({0} % {1})", (0,), 2),
    "floor": _plain(t.FLOAT8, "floor({0})", (t.FLOAT8,), 1),
    "ceil": _plain(t.FLOAT8, "ceil({0})", (t.FLOAT8,), 1),
    "random": _plain(t.FLOAT8, "random()", (0,), 0),
    # arrays
    "array_length": _plain(t.INT4, "CAST(nullif(len({0}), 0) AS INTEGER)", (0, t.INT4), 2),
    "cardinality": _plain(t.INT4, "CAST(len({0}) AS INTEGER)", (0,), 1),
    "array_ndims": _plain(t.INT4, "CASE WHEN len({0}) > 0 THEN 1 END", (0,), 1),
    "array_remove": _plain(_first, "list_filter({0}, lambda e: e IS DISTINCT FROM {1})", (0,), 2),
    "array_append": _plain(_first, "list_append({0}, {1})", (0,), 2),
    "array_prepend": _plain(lambda a: a[1].type, "list_prepend({0}, {1})", (0,), 2),
    "array_cat": _plain(_first, "list_concat({0}, {1})", (0,), 2),
    "array_position": _plain(t.INT4, "CAST(list_position({0}, {1}) AS INTEGER)", (0,), 2),
    # time
    "now": _plain(t.TIMESTAMPTZ_OID, "now()", (0,), 0),
    "current_timestamp": _plain(t.TIMESTAMPTZ_OID, "now()", (0,), 0, 1),
    "transaction_timestamp": _plain(t.TIMESTAMPTZ_OID, "now()", (0,), 0),
    "statement_timestamp": _plain(t.TIMESTAMPTZ_OID, "now()", (0,), 0),
    "clock_timestamp": _plain(t.TIMESTAMPTZ_OID, "now()", (0,), 0),
    "current_date": _plain(t.DATE_OID, "CAST(now() AS DATE)", (0,), 0),
    "extract": _plain(t.FLOAT8, "CAST(date_part({0}, {1}) AS DOUBLE)", (t.TEXT_OID, 0), 2),
    "date_part": _plain(t.FLOAT8, "CAST(date_part({0}, {1}) AS DOUBLE)", (t.TEXT_OID, 0), 2),
    # JSON
    "to_json": _plain(t.JSON_OID, "CAST(to_json({0}) AS VARCHAR)", (0,), 1),
    "to_jsonb": _plain(t.JSONB_OID, "CAST(to_json({0}) AS VARCHAR)", (0,), 1),
    # rows
    "row_number": _plain(t.INT8, "row_number()", (0,), 0),
    "rank": _plain(t.INT8, "rank()", (0,), 0),
    "dense_rank": _plain(t.INT8, "dense_rank()", (0,), 0),
}

AGGREGATES: dict[str, tuple[str, Result]] = {
    "count": ("count", t.INT8),
    "min": ("min", _first),
    "max": ("max", _first),
    "sum": ("sum", _sum),
    "avg": ("avg", t.NUMERIC_OID),
    "bool_and": ("bool_and", t.BOOL),
    "bool_or": ("bool_or", t.BOOL),
    "every": ("bool_and", t.BOOL),
    "array_agg": ("list", _array_of_first),
    "string_agg": ("string_agg", t.TEXT_OID),
    "json_agg": ("json_group_array", t.JSON_OID),
    "jsonb_agg": ("json_group_array", t.JSONB_OID),
}
"""PostgreSQL's name -> (DuckDB's, type)."""


def find_function(name: str) -> Function | None:
    """The function of that name, or None."""
    return CATALOG_FUNCTIONS.get(name) or PLAIN_FUNCTIONS.get(name)


def is_known(name: str) -> bool:
    """Whether it is in one of these tables."""
    return name in CATALOG_FUNCTIONS or name in PLAIN_FUNCTIONS or name in AGGREGATES
