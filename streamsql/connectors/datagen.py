"""connector = 'datagen': made-up rows, by the options of RisingWave's and Flink's generator."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.connectors.base import Options
from streamsql.connectors.generated import Clock, GeneratedSource
from streamsql.core.delta import make_batch
from streamsql.core.errors import FeatureNotSupported, InvalidParameterValue
from streamsql.core.logical_time import US_PER_DAY
from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType

BLOCK_ROWS = 8192
"""Rows are drawn in blocks with a random stream of their own, so that any row number can be sought
and brings the same values again."""

_LETTERS = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", np.uint8)
_RANGE: dict[Kind, tuple[int, int]] = {
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (-(2**63), 2**63 - 1),
}
Maker = Callable[[np.random.Generator, int, int], pa.Array]
"""(random stream, first row number, rows) -> column."""


class DatagenSource(GeneratedSource):
    """Random or counted values for each column.

    Options: rows-per-second (default 10; 0 = as fast as possible), number-of-rows (default: for
    ever), seed, and per column fields.<c>.kind = random | sequence, .min, .max, .start, .end,
    .length, .max-past, .null-rate, .seed; fields.<c>.<f>.… for a STRUCT, fields.<c>.element.… for
    an array. The dotted spellings (datagen.rows.per.second, max_past) are read too.
    A sequence that reaches its end ends the source. Timestamps are drawn from the last `max-past`
    before the moment they are made.
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
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        given = Options("datagen", options, format.options if format else {})
        rate = given.number("rows-per-second", "datagen.rows.per.second", "rows_per_second")
        super().__init__(
            block_rows=BLOCK_ROWS,
            rows_per_second=0.0 if not paced else 10.0 if rate is None else rate,
            limit=given.integer("number-of-rows", "datagen.number.of.rows", "number_of_rows"),
            clock=clock,
        )
        given.text("datagen.split.num")  # one reader makes them all, whatever the split
        self._seed = given.integer("seed", default=1) or 0
        fields = {k.replace("_", "-"): v for k, v in given.starting_with("fields.").items()}
        given.finish()
        self._schema = schema
        self._now_us = now_us
        self._makers: list[tuple[int, Maker]] = []
        for i, column in enumerate(schema):
            name = column.name.lower().replace("_", "-")
            own = _Field(fields, name)
            seed = own.integer("seed", i + 1)
            self._makers.append((seed or 0, self._maker(column.type, own)))
        if fields:
            name = next(iter(fields))
            raise InvalidParameterValue(f'connector "datagen" has no option "fields.{name}"')

    def make_block(self, number: int) -> pa.RecordBatch:
        arrays = [
            make(np.random.default_rng([self._seed, seed, number]), number * BLOCK_ROWS, BLOCK_ROWS)
            for seed, make in self._makers
        ]
        return make_batch(arrays, self._schema.arrow, BLOCK_ROWS)

    # --- values -----------------------------------------------------------------------------------
    def _maker(self, type_: SqlType, field: _Field) -> Maker:
        """The generator of one column. Raises: InvalidParameterValue (22023)."""
        null_rate = field.number("null-rate", 0.0)
        kind = field.text("kind", "random").lower()
        if kind == "sequence":
            make = self._sequence(type_, field)
        elif kind == "random":
            make = self._random(type_, field)
        else:
            raise InvalidParameterValue(f'datagen kind must be random or sequence, not "{kind}"')
        if not null_rate:
            return make
        return lambda rng, first, n: _with_nulls(make(rng, first, n), rng.random(n) < null_rate)

    def _sequence(self, type_: SqlType, field: _Field) -> Maker:
        start, end = field.integer("start", 0) or 0, field.integer("end", None)
        if end is not None:
            rows = max(end - start + 1, 0)
            self._limit = rows if self._limit is None else min(self._limit, rows)
        if not (type_.is_numeric or type_.is_text):
            raise InvalidParameterValue(f"a datagen sequence can not be of type {type_}")

        def make(rng: np.random.Generator, first: int, n: int) -> pa.Array:
            return pa.array(np.arange(first + start, first + start + n)).cast(
                type_.arrow, safe=False
            )

        return make

    def _random(self, type_: SqlType, field: _Field) -> Maker:
        kind = type_.kind
        if kind in _RANGE:
            return _integers(type_, field)
        if kind in (Kind.REAL, Kind.DOUBLE, Kind.NUMERIC):
            return _fractions(type_, field)
        if kind is Kind.BOOLEAN:
            return lambda rng, first, n: pa.array(rng.random(n) < 0.5)
        if type_.is_text or kind is Kind.BYTEA:
            return _texts(type_, field)
        if kind is Kind.UUID:
            return _uuids
        if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DATE):
            return self._moments(type_, field)
        if kind is Kind.TIME:
            return lambda rng, first, n: pa.array(rng.integers(0, US_PER_DAY, n)).cast(type_.arrow)
        if kind is Kind.STRUCT:
            return self._structs(type_, field)
        if kind is Kind.ARRAY:
            return self._arrays(type_, field)
        raise FeatureNotSupported(
            f"datagen makes no values of type {type_}", hint="Make it from another column (… AS …)."
        )

    def _moments(self, type_: SqlType, field: _Field) -> Maker:
        past = _interval_us(
            field.text("max-past", "1 day" if type_.kind is not Kind.DATE else "365 days")
        )
        field.text("max-past-mode", "relative")

        def make(rng: np.random.Generator, first: int, n: int) -> pa.Array:
            us = self._now_us() - rng.integers(0, past + 1, n)
            return pa.array(us).cast(pa.timestamp("us")).cast(type_.arrow, safe=False)

        return make

    def _structs(self, type_: SqlType, field: _Field) -> Maker:
        parts = [
            (name, self._maker(t, field.below(name.lower().replace("_", "-"))))
            for name, t in type_.fields
        ]

        def make(rng: np.random.Generator, first: int, n: int) -> pa.Array:
            arrays = [m(rng, first, n) for _, m in parts]
            return pa.StructArray.from_arrays(arrays, fields=list(type_.arrow))

        return make

    def _arrays(self, type_: SqlType, field: _Field) -> Maker:
        assert type_.element is not None
        length = field.integer("length", 3) or 0
        inner = self._maker(type_.element, field.below("element", "-"))

        def make(rng: np.random.Generator, first: int, n: int) -> pa.Array:
            values = inner(rng, first * length, n * length)
            offsets = pa.array(np.arange(n + 1, dtype=np.int32) * length)
            return pa.ListArray.from_arrays(offsets, values).cast(type_.arrow)

        return make


