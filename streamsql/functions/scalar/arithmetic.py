"""+ - * / % of numbers and the mathematical functions, with PostgreSQL's result types and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamsql.core.errors import DivisionByZero, NumericValueOutOfRange
from streamsql.core.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    NUMERIC,
    REAL,
    SMALLINT,
    SqlType,
)
from streamsql.functions.definitions import FunctionDef, ResultRule
from streamsql.functions.numeric_types import (
    common_numeric,
    digits,
    product_type,
    quotient_type,
    remainder_type,
    sum_type,
)
from streamsql.functions.sql_text import cast_sql, raise_sql

INTEGERS = (INTEGER, BIGINT, SMALLINT)
FLOATS = (DOUBLE, REAL)


def unscaled(call: str, result: SqlType) -> str:
    """SQL of a UDF call that returns the unscaled digits of `result` as DECIMAL(38, 0).

    DuckDB adds the scales of a product's operands, so times 10^-s at scale s puts the point there
    without touching the digits.
    """
    _, scale = result.storage_precision_scale
    if scale:
        call = f"({call} * CAST('1e-{scale}' AS DECIMAL({scale},{scale})))"
    return cast_sql(call, result)


def _numeric_sum(symbol: str) -> Callable[[Sequence[str], tuple[SqlType, ...], SqlType], str]:
    def write(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        return f"({cast_sql(a[0], result)} {symbol} {cast_sql(a[1], result)})"

    return write


def _product(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    (p1, s1), (p2, s2) = digits(types[0]), digits(types[1])
    scale = result.storage_precision_scale[1]
    if p1 + p2 <= 38 and s1 + s2 == scale:
        return f"({a[0]} * {a[1]})"
    return unscaled(f"ssql_numeric_multiply({a[0]}, {a[1]}, {scale})", result)


def _quotient(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    scale = result.storage_precision_scale[1]
    return unscaled(f"ssql_numeric_divide({a[0]}, {a[1]}, {scale})", result)


def _remainder(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    common = common_numeric(types)
    return f"({cast_sql(a[0], common)} % {cast_sql(a[1], common)})"


def _float(symbol: str) -> Callable[[Sequence[str], tuple[SqlType, ...], SqlType], str]:
    """Float arithmetic with PostgreSQL's errors where IEEE gives infinity, zero or NaN."""

    def write(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        macro = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}[symbol]
        return f"ssql_float_{macro}({a[0]}, {a[1]}, ({a[0]} {symbol} {a[1]}))"

    return write


def _operator(
    name: str,
    symbol: str,
    numeric: ResultRule,
    numeric_sql: Callable[[Sequence[str], tuple[SqlType, ...], SqlType], str],
    aliases: tuple[str, ...] = (),
) -> list[FunctionDef]:
    integer_symbol = "//" if symbol == "/" else symbol
    made = [
        FunctionDef(name=name, aliases=(symbol, *aliases), args=(t, t), result=t, exact=True,
                    sql=f"({{0}} {integer_symbol} {{1}})")
        for t in INTEGERS
    ]  # fmt: skip
    made.append(FunctionDef(
        name=name, aliases=(symbol, *aliases), args=(NUMERIC, NUMERIC), result=numeric,
        sql=numeric_sql,
    ))  # fmt: skip
    if symbol != "%":
        made += [
            FunctionDef(name=name, aliases=(symbol, *aliases), args=(t, t), result=t,
                        sql=_float(symbol))
            for t in FLOATS
        ]  # fmt: skip
        made += [
            FunctionDef(name=name, aliases=(symbol, *aliases), args=pair, result=DOUBLE,
                        coerce_to=(DOUBLE, DOUBLE), sql=_float(symbol))
            for pair in ((DOUBLE, REAL), (REAL, DOUBLE))
        ]  # fmt: skip
    return made


def _same(types: tuple[SqlType, ...]) -> SqlType:
    return types[0]


def _unary() -> list[FunctionDef]:
    made: list[FunctionDef] = []
    for t in (*INTEGERS, NUMERIC, *FLOATS):
        made.append(FunctionDef(
            name="negate", aliases=("-",), args=(t,), result=_same, sql="(-{0})",
            can_fail=t in INTEGERS,
        ))  # fmt: skip
        made.append(FunctionDef(
            name="plus", aliases=("+",), args=(t,), result=_same, sql="{0}", can_fail=False,
        ))  # fmt: skip
        made.append(FunctionDef(
            name="abs", aliases=("@",), args=(t,), result=_same, sql="abs({0})",
            can_fail=t in INTEGERS,
        ))  # fmt: skip
    return made


FUNCTIONS: tuple[FunctionDef, ...] = (
    *_operator("add", "+", sum_type, _numeric_sum("+")),
    *_operator("subtract", "-", sum_type, _numeric_sum("-")),
    *_operator("multiply", "*", product_type, _product),
    *_operator("divide", "/", quotient_type, _quotient),
    *_operator("modulo", "%", remainder_type, _remainder, ("mod",)),
    *_unary(),
)
_ = (DivisionByZero, NumericValueOutOfRange, raise_sql)
