"""Where a query stands: what it sees above itself (Env) and what a FROM item is (FromItem)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from streamsql.functions.expressions import column
from streamsql.plan.binder.context import CteMap, Statement
from streamsql.plan.binder.scope import NamedColumn, NamedRelation, Namespace, Origin, Scope
from streamsql.plan.nodes import LogicalPlan


@dataclass(frozen=True)
class Env:
    """parent: scope of the enclosing row (None at the top). ctes: visible WITH items.

    beyond: inside a nested group of FROM, the row left of the group, which only its LATERAL items
    and functions see; `parent` is then an empty scope at the same level.
    """

    statement: Statement
    parent: Scope | None = None
    ctes: CteMap = None  # type: ignore[assignment]
    beyond: Scope | None = None

    def __post_init__(self) -> None:
        if self.ctes is None:
            object.__setattr__(self, "ctes", {})

    @property
    def level(self) -> int:
        """Number of enclosing rows."""
        return 0 if self.parent is None else self.parent.level + 1

    def inside(self, scope: Scope) -> Env:
        """The surroundings of a subquery in an expression of `scope`'s row."""
        return Env(self.statement, scope, scope.ctes)

    def lateral_scope(self, namespace: Namespace) -> Scope:
        """A scope for a LATERAL item or function that stands behind this row."""
        return Scope(namespace, self.beyond or self.parent, self.ctes)

    def lateral_alone(self) -> Env:
        """The surroundings of a LATERAL item with nothing left of it in its own group."""
        return replace(self, parent=self.beyond or self.parent, beyond=None)

    def nested_behind(self, left: Namespace) -> Env:
        """The surroundings of a nested group of FROM behind `left`, one row boundary further
        down."""
        above = self.beyond or self.parent
        return replace(
            self,
            parent=Scope(Namespace(0), self.parent, self.ctes),
            beyond=Scope(left, above, self.ctes),
        )

    def with_ctes(self, ctes: CteMap) -> Env:
        """The same place with other WITH items in view."""
        return replace(self, ctes=ctes)

    def scope(self, namespace: Namespace) -> Scope:
        """A scope for expressions over this row."""
        return Scope(namespace, self.parent, self.ctes)


@dataclass(frozen=True)
class FromItem:
    """A plan and the names of its row."""

    plan: LogicalPlan
    namespace: Namespace


def position_of(node: object) -> int | None:
    """Offset of the tree node in the statement's text, if the parser noted one."""
    from streamsql.dialect import position_of as of_dialect

    return of_dialect(node) if isinstance(node, exp.Expression) else None


def leftmost(node: exp.Expression) -> int | None:
    """Offset where the text of the node begins, which for `a + b` is before its operator."""
    found = [n.meta["start"] for n in node.walk() if n.meta.get("start") is not None]
    return min(found, default=None)


def named_item(
    plan: LogicalPlan,
    alias: str | None,
    origins: tuple[Origin, ...],
    **relation: object,
) -> FromItem:
    """A FROM item whose columns are the plan's; `alias` None = no qualifier reaches it."""
    columns = tuple(
        NamedColumn(c.name, column(i, c.type, c.name), o)
        for i, (c, o) in enumerate(zip(plan.schema, origins, strict=True))
    )
    relations = []
    if alias is not None:
        relations.append(NamedRelation(alias, columns, **relation))  # type: ignore[arg-type]
    return FromItem(plan, Namespace(len(columns), relations, list(columns)))
