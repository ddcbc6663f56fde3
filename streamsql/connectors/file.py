"""connector = 'file': a path, a glob, or a folder that is followed for new and growing files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.connectors.base import (
    BadRow,
    Options,
    Position,
    SourceBatch,
    SourceReader,
)
from streamsql.connectors.files import Block, ParquetData, TextFile, is_pattern, list_files
from streamsql.connectors.formats.base import Int64Array, TextFormat
from streamsql.connectors.formats.parquet import ParquetFormat
from streamsql.connectors.formats.registry import BY_EXTENSION, format_named
from streamsql.connectors.replay import EventTimeColumn, Pace
from streamsql.core.errors import FeatureNotSupported, InvalidParameterValue
from streamsql.core.schema import Schema
from streamsql.dialect.statements import FormatDef

SCAN_SECONDS = 0.1
"""A followed folder is listed, and its files' sizes asked for, at most this often."""


class FileSource(SourceReader):
    """Rows of files, one file after the other in order of name, each from its start to its end.

    Options: path; follow (default: true for a folder, false else): wait for new files and for more
    lines at the end of known ones; replay = 'event_time' with speed (event seconds per second,
    default 1) and replay_column; and those of the format.
    All files are one partition, since their rows come one file after the other; its position is
    {file: bytes (text) or rows (Parquet) that were read}. A line without its end waits when the
    file may still grow, and is the last row when not.
    """

    INCLUDES = ("partition", "offset", "payload")

    def __init__(
        self,
        options: Mapping[str, str],
        schema: Schema,
        format: FormatDef | None = None,
        *,
        time_column: int | None = None,
        paced: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        given = Options("file", options, format.options if format else {})
        self._path = os.path.expanduser(given.required("path", "location", "fs.path"))
        self._follow = given.flag("follow", default=os.path.isdir(self._path))
        self._schema = schema
        self._clock = clock
        self._format = self._open_format(given, format)
        self._pace: Pace | None = None
        if given.choice("replay", among=("off", "event_time"), default="off") == "event_time":
            self._event_time = EventTimeColumn(schema, given.text("replay_column"), time_column)
            speed = given.number("speed", default=1.0) or 1.0
            self._pace = Pace(speed, clock) if paced else None
        given.finish()
        self._require_something()
        self._done: dict[str, int] = {}
        self._files: dict[str, TextFile | ParquetData] = {}
        self._finished_files: set[str] = set()
        self._last_scan: float | None = None
        self._current: _Pending | None = None
        self._latest = -(2**62)
        self._ended = False

    def _open_format(self, given: Options, format_: FormatDef | None) -> TextFormat | ParquetFormat:
        name = given.text("format")  # Flink's spelling
        if format_ is not None:
            name = format_.encode
        if name is None:
            stem, extension = os.path.splitext(self._path)
            if extension in (".gz", ".bz2", ".zst", ".lz4"):
                extension = os.path.splitext(stem)[1]
            name = BY_EXTENSION.get(extension.lower())
        if name is None:
            raise InvalidParameterValue(
                f'the format of "{self._path}" is not known',
                hint="Say FORMAT PLAIN ENCODE CSV, JSON or PARQUET.",
            )
        return format_named(name, self._schema, given)

    def _require_something(self) -> None:
        """A path that names nothing is a mistake in the statement, unless it is followed."""
        if not self._follow and not list_files(self._path):
            what = "matches no file" if is_pattern(self._path) else "does not exist"
            raise InvalidParameterValue(
                f'file "{self._path}" {what}',
                hint="Paths are those of the server, relative to its working directory.",
            )

    def include(self, kinds: Sequence[str]) -> None:
        """See `SourceReader`; a Parquet file has no records of text."""
        super().include(kinds)
        if "payload" in kinds and isinstance(self._format, ParquetFormat):
            raise FeatureNotSupported(
                "INCLUDE payload is not supported by a Parquet file",
                hint="Declare the columns that are wanted.",
            )

    # --- the reader's contract ------------------------------------------------------------------
    def poll(self, max_rows: int) -> list[SourceBatch]:
        """Blocks until `max_rows` rows are there, nothing is left, or the pace says wait."""
        out: list[SourceBatch] = []
        left = max_rows
        while left > 0:
            if self._current is None:
                block = self._next_block(left)
                if block is None:
                    break
                self._current = _Pending(block, self._running_maximum(block))
            ready = self._current.rows_left
            if self._pace is not None and ready:
                ready = self._pace.ready(self._current.latest_left)
            if self._current.rows_left and not ready:
                break
            batch = self._current.take(min(ready, left))
            out.append(self._handed_out(batch))
            left -= batch.rows.num_rows
            if self._current.exhausted:
                self._current = None
        return out

    def _handed_out(self, batch: _Taken) -> SourceBatch:
        earlier = dict(self._done)
        self._done[batch.path] = batch.position

        def before(row: int, bad: BadRow | None) -> Position:
            at = batch.block.begins(batch.records)[row] if bad is None else bad.offset
            return {**earlier, batch.path: int(at)}

        included = batch.included(self.include_kinds)
        return SourceBatch(
            self._path, batch.rows, dict(self._done), batch.bad, included, before=before
        )

    def probe(self) -> None:
        """See `SourceReader`: the first file has some of the columns."""
        for path in list_files(self._path)[:1]:
            file = self._open(path)
            try:
                file.probe()
            finally:
                file.close()

    def positions(self) -> dict[str, Position]:
        """{path option: {file: position}}."""
        return {self._path: dict(self._done)} if self._done else {}

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Go on after `positions`; files that are not in it are read from their start."""
        self.close()
        self._files.clear()
        self._done = {str(k): int(v) for k, v in dict(positions.get(self._path, {})).items()}

    @property
    def finished(self) -> bool:
        return self._ended and self._current is None and not self._follow

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    # --- files ------------------------------------------------------------------------------------
    def _next_block(self, max_rows: int) -> Block | None:
        """The next records of the first file that has some."""
        self._scan()
        for path in list(self._files):
            file = self._files[path]
            try:
                more = file.has_more(last=not self._follow)
            except FileNotFoundError:  # removed after it was listed
                file.close()
                del self._files[path]
                continue
            block = file.read(max_rows, last=not self._follow) if more else None
            if block is not None:
                return block
            file.close()
            if not self._follow or isinstance(file, ParquetData):
                del self._files[path]
                self._finished_files.add(path)
        self._ended = not self._files
        return None

    def _scan(self) -> None:
        """Look for files that are new."""
        now = self._clock()
        if self._last_scan is not None and (
            not self._follow or now - self._last_scan < SCAN_SECONDS
        ):
            return
        self._last_scan = now
        for path in list_files(self._path):
            if path not in self._files and path not in self._finished_files:
                self._files[path] = self._open(path)

    def _open(self, path: str) -> TextFile | ParquetData:
        position = self._done.get(path, 0)
        if isinstance(self._format, ParquetFormat):
            return ParquetData(path, self._format, position)
        return TextFile(path, self._format, position)

    def _running_maximum(self, block: Block) -> Any:
        """int64 [n], µs: the latest event time up to each row; None without replay."""
        batch = block.parsed.batch
        if self._pace is None or not batch.num_rows:
            return None
        latest = np.maximum.accumulate(self._event_time.microseconds(batch))
        latest = np.maximum(latest, self._latest)
        self._latest = int(latest[-1])
        return latest


@dataclass(frozen=True)
class _Taken:
    """Rows taken from a pending block, their records' numbers in it, the file's position behind
    them, and the bad records."""

    block: Block
    rows: pa.RecordBatch
    records: Int64Array
    position: int
    bad: list[BadRow]

    @property
    def path(self) -> str:
        return self.block.path

    def included(self, kinds: Sequence[str]) -> dict[str, pa.Array]:
        """See `SourceBatch.included`."""
        found: dict[str, pa.Array] = {}
        for kind in kinds:
            if kind == "partition":
                found[kind] = pa.repeat(pa.scalar(self.path, pa.string()), self.rows.num_rows)
            elif kind == "offset":
                found[kind] = pa.array(self.block.begins(self.records))
            else:
                found[kind] = self.block.payloads(self.records)
        return found


class _Pending:
    """A block of which some rows may wait for their time."""

    def __init__(self, block: Block, latest: Any) -> None:
        self._block = block
        self._latest = latest
        self._row = 0
        self._record = 0

    @property
    def rows_left(self) -> int:
        return int(self._block.parsed.batch.num_rows) - self._row

    @property
    def latest_left(self) -> Any:
        return self._latest[self._row :]

    @property
    def exhausted(self) -> bool:
        return self._record == len(self._block.ends)

    def take(self, count: int) -> _Taken:
        """The next rows with the bad records around them."""
        parsed = self._block.parsed
        rows = parsed.batch.slice(self._row, count)
        records = parsed.records[self._row : self._row + count]
        self._row += count
        begin = self._record
        whole = self._row == parsed.batch.num_rows
        self._record = len(self._block.ends) if whole else int(parsed.records[self._row])
        bad = [
            BadRow(
                self._block.path,
                int(self._block.ends[b.record - 1]) if b.record else self._block.start,
                b.payload,
                b.reason,
                int(np.searchsorted(records, b.record)),
            )
            for b in parsed.bad
            if begin <= b.record < self._record
        ]
        position = int(self._block.ends[self._record - 1])
        return _Taken(self._block, rows, records, position, bad)
