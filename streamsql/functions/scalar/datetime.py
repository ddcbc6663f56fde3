"""Dates, times and intervals: operators, extract, truncation, construction, zones, now()."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    SqlType,
    numeric,
)
from streamsql.functions.definitions import (
    FunctionDef,
    Kernel,
    Pattern,
    SqlTemplate,
    Volatility,
)
from streamsql.functions.expressions import Expr, Literal
from streamsql.functions.scalar.lazy import lazy
from streamsql.functions.sql_text import constant_text, native_or_kernel
from streamsql.functions.units import JULIAN_SCALE, unit_of

STAMPS = (TIMESTAMP, TIMESTAMPTZ)
EXTRACTABLE = (TIMESTAMP, TIMESTAMPTZ, DATE, TIME, INTERVAL)


def _def(
    name: str,
    args: tuple[Pattern, ...],
    result: SqlType,
    kernel: str = "",
    *,
    module: str = "",
    fails: bool = False,
    **more: Any,
) -> FunctionDef:
    kernel = kernel or name
    return FunctionDef(
        name=name, args=args, result=result, kernel=lazy(module or _module(kernel), kernel),
        can_fail=fails, **more,
    )  # fmt: skip


def _module(kernel: str) -> str:
    """The compute module of a kernel."""
    if kernel.startswith(("interval_add", "interval_sub", "interval_neg", "interval_mul",
                          "interval_div", "justify_")):  # fmt: skip
        return "interval_arithmetic"
    return "construction" if kernel.startswith(("make_", "from_epoch")) else "datetimes"


def _symmetric(
    name: str, symbol: str, a: SqlType, b: SqlType, result: SqlType, kernel: str, **more: Any
) -> Iterable[FunctionDef]:
    """a ∘ b and b ∘ a."""
    yield _def(name, (a, b), result, kernel, aliases=(symbol,), **more)
    yield _def(name, (b, a), result, kernel, aliases=(symbol,), **more)


def _operators() -> Iterable[FunctionDef]:
    yield from _symmetric("add", "+", DATE, INTEGER, DATE, "date_plus_days", fails=True,
                          sql="({0} + {1})")  # fmt: skip
    yield from _symmetric("add", "+", DATE, INTERVAL, TIMESTAMP, "add_interval", fails=True)
    yield from _symmetric("add", "+", DATE, TIME, TIMESTAMP, "date_plus_time")
    for t in STAMPS:
        # DuckDB counts days of a TIMESTAMPTZ in its own zone, not in the session's
        plain: dict[str, Any] = {"sql": "({0} + {1})"} if t is TIMESTAMP else {}
        minus: dict[str, Any] = {"sql": "({0} - {1})"} if t is TIMESTAMP else {}
        yield from _symmetric("add", "+", t, INTERVAL, t, "add_interval", fails=True, **plain)
        yield _def("subtract", (t, INTERVAL), t, "subtract_interval", aliases=("-",), fails=True,
                   **minus)  # fmt: skip
        yield _def("subtract", (t, t), INTERVAL, "timestamp_difference", aliases=("-",))
    yield from _symmetric("add", "+", TIME, INTERVAL, TIME, "time_plus_interval")
    for b, result, kernel in (
        (DATE, INTEGER, "date_minus_date"),
        (INTEGER, DATE, "date_minus_days"),
    ):
        yield _def("subtract", (DATE, b), result, kernel, aliases=("-",), fails=True,
                   sql="({0} - {1})")  # fmt: skip
    others: tuple[tuple[SqlType, SqlType, SqlType, str], ...] = (
        (DATE, INTERVAL, TIMESTAMP, "subtract_interval"),
        (TIME, TIME, INTERVAL, "time_difference"),
        (TIME, INTERVAL, TIME, "time_minus_interval"),
        (INTERVAL, INTERVAL, INTERVAL, "interval_subtract"),
    )
    for a, b, result, kernel in others:
        yield _def("subtract", (a, b), result, kernel, aliases=("-",), fails=True)
    yield _def("add", (INTERVAL, INTERVAL), INTERVAL, "interval_add", aliases=("+",), fails=True)
    yield _def("negate", (INTERVAL,), INTERVAL, "interval_negate", aliases=("-",))
    yield from _symmetric("multiply", "*", INTERVAL, DOUBLE, INTERVAL, "interval_multiply",
                          fails=True)  # fmt: skip
    yield _def("divide", (INTERVAL, DOUBLE), INTERVAL, "interval_divide", aliases=("/",),
               fails=True)  # fmt: skip


def extract_type(args: tuple[Expr, ...]) -> SqlType:
    """NUMERIC with the decimals that the field has."""
    field = args[0]
    if not isinstance(field, Literal) or field.value is None:
        return NUMERIC
    from streamsql.functions.units import field_scale

    scale = field_scale(field.value)
    unit, kind = unit_of(field.value), args[1].type.kind
    if unit == "epoch" and kind is Kind.DATE:
        scale = 0
    if unit == "julian" and kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return numeric(28, JULIAN_SCALE, constrained=False)
    return numeric(24, scale, constrained=False)


_TRUNCATED = frozenset(
    {"microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month",
     "quarter", "year"}
)  # fmt: skip
_PARTS = {
    "hour": "hour", "minute": "minute", "day": "day", "month": "month", "quarter": "quarter",
    "week": "week", "dow": "dow", "isodow": "isodow", "doy": "doy",
}  # fmt: skip
"""Fields that DuckDB counts as PostgreSQL does (years do not: there is no year 0)."""


def _date_trunc(a: Sequence[str], types: tuple[SqlType, ...]) -> str | None:
    unit = unit_of(constant_text(a[0]) or "")
    return f"date_trunc('{unit}', {a[1]})" if unit in _TRUNCATED else None


def _extract(a: Sequence[str], types: tuple[SqlType, ...]) -> str | None:
    """Fields of dates and timestamps without a zone."""
    part = _PARTS.get(unit_of(constant_text(a[0]) or ""))
    clock = part in ("hour", "minute")
    if part is None or types[1].kind not in (Kind.TIMESTAMP, Kind.DATE):
        return None
    return None if clock and types[1].kind is Kind.DATE else f"datepart('{part}', {a[1]})"


def _unzoned(name: str, kernel: Kernel, t: SqlType) -> SqlTemplate | None:
    """With a zone the kernel decides: only it knows the session's."""
    return None if t is TIMESTAMPTZ else native_or_kernel(name, kernel, _extract)


