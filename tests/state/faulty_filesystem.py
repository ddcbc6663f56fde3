"""A file system in memory that fails, fills up, and loses at a crash what was not synced.

What a disk may do, it does: at a crash each unsynced write is kept, lost or torn (a lost one that
others follow leaves zeros), and of the unsynced names a prefix is kept.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamsql.core.errors import DataDirectoryInUse
from streamsql.state.filesystem import disk_errors


class Crash(BaseException):
    """The power fails here. Not an Exception, so that nothing handles it."""


@dataclass
class Content:
    """A file's bytes: as the process sees them, as they are durable, and what happened in
    between."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)


class MemoryFileSystem:
    """Files by path. One directory level is as good as any: names are whole paths.

    fail_at: the number of the operation (from 1) that fails: with `error` (an errno), half done if
    it is a write; or, if `error` is None, by a Crash. capacity: bytes after which the disk is full.
    """

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.names: dict[str, Content] = {}
        self.durable_names: dict[str, Content] = {}
        self.pending_names: list[tuple[str, str, Content | None]] = []
        self.locks: set[str] = set()
        self.operations = 0
        self.fail_at = 0
        self.error: int | None = None
        self.capacity: int | None = None
        self.generation = 0

    # -- faults ----------------------------------------------------------------------------------
    def operation(self, half: Callable[[], None] | None = None) -> None:
        """Count a change; fail if it is its turn."""
        self.operations += 1
        if self.operations == self.fail_at:
            if half is not None:
                half()
            if self.error is None:
                raise Crash
            raise OSError(self.error, os.strerror(self.error))

    def crash(self) -> None:
        """The power fails: open files and locks are gone, and so may be whatever was not synced."""
        self.generation += 1
        self.locks.clear()
        self.fail_at = 0
        keep = self.random.randint(0, len(self.pending_names))
        for action, path, content in self.pending_names[:keep]:
            self._apply_name(self.durable_names, action, path, content)
        self.pending_names.clear()
        for content in {id(c): c for c in self.durable_names.values()}.values():
            content.data = self._after_crash(content)
            content.durable = bytes(content.data)
            content.pending.clear()
        self.names = dict(self.durable_names)

    def _after_crash(self, content: Content) -> bytearray:
        data = bytearray(content.durable)
        for action, at, payload in content.pending:
            fate = self.random.choice(["kept", "lost", "torn"])
            if action == "truncate":
                if fate == "kept":
                    del data[at:]
                continue
            if fate == "torn":
                payload = payload[: self.random.randint(0, len(payload))]
            if fate != "lost":
                data.extend(bytes(max(0, at - len(data))))
                data[at : at + len(payload)] = payload
        return data

    def _apply_name(
        self, names: dict[str, Content], action: str, path: str, content: Content | None
    ) -> None:
        if action == "remove":
            names.pop(path, None)
        elif action == "rename":
            for old in [k for k, v in names.items() if v is content]:
                del names[old]
            assert content is not None
            names[path] = content
        else:
            assert content is not None
            names[path] = content

    def _name(self, action: str, path: str, content: Content | None) -> None:
        self._apply_name(self.names, action, path, content)
        self.pending_names.append((action, path, content))

    @property
    def used(self) -> int:
        return sum(len(c.data) for c in {id(c): c for c in self.names.values()}.values())

    # -- the protocol ----------------------------------------------------------------------------
    def join(self, *parts: str) -> str:
        return "/".join(parts)

    def make_directory(self, path: str) -> None:
        pass

    def list(self, path: str) -> list[str]:
        start = path + "/"
        return sorted(p[len(start) :] for p in self.names if p.startswith(start))

    def create(self, path: str) -> MemoryFile:
        with disk_errors("open file", path):
            self.operation()
        content = Content()
        self._name("create", path, content)
        return MemoryFile(self, path, content)

    def append(self, path: str) -> MemoryFile:
        return MemoryFile(self, path, self.names[path])

    def read(self, path: str) -> pa.Buffer:
        return pa.py_buffer(bytes(self.names[path].data))

    def exists(self, path: str) -> bool:
        return path in self.names

    def replace(self, source: str, target: str) -> None:
        with disk_errors("rename file", source):
            self.operation()
        self._name("rename", target, self.names[source])

    def remove(self, path: str) -> None:
        with disk_errors("remove file", path):
            self.operation()
        if path in self.names:
            self._name("remove", path, None)

    def sync_directory(self, path: str) -> None:
        with disk_errors("fsync directory", path):
            self.operation()
        for action, name, content in self.pending_names:
            self._apply_name(self.durable_names, action, name, content)
        self.pending_names.clear()

    def lock(self, path: str) -> MemoryLock:
        if path in self.locks:
            raise DataDirectoryInUse(f'data directory "{path}" is in use')
        self.locks.add(path)
        return MemoryLock(self, path)


class MemoryFile:
    """An open file of a MemoryFileSystem; dead after a crash."""

    def __init__(self, fs: MemoryFileSystem, path: str, content: Content) -> None:
        self.fs, self.path, self.content, self.generation = fs, path, content, fs.generation

    @property
    def size(self) -> int:
        return len(self.content.data)

    def _alive(self) -> None:
        assert self.generation == self.fs.generation, "a file opened before the crash is used"

    def _put(self, payload: bytes) -> None:
        self.content.pending.append(("write", self.size, payload))
        self.content.data += payload

    def write(self, parts: Any) -> None:
        self._alive()
        with disk_errors("write file", self.path):
            for part in parts:
                payload = bytes(memoryview(part).cast("B"))
                half = payload[: len(payload) // 2]
                if self.fs.capacity is not None and self.fs.used + len(payload) > self.fs.capacity:
                    self._put(payload[: max(0, self.fs.capacity - self.fs.used)])
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self.fs.operation(lambda half=half: self._put(half))  # type: ignore[misc]
                self._put(payload)

    def truncate(self, size: int) -> None:
        self._alive()
        with disk_errors("truncate file", self.path):
            self.fs.operation()
        self.content.pending.append(("truncate", size, b""))
        del self.content.data[size:]

    def sync(self) -> None:
        self._alive()
        with disk_errors("fsync file", self.path):
            self.fs.operation()
        self.content.durable = bytes(self.content.data)
        self.content.pending.clear()

    def close(self) -> None:
        pass


class MemoryLock:
    """A held lock."""

    def __init__(self, fs: MemoryFileSystem, path: str) -> None:
        self.fs, self.path = fs, path

    def release(self) -> None:
        self.fs.locks.discard(self.path)