class _Field:
    """The options below fields.<name>., taken out of the common dict as they are read."""

    def __init__(self, fields: dict[str, str], *prefixes: str) -> None:
        self._fields = fields
        self._prefixes = prefixes

    def below(self, *names: str) -> _Field:
        return _Field(self._fields, *(f"{p}.{n}" for p in self._prefixes for n in names))

    def text(self, option: str, default: str) -> str:
        for prefix in self._prefixes:
            default = self._fields.pop(f"{prefix}.{option}", default)
        return default

    def integer(self, option: str, default: int | None) -> int | None:
        text = self.text(option, "")
        if not text:
            return default
        try:
            return int(text)
        except ValueError:
            raise self._wrong(option, text) from None

    def number(self, option: str, default: float) -> float:
        text = self.text(option, "")
        try:
            return float(text) if text else default
        except ValueError:
            raise self._wrong(option, text) from None

    def _wrong(self, option: str, text: str) -> InvalidParameterValue:
        name = f"fields.{self._prefixes[0]}.{option}"
        return InvalidParameterValue(f'invalid value for option "{name}": "{text}"')


def _with_nulls(column: pa.Array, null: npt.NDArray[np.bool_]) -> pa.Array:
    import pyarrow.compute as pc

    return pc.if_else(pa.array(null), pa.scalar(None, column.type), column)


def _integers(type_: SqlType, field: _Field) -> Maker:
    least, most = _RANGE[type_.kind]
    low, high = field.integer("min", 0), field.integer("max", most)
    if low is None or high is None or not least <= low <= high <= most:
        raise InvalidParameterValue(f"datagen: min and max do not fit the type {type_}")
    return lambda rng, first, n: pa.array(rng.integers(low, high, n, np.int64, endpoint=True)).cast(
        type_.arrow
    )


def _fractions(type_: SqlType, field: _Field) -> Maker:
    low, high = field.number("min", 0.0), field.number("max", 1000.0)

    def make(rng: np.random.Generator, first: int, n: int) -> pa.Array:
        values = low + rng.random(n) * (high - low)
        if type_.kind is not Kind.NUMERIC:
            return pa.array(values).cast(type_.arrow)
        scale = min(type_.storage_precision_scale[1], 6)
        return (
            pa.array(np.round(values, scale))
            .cast(pa.decimal128(38, scale), safe=False)
            .cast(type_.arrow)
        )

    return make


def _texts(type_: SqlType, field: _Field) -> Maker:
    length = field.integer("length", 10) or 0

    def make(rng: np.random.Generator, first: int, n: int) -> pa.Array:
        letters = _LETTERS[rng.integers(0, len(_LETTERS), n * length)]
        offsets = np.arange(n + 1, dtype=np.int32) * length
        text = pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(letters))
        return text.cast(type_.arrow)

    return make


def _uuids(rng: np.random.Generator, first: int, n: int) -> pa.Array:
    """Random (version 4) UUIDs as text: two hex digits from each of 16 bytes, and the dashes."""
    data = rng.integers(0, 256, (n, 16), np.uint8)
    data[:, 6] = (data[:, 6] & 0x0F) | 0x40
    data[:, 8] = (data[:, 8] & 0x3F) | 0x80
    digits = _LETTERS[np.stack((data >> 4, data & 15), axis=2).reshape(n, 32)]
    text = np.full((n, 36), ord("-"), np.uint8)
    text[:, [i for i in range(36) if i not in (8, 13, 18, 23)]] = digits
    offsets = np.arange(n + 1, dtype=np.int32) * 36
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(text.tobytes()))


def _interval_us(text: str) -> int:
    """Flink writes milliseconds or '10 days', RisingWave '10 days'."""
    if text.isdigit():
        return int(text) * 1000
    import duckdb

    try:
        (value,) = duckdb.execute("SELECT epoch_us(CAST(? AS INTERVAL))", [text]).fetchone() or (0,)
    except duckdb.Error:
        raise InvalidParameterValue(f'datagen: "{text}" is no interval') from None
    return max(int(value), 0)
