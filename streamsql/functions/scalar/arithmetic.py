"""+ - * / % and the unary signs of numbers, with PostgreSQL's result types and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamsql.core.errors import DivisionByZero, NumericValueOutOfRange
from streamsql.core.types import BIGINT, DOUBLE, INTEGER, NUMERIC, REAL, SMALLINT, SqlType
from streamsql.functions.definitions import FunctionDef, ResultRule
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.numeric_types import (
    common_numeric,
    digits,
    loose,
    product_type,
    quotient_type,
    remainder_type,
    sum_type,
)
from streamsql.functions.scalar.lazy import lazy
from streamsql.functions.sql_text import cast_sql, raise_sql

INTEGERS = (INTEGER, BIGINT, SMALLINT)
FLOATS = (DOUBLE, REAL)
_MAX_INLINE = 200  # longer float arguments are not written twice: nesting would double the text

Template = Callable[[Sequence[str], tuple[SqlType, ...], SqlType], str]


_product_kernel = lazy("products", "multiply")


def _numeric_sum(symbol: str) -> Template:
    def write(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        return f"({cast_sql(a[0], result)} {symbol} {cast_sql(a[1], result)})"

    return write


def _product(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    (p1, s1), (p2, s2) = digits(types[0]), digits(types[1])
    if p1 + p2 <= 38 and s1 + s2 == result.storage_precision_scale[1]:
        return f"({a[0]} * {a[1]})"
    return kernel_sql("multiply", _product_kernel, a, types, result)


def _remainder(a: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
    common = common_numeric(types)
    return f"({cast_sql(a[0], common)} % {cast_sql(a[1], common)})"


def _float(name: str, symbol: str) -> Template:
    """Float arithmetic with PostgreSQL's errors where IEEE gives infinity, zero or NaN."""
    kernel = lazy("integers", f"float_{name}")

    def write(args: Sequence[str], types: tuple[SqlType, ...], result: SqlType) -> str:
        if len(args[0]) + len(args[1]) > _MAX_INLINE:
            return kernel_sql(name, kernel, args, types, result)
        a, b = args
        overflow = raise_sql(NumericValueOutOfRange, "value out of range: overflow", result)
        underflow = raise_sql(NumericValueOutOfRange, "value out of range: underflow", result)
        plain = f"({a} {symbol} {b})"
        checks = f"WHEN isinf({plain}) AND NOT isinf({a}) AND NOT isinf({b}) THEN {overflow}"
        if symbol == "*":
            checks += f" WHEN {plain} = 0 AND {a} <> 0 AND {b} <> 0 THEN {underflow}"
        if symbol == "/":
            zero = raise_sql(DivisionByZero, "division by zero", result)
            checks = f"WHEN {b} = 0 AND NOT isnan({a}) THEN {zero} {checks}"
            checks += f" WHEN {plain} = 0 AND {a} <> 0 AND NOT isinf({b}) THEN {underflow}"
        return f"CASE {checks} ELSE {plain} END"

    return write


def _operator(
    name: str,
    symbol: str,
    numeric: ResultRule,
    numeric_sql: Template | None,
    aliases: tuple[str, ...] = (),
) -> list[FunctionDef]:
    names = (symbol, *aliases)
    integer_symbol = "//" if symbol == "/" else symbol
    kernel = _product_kernel if name == "multiply" else lazy("decimals", name)
    made = [
        FunctionDef(name=name, aliases=names, args=(t, t), result=t, exact=True,
                    sql=f"({{0}} {integer_symbol} {{1}})", kernel=lazy("integers", name))
        for t in INTEGERS
    ]  # fmt: skip
    made.append(FunctionDef(name=name, aliases=names, args=(NUMERIC, NUMERIC), result=numeric,
                            sql=numeric_sql, kernel=kernel))  # fmt: skip
    if symbol == "%":
        return made
    float_kernel = lazy("integers", f"float_{name}")
    made += [
        FunctionDef(name=name, aliases=names, args=(t, t), result=t, sql=_float(name, symbol),
                    kernel=float_kernel)
        for t in FLOATS
    ]  # fmt: skip
    made += [
        FunctionDef(name=name, aliases=names, args=pair, result=DOUBLE, kernel=float_kernel,
                    coerce_to=(DOUBLE, DOUBLE), sql=_float(name, symbol))
        for pair in ((DOUBLE, REAL), (REAL, DOUBLE))
    ]  # fmt: skip
    return made


def same(types: tuple[SqlType, ...]) -> SqlType:
    """The type of the first argument, without the modifier a column declared."""
    return loose(types[0])


def _unary() -> list[FunctionDef]:
    made: list[FunctionDef] = []
    for t in (*INTEGERS, NUMERIC, *FLOATS):
        integer = t in INTEGERS
        if integer:
            negate, absolute = lazy("integers", "negate"), lazy("integers", "absolute")
        elif t is NUMERIC:
            negate, absolute = lazy("decimals", "negate"), lazy("decimals", "absolute")
        else:
            negate, absolute = lazy("integers", "float_negate"), lazy("integers", "float_absolute")
        made += [
            FunctionDef(name="negate", aliases=("-",), args=(t,), result=same, can_fail=integer,
                        sql=f"(CAST(0 AS {t.duckdb}) - {{0}})" if integer else "(-{0})",
                        kernel=negate),
            FunctionDef(name="plus", aliases=("+",), args=(t,), result=same, sql="{0}",
                        can_fail=False, kernel=lambda call, a: a),
            FunctionDef(name="abs", aliases=("@",), args=(t,), result=same, sql="abs({0})",
                        can_fail=integer, kernel=absolute),
        ]  # fmt: skip
    return made


FUNCTIONS: tuple[FunctionDef, ...] = (
    *_operator("add", "+", sum_type, _numeric_sum("+")),
    *_operator("subtract", "-", sum_type, _numeric_sum("-")),
    *_operator("multiply", "*", product_type, _product),
    *_operator("divide", "/", quotient_type, None),
    *_operator("modulo", "%", remainder_type, _remainder, ("mod",)),
    *_unary(),
)
