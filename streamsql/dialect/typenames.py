"""Type names to SqlType."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from streamsql.core import types as t
from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    StatementError,
    UndefinedObject,
)
from streamsql.dialect.positions import position_of

_SIMPLE: dict[exp.DType, t.SqlType] = {
    exp.DType.BOOLEAN: t.BOOLEAN,
    exp.DType.SMALLINT: t.SMALLINT,
    exp.DType.INT: t.INTEGER,
    exp.DType.BIGINT: t.BIGINT,
    exp.DType.FLOAT: t.REAL,
    exp.DType.DOUBLE: t.DOUBLE,
    exp.DType.TEXT: t.TEXT,
    exp.DType.BPCHAR: t.TEXT,
    exp.DType.VARBINARY: t.BYTEA,
    exp.DType.DATE: t.DATE,
    exp.DType.TIME: t.TIME,
    exp.DType.TIMESTAMP: t.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: t.TIMESTAMPTZ,
    exp.DType.INTERVAL: t.INTERVAL,
    exp.DType.UUID: t.UUID,
    exp.DType.JSON: t.JSON,
    exp.DType.JSONB: t.JSONB,
}
_TIMES = (exp.DType.TIME, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.INTERVAL)
MAX_DIGITS = 6
MAX_PRECISION = 38
MAX_VARCHAR = 10_485_760
# types of other systems that people reach for, and what they may use instead
_HINTS = {
    "serial": "Use BIGINT, and let the writer give the number.",
    "bigserial": "Use BIGINT, and let the writer give the number.",
    "timetz": "Use TIMESTAMPTZ.",
    "money": "Use NUMERIC.",
    "xml": "Use TEXT.",
    "inet": "Use TEXT.",
    "hstore": "Use MAP(TEXT, TEXT) or JSONB.",
    "datetime": "Use TIMESTAMP.",
    "datetime64": "Use TIMESTAMP.",
    "uint64": "Use NUMERIC(20, 0).",
    "hugeint": "Use NUMERIC(38, 0).",
    "str": "Use TEXT.",
    "number": "Use NUMERIC.",
    "long": "Use BIGINT.",
    "variant": "Use JSONB.",
    "uint2": "Use INTEGER.",
    "uint4": "Use BIGINT.",
    "uint8": "Use NUMERIC(20, 0).",
    "rw_int256": "Use NUMERIC(38, 0).",
    "object": "Use JSONB.",
}


def type_of(node: exp.DataType) -> t.SqlType:
    """The SqlType that a type name in a tree stands for.

    Raises: UndefinedObject (42704), InvalidParameterValue (22023) for modifiers out of range,
    FeatureNotSupported (0A000) for PostgreSQL types we don't have.
    """
    try:
        return _type_of(node)
    except StatementError as error:
        raise error.at(position_of(node)) from None


def parse_type(text: str) -> t.SqlType:
    """The SqlType with this name, e.g. "numeric(10,2)[]" or "timestamp with time zone".

    Raises: SqlSyntaxError (42601), and what `type_of` raises.
    """
    from streamsql.dialect.parser import Parser

    parser = Parser.of(text)
    node = parser.data_type()
    parser.expect_end()
    return type_of(node)


def _type_of(node: exp.DataType) -> t.SqlType:
    kind = node.this
    simple = _SIMPLE.get(kind)
    if simple is not None and kind not in _TIMES:
        return simple
    numbers = [_modifier(p) for p in node.expressions if isinstance(p, exp.DataTypeParam)]
    if simple is not None:
        if not numbers:
            return simple
        packed = simple.kind is t.Kind.INTERVAL  # with fields; the grammar looked at the digits
        return replace(simple, digits=numbers[0] if packed else min(numbers[0], MAX_DIGITS))
    if kind is exp.DType.DECIMAL:
        return _numeric(numbers)
    if kind in (exp.DType.VARCHAR, exp.DType.CHAR):
        return _character(numbers, fixed=kind is exp.DType.CHAR)
    if kind is exp.DType.ARRAY:
        return t.array_of(type_of(node.expressions[0]))
    if kind is exp.DType.STRUCT:
        fields = tuple((f.name, type_of(f.args["kind"]).plain) for f in node.expressions)
        return t.struct_of(fields)
    if kind is exp.DType.MAP:
        key, value = node.expressions
        return t.map_of(type_of(key).plain, type_of(value).plain)
    if kind is exp.DType.TIMETZ:
        raise FeatureNotSupported(
            "type time with time zone is not supported", hint="Use TIMESTAMPTZ."
        )
    name = str(node.args.get("kind") or kind.value)
    try:
        return t.type_named(name)
    except UndefinedObject as error:
        error.hint = _HINTS.get(name.lower())
        raise


def _modifier(parameter: exp.DataTypeParam) -> int:
    return int(parameter.this.name)


def _numeric(numbers: list[int]) -> t.SqlType:
    if not numbers:
        return t.NUMERIC
    precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
    if len(numbers) > 2:
        raise InvalidParameterValue("invalid NUMERIC type modifier")
    if not 1 <= precision <= MAX_PRECISION:
        raise InvalidParameterValue(
            f"NUMERIC precision {precision} must be between 1 and {MAX_PRECISION}"
        )
    if not 0 <= scale <= precision:
        raise InvalidParameterValue(
            f"NUMERIC scale {scale} must be between 0 and precision {precision}"
        )
    return t.numeric(precision, scale)


def _character(numbers: list[int], *, fixed: bool) -> t.SqlType:
    name = "char" if fixed else "varchar"
    if numbers and not 1 <= numbers[0] <= MAX_VARCHAR:
        if numbers[0] > 2_000_000_000:  # VARCHAR(2147483647), how Flink says "any length"
            return t.VARCHAR
        at_least = numbers[0] < 1
        limit = "must be at least 1" if at_least else f"cannot exceed {MAX_VARCHAR}"
        raise InvalidParameterValue(f"length for type {name} {limit}")
    if not numbers:
        return t.TEXT if fixed else t.VARCHAR
    return t.SqlType(t.Kind.VARCHAR, length=numbers[0])
