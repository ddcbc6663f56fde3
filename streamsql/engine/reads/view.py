"""What a statement reads: one version of every relation, plus a transaction's own writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from streamsql.core.schema import Schema
from streamsql.engine.dml.pending import PendingWrites
from streamsql.engine.storage.changelog import ChangeLog


class Stored(Protocol):
    """Rows of a relation at any retained version (`TableState`, `ViewState`)."""

    schema: Schema
    log: ChangeLog

    def read(self, version: int) -> Callable[[], pa.Table]:
        """Called under the state lock; the result, called outside of it, gives the rows."""
        ...

    def lookup(self, key: Mapping[int, pa.Array]) -> pa.RecordBatch | None:
        """The present row of an identity, under the state lock; None if that is not its key."""
        ...


@dataclass(frozen=True)
class ReadView:
    """version: the version that is read. pending: the transaction's writes, by relation.
    lock: the state lock. stored: relation → its rows. virtual: relation → its rows, computed now
    (system relations, bounded reads of sources)."""

    version: int
    stored: Callable[[int], Stored | None]
    lock: object
    virtual: Callable[[int], pa.Table]
    pending: Mapping[int, PendingWrites] = field(default_factory=dict)

    def lookup(self, oid: int, key: Mapping[int, pa.Array]) -> pa.RecordBatch | None:
        """The row of a relation whose identity has these values (a batch of none or one), without
        looking at the others; None where that is not possible."""
        if oid in self.pending:
            return None
        with self.lock:  # type: ignore[attr-defined]
            state = self.stored(oid)
            if state is None or state.log.newest > self.version:
                return None
            return state.lookup(key)

    def tables(self, relations: Iterable[int]) -> dict[int, pa.Table]:
        """The rows of these relations, all of the same version; schemas with hidden columns.

        Raises: SerializationFailure (40001) if the version is no longer retained.
        """
        wanted = list(relations)
        later: dict[int, Callable[[], pa.Table]] = {}
        virtual: list[int] = []
        with self.lock:  # type: ignore[attr-defined]
            for oid in wanted:
                state = self.stored(oid)
                if state is None:
                    virtual.append(oid)
                else:
                    later[oid] = state.read(self.version)
        found = {oid: make() for oid, make in later.items()}
        for oid, writes in self.pending.items():
            if oid in found:
                found[oid] = writes.over(found[oid])
        for oid in virtual:
            found[oid] = self.virtual(oid)
        return found
