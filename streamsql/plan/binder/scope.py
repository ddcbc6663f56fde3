"""Names that an expression may use: the columns of FROM, and those of enclosing queries.

Names arrive folded, so comparison is exact. A `Namespace` describes one row (the concatenation of
the FROM items); its columns are expressions over that row, because USING merges two columns to one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from streamsql.core.errors import (
    AmbiguousColumn,
    DuplicateAlias,
    UndefinedColumn,
    UndefinedTable,
)
from streamsql.functions.expressions import ColumnRef, Expr, OuterRef
from streamsql.plan.binder.context import CteMap, RelationInfo
from streamsql.plan.visit import push_down_levels, shift_columns

Origin = tuple[int, int] | None

PSEUDO = {
    "rowtime": "Rows have a ROWTIME where their table or view declares a WATERMARK.",
    "windowstart": "A windowed view has what it selects: SELECT WINDOWSTART AS window_start in it.",
    "windowend": "A windowed view has what it selects: SELECT WINDOWEND AS window_end in it.",
}
"""Of ksqlDB, and what is said where there is no such column."""

ROWTIME = "rowtime"
"""Of ksqlDB: the event time of a row. A column of this name comes first."""


@dataclass(frozen=True)
class NamedColumn:
    """A column that a name can reach: an expression over the namespace's row."""

    name: str
    expr: Expr
    origin: Origin = None

    def shifted(self, by: int) -> NamedColumn:
        """The same column in a row with `by` columns in front."""
        return replace(self, expr=shift_columns(self.expr, by))


@dataclass(frozen=True)
class NamedRelation:
    """One FROM item that a qualifier can reach. schema_name: None when it has an alias.
    is_function: its name alone means the value of its one column. visible: False inside an aliased
    join. optional: it stands on a side of an outer join that may be missing."""

    alias: str
    columns: tuple[NamedColumn, ...]
    schema_name: str | None = None
    info: RelationInfo | None = None
    visible: bool = True
    is_function: bool = False
    optional: bool = False

    @property
    def event_time(self) -> NamedColumn | None:
        """The column that its watermark is about: what ROWTIME stands for."""
        at = None if self.info is None else self.info.watermark_column
        return None if at is None or at >= len(self.columns) else self.columns[at]

    def shifted(self, by: int) -> NamedRelation:
        """The same relation in a row with `by` columns in front."""
        return replace(self, columns=tuple(c.shifted(by) for c in self.columns))


@dataclass
class Namespace:
    """relations: what qualifiers reach. columns: what bare names reach and `*` lists, in order."""

    width: int
    relations: list[NamedRelation] = field(default_factory=list)
    columns: list[NamedColumn] = field(default_factory=list)
    _by_name: dict[str, list[NamedColumn]] | None = None

    def shifted(self, by: int) -> Namespace:
        """This namespace in a row with `by` columns in front."""
        return Namespace(
            self.width + by,
            [r.shifted(by) for r in self.relations],
            [c.shifted(by) for c in self.columns],
        )

    def joined(self, right: Namespace, position: int | None = None) -> Namespace:
        """Left's row followed by right's. Raises: DuplicateAlias (42712)."""
        moved = right.shifted(self.width)
        for r in moved.relations:
            if r.visible and any(_clash(r, other) for other in self.relations):
                raise DuplicateAlias(
                    f'table name "{r.alias}" specified more than once',
                    position=position,
                    hint="Give each of them an alias of its own.",
                )
        return Namespace(
            moved.width, self.relations + moved.relations, self.columns + moved.columns
        )

    def outer(self, kind: str, left: int) -> Namespace:
        """The namespace of a join of this kind, whose left side is the first `left` relations."""
        right_optional = kind in ("left", "full") or kind.endswith("_left")
        optional = [kind in ("right", "full")] * left
        optional += [right_optional] * (len(self.relations) - left)
        relations = [
            replace(r, optional=True) if missing else r
            for r, missing in zip(self.relations, optional, strict=True)
        ]
        return Namespace(self.width, relations, self.columns)

    def bare(self, name: str) -> list[NamedColumn]:
        """The columns of this name that need no qualifier."""
        if self._by_name is None:
            self._by_name = {}
            for c in self.columns:
                self._by_name.setdefault(c.name, []).append(c)
        return self._by_name.get(name, [])

    def relation(self, alias: str, schema_name: str | None = None) -> NamedRelation | None:
        """The visible FROM item that this qualifier names."""
        for r in self.relations:
            if r.visible and r.alias == alias and schema_name in (None, r.schema_name):
                return r
        return None


