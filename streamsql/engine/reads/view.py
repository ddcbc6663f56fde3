"""What a statement reads: one version of every relation, plus a transaction's own writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.engine.dml.pending import PendingWrites
from streamsql.engine.layouts import Layout, LayoutRows
from streamsql.engine.storage.changelog import ChangeLog, rewind
from streamsql.engine.storage.key_index import KeyIndex
from streamsql.engine.storage.table import TableState, rewind_rows
from streamsql.engine.storage.view import ViewState
from streamsql.functions.expressions import ColumnRef, Expr, columns_used, transform

SLOT_SHIFT = 40

LATER_ROWS_MAX = 20_000
"""Rows of later changes that a look-up takes back; beyond that all rows are read."""


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


def usable(state: TableState | ViewState, dropped: frozenset[int] = frozenset()) -> list[KeyIndex]:
    """The indexes that rows may be looked up in: not those that a transaction has dropped, nor
    those with an expression that fails on a row, which a query has to meet."""
    return [i for i in state.indexes.values() if not i.failing and i.oid not in dropped]


@dataclass(frozen=True)
class Snapshot:
    """The rows of one table or view as a query sees them, not read yet. layout: the older columns
    under which it is read, if any. dropped: OIDs of indexes that are not to be used."""

    state: TableState | ViewState
    version: int
    pending: PendingWrites | None = None
    layout: Layout | None = None
    dropped: frozenset[int] = frozenset()

    @property
    def indexes(self) -> list[KeyIndex]:
        """Those that a query may look rows up in."""
        return usable(self.state, self.dropped)

    def over_state(self, predicate: Expr) -> Expr | None:
        """A condition over what is read, over the columns of the state; None if one is gone."""
        if self.layout is None:
            return predicate
        known = {i: p for i, p in enumerate(self.layout.positions) if p is not None}
        if not columns_used(predicate) <= known.keys():
            return None
        return transform(
            predicate,
            lambda e: replace(e, index=known[e.index]) if isinstance(e, ColumnRef) else e,
        )

    def changes(self) -> list[Delta] | None:
        """What the rows in memory have gone through since the version; None if that is much. Under
        the state lock. Raises: SerializationFailure (40001)."""
        if self.state.log.newest <= self.version:
            return []
        found = self.state.log.later(self.version)
        return found if sum(d.num_rows for d in found) <= LATER_ROWS_MAX else None

    def complete(self, rows: pa.RecordBatch, later: list[Delta]) -> pa.Table:
        """Present rows that fulfil some condition → at least those that fulfil it in the version,
        with the transaction's own writes."""
        found = pa.Table.from_batches([rows])
        if later:
            if isinstance(self.state, TableState):
                found = rewind_rows(found, later, self.state.num_columns)
            else:
                found = rewind(found, later, self.state.schema)
        if self.pending is not None:
            found = self.pending.over(found)
        return found if self.layout is None else self.layout.table(found)


@dataclass(frozen=True)
class ReadView:
    """version: the version that is read. pending: the transaction's writes, by relation.
    lock: the state lock. stored: relation → its rows. virtual: relation → its rows, computed now
    (system relations, bounded reads of sources). slots: the versions that single relations name
    with FOR SYSTEM_TIME AS OF; their ids say which (`slot_of`). given: rows of ids (< 0) that stand
    for look-ups. dropped: OIDs of indexes that the transaction has dropped."""

    version: int
    stored: Callable[[int], Stored | None]
    lock: object
    virtual: Callable[[int], pa.Table]
    pending: Mapping[int, PendingWrites] = field(default_factory=dict)
    slots: tuple[int, ...] = ()
    given: Mapping[int, pa.Table] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()

    def snapshot(self, relation_id: int) -> Snapshot | None:
        """The rows of a table or view; None for what is computed when it is read."""
        oid, slot = base_of(relation_id), slot_of(relation_id)
        state = self.stored(oid) if relation_id >= 0 else None
        pending: PendingWrites | None = self.pending.get(oid)
        layout: Layout | None = None
        if isinstance(state, LayoutRows):
            pending, layout = state.pending, state.layout
            state = state.base
        if not isinstance(state, TableState | ViewState):
            return None
        if slot is None:
            if pending is not None and isinstance(state, TableState):
                pending.check_layout(state)
            return Snapshot(state, self.version, pending, layout, self.dropped)
        return Snapshot(state, self.slots[slot], None, layout, self.dropped)

    def tables(self, relations: Iterable[int]) -> dict[int, pa.Table]:
        """The rows of these relations, all of the same version; schemas with hidden columns.

        Raises: SerializationFailure (40001) if the version is no longer retained.
        """
        wanted = [r for r in relations if r not in self.given]
        later: dict[int, Callable[[], pa.Table]] = {}
        virtual: list[int] = []
        with self.lock:  # type: ignore[attr-defined]
            for oid in wanted:
                slot = slot_of(oid)
                state = self.stored(base_of(oid))
                if state is None:
                    virtual.append(oid)
                else:
                    if isinstance(state, TableState) and oid in self.pending:
                        self.pending[oid].check_layout(state)
                    later[oid] = state.read(self.version if slot is None else self.slots[slot])
        found = {oid: make() for oid, make in later.items()}
        for oid, writes in self.pending.items():
            if oid in found:
                found[oid] = writes.over(found[oid])
        for oid in virtual:
            found[oid] = self.virtual(base_of(oid))
        return found | dict(self.given)
