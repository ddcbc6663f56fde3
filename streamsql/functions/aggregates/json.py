"""json[b]_agg and json[b]_object_agg."""

from __future__ import annotations

from collections.abc import Callable

from streamsql.core.types import JSON, JSONB, TEXT, SqlType
from streamsql.functions.definitions import AggregateDef, AggregateSql, Poly
from streamsql.functions.duckdb_udfs import cast_udf_sql, kernel_sql
from streamsql.functions.scalar.lazy import lazy

_to_jsonb, _to_json = lazy("json_building", "to_jsonb"), lazy("json_building", "to_json")


def _json(sql: str, source: SqlType, target: SqlType) -> str:
    """JSON text of a value; NULL is null."""
    if source.kind is target.kind:
        return f"coalesce({sql}, 'null')"
    kernel = _to_jsonb if target is JSONB else _to_json
    made = kernel_sql(f"to_{target.kind.value}", kernel, [sql], (source,), target)
    return f"coalesce({made}, 'null')"


def _list(target: SqlType) -> Callable[[AggregateSql], str]:
    def write(a: AggregateSql) -> str:
        x, text = a.args[0], _json(a.args[0], a.types[0], target)
        order = f" {a.order}" if a.order else ""
        items = f"list({text}{order}){a.tail}"
        if a.distinct:  # sorted, as PostgreSQL does to find equals
            way = "'DESC', 'NULLS FIRST'" if a.descending else "'ASC', 'NULLS LAST'"
            pairs = f"list(DISTINCT {{'x': {x}, 'j': {text}}}){a.tail}"
            items = f"list_transform(list_sort({pairs}, {way}), lambda p: p.j)"
        return f"('[' || array_to_string({items}, ', ') || ']')"

    return write


def _key(sql: str, source: SqlType) -> str:
    """The key as a JSON string."""
    if not source.is_text:
        sql = cast_udf_sql(sql, source, TEXT, "UTC")
    return kernel_sql("to_json", _to_json, [sql], (TEXT,), JSON)


def _object(target: SqlType) -> Callable[[AggregateSql], str]:
    def write(a: AggregateSql) -> str:
        order = f" {a.order}" if a.order else ""
        colon = ": " if target is JSONB else " : "
        pair = (
            f"{_key(a.args[0], a.types[0])} || '{colon}' || {_json(a.args[1], a.types[1], target)}"
        )
        joined = f"array_to_string(list({a.distinct}{pair}{order}){a.tail}, ', ')"
        if target is JSONB:  # sorted keys, the last of duplicates
            return cast_udf_sql(f"('{{' || {joined} || '}}')", JSON, JSONB, "UTC")
        return f"('{{ ' || {joined} || ' }}')"

    return write


def _pair(prefix: str, target: SqlType) -> tuple[AggregateDef, AggregateDef]:
    return (
        AggregateDef(name=f"{prefix}_agg", args=(Poly.ANYELEMENT,), result=target,
                     sql=_list(target), ignores_nulls=False, order_sensitive=True),
        AggregateDef(name=f"{prefix}_object_agg", args=(Poly.ANY, Poly.ANY), result=target,
                     sql=_object(target), ignores_nulls=False, order_sensitive=True),
    )  # fmt: skip


AGGREGATES: tuple[AggregateDef, ...] = (*_pair("jsonb", JSONB), *_pair("json", JSON))
