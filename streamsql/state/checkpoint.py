"""Checkpoints: named objects as Arrow files, made valid by replacing one manifest.

Directory: `MANIFEST` (checksum line, then JSON) and data files `<epoch, 8 hex
digits>-<number>.arrow` or `.bin`. A checkpoint writes new files, syncs them and the directory,
then renames the new manifest over the old: a crash at any moment leaves the old checkpoint or the
new one. Files that no manifest names are removed after that, and at the next opening.

Checkpoints are incremental in two ways. An object the caller calls unchanged keeps its files. And a
table that says so (`mark_immutable`) is kept by pages, its record batches: a page whose memory is
the same as last time is not written again, only named again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from streamsql.core.errors import DataCorrupted, FeatureNotSupported
from streamsql.state.filesystem import AppendFile, FileSystem, OsFileSystem

State = Mapping[str, pa.Table]
Loader = Callable[[str], "State | bytes"]

FORMAT_VERSION = 1
MANIFEST = "MANIFEST"
IMMUTABLE = b"streamsql.immutable"
REWRITE_BELOW = 4  # a file is written anew once fewer than 1 in so many of its pages are in use


class FileEntry(msgspec.Struct, frozen=True):
    """A data file: its name, size, CRC-32 of its bytes, and how many pages it has."""

    name: str
    size: int
    crc: int
    pages: int = 1


class TableEntry(msgspec.Struct, frozen=True):
    """A table: its pages in order as [index into `files`, page in that file]."""

    files: tuple[FileEntry, ...]
    pages: tuple[tuple[int, int], ...]


class ObjectEntry(msgspec.Struct, frozen=True):
    """A named object: tables by name, or one file of bytes."""

    tables: dict[str, TableEntry] = {}
    blob: FileEntry | None = None


class Manifest(msgspec.Struct, frozen=True):
    """What one checkpoint consists of."""

    format: int
    epoch: int
    meta: dict[str, object]
    objects: dict[str, ObjectEntry]


def mark_immutable(table: pa.Table) -> pa.Table:
    """Say that the table's memory never changes, so that pages written once need not be again."""
    if not table.num_columns:  # Arrow would forget the row count
        return table
    return table.replace_schema_metadata({**(table.schema.metadata or {}), IMMUTABLE: b"1"})


@dataclass
class _Remembered:
    """Pages of a table as last written: the batches (kept, so that their memory is not used again)
    and where they lie."""

    entry: TableEntry
    batches: list[pa.RecordBatch] = field(default_factory=list)


