"""Rows for the benchmarks: a source that hands out Arrow batches which are in memory already."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa


class Feed:
    """Batches that a `connector = 'memory'` source hands out, one a poll, once it is opened.

    gate: the source waits for it, so that the clock starts when the first batch may flow.
    """

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.batches = batches
        self.gate = threading.Event()


FEEDS: dict[str, Feed] = {}


def register() -> None:
    """Make `connector = 'memory'` known; `feed` names an entry of FEEDS."""
    from streamsql.connectors.base import SourceBatch, SourceReader
    from streamsql.connectors.registry import SOURCES

    class MemorySource(SourceReader):
        """Hands out the batches of a feed."""

        def __init__(
            self,
            options: Mapping[str, str],
            schema: Any,
            format: Any = None,
            *,
            time_column: int | None = None,
            paced: bool = True,
        ) -> None:
            self._feed = FEEDS[options["feed"]]
            self._schema = schema.arrow
            self._next = 0

        def poll(self, max_rows: int) -> list[SourceBatch]:
            if not self._feed.gate.wait(0.1) or self.finished:
                return []  # it may wait: nobody else reads by this thread
            batch = self._feed.batches[self._next]
            self._next += 1
            columns = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
            return [SourceBatch("0", columns, self._next)]

        def positions(self) -> dict[str, Any]:
            return {"0": self._next}

        def seek(self, positions: Mapping[str, Any]) -> None:
            self._next = int(positions.get("0", 0))

        @property
        def finished(self) -> bool:
            return self._next >= len(self._feed.batches)

    SOURCES["memory"] = MemorySource


def nexmark(table: str, rows: int, tick_rows: int) -> list[pa.RecordBatch]:
    """The first `rows` rows of a Nexmark table, in batches of `tick_rows`."""
    from streamsql.connectors.nexmark import NexmarkSource
    from streamsql.core.schema import Schema

    schema = Schema.of(*columns_of(table))
    source = NexmarkSource({"table.type": table, "rate": "0"}, schema)
    parts: list[pa.RecordBatch] = []
    count = 0
    while count < rows:
        for part in source.poll(rows - count):
            parts.append(part.batch)
            count += part.batch.num_rows
        progress(f"generating {table}s", count, rows)
    whole = pa.Table.from_batches(parts).combine_chunks()
    return list(_batches(whole, tick_rows))


def _batches(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=rows)


def columns_of(table: str) -> tuple[tuple[str, Any], ...]:
    """(name, type) of a Nexmark table's columns."""
    from streamsql.core.types import BIGINT, TEXT, TIMESTAMP

    if table == "bid":
        return (
            ("auction", BIGINT), ("bidder", BIGINT), ("price", BIGINT), ("channel", TEXT),
            ("url", TEXT), ("date_time", TIMESTAMP), ("extra", TEXT),
        )  # fmt: skip
    if table == "auction":
        return (
            ("id", BIGINT), ("item_name", TEXT), ("description", TEXT), ("initial_bid", BIGINT),
            ("reserve", BIGINT), ("date_time", TIMESTAMP), ("expires", TIMESTAMP),
            ("seller", BIGINT), ("category", BIGINT), ("extra", TEXT),
        )  # fmt: skip
    return (
        ("id", BIGINT), ("name", TEXT), ("email_address", TEXT), ("credit_card", TEXT),
        ("city", TEXT), ("state", TEXT), ("date_time", TIMESTAMP), ("extra", TEXT),
    )  # fmt: skip


def create_source(name: str, table: str) -> str:
    """CREATE SOURCE over the feed of that name."""
    columns = ", ".join(f"{c} {t}" for c, t in columns_of(table))
    return f"CREATE SOURCE {name} ({columns}) WITH (connector = 'memory', feed = '{name}')"


def one_core() -> None:
    """Keep this process on one core, so that both sides have the same."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def progress(what: str, done: int, total: int) -> None:
    """A line that overwrites itself on a terminal."""
    if sys.stderr.isatty():
        end = "\n" if done >= total else ""
        print(f"\r{what}: {done:,} of {total:,}", end=end, file=sys.stderr, flush=True)
