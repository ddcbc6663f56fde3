"""Constants: from SQL text to Literal nodes, from Literals to Arrow scalars and DuckDB SQL."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from streamsql.core.errors import NumericValueOutOfRange, StreamSqlError
from streamsql.core.types import BIGINT, DOUBLE, INTEGER, Kind, SqlType, numeric
from streamsql.functions.expressions import Call, Expr, Literal, transform
from streamsql.functions.textio.calendar import US_PER_DAY
from streamsql.functions.textio.scalar_input import fit_decimal, numeric_overflow, parse_value

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime.datetime(1970, 1, 1)
_MIN_DAY, _MAX_DAY = -719162, 2932896  # what datetime.date can hold


def number_literal(text: str, position: int | None = None) -> Literal:
    """A number as written in SQL: INTEGER, BIGINT or NUMERIC by its size and form.

    Raises: NumericValueOutOfRange (22003) beyond 38 digits and, written with an exponent, beyond
    what a double holds.

    >>> [str(number_literal(x).type) for x in ("7", "3000000000", "0.908")]
    ['integer', 'bigint', 'numeric']
    """
    clean = text.replace("_", "")
    if clean[:2].lower() in ("0x", "0o", "0b"):
        clean = str(int(clean, 0))
    if clean.isdigit():
        value = int(clean)
        if value < 2**31:
            return Literal(value=value, type=INTEGER, position=position)
        if value < 2**63:
            return Literal(value=value, type=BIGINT, position=position)
    number = Decimal(clean)
    if "e" in clean.lower() and _digits_needed(number) > 38:
        # 1e308: PostgreSQL's numeric could hold it, ours can not; a double can
        return Literal(value=_double(clean, number, position), type=DOUBLE, position=position)
    type_ = tight_numeric(number, position)
    return Literal(value=fit_decimal(number, type_), type=type_, position=position)


def _double(text: str, number: Decimal, position: int | None) -> float:
    value = float(text)
    if math.isinf(value) or (value == 0.0 and number != 0):
        raise NumericValueOutOfRange(
            f'"{text}" is out of range for type double precision', position=position
        )
    return value


def _digits_needed(value: Decimal) -> int:
    _, digit_tuple, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return max(len(digit_tuple) + exponent, 0) + max(-exponent, 0)


def tight_numeric(value: Decimal, position: int | None = None) -> SqlType:
    """The smallest NUMERIC that holds the value with all its written digits.

    A value with more than 38 digits keeps its whole part and as many decimals as there is room for.
    """
    _, digit_tuple, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    whole = max(0, len(digit_tuple) + exponent)
    if whole > 38:
        raise numeric_overflow(numeric(38, 0, constrained=False)).at(position)
    scale = min(scale, 38 - whole)
    return numeric(max(whole + scale, 1), scale, constrained=False)


def parse_literal(
    text: str, type_: SqlType, position: int | None = None, timezone: str = "UTC"
) -> Literal:
    """The literal of `type_` whose PostgreSQL text is `text`. Raises: 22P02, 22003, 22007,
    22008."""
    try:
        value = parse_value(text, type_, timezone)
    except StreamSqlError as e:
        raise e.at(position) from None
    return Literal(value=_public(value, type_), type=type_, position=position)


def null_literal(type_: SqlType, position: int | None = None) -> Literal:
    """NULL of a type."""
    return Literal(value=None, type=type_, position=position)


def timestamptz_literal(us: int) -> Literal:
    """A TIMESTAMPTZ constant from µs UTC (how now() is frozen)."""
    from streamsql.core.types import TIMESTAMPTZ

    return Literal(value=_public(us, TIMESTAMPTZ), type=TIMESTAMPTZ)


def _public(value: Any, t: SqlType) -> Any:
    """Stored integers as datetime objects where Python has them, lists as tuples (hashable)."""
    if value is None:
        return None
    if t.kind is Kind.DATE and _MIN_DAY <= value <= _MAX_DAY:
        return _EPOCH.date() + datetime.timedelta(days=value)
    if t.kind is Kind.TIME and value < US_PER_DAY:
        return (_EPOCH + datetime.timedelta(microseconds=value)).time()
    in_range = t.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) and (
        _MIN_DAY < value // US_PER_DAY < _MAX_DAY
    )
    if in_range:
        moment = _EPOCH + datetime.timedelta(microseconds=value)
        return moment.replace(tzinfo=datetime.UTC) if t.kind is Kind.TIMESTAMPTZ else moment
    if t.kind is Kind.ARRAY:
        assert t.element is not None
        return tuple(_public(v, t.element) for v in value)
    if t.kind is Kind.STRUCT:
        return tuple((name, _public(value.get(name), ft)) for name, ft in t.fields)
    if t.kind is Kind.MAP:
        assert t.key is not None and t.value is not None
        return tuple((_public(k, t.key), _public(v, t.value)) for k, v in value)
    return value


def stored(value: Any, t: SqlType) -> Any:
    """A literal's value as Arrow stores it: days, µs, interval triple, lists."""
    if value is None or (isinstance(value, int) and t.kind is not Kind.NUMERIC):
        return value
    if t.kind is Kind.DATE:
        return (value - _EPOCH.date()).days
    if t.kind is Kind.TIME:
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1_000_000 + value.microsecond
    if t.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return (value - _EPOCH) // datetime.timedelta(microseconds=1)
    if t.kind is Kind.INTERVAL:
        if isinstance(value, datetime.timedelta):
            whole = value // datetime.timedelta(microseconds=1)
            return 0, value.days, whole - value.days * US_PER_DAY
        months, days, us = value
        return months, days, us
    if t.kind is Kind.ARRAY:
        assert t.element is not None
        return [stored(v, t.element) for v in value]
    if t.kind is Kind.STRUCT:
        pairs = value.items() if isinstance(value, dict) else value
        return {n: stored(v, ft) for (n, v), (_, ft) in zip(pairs, t.fields, strict=True)}
    if t.kind is Kind.MAP:
        assert t.key is not None and t.value is not None
        return [(stored(k, t.key), stored(v, t.value)) for k, v in value]
    return value