class CheckpointStore:
    """The checkpoints of one directory; only the newest is kept."""

    def __init__(self, path: str, *, files: FileSystem | None = None) -> None:
        """Open or make the directory; left-overs of a crash are removed.

        Raises: DiskError (58030), DataCorrupted (XX001), FeatureNotSupported (0A000; newer format).
        """
        self.path = path
        self._fs = files or OsFileSystem()
        self._fs.make_directory(path)
        self._manifest = self._read_manifest()
        self._remembered: dict[tuple[str, str], _Remembered] = {}
        self._collect()

    @property
    def epoch(self) -> int:
        """Number of the newest checkpoint; 0 = there is none."""
        return self._manifest.epoch if self._manifest else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the newest checkpoint's files."""
        if self._manifest is None:
            return 0
        return sum({f.name: f.size for f in _files_of(self._manifest)}.values())

    def nbytes_of(self, name: str) -> int:
        """Bytes of the files that an object of the newest checkpoint lies in; 0 for no such one."""
        found = None if self._manifest is None else self._manifest.objects.get(name)
        return 0 if found is None else sum({f.name: f.size for f in _files_in(found)}.values())

    def write(
        self,
        objects: Mapping[str, State | bytes],
        meta: Mapping[str, object],
        unchanged: Collection[str] = (),
    ) -> int:
        """Write a checkpoint of these objects and return its epoch; it replaces the one before.

        unchanged: names that keep what the checkpoint before has for them (they need not be in
        `objects`); all others that are not in `objects` are gone. meta: JSON values. Tables must
        not change until this returns. Raises: DiskError (58030), and then the checkpoint before is
        still whole.
        """
        epoch = self.epoch + 1
        writer = _EpochWriter(self._fs, self.path, epoch)
        entries: dict[str, ObjectEntry] = {}
        remembered: dict[tuple[str, str], _Remembered] = {}
        try:
            for name in sorted({*objects, *unchanged}):
                if name in unchanged:
                    entries[name] = self._entry(name)
                    remembered |= {k: v for k, v in self._remembered.items() if k[0] == name}
                    continue
                entries[name] = self._write_object(name, objects[name], writer, remembered)
            self._fs.sync_directory(self.path)
            manifest = Manifest(FORMAT_VERSION, epoch, dict(meta), entries)
            self._write_manifest(manifest)
        except BaseException:
            writer.abandon()
            raise
        self._manifest, self._remembered = manifest, remembered
        self._collect()
        return epoch

    def read(self) -> tuple[dict[str, object], Loader] | None:
        """(meta, loader) of the newest checkpoint, or None. loader(name) gives the State or bytes,
        checked against its checksums (DataCorrupted, XX001); KeyError for a name it has not."""
        if self._manifest is None:
            return None
        return dict(self._manifest.meta), self._load

    def names(self) -> list[str]:
        """Names of the objects in the newest checkpoint."""
        return sorted(self._manifest.objects) if self._manifest else []

    # -- writing ---------------------------------------------------------------------------------
    def _entry(self, name: str) -> ObjectEntry:
        if self._manifest is None or name not in self._manifest.objects:
            raise KeyError(f'no checkpoint holds the unchanged object "{name}"')
        return self._manifest.objects[name]

    def _write_object(
        self,
        name: str,
        state: State | bytes,
        writer: _EpochWriter,
        remembered: dict[tuple[str, str], _Remembered],
    ) -> ObjectEntry:
        if isinstance(state, bytes | bytearray | memoryview):
            return ObjectEntry(blob=writer.write_blob(bytes(state)))
        tables = {}
        for table_name, table in state.items():
            key = (name, table_name)
            if IMMUTABLE in (table.schema.metadata or {}):
                known = self._remembered.get(key)
                remembered[key] = writer.write_pages(table, known)
                tables[table_name] = remembered[key].entry
            else:
                tables[table_name] = writer.write_table(table.schema, table.to_batches())
        return ObjectEntry(tables=tables)

    def _write_manifest(self, manifest: Manifest) -> None:
        body = msgspec.json.encode(manifest)
        target, temporary = (self._fs.join(self.path, n) for n in (MANIFEST, MANIFEST + ".new"))
        file = self._fs.create(temporary)
        try:
            file.write([b"%08x\n" % zlib.crc32(body), body])
            file.sync()
        finally:
            file.close()
        self._fs.replace(temporary, target)
        self._fs.sync_directory(self.path)

    # -- reading ---------------------------------------------------------------------------------
    def _read_manifest(self) -> Manifest | None:
        path = self._fs.join(self.path, MANIFEST)
        if not self._fs.exists(path):
            return None
        checksum, _, body = self._fs.read(path).to_pybytes().partition(b"\n")
        if checksum != b"%08x" % zlib.crc32(body):
            raise DataCorrupted(f'checkpoint manifest "{path}" is damaged')
        version = msgspec.json.decode(body).get("format")
        if version > FORMAT_VERSION:
            raise FeatureNotSupported(
                f"the data directory has format {version}, this server reads {FORMAT_VERSION}",
                hint="It was written by a newer version of streamsql; start that one.",
            )
        return msgspec.json.decode(body, type=Manifest)

    def _load(self, name: str) -> State | bytes:
        assert self._manifest is not None
        entry = self._manifest.objects[name]
        if entry.blob is not None:
            return self._read_file(entry.blob).to_pybytes()
        return {key: self._read_table(table) for key, table in entry.tables.items()}

    def _read_file(self, entry: FileEntry) -> pa.Buffer:
        path = self._fs.join(self.path, entry.name)
        if not self._fs.exists(path):
            raise DataCorrupted(f'checkpoint file "{path}" is missing')
        data = self._fs.read(path)
        if data.size != entry.size or zlib.crc32(data) != entry.crc:
            raise DataCorrupted(f'checkpoint file "{path}" is damaged')
        return data

    def _read_table(self, entry: TableEntry) -> pa.Table:
        readers = [pa.ipc.open_file(pa.BufferReader(self._read_file(f))) for f in entry.files]
        schema = readers[-1].schema
        batches = [readers[f].get_batch(page) for f, page in entry.pages]
        table = pa.Table.from_batches([b.replace_schema_metadata(None) for b in batches] or [],
                                      schema.remove_metadata())  # fmt: skip
        kept = {k: v for k, v in (schema.metadata or {}).items() if k != IMMUTABLE}
        if not kept or not table.num_columns:  # without columns Arrow would forget the row count
            return table
        return table.replace_schema_metadata(kept)

    # -- garbage ---------------------------------------------------------------------------------
    def _collect(self) -> None:
        """Remove the files that the manifest does not name."""
        named = {MANIFEST}
        if self._manifest is not None:
            named |= {f.name for f in _files_of(self._manifest)}
        for name in self._fs.list(self.path):
            ours = name.endswith((".arrow", ".bin")) or name == MANIFEST + ".new"
            if ours and name not in named:
                self._fs.remove(self._fs.join(self.path, name))


