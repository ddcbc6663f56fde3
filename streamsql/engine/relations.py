"""What the catalog knows of one relation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlglot import exp

from streamsql.core.schema import Schema
from streamsql.dialect.statements import (
    CreateIndex,
    CreateSubscription,
    CreateTable,
    CreateView,
)

OBJECTS = ("index", "subscription")
"""Kinds that have no rows to be read."""

Definition = CreateTable | CreateView | CreateIndex | CreateSubscription

KIND_WORDS = {
    "table": "table",
    "source": "source",
    "view": "view",
    "materialized_view": "materialized view",
    "system": "system relation",
    "index": "index",
    "subscription": "subscription",
}
"""Relation.kind → the words of messages and of DROP."""


@dataclass(frozen=True)
class DefinitionContext:
    """The session settings a definition was written under; it is bound again under the same.

    parameters: types of nothing, definitions have no parameters. dialect: `SET dialect`.
    """

    search_path: tuple[str, ...] = ("public",)
    timezone: str = "UTC"
    dialect: str = "streamsql"


@dataclass(frozen=True)
class Key:
    """A PRIMARY KEY or UNIQUE constraint with the OIDs of its index and constraint."""

    name: str
    columns: tuple[int, ...]
    primary: bool
    index_oid: int
    constraint_oid: int


@dataclass(frozen=True)
class Owner:
    """A view that an operator works for. sources: what it reads there, as late_rows shows it."""

    oid: int
    schema: str
    view: str
    sources: str


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A table, source, view, materialized view or system relation.

    oid: ≥ 16384 for users' relations, stable over restarts. type_oid: its row type. sql: the
    user's text. statement: the parsed definition (None for system relations). query: a view's
    tree with every relation name qualified. references: names in the definition, as written →
    OID of what they mean. keys: constraints, the primary key first. unique_keys: sets of column
    positions that are unique (a view's are derived). on_conflict: error | overwrite | do_nothing
    | update_if_not_null. watermark_column: position, or None.
    """

    oid: int
    schema: str
    name: str
    kind: str
    columns: Schema
    type_oid: int = 0
    sql: str = ""
    context: DefinitionContext = DefinitionContext()
    statement: Definition | None = field(default=None, compare=False)
    query: exp.Expression | None = field(default=None, compare=False)
    references: dict[str, int] = field(default_factory=dict, compare=False)
    keys: tuple[Key, ...] = ()
    unique_keys: tuple[tuple[int, ...], ...] = ()
    append_only: bool = False
    on_conflict: str = "error"
    watermark_column: int | None = None
    options: dict[str, str] = field(default_factory=dict, compare=False)
    emit: str | None = None
    temporary: bool = False
    extra: dict[str, Any] = field(default_factory=dict, compare=False)

    @cached_property
    def depends_on(self) -> frozenset[int]:
        """OIDs of the relations named in the definition."""
        return frozenset(self.references.values())

    @property
    def layouts(self) -> dict[int, int]:
        """OID of a relation that is read → OID of the layout of it that this definition knows."""
        found: dict[str, int] = self.extra.get("layouts", {})
        return {int(base): oid for base, oid in found.items()}

    @property
    def layout(self) -> int:
        """The number of the physical layout of its rows: how often columns came or went."""
        return int(self.extra.get("layout", 0))

    @property
    def rules(self) -> int:
        """A number that grows whenever rows are made by other rules than before: with `layout`,
        and with what they have to keep (NOT NULL, CHECK)."""
        return self.layout + int(self.extra.get("rules", 0))

    @property
    def suspended(self) -> int | None:
        """OID of the view whose SUSPEND stopped this one (maybe itself), or None."""
        found: int | None = self.extra.get("suspended")
        return found

    @cached_property
    def proctime_columns(self) -> frozenset[int]:
        """Positions of the columns that a table defines AS PROCTIME()."""
        from streamsql.plan.binder.temporal import is_processing_time

        if not isinstance(self.statement, CreateTable):
            return frozenset()
        calls = {c.name: c.generated for c in self.statement.columns}
        found = (self.columns.index(name) for name, e in calls.items() if is_processing_time(e))
        return frozenset(at for at in found if at >= 0)

    @property
    def primary_key(self) -> tuple[int, ...]:
        """Positions of the primary key's columns; () without one."""
        return self.keys[0].columns if self.keys and self.keys[0].primary else ()

    @property
    def kind_words(self) -> str:
        """ "table", "materialized view", …, for messages."""
        return KIND_WORDS[self.kind]

    @property
    def connector(self) -> str | None:
        """Name of the connector that feeds this table or source, or None."""
        return self.options.get("connector")

    @property
    def stored(self) -> bool:
        """Whether rows are kept (tables and materialized views)."""
        return self.kind in ("table", "materialized_view")
