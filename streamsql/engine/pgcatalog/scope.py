"""What the compiler of catalog queries knows of an expression and of the relations in FROM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from streamsql.core.errors import AmbiguousColumn, UndefinedColumn, UndefinedTable
from streamsql.engine.pgcatalog import pgtypes as t

Fields = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Typed:
    """An expression, compiled.

    sql: DuckDB text. type: PostgreSQL's OID. name: what an output column of it is called.
    literal: the text of a string constant whose type is still open. parameter: number of a `$n`
    whose type is open. origin: (relation OID, attnum) of a plain column. fields: of a record.
    firm: the name is that of a column or function, not only of a type.
    """

    sql: str
    type: int
    name: str = "?column?"
    literal: str | None = None
    parameter: int | None = None
    origin: tuple[int, int] = (0, 0)
    fields: Fields = ()
    unnests: bool = False
    firm: bool = False

    def named(self, name: str) -> Typed:
        """The same under a name of its own, which a cast or CASE around it keeps."""
        return replace(self, name=name, firm=True)


@dataclass(frozen=True)
class Output:
    """A column of a relation in FROM, or of a query's result."""

    name: str
    type: int
    sql: str = ""
    origin: tuple[int, int] = (0, 0)
    fields: Fields = ()


@dataclass
class Source:
    """One relation in FROM. alias: the user's name for it; unique: ours. hidden: columns that a
    JOIN … USING merged away: found by `alias.name` only."""

    alias: str
    unique: str
    columns: list[Output]
    oid: int = 0
    schema: str = ""
    hidden: set[str] = field(default_factory=set)


SYSTEM_COLUMNS: dict[str, tuple[str, int]] = {
    "xmin": ("CAST(1 AS BIGINT)", t.XID), "xmax": ("CAST(0 AS BIGINT)", t.XID),
    "cmin": ("CAST(0 AS BIGINT)", t.CID), "cmax": ("CAST(0 AS BIGINT)", t.CID),
    "ctid": ("'(0,1)'", t.TID),
}  # fmt: skip


@dataclass
class Scope:
    """The sources that are visible in one SELECT, inside those of the queries around it."""

    parent: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    ctes: dict[str, tuple[str, list[Output]]] = field(default_factory=dict)

    def cte(self, name: str) -> tuple[str, list[Output]] | None:
        """(our name, columns) of a WITH query."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.ctes:
                return scope.ctes[name]
            scope = scope.parent
        return None

    def column(self, name: str, table: str | None, schema: str | None) -> Typed:
        """Raises: UndefinedColumn (42703), UndefinedTable (42P01), AmbiguousColumn (42702)."""
        scope: Scope | None = self
        seen_table = False
        while scope is not None:
            found = []
            for source in scope.sources:
                if table is not None and not _is_named(source, table, schema):
                    continue
                seen_table = True
                found += _in_source(source, name, qualified=table is not None)
            if len(found) > 1 and len({f.sql for f in found}) > 1:
                raise AmbiguousColumn(f'column reference "{name}" is ambiguous')
            if found:
                return found[0]
            whole = scope.whole_row(name) if table is None else None
            if whole is not None:
                return whole
            scope = scope.parent
        if table is not None and not seen_table:
            raise UndefinedTable(f'missing FROM-clause entry for table "{table}"')
        shown = name if table is None else f"{table}.{name}"
        quoted = f'"{name}"' if table is None else shown
        raise UndefinedColumn(f"column {quoted} does not exist")

    def whole_row(self, name: str) -> Typed | None:
        """A relation's name as an expression: its only column (a function's), or a record."""
        for source in self.sources:
            if source.alias == name:
                if len(source.columns) == 1:
                    column = source.columns[0]
                    return Typed(column.sql, column.type, name)
                fields = tuple((c.name, c.type) for c in source.columns)
                parts = ", ".join(f"{quote_string(c.name)}: {c.sql}" for c in source.columns)
                return Typed(f"{{{parts}}}", t.RECORD, name, fields=fields)
        return None

    def star(self, table: str | None, schema: str | None = None) -> list[Output]:
        """The columns of `*` or `table.*`."""
        if table is None:
            return [c for s in self.sources for c in s.columns if c.name not in s.hidden]
        scope: Scope | None = self
        while scope is not None:
            for source in scope.sources:
                if _is_named(source, table, schema):
                    return source.columns
            scope = scope.parent
        raise UndefinedTable(f'missing FROM-clause entry for table "{table}"')


def _is_named(source: Source, table: str, schema: str | None) -> bool:
    return source.alias == table and (schema is None or source.schema in ("", schema))


def _in_source(source: Source, name: str, *, qualified: bool) -> list[Typed]:
    if not qualified and name in source.hidden:
        return []
    found = [
        Typed(c.sql, c.type, c.name, origin=c.origin, fields=c.fields, firm=True)
        for c in source.columns
        if c.name == name
    ]
    if not found and source.oid:
        if name == "tableoid":
            return [Typed(f"CAST({source.oid} AS BIGINT)", t.OID, name)]
        if name in SYSTEM_COLUMNS:
            sql, type_ = SYSTEM_COLUMNS[name]
            return [Typed(sql, type_, name)]
    return found


def quote_string(text: str) -> str:
    """A DuckDB string literal.

    >>> quote_string("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


SessionValue = Callable[[Any], Any]
"""session -> a value that a compiled query needs when it runs."""


@dataclass
class Context:
    """What one compilation gathers. parameter_types: of $1, $2, … (OIDs; 0 = not known yet).
    values: what to ask the session for, by DuckDB parameter name. reads: relations. settings: what
    set_config() is to set. sleeps: DuckDB text of seconds to wait."""

    parameter_types: list[int] = field(default_factory=list)
    values: dict[str, SessionValue] = field(default_factory=dict)
    reads: set[tuple[str, str]] = field(default_factory=set)
    settings: list[tuple[str | int | None, str | int | None, bool]] = field(default_factory=list)
    sleeps: list[str] = field(default_factory=list)
    _number: int = 0

    def unique(self, prefix: str = "t") -> str:
        """A name that nothing else has."""
        self._number += 1
        return f"{prefix}{self._number}"

    def session_value(self, value: SessionValue) -> str:
        """DuckDB text for a value of the session."""
        name = self.unique("s")
        self.values[name] = value
        return f"${name}"

    def parameter(self, number: int) -> int:
        """Type of `$number`, 0 when open."""
        while len(self.parameter_types) < number:
            self.parameter_types.append(0)
        return self.parameter_types[number - 1]
