"""What every format shares: the parsed block, names of columns, the DuckDB that casts."""

from __future__ import annotations

import abc
import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.schema import Schema
from streamsql.core.types import Kind, SqlType

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BadRecord:
    """A record that could not be decoded: its number in the block, its text, and why not."""

    record: int
    payload: str
    reason: str


@dataclass(frozen=True)
class Parsed:
    """A block, decoded.

    batch: the good rows [n], `Schema.arrow`. records: int64 [n], the number in the block of the
    record that each row came from, ascending. bad: the others, in their order.
    """

    batch: pa.RecordBatch
    records: Int64Array
    bad: list[BadRecord] = field(default_factory=list)


class TextFormat(abc.ABC):
    """A format of records that end with a line feed."""

    @abc.abstractmethod
    def record_ends(self, data: bytes) -> Int64Array:
        """Offset behind each complete record in `data` (a record may hold line feeds)."""

    @abc.abstractmethod
    def parse(self, data: bytes, ends: Int64Array) -> Parsed:
        """Decode `data`, which is whole records; ends: int64 [records], as `record_ends` says."""

    def header_end(self, data: bytes, ends: Int64Array) -> int:
        """Bytes at the start of a file that are no record (0 = none, -1 = not all there yet)."""
        return 0

    def read_header(self, data: bytes) -> None:  # noqa: B027  (most formats have none)
        """Learn from the header of a file, `data` = its bytes."""


class Caster:
    """A private DuckDB connection that turns text columns into typed ones.

    One thread: readers decode on a thread of their own, and the engine has the other cores.
    """

    def __init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect(
            ":memory:", config={"threads": 1, "enable_external_access": "false"}
        )
        self.connection.execute("SET TimeZone = 'UTC'")
        self._numbers = itertools.count()

    def query(self, sql: str, table: pa.Table) -> pa.Table:
        """Run `sql` over the relation `input`. Raises: duckdb.Error."""
        self.connection.register("input", table)
        try:
            return self.connection.sql(sql).to_arrow_table()
        finally:
            self.connection.unregister("input")

    def try_cast(self, column: pa.Array, type_: SqlType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """(column as `type_` with NULL where that fails, bool [n] where it fails)."""
        sql = f"SELECT {cast_sql('a', type_, attempt=True)} AS c0 FROM input"
        done = combined(self.query(sql, pa.table({"a": column})).column(0))
        done = finish(done, type_)
        failed = np.asarray(done.is_null()) & ~np.asarray(column.is_null())
        return done, failed


def cast_sql(text: str, type_: SqlType, *, attempt: bool) -> str:
    """DuckDB expression: the VARCHAR expression `text` as `type_`; attempt: NULL, no error."""
    cast = "TRY_CAST" if attempt else "CAST"
    kind = type_.kind
    if kind in (Kind.TEXT, Kind.VARCHAR, Kind.JSON, Kind.UNKNOWN):
        return f"CAST({text} AS VARCHAR)"
    if kind is Kind.JSONB:
        return f"CAST({cast}({text} AS JSON) AS VARCHAR)"
    if kind is Kind.UUID:
        return f"CAST({cast}({text} AS UUID) AS VARCHAR)"
    if kind is Kind.BYTEA:
        # \x… is PostgreSQL's own text form; everything else is base64, as in every JSON encoding
        binary = (
            f"CASE WHEN starts_with({text}, '\\x') THEN unhex({text}[3:])"
            f" ELSE from_base64({text}) END"
        )
        return f"TRY({binary})" if attempt else binary
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        value = f"{cast}({text} AS TIMESTAMPTZ)"
        return value if kind is Kind.TIMESTAMPTZ else f"CAST({value} AS TIMESTAMP)"
    if kind is Kind.BOOLEAN:
        word = f"lower({text})"
        return (
            f"CASE WHEN {word} IN ('t','true','y','yes','on','1') THEN true "
            f"WHEN {word} IN ('f','false','n','no','off','0') THEN false "
            f"ELSE {cast}({text} AS BOOLEAN) END"
        )
    return f"{cast}({text} AS {type_.duckdb})"


def finish(column: pa.Array, type_: SqlType) -> pa.Array:
    """A column as DuckDB gives it, in exactly the Arrow type of `type_`; JSONB normalised."""
    if type_.kind is Kind.JSONB:
        return normal_jsonb(column)
    if column.type == type_.arrow:
        return column
    return column.cast(type_.arrow)


def normal_jsonb(column: pa.Array) -> pa.Array:
    """JSONB text in PostgreSQL's form: one spelling for equal values."""
    from streamsql.core.types import JSONB
    from streamsql.functions.textio import parse_text

    return parse_text(column.cast(pa.string()), JSONB)


def combined(column: Any) -> pa.Array:
    """A ChunkedArray as one Array."""
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column


def match_names(schema: Schema, available: list[str]) -> list[int]:
    """For each column the position of its name among `available`, or -1.

    Exact spelling first; else without regard to case, because an unquoted column name was folded
    to lower case and the file's was not.

    >>> match_names(Schema(()), ["a"])
    []
    """
    exact = {name: i for i, name in reversed(list(enumerate(available)))}
    folded = {name.lower(): i for i, name in reversed(list(enumerate(available)))}
    return [exact.get(c.name, folded.get(c.name.lower(), -1)) for c in schema]


def syntax_error(type_: SqlType, text: str) -> str:
    """PostgreSQL's words for text that is no value of a type."""
    return f'invalid input syntax for type {type_}: "{text[:200]}"'
