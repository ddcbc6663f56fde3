"""Replay by event time: rows are let through as their own clock says, only faster."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.connectors.formats.base import Int64Array
from streamsql.core.errors import InvalidParameterValue
from streamsql.core.logical_time import US_PER_DAY
from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType

_BEFORE_ALL = -(2**62)


class EventTimeColumn:
    """The column that a replay goes by: TIMESTAMP(TZ), DATE, or a whole number of milliseconds.

    name: a column, or a dotted path into a STRUCT; None = the watermark column, else the first
    TIMESTAMP column. Raises: InvalidParameterValue (22023).
    """

    def __init__(self, schema: Schema, name: str | None, time_column: int | None) -> None:
        path = (name or "").split(".")
        if name is None:
            index = time_column if time_column is not None else _first_time_column(schema)
        else:
            index = schema.index(path[0])
        if index is None or index < 0:
            raise InvalidParameterValue(
                "replay = 'event_time' needs a column with the event time",
                hint="Name it: replay_column = '…' in WITH (…).",
            )
        self._index = index
        self._fields = tuple(path[1:])
        self._kind = _kind_at(schema[index].type, self._fields)

    def microseconds(self, batch: pa.RecordBatch) -> Int64Array:
        """int64 [n]: event time of each row, µs; NULL = before everything."""
        column = batch.column(self._index)
        for name in self._fields:
            column = pc.struct_field(column, name)
        if self._kind is Kind.DATE:
            values = column.cast(pa.int32()).cast(pa.int64())
            scale = US_PER_DAY
        elif self._kind is Kind.BIGINT:
            values, scale = column, 1000
        else:
            values, scale = column.cast(pa.int64()), 1
        filled = values.fill_null(_BEFORE_ALL // scale)
        return np.asarray(filled).astype(np.int64) * scale


class Pace:
    """Lets event time advance `speed` times as fast as the wall clock, from the first row on.

    >>> pace = Pace(60.0, clock=iter([0.0, 1.0]).__next__)
    >>> times = np.array([0, 30_000_000, 90_000_000])
    >>> pace.ready(times), pace.ready(times)
    (1, 2)
    """

    def __init__(self, speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._speed = speed
        self._clock = clock
        self._origin: tuple[float, int] | None = None

    def ready(self, latest: Int64Array) -> int:
        """How many rows may go now. latest: int64 [n], the running maximum of event time, µs."""
        now = self._clock()
        if self._origin is None:
            known = latest[latest > _BEFORE_ALL // 2]
            if not len(known):
                return len(latest)
            self._origin = (now, int(known[0]))
        wall, event = self._origin
        horizon = event + (now - wall) * self._speed * 1e6
        return int(np.searchsorted(latest, horizon, side="right"))


def _first_time_column(schema: Schema) -> int:
    for i, column in enumerate(schema):
        if column.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
            return i
    return -1


def _kind_at(type_: SqlType, fields: tuple[str, ...]) -> Kind:
    for name in fields:
        inner = dict(type_.fields).get(name)
        if inner is None:
            known = ", ".join(field for field, _ in type_.fields)
            raise InvalidParameterValue(
                f'replay_column: {type_} has no field "{name}"',
                hint=f"Its fields are {known}." if known else "It has no fields at all.",
            )
        type_ = inner
    if type_.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DATE, Kind.BIGINT):
        raise InvalidParameterValue(
            f"replay_column must be a timestamp, a date or a bigint of milliseconds, not {type_}"
        )
    return type_.kind