@dataclass
class Scope:
    """A namespace and what surrounds it.

    parent: the scope of the enclosing row, one OuterRef level up. used: whether a subquery or
    LATERAL item referred to this row. clause, accepts_aggregates, inside:
    the clause of this scope that a subquery stands in, for aggregates that belong out here.
    """

    namespace: Namespace
    parent: Scope | None
    ctes: CteMap
    used: bool = False
    clause: str = ""
    accepts_aggregates: bool = False
    inside: str | None = None

    @property
    def level(self) -> int:
        """Number of scopes above."""
        return 0 if self.parent is None else self.parent.level + 1

    def chain(self) -> Iterator[tuple[int, Scope]]:
        """(depth, scope) from this one outwards."""
        scope: Scope | None = self
        depth = 0
        while scope is not None:
            yield depth, scope
            scope, depth = scope.parent, depth + 1


def lookup(scope: Scope, name: str, position: int | None) -> tuple[NamedColumn, Expr] | None:
    """The column that the bare name means, as an expression of `scope`'s row, or None.

    Raises: AmbiguousColumn (42702).
    """
    for depth, s in scope.chain():
        found = s.namespace.bare(name)
        if len(found) > 1:
            raise AmbiguousColumn(
                f'column reference "{name}" is ambiguous',
                position=position,
                hint=_qualify_hint(s.namespace, name),
            )
        if found:
            return found[0], _seen_from(s, depth, found[0], position)
    return _event_time(scope, position) if name == ROWTIME else None


def _event_time(scope: Scope, position: int | None) -> tuple[NamedColumn, Expr] | None:
    """ROWTIME where no column has that name: the event time of the nearest rows that have one."""
    for depth, s in scope.chain():
        found = [c for r in s.namespace.relations if (c := r.event_time) is not None]
        if len(found) > 1:
            raise AmbiguousColumn(
                f'column reference "{ROWTIME}" is ambiguous',
                position=position,
                hint="Write it with the name of a table in front.",
            )
        if found:
            return found[0], _seen_from(s, depth, found[0], position)
    return None


def lookup_qualified(
    scope: Scope, schema_name: str | None, alias: str, name: str, position: int | None
) -> tuple[NamedColumn, Expr] | None:
    """alias.name as an expression of `scope`'s row; None if no such FROM item.

    Raises: UndefinedColumn (42703), AmbiguousColumn (42702).
    """
    for depth, s in scope.chain():
        relation = s.namespace.relation(alias, schema_name)
        if relation is None:
            continue
        found = [c for c in relation.columns if c.name == name]
        if not found and name == ROWTIME and relation.event_time is not None:
            found = [relation.event_time]
        if len(found) > 1:
            raise AmbiguousColumn(f'column reference "{name}" is ambiguous', position=position)
        if not found:
            raise UndefinedColumn(
                f"column {alias}.{name} does not exist",
                position=position,
                hint=nearest_hint(scope, name, alias),
            )
        return found[0], _seen_from(s, depth, found[0], position)
    return None


def find_relation(
    scope: Scope, alias: str, schema_name: str | None = None
) -> tuple[int, NamedRelation] | None:
    """(depth, FROM item) that the qualifier names."""
    for depth, s in scope.chain():
        relation = s.namespace.relation(alias, schema_name)
        if relation is not None:
            return depth, relation
    return None


