"""What a statement reads: one version of every relation, plus a transaction's own writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from streamsql.core.schema import Schema
from streamsql.engine.dml.pending import PendingWrites
from streamsql.engine.storage.changelog import ChangeLog

SLOT_SHIFT = 40


def slot_id(oid: int, slot: int) -> int:
    """The id of a relation in a plan that reads it at a version of its own."""
    return oid | (slot + 1) << SLOT_SHIFT


def base_of(relation_id: int) -> int:
    """The relation's OID."""
    return relation_id & ((1 << SLOT_SHIFT) - 1)


def slot_of(relation_id: int) -> int | None:
    """The number of its version in the query's list; None = the version that the query reads."""
    slot = relation_id >> SLOT_SHIFT
    return slot - 1 if slot else None


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
    (system relations, bounded reads of sources). slots: the versions that single relations name
    with FOR SYSTEM_TIME AS OF; their ids say which (`slot_of`)."""

    version: int
    stored: Callable[[int], Stored | None]
    lock: object
    virtual: Callable[[int], pa.Table]
    pending: Mapping[int, PendingWrites] = field(default_factory=dict)
    slots: tuple[int, ...] = ()

    def lookup(self, oid: int, key: Mapping[int, pa.Array]) -> pa.RecordBatch | None:
        """The row of a relation whose identity has these values (a batch of none or one), without
        looking at the others; None where that is not possible."""
        if oid in self.pending or slot_of(oid) is not None:
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
                slot = slot_of(oid)
                state = self.stored(base_of(oid))
                if state is None:
                    virtual.append(oid)
                else:
                    later[oid] = state.read(self.version if slot is None else self.slots[slot])
        found = {oid: make() for oid, make in later.items()}
        for oid, writes in self.pending.items():
            if oid in found:
                found[oid] = writes.over(found[oid])
        for oid in virtual:
            found[oid] = self.virtual(base_of(oid))
        return found