def _fields() -> Iterable[FunctionDef]:
    for t in EXTRACTABLE:
        extract, date_part = lazy("extracts", "extract"), lazy("extracts", "date_part")
        yield FunctionDef(name="extract", args=(TEXT, t), result_of=extract_type, kernel=extract,
                          sql=_unzoned("extract", extract, t))  # fmt: skip
        # of a date, date_part (unlike extract) sees midnight
        seen: dict[str, Any] = {"coerce_to": (TEXT, TIMESTAMP)} if t is DATE else {}
        yield _def("date_part", (TEXT, t), DOUBLE, module="extracts", fails=True,
                   sql=_unzoned("date_part", date_part, t), **seen)  # fmt: skip
    for name in ("year", "quarter", "month", "week", "dayofyear", "dayofmonth", "dayofweek"):
        aliases = ("day",) if name == "dayofmonth" else ()
        for t in (TIMESTAMP, TIMESTAMPTZ, DATE):
            native = t is not TIMESTAMPTZ and name in (
                "quarter",
                "month",
                "dayofmonth",
                "dayofyear",
            )
            yield _def(name, (t,), BIGINT, module="extracts", aliases=aliases,
                       sql=f"{name}({{0}})" if native else None)  # fmt: skip
    for name in ("hour", "minute", "second"):
        for t in (TIMESTAMP, TIMESTAMPTZ, TIME):
            native = t is TIMESTAMP and name != "second"
            yield _def(name, (t,), BIGINT, module="extracts",
                       sql=f"{name}({{0}})" if native else None)  # fmt: skip


FUNCTIONS: tuple[FunctionDef, ...] = (
    *_operators(),
    *_fields(),
    _def("date_trunc", (TEXT, TIMESTAMP), TIMESTAMP, fails=True,
         sql=native_or_kernel("date_trunc", lazy("datetimes", "date_trunc"), _date_trunc)),
    _def("date_trunc", (TEXT, TIMESTAMPTZ), TIMESTAMPTZ, fails=True),
    _def("date_trunc", (TEXT, TIMESTAMPTZ, TEXT), TIMESTAMPTZ, fails=True),
    _def("date_trunc", (TEXT, INTERVAL), INTERVAL, "interval_trunc", fails=True),
    *(_def("date_bin", (INTERVAL, t, t), t, fails=True) for t in STAMPS),
    *(_def("age", (t, t), INTERVAL) for t in STAMPS),
    *(_def("isfinite", (t,), BOOLEAN, "is_finite") for t in (*STAMPS, DATE, INTERVAL)),
    _def("make_date", (INTEGER, INTEGER, INTEGER), DATE, fails=True),
    _def("make_time", (INTEGER, INTEGER, DOUBLE), TIME, fails=True),
    _def("make_timestamp", (INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, DOUBLE), TIMESTAMP,
         fails=True),
    _def("make_timestamptz", (INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, DOUBLE, TEXT),
         TIMESTAMPTZ, "make_timestamp", fails=True, optional=1),
    _def("make_interval", (INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, DOUBLE),
         INTERVAL, fails=True, optional=7),
    _def("justify_hours", (INTERVAL,), INTERVAL),
    _def("justify_days", (INTERVAL,), INTERVAL),
    _def("justify_interval", (INTERVAL,), INTERVAL),
    _def("to_timestamp", (DOUBLE,), TIMESTAMPTZ, "from_epoch", fails=True),
    _def("timezone", (TEXT, TIMESTAMPTZ), TIMESTAMP, "at_time_zone", fails=True),
    _def("timezone", (TEXT, TIMESTAMP), TIMESTAMPTZ, "at_time_zone", fails=True),
    _def("timezone", (INTERVAL, TIMESTAMPTZ), TIMESTAMP, "at_interval_zone"),
    _def("timezone", (INTERVAL, TIMESTAMP), TIMESTAMPTZ, "at_interval_zone"),
    *(_def("overlaps", (t, t, t, t), BOOLEAN) for t in (*STAMPS, TIME)),
    _def("now", (), TIMESTAMPTZ, volatility=Volatility.STABLE, sql="ssql_now()",
         aliases=("transaction_timestamp", "statement_timestamp", "proctime")),
    FunctionDef(name="clock_timestamp", args=(), result=TIMESTAMPTZ, can_fail=False,
                volatility=Volatility.VOLATILE, sql="get_current_timestamp()"),
)  # fmt: skip
