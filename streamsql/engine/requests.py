"""What sessions ask of the engine thread, and the ticks it makes of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array
from streamsql.core.errors import SerializationFailure, UniqueViolation
from streamsql.core.schema import Schema
from streamsql.engine.catalog import Catalog
from streamsql.engine.ddl import DdlOp, DropRelation
from streamsql.engine.dml.conflicts import Resolved, check_unique
from streamsql.engine.dml.pending import PendingWrites, TableImage
from streamsql.engine.indexes import all_keys
from streamsql.engine.relations import Key, Relation
from streamsql.engine.storage.table import TableChange, TableState
from streamsql.engine.storage.watermarks import WatermarkState


class StaleRead(Exception):
    """Rows that a statement read have changed since: evaluate it again."""


class Write(Protocol):
    """One table's part of a request. schema, rules (a number): the table's columns, and what its
    rows had to keep, as it was bound. `resolve` is called by the engine thread under the state lock
    and says what becomes of the table; `evaluate` reads again what the statement depends on, after
    a StaleRead."""

    @property
    def relation_id(self) -> int: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def rules(self) -> int: ...

    def resolve(self, image: TableImage) -> Resolved: ...

    def evaluate(self) -> None: ...


@dataclass
class PreparedWrite:
    """The writes of a transaction to one table: checked against what committed meanwhile."""

    pending: PendingWrites

    @property
    def relation_id(self) -> int:
        return self.pending.table.relation.oid

    @property
    def schema(self) -> Schema:
        return self.pending.table.relation.columns

    @property
    def rules(self) -> int:
        return self.pending.rules

    def resolve(self, image: TableImage) -> Resolved:
        """Raises: SerializationFailure (40001) if somebody else changed the same rows or keys."""
        pending = self.pending
        pending.check_layout(image.table)
        if not image.are_live(pending.retracted).all():
            raise conflict()
        visible = pending.inserted.select(list(range(image.table.num_columns)))
        rows = pa.RecordBatch.from_arrays(
            visible.columns, schema=image.table.relation.columns.arrow
        )
        try:
            check_unique(image, rows, pending.retracted)
        except UniqueViolation as error:
            raise conflict(error.detail) from error
        return Resolved(pending.retracted, rows, rows.num_rows)

    def evaluate(self) -> None:
        raise AssertionError("a transaction's writes are not evaluated again")


def was_altered(write: Write, now: Relation) -> bool:
    """Whether columns of the table came or went since the write was bound."""
    return write.rules != now.rules or write.schema.types != now.columns.types


def conflict(detail: str | None = None) -> SerializationFailure:
    """40001, with PostgreSQL's words."""
    return SerializationFailure(
        "could not serialize access due to concurrent update",
        detail=detail,
        hint="Run the transaction again.",
    )


@dataclass
class CommitRequest:
    """Everything that one statement or transaction changes: one tick.

    new_tables: the (empty) states of tables made by `ddl`. force: make a tick even if nothing
    changes. version: of the tick, filled in by the engine. job: whose end it is.
    ahead: table → how many of its rows are further ahead of the clock than `max_future` allows;
    filled in too. catalog: with `ddl` done.
    """

    writes: Sequence[Write] = ()
    ddl: Sequence[DdlOp] = ()
    new_tables: dict[int, TableState] = field(default_factory=dict)
    force: bool = False
    version: int = 0
    job: Any = None
    ahead: dict[str, int] = field(default_factory=dict)
    catalog: Catalog | None = None

    @property
    def dropped(self) -> frozenset[int]:
        """OIDs of what it drops."""
        return frozenset(op.oid for op in self.ddl if isinstance(op, DropRelation))

    def keys_of(self, table: TableState) -> tuple[Key, ...] | None:
        """What rows of a table are unique by, if the request may have changed it."""
        relation = None
        if self.catalog is not None:
            relation = self.catalog.relations.get(table.relation.oid)
        if relation is None or self.catalog is None:
            return None
        return all_keys(relation, self.catalog)


@dataclass
class SourceInput:
    """Rows of a source (which keeps none) in one tick. before: to undo the watermark. ahead:
    positions of rows too far ahead of the clock."""

    relation_id: int
    partition: str
    delta: Delta
    watermark: int
    before: WatermarkState | None
    ahead: Int64Array | None = None


@dataclass
class Tick:
    """One version in the making.

    changes: applied to their tables already. inputs: source rows. watermarks: relations whose
    watermark moved without rows. positions: source → partition → position after this tick.
    source_errors: rows for `streamsql.source_errors`. advance: watermarks moved by hand. clock: the
    mode it is set to. settings: variables of the server that are set. timed: idle relations were
    looked at. idle: relation → since when it is idle, µs; None: it is active, or has rows below.
    timers: whether operators waited for its time, as far as that is to be noted (`past`).
    """

    version: int
    now_us: int
    changes: list[TableChange] = field(default_factory=list)
    inputs: list[SourceInput] = field(default_factory=list)
    watermarks: dict[int, int] = field(default_factory=dict)
    positions: dict[int, dict[str, object]] = field(default_factory=dict)
    source_errors: list[tuple[object, ...]] = field(default_factory=list)
    ddl: Sequence[DdlOp] = ()
    advance: dict[int, int] = field(default_factory=dict)
    clock: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    timed: bool = False
    idle: dict[int, int | None] = field(default_factory=dict)
    timers: bool = False
