"""Rows computed by one part of a statement, read as relations by its other parts.

RETURNING of a CTE, the pairs of a MERGE, the row that RETURNING's subqueries look at: each is a
relation with an id outside of the catalog's, which the read view answers from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from streamsql.core.delta import make_batch
from streamsql.core.schema import Schema
from streamsql.engine.binding import BindScope
from streamsql.engine.dml.pending import PendingWrites
from streamsql.engine.reads.view import ReadView
from streamsql.plan.binder.context import RelationInfo

FIRST_ID = 1 << 35
"""Above every OID, below the ids of catalog relations (`pgcatalog.mixed`) and versions."""


@dataclass
class Given:
    """The relations of one statement's WITH that are computed already.

    relations: name → what the binder is told. rows: id → its rows. writes: the transaction's own
    writes as they were before the statement: what its reads see of them.
    """

    relations: dict[tuple[str, ...], RelationInfo] = field(default_factory=dict)
    rows: dict[int, pa.Table] = field(default_factory=dict)
    writes: Mapping[int, PendingWrites] = field(default_factory=dict)

    def add(self, name: str, schema: Schema, rows: pa.Table) -> None:
        """One more relation. rows: columns named as in `Schema.arrow`."""
        info = given_info(len(self.relations) + 100, name, schema)
        self.relations[(name,)] = info
        self.rows[info.relation_id] = rows


def given_info(number: int, name: str, schema: Schema) -> RelationInfo:
    """The binder's view of such a relation."""
    return RelationInfo(
        relation_id=FIRST_ID + number, name=name, schema_name="", schema=schema, kind="table"
    )


def scope_with(scope: BindScope, infos: Mapping[str, RelationInfo]) -> BindScope:
    """The scope in which these bare names mean these relations."""
    extra: dict[tuple[str, ...], RelationInfo] = dict(scope.extra)
    extra.update({(name,): info for name, info in infos.items()})
    return BindScope(scope.catalog, scope.definition, scope.inline, extra)


def view_with(view: ReadView, rows: Mapping[int, pa.Table]) -> ReadView:
    """The view that knows the rows of these ids too."""
    inner = view.virtual

    def virtual(relation_id: int) -> pa.Table:
        found = rows.get(relation_id)
        return inner(relation_id) if found is None else found

    return replace(view, virtual=virtual)


def table_of(schema: Schema, arrays: list[pa.Array], num_rows: int) -> pa.Table:
    """Arrays as rows of a given relation."""
    return pa.Table.from_batches([make_batch(arrays, schema.arrow, num_rows)])


def given_table(name: str, alias: str) -> exp.Table:
    """The relation as an item of FROM."""
    return exp.Table(
        this=exp.to_identifier(name, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )


def qualified_column(name: str, table: str) -> exp.Column:
    """table.name."""
    return exp.Column(
        this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True)
    )
