"""The changes a relation went through in its last versions.

They serve SUBSCRIBE … AS OF, reads AS OF a version, and readers whose transaction started at an
older version than the rows in memory: the present rows minus the later changes are the old rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.errors import SerializationFailure
from streamsql.core.schema import Schema
from streamsql.state.checkpoint import mark_immutable
from streamsql.state.consolidate import consolidate

RETAIN_BYTES = 32 << 20
"""Kept of each relation for reads of old versions that nobody has announced."""

PINNED_BYTES = 512 << 20
"""Kept at most for open transactions; beyond it their next read fails with 40001."""

BLOCK_CHANGES = 256
BLOCK_BYTES = 1 << 20
"""So many changes, or bytes of them, become one batch: small ones cost little more than their rows
then, and a checkpoint writes what it has written once no more."""


_begun = count()


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


class Block:
    """Neighbouring changes in one batch; never changed once it is made.

    versions: of the changes, ascending. ends: int64 [changes], where the rows of each end.
    """

    def __init__(self, versions: list[int], ends: Int64Array, delta: Delta) -> None:
        self.versions = versions
        self.ends = ends
        self.delta = delta
        self.nbytes = delta.nbytes + 16 * delta.num_rows
        self._saved: pa.RecordBatch | None = None

    @classmethod
    def of(cls, changes: Sequence[Change]) -> Block:
        """The changes, oldest first, none of them empty."""
        ends = np.cumsum([c.delta.num_rows for c in changes], dtype=np.int64)
        deltas = [c.delta for c in changes]
        whole = deltas[0]
        if len(deltas) > 1:
            parts = zip(*(d.columns for d in deltas), strict=True)
            columns = [pa.concat_arrays(list(part)) for part in parts]
            weights = None
            if any(d.weights is not None for d in deltas):
                weights = np.concatenate([d.weights_or_ones() for d in deltas])
            batch = make_batch(columns, whole.batch.schema, int(ends[-1]))
            whole = Delta(batch, weights)
        return cls([c.version for c in changes], ends, whole)

    def after(self, version: int) -> Delta:
        """All rows of changes later than a version."""
        first = bisect_right(self.versions, version)
        start = int(self.ends[first - 1]) if first else 0
        return self._rows(start, int(self.ends[-1])) if start else self.delta

    def changes(self, after: int) -> list[Change]:
        """The changes later than a version, one by one."""
        first = bisect_right(self.versions, after)
        start = int(self.ends[first - 1]) if first else 0
        found = []
        for version, end in zip(self.versions[first:], self.ends[first:].tolist(), strict=True):
            found.append(Change(version, self._rows(start, end)))
            start = end
        return found

    def _rows(self, start: int, end: int) -> Delta:
        weights = None if self.delta.weights is None else self.delta.weights[start:end]
        return Delta(self.delta.batch.slice(start, end - start), weights)

    def converted(self, rows: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Block:
        """The same changes in other columns."""
        return Block(self.versions, self.ends, Delta(rows(self.delta.batch), self.delta.weights))

    # --- on disk --------------------------------------------------------------------------------
    @property
    def saved(self) -> pa.RecordBatch:
        """Its rows with two columns behind, version and weight; always the same memory, by which
        a checkpoint knows that it has written it already."""
        if self._saved is None:
            counts = np.diff(self.ends, prepend=0)
            versions = np.repeat(np.array(self.versions, np.int64), counts)
            columns = self.delta.columns
            more = [pa.array(versions), pa.array(self.delta.weights_or_ones())]
            names = [f"c{i}" for i in range(len(columns) + 2)]
            self._saved = pa.RecordBatch.from_arrays([*columns, *more], names=names)
        return self._saved

    @classmethod
    def load(cls, saved: pa.RecordBatch, schema: Schema) -> Block:
        """Inverse of `saved`."""
        n = saved.num_columns - 2
        versions = np.asarray(saved.column(n), np.int64)
        weights = np.asarray(saved.column(n + 1), np.int64)
        ends = np.append(np.flatnonzero(np.diff(versions)) + 1, versions.size)
        batch = make_batch(saved.columns[:n], schema.arrow, saved.num_rows)
        plain = bool((weights == 1).all())
        block = cls(versions[ends - 1].tolist(), ends, Delta(batch, None if plain else weights))
        block._saved = saved
        return block


class ChangeLog:
    """The last changes of one relation, oldest first: blocks, then the newest changes one by one.

    floor: versions ≥ floor can be rebuilt.
    """

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._blocks: deque[Block] = deque()
        self._tail: deque[Change] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._tail_bytes = 0
        # logs that change in every tick do not fill their blocks in the same one
        self._limit = 1 + next(_begun) * 37 % BLOCK_CHANGES

    @property
    def nbytes(self) -> int:
        """Bytes of the changes kept."""
        return self._bytes

    @property
    def newest(self) -> int:
        """Version of the last change (or the floor)."""
        if self._tail:
            return self._tail[-1].version
        return max(self._blocks[-1].versions[-1], self.floor) if self._blocks else self.floor

    def append(self, version: int, delta: Delta, keep: Keep | None) -> None:
        """Add the change of a version, and drop old ones that `keep` does not ask for."""
        size = delta.nbytes + 16 * delta.num_rows
        self._tail.append(Change(version, delta))
        self._sizes.append(size)
        self._bytes += size
        self._tail_bytes += size
        if len(self._tail) >= self._limit or self._tail_bytes >= BLOCK_BYTES:
            self._seal()
        self.trim(keep or Keep())

    def _seal(self) -> None:
        if not self._tail:
            return
        block = Block.of(self._tail)
        self._blocks.append(block)
        self._bytes += block.nbytes - self._tail_bytes
        self._tail.clear()
        self._sizes.clear()
        self._tail_bytes = 0
        self._limit = BLOCK_CHANGES

    def trim(self, keep: Keep) -> None:
        """Drop the oldest changes as far as `keep` allows; the memory of a block goes as a whole,
        what it holds of dropped versions is not given out any more."""
        while self._blocks:
            block = self._blocks[0]
            if block.versions[-1] > self.floor and keep.wants(block.versions[-1], self._bytes):
                break
            self._blocks.popleft()
            self._bytes -= block.nbytes
            self.floor = max(self.floor, block.versions[-1])
        if self._blocks:
            self._trim_block(keep)
            return
        while self._tail and not keep.wants(self._tail[0].version, self._bytes):
            self.floor = self._tail.popleft().version
            size = self._sizes.popleft()
            self._bytes -= size
            self._tail_bytes -= size

    def _trim_block(self, keep: Keep) -> None:
        if keep.promised is None:
            return
        limit = keep.promised if keep.pinned is None else min(keep.promised, keep.pinned)
        if limit > self.floor:
            versions = self._blocks[0].versions
            at = bisect_right(versions, limit)
            self.floor = max(self.floor, versions[at - 1]) if at else self.floor

    def __len__(self) -> int:
        """How many changes are kept."""
        if not self._blocks:
            return len(self._tail)
        gone = bisect_right(self._blocks[0].versions, self.floor)
        return sum(len(b.versions) for b in self._blocks) - gone + len(self._tail)

    def drop_last(self) -> None:
        """Forget the newest change (its tick was undone)."""
        if not self._tail and self._blocks:
            block = self._blocks.pop()
            self._bytes -= block.nbytes
            for change in block.changes(self.floor):
                self._tail.append(change)
                self._sizes.append(change.delta.nbytes + 16 * change.delta.num_rows)
            self._tail_bytes = sum(self._sizes)
            self._bytes += self._tail_bytes
        if self._tail:
            self._tail.pop()
            size = self._sizes.pop()
            self._bytes -= size
            self._tail_bytes -= size

    # --- reading --------------------------------------------------------------------------------
    def since(self, version: int, upto: int | None = None) -> list[Change]:
        """Changes later than `version` (and not later than `upto`), oldest first.

        Raises: SerializationFailure (40001) if they are no longer all there.
        """
        self._check(version)
        found = [c for b in self._after(version) for c in b.changes(version)]
        found += [c for c in self._tail if c.version > version]
        return found if upto is None else [c for c in found if c.version <= upto]

    def later(self, version: int) -> list[Delta]:
        """All that changed after `version`, oldest first, many versions in one delta.

        Raises: SerializationFailure (40001) if it is no longer all there.
        """
        self._check(version)
        found = [b.after(version) for b in self._after(version)]
        for change in reversed(self._tail):
            if change.version <= version:
                break
            found.append(change.delta)
        return found

    def _check(self, version: int) -> None:
        if version < self.floor:
            raise not_retained(version, self.floor)

    def _after(self, version: int) -> list[Block]:
        found = []
        for block in reversed(self._blocks):
            if block.versions[-1] <= version:
                break
            found.append(block)
        found.reverse()
        return found

    # --- other columns, and the disk ------------------------------------------------------------
    def converted(self, rows: Callable[[pa.RecordBatch], pa.RecordBatch]) -> ChangeLog:
        """The same history for a relation whose columns are others now.

        rows: makes the stored rows of the new columns out of those of the old ones.
        """
        self._seal()
        made = ChangeLog(self.floor)
        made._blocks.extend(block.converted(rows) for block in self._blocks)
        made._bytes = sum(block.nbytes for block in made._blocks)
        return made

    def save(self) -> pa.Table:
        """The changes for a checkpoint, a page a block."""
        self._seal()
        batches = [block.saved for block in self._blocks]
        return mark_immutable(pa.Table.from_batches(batches)) if batches else pa.table({})

    @classmethod
    def load(cls, saved: pa.Table, floor: int, schema: Schema) -> ChangeLog:
        """Inverse of `save`. schema: of the relation's store."""
        made = cls(floor)
        for batch in saved.to_batches():
            if batch.num_rows:
                made._blocks.append(Block.load(batch, schema))
        made._bytes = sum(block.nbytes for block in made._blocks)
        return made


