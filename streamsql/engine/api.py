"""What a session gives back: the public result types, used by embedded callers, server and
REPL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from streamsql.core.schema import Schema
from streamsql.core.types import SqlType


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result; table_oid and attnum (1-based) are 0 unless it is a plain table
    column."""

    name: str
    type: SqlType
    table_oid: int = 0
    attnum: int = 0
    oid: int | None = (
        None  # overrides type.oid, for catalog relations (name, "char", oid, int2vector…)
    )


@dataclass(frozen=True)
class Notice:
    """A NOTICE or WARNING for the client."""

    message: str
    severity: str = "NOTICE"
    sqlstate: str = "00000"
    hint: str | None = None


SHOWN_COLUMNS = 8
"""Columns that the repr of a result names."""


@dataclass(repr=False)
class Result:
    """Outcome of one statement.

    columns: None for a statement without a result set. tag: command tag without the row count for
    SELECT-like results ("SELECT", "FETCH"); complete for all others ("INSERT 0 3", "CREATE
    TABLE").
    batches: the rows, read once, positional field names c0…; may block for a SUBSCRIBE that
    streams (`streaming` is then True, and an empty batch may come as a heartbeat). notices: in
    order.
    """

    tag: str
    columns: tuple[ResultColumn, ...] | None = None
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    notices: list[Notice] = field(default_factory=list)
    streaming: bool = False
    row_count: int | None = None
    _table: pa.Table | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """One line: the tag, the columns' names, and how many rows where that is known.

        >>> Result("CREATE TABLE")
        <Result CREATE TABLE>
        >>> from streamsql.core.types import TEXT
        >>> Result("SELECT", (ResultColumn("n", TEXT),), row_count=3)
        <Result SELECT (n) 3 rows>
        """
        said = [self.tag]
        if self.columns is not None:
            names = [c.name for c in self.columns[:SHOWN_COLUMNS]]
            more = len(self.columns) - len(names)
            said.append(f"({', '.join(names)}{f', and {more} more' if more else ''})")
            count = self.row_count if self._table is None else self._table.num_rows
            if count is not None:
                said.append("1 row" if count == 1 else f"{count} rows")
        return f"<Result {' '.join(said)}>"

    def table(self) -> pa.Table:
        """All rows with the users' column names (consumes `batches`, and keeps the rows)."""
        assert self.columns is not None, "statement returned no rows"
        if self._table is None:
            fields = [pa.field(f"c{i}", c.type.arrow) for i, c in enumerate(self.columns)]
            schema = pa.schema(fields)
            table = pa.Table.from_batches([b.cast(schema) for b in self.batches], schema=schema)
            self._table = table.rename_columns([c.name for c in self.columns])
        return self._table

    def texts(self, timezone: str = "UTC") -> Iterator[list[pa.Array]]:
        """Each batch as string arrays, one a column: PostgreSQL's output text, NULL kept.

        Consumes `batches`. timezone: the session's, for TIMESTAMPTZ.
        """
        columns = self.columns or ()
        for batch in self.batches:
            yield [
                to_text(array, column.type, timezone)
                for array, column in zip(batch.columns, columns, strict=True)
            ]

    # embedded conveniences -----------------------------------------------------------------------
    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows as Python tuples. A date or a timestamp that Python's types can not hold
        (infinity, years before 1 or after 9999) comes as PostgreSQL's text of it."""
        if self.columns is None:
            return []
        data = self.table()
        if data.num_columns == 0:
            return [()] * data.num_rows
        values = (
            python_values(c, column.type)
            for c, column in zip(data.columns, self.columns, strict=True)
        )
        return list(zip(*values, strict=True))

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Column names and types as the DB-API has them; None without a result set."""
        if self.columns is None:
            return None
        return [(c.name, str(c.type), None, None, None, None, None) for c in self.columns]

    def df(self) -> Any:
        """The rows as a pandas DataFrame (pandas must be installed)."""
        return self.table().to_pandas()

    def pl(self) -> Any:
        """The rows as a polars DataFrame (polars must be installed)."""
        import polars

        return polars.from_arrow(self.table())

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or None."""
        rows = self.fetchall()
        return rows[0] if rows else None

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())


