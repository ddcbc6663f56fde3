"""Catalog entries as plain data (for the write-ahead log and the manifest), and back."""

from __future__ import annotations

from typing import Any

from streamsql.core.errors import DataCorrupted
from streamsql.core.schema import Column, Schema
from streamsql.core.types import Kind, SqlType
from streamsql.dialect.statements import CreateView
from streamsql.engine.catalog import FIRST_USER_OID, TEMP_PREFIX, Catalog, SchemaEntry
from streamsql.engine.layouts import LAYOUT_SCHEMA, Layout
from streamsql.engine.names import qualified
from streamsql.engine.relations import Definition, DefinitionContext, Key, Relation

Json = dict[str, Any]


def type_to_json(t: SqlType) -> Json:
    """Only what is set, so that plain types stay short."""
    data: Json = {"kind": t.kind.name}
    for name in ("precision", "scale", "length", "digits"):
        if getattr(t, name) is not None:
            data[name] = getattr(t, name)
    for name in ("element", "key", "value"):
        if getattr(t, name) is not None:
            data[name] = type_to_json(getattr(t, name))
    if t.fields:
        data["fields"] = [[name, type_to_json(f)] for name, f in t.fields]
    if not t.constrained:
        data["constrained"] = False
    return data


def type_from_json(data: Json) -> SqlType:
    """Inverse of `type_to_json`."""
    nested = {n: type_from_json(data[n]) for n in ("element", "key", "value") if n in data}
    return SqlType(
        Kind[data["kind"]],
        precision=data.get("precision"),
        scale=data.get("scale"),
        length=data.get("length"),
        digits=data.get("digits"),
        fields=tuple((name, type_from_json(f)) for name, f in data.get("fields", [])),
        constrained=data.get("constrained", True),
        **nested,
    )


def schema_to_json(schema: Schema) -> list[Any]:
    """[[name, type, nullable], …]."""
    return [[c.name, type_to_json(c.type), c.nullable] for c in schema]


def schema_from_json(data: list[Any]) -> Schema:
    """Inverse of `schema_to_json`."""
    return Schema(tuple(Column(name, type_from_json(t), null) for name, t, null in data))


def relation_to_json(relation: Relation) -> Json:
    """All that can not be derived from the user's text."""
    return {
        "oid": relation.oid,
        "type_oid": relation.type_oid,
        "schema": relation.schema,
        "name": relation.name,
        "kind": relation.kind,
        "columns": schema_to_json(relation.columns),
        "sql": relation.sql,
        "search_path": list(relation.context.search_path),
        "timezone": relation.context.timezone,
        "dialect": relation.context.dialect,
        "references": relation.references,
        "keys": [
            [k.name, list(k.columns), k.primary, k.index_oid, k.constraint_oid]
            for k in relation.keys
        ],
        "unique_keys": [list(k) for k in relation.unique_keys],
        "append_only": relation.append_only,
        "on_conflict": relation.on_conflict,
        "watermark_column": relation.watermark_column,
        "options": relation.options,
        "emit": relation.emit,
        "extra": relation.extra,
    }


def relation_from_json(data: Json, catalog: Catalog) -> Relation:
    """Inverse of `relation_to_json`; the relations it refers to are in the catalog already.

    Raises: DataCorrupted (XX001) if the user's text no longer parses.
    """
    context = DefinitionContext(tuple(data["search_path"]), data["timezone"], data["dialect"])
    statement = _parsed(data, context)
    query = None
    if isinstance(statement, CreateView):
        meaning = {name: catalog.relations[oid] for name, oid in data["references"].items()}
        known = data["extra"].get("layouts", {})
        names = {int(base): (LAYOUT_SCHEMA, str(oid)) for base, oid in known.items()}
        query = qualified(statement.query, meaning, names)
    return Relation(
        oid=data["oid"],
        type_oid=data["type_oid"],
        schema=data["schema"],
        name=data["name"],
        kind=data["kind"],
        columns=schema_from_json(data["columns"]),
        sql=data["sql"],
        context=context,
        statement=statement,
        query=query,
        references=dict(data["references"]),
        keys=tuple(Key(n, tuple(c), p, i, o) for n, c, p, i, o in data["keys"]),
        unique_keys=tuple(tuple(k) for k in data["unique_keys"]),
        append_only=data["append_only"],
        on_conflict=data["on_conflict"],
        watermark_column=data["watermark_column"],
        options=dict(data["options"]),
        emit=data["emit"],
        extra=dict(data["extra"]),
    )


def layout_to_json(layout: Layout) -> Json:
    """A layout as data."""
    return {
        "oid": layout.oid,
        "of": layout.of,
        "columns": schema_to_json(layout.columns),
        "positions": list(layout.positions),
        "number": layout.number,
    }


def layout_from_json(data: Json) -> Layout:
    """Inverse of `layout_to_json`."""
    columns = schema_from_json(data["columns"])
    return Layout(data["oid"], data["of"], columns, tuple(data["positions"]), data["number"])


def _parsed(data: Json, context: DefinitionContext) -> Definition | None:
    from streamsql.dialect import parse

    if data["kind"] == "system":
        return None
    statements = parse(data["sql"], context.dialect)
    if len(statements) != 1 or not isinstance(statements[0], Definition):
        raise DataCorrupted(f'the definition of "{data["name"]}" can not be read')
    return statements[0]


def catalog_to_json(catalog: Catalog) -> Json:
    """The whole catalog without system and temporary relations."""
    kept = [r for r in catalog.user_relations() if not r.temporary]
    return {
        "next_oid": catalog.oids.next_oid,
        "schemas": [
            [s.name, s.oid]
            for s in catalog.schemas.values()
            if s.oid >= FIRST_USER_OID and not s.name.startswith(TEMP_PREFIX)
        ],
        "relations": [relation_to_json(r) for r in kept],
        "comments": [[oid, attnum, text] for (oid, attnum), text in catalog.comments.items()],
        "layouts": [layout_to_json(layout) for layout in catalog.layouts.values()],
        "jobs": [[relation_to_json(r), behind] for r, behind in catalog.jobs.values()],
    }


def load_catalog(data: Json, catalog: Catalog) -> None:
    """Fill a fresh catalog with what `catalog_to_json` gave."""
    catalog.oids.next_oid = data["next_oid"]
    for name, oid in data["schemas"]:
        catalog.add_schema(SchemaEntry(oid, name))
    for entry in data["relations"]:
        catalog.add(relation_from_json(entry, catalog))
    for layout in data.get("layouts", []):
        catalog.add_layout(layout_from_json(layout))
    for entry, behind in data.get("jobs", []):
        catalog.start_job(relation_from_json(entry, catalog), background=behind)
    for oid, attnum, text in data["comments"]:
        catalog.set_comment(oid, attnum, text)
