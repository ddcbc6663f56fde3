"""A transaction: one version that is read, its own writes on top, its catalog changes.

Nothing of it is visible to others before COMMIT, when the engine thread makes one tick of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streamsql.core.errors import InvalidSavepoint
from streamsql.engine.catalog import Catalog
from streamsql.engine.ddl import CreateRelation, DdlOp, DropRelation
from streamsql.engine.dml.pending import PendingWrites, TableImage
from streamsql.engine.engine import Engine
from streamsql.engine.indexes import all_keys
from streamsql.engine.layouts import LayoutRows
from streamsql.engine.reads.view import Stored
from streamsql.engine.requests import CommitRequest, PreparedWrite
from streamsql.engine.storage.table import TableState


@dataclass(frozen=True)
class Mark:
    """What ROLLBACK TO goes back to."""

    name: str
    writes: dict[int, PendingWrites]
    ddl: tuple[DdlOp, ...]
    tables: dict[int, TableState]
    catalog: Catalog | None
    variables: dict[str, str]


@dataclass
class Transaction:
    """implicit: of several statements sent in one text, without BEGIN. version: pinned at the first
    statement that reads or writes. new_tables: tables made here, empty but for `writes`. inline:
    materialized views made here: until COMMIT they are read as plain views. local: values that
    variables changed by SET LOCAL go back to. collecting: it only brings the changes of one
    statement together."""

    engine: Engine
    variables: dict[str, str]
    implicit: bool = False
    read_only: bool = False
    failed: bool = False
    version: int | None = None
    writes: dict[int, PendingWrites] = field(default_factory=dict)
    ddl: list[DdlOp] = field(default_factory=list)
    new_tables: dict[int, TableState] = field(default_factory=dict)
    fork: Catalog | None = None
    marks: list[Mark] = field(default_factory=list)
    local: dict[str, str | None] = field(default_factory=dict)
    collecting: bool = False

    @property
    def catalog(self) -> Catalog:
        """The catalog as the transaction sees it."""
        return self.engine.catalog if self.fork is None else self.fork

    @property
    def inline(self) -> frozenset[int]:
        """Materialized views made in this transaction."""
        created = (op.relation for op in self.ddl if isinstance(op, CreateRelation))
        return frozenset(r.oid for r in created if r.kind == "materialized_view")

    @property
    def dropped(self) -> frozenset[int]:
        """OIDs of what was dropped in this transaction."""
        return frozenset(op.oid for op in self.ddl if isinstance(op, DropRelation))

    def image(self, table: TableState) -> TableImage:
        """The table as constraint checks of this transaction see it."""
        keys = None
        if self.fork is not None and table.relation.oid in self.fork.relations:
            keys = all_keys(self.fork.relations[table.relation.oid], self.fork)
        return TableImage(table, self.pending(table), keys)

    def pin(self) -> int:
        """The version that is read, from now on fixed."""
        if self.version is None:
            self.version = self.engine.pin()
        return self.version

    def change_catalog(self, op: DdlOp) -> None:
        """Apply a catalog change to the transaction's own catalog; raises what it raises."""
        fork = self.catalog.fork()
        op.apply(fork)
        self.fork = fork
        self.ddl.append(op)
        if isinstance(op, DropRelation):
            self.writes.pop(op.oid, None)
            self.new_tables.pop(op.oid, None)

    def table(self, oid: int) -> TableState | None:
        """The state of a table, made here or there before."""
        return self.new_tables.get(oid) or self.engine.tables.get(oid)

    def stored(self, oid: int) -> Stored | None:
        """Rows of a relation, of one made here too."""
        layout = self.catalog.layouts.get(oid)
        if layout is not None:
            base = self.stored(layout.of)
            return None if base is None else LayoutRows(layout, base, self.writes.get(layout.of))
        return self.new_tables.get(oid) or self.engine.stored(oid)

    def pending(self, table: TableState) -> PendingWrites:
        """The writes to a table so far. Raises: 40001 if it was altered meanwhile."""
        writes = self.writes.get(table.relation.oid) or PendingWrites.none(table)
        for state in (table, self.table(table.relation.oid)):
            if state is not None:
                writes.check_layout(state)
        return writes

    def request(self) -> CommitRequest | None:
        """What COMMIT asks of the engine; None if there is nothing to do."""
        writes = [PreparedWrite(p) for p in self.writes.values() if p]
        if not writes and not self.ddl:
            return None
        return CommitRequest(writes, tuple(self.ddl), dict(self.new_tables))

    # --- savepoints -----------------------------------------------------------------------------
    def mark(self, name: str, variables: dict[str, str]) -> None:
        """SAVEPOINT name."""
        self.marks.append(
            Mark(
                name,
                dict(self.writes),
                tuple(self.ddl),
                dict(self.new_tables),
                self.fork,
                variables,
            )
        )

    def _find(self, name: str) -> int:
        for i in reversed(range(len(self.marks))):
            if self.marks[i].name == name:
                return i
        raise InvalidSavepoint(f'savepoint "{name}" does not exist')

    def release(self, name: str) -> None:
        """RELEASE SAVEPOINT name. Raises: InvalidSavepoint (3B001)."""
        del self.marks[self._find(name) :]

    def rollback_to(self, name: str) -> Mark:
        """ROLLBACK TO name: the savepoint itself stays. Raises: InvalidSavepoint (3B001)."""
        i = self._find(name)
        mark = self.marks[i]
        del self.marks[i + 1 :]
        self.writes = dict(mark.writes)
        self.ddl = list(mark.ddl)
        self.new_tables = dict(mark.tables)
        self.fork = mark.catalog
        self.failed = False
        return mark

    def close(self) -> None:
        """Let the pinned version go."""
        if self.version is not None:
            self.engine.unpin(self.version)
            self.version = None
