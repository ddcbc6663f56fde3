"""connector = 'nexmark': the standard auction-house benchmark as a live source."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.connectors.base import Options
from streamsql.connectors.generated import Clock, GeneratedSource
from streamsql.connectors.nexmark_model import (
    BLOCK_EVENTS,
    DEFAULT_RATE,
    EPOCH_EVENTS,
    ROWS_PER_BLOCK,
    TABLES,
    NexmarkModel,
    Rows,
)
from streamsql.core.delta import make_batch
from streamsql.core.errors import InvalidParameterValue
from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType

_EVENT_TYPE = {"person": 0, "auction": 1, "bid": 2}


class NexmarkSource(GeneratedSource):
    """People, auctions or bids, or all of them in one stream.

    Options: table.type = person | auction | bid (without it: one stream of all events, for columns
    event_type, person, auction, bid), events (how many in all, over the three tables; default: for
    ever), rate (events per second of wall clock over all tables; 0, the default = as fast as
    possible), event_rate (events per second of event time; default: rate, or 10,000), seed (default
    1), max_disorder_ms (default 0). RisingWave's nexmark.event.num, nexmark.split.num and
    nexmark.min.event.gap.in.ns are read too.
    Columns are found by name without regard to case and underscores (dateTime = date_time).
    """

    def __init__(
        self,
        options: Mapping[str, str],
        schema: Schema,
        format: Any = None,
        *,
        time_column: int | None = None,
        paced: bool = True,
        clock: Clock = time.monotonic,
    ) -> None:
        given = Options("nexmark", options, format.options if format else {})
        table = given.choice(
            "table.type", "nexmark.table.type", "table_type", "type",
            among=("person", "auction", "bid", "all"), default="all",
        )  # fmt: skip
        events = given.integer("events", "nexmark.event.num", "event.num", "nexmark.events")
        rate = given.number("rate", "nexmark.rate", default=0.0) or 0.0
        gap_ns = given.integer("nexmark.min.event.gap.in.ns", "min.event.gap.in.ns")
        default_rate = 10**9 // gap_ns if gap_ns else round(rate) or DEFAULT_RATE
        event_rate = given.integer("event_rate", "event.rate", default=default_rate, least=1)
        seed = given.integer("seed", "nexmark.seed", default=1) or 0
        disorder = given.integer("max_disorder_ms", "max.disorder.ms", default=0) or 0
        given.text("nexmark.split.num")  # one reader makes them all, whatever the split
        given.finish()
        self._table = table
        self._schema = schema
        self._model = NexmarkModel(seed, event_rate or DEFAULT_RATE, disorder)
        self._events = events
        self._pick = [_picker(table, c.name, c.type) for c in schema]
        per_block = BLOCK_EVENTS if table == "all" else ROWS_PER_BLOCK[table]
        super().__init__(
            block_rows=per_block,
            rows_per_second=rate * per_block / BLOCK_EVENTS if paced else 0.0,
            limit=None if events is None else _rows_among(events, table),
            clock=clock,
        )

    def make_block(self, number: int) -> pa.RecordBatch:
        """The block's rows. With `events` inside the block, those events alone, so that disorder
        can not carry a later event in."""
        made = self._model.block(number)
        if self._events is not None and self._events < (number + 1) * BLOCK_EVENTS:
            made = {name: _first_events(rows, self._events) for name, rows in made.items()}
        if self._table == "all":
            arrays, count = self._all_events(made)
        else:
            rows = made[self._table]
            count = len(rows.numbers)
            arrays = [pick(rows.columns) for pick in self._pick]
        return make_batch(arrays, self._schema.arrow, count)

    def _all_events(self, made: Mapping[str, Rows]) -> tuple[list[pa.Array], int]:
        """One row per event, in order of their numbers (of arrival inside each table)."""
        numbers = np.concatenate([np.sort(made[t].numbers) for t in _EVENT_TYPE])
        order = pa.array(np.argsort(numbers, kind="stable"))
        kinds = np.concatenate([np.full(len(made[t].numbers), k) for t, k in _EVENT_TYPE.items()])
        columns: dict[str, pa.Array] = {"event_type": pa.array(kinds).take(order)}
        before = 0
        for table in _EVENT_TYPE:
            size = len(made[table].numbers)
            place = np.full(len(numbers), -1)
            place[before : before + size] = np.arange(size)
            index = pa.array(place, mask=place < 0).take(order)
            for name, column in made[table].columns.items():
                columns[f"{table}.{name}"] = column.take(index)
            columns[table] = index
            before += size
        return [pick(columns) for pick in self._pick], len(numbers)


def _rows_among(events: int, table: str) -> int:
    """Rows of a table ("all" = of all) among the first `events` events."""
    if table == "all":
        return events
    whole, rest = divmod(events, BLOCK_EVENTS)
    low, high = {"person": (0, 1), "auction": (1, 4), "bid": (4, 50)}[table]
    epochs, part = divmod(rest, EPOCH_EVENTS)
    rows = whole * ROWS_PER_BLOCK[table] + epochs * (high - low)
    return rows + min(max(part - low, 0), high - low)


Picker = Callable[[Mapping[str, pa.Array]], pa.Array]


def _picker(table: str, name: str, type_: SqlType) -> Picker:
    """How a declared column is made. Raises: InvalidParameterValue (22023)."""
    if table == "all":
        return _picker_of_all(name, type_)
    key = _column_named(table, name)
    return lambda columns: _as_type(columns[key], type_)


def _picker_of_all(name: str, type_: SqlType) -> Picker:
    plain = name.lower()
    if plain == "event_type":
        return lambda columns: columns["event_type"].cast(type_.arrow)
    if plain not in TABLES or type_.kind is not Kind.STRUCT:
        raise InvalidParameterValue(
            f'a nexmark source of all events has no column "{name}" of type {type_}',
            hint="Declare event_type and person, auction, bid as STRUCT, or set table.type.",
        )
    fields = [(_column_named(plain, f), t) for f, t in type_.fields]

    def pick(columns: Mapping[str, pa.Array]) -> pa.Array:
        parts = [_as_type(columns[f"{plain}.{key}"], t) for key, t in fields]
        return pa.StructArray.from_arrays(
            parts, fields=list(type_.arrow), mask=columns[plain].is_null()
        )

    return pick


def _column_named(table: str, name: str) -> str:
    wanted = name.lower().replace("_", "")
    for column in TABLES[table]:
        if column.replace("_", "") == wanted:
            return column
    raise InvalidParameterValue(
        f'the nexmark table "{table}" has no column "{name}"',
        hint=f"Its columns are: {', '.join(TABLES[table])}.",
    )


def _as_type(column: pa.Array, type_: SqlType) -> pa.Array:
    if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return column.cast(pa.timestamp("ms")).cast(type_.arrow)
    return column if column.type == type_.arrow else column.cast(type_.arrow)


def _first_events(rows: Rows, events: int) -> Rows:
    """Those with a number below `events`."""
    keep = rows.numbers < events
    mask = pa.array(keep)
    return Rows({k: v.filter(mask) for k, v in rows.columns.items()}, rows.numbers[keep])
