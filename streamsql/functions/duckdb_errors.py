"""DuckDB's errors as ours: the SQLSTATE and, where it can be told, the wording of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from streamsql.core import errors
from streamsql.core.errors import StreamSqlError

_OURS = re.compile(r"streamsql:([0-9A-Z]{5}):([^\x1f]*)(?:\x1f(.*))?", re.DOTALL)
_INT = {"INT16": "smallint", "INT32": "integer", "INT64": "bigint", "INT8": "smallint",
        "INT128": "numeric"}  # fmt: skip


def error_class(sqlstate: str) -> type[StreamSqlError]:
    """The class of a SQLSTATE (the first defined with it); InvariantViolation for an unknown
    one."""
    pending: list[type[StreamSqlError]] = [StreamSqlError]
    while pending:
        cls = pending.pop(0)
        if cls.sqlstate == sqlstate and cls is not StreamSqlError:
            return cls
        pending.extend(cls.__subclasses__())
    return errors.InvariantViolation


def translate(exc: Any) -> StreamSqlError:
    """The error of ours that a duckdb.Error means."""
    text = str(exc)
    m = _OURS.search(text)
    if m:
        return error_class(m[1])(m[2].strip(), detail=m[3].strip() if m[3] else None)
    body = re.sub(r"^[A-Za-z ]+ Error: ", "", text).split("\n\nLINE ")[0].strip()
    for pattern, make in _BY_TEXT:
        found = pattern.search(text)
        if found:
            return make(found, body)
    cls = _BY_CLASS.get(type(exc).__name__, errors.InvariantViolation)
    return cls(body)


def _overflow(m: re.Match[str], body: str) -> StreamSqlError:
    named = _INT.get(m[1])
    if named is None:
        return errors.NumericValueOutOfRange("value overflows numeric format")
    return errors.NumericValueOutOfRange(f"{named} out of range")


Maker = Callable[[re.Match[str], str], StreamSqlError]


def _simple(cls: type[StreamSqlError], message: str | None = None) -> Maker:
    return lambda m, body: cls(message or body)


_BY_TEXT: tuple[tuple[re.Pattern[str], Maker], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r"[Dd]ivision by zero|Divide by zero",
         _simple(errors.DivisionByZero, "division by zero")),
        (r"Overflow in (?:addition|subtraction|multiplication) of (INT\d+|DECIMAL)", _overflow),
        (r"destination type (INT\d+)", _overflow),
        (r"Overflow in division of|Overflow on abs|Overflow in negation|Overflow in negate",
         _simple(errors.NumericValueOutOfRange, "integer out of range")),
        (r"to type DECIMAL\(\d+,\d+\)|Could not cast value .* to DECIMAL"
         r"|cast.*DECIMAL.*out of range",
         _simple(errors.NumericValueOutOfRange, "numeric field overflow")),
        (r"[Oo]verflow|out of range", _simple(errors.NumericValueOutOfRange)),
        (r"More than one row returned by a subquery",
         _simple(errors.CardinalityViolation,
                 "more than one row returned by a subquery used as an expression")),
        (r"Like pattern must not end with escape character",
         _simple(errors.InvalidParameterValue, "LIKE pattern must not end with escape character")),
        (r"[Ii]nvalid (?:date|timestamp|time) field|timestamp field value|invalid datetime",
         _simple(errors.InvalidDatetimeFormat)),
        (r"(?:date|time|timestamp) field value out of range",
         _simple(errors.DatetimeFieldOverflow)),
        (r"regular expression|missing \)|invalid escape sequence|Invalid regex",
         _simple(errors.InvalidRegularExpression)),
        (r"Table with name .* does not exist|Table .* does not exist",
         _simple(errors.UndefinedTable)),
        (r"(?:Scalar |Aggregate |Table |Macro )?Function with name .* does not exist",
         _simple(errors.UndefinedFunction)),
        (r"Type with name .* does not exist", _simple(errors.UndefinedObject)),
        (r"Referenced column .* not found|does not have a column named",
         _simple(errors.UndefinedColumn)),
        (r"No function matches the given name", _simple(errors.UndefinedFunction)),
    )
)  # fmt: skip

_BY_CLASS: dict[str, type[StreamSqlError]] = {
    "ParserException": errors.SqlSyntaxError,
    "SyntaxException": errors.SqlSyntaxError,
    "BinderException": errors.DatatypeMismatch,
    "CatalogException": errors.UndefinedObject,
    "ConversionException": errors.InvalidTextRepresentation,
    "OutOfRangeException": errors.NumericValueOutOfRange,
    "ConstraintException": errors.IntegrityError,
    "InvalidInputException": errors.InvalidParameterValue,
    "InterruptException": errors.QueryCanceled,
    "OutOfMemoryException": errors.OutOfMemory,
    "NotImplementedException": errors.FeatureNotSupported,
    "TransactionException": errors.SerializationFailure,
    "IOException": errors.DiskError,
    "PermissionException": errors.InsufficientPrivilege,
}
