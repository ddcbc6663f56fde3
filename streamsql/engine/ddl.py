"""Changes of the catalog as data: applied to a session's fork, logged, and applied at commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamsql.core.errors import SerializationFailure, UndefinedTable
from streamsql.engine.catalog import Catalog, SchemaEntry
from streamsql.engine.catalog_codec import (
    Json,
    layout_from_json,
    layout_to_json,
    relation_from_json,
    relation_to_json,
)
from streamsql.engine.layouts import Layout
from streamsql.engine.relations import Relation


class DdlOp(Protocol):
    """One change. `apply` checks again what may have changed since the statement was bound."""

    def apply(self, catalog: Catalog) -> None: ...

    def to_json(self) -> Json: ...


def check_inputs(relation: Relation, bases: tuple[Relation, ...], catalog: Catalog) -> None:
    """What a definition reads is still there, with the columns it was bound to.

    Raises: UndefinedTable (42P01), SerializationFailure (40001).
    """
    for name, oid in relation.references.items():
        if oid not in catalog.relations:
            raise UndefinedTable(f'relation "{name}" does not exist')
    for base in bases:
        if not catalog.relations[base.oid].columns.reads_as(base.columns):
            raise concurrent_update()


@dataclass(frozen=True)
class CreateRelation:
    """A new table, source, view or materialized view. replaces: it takes the place of the
    definition of its OID (CREATE OR REPLACE, or because what it reads was replaced). bases: what it
    reads, as it was bound; not logged."""

    relation: Relation
    replaces: bool = False
    bases: tuple[Relation, ...] = field(default=(), compare=False)

    def apply(self, catalog: Catalog) -> None:
        check_inputs(self.relation, self.bases, catalog)
        if not self.replaces:
            catalog.add(catalog.bound(self.relation))
            return
        old = catalog.relations.get(self.relation.oid)
        if old is None:
            raise concurrent_update()
        catalog.alter([self.relation], self._layouts(catalog, old))

    def _layouts(self, catalog: Catalog, old: Relation) -> list[Layout]:
        before, after = old.columns, self.relation.columns
        return [x.follow(before, after) for x in catalog.layouts.values() if x.of == old.oid]

    def to_json(self) -> Json:
        return {
            "op": "create",
            "relation": relation_to_json(self.relation),
            "replaces": self.replaces,
        }


@dataclass(frozen=True)
class RowsChange:
    """What becomes of a table's rows. columns: for each column the position it had before, or
    None = it is new. fill: values of the new columns, as an Arrow stream of one row for all, or of
    a row for each of the table's, with their row ids. compute: (position, expression over the old
    columns, "" = what its own definition says) of new columns whose values follow from the rows, at
    this time (µs) and in this time zone."""

    oid: int
    columns: tuple[int | None, ...]
    fill: bytes = b""
    compute: tuple[tuple[int, str], ...] = ()
    now_us: int = 0
    timezone: str = "UTC"


@dataclass(frozen=True)
class AlterRelations:
    """New definitions of relations that are there; of a table's rows too. layouts: those that
    views read from now on, and those that changed. before: the definitions that this was made
    from; not logged."""

    relations: tuple[Relation, ...]
    layouts: tuple[Layout, ...] = ()
    rows: tuple[RowsChange, ...] = ()
    before: tuple[Relation, ...] = field(default=(), compare=False)

    def apply(self, catalog: Catalog) -> None:
        for old in self.before:
            found = catalog.relations.get(old.oid)
            if found is None or found != old or found.extra != old.extra:
                raise concurrent_update()
        given = {r.oid for r in self.relations}
        for oid in changed_outside(catalog, self.relations):
            if any(d.oid not in given for d in catalog.dependents([oid])):
                raise concurrent_update()
        catalog.alter(self.relations, self.layouts)

    def to_json(self) -> Json:
        return {
            "op": "alter",
            "relations": [relation_to_json(r) for r in self.relations],
            "layouts": [layout_to_json(layout) for layout in self.layouts],
            "rows": [
                [r.oid, list(r.columns), r.fill, [list(c) for c in r.compute], r.now_us, r.timezone]
                for r in self.rows
            ],
        }


def changed_outside(catalog: Catalog, relations: Iterable[Relation]) -> list[int]:
    """OIDs of those whose name or columns are no longer what others know."""
    found = []
    for new in relations:
        old = catalog.relations[new.oid]
        renamed = (old.schema, old.name) != (new.schema, new.name)
        if renamed or not old.columns.reads_as(new.columns):
            found.append(new.oid)
    return found


def concurrent_update() -> SerializationFailure:
    """40001: somebody else has changed what this change was made from."""
    return SerializationFailure(
        "could not serialize access due to concurrent update", hint="Run the statement again."
    )


@dataclass(frozen=True)
class DropRelation:
    """Drop one relation; its dependents are dropped by operations before it."""

    oid: int
    name: str

    def apply(self, catalog: Catalog) -> None:
        if self.oid not in catalog.relations:
            raise UndefinedTable(f'relation "{self.name}" does not exist')
        catalog.check_droppable(catalog.relations[self.oid])
        catalog.remove(self.oid)

    def to_json(self) -> Json:
        return {"op": "drop", "oid": self.oid, "name": self.name}


@dataclass(frozen=True)
class StartJob:
    """Materialized views begin to be filled (`jobs`): a new one, or those that `ops`, which will
    end the job, give other definitions. background: nobody waits for it. bases: see
    `CreateRelation`. text: of the statement, not logged."""

    relation: Relation
    background: bool = False
    bases: tuple[Relation, ...] = field(default=(), compare=False)
    ops: tuple[DdlOp, ...] = ()
    text: str = field(default="", compare=False)

    def apply(self, catalog: Catalog) -> None:
        check_inputs(self.relation, self.bases, catalog)
        applied(self.ops, catalog)  # what can not be done at the end is not begun
        catalog.start_job(self.relation, background=self.background)

    def to_json(self) -> Json:
        return {
            "op": "start_job",
            "relation": relation_to_json(self.relation),
            "background": self.background,
            "ops": [op.to_json() for op in self.ops],
        }


def applied(ops: Iterable[DdlOp], catalog: Catalog) -> Catalog:
    """The catalog as it will be after these operations. Raises: what they raise."""
    after = catalog.fork()
    for op in ops:
        op.apply(after)
    return after


@dataclass(frozen=True)
class EndJob:
    """A view is made, or will not be."""

    oid: int

    def apply(self, catalog: Catalog) -> None:
        catalog.end_job(self.oid)

    def to_json(self) -> Json:
        return {"op": "end_job", "oid": self.oid}


@dataclass(frozen=True)
class CreateSchemaOp:
    """CREATE SCHEMA."""

    entry: SchemaEntry

    def apply(self, catalog: Catalog) -> None:
        catalog.add_schema(self.entry)

    def to_json(self) -> Json:
        return {"op": "create_schema", "oid": self.entry.oid, "name": self.entry.name}


@dataclass(frozen=True)
class DropSchemaOp:
    """DROP SCHEMA; what it held was dropped before."""

    name: str

    def apply(self, catalog: Catalog) -> None:
        catalog.remove_schema(self.name)

    def to_json(self) -> Json:
        return {"op": "drop_schema", "name": self.name}


@dataclass(frozen=True)
class SetComment:
    """COMMENT ON; attnum 0 = the object itself, text None = no comment."""

    oid: int
    attnum: int
    text: str | None

    def apply(self, catalog: Catalog) -> None:
        catalog.set_comment(self.oid, self.attnum, self.text)

    def to_json(self) -> Json:
        return {"op": "comment", "oid": self.oid, "attnum": self.attnum, "text": self.text}


def _rows_from_json(
    oid: int,
    columns: list[int | None],
    fill: bytes,
    compute: Sequence[tuple[int, str]] = (),
    now_us: int = 0,
    timezone: str = "UTC",
) -> RowsChange:
    wanted = tuple((at, text) for at, text in compute)
    return RowsChange(oid, tuple(columns), fill, wanted, now_us, timezone)


def _ops_from_json(data: Json, catalog: Catalog) -> tuple[DdlOp, ...]:
    ops: list[DdlOp] = []
    after = catalog.fork()
    for found in data.get("ops", ()):
        op = op_from_json(found, after)
        op.apply(after)
        ops.append(op)
    return tuple(ops)


def op_from_json(data: Json, catalog: Catalog) -> Any:
    """Inverse of `to_json`; the catalog is as it was before the operation."""
    kind = data["op"]
    if kind == "create":
        return CreateRelation(relation_from_json(data["relation"], catalog), data["replaces"])
    if kind == "alter":
        rows = tuple(_rows_from_json(*found) for found in data["rows"])
        layouts = tuple(layout_from_json(layout) for layout in data["layouts"])
        relations = tuple(relation_from_json(r, catalog) for r in data["relations"])
        return AlterRelations(relations, layouts, rows)
    if kind == "start_job":
        relation = relation_from_json(data["relation"], catalog)
        return StartJob(relation, data["background"], (), _ops_from_json(data, catalog))
    if kind == "end_job":
        return EndJob(data["oid"])
    if kind == "drop":
        return DropRelation(data["oid"], data["name"])
    if kind == "create_schema":
        return CreateSchemaOp(SchemaEntry(data["oid"], data["name"]))
    if kind == "drop_schema":
        return DropSchemaOp(data["name"])
    assert kind == "comment", kind
    return SetComment(data["oid"], data["attnum"], data["text"])