def _seen_from(owner: Scope, depth: int, column: NamedColumn, position: int | None) -> Expr:
    if depth:
        owner.used = True
    expr = column.expr
    if isinstance(expr, ColumnRef):
        if depth:
            return OuterRef(
                index=expr.index, depth=depth, type=expr.type, name=column.name, position=position
            )
        return ColumnRef(index=expr.index, type=expr.type, name=column.name, position=position)
    return push_down_levels(expr, depth)


def undefined_column(scope: Scope, name: str, position: int | None) -> UndefinedColumn:
    """42703 for a bare name, with the nearest column as hint."""
    return UndefinedColumn(
        f'column "{name}" does not exist', position=position, hint=nearest_hint(scope, name)
    )


def missing_from(scope: Scope, alias: str, position: int | None) -> UndefinedTable:
    """42P01 for a qualifier that names no FROM item."""
    for _, s in scope.chain():
        for r in s.namespace.relations:
            real = r.info.name if r.info is not None else None
            if r.visible and real == alias and r.alias != alias:
                return UndefinedTable(
                    f'invalid reference to FROM-clause entry for table "{alias}"',
                    position=position,
                    hint=f'Perhaps you meant to reference the table alias "{r.alias}".',
                )
        for r in s.namespace.relations:
            if not r.visible and r.alias == alias:
                return out_of_reach(alias, position)
    return UndefinedTable(
        f'missing FROM-clause entry for table "{alias}"',
        position=position,
        hint=f'Add "{alias}" to FROM, or use the alias that it has there.',
    )


def out_of_reach(alias: str, position: int | None, *, lateral: bool = False) -> UndefinedTable:
    """42P01 for a FROM item that exists, but not for this part of the query."""
    return UndefinedTable(
        f'invalid reference to FROM-clause entry for table "{alias}"',
        position=position,
        detail=f'There is an entry for table "{alias}", but it cannot be referenced from this '
        "part of the query.",
        hint="To reference that table, you must mark this subquery with LATERAL."
        if lateral
        else None,
    )


def _clash(a: NamedRelation, b: NamedRelation) -> bool:
    if not b.visible or a.alias != b.alias:
        return False
    return a.schema_name is None or b.schema_name is None or a.schema_name == b.schema_name


def _qualify_hint(namespace: Namespace, name: str) -> str | None:
    owners = [
        f'"{r.alias}.{name}"'
        for r in namespace.relations
        if r.visible and any(c.name == name for c in r.columns)
    ]
    if len(owners) < 2:
        return None
    return f"Write {' or '.join(owners)} instead."


def nearest_hint(scope: Scope, name: str, alias: str | None = None) -> str | None:
    """PostgreSQL's "Perhaps you meant …" for a misspelt column; for ksqlDB's pseudo-columns, where
    they are to be had."""
    if name in PSEUDO:
        return PSEUDO[name]
    best: list[str] = []
    best_distance = min(4, max(2, len(name) // 2 + 1))
    for _, s in scope.chain():
        for r in s.namespace.relations:
            if not r.visible or (alias is not None and r.alias != alias):
                continue
            for c in r.columns:
                d = edit_distance(name, c.name, best_distance)
                if d < best_distance:
                    best, best_distance = [], d
                label = f'"{r.alias}.{c.name}"'
                if d == best_distance and d <= max(1, len(name) // 2) and label not in best:
                    best.append(label)
    if not best or len(best) > 2:
        return None
    return f"Perhaps you meant to reference the column {' or the column '.join(best)}."


def edit_distance(a: str, b: str, limit: int) -> int:
    """Levenshtein distance, or limit + 1 when it is larger.

    >>> edit_distance("nam", "name", 3)
    1
    """
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return min(row[-1], limit + 1)
