"""Finding files, and reading one of them in blocks of whole records."""

from __future__ import annotations

import glob
import io
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.connectors.formats.base import Int64Array, Parsed, TextFormat
from streamsql.connectors.formats.parquet import ParquetFormat, ParquetRows
from streamsql.connectors.formats.text import line_ends
from streamsql.core.errors import DiskError

READ_BYTES = 1 << 23
HEADER_BYTES = 1 << 16
RECORD_BYTES_MAX = 1 << 26
"""A record longer than this (an open quote, most often) is cut at its first line feed."""

_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".swp", "~")
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True)
class Block:
    """Decoded records of one file. start: its position before them; ends: int64 [records], its
    position behind each. data: their bytes, for text."""

    path: str
    parsed: Parsed
    start: int
    ends: Int64Array
    data: bytes = b""

    def begins(self, records: Int64Array) -> Int64Array:
        """Where these records begin: bytes, or row numbers."""
        before = np.concatenate([np.array([self.start], np.int64), self.ends[:-1]])
        found: Int64Array = before[records]
        return found

    def payloads(self, records: Int64Array) -> pa.Array:
        """The records as they stand in the file, without their line ends; string [n]."""
        offsets = np.concatenate([np.zeros(1, np.int64), self.ends - self.start])
        offsets = np.minimum(offsets, len(self.data))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        whole = pa.Array.from_buffers(pa.large_binary(), len(self.ends), buffers)
        text = whole.take(pa.array(records)).cast(pa.large_string()).cast(pa.string())
        return pc.utf8_rtrim(text, "\r\n")


def is_pattern(path: str) -> bool:
    """Whether a path is a glob."""
    return any(c in path for c in "*?[")


def list_files(path: str) -> list[str]:
    """The files a path, a glob or a folder (with all below it) stands for, in order of name.
    Hidden files and such that are still being written under a temporary name are left out."""
    if is_pattern(path):
        found = [p for p in glob.iglob(path, recursive=True) if os.path.isfile(p)]
    elif os.path.isdir(path):
        found = []
        for folder, folders, names in os.walk(path):
            folders[:] = [f for f in folders if not f.startswith((".", "_"))]
            found += [os.path.join(folder, name) for name in names]
    else:
        return [path] if os.path.exists(path) else []
    names_of = ((os.path.basename(p), p) for p in found)
    return sorted(
        p
        for name, p in names_of
        if not name.startswith((".", "_")) and not name.endswith(_UNFINISHED)
    )


