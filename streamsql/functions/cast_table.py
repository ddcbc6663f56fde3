"""How each cast is computed: its Arrow kernel, its DuckDB SQL, and whether it can fail.

DuckDB casts by itself only where it does exactly what PostgreSQL does; everything else calls the
kernel as a UDF (`udf_sql`), so both evaluators give one answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from streamsql.core.types import FLOAT_KINDS, INTEGER_KINDS, Kind, SqlType
from streamsql.functions.definitions import Kernel
from streamsql.functions.numeric_types import digits

_WIDTH = {Kind.SMALLINT: 2, Kind.INTEGER: 4, Kind.BIGINT: 8}
_STAMPS = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
_JSON = (Kind.JSON, Kind.JSONB)


def _is_relabel(source: SqlType, target: SqlType) -> bool:
    """Both are stored alike, so the cast does nothing."""
    if source == target:
        return True
    if source.is_text and target.is_text:
        return target.length is None or target.length == source.length
    if source.kind is Kind.NUMERIC and target.kind is Kind.NUMERIC:
        return source.storage_precision_scale == target.storage_precision_scale
    return (source.kind, target.kind) == (Kind.JSONB, Kind.JSON)


def cast_can_fail(source: SqlType, target: SqlType) -> bool:
    """Whether some value of `source` has no counterpart in `target`."""
    if _is_relabel(source, target) or target.is_text:
        return False
    if source.kind in INTEGER_KINDS:
        if target.kind in INTEGER_KINDS:
            return _WIDTH[target.kind] < _WIDTH[source.kind]
        if target.kind is Kind.NUMERIC:
            p, s = target.storage_precision_scale
            return p - s < digits(source)[0]
        return target.kind is not Kind.BOOLEAN and target.kind not in FLOAT_KINDS
    if source.kind is Kind.NUMERIC and target.kind is Kind.NUMERIC:
        (p1, s1), (p2, s2) = digits(source), digits(target)
        return p2 - s2 < p1 - s1 + (1 if s2 < s1 else 0)
    pair = (source.kind, target.kind)
    if source.kind is Kind.ARRAY and target.kind is Kind.ARRAY:
        assert source.element is not None and target.element is not None
        return cast_can_fail(source.element, target.element)
    return pair not in _SAFE


_SAFE = {
    (Kind.BOOLEAN, Kind.INTEGER), (Kind.REAL, Kind.DOUBLE), (Kind.NUMERIC, Kind.DOUBLE),
    (Kind.DATE, Kind.TIMESTAMP), (Kind.DATE, Kind.TIMESTAMPTZ), (Kind.TIMESTAMP, Kind.DATE),
    (Kind.TIMESTAMP, Kind.TIME), (Kind.TIMESTAMP, Kind.TIMESTAMPTZ),
    (Kind.TIMESTAMPTZ, Kind.TIMESTAMP), (Kind.TIMESTAMPTZ, Kind.DATE),
    (Kind.TIMESTAMPTZ, Kind.TIME), (Kind.TIME, Kind.INTERVAL), (Kind.INTERVAL, Kind.TIME),
    (Kind.JSON, Kind.JSONB), (Kind.STRUCT, Kind.JSONB), (Kind.MAP, Kind.JSONB),
    (Kind.STRUCT, Kind.JSON), (Kind.MAP, Kind.JSON),
}  # fmt: skip


@lru_cache(maxsize=4096)
def cast_kernel(source: SqlType, target: SqlType) -> Kernel | None:
    """The Arrow kernel of a cast: (KernelCall, array) -> array."""
    from streamsql.functions import cast_kernels as k

    if _is_relabel(source, target):
        return k.relabel
    if target.is_text:
        if source.is_text:
            return k.cut_text
        return k.boolean_words if source.kind is Kind.BOOLEAN else k.to_text
    if source.is_text:
        return k.from_text
    if source.kind is Kind.JSONB and target.kind not in _JSON:
        return k.from_jsonb
    if target.kind in _JSON:
        return k.to_json
    if source.kind is Kind.ARRAY:
        return k.cast_elements
    if source.kind is Kind.STRUCT:
        return k.cast_fields
    if source.kind is Kind.MAP:
        return k.cast_entries
    if source.is_numeric and target.is_numeric:
        return _numeric_kernel(source, target)
    found: Kernel | None = _plain_kernels().get((source.kind, target.kind))
    return found


def _numeric_kernel(source: SqlType, target: SqlType) -> Kernel:
    from streamsql.functions import cast_kernels as k
    from streamsql.functions.compute import decimals, integers

    if source.is_integer:
        if target.is_integer:
            wider = _WIDTH[target.kind] > _WIDTH[source.kind]
            return k.plain_cast if wider else integers.to_narrow
        return k.plain_cast if target.is_float else decimals.from_integers
    if source.kind is Kind.NUMERIC:
        if target.is_integer:
            return decimals.to_integers
        return k.numeric_to_float if target.is_float else decimals.rescale
    if target.is_integer:
        return integers.float_to_integer
    if target.kind is Kind.NUMERIC:
        return decimals.from_floats
    return k.plain_cast if target.kind is Kind.DOUBLE else integers.to_real


@lru_cache(maxsize=1)
def _plain_kernels() -> dict[tuple[Kind, Kind], Callable[..., Any]]:
    from streamsql.functions import cast_kernels as k

    return {
        (Kind.BOOLEAN, Kind.INTEGER): k.plain_cast,
        (Kind.INTEGER, Kind.BOOLEAN): k.integer_to_boolean,
        (Kind.DATE, Kind.TIMESTAMP): k.date_to_timestamp,
        (Kind.DATE, Kind.TIMESTAMPTZ): k.date_to_timestamptz,
        (Kind.TIMESTAMP, Kind.DATE): k.timestamp_to_date,
        (Kind.TIMESTAMP, Kind.TIME): k.timestamp_to_time,
        (Kind.TIMESTAMP, Kind.TIMESTAMPTZ): k.timestamp_to_timestamptz,
        (Kind.TIMESTAMPTZ, Kind.TIMESTAMP): k.timestamptz_to_timestamp,
        (Kind.TIMESTAMPTZ, Kind.DATE): k.timestamptz_to_date,
        (Kind.TIMESTAMPTZ, Kind.TIME): k.timestamptz_to_time,
        (Kind.TIME, Kind.INTERVAL): k.time_to_interval,
        (Kind.INTERVAL, Kind.TIME): k.interval_to_time,
    }


_NATIVE = {
    (Kind.BOOLEAN, Kind.INTEGER), (Kind.INTEGER, Kind.BOOLEAN), (Kind.REAL, Kind.DOUBLE),
    (Kind.SMALLINT, Kind.REAL), (Kind.SMALLINT, Kind.DOUBLE), (Kind.INTEGER, Kind.REAL),
    (Kind.INTEGER, Kind.DOUBLE), (Kind.BIGINT, Kind.REAL), (Kind.BIGINT, Kind.DOUBLE),
}  # fmt: skip


def _native(source: SqlType, target: SqlType, timezone: str) -> bool:
    """Whether DuckDB's own cast gives PostgreSQL's value, or fails where PostgreSQL does."""
    exact = INTEGER_KINDS | {Kind.NUMERIC}
    if source.kind in exact and target.kind in exact:
        return True
    pair = (source.kind, target.kind)
    if pair in _NATIVE or pair == (Kind.DATE, Kind.TIMESTAMP):
        return True
    return timezone == "UTC" and source.kind in _STAMPS and target.kind in _STAMPS


def _nested_sql(sql: str, source: SqlType, target: SqlType, timezone: str) -> str | None:
    """A cast from struct to struct, or of arrays of them, by field: no UDF returns structs."""
    if source.kind is Kind.STRUCT and target.kind is Kind.STRUCT:
        names = [name.replace('"', '""') for name, _ in target.fields]
        fields = [
            f'"{name}" := {cast_sql_of(f"struct_extract_at(s, {i})", old, new, timezone)}'
            for i, (name, (_, old), (_, new)) in enumerate(
                zip(names, source.fields, target.fields, strict=True), 1
            )
        ]
        made = f"CASE WHEN s IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
        # a lambda's parameter, so that the argument is computed once
        return f"CAST(list_transform([{sql}], lambda s: {made})[1] AS {target.duckdb})"
    if source.kind is Kind.ARRAY and target.kind is Kind.ARRAY:
        assert source.element is not None and target.element is not None
        inner = _nested_sql("e", source.element, target.element, timezone)
        return None if inner is None else f"list_transform({sql}, lambda e: {inner})"
    return None


def cast_sql_of(sql: str, source: SqlType, target: SqlType, timezone: str = "UTC") -> str:
    """DuckDB SQL of the cast, of exactly `target.duckdb`."""
    if _is_relabel(source, target):
        return sql
    if _native(source, target, timezone):
        return f"CAST({sql} AS {target.duckdb})"
    nested = _nested_sql(sql, source, target, timezone)
    if nested is not None:
        return nested
    from streamsql.functions.duckdb_udfs import cast_udf_sql

    return cast_udf_sql(sql, source, target, timezone)