class _EpochWriter:
    """Writes the data files of one checkpoint."""

    def __init__(self, fs: FileSystem, path: str, epoch: int) -> None:
        self._fs = fs
        self._path = path
        self._epoch = epoch
        self._names: list[str] = []

    def abandon(self) -> None:
        """Remove what was written, as far as the disk allows; the rest goes at the next opening."""
        from streamsql.core.errors import DiskError

        for name in self._names:
            try:
                self._fs.remove(self._fs.join(self._path, name))
            except DiskError:
                return

    def write_blob(self, data: bytes) -> FileEntry:
        """One file of bytes."""
        with _Sink(self._create("bin")) as sink:
            sink.write(data)
        return sink.entry(self._names[-1], 1)

    def write_table(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> TableEntry:
        """One Arrow file with a page for each batch."""
        file = self._write_arrow(schema, batches)
        return TableEntry((file,), tuple((0, page) for page in range(len(batches))))

    def write_pages(self, table: pa.Table, known: _Remembered | None) -> _Remembered:
        """The pages that are not where they were last time; the others are named again."""
        batches = table.to_batches()
        places: dict[tuple[int, ...], tuple[FileEntry, int]] = {}
        if known is not None:
            for batch, (f, page) in zip(known.batches, known.entry.pages, strict=True):
                places[_identity(batch)] = known.entry.files[f], page
        found = [places.get(_identity(batch)) for batch in batches]
        used: dict[str, int] = {}
        for place in found:
            if place is not None:
                used[place[0].name] = used.get(place[0].name, 0) + 1
        found = [
            p if p is not None and used[p[0].name] * REWRITE_BELOW > p[0].pages else None
            for p in found
        ]
        fresh = [batch for batch, place in zip(batches, found, strict=True) if place is None]
        files = list({p[0].name: p[0] for p in found if p is not None}.values())
        if fresh or not files:
            files.append(self._write_arrow(table.schema, fresh))
        index = {file.name: i for i, file in enumerate(files)}
        pages, next_fresh = [], 0
        for place in found:
            if place is None:
                pages.append((len(files) - 1, next_fresh))
                next_fresh += 1
            else:
                pages.append((index[place[0].name], place[1]))
        return _Remembered(TableEntry(tuple(files), tuple(pages)), batches)

    def _create(self, suffix: str) -> AppendFile:
        self._names.append(f"{self._epoch:08x}-{len(self._names)}.{suffix}")
        return self._fs.create(self._fs.join(self._path, self._names[-1]))

    def _write_arrow(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> FileEntry:
        with _Sink(self._create("arrow")) as sink:
            output = pa.PythonFile(sink, "w")
            with pa.ipc.new_file(output, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        return sink.entry(self._names[-1], len(batches))


class _Sink:
    """A file object for Arrow that counts and checksums what is written, and syncs at its end."""

    closed = False
    mode = "wb"

    def __init__(self, file: AppendFile) -> None:
        self._file = file
        self._crc = 0

    def write(self, data: bytes | pa.Buffer) -> int:
        """Called by Arrow."""
        view = memoryview(data).cast("B")
        self._crc = zlib.crc32(view, self._crc)
        self._file.write([view])
        return len(view)

    def flush(self) -> None:
        """Called by Arrow; the sync at the end is what counts."""

    def tell(self) -> int:
        """Called by Arrow."""
        return self._file.size

    def close(self) -> None:
        """Called by Arrow when it is done; the file is closed by `__exit__`."""

    def writable(self) -> bool:
        """Called by Arrow."""
        return True

    def readable(self) -> bool:
        """Called by Arrow."""
        return False

    def seekable(self) -> bool:
        """Called by Arrow."""
        return False

    def __enter__(self) -> _Sink:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                self._file.sync()
        finally:
            self._file.close()

    def entry(self, name: str, pages: int) -> FileEntry:
        """How the manifest names the file."""
        return FileEntry(name, self._file.size, self._crc, pages)


def _identity(batch: pa.RecordBatch) -> tuple[int, ...]:
    """Where the batch's memory is: equal for the same rows as long as that memory is kept."""
    parts = [batch.num_rows]
    for column in batch.columns:
        parts += [len(column), column.offset]
        parts += [0 if b is None else b.address for b in column.buffers()]
    return tuple(parts)


def _files_of(manifest: Manifest) -> list[FileEntry]:
    """All files a manifest names; some several times."""
    return [file for entry in manifest.objects.values() for file in _files_in(entry)]


def _files_in(entry: ObjectEntry) -> list[FileEntry]:
    """The files an object lies in; some several times."""
    files = [] if entry.blob is None else [entry.blob]
    for table in entry.tables.values():
        files += table.files
    return files