class TextFile:
    """A file of text records. position: bytes (of the uncompressed text) behind the last record
    that was handed out; the beginning of a line whose end is not there yet waits in the file."""

    def __init__(self, path: str, format_: TextFormat, position: int) -> None:
        self.path = path
        self.position = position
        self._format = format_
        self._file: Any = None
        self._compressed = path.endswith(_COMPRESSED)
        self._buffer = b""
        self._used = 0  # bytes of the buffer that were handed out
        self._ends = np.empty(0, np.int64)  # of the records in the buffer that were not
        self._end_of_file = False

    def has_more(self, *, last: bool) -> bool:
        """Whether records may be waiting; last: the file will not grow."""
        if len(self._ends) or self._grown():
            return True
        return last and self._used < len(self._buffer)

    def _grown(self) -> bool:
        if self._compressed:
            return not self._end_of_file
        size = os.path.getsize(self.path)
        if size < self.position:  # truncated or replaced: what is there now is new
            self.close()
            self.position = 0
        return size > self.position + len(self._buffer) - self._used

    def read(self, max_records: int, *, last: bool) -> Block | None:
        """The next block, None when no whole record is there. last: the file will not grow, so its
        final line needs no line feed. Raises: DiskError (58030)."""
        try:
            if self._file is None:
                self._open()
            while not len(self._ends):
                if not self._fill():
                    return self._unterminated() if last else None
        except OSError as error:
            raise DiskError(f'could not read file "{self.path}": {error.strerror}') from error
        taken, self._ends = self._ends[:max_records], self._ends[max_records:]
        return self._block(self._buffer[self._used : int(taken[-1])], taken - self._used)

    def probe(self) -> None:
        """Read the header. Raises: errors of the format, DiskError (58030)."""
        try:
            self._open()
        except (OSError, pa.ArrowInvalid) as error:
            raise DiskError(f'could not read file "{self.path}": {error}') from error

    def _unterminated(self) -> Block | None:
        rest = self._buffer[self._used :]
        if not rest:
            return None
        block = self._block(rest + b"\n", np.array([len(rest) + 1], np.int64))
        self.position -= 1  # the line feed that the file lacks
        return replace(block, ends=block.ends - 1)

    def _block(self, data: bytes, ends: Int64Array) -> Block:
        parsed = self._format.parse(data, ends)
        block = Block(self.path, parsed, self.position, ends + self.position, data)
        self.position += len(data)
        self._used += len(data)
        return block

    def _fill(self) -> bool:
        """Read on; False when there was nothing."""
        piece = self._file.read(READ_BYTES)
        self._end_of_file = not piece
        self._buffer = self._buffer[self._used :] + piece
        self._used = 0
        if piece:
            self._ends = self._format.record_ends(self._buffer)
            if not len(self._ends) and len(self._buffer) > RECORD_BYTES_MAX:
                self._ends = line_ends(self._buffer)[:1]
        return bool(piece)

    def _open(self) -> None:
        """Open, learn the header, and go to `position`."""
        path = self.path
        self._file = pa.input_stream(path) if self._compressed else open(path, "rb")  # noqa: SIM115
        head = b""
        size = -1
        while size < 0 and (piece := self._file.read(HEADER_BYTES)):
            head += piece
            size = self._format.header_end(head, self._format.record_ends(head))
        if size < 0:  # a header whose end is not there yet
            self.close()
            self._file = io.BytesIO()
            return
        self._format.read_header(head[:size])
        self.position = max(self.position, size)
        if self.position <= len(head):
            self._buffer = head[self.position :]
            self._ends = self._format.record_ends(self._buffer)
        else:
            self._skip(self.position - len(head))

    def _skip(self, count: int) -> None:
        if not self._compressed:
            self._file.seek(count, os.SEEK_CUR)
            return
        while count > 0 and (piece := self._file.read(min(count, READ_BYTES))):
            count -= len(piece)

    def close(self) -> None:
        """Close the file; `position` stays."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._buffer, self._used, self._ends = b"", 0, np.empty(0, np.int64)


class ParquetData:
    """A Parquet file. position: rows handed out. It is complete when seen, and never grows."""

    def __init__(self, path: str, format_: ParquetFormat, position: int) -> None:
        self.path = path
        self.position = position
        self._format = format_
        self._rows: ParquetRows | None = None
        self._done = False

    def probe(self) -> None:
        """Read the file's schema. Raises: errors of the format, DiskError (58030)."""
        try:
            self._rows = self._format.open(self.path, self.position)
        except (OSError, pa.ArrowInvalid) as error:
            raise DiskError(f'could not read file "{self.path}": {error}') from error

    def has_more(self, *, last: bool) -> bool:
        """Whether rows are left."""
        return not self._done

    def read(self, max_records: int, *, last: bool) -> Block | None:
        """The next block, None at the end. Raises: DiskError (58030)."""
        try:
            if self._rows is None:
                self._rows = self._format.open(self.path, self.position)
            parsed, ends = self._rows.read(max_records)
        except (OSError, pa.ArrowInvalid) as error:
            raise DiskError(f'could not read file "{self.path}": {error}') from error
        if not len(ends):
            self._done = True
            return None
        start, self.position = self.position, int(ends[-1])
        return Block(self.path, parsed, start, ends)

    def close(self) -> None:
        """Close the file."""
        if self._rows is not None:
            self._rows.close()
            self._rows = None
