"""Indexes: from the catalog's entries to the ordered keys beside the rows they are about.

An index is a relation of kind `index` in the catalog (so it has a place among the names of its
schema, goes when its table goes, and comes back after a restart); its rows are in memory only and
made anew from those of the table or view. `Indexes.sync` makes what is in memory agree with the
catalog after every change of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidObjectDefinition,
    StreamSqlError,
    UniqueViolation,
)
from streamsql.core.schema import Schema
from streamsql.dialect.statements import CreateIndex
from streamsql.engine import logs
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.constraints import refuse_subquery
from streamsql.engine.relations import Key, Relation
from streamsql.engine.storage.key_index import KeyIndex
from streamsql.engine.storage.table import TableState
from streamsql.engine.storage.view import ViewState
from streamsql.functions.expressions import Expr
from streamsql.functions.textio import to_text
from streamsql.plan.binder.context import NOW_REFUSED

if TYPE_CHECKING:
    from streamsql.engine.build import Built
    from streamsql.engine.engine import Engine

State = TableState | ViewState


def owner_oid(index: Relation) -> int:
    """OID of the table or view that an index is on."""
    return int(index.extra["of"])


def indexes_of(catalog: Catalog, oid: int) -> list[Relation]:
    """The indexes on a relation, in order of creation."""
    return [r for r in catalog.dependents([oid]) if r.kind == "index"]


def all_keys(relation: Relation, catalog: Catalog) -> tuple[Key, ...]:
    """What INSERT may conflict on: the constraints of a table, and its unique indexes."""
    unique = (unique_key(r) for r in indexes_of(catalog, relation.oid))
    return relation.keys + tuple(key for key in unique if key is not None)


def bind_keys(statement: CreateIndex, owner: Relation, scope: BindScope) -> tuple[Expr, ...]:
    """The key expressions over the owner's columns. Raises: errors of binding, 42P17."""
    from streamsql.plan.binder import bind_expression

    context = scope.context(volatile_allowed=False, now=NOW_REFUSED)
    context.parameter_types = None
    keys = []
    for tree in statement.expressions:
        try:
            key = bind_expression(
                tree, owner.columns, context, owner.name, clause="index expressions"
            )
        except FeatureNotSupported as error:
            if "volatile" in error.message or "immutable" in error.message:
                raise InvalidObjectDefinition(
                    "functions in index expression must be marked IMMUTABLE",
                    position=error.position,
                    hint="Index a column, or an expression of the row alone.",
                ) from error
            raise
        refuse_subquery(key, "index expression")
        keys.append(key)
    return tuple(keys)


class Indexes:
    """What is in memory of one engine's indexes. Used by the engine thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def state_of(self, oid: int) -> State | None:
        """The rows of a table or view."""
        return self.engine.tables.get(oid) or self.engine.views.get(oid)

    def build(self, index: Relation, built: Built) -> KeyIndex:
        """The index of a CREATE INDEX, over rows that are there or made by the same request.

        Raises: UniqueViolation (23505).
        """
        beside = self.engine.jobs.index_of(index.oid)
        if beside is not None:
            with self.engine.lock:
                return beside.place()
        oid = owner_oid(index)
        state = built.tables.get(oid) or built.views.get(oid) or self.state_of(oid)
        assert state is not None, "its definition was checked against the catalog"
        return self.create(index, built.catalog, state)

    def create(
        self, index: Relation, catalog: Catalog, state: State, *, alone: bool = False
    ) -> KeyIndex:
        """Fill a new index and let it follow the rows. alone: nobody else knows of them yet.

        Raises: UniqueViolation (23505).
        """
        made = key_index(index, catalog, state)
        if made.unique:
            check_no_duplicates(index, state, made.unique)
        with contextlib.nullcontext() if alone else self.engine.lock:
            made.attach(merge=isinstance(state, ViewState))
            state.indexes[index.oid] = made
        return made

    def discard(self, index: KeyIndex) -> None:
        """The index is not to be after all, or no longer."""
        with self.engine.lock:
            for state in self.states():
                if state.indexes.get(index.oid) is index:
                    del state.indexes[index.oid]
            index.detach()

    def states(self) -> Iterator[State]:
        """All rows there are."""
        yield from list(self.engine.tables.values())
        yield from list(self.engine.views.values())

    def all(self) -> Iterator[tuple[State, KeyIndex]]:
        """Every index with the rows it is about."""
        for state in self.states():
            for index in list(state.indexes.values()):
                yield state, index

    def sync(self) -> None:
        """After a change of the catalog, or a restart: indexes that are gone go, those whose rows
        are kept elsewhere now (an altered table, a replaced view) are made anew."""
        catalog = self.engine.catalog
        for state, index in self.all():
            if self._stale(state, index):
                self.discard(index)
        for relation in list(catalog.relations.values()):
            if relation.kind == "index":
                owner = self.state_of(owner_oid(relation))
                if owner is None:
                    continue
                found = owner.indexes.get(relation.oid)
                if found is None:
                    self._revive(relation, owner)
                else:
                    found.name = relation.name

    def _stale(self, state: State, index: KeyIndex) -> bool:
        catalog = self.engine.catalog
        relation = catalog.relations.get(index.oid)
        if relation is None or index.store is not state.store:
            return True
        owner = catalog.relations.get(owner_oid(relation))
        return owner is None or owner.columns.types != index.schema.types

    def _revive(self, relation: Relation, state: State) -> None:
        try:
            self.create(relation, self.engine.catalog, state)
        except StreamSqlError as error:
            # an index only makes reads faster: the database opens without it
            logs.error("an index could not be filled", index=relation.name, reason=error.message)


def key_index(index: Relation, catalog: Catalog, state: State) -> KeyIndex:
    """An index over the rows of its owner, without its entries. Raises: errors of binding."""
    owner = catalog.relations[owner_oid(index)]
    assert isinstance(index.statement, CreateIndex)
    keys = bind_keys(index.statement, owner, BindScope(catalog, index.context))
    unique = () if not index.extra.get("unique") else tuple(index.extra["columns"])
    return KeyIndex(index.name, index.oid, keys, owner.columns, state.store, unique)


def unique_key(index: Relation) -> Key | None:
    """What a unique index keeps of its table's rows; None for other indexes."""
    if not index.extra.get("unique"):
        return None
    return Key(index.name, tuple(index.extra["columns"]), False, index.oid, 0)


def check_no_duplicates(index: Relation, state: State, columns: tuple[int, ...]) -> None:
    """Raises: UniqueViolation (23505) if the rows are not unique by these columns already."""
    from streamsql.engine.dml.conflicts import first_of_key

    rows = state.snapshot().combine_chunks()
    for batch in rows.to_batches()[:1]:
        first = first_of_key(batch, columns, state.schema)
        if not first.all():
            at = int((~first).argmax())
            raise duplicated(index.name, state.relation.columns, columns, batch, at)


def duplicated(
    name: str, schema: Schema, columns: tuple[int, ...], rows: pa.RecordBatch, at: int
) -> UniqueViolation:
    """23505, with PostgreSQL's words for rows that are there already."""
    names = ", ".join(schema[i].name for i in columns)
    values = ", ".join(
        to_text(rows.column(i).slice(at, 1), schema[i].type)[0].as_py() for i in columns
    )
    return UniqueViolation(
        f'could not create unique index "{name}"',
        detail=f"Key ({names})=({values}) is duplicated.",
    )
