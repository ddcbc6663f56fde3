"""A data directory: lock, write-ahead log, checkpoints, recovery."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from streamsql.core.errors import DataCorrupted, DataDirectoryInUse, DiskError
from streamsql.engine.records import encode
from streamsql.engine.requests import Tick
from streamsql.state.checkpoint import CheckpointStore
from streamsql.state.wal import WriteAheadLog

if TYPE_CHECKING:
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

    Layout: `LOCK`, `wal/` (the log), `checkpoint/` (states and manifest).
    """

    def __init__(self, engine: Engine, path: str) -> None:
        self.engine = engine
        self.path = Path(path)
        self._lock = lock_directory(self.path)
        self._wal: Any = None
        self._checkpoints: Any = None
        self._logged = 0
        self._checkpointed_version = -1
        self._last_checkpoint = time.monotonic()
        self._failed: DiskError | None = None

    # --- writing --------------------------------------------------------------------------------
    def log(self, ticks: Sequence[Tick]) -> None:
        """See `Durability`."""
        if self._failed is not None:
            raise self._failed
        start = self._wal.position
        try:
            for tick in ticks:
                payload = encode(tick)
                self._wal.append(payload)
                self._logged += len(payload)
            self._wal.sync()
        except (OSError, DiskError) as error:
            self._roll_back(start, error)
            raise

    def _roll_back(self, start: Any, error: Exception) -> None:
        """Cut the log where it ended before; if even that fails, nothing more is written."""
        try:
            self._wal.rollback(start)
        except (OSError, DiskError) as second:
            self._failed = DiskError(
                f"the log can not be written any more: {second}",
                hint="Close the database, repair the disk, and open it again.",
            )
            raise self._failed from error

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
        position = self._wal.position
        self._checkpoints.write(states, {"format": FORMAT, **meta})
        self._wal.truncate(position)
        self._logged = 0
        self._last_checkpoint = time.monotonic()
        self._checkpointed_version = engine.version

    # --- opening and closing --------------------------------------------------------------------
    def recover(self) -> None:
        """See `Durability`."""
        from streamsql.engine.checkpoints import restore
        from streamsql.engine.replay import replay

        try:
            self._checkpoints = CheckpointStore(self.path / "checkpoint")
            found = self._checkpoints.read()
            if found is not None:
                meta, loader = found
                if meta["format"] > FORMAT:
                    raise DataCorrupted(
                        f'data directory "{self.path}" was written by a newer version of streamsql',
                        hint="Open it with that version.",
                    )
                restore(self.engine, meta, loader)
                self._checkpointed_version = self.engine.version
            self._wal = WriteAheadLog(self.path / "wal")
            replay(self.engine, self._wal)
        except BaseException:
            self._unlock()
            raise

    def close(self) -> None:
        """See `Durability`."""
        try:
            if self._failed is None and self.engine.version != self._checkpointed_version:
                self.checkpoint()
        finally:
            self._wal.close()
            self._unlock()

    def _unlock(self) -> None:
        self._lock.close()


def lock_directory(path: Path) -> IO[str]:
    """Make the directory and take its lock for this process.

    Raises: DataDirectoryInUse (55006), DiskError (58030).
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        handle = open(path / "LOCK", "a+", encoding="ascii")  # noqa: SIM115  (kept open)
    except OSError as error:
        raise DiskError(f'could not open data directory "{path}": {error.strerror}') from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise DataDirectoryInUse(
            f'data directory "{path}" is in use by another process',
            hint="Stop the other server, or choose another directory.",
        ) from error
    handle.seek(0)
    handle.truncate()
    handle.write(f"{os.getpid()}\n")
    handle.flush()
    return handle
