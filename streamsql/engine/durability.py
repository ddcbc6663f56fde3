"""The data directory: what is written before a write is acknowledged, and how it comes back.

A log record is one tick: catalog changes, each table's removed and added rows, source rows and
positions, the clock. A checkpoint holds everything as of one version. Recovery loads the newest
checkpoint and runs the records after it through the same code as the first time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from streamsql.core.errors import DiskError

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.engine.requests import Tick
    from streamsql.state.filesystem import FileSystem
    from streamsql.state.wal import WriteAheadLog


class Durability(Protocol):
    """What the commit path asks of the disk."""

    def log(self, ticks: Sequence[Tick]) -> tuple[int, DiskError | None]:
        """Make these ticks durable, in order: (how many are, why not all)."""
        ...

    def checkpoint_if_due(self) -> None:
        """Write a checkpoint if the log has grown or time has passed."""
        ...

    def recover(self) -> None:
        """Bring the engine to the newest durable version."""
        ...

    def subscription_log(self, oid: int) -> WriteAheadLog | None:
        """Where a subscription keeps its changes; None = in memory."""
        ...

    def forget_subscription(self, oid: int) -> None:
        """Remove what `subscription_log` gave."""
        ...

    def state_bytes(self, name: str) -> int:
        """Bytes on disk of a state in the newest checkpoint; 0 = it is not there."""
        ...

    def close(self) -> None:
        """Write a last checkpoint and let the directory go."""
        ...


class InMemory:
    """`:memory:`: nothing is kept."""

    def log(self, ticks: Sequence[Tick]) -> tuple[int, DiskError | None]:
        return len(ticks), None

    def checkpoint_if_due(self) -> None:
        return

    def recover(self) -> None:
        return

    def subscription_log(self, oid: int) -> WriteAheadLog | None:
        return None

    def forget_subscription(self, oid: int) -> None:
        return

    def state_bytes(self, name: str) -> int:
        return 0

    def close(self) -> None:
        return


def open_durability(
    engine: Engine, path: str | None, files: FileSystem | None = None
) -> Durability:
    """The durability of a data directory, or of none. files: the file system it is on.

    Raises: DataDirectoryInUse (55006), DiskError (58030).
    """
    if path is None:
        return InMemory()
    from streamsql.engine.datadir import DataDirectory

    return DataDirectory(engine, path, files)
