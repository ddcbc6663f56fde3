"""The write-ahead log: numbered records on disk, durable after `sync`.

A record is `length u32, crc32 u32, lsn u64, payload` (little-endian); the checksum covers lsn and
payload. Records lie in segment files `wal-<lsn of the first record, 16 hex digits>.log` that begin
with a header of 32 bytes. LSNs count records, from 1, without a gap.

After a crash the last segment may end in a torn record: everything from there on was never
acknowledged and is cut off. A bad record with whole segments behind it can not be explained by a
crash and is DataCorrupted.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Iterator

import pyarrow as pa

from streamsql.core.errors import DataCorrupted, DiskError, FeatureNotSupported
from streamsql.state.filesystem import AppendFile, Bytes, FileSystem, OsFileSystem

MAGIC = b"SSQLWAL\n"
FORMAT_VERSION = 1
HEADER = struct.Struct("<8sIIQII")  # magic, version, zero, first lsn, zero, crc of what is before
RECORD = struct.Struct("<IIQ")
LSN = struct.Struct("<Q")
SEGMENT_BYTES = 64 << 20
RECORD_BYTES_MAX = 2**32 - 1


class WriteAheadLog:
    """An append-only log of byte records in a directory of its own.

    `append` writes, `sync` makes durable; several appends share one sync (group commit). Both may
    be called from several threads. An error of the disk leaves the log as it was before the
    append; if not even that can be had (or a sync failed, after which nobody knows what is on the
    disk) the log is broken: it takes nothing more until it is opened again.
    """

    def __init__(
        self, path: str, *, files: FileSystem | None = None, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        """Open or make the log; a torn end is cut off.

        Raises: DiskError (58030), DataCorrupted (XX001), FeatureNotSupported (0A000; newer format).
        """
        self.path = path
        self.segment_bytes = segment_bytes
        self._fs = files or OsFileSystem()
        self._fs.make_directory(path)
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._broken = False
        self._file: AppendFile | None = None
        self._retired: list[AppendFile] = []  # synced, but another thread may be syncing them too
        self._segments = self._find_segments()
        self._last = self._segments[-1] - 1 if self._segments else 0
        if self._segments:
            self._recover_end()
        self._durable = self._last

    @property
    def last_lsn(self) -> int:
        """The number of the last record; 0 = none was ever written."""
        return self._last

    @property
    def first_lsn(self) -> int:
        """The number of the oldest record that is kept (or of the first one to come)."""
        return self._segments[0] if self._segments else self._last + 1

    @property
    def durable_lsn(self) -> int:
        """Records up to this one survive a crash."""
        return self._durable

    @property
    def nbytes(self) -> int:
        """Bytes of all segments on disk."""
        return sum(self._fs.read(self._segment(first)).size for first in self._segments)

    def append(self, *parts: Bytes) -> int:
        """Write one record, whose payload is the parts joined; returns its LSN. Not yet durable.

        Raises: DiskError (58030), and then the record is not in the log.
        """
        size = sum(len(memoryview(part).cast("B")) for part in parts)
        if size > RECORD_BYTES_MAX:
            raise DiskError("a log record can not be larger than 4 GB")
        with self._lock:
            file = self._writable(size)
            lsn = self._last + 1
            crc = zlib.crc32(LSN.pack(lsn))
            for part in parts:
                crc = zlib.crc32(part, crc)
            before = file.size
            try:
                file.write([RECORD.pack(size, crc, lsn), *parts])
            except DiskError:
                self._undo(file, before)
                raise
            self._last = lsn
            return lsn

    def sync(self) -> int:
        """Make all records written so far durable; returns the last one's LSN."""
        with self._sync_lock:
            with self._lock:
                if self._broken:
                    raise self._broken_error()
                target, file = self._last, self._file
                retired, self._retired = self._retired, []
            for old in retired:
                old.close()
            if file is None or target == self._durable:
                return target
            try:
                file.sync()
            except DiskError:
                self._broken = True
                raise
            self._durable = max(self._durable, target)
            return target

    def replay(self, from_lsn: int = 1) -> Iterator[tuple[int, bytes]]:
        """Records from this LSN on, in order, as (lsn, payload).

        Raises: DataCorrupted (XX001) when a record is missing or bad before the log's end.
        """
        expected = self._segments[0] if self._segments else 1
        if from_lsn < expected and self._segments:
            raise DataCorrupted(f"log records {from_lsn} to {expected - 1} are missing")
        last = self._last
        for i, first in enumerate(self._segments):
            following = self._segments[i + 1] if i + 1 < len(self._segments) else last + 1
            if following <= from_lsn:
                expected = following
                continue
            data = self._fs.read(self._segment(first))
            for lsn, payload, _ in _records(data, first):
                if lsn > last:
                    break
                expected = lsn + 1
                if lsn >= from_lsn:
                    yield lsn, payload.to_pybytes()
            if expected != following:
                raise DataCorrupted(
                    f"log record {expected} is damaged",
                    detail=f'It is in "{self._segment(first)}", before the end of the log.',
                )

    def truncate(self, before_lsn: int) -> None:
        """Forget records before this LSN; whole segments are removed, so some of them may stay."""
        with self._lock:
            removed = False
            while len(self._segments) > 1 and self._segments[1] <= before_lsn:
                self._fs.remove(self._segment(self._segments.pop(0)))
                removed = True
            if removed:
                self._fs.sync_directory(self.path)

    def rotate(self) -> None:
        """Begin a new segment with the next record, so that `truncate` can drop all before it."""
        with self._lock:
            if self._file is not None and self._last >= self._segments[-1]:
                self._close_segment()

    def skip_to(self, lsn: int) -> None:
        """Let the next record be lsn + 1, for a log that ends before what a checkpoint holds
        already (its files were taken away). The records it has are dropped."""
        with self._lock:
            if lsn <= self._last:
                return
            if self._file is not None:
                self._close_segment()
            for first in self._segments:
                self._fs.remove(self._segment(first))
            self._fs.sync_directory(self.path)
            self._segments.clear()
            self._last = self._durable = lsn

    def close(self) -> None:
        """Sync and close."""
        try:
            if not self._broken:
                self.sync()
        finally:
            for file in (*self._retired, self._file):
                if file is not None:
                    file.close()
            self._retired, self._file = [], None

    # -- segments --------------------------------------------------------------------------------
    def _segment(self, first: int) -> str:
        return self._fs.join(self.path, f"wal-{first:016x}.log")

    def _find_segments(self) -> list[int]:
        names = self._fs.list(self.path)
        return sorted(
            int(n[4:20], 16) for n in names if n.startswith("wal-") and n.endswith(".log")
        )

    def _recover_end(self) -> None:
        """Find the last whole record, cut what is behind it, and open the segment to go on."""
        first = self._segments[-1]
        path = self._segment(first)
        data = self._fs.read(path)
        end = _header_end(data, first, path)
        if end == 0:
            # the crash came while the segment was made: nothing in it was acknowledged
            self._fs.remove(path)
            self._fs.sync_directory(self.path)
            self._segments.pop()
            if self._segments:
                self._last = first - 1
                self._check_end(first)
            return
        for lsn, _, after in _records(data, first):
            self._last, end = lsn, after
        size = data.size
        del data
        self._file = self._fs.append(path)
        if end < size:
            self._file.truncate(end)
            self._file.sync()

    def _check_end(self, next_first: int) -> None:
        """The segment before an unfinished one must be whole: it was synced before the next was
        made."""
        first = self._segments[-1]
        lsn = first - 1
        for found, _, _ in _records(self._fs.read(self._segment(first)), first):
            lsn = found
        if lsn != next_first - 1:
            raise DataCorrupted(f"log record {lsn + 1} is damaged")

    def _writable(self, size: int) -> AppendFile:
        """The segment to write to, a new one when the last is full."""
        if self._broken:
            raise self._broken_error()
        full = self._file is not None and self._file.size + RECORD.size + size > self.segment_bytes
        if full and self._last >= self._segments[-1]:
            self._close_segment()
        if self._file is None:
            self._file = self._new_segment(self._last + 1)
        return self._file

    def _close_segment(self) -> None:
        """Sync and leave the last segment."""
        assert self._file is not None
        try:
            self._file.sync()
        except DiskError:
            self._broken = True
            raise
        self._durable = self._last
        self._retired.append(self._file)
        self._file = None

    def _new_segment(self, first: int) -> AppendFile:
        path = self._segment(first)
        head = HEADER.pack(MAGIC, FORMAT_VERSION, 0, first, 0, 0)[:-4]
        file = self._fs.create(path)
        try:
            file.write([head, struct.pack("<I", zlib.crc32(head))])
            file.sync()
            self._fs.sync_directory(self.path)
        except DiskError:
            file.close()
            self._forget(path)
            raise
        if not self._segments or self._segments[-1] != first:
            self._segments.append(first)
        return file

    def _forget(self, path: str) -> None:
        """Remove a segment that could not be finished; a left-over without records does no harm."""
        try:
            self._fs.remove(path)
        except DiskError:
            return

    def _undo(self, file: AppendFile, size: int) -> None:
        """Cut half a record off again."""
        try:
            file.truncate(size)
        except DiskError:
            self._broken = True

    def _broken_error(self) -> DiskError:
        return DiskError(
            "the write-ahead log can not be written after an earlier disk error",
            hint="Restart the server when the disk is well again; what was acknowledged is safe.",
        )


