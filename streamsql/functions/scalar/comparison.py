"""= <> < <= > >= and IS [NOT] DISTINCT FROM for every type with an order; = ANY / ALL of arrays."""

from __future__ import annotations

from typing import Any

from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSONB,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Kind,
    SqlType,
)
from streamsql.functions.definitions import FunctionDef, Kernel, Poly
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.numeric_types import common_numeric
from streamsql.functions.scalar.json_keys import by_value, equal_key_sql, order_key_sql

COMPARABLE: tuple[SqlType, ...] = (
    INTEGER, BIGINT, SMALLINT, NUMERIC, DOUBLE, REAL, TEXT, BOOLEAN, DATE, TIMESTAMP,
    TIMESTAMPTZ, TIME, INTERVAL, UUID, BYTEA, JSONB,
)  # fmt: skip

_OPERATORS = (
    ("eq", "=", ("=", "==")),
    ("ne", "<>", ("<>", "!=")),
    ("lt", "<", ("<",)),
    ("le", "<=", ("<=",)),
    ("gt", ">", (">",)),
    ("ge", ">=", (">=",)),
)


def comparison_kernel(name: str) -> Kernel:
    """The Arrow kernel of one comparison operator."""

    def kernel(call: Any, a: Any, b: Any) -> Any:
        from streamsql.functions.compute import comparisons

        return comparisons.compare(name, call, a, b)

    return kernel


def _sql(name: str, symbol: str) -> Any:
    kernel = comparison_kernel(name)

    def write(args: Any, types: tuple[SqlType, ...], result: SqlType) -> str:
        a, b = args
        if types[0].kind is Kind.NUMERIC and types[0] != types[1]:
            common = common_numeric(types)
            if any(_whole(t) > _whole(common) for t in types):  # would not fit: compare exactly
                return kernel_sql(name, kernel, args, types, result)
            a, b = f"CAST({a} AS {common.duckdb})", f"CAST({b} AS {common.duckdb})"
        if types[0].kind is Kind.JSONB:  # 1 and 1.0 are equal, their texts are not
            return kernel_sql(name, kernel, args, types, result)
        if types[0].holds(Kind.JSONB):
            key = equal_key_sql if name in ("eq", "ne") else order_key_sql
            a, b = key(a, types[0]), key(b, types[1])
        return f"({a} {symbol} {b})"

    return write


def _whole(t: SqlType) -> int:
    precision, scale = t.storage_precision_scale
    return precision - scale


def _comparisons() -> list[FunctionDef]:
    made: list[FunctionDef] = []
    for name, symbol, aliases in _OPERATORS:
        pairs: list[tuple[Any, Any]] = [(t, t) for t in COMPARABLE]
        pairs += [(p, p) for p in (Poly.ANYARRAY, Poly.ANYSTRUCT, Poly.ANYMAP)]
        sql, kernel = _sql(name, symbol), comparison_kernel(name)
        made += [
            FunctionDef(name=name, aliases=aliases, args=pair, result=BOOLEAN, can_fail=False,
                        exact=True, sql=sql, kernel=kernel)
            for pair in pairs
        ]  # fmt: skip
        # real beside double precision compares as double precision
        made += [
            FunctionDef(name=name, aliases=aliases, args=pair, coerce_to=(DOUBLE, DOUBLE),
                        result=BOOLEAN, can_fail=False, exact=True, sql=sql, kernel=kernel)
            for pair in ((DOUBLE, REAL), (REAL, DOUBLE))
        ]  # fmt: skip
    return made


def _distinct_kernel(call: Any, a: Any, b: Any) -> Any:
    from streamsql.functions.compute import comparisons

    return comparisons.distinct_from(call, a, b)


def _same_kernel(call: Any, a: Any, b: Any) -> Any:
    import pyarrow.compute as pc

    return pc.invert(_distinct_kernel(call, a, b))


def _distinct(name: str, words: str, kernel: Kernel, aliases: tuple[str, ...] = ()) -> FunctionDef:
    return FunctionDef(
        name=name, args=(Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLE), result=BOOLEAN, strict=False,
        can_fail=False, exact=True, aliases=aliases, kernel=kernel,
        sql=by_value(f"({{k0}} {words} {{k1}})"),
    )  # fmt: skip


FUNCTIONS: tuple[FunctionDef, ...] = (
    *_comparisons(),
    _distinct("is_distinct_from", "IS DISTINCT FROM", _distinct_kernel),
    _distinct("is_not_distinct_from", "IS NOT DISTINCT FROM", _same_kernel, ("<=>",)),
)
