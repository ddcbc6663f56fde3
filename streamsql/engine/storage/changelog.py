"""The changes a relation went through in its last versions.

They serve SUBSCRIBE … AS OF, reads AS OF a version, and readers whose transaction started at an
older version than the rows in memory: the present rows minus the later changes are the old rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, concat
from streamsql.core.errors import SerializationFailure
from streamsql.core.schema import Schema
from streamsql.state.consolidate import consolidate

RETAIN_BYTES = 32 << 20
"""Kept of each relation for reads of old versions that nobody has announced."""

PINNED_BYTES = 512 << 20
"""Kept at most for open transactions; beyond it their next read fails with 40001."""


@dataclass(frozen=True)
class Keep:
    """What may not be dropped: changes later than `pinned` (a transaction reads that version) and
    than `promised` (a retention), the latter only while there is `room`. Without a promise the last
    RETAIN_BYTES are kept, with one nothing older than it."""

    pinned: int | None = None
    promised: int | None = None
    room: bool = True

    def wants(self, version: int, nbytes: int) -> bool:
        """Whether the log's oldest change, of this version, stays while the log has so many
        bytes."""
        if self.pinned is not None and version > self.pinned and nbytes <= PINNED_BYTES:
            return True
        if self.promised is None:
            return nbytes <= RETAIN_BYTES
        return version > self.promised and (self.room or nbytes <= RETAIN_BYTES)


@dataclass(frozen=True)
class Change:
    """What one tick did to one relation. delta: in the schema of the relation's store."""

    version: int
    delta: Delta


class ChangeLog:
    """The last changes of one relation, oldest first.

    floor: versions ≥ floor can be rebuilt.
    """

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._changes: deque[Change] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the changes kept."""
        return self._bytes

    @property
    def newest(self) -> int:
        """Version of the last change (or the floor)."""
        return self._changes[-1].version if self._changes else self.floor

    def append(self, version: int, delta: Delta, keep: Keep | None) -> None:
        """Add the change of a version, and drop old ones that `keep` does not ask for."""
        size = delta.nbytes + 16 * delta.num_rows
        self._changes.append(Change(version, delta))
        self._sizes.append(size)
        self._bytes += size
        self.trim(keep or Keep())

    def trim(self, keep: Keep) -> None:
        """Drop the oldest changes as far as `keep` allows."""
        while self._changes and not keep.wants(self._changes[0].version, self._bytes):
            self.floor = self._changes.popleft().version
            self._bytes -= self._sizes.popleft()

    def __len__(self) -> int:
        return len(self._changes)

    def drop_last(self) -> None:
        """Forget the newest change (its tick was undone)."""
        if self._changes:
            self._changes.pop()
            self._bytes -= self._sizes.pop()

    def since(self, version: int, upto: int | None = None) -> list[Change]:
        """Changes later than `version` (and not later than `upto`), oldest first.

        Raises: SerializationFailure (40001) if they are no longer all there.
        """
        if version < self.floor:
            raise not_retained(version, self.floor)
        found: list[Change] = []
        for change in reversed(self._changes):
            if change.version <= version:
                break
            if upto is None or change.version <= upto:
                found.append(change)
        found.reverse()
        return found


MORE = "; SET streamsql.retention keeps more of them"


def not_retained(version: int, oldest: int, more: str = MORE) -> SerializationFailure:
    """40001: that version can not be rebuilt any more. more: how to keep more of them."""
    return SerializationFailure(
        f"version {version} is no longer retained",
        hint=f"The oldest version that can still be read is {oldest}{more}.",
    )


def rewind(rows: pa.Table, changes: Sequence[Change], schema: Schema) -> pa.Table:
    """The rows (each as often as its weight) before these changes; any order."""
    if not changes:
        return rows
    present = [Delta(b) for b in rows.combine_chunks().to_batches()]
    undone = [c.delta.negate() for c in changes]
    return as_bag(consolidate(concat([*present, *undone], schema)), schema)


def as_bag(delta: Delta, schema: Schema) -> pa.Table:
    """The rows of a Z-set, each repeated by its weight."""
    batch = delta.batch
    if delta.weights is not None and not bool((delta.weights == 1).all()):
        positions = np.repeat(np.arange(delta.num_rows), np.maximum(delta.weights, 0))
        batch = batch.take(pa.array(positions))
    return pa.Table.from_batches([batch], schema=schema.arrow)
