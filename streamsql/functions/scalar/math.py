"""Mathematical functions and bit operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamsql.core.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    NUMERIC,
    SMALLINT,
    SqlType,
    numeric,
)  # fmt: skip
from streamsql.functions.definitions import FunctionDef, Pattern, Poly, Volatility
from streamsql.functions.expressions import Expr, Literal
from streamsql.functions.numeric_types import (
    MAX_PRECISION,
    MIN_DIVISION_SCALE,
    digits,
    is_bare,
    loose,
)
from streamsql.functions.scalar.lazy import lazy

INTEGERS = (INTEGER, BIGINT, SMALLINT)


def _def(
    name: str, args: tuple[Pattern, ...], result: Any, kernel: str = "", **more: Any
) -> FunctionDef:
    return FunctionDef(name=name, args=args, result=result,
                       kernel=lazy("maths", kernel or name), **more)  # fmt: skip


def _whole(types: tuple[SqlType, ...]) -> SqlType:
    """NUMERIC without decimals: one digit more, for what rounding carries over."""
    precision, scale = digits(types[0])
    return numeric(min(precision - scale + 1, MAX_PRECISION), 0, constrained=False)


def _approximate(types: tuple[SqlType, ...]) -> SqlType:
    """Results of sqrt, exp, ln, …: 16 decimals or what the argument has."""
    scale = max(MIN_DIVISION_SCALE, digits(types[0])[1])
    return numeric(MAX_PRECISION, scale, constrained=False)


def _rounded(args: tuple[Expr, ...]) -> SqlType:
    """round(x, n), trunc(x, n): n decimals if n is a constant."""
    precision, scale = digits(args[0].type)
    places = args[1]
    if not isinstance(places, Literal) or places.value is None:
        return loose(args[0].type)
    wanted = min(max(places.value, 0), MAX_PRECISION - 1)
    whole = precision - scale + 1
    return numeric(min(whole + wanted, MAX_PRECISION), wanted, constrained=False)


def _trimmed(types: tuple[SqlType, ...]) -> SqlType:
    """A storage for the same digits whose trailing zeros are not shown."""
    precision, scale = digits(types[0])
    narrow = scale <= NUMERIC.storage_precision_scale[1]
    if is_bare(types[0]) or (narrow and precision - scale > MAX_PRECISION - MIN_DIVISION_SCALE):
        return NUMERIC
    return numeric(MAX_PRECISION, max(scale, MIN_DIVISION_SCALE), constrained=False)


def _sign(types: tuple[SqlType, ...]) -> SqlType:
    return numeric(1, 0, constrained=False)


_EVERYWHERE = [
    "sin",
    "cos",
    "tan",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "cot",
    "degrees",
    "radians",
    "cbrt",
]
_DOMAIN = ["asin", "acos", "acosh", "atanh", "sqrt", "ln", "log2"]

_ROOTS = {"sqrt": ("|/",), "cbrt": ("||/",)}


def _floats() -> Iterable[FunctionDef]:
    for name in (*_EVERYWHERE, *_DOMAIN):
        yield _def(name, (DOUBLE,), DOUBLE, aliases=_ROOTS.get(name, ()))
    for name in ("sind", "cosd", "tand", "cotd", "asind", "acosd", "atand"):
        yield FunctionDef(name=name, args=(DOUBLE,), result=DOUBLE, kernel=lazy("degrees", name))
    yield FunctionDef(name="atan2d", args=(DOUBLE, DOUBLE), result=DOUBLE, can_fail=False,
                      kernel=lazy("degrees", "atan2d"))  # fmt: skip
    yield _def("exp", (DOUBLE,), DOUBLE)
    yield _def("log10", (DOUBLE,), DOUBLE, aliases=("log",))
    yield _def("atan2", (DOUBLE, DOUBLE), DOUBLE)
    yield _def("power", (DOUBLE, DOUBLE), DOUBLE, aliases=("pow", "^"))
    rounding = (
        ("ceil", "ceil", ("ceiling",)), ("floor", "floor", ()), ("trunc", "trunc", ("truncate",)),
        ("round", "rint", ()), ("sign", "sign", ()),
    )  # fmt: skip
    for name, kernel, aliases in rounding:
        yield _def(name, (DOUBLE,), DOUBLE, kernel, aliases=aliases, can_fail=False)


def _numerics() -> Iterable[FunctionDef]:
    yield _def("sqrt", (NUMERIC,), _approximate, "numeric_sqrt")
    yield _def("exp", (NUMERIC,), _approximate, "numeric_exp")
    yield _def("ln", (NUMERIC,), _approximate, "numeric_ln")
    yield _def("log10", (NUMERIC,), _approximate, "numeric_log10", aliases=("log",))
    yield _def("log", (NUMERIC, NUMERIC), _approximate, "numeric_log")
    yield _def("power", (NUMERIC, NUMERIC), _approximate, "numeric_power", aliases=("pow", "^"))
    yield _def("div", (NUMERIC, NUMERIC), _whole, "numeric_div")
    yield _def("ceil", (NUMERIC,), _whole, "numeric_ceil", aliases=("ceiling",), can_fail=False)
    yield _def("floor", (NUMERIC,), _whole, "numeric_floor", can_fail=False)
    yield _def("round", (NUMERIC,), _whole, "numeric_round", can_fail=False)
    yield _def("trunc", (NUMERIC,), _whole, "numeric_trunc", aliases=("truncate",), can_fail=False)
    for name in ("round", "trunc"):
        yield FunctionDef(name=name, args=(NUMERIC, INTEGER), result_of=_rounded,
                          aliases=("truncate",) if name == "trunc" else (),
                          kernel=lazy("maths", f"numeric_{name}"))  # fmt: skip
    yield _def("sign", (NUMERIC,), _sign, "numeric_sign", can_fail=False)
    yield _def("scale", (NUMERIC,), INTEGER, "numeric_scale", can_fail=False)
    yield _def("min_scale", (NUMERIC,), INTEGER, "numeric_min_scale", can_fail=False)
    yield _def("trim_scale", (NUMERIC,), _trimmed, "numeric_trim_scale", can_fail=False)


def _integers() -> Iterable[FunctionDef]:
    for t in INTEGERS:
        for name, symbol in (("bit_and", "&"), ("bit_or", "|"), ("bit_xor", "#")):
            yield _def(name, (t, t), t, aliases=(symbol,), can_fail=False)
        yield _def("shift_left", (t, INTEGER), t, aliases=("<<",), can_fail=False)
        yield _def("shift_right", (t, INTEGER), t, aliases=(">>",), can_fail=False)
        yield _def("bit_not", (t,), t, aliases=("~",), can_fail=False)
    for t in (INTEGER, BIGINT):
        yield _def("gcd", (t, t), t)
        yield _def("lcm", (t, t), t)
    yield _def("factorial", (BIGINT,), numeric(38, 0, constrained=False))


FUNCTIONS: tuple[FunctionDef, ...] = (
    *_floats(),
    *_numerics(),
    *_integers(),
    _def("width_bucket", (DOUBLE, DOUBLE, DOUBLE, INTEGER), INTEGER),
    _def("width_bucket", (NUMERIC, NUMERIC, NUMERIC, INTEGER), INTEGER),
    _def("width_bucket", (Poly.ANYCOMPATIBLE, Poly.ANYCOMPATIBLEARRAY), INTEGER,
         "width_bucket_array"),
    FunctionDef(name="pi", args=(), result=DOUBLE, sql="pi()", can_fail=False),
    FunctionDef(name="e", args=(), result=DOUBLE, sql="exp(1)", can_fail=False),
    FunctionDef(name="random", args=(), result=DOUBLE, sql="random()", can_fail=False,
                volatility=Volatility.VOLATILE, aliases=("rand",)),
)  # fmt: skip
