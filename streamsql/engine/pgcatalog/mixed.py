"""Catalog relations beside users' relations in one query.

A query about the catalog alone is compiled for `PgCatalog`. One that joins it with tables, views or
system relations goes the way of all queries, in which a catalog relation is one more whose rows are
made when they are read. What only the catalog's own compiler knows (`regclass`, `format_type`) is
not there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.schema import Column, Schema
from streamsql.engine.pgcatalog import pgtypes as t
from streamsql.engine.pgcatalog.names import quote_ident
from streamsql.engine.pgcatalog.static import find_relation, system_relations
from streamsql.engine.reads.view import ReadView
from streamsql.plan.binder.context import RelationInfo

if TYPE_CHECKING:
    from streamsql.engine.session import Session

FIRST_ID = 1 << 36
"""Ids of catalog relations in plans: from here on, in the order of `system_relations`."""


def mixed_relation(parts: tuple[str, ...]) -> RelationInfo | None:
    """What the binder is told of a catalog relation; None if there is none of that name."""
    found = find_relation(parts)
    if found is None:
        return None
    number = list(system_relations()).index((found.schema, found.name))
    return RelationInfo(
        relation_id=FIRST_ID + number,
        name=found.name,
        schema_name=found.schema,
        schema=_schema(FIRST_ID + number),
        kind="system",
    )


@lru_cache(maxsize=256)
def _schema(relation_id: int) -> Schema:
    relation = list(system_relations().values())[relation_id - FIRST_ID]
    columns = []
    for name, oid in relation.columns:
        type_ = t.TEXT_STORAGE if oid in t.REGISTERED else t.storage(oid)
        columns.append(Column(name, type_))
    return Schema(tuple(columns))


def with_catalog(view: ReadView, session: Session) -> ReadView:
    """A view that knows the rows of catalog relations too."""
    rest = view.virtual

    def virtual(relation_id: int) -> pa.Table:
        return mixed_rows(session, relation_id) if relation_id >= FIRST_ID else rest(relation_id)

    return replace(view, virtual=virtual)


def mixed_rows(session: Session, relation_id: int) -> pa.Table:
    """The rows of a catalog relation as this session sees them."""
    schema, name = list(system_relations())[relation_id - FIRST_ID]
    sql = f"SELECT * FROM {schema}.{quote_ident(name)}"
    tree = session.parse(sql)[0].query  # type: ignore[attr-defined]
    result = session.database.pg_catalog().query(tree, (), session)
    columns = _schema(relation_id).arrow
    batches = [
        pa.RecordBatch.from_arrays(
            [c if c.type == f.type else c.cast(f.type)
             for c, f in zip(b.columns, columns, strict=True)],
            schema=columns,
        )
        for b in result.batches
    ]  # fmt: skip
    return pa.Table.from_batches(batches, schema=columns)
