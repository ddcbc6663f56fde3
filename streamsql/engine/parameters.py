"""Parameter values: Python objects (or PostgreSQL's text) as constants of the prepared types."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from streamsql.core.errors import (
    DatatypeMismatch,
    IndeterminateDatatype,
    ProtocolViolation,
    StreamSqlError,
)
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    SqlType,
)
from streamsql.functions.expressions import Literal
from streamsql.functions.literals import from_arrow_scalar, parse_literal

_JSON = (Kind.JSON, Kind.JSONB)


def literals(values: Sequence[Any], types: Sequence[SqlType], timezone: str) -> tuple[Literal, ...]:
    """One constant a parameter. Raises: ProtocolViolation (08P01) if the numbers differ."""
    if len(values) != len(types):
        raise ProtocolViolation(
            f"the statement takes {len(types)} parameters, but {len(values)} were given"
        )
    return tuple(
        literal(v, t, timezone, i) for i, (v, t) in enumerate(zip(values, types, strict=True), 1)
    )


def literal(value: Any, type_: SqlType, timezone: str, index: int = 0) -> Literal:
    """A Python value as a constant; a str is read as PostgreSQL's text form of the type."""
    if value is None:
        return Literal(value=None, type=type_)
    if isinstance(value, bool) and type_.is_text:
        value = "true" if value else "false"
    if isinstance(value, uuid.UUID):
        value = str(value)
    if type_.kind in _JSON and not isinstance(value, str | bytes):
        value = json.dumps(value)
    if isinstance(value, str):
        return parse_literal(value, type_, None, timezone)
    if type_.kind is Kind.INTERVAL and isinstance(value, datetime.timedelta):
        us = (value.days * 86400 + value.seconds) * 1_000_000 + value.microseconds
        return Literal(value=(0, value.days, us - value.days * 86_400_000_000), type=type_)
    if type_.is_text:
        return parse_literal(str(value), type_, None, timezone)
    try:
        if type_.kind is Kind.NUMERIC:
            return parse_literal(str(value), type_, None, timezone)
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return parse_literal(value.isoformat(), type_, None, timezone)
        scalar = pa.scalar(value, type_.arrow)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
    ) as error:
        try:
            return parse_literal(str(value), type_, None, timezone)
        except StreamSqlError:
            raise DatatypeMismatch(
                f"parameter ${index} is of type {type_} but the value is of Python type "
                f"{type(value).__name__}"
            ) from error
    return from_arrow_scalar(scalar, type_)


_PYTHON_TYPES: tuple[tuple[type, SqlType], ...] = (
    (bool, BOOLEAN),
    (int, BIGINT),
    (float, DOUBLE),
    (Decimal, NUMERIC),
    (bytes, BYTEA),
    (datetime.datetime, TIMESTAMP),
    (datetime.date, DATE),
    (datetime.time, TIME),
)


def guess_type(value: Any) -> SqlType | None:
    """The type a Python value would have by itself; None leaves it to the statement."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return TIMESTAMPTZ
    for python, sql in _PYTHON_TYPES:
        if isinstance(value, python):
            return sql
    return None


def settle(types: Sequence[SqlType | None]) -> tuple[SqlType, ...]:
    """Types of all parameters; those nothing was deduced for are text."""
    return tuple(TEXT if t is None or t.kind is Kind.UNKNOWN else t for t in types)


def positional(parameters: Any) -> tuple[Any, ...]:
    """Parameters of `execute` as a tuple: a sequence, or a mapping with keys "1", "2", …."""
    if parameters is None:
        return ()
    if isinstance(parameters, Mapping):
        try:
            order = sorted(parameters, key=lambda k: int(str(k).lstrip("$")))
        except ValueError:
            raise IndeterminateDatatype(
                "parameters are numbered",
                hint="Write $1, $2, … in the statement and give a list of values.",
            ) from None
        return tuple(parameters[k] for k in order)
    return tuple(parameters)


@lru_cache(maxsize=256)
def numbered(sql: str, count: int) -> str:
    """A text whose placeholders are `?` (as many as there are values) with $1, $2, … instead.

    >>> numbered("SELECT ?, '?' FROM t WHERE a>=?", 2)
    "SELECT $1, '?' FROM t WHERE a>= $2"
    """
    from streamsql.dialect.lexer import Kind as TokenKind
    from streamsql.dialect.lexer import tokenize

    tokens = tokenize(sql)
    marks = [
        at
        for t in tokens
        if t.kind is TokenKind.OPERATOR and sql[t.start : t.end] not in _QUESTIONS
        for at in range(t.start, t.end)  # `a=?` is read as an operator of two characters
        if sql[at] == "?"
    ]
    if len(marks) != count or any(t.kind is TokenKind.PARAMETER for t in tokens):
        return sql
    pieces, done = [], 0
    for i, at in enumerate(marks, 1):
        glued = at and sql[at - 1] in _OPERATORS
        pieces += [sql[done:at], f" ${i}" if glued else f"${i}"]
        done = at + 1
    return "".join(pieces) + sql[done:]


_QUESTIONS = frozenset(("?|", "?&", "@?"))
"""Operators of JSONB; a lone `?` between two operands is told by the number of values."""
_OPERATORS = frozenset("+-*/<>=~!@#%^&|`?")


_BY_OID: dict[int, SqlType] = {}


def type_of_oid(oid: int) -> SqlType | None:
    """The SQL type a client declared by OID; None for 0, unknown and what is not ours."""
    from streamsql.core.types import array_of

    if not _BY_OID:
        for kind in Kind:
            if kind in (Kind.ARRAY, Kind.STRUCT, Kind.MAP, Kind.UNKNOWN):
                continue
            base = SqlType(kind)
            _BY_OID[base.oid] = base
            _BY_OID.setdefault(array_of(base).oid, array_of(base))
    return _BY_OID.get(oid)
