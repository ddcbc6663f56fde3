"""Queries on DuckDB: a pool of connections, snapshots registered as Arrow tables, cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from streamsql.core.errors import QueryCanceled, StreamSqlError
from streamsql.core.schema import Schema

BATCH_ROWS = 16_384
"""Rows of a result batch: what the wire encoder likes best."""

POOL_MAX = 8


class CancelToken:
    """Lets another thread stop what a session runs now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Any = None
        self._reason: str | None = None
        self._wakers: list[Callable[[], None]] = []
        self.event = threading.Event()

    def start(self) -> None:
        """A statement begins: forget an earlier mark."""
        with self._lock:
            self._reason = None
            self.event.clear()

    def cancel(self, reason: str = "canceling statement due to user request") -> None:
        """Stop the running statement, from any thread."""
        with self._lock:
            self._reason = reason
            self.event.set()
            if self._connection is not None:
                self._connection.interrupt()
            for wake in self._wakers:
                wake()

    def add_waker(self, wake: Callable[[], None]) -> None:
        """Called when the statement is cancelled, so that a waiting thread looks up."""
        with self._lock:
            self._wakers.append(wake)

    def remove_waker(self, wake: Callable[[], None]) -> None:
        """Undo `add_waker`."""
        with self._lock:
            if wake in self._wakers:
                self._wakers.remove(wake)

    def check(self) -> None:
        """Raises: QueryCanceled (57014) if the statement was cancelled."""
        if self._reason is not None:
            raise QueryCanceled(self._reason)

    def watch(self, connection: Any) -> None:
        """The connection that `cancel` interrupts from now on."""
        with self._lock:
            self._connection = connection
            if self._reason is not None:
                raise QueryCanceled(self._reason)

    def watch_done(self) -> None:
        """The connection is no longer in use."""
        with self._lock:
            self._connection = None


class DuckPool:
    """DuckDB connections over one private in-memory instance, each used by one query at a time."""

    def __init__(self) -> None:
        self._parent: Any = None
        self._free: list[Any] = []
        self._lock = threading.Lock()
        self._closed = False

    def acquire(self) -> Any:
        """A connection for one query."""
        with self._lock:
            if self._parent is None:
                import duckdb

                from streamsql.functions.duckdb_sql import configure

                self._parent = duckdb.connect(":memory:")
                configure(self._parent)
            return self._free.pop() if self._free else self._parent.cursor()

    def release(self, connection: Any) -> None:
        """Give it back; everything that the query registered must be gone."""
        with self._lock:
            if len(self._free) < POOL_MAX and not self._closed:
                self._free.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            self._closed = True
            for connection in self._free:
                connection.close()
            self._free.clear()
            if self._parent is not None:
                self._parent.close()
                self._parent = None


def run_sql(
    pool: DuckPool,
    sql: str,
    tables: Mapping[str, pa.Table],
    schema: Schema,
    token: CancelToken,
) -> Iterator[pa.RecordBatch]:
    """The batches of a query, in `schema.arrow`. The first batch is computed before this returns,
    so that most errors come from here; the connection is given back after the last one.

    Raises: what the query raises, as our errors; QueryCanceled (57014).
    """
    batches = _stream(pool, sql, tables, schema, token)
    try:
        first = next(batches)
    except StopIteration:
        return iter(())
    return _with_first(first, batches)


def _with_first(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _stream(
    pool: DuckPool, sql: str, tables: Mapping[str, pa.Table], schema: Schema, token: CancelToken
) -> Iterator[pa.RecordBatch]:
    connection = pool.acquire()
    broken = False
    try:
        token.watch(connection)
        for name, table in tables.items():
            connection.register(name, table)
        try:
            reader = connection.sql(sql).to_arrow_reader(BATCH_ROWS)
            for batch in reader:
                token.check()
                if batch.num_rows:
                    yield to_schema(batch, schema)
        except StreamSqlError:
            raise
        except Exception as error:
            token.check()
            raise _translated(error) from error
    except BaseException:
        broken = True
        raise
    finally:
        token.watch_done()
        for name in tables:
            _unregister(connection, name)
        if broken:
            connection.close()
        else:
            pool.release(connection)


def _unregister(connection: Any, name: str) -> None:
    try:
        connection.unregister(name)
    except Exception:  # never registered: the query failed before it came to that
        return


def _translated(error: Exception) -> BaseException:
    import duckdb

    from streamsql.functions.duckdb_errors import translate

    if isinstance(error, duckdb.InterruptException):
        return QueryCanceled("canceling statement due to user request")
    # Arrow's stream hands on what fails behind its first batch as an OSError
    if isinstance(error, duckdb.Error | pa.ArrowException | OSError):
        return translate(error)
    return error


def to_schema(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The batch with exactly the columns' Arrow types."""
    wanted = schema.arrow
    if batch.schema.equals(wanted):
        return batch
    columns = [
        c if c.type == f.type else c.cast(f.type)
        for c, f in zip(batch.columns, wanted, strict=True)
    ]
    from streamsql.core.delta import make_batch

    return make_batch(columns, wanted, batch.num_rows)