def arrow_value(value: Any, t: SqlType) -> Any:
    """A stored value in the form `pa.scalar(…, type=t.arrow)` takes."""
    import pyarrow as pa

    if value is None:
        return None
    if t.kind is Kind.INTERVAL:
        months, days, us = value
        return pa.MonthDayNano([months, days, us * 1000])
    if t.kind is Kind.ARRAY:
        assert t.element is not None
        return [arrow_value(v, t.element) for v in value]
    if t.kind is Kind.STRUCT:
        return {n: arrow_value(value[n], ft) for n, ft in t.fields}
    if t.kind is Kind.MAP:
        assert t.key is not None and t.value is not None
        return [(arrow_value(k, t.key), arrow_value(v, t.value)) for k, v in value]
    return value


def to_arrow_scalar(literal: Literal) -> pa.Scalar:
    """The literal as an Arrow scalar of exactly `literal.type.arrow`."""
    # 0.0 and -0.0 are equal keys, so floats are not remembered
    return _scalar(literal) if literal.type.is_float else _cached_scalar(literal)


def _scalar(literal: Literal) -> pa.Scalar:
    import pyarrow as pa

    value = arrow_value(stored(literal.value, literal.type), literal.type)
    return pa.scalar(value, type=literal.type.arrow)


_cached_scalar = lru_cache(maxsize=4096)(_scalar)


