"""Changes of the catalog as data: applied to a session's fork, logged, and applied at commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from streamsql.core.errors import SerializationFailure, UndefinedTable
from streamsql.engine.catalog import Catalog, SchemaEntry
from streamsql.engine.catalog_codec import Json, relation_from_json, relation_to_json
from streamsql.engine.relations import Relation


class DdlOp(Protocol):
    """One change. `apply` checks again what may have changed since the statement was bound."""

    def apply(self, catalog: Catalog) -> None: ...

    def to_json(self) -> Json: ...


@dataclass(frozen=True)
class CreateRelation:
    """A new table, source, view or materialized view. replaces: OID of the definition whose place
    it takes (CREATE OR REPLACE), with that OID kept."""

    relation: Relation
    replaces: bool = False

    def apply(self, catalog: Catalog) -> None:
        for name, oid in self.relation.references.items():
            if oid not in catalog.relations:
                raise UndefinedTable(f'relation "{name}" does not exist')
        if not self.replaces:
            catalog.add(self.relation)
            return
        if self.relation.oid not in catalog.relations:
            raise SerializationFailure("could not serialize access due to concurrent update")
        catalog.replace(self.relation)

    def to_json(self) -> Json:
        return {
            "op": "create",
            "relation": relation_to_json(self.relation),
            "replaces": self.replaces,
        }


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


def op_from_json(data: Json, catalog: Catalog) -> Any:
    """Inverse of `to_json`; the catalog is as it was before the operation."""
    kind = data["op"]
    if kind == "create":
        return CreateRelation(relation_from_json(data["relation"], catalog), data["replaces"])
    if kind == "drop":
        return DropRelation(data["oid"], data["name"])
    if kind == "create_schema":
        return CreateSchemaOp(SchemaEntry(data["oid"], data["name"]))
    if kind == "drop_schema":
        return DropSchemaOp(data["name"])
    assert kind == "comment", kind
    return SetComment(data["oid"], data["attnum"], data["text"])
