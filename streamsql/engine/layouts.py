"""Layouts: the columns of a relation as an older definition has seen them.

A view names its inputs' columns as they were when it was made. When a table later gets, loses or
renames columns, the views over it keep reading the old columns through a layout: a hidden
relation that gives the table's rows in the old order, under the old names. So their plans, their
operators and their state stay as they are, and a view is never computed anew for an ALTER TABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.delta import Delta, make_batch
from streamsql.core.schema import Schema
from streamsql.engine.relations import Relation

if TYPE_CHECKING:
    from streamsql.engine.dml.pending import PendingWrites
    from streamsql.engine.reads.view import Stored

LAYOUT_SCHEMA = "\x00layout"
"""First part of the name by which a view's tree names a layout; no user can write it."""


@dataclass(frozen=True)
class Layout:
    """oid: its own, by which plans name it. of: the relation. columns: as they were. positions: of
    each, where it stands in the relation now; None = it was dropped (nobody reads it: NULL).
    number: which physical layout of the relation it is (`Relation.layout`)."""

    oid: int
    of: int
    columns: Schema
    positions: tuple[int | None, ...]
    number: int

    @property
    def name(self) -> tuple[str, str]:
        """The name in the trees of views."""
        return LAYOUT_SCHEMA, str(self.oid)

    def moved(self, new_positions: Mapping[int, int]) -> Layout:
        """After a change of the relation's columns. new_positions: of those that are left."""
        found = tuple(None if p is None else new_positions.get(p) for p in self.positions)
        return replace(self, positions=found)

    def as_relation(self, base: Relation) -> Relation:
        """The relation as it was: what binding, compiling and filling a view look at."""
        back = {p: i for i, p in enumerate(self.positions) if p is not None}
        keys = [k for k in base.unique_keys if all(c in back for c in k)]
        if base.kind == "table":  # a column may have been made NOT NULL since
            keys = [
                k
                for k in keys
                if k == base.primary_key or not any(self.columns[back[c]].nullable for c in k)
            ]
        column = base.watermark_column
        return replace(
            base,
            oid=self.oid,
            columns=self.columns,
            keys=(),
            unique_keys=tuple(tuple(back[c] for c in k) for k in keys),
            watermark_column=None if column is None else back.get(column),
        )

    def follow(self, before: Schema, after: Schema) -> Layout:
        """After a view was replaced: its columns are found by their names. A column that is gone
        is NULL of its old type (whoever reads it can not be bound to the new view)."""
        positions, columns = [], []
        for column, at in zip(self.columns, self.positions, strict=True):
            found = -1 if at is None else after.index(before[at].name)
            positions.append(None if found < 0 else found)
            columns.append(column if found < 0 else replace(column, type=after[found].type))
        return replace(self, columns=Schema(tuple(columns)), positions=tuple(positions))

    def rows(self, delta: Delta) -> Delta:
        """Rows of the relation in this layout."""
        return Delta(self.batch(delta.batch), delta.weights, delta.row_watermark)

    def table(self, rows: pa.Table) -> pa.Table:
        """Stored rows of the relation in this layout."""
        columns = [
            pa.nulls(rows.num_rows, field.type) if at is None else rows.column(at)
            for at, field in zip(self.positions, self.columns.arrow, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self.columns.arrow)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same for plain rows; hidden columns are left out."""
        columns = [
            pa.nulls(batch.num_rows, field.type) if at is None else batch.column(at)
            for at, field in zip(self.positions, self.columns.arrow, strict=True)
        ]
        return make_batch(columns, self.columns.arrow, batch.num_rows)


class LayoutRows:
    """The stored rows of a relation in an older layout; implements `Stored`. pending: what a
    transaction has written to the relation itself."""

    def __init__(self, layout: Layout, base: Stored, pending: PendingWrites | None = None) -> None:
        self.layout = layout
        self.base = base
        self.pending = pending
        self.schema = layout.columns
        self.log = base.log

    def read(self, version: int) -> Callable[[], pa.Table]:
        """See `Stored`."""
        make = self.base.read(version)
        pending = self.pending
        if pending is None:
            return lambda: self.layout.table(make())
        return lambda: self.layout.table(pending.over(make()))
