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

_IMPLICIT, _ASSIGN, _EXPLICIT = Context.IMPLICIT, Context.ASSIGNMENT, Context.EXPLICIT
_CASTS: dict[tuple[Kind, Kind], Context] = {
    (Kind.SMALLINT, Kind.INTEGER): _IMPLICIT,
    (Kind.SMALLINT, Kind.BIGINT): _IMPLICIT,
    (Kind.SMALLINT, Kind.NUMERIC): _IMPLICIT,
    (Kind.SMALLINT, Kind.REAL): _IMPLICIT,
    (Kind.SMALLINT, Kind.DOUBLE): _IMPLICIT,
    (Kind.INTEGER, Kind.SMALLINT): _ASSIGN,
    (Kind.INTEGER, Kind.BIGINT): _IMPLICIT,
    (Kind.INTEGER, Kind.NUMERIC): _IMPLICIT,
    (Kind.INTEGER, Kind.REAL): _IMPLICIT,
    (Kind.INTEGER, Kind.DOUBLE): _IMPLICIT,
    (Kind.INTEGER, Kind.BOOLEAN): _EXPLICIT,
    (Kind.BOOLEAN, Kind.INTEGER): _EXPLICIT,
    (Kind.BIGINT, Kind.SMALLINT): _ASSIGN,
    (Kind.BIGINT, Kind.INTEGER): _ASSIGN,
    (Kind.BIGINT, Kind.NUMERIC): _IMPLICIT,
    (Kind.BIGINT, Kind.REAL): _IMPLICIT,
    (Kind.BIGINT, Kind.DOUBLE): _IMPLICIT,
    (Kind.NUMERIC, Kind.SMALLINT): _ASSIGN,
    (Kind.NUMERIC, Kind.INTEGER): _ASSIGN,
    (Kind.NUMERIC, Kind.BIGINT): _ASSIGN,
    (Kind.NUMERIC, Kind.REAL): _IMPLICIT,
    (Kind.NUMERIC, Kind.DOUBLE): _IMPLICIT,
    (Kind.REAL, Kind.SMALLINT): _ASSIGN,
    (Kind.REAL, Kind.INTEGER): _ASSIGN,
    (Kind.REAL, Kind.BIGINT): _ASSIGN,
    (Kind.REAL, Kind.NUMERIC): _ASSIGN,
    (Kind.REAL, Kind.DOUBLE): _IMPLICIT,
    (Kind.DOUBLE, Kind.SMALLINT): _ASSIGN,
    (Kind.DOUBLE, Kind.INTEGER): _ASSIGN,
    (Kind.DOUBLE, Kind.BIGINT): _ASSIGN,
    (Kind.DOUBLE, Kind.NUMERIC): _ASSIGN,
    (Kind.DOUBLE, Kind.REAL): _ASSIGN,
    (Kind.TEXT, Kind.VARCHAR): _IMPLICIT,
    (Kind.VARCHAR, Kind.TEXT): _IMPLICIT,
    (Kind.DATE, Kind.TIMESTAMP): _IMPLICIT,
    (Kind.DATE, Kind.TIMESTAMPTZ): _IMPLICIT,
    (Kind.TIMESTAMP, Kind.DATE): _ASSIGN,
    (Kind.TIMESTAMP, Kind.TIME): _ASSIGN,
    (Kind.TIMESTAMP, Kind.TIMESTAMPTZ): _IMPLICIT,
    (Kind.TIMESTAMPTZ, Kind.DATE): _ASSIGN,
    (Kind.TIMESTAMPTZ, Kind.TIME): _ASSIGN,
    (Kind.TIMESTAMPTZ, Kind.TIMESTAMP): _ASSIGN,
    (Kind.TIME, Kind.INTERVAL): _IMPLICIT,
    (Kind.INTERVAL, Kind.TIME): _ASSIGN,
    (Kind.JSON, Kind.JSONB): _ASSIGN,
    (Kind.JSONB, Kind.JSON): _ASSIGN,
    (Kind.JSONB, Kind.BOOLEAN): _EXPLICIT,
    (Kind.JSONB, Kind.SMALLINT): _EXPLICIT,
    (Kind.JSONB, Kind.INTEGER): _EXPLICIT,
    (Kind.JSONB, Kind.BIGINT): _EXPLICIT,
    (Kind.JSONB, Kind.REAL): _EXPLICIT,
    (Kind.JSONB, Kind.DOUBLE): _EXPLICIT,
    (Kind.JSONB, Kind.NUMERIC): _EXPLICIT,
}


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
