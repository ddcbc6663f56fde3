"""Our Arrow kernels as DuckDB UDFs, for what DuckDB lacks or does otherwise than PostgreSQL.

One UDF per result type. Its first argument names a *signature*: the kernel with its argument types,
result type and time zone, interned here when the SQL is written. So both evaluators run the same
code.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamsql.core.errors import InvariantViolation
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    SqlType,
    array_of,
    numeric,
)
from streamsql.functions.definitions import Kernel
from streamsql.functions.literals import sql_string

_UNSCALED = numeric(38, 0)
_BASE: tuple[tuple[str, SqlType], ...] = (
    ("boolean", BOOLEAN), ("smallint", SMALLINT), ("integer", INTEGER), ("bigint", BIGINT),
    ("real", REAL), ("double", DOUBLE), ("unscaled", _UNSCALED), ("text", TEXT), ("bytea", BYTEA),
    ("date", DATE), ("time", TIME), ("timestamp", TIMESTAMP), ("timestamptz", TIMESTAMPTZ),
    ("interval", INTERVAL),
)  # fmt: skip
_RESULTS: tuple[tuple[str, SqlType], ...] = (
    *_BASE,
    *((f"{name}_array", array_of(t)) for name, t in _BASE),
    ("text_array_array", array_of(array_of(TEXT))),  # regexp_matches
)
_BY_DUCKDB = {t.duckdb: name for name, t in _RESULTS}


class UdfError(Exception):
    """Carries "streamsql:<sqlstate>:<message>" through DuckDB."""


@dataclass(frozen=True)
class Signature:
    """What one UDF call computes."""

    kernel: Kernel
    arg_types: tuple[SqlType, ...]
    type: SqlType
    timezone: str
    strict: bool


_SIGNATURES: dict[str, Signature] = {}
_LOCK = threading.Lock()


def _intern(name: str, signature: Signature) -> str:
    """A key for the signature: readable, and the same for equal ones."""
    shown = ",".join(_exact(t) for t in signature.arg_types)
    key = f"{name}({shown})->{_exact(signature.type)}@{signature.timezone}"
    with _LOCK:
        _SIGNATURES[key] = signature
    return key


def _exact(t: SqlType) -> str:
    """The type with its storage written out, so that keys never collide."""
    if t.kind is Kind.NUMERIC:
        mark = "" if t.constrained else "~"
        return f"numeric{mark}{t.storage_precision_scale}{'*' if t.precision is None else ''}"
    if t.kind is Kind.ARRAY and t.element is not None:
        return _exact(t.element) + "[]"
    return str(t)


def kernel_sql(
    name: str,
    kernel: Kernel,
    args: Sequence[str],
    types: tuple[SqlType, ...],
    result: SqlType,
    *,
    timezone: str = "UTC",
    strict: bool = True,
) -> str:
    """DuckDB SQL that calls a kernel over SQL arguments; of exactly `result.duckdb`."""
    key = _intern(name, Signature(kernel, types, result, timezone, strict))
    return _call_sql(key, args, result)


def cast_udf_sql(sql: str, source: SqlType, target: SqlType, timezone: str) -> str:
    """DuckDB SQL of a cast through its kernel."""
    from streamsql.functions.cast_table import cast_kernel

    kernel = cast_kernel(source, target)
    if kernel is None:
        raise InvariantViolation(f"no cast from {source} to {target}")
    return kernel_sql("cast", kernel, [sql], (source,), target, timezone=timezone)


def _call_sql(key: str, args: Sequence[str], result: SqlType) -> str:
    written = ", ".join((sql_string(key), *args))
    if result.kind is Kind.NUMERIC:
        return _point(f"ssql_unscaled({written})", result)
    if result.kind is Kind.ARRAY and _leaf(result).kind is Kind.NUMERIC:
        inner = _point("x", _leaf(result))
        return f"list_transform(ssql_unscaled_array({written}), lambda x: {inner})"
    name = _BY_DUCKDB.get(result.duckdb)
    if name is not None:
        return f"ssql_{name}({written})"
    # a nested result travels as JSON-free text: PostgreSQL's own output form, read by DuckDB
    raise InvariantViolation(f"no UDF returns {result}")


def _leaf(t: SqlType) -> SqlType:
    while t.kind is Kind.ARRAY and t.element is not None:
        t = t.element
    return t


def _point(sql: str, t: SqlType) -> str:
    """Digits as DECIMAL(38, 0) with the point put in: DuckDB adds the scales of a product, so times
    10^-s at scale s moves the point without touching the digits."""
    scale = t.storage_precision_scale[1]
    if scale:
        sql = f"({sql} * CAST('0.{'1'.zfill(scale)}' AS DECIMAL({scale},{scale})))"
    return f"CAST({sql} AS {t.duckdb})"


def _run(*columns: Any) -> Any:  # DuckDB evaluates annotations: no names of lazy imports here
    """Body of every UDF: find the signature, run the kernel, raise for the first bad row."""
    from streamsql.functions.udf_runtime import run_kernel

    return run_kernel(_SIGNATURES[columns[0][0].as_py()], columns[1:], len(columns[0]))


def _run_unscaled(*columns: Any) -> Any:
    """As `_run`, for NUMERIC results: the digits without the point."""
    from streamsql.functions.udf_runtime import without_point

    return without_point(_run(*columns))


def _raise(messages: Any) -> Any:
    for message in messages:
        if message.is_valid:
            raise UdfError(message.as_py())
    return messages


def register(con: Any) -> None:
    """Register the UDFs on the connection's database."""
    options = {"type": "arrow", "null_handling": "special"}
    con.create_function("ssql_raise", _raise, ["VARCHAR"], "VARCHAR", **options)
    for name, t in _RESULTS:
        body = _run_unscaled if name.startswith("unscaled") else _run
        con.create_function(f"ssql_{name}", body, None, t.duckdb, **options)
