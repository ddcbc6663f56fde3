"""Embedded use: data frames in, change batches out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamsql.core.errors import UndefinedColumn
from streamsql.dialect.statements import Subscribe
from streamsql.engine.binding import BindScope
from streamsql.engine.definitions import standing_program
from streamsql.engine.dml.batches import one_batch
from streamsql.engine.dml.execute import carry_out, state_of, target_table
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.given_rows import as_arrow, converted
from streamsql.engine.statements.common import lookup
from streamsql.engine.statements.copy import RowsWrite, copy_columns
from streamsql.engine.statements.subscribe import open_stream

if TYPE_CHECKING:
    from streamsql.engine.database import Database
    from streamsql.engine.session import Session


def insert_data(session: Session, name: str, data: Any) -> int:
    """`Database.insert`."""
    relation = lookup(session, relation_name(session, name))
    target_table(relation, what="insert into", changes_rows=False)
    table = state_of(session, relation)
    scope = BindScope(session.catalog, relation.context)
    maker = RowMaker(relation, standing_program(relation, scope))
    given = as_arrow(data, relation.columns)
    for column in given.column_names:
        if relation.columns.index(column) < 0:
            raise UndefinedColumn(f'column "{column}" of relation "{relation.name}" does not exist')
    positions = copy_columns(tuple(given.column_names), relation, maker.generated)
    schema = relation.columns.select(positions)
    arrays = [
        converted(given.column(i), column.name, column.type, session.timezone)
        for i, column in enumerate(schema)
    ]
    rows = one_batch(pa.table(arrays, schema=schema.arrow), schema)
    whole = maker.complete(
        dict(zip(positions, rows.columns, strict=True)),
        given.num_rows,
        session.now_us(),
        session.timezone,
    )
    maker.check(whole)
    return carry_out(session, table, RowsWrite(relation, whole)).affected


def relation_name(session: Session, text: str) -> tuple[str, ...]:
    """A relation's name as it would be written in SQL."""
    statement = session.parse(f"DESCRIBE {text}")[0]
    name: tuple[str, ...] = statement.name  # type: ignore[attr-defined]
    return name


class Subscription:
    """An iterator of change batches; `close` ends it, from any thread."""

    def __init__(self, session: Session, statement: Subscribe) -> None:
        self._session = session
        self._stream = open_stream(session, statement)
        self._names = list(self._stream.schema.names)
        self.schema = pa.schema([pa.field(c.name, c.type.arrow) for c in self._stream.schema])

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while not self._stream.closed:
            yield from self.poll(None)
        yield from self.poll(0)

    def poll(self, timeout: float | None = 0) -> list[pa.RecordBatch]:
        """What there is, waiting at most `timeout` seconds for it (None = until there is some)."""
        batches = self._stream.take(timeout)
        return [pa.RecordBatch.from_arrays(b.columns, schema=self.schema) for b in batches]

    def close(self) -> None:
        """End the stream."""
        self._stream.close()
        self._stream.wake()
        self._session.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def subscribe(
    database: Database,
    relation: str,
    *,
    snapshot: bool,
    progress: bool,
    as_of: int | None,
    up_to: int | None,
) -> Subscription:
    """`Database.subscribe`."""
    session = database.session()
    try:
        word = relation.lstrip(" (\n\t").split(None, 1)[0].lower() if relation.strip() else ""
        if word in ("select", "with", "values"):
            parsed = session.parse(f"SUBSCRIBE ({relation.strip().strip(';')})")[0]
        else:
            parsed = session.parse(f"SUBSCRIBE {relation}")[0]
        assert isinstance(parsed, Subscribe)
        statement = Subscribe(
            relation=parsed.relation,
            query=parsed.query,
            snapshot=snapshot,
            progress=progress,
            as_of=as_of,
            up_to=up_to,
            sql=parsed.sql,
        )
        return Subscription(session, statement)
    except BaseException:
        session.close()
        raise