@dataclass(frozen=True)
class Prepared:
    """A statement whose parameters and result are known without running it.

    parameter_types: of $1, $2, …. columns: None when it returns no rows. statement: opaque.
    parameter_oids: what a client is told of the parameters when that is not their types' own OIDs
    (oid[], regclass… of catalog queries); empty otherwise.
    """

    statement: Any
    parameter_types: tuple[SqlType, ...]
    columns: tuple[ResultColumn, ...] | None
    tag: str
    parameter_oids: tuple[int, ...] = ()


class CopyIn(Protocol):
    """A COPY … FROM STDIN in progress. Nothing is visible before `finish`."""

    format: str  # text | csv | binary
    column_count: int

    def write(self, data: bytes) -> None: ...

    def finish(self) -> Result: ...

    def fail(self, message: str) -> None: ...


@dataclass(frozen=True)
class CopyOut:
    """A COPY … TO STDOUT: format (text | csv | binary) and its options; rows come from the
    Result."""

    format: str
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'


class SessionApi(Protocol):
    """What the server and the REPL may call on a session (`Database.session(...)`)."""

    def parse(self, sql: str) -> list[Any]:
        """Split and parse; one opaque statement each (with `.sql`, `.position`)."""
        ...

    def prepare(self, statement: Any, parameter_oids: tuple[int, ...] = ()) -> Prepared:
        """Bind without running. parameter_oids: declared OIDs, 0 = unknown."""
        ...

    def run(
        self, statement: Any, parameters: tuple[Any, ...] = ()
    ) -> Result | CopyIn | tuple[CopyOut, Result]:
        """Run a parsed statement or a Prepared; parameters are Python values (or text) of the
        prepared types. COPY gives a CopyIn, or (CopyOut, Result)."""
        ...

    def execute(self, sql: str, parameters: Any = None) -> Result:
        """Run all statements of a text, return the last one's result."""
        ...

    @property
    def transaction_status(self) -> str:
        """ "I" idle, "T" in a transaction, "E" in a failed one."""
        ...

    @property
    def parameters(self) -> Mapping[str, str]:
        """Present values of the session parameters by PostgreSQL's spelling of their names; at
        least those a server reports to clients (TimeZone, DateStyle, application_name, …)."""
        ...

    def fail_transaction(self) -> None:
        """An error happened outside `run` (while rows were encoded, in the protocol): a
        transaction in progress is failed from now on ("E"). No effect when idle."""
        ...

    def begin_implicit(self) -> None:
        """The statements that follow are one transaction (several in one text, or before one
        Sync), unless BEGIN, COMMIT or ROLLBACK among them says otherwise. Status stays "I"."""
        ...

    def end_implicit(self, *, commit: bool) -> None:
        """End what `begin_implicit` began, if it is still there. Raises what a COMMIT raises."""
        ...

    def cancel(self) -> None:
        """Stop what runs now, from any thread (57014). It must not hit a later statement: the
        mark is cleared when a statement starts."""
        ...

    def close(self) -> None: ...


class DatabaseApi(Protocol):
    """What the server needs of a database (`streamsql.connect(path)`)."""

    def session(self, *, user: str = "streamsql", backend_pid: int = 0) -> SessionApi:
        """A new session of that user; backend_pid is what pg_backend_pid() answers."""
        ...

    def close(self) -> None: ...


def python_values(array: Any, type_: SqlType) -> list[Any]:
    """A column's values (Array or ChunkedArray of `type_.arrow`) as Python objects; in the text of
    PostgreSQL where Python has no such value."""
    try:
        return array.to_pylist()
    except (OverflowError, ValueError):
        texts = to_text(array, type_).to_pylist()
        return [_value_or(item, text) for item, text in zip(array, texts, strict=True)]


def _value_or(item: pa.Scalar, text: str | None) -> Any:
    try:
        return item.as_py()
    except (OverflowError, ValueError):
        return text


def to_text(array: Any, type_: SqlType, timezone: str = "UTC") -> pa.Array:
    """PostgreSQL's output text of a column (Array or ChunkedArray of `type_.arrow`), NULL kept.

    timezone: the session's, for TIMESTAMPTZ. The same texts as a cast to TEXT gives.
    """
    from streamsql.functions.textio.output import to_text as write

    return write(array, type_, timezone)


Columns = Schema


def split_statements(sql: str) -> list[tuple[int, str]]:
    """(offset, text) of each statement of a text, whether it is right or not."""
    from streamsql.dialect import split

    return split(sql)