def from_arrow_scalar(scalar: pa.Scalar, t: SqlType) -> Literal:
    """The literal of a computed scalar (constant folding)."""

    def plain(s: pa.Scalar, t: SqlType) -> Any:
        if not s.is_valid:
            return None
        if t.kind is Kind.ARRAY:
            assert t.element is not None
            return [plain(v, t.element) for v in s.values]
        if t.kind is Kind.STRUCT:
            return {n: plain(s[n], ft) for n, ft in t.fields}
        if t.kind is Kind.MAP:
            assert t.key is not None and t.value is not None
            return [(plain(e["key"], t.key), plain(e["value"], t.value)) for e in s.values]
        if t.kind is Kind.INTERVAL:
            v = s.as_py()
            return v.months, v.days, v.nanoseconds // 1000
        if t.kind in (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
            return s.value
        return s.as_py()

    return Literal(value=_public(plain(scalar, t), t), type=t)


def sql_string(text: str) -> str:
    """A DuckDB string literal."""
    return "'" + text.replace("'", "''") + "'"


def literal_sql(literal: Literal) -> str:
    """DuckDB SQL of the constant, of exactly the type `literal.type.duckdb`."""
    value = stored(literal.value, literal.type)
    return _value_sql(value, literal.type)


def _value_sql(value: Any, t: SqlType) -> str:
    duck = t.duckdb
    if value is None:
        return f"CAST(NULL AS {duck})"
    if t.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if t.is_integer:
        return f"CAST({value} AS {duck})"
    if t.kind is Kind.NUMERIC:
        return f"CAST('{value:f}' AS {duck})"
    if t.is_float:
        if math.isfinite(value):
            return f"CAST('{value!r}' AS {duck})"
        word = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        return f"CAST('{word}' AS {duck})"
    if t.kind is Kind.BYTEA:
        return f"unhex('{value.hex()}')"
    if t.kind is Kind.DATE:
        return _date_sql(value)
    if t.kind is Kind.TIME:
        return (
            f"CAST(make_timestamp(CAST({value} AS BIGINT)) AS TIME)"
            if (value < US_PER_DAY)
            else "TIME '24:00:00'"
        )
    if t.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return _timestamp_sql(value, duck)
    if t.kind is Kind.INTERVAL:
        months, days, us = value
        return (
            f"(to_months(CAST({months} AS INTEGER)) + to_days(CAST({days} AS INTEGER))"
            f" + to_microseconds(CAST({us} AS BIGINT)))"
        )
    if t.kind is Kind.ARRAY:
        assert t.element is not None
        inner = ", ".join(_value_sql(v, t.element) for v in value)
        return f"CAST([{inner}] AS {duck})"
    if t.kind is Kind.STRUCT:
        inner = ", ".join(f'"{n}": {_value_sql(value[n], ft)}' for n, ft in t.fields)
        return f"CAST({{{inner}}} AS {duck})"
    if t.kind is Kind.MAP:
        assert t.key is not None and t.value is not None
        keys = ", ".join(_value_sql(k, t.key) for k, _ in value)
        values = ", ".join(_value_sql(v, t.value) for _, v in value)
        return f"CAST(map([{keys}], [{values}]) AS {duck})"
    return sql_string(value)


def _date_sql(days: int) -> str:
    if abs(days) == 2**31 - 1:
        return f"CAST('{'-' if days < 0 else ''}infinity' AS DATE)"
    return f"CAST(DATE '1970-01-01' + CAST({days} AS INTEGER) AS DATE)"


def _timestamp_sql(us: int, duck: str) -> str:
    if abs(us) == 2**63 - 1:
        return f"CAST('{'-' if us < 0 else ''}infinity' AS {duck})"
    made = "make_timestamptz" if duck == "TIMESTAMPTZ" else "make_timestamp"
    return f"{made}(CAST({us} AS BIGINT))"


def freeze_now(expr: Expr, now_us: int) -> Expr:
    """The expression with every now() replaced by the constant it means at `now_us`."""

    def replace_now(node: Expr) -> Expr:
        if isinstance(node, Call) and node.function == "now":
            return timestamptz_literal(now_us)
        return node

    return transform(expr, replace_now)
