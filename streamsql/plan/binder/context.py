"""What the binder is told (BindContext, RelationInfo) and what it keeps while it binds a
statement."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamsql.core.schema import Schema
from streamsql.core.types import SqlType
from streamsql.plan.nodes import LogicalPlan

NOW_FREE = "free"
"""`now()` may stand anywhere: a plain query."""
NOW_TICK = "tick"
"""`now()` is the tick's time: a view."""
NOW_REFUSED = "refused"
"""`now()` is refused: an index, a constraint, a watermark."""


@dataclass(frozen=True)
class RelationInfo:
    """A relation as the catalog knows it.

    kind: table | source | view | materialized_view | system. view_query: sqlglot tree of a plain
    view, expanded by the binder; its columns take the names of `schema`. unique_keys: sets of
    column positions, the primary key first. proctime_columns: positions of columns AS PROCTIME().
    """

    relation_id: int
    name: str
    schema_name: str
    schema: Schema
    kind: str = "table"
    unique_keys: tuple[tuple[int, ...], ...] = ()
    append_only: bool = False
    watermark_column: int | None = None
    view_query: Any = None
    proctime_columns: frozenset[int] = frozenset()


@dataclass
class BindContext:
    """The surroundings of one statement.

    resolve: (name,) or (schema, name) → RelationInfo or None; a bare name goes through the search
    path. parameter_types: declared types of $1, $2, … (None = infer); grows while binding; the
    field itself None means that parameters are not allowed (42P02). volatile_allowed: False in a
    view, where random() and friends are refused (0A000). now: see NOW_*. source_text: the
    statement's text, if at hand (only for output names of functions that the parser renames).
    """

    resolve: Callable[[tuple[str, ...]], RelationInfo | None]
    search_path: tuple[str, ...] = ("public",)
    timezone: str = "UTC"
    parameter_types: list[SqlType | None] | None = field(default_factory=list)
    volatile_allowed: bool = True
    now: str = NOW_FREE
    source_text: str | None = None


@dataclass(frozen=True)
class Cte:
    """A WITH item that is visible now. level: number of scopes above its definition, so that outer
    references inside of it can be moved to where it is used. recursive_id: inside its own step."""

    name: str
    plan: LogicalPlan
    origins: tuple[tuple[int, int] | None, ...]
    level: int
    forbidden: str | None = None


@dataclass
class Statement:
    """State shared by all scopes of one statement."""

    context: BindContext
    relations: set[int] = field(default_factory=set)
    notices: list[str] = field(default_factory=list)
    view_stack: tuple[int, ...] = ()
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    def next_id(self) -> int:
        """A number for a recursive CTE, unique within the statement."""
        return int(next(self._ids))

    def notice(self, text: str) -> None:
        """Tell the user once."""
        if text not in self.notices:
            self.notices.append(text)


@dataclass(frozen=True)
class Bound:
    """A bound query inside the binder. origins: per column (relation_id, position) or None.

    `plan.schema` may still hold UNKNOWN columns: the caller gives them a type.
    """

    plan: LogicalPlan
    origins: tuple[tuple[int, int] | None, ...]


CteMap = Mapping[str, Cte]
