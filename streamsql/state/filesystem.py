"""The file system as the log and the checkpoints see it: a protocol, and the real one.

A protocol because durability is tested on a file system that loses what was not synced. Rules
that both keep: written bytes are durable after `sync` of the file, and names (created, renamed,
removed) after `sync_directory`. Every failure is a DiskError (58030) in PostgreSQL's words.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, Protocol

import pyarrow as pa

from streamsql.core.errors import DataDirectoryInUse, DiskError

Bytes = Any  # bytes, or whatever has the buffer protocol (pa.Buffer)


class AppendFile(Protocol):
    """A file that is written at its end."""

    @property
    def size(self) -> int:
        """Bytes written."""
        ...

    def write(self, parts: Sequence[Bytes]) -> None:
        """Append the parts. Raises: DiskError; some of the bytes may then be there."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to this size."""
        ...

    def sync(self) -> None:
        """Make everything written durable."""
        ...

    def close(self) -> None:
        """Let the file go, without making it durable."""
        ...


class FileLock(Protocol):
    """A held lock; `release` gives it back."""

    def release(self) -> None: ...


class FileSystem(Protocol):
    """What durability needs of a file system. Paths are strings with the system's separator."""

    def join(self, *parts: str) -> str: ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; fine if it is there."""
        ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when there is none."""
        ...

    def create(self, path: str) -> AppendFile:
        """A new empty file (an old one of that name is emptied)."""
        ...

    def append(self, path: str) -> AppendFile:
        """An existing file, to go on at its end."""
        ...

    def read(self, path: str) -> pa.Buffer:
        """A file's whole contents (mapped, where the system can)."""
        ...

    def exists(self, path: str) -> bool: ...

    def replace(self, source: str, target: str) -> None:
        """Rename over the target, atomically."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; fine if there is none."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def lock(self, path: str) -> FileLock:
        """Lock a file for this process. Raises: DataDirectoryInUse (55006)."""
        ...


@contextlib.contextmanager
def disk_errors(what: str, path: str) -> Iterator[None]:
    """OSErrors inside become DiskError: `could not write file "wal-1": No space left on device`."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "Check free disk space." if full else None
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise DiskError(f'could not {what} "{path}": {reason}', hint=hint) from error


class OsAppendFile:
    """`AppendFile` on a file descriptor."""

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        with disk_errors("open file", path):
            self._fd = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
        self._size = os.lseek(self._fd, 0, os.SEEK_END)

    @property
    def size(self) -> int:
        return self._size

    def write(self, parts: Sequence[Bytes]) -> None:
        with disk_errors("write file", self.path):
            for part in parts:
                view = memoryview(part).cast("B")
                while view:
                    done = os.write(self._fd, view)
                    self._size += done
                    view = view[done:]

    def truncate(self, size: int) -> None:
        with disk_errors("truncate file", self.path):
            os.ftruncate(self._fd, size)
            os.lseek(self._fd, size, os.SEEK_SET)
            self._size = size

    def sync(self) -> None:
        with disk_errors("fsync file", self.path):
            _sync_file(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _data_sync() -> Callable[[int], None]:
    """fdatasync where there is one: the size is made durable by it, times are not."""
    if hasattr(os, "fdatasync"):
        return os.fdatasync
    return os.fsync


_sync_file = _data_sync()


class OsFileLock:
    """An advisory lock on an open file, given back by the system if the process dies."""

    def __init__(self, path: str) -> None:
        self.path = path
        with disk_errors("open lock file", path):
            self._file: IO[Any] | None = open(path, "a+b")  # noqa: SIM115  (held until release)
        try:
            _lock_exclusively(self._file)
        except OSError as error:
            self._file.seek(0)
            owner = self._file.read(32).decode("ascii", "replace").strip()
            self._file.close()
            directory = os.path.dirname(path)
            raise DataDirectoryInUse(
                f'data directory "{directory}" is in use',
                detail=f"Process {owner or 'unknown'} holds its lock file.",
                hint="Stop the other server, or choose another data directory.",
            ) from error
        self._file.truncate(0)
        self._file.write(str(os.getpid()).encode())
        self._file.flush()

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _lock_exclusively(file: IO[Any]) -> None:
    """Raises: OSError when another process holds it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        locking: Any = msvcrt
        file.seek(1 << 20)  # behind the owner's number, which stays readable
        locking.locking(file.fileno(), locking.LK_NBLCK, 1)
        file.seek(0)
    else:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


class OsFileSystem:
    """The machine's file system."""

    def join(self, *parts: str) -> str:
        return os.path.join(*parts)

    def make_directory(self, path: str) -> None:
        with disk_errors("create directory", path):
            os.makedirs(path, exist_ok=True)

    def list(self, path: str) -> list[str]:
        with disk_errors("open directory", path):
            try:
                return sorted(os.listdir(path))
            except FileNotFoundError:
                return []

    def create(self, path: str) -> AppendFile:
        return OsAppendFile(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def append(self, path: str) -> AppendFile:
        return OsAppendFile(path, os.O_RDWR)

    def read(self, path: str) -> pa.Buffer:
        with disk_errors("read file", path):
            if os.path.getsize(path) == 0:
                return pa.py_buffer(b"")
            with pa.memory_map(path) as source:
                return source.read_buffer()

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def replace(self, source: str, target: str) -> None:
        with disk_errors("rename file", source):
            os.replace(source, target)

    def remove(self, path: str) -> None:
        with disk_errors("remove file", path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def sync_directory(self, path: str) -> None:
        if os.name == "nt":  # directories can not be opened there; NTFS journals names itself
            return
        with disk_errors("fsync directory", path):
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def lock(self, path: str) -> FileLock:
        return OsFileLock(path)


def lock_data_directory(path: str, files: FileSystem | None = None) -> FileLock:
    """Make the data directory if need be and take its lock, so that no other process writes there.

    Raises: DataDirectoryInUse (55006), DiskError (58030).
    """
    fs = files or OsFileSystem()
    fs.make_directory(path)
    return fs.lock(fs.join(path, "LOCK"))
