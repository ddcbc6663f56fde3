"""A data directory: lock, write-ahead log, checkpoints, recovery."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from streamsql.core.errors import DiskError, FeatureNotSupported
from streamsql.engine.records import encode
from streamsql.engine.requests import Tick
from streamsql.state.checkpoint import CheckpointStore
from streamsql.state.filesystem import FileSystem, OsFileSystem
from streamsql.state.wal import WriteAheadLog

if TYPE_CHECKING:
    from streamsql.engine.checkpoints import Loader
    from streamsql.engine.engine import Engine

CHECKPOINT_LOG_BYTES = 256 << 20
"""Log that makes a checkpoint due."""

CHECKPOINT_SECONDS = 300.0
"""Time after which a checkpoint is due, if the log holds more than a little."""

CHECKPOINT_SMALL_BYTES = 4 << 20

FORMAT = 1
"""Version of the catalog's and the records' format; a newer one is refused."""


class DataDirectory:
    """Implements `Durability` over files.

    Layout: `LOCK`, `wal/` (the log), `checkpoint/` (states and manifest). files: the file system,
    another one in tests.
    """

    def __init__(self, engine: Engine, path: str, files: FileSystem | None = None) -> None:
        self.engine = engine
        self.path = path
        self._files = files or OsFileSystem()
        self._files.make_directory(path)
        self._lock = self._files.lock(self._files.join(path, "LOCK"))
        self._wal: WriteAheadLog
        self._checkpoints: CheckpointStore
        self._logged = 0
        self._checkpointed_version = -1
        self._last_checkpoint = time.monotonic()

    # --- writing --------------------------------------------------------------------------------
    def log(self, ticks: Sequence[Tick]) -> tuple[int, DiskError | None]:
        """See `Durability`."""
        written = 0
        failure: DiskError | None = None
        try:
            for tick in ticks:
                payload = encode(tick)
                self._wal.append(payload)
                self._logged += len(payload)
                written += 1
        except DiskError as error:
            failure = error
        if written:
            try:
                self._wal.sync()
            except DiskError as error:
                return 0, error
        return written, failure

    def checkpoint_if_due(self) -> None:
        """See `Durability`."""
        waited = time.monotonic() - self._last_checkpoint
        due = self._logged > CHECKPOINT_LOG_BYTES
        due = due or (waited > CHECKPOINT_SECONDS and self._logged > CHECKPOINT_SMALL_BYTES)
        if due:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write everything as of now; the log before it is dropped. Engine thread."""
        from streamsql.engine.checkpoints import collect

        engine = self.engine
        states, meta = collect(engine)
        lsn = self._wal.last_lsn
        self._last_checkpoint = time.monotonic()
        self._checkpoints.write(states, {"format": FORMAT, "lsn": lsn, **meta})
        self._wal.rotate()
        self._wal.truncate(lsn + 1)
        self._logged = 0
        self._checkpointed_version = engine.version

    # --- opening and closing --------------------------------------------------------------------
    def recover(self) -> None:
        """See `Durability`."""
        from streamsql.engine.checkpoints import restore
        from streamsql.engine.replay import replay

        join = self._files.join
        first = 1
        try:
            self._checkpoints = CheckpointStore(join(self.path, "checkpoint"), files=self._files)
            found = self._checkpoints.read()
            if found is not None:
                meta: dict[str, Any] = dict(found[0])
                loader = cast("Loader", found[1])
                if meta["format"] > FORMAT:
                    raise FeatureNotSupported(
                        f'data directory "{self.path}" was written by a newer version of streamsql',
                        hint="Open it with that version.",
                    )
                restore(self.engine, meta, loader)
                self._checkpointed_version = self.engine.version
                first = meta["lsn"] + 1
            self._wal = WriteAheadLog(join(self.path, "wal"), files=self._files)
            replay(self.engine, self._wal.replay(first))
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """See `Durability`."""
        try:
            if self.engine.version != self._checkpointed_version:
                self.checkpoint()
        finally:
            try:
                self._wal.close()
            finally:
                self._lock.release()
