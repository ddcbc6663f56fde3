"""= <> < <= > >= and IS [NOT] DISTINCT FROM for every type with an order; = ANY / ALL of arrays."""

from __future__ import annotations

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
from streamsql.functions.definitions import FunctionDef, Pattern, Poly
from streamsql.functions.numeric_types import common_numeric

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


def _sql(operator: str, symbol: str, pattern: Pattern) -> object:
    def write(args: object, types: tuple[SqlType, ...], _result: SqlType) -> str:
        a, b = args  # type: ignore[misc]
        if types[0].kind is Kind.NUMERIC and types[0] != types[1]:
            common = common_numeric(types).duckdb
            a, b = f"CAST({a} AS {common})", f"CAST({b} AS {common})"
        return f"({a} {symbol} {b})"

    return write


def _comparisons() -> list[FunctionDef]:
    made: list[FunctionDef] = []
    for name, symbol, aliases in _OPERATORS:
        for t in COMPARABLE:
            made.append(FunctionDef(
                name=name, aliases=aliases, args=(t, t), result=BOOLEAN, can_fail=False,
                exact=True, sql=_sql(name, symbol, t),
            ))  # fmt: skip
        for p in (Poly.ANYARRAY, Poly.ANYSTRUCT, Poly.ANYMAP):
            made.append(FunctionDef(
                name=name, aliases=aliases, args=(p, p), result=BOOLEAN, can_fail=False,
                exact=True, sql=_sql(name, symbol, p),
            ))  # fmt: skip
        # real beside double precision compares as double precision
        for pair in ((DOUBLE, REAL), (REAL, DOUBLE)):
            made.append(FunctionDef(
                name=name, aliases=aliases, args=pair, coerce_to=(DOUBLE, DOUBLE),
                result=BOOLEAN, can_fail=False, exact=True, sql=_sql(name, symbol, DOUBLE),
            ))  # fmt: skip
    return made


def _distinct(name: str, words: str, aliases: tuple[str, ...] = ()) -> FunctionDef:
    return FunctionDef(
        name=name, args=(Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLE), result=BOOLEAN, strict=False,
        can_fail=False, exact=True, aliases=aliases, sql=f"({{0}} {words} {{1}})",
    )  # fmt: skip


FUNCTIONS: tuple[FunctionDef, ...] = (
    *_comparisons(),
    _distinct("is_distinct_from", "IS DISTINCT FROM"),
    _distinct("is_not_distinct_from", "IS NOT DISTINCT FROM", ("<=>",)),
)
