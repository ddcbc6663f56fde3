"""Sending the rows of a result: descriptions, row limits, command tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from streamsql.core.types import Kind
from streamsql.engine.api import Result, ResultColumn
from streamsql_server.conversation.activity import Activity
from streamsql_server.conversation.output import Output
from streamsql_server.encoding.rows import RowEncoder, column_type
from streamsql_server.encoding.wire_type import WireContext
from streamsql_server.protocol import messages
from streamsql_server.protocol.errors import notice_message

COUNTED_TAGS = frozenset({"SELECT", "FETCH", "COPY"})
TEXT_OID = 25


def fields(columns: Sequence[ResultColumn], formats: Sequence[int]) -> list[messages.Field]:
    """The columns as RowDescription shows them."""
    out = []
    for column, format_ in zip(columns, formats, strict=True):
        wire = column_type(column)
        oid = column.oid if column.oid is not None else column.type.oid
        typlen = wire.typlen if wire else -1
        if column.oid is None and column.type.kind is Kind.UNKNOWN:
            oid, typlen = TEXT_OID, -1  # as PostgreSQL shows an untyped literal
        typmod = column.type.typmod if column.oid is None else -1
        out.append(
            messages.Field(
                column.name, column.table_oid, column.attnum, oid, typlen, typmod, format_
            )
        )
    return out


def same_types(described: Sequence[ResultColumn] | None, present: Sequence[ResultColumn]) -> bool:
    """Will rows of `present` be read rightly by a client that was told of `described`?"""
    if described is None:
        return False
    return [c.oid or c.type.oid for c in described] == [c.oid or c.type.oid for c in present]


class RowStream:
    """The rows of one result on their way to the client; may be sent in parts."""

    def __init__(
        self, result: Result, formats: Sequence[int], context: WireContext, activity: Activity
    ) -> None:
        assert result.columns is not None
        self._result = result
        self._encoder = RowEncoder(result.columns, formats, context)
        self._batches: Iterator[pa.RecordBatch] = iter(result.batches)
        self._rest: pa.RecordBatch | None = None
        self._activity = activity

    def send(self, output: Output, max_rows: int = 0) -> tuple[int, bool]:
        """Sends up to max_rows rows (0 = all); the number sent, and whether the end was seen.

        As in PostgreSQL a limit that is reached exactly leaves the end unseen.
        """
        sent = 0
        with self._activity.running():
            self._activity.streaming = self._result.streaming
            while not max_rows or sent < max_rows:
                batch = self._next(max_rows - sent if max_rows else 0)
                if batch is None:
                    return sent, True
                for chunk in self._encoder.encode(batch):
                    output.wait_writable()
                    output.send(chunk)
                sent += batch.num_rows
                self._activity.check()
                if self._result.streaming:  # nobody knows when the next batch comes
                    output.wait_writable()
                    output.flush()
        return sent, False

    def _next(self, limit: int) -> pa.RecordBatch | None:
        batch = self._rest if self._rest is not None else next(self._batches, None)
        self._rest = None
        if batch is not None and limit and batch.num_rows > limit:
            self._rest = batch.slice(limit)
            batch = batch.slice(0, limit)
        return batch

    def tag(self, rows: int) -> str:
        """The command tag after that many rows."""
        return tag_of(self._result.tag, rows)

    def send_notices(self, output: Output) -> None:
        """What came up while rows were read."""
        send_notices(self._result, output)

    def close(self) -> None:
        """Lets go of what the engine holds for this result."""
        close_batches(self._batches)


def close_batches(batches: object) -> None:
    """Ends a generator of batches that is not read to its end."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()


def send_notices(result: Result, output: Output) -> None:
    """Sends (and forgets) the notices that have come up so far."""
    for notice in result.notices:
        output.send(notice_message(notice))
    result.notices.clear()


def tag_of(tag: str, rows: int) -> str:
    """The command tag: SELECT and FETCH count the rows that were sent."""
    return f"{tag} {rows}" if tag in COUNTED_TAGS else tag
