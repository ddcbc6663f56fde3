"""Which type can become which, and when by itself: PostgreSQL's pg_cast as data."""

from __future__ import annotations

import enum

from streamsql.core.types import Kind, SqlType


class Context(enum.IntEnum):
    """How willing a cast is; a cast is allowed in its own context and in those after it."""

    IMPLICIT = 0
    ASSIGNMENT = 1
    EXPLICIT = 2


_CATEGORY: dict[Kind, str] = {
    Kind.BOOLEAN: "B",
    Kind.SMALLINT: "N", Kind.INTEGER: "N", Kind.BIGINT: "N",
    Kind.REAL: "N", Kind.DOUBLE: "N", Kind.NUMERIC: "N",
    Kind.TEXT: "S", Kind.VARCHAR: "S",
    Kind.DATE: "D", Kind.TIME: "D", Kind.TIMESTAMP: "D", Kind.TIMESTAMPTZ: "D",
    Kind.INTERVAL: "T",
    Kind.ARRAY: "A",
    Kind.UNKNOWN: "X",
}  # fmt: skip

_PREFERRED = frozenset({Kind.BOOLEAN, Kind.DOUBLE, Kind.TEXT, Kind.TIMESTAMPTZ, Kind.INTERVAL})

I, A, E = Context.IMPLICIT, Context.ASSIGNMENT, Context.EXPLICIT
_CASTS: dict[tuple[Kind, Kind], Context] = {
    (Kind.SMALLINT, Kind.INTEGER): I, (Kind.SMALLINT, Kind.BIGINT): I,
    (Kind.SMALLINT, Kind.NUMERIC): I, (Kind.SMALLINT, Kind.REAL): I,
    (Kind.SMALLINT, Kind.DOUBLE): I,
    (Kind.INTEGER, Kind.SMALLINT): A, (Kind.INTEGER, Kind.BIGINT): I,
    (Kind.INTEGER, Kind.NUMERIC): I, (Kind.INTEGER, Kind.REAL): I, (Kind.INTEGER, Kind.DOUBLE): I,
    (Kind.INTEGER, Kind.BOOLEAN): E, (Kind.BOOLEAN, Kind.INTEGER): E,
    (Kind.BIGINT, Kind.SMALLINT): A, (Kind.BIGINT, Kind.INTEGER): A,
    (Kind.BIGINT, Kind.NUMERIC): I, (Kind.BIGINT, Kind.REAL): I, (Kind.BIGINT, Kind.DOUBLE): I,
    (Kind.NUMERIC, Kind.SMALLINT): A, (Kind.NUMERIC, Kind.INTEGER): A,
    (Kind.NUMERIC, Kind.BIGINT): A, (Kind.NUMERIC, Kind.REAL): I, (Kind.NUMERIC, Kind.DOUBLE): I,
    (Kind.REAL, Kind.SMALLINT): A, (Kind.REAL, Kind.INTEGER): A, (Kind.REAL, Kind.BIGINT): A,
    (Kind.REAL, Kind.NUMERIC): A, (Kind.REAL, Kind.DOUBLE): I,
    (Kind.DOUBLE, Kind.SMALLINT): A, (Kind.DOUBLE, Kind.INTEGER): A, (Kind.DOUBLE, Kind.BIGINT): A,
    (Kind.DOUBLE, Kind.NUMERIC): A, (Kind.DOUBLE, Kind.REAL): A,
    (Kind.TEXT, Kind.VARCHAR): I, (Kind.VARCHAR, Kind.TEXT): I,
    (Kind.DATE, Kind.TIMESTAMP): I, (Kind.DATE, Kind.TIMESTAMPTZ): I,
    (Kind.TIMESTAMP, Kind.DATE): A, (Kind.TIMESTAMP, Kind.TIME): A,
    (Kind.TIMESTAMP, Kind.TIMESTAMPTZ): I,
    (Kind.TIMESTAMPTZ, Kind.DATE): A, (Kind.TIMESTAMPTZ, Kind.TIME): A,
    (Kind.TIMESTAMPTZ, Kind.TIMESTAMP): A,
    (Kind.TIME, Kind.INTERVAL): I, (Kind.INTERVAL, Kind.TIME): A,
    (Kind.JSON, Kind.JSONB): A, (Kind.JSONB, Kind.JSON): A,
    (Kind.JSONB, Kind.BOOLEAN): E, (Kind.JSONB, Kind.SMALLINT): E, (Kind.JSONB, Kind.INTEGER): E,
    (Kind.JSONB, Kind.BIGINT): E, (Kind.JSONB, Kind.REAL): E, (Kind.JSONB, Kind.DOUBLE): E,
    (Kind.JSONB, Kind.NUMERIC): E,
}  # fmt: skip


def category(t: SqlType) -> str:
    """PostgreSQL's typcategory; each type outside of the table is alone in its own."""
    return _CATEGORY.get(t.kind, "U:" + t.kind.value)


def is_preferred(t: SqlType) -> bool:
    """Preferred in its category, to which ambiguous calls lean."""
    return t.kind in _PREFERRED


def can_cast(source: SqlType, target: SqlType, context: Context) -> bool:
    """Whether a value of `source` may become `target` in this context."""
    if source.kind is Kind.UNKNOWN or source == target:
        return True
    if source.kind is Kind.ARRAY and target.kind is Kind.ARRAY:
        assert source.element is not None and target.element is not None
        return can_cast(source.element, target.element, context)
    if source.kind is Kind.STRUCT and target.kind is Kind.STRUCT:
        return len(source.fields) == len(target.fields) and all(
            can_cast(s, t, context)
            for (_, s), (_, t) in zip(source.fields, target.fields, strict=True)
        )
    if source.kind is Kind.MAP and target.kind is Kind.MAP:
        assert source.key and target.key and source.value and target.value
        return can_cast(source.key, target.key, context) and can_cast(
            source.value, target.value, context
        )
    if source.kind is target.kind:
        return True  # only the modifier differs
    listed = _CASTS.get((source.kind, target.kind))
    if listed is not None:
        return listed <= context
    if target.is_text:  # every type has an output function
        return context >= Context.ASSIGNMENT
    if source.is_text:  # and an input function
        return context is Context.EXPLICIT
    if target.kind in (Kind.JSON, Kind.JSONB) and source.kind in (Kind.STRUCT, Kind.MAP):
        return context is Context.EXPLICIT
    return False
