"""A data directory: lock, write-ahead log, checkpoints, recovery."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from streamsql.core.errors import DiskError, FeatureNotSupported
from streamsql.engine import logs
from streamsql.engine.records import encode
from streamsql.engine.requests import Tick
from streamsql.engine.storage.change_store import SEGMENT_BYTES
from streamsql.state.checkpoint import IMMUTABLE, CheckpointStore
from streamsql.state.filesystem import FileSystem, OsFileSystem
from streamsql.state.wal import WriteAheadLog

if TYPE_CHECKING:
    from streamsql.engine.checkpoints import Loader
    from streamsql.engine.engine import Engine

State = Mapping[str, pa.Table]

CHECKPOINT_LOG_BYTES = 256 << 20
"""Log that makes a checkpoint due."""

CHECKPOINT_SECONDS = 300.0
"""Time after which a checkpoint is due, if the log holds more than a little."""

CHECKPOINT_SMALL_BYTES = 4 << 20

CHANGE_BYTES = 4 << 20
"""What a catalog change counts for: replaying it takes about as long as so much of rows."""

FORMAT = 1
"""Version of the catalog's and the records' format; a newer one is refused."""


class DataDirectory:
    """Implements `Durability` over files.

    Layout: `LOCK`, `wal/` (the log), `checkpoint/` (states and manifest), `subscriptions/<oid>/`
    (changes that subscriptions keep). files: the file system, another one in tests.
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
        self._writer: threading.Thread | None = None

    # --- writing --------------------------------------------------------------------------------
    def log(self, ticks: Sequence[Tick]) -> tuple[int, DiskError | None]:
        """See `Durability`."""
        written = 0
        failure: DiskError | None = None
        try:
            for tick in ticks:
                payload = encode(tick)
                self._wal.append(payload)
                self._logged += len(payload) + (CHANGE_BYTES if tick.ddl else 0)
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
        """See `Durability`. The engine thread only gathers the states; another one writes them."""
        waited = time.monotonic() - self._last_checkpoint
        due = self._logged > CHECKPOINT_LOG_BYTES
        due = due or (waited > CHECKPOINT_SECONDS and self._logged > CHECKPOINT_SMALL_BYTES)
        if due and (self._writer is None or not self._writer.is_alive()):
            states, meta = self._gather()
            detached = {name: detach(state) for name, state in states.items()}
            self._writer = threading.Thread(
                target=self._write_quietly, args=(detached, meta), name="streamsql-checkpoint"
            )
            self._writer.start()

    def checkpoint(self) -> None:
        """Write everything as of now; the log before it is dropped. Engine thread, or after it.

        Raises: DiskError (58030), and then the checkpoint before is still whole.
        """
        self._await_writer()
        self._write(*self._gather())

    def _gather(self) -> tuple[dict[str, State], dict[str, Any]]:
        from streamsql.engine.checkpoints import collect

        states, meta = collect(self.engine)
        self._logged = 0
        self._last_checkpoint = time.monotonic()
        return states, {"format": FORMAT, "lsn": self._wal.last_lsn, **meta}

    def _write(self, states: dict[str, State], meta: dict[str, Any]) -> None:
        start = time.perf_counter()
        epoch = self._checkpoints.write(states, meta)
        try:
            self._wal.rotate()
            self._wal.truncate(meta["lsn"] + 1)
        except DiskError as error:  # the old log is only in the way
            logs.warning("log not truncated", reason=error.message)
        self._checkpointed_version = meta["version"]
        logs.info(
            "checkpoint committed",
            epoch=epoch,
            version=meta["version"],
            state_bytes=self._checkpoints.nbytes,
            seconds=round(time.perf_counter() - start, 3),
        )

    def _write_quietly(self, states: dict[str, State], meta: dict[str, Any]) -> None:
        """On the writer's thread: a failure leaves the old checkpoint and the log, so only the log
        of events hears of it; the next one is tried when it is due."""
        try:
            self._write(states, meta)
        except DiskError as error:
            logs.warning("checkpoint failed", reason=error.message)

    def _await_writer(self) -> None:
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    # --- subscriptions --------------------------------------------------------------------------
    def subscription_log(self, oid: int) -> WriteAheadLog | None:
        """See `Durability`."""
        path = self._files.join(self.path, "subscriptions", str(oid))
        return WriteAheadLog(path, files=self._files, segment_bytes=SEGMENT_BYTES)

    def forget_subscription(self, oid: int) -> None:
        """See `Durability`."""
        path = self._files.join(self.path, "subscriptions", str(oid))
        for name in self._files.list(path):
            self._files.remove(self._files.join(path, name))

    def state_bytes(self, name: str) -> int:
        """See `Durability`."""
        return self._checkpoints.nbytes_of(name)

    # --- opening and closing --------------------------------------------------------------------
    def recover(self) -> None:
        """See `Durability`."""
        from streamsql.engine.checkpoints import restore
        from streamsql.engine.replay import doomed_views, replay

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
            doomed = doomed_views(self._wal.replay(first), self.engine.version)
            replay(self.engine, self._wal.replay(first), doomed)
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """See `Durability`."""
        try:
            self._await_writer()
            current = self.engine.version == self._checkpointed_version
            if not current and not self.engine.scheduler.failed:
                self.checkpoint()
        finally:
            try:
                self._wal.close()
            finally:
                self._lock.release()


def detach(state: State) -> State:
    """The state in memory of its own, so that operators may go on while it is written. Tables that
    say that theirs never changes are taken as they are."""
    return {name: detached(table) for name, table in state.items()}


def detached(table: pa.Table) -> pa.Table:
    """A copy that shares nothing with the table, or the table itself where that is safe."""
    if IMMUTABLE in (table.schema.metadata or {}) or not table.num_rows:
        return table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return pa.Table.from_batches(pa.ipc.open_stream(sink.getvalue()), schema=table.schema)
