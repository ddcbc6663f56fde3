"""What a session is doing: for pg_stat_activity and SHOW PROCESSLIST."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

QUERY_CHARS = 1024
"""Characters of a statement that are shown, as in PostgreSQL."""


def now() -> datetime.datetime:
    """The time of the machine: activities do not follow a manual clock."""
    return datetime.datetime.now(datetime.UTC)


@dataclass
class Activity:
    """Of one session. query: the statement that runs, or the last one. running: how many statements
    are at work (a result that streams is one)."""

    connected: datetime.datetime = field(default_factory=now)
    query: str = ""
    query_start: datetime.datetime | None = None
    state_change: datetime.datetime = field(default_factory=now)
    transaction_start: datetime.datetime | None = None
    running: int = 0

    @contextmanager
    def statement(self, sql: str) -> Iterator[None]:
        """While a statement runs."""
        self.query, self.query_start = sql[:QUERY_CHARS], now()
        self._begin()
        try:
            yield
        finally:
            self._end()

    def streaming(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A result that is read for as long as its client likes."""
        self._begin()
        try:
            yield from batches
        finally:
            self._end()

    def _begin(self) -> None:
        self.running += 1
        self.state_change = now()

    def _end(self) -> None:
        self.running -= 1
        self.state_change = now()
