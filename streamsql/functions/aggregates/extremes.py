"""min and max."""

from __future__ import annotations

from streamsql.core.types import (
    BIGINT,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    SqlType,
)  # fmt: skip
from streamsql.functions.definitions import AggregateDef, Pattern, Poly
from streamsql.functions.numeric_types import loose

ORDERED: tuple[SqlType, ...] = (
    INTEGER, BIGINT, SMALLINT, NUMERIC, DOUBLE, REAL, TEXT, DATE, TIME, TIMESTAMP, TIMESTAMPTZ,
    INTERVAL, BYTEA, UUID,
)  # fmt: skip


def _same(types: tuple[SqlType, ...]) -> SqlType:
    return loose(types[0])


def _extreme(name: str, t: Pattern) -> AggregateDef:
    return AggregateDef(name=name, args=(t,), result=_same, sql=name, incremental="min_max",
                        accumulator=name)  # fmt: skip


PATTERNS: tuple[Pattern, ...] = (*ORDERED, Poly.ANYARRAY)
AGGREGATES: tuple[AggregateDef, ...] = tuple(
    _extreme(name, t) for name in ("min", "max") for t in PATTERNS
)