def _header_end(data: pa.Buffer, first: int, path: str) -> int:
    """Where records begin; 0 if the header is not whole. Raises: FeatureNotSupported,
    DataCorrupted."""
    if data.size < HEADER.size:
        return 0
    raw = data.slice(0, HEADER.size).to_pybytes()
    magic, version, _, lsn, _, crc = HEADER.unpack(raw)
    if crc != zlib.crc32(raw[:-4]):
        return 0
    if magic != MAGIC or lsn != first:
        raise DataCorrupted(f'"{path}" is not a segment of this log')
    if version > FORMAT_VERSION:
        raise FeatureNotSupported(
            f"the write-ahead log has format {version}, this server reads up to {FORMAT_VERSION}",
            hint="It was written by a newer version of streamsql; start that one.",
        )
    return HEADER.size


def _records(data: pa.Buffer, first: int) -> Iterator[tuple[int, pa.Buffer, int]]:
    """Whole records of a segment, as (lsn, payload, offset behind it), up to the first bad one."""
    view = memoryview(data)
    at, expected = HEADER.size, first
    while at + RECORD.size <= data.size:
        size, crc, lsn = RECORD.unpack_from(view, at)
        end = at + RECORD.size + size
        if lsn != expected or end > data.size:
            return
        if crc != zlib.crc32(view[at + 8 : end]):
            return
        yield lsn, data.slice(at + RECORD.size, size), end
        at, expected = end, expected + 1