MORE = "; SET streamsql.retention keeps more of them"


class VersionOfTime(int):
    """A version that was asked for by a time, which messages name then.

    asked: that time, as text. dated: version → the text of its time; None = it is not remembered.
    """

    asked: str
    dated: Callable[[int], str | None]

    @classmethod
    def of(cls, version: int, asked: str, dated: Callable[[int], str | None]) -> VersionOfTime:
        """The version with what is known of its time."""
        made = cls(version)
        made.asked, made.dated = asked, dated
        return made


def not_retained(version: int, oldest: int, more: str = MORE) -> SerializationFailure:
    """40001: that version can not be rebuilt any more. more: how to keep more of them."""
    what, since = f"version {version}", None
    if isinstance(version, VersionOfTime):
        what, since = f"the version of {version.asked}", version.dated(oldest)
    of_time = "" if since is None else f", of {since}"
    return SerializationFailure(
        f"{what} is no longer retained",
        hint=f"The oldest version that can still be read is {oldest}{of_time}{more}.",
    )


def rewind(rows: pa.Table, later: Sequence[Delta], schema: Schema) -> pa.Table:
    """The rows (each as often as its weight) before these changes; any order."""
    if not later:
        return rows
    present = [Delta(b) for b in rows.combine_chunks().to_batches()]
    undone = [delta.negate() for delta in later]
    return as_bag(consolidate(concat([*present, *undone], schema)), schema)


def as_bag(delta: Delta, schema: Schema) -> pa.Table:
    """The rows of a Z-set, each repeated by its weight."""
    batch = delta.batch
    if delta.weights is not None and not bool((delta.weights == 1).all()):
        positions = np.repeat(np.arange(delta.num_rows), np.maximum(delta.weights, 0))
        batch = batch.take(pa.array(positions))
    return pa.Table.from_batches([batch], schema=schema.arrow)
