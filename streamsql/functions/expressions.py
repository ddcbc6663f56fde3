"""The bound expression tree: names resolved, types known, PostgreSQL's meaning explicit.

Both evaluators (Arrow kernels and DuckDB SQL) lower from these nodes and from nothing else. All
nodes are frozen and hashable, so equal sub-expressions compare equal and plans can be shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from streamsql.core.types import BIGINT, BOOLEAN, SqlType

if TYPE_CHECKING:
    from streamsql.plan.nodes import LogicalPlan  # noqa: F401  (types only: plan is above)


@dataclass(frozen=True, kw_only=True)
class Expr:
    """Base. `position` is the 0-based offset in the statement text, for error messages."""

    type: SqlType
    position: int | None = field(default=None, compare=False)

    def children(self) -> tuple[Expr, ...]:
        """Sub-expressions (not those inside a subquery's plan)."""
        return ()

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        """The same node over other sub-expressions, in the order of `children()`."""
        assert not children
        return self


@dataclass(frozen=True, kw_only=True)
class ColumnRef(Expr):
    """Column `index` of the node's input (for a Join: left's columns, then right's)."""

    index: int
    name: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class OuterRef(Expr):
    """Column `index` of the input of an enclosing query, `depth` levels up (1 = the next one)."""

    index: int
    depth: int
    name: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class Literal(Expr):
    """A constant. `value` is the Python value Arrow would give for it (`None` = NULL): int,
    float, Decimal, str, bytes, bool, datetime.date/time/datetime, tuple for arrays; INTERVAL as the
    tuple (months, days, µs).
    Exception: kind UNKNOWN holds the raw text of an untyped string literal."""

    value: Any


@dataclass(frozen=True, kw_only=True)
class Parameter(Expr):
    """$index (1-based). Replaced by a Literal before evaluation."""

    index: int


@dataclass(frozen=True, kw_only=True)
class Call(Expr):
    """A resolved scalar function or operator. `function` is the registry's name: "add", "eq",
    "and", "not", "is_null", "in", "like", "lower", … Arguments are already coerced to the
    overload's types."""

    function: str
    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return replace(self, args=children)


@dataclass(frozen=True, kw_only=True)
class Cast(Expr):
    """CAST(arg AS type) with PostgreSQL's text forms, rounding and range errors. try_: NULL on
    error."""

    arg: Expr
    try_: bool = False

    def children(self) -> tuple[Expr, ...]:
        return (self.arg,)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return replace(self, arg=children[0])


@dataclass(frozen=True, kw_only=True)
class Case(Expr):
    """Searched CASE (the simple form is bound to it). `whens`: (condition, result) pairs."""

    whens: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None

    def children(self) -> tuple[Expr, ...]:
        flat = tuple(e for pair in self.whens for e in pair)
        return flat if self.otherwise is None else (*flat, self.otherwise)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        n = 2 * len(self.whens)
        pairs = tuple((children[i], children[i + 1]) for i in range(0, n, 2))
        return replace(self, whens=pairs, otherwise=children[n] if len(children) > n else None)


@dataclass(frozen=True, kw_only=True)
class Subquery(Expr):
    """A subquery used as an expression.

    kind: "scalar" (one column; NULL without rows; 21000 with two), "exists", "in" (operand IN
    plan), "any" / "all" (operand <operator> ANY/ALL (plan)), "array" (ARRAY(plan)).
    Outer columns appear in `plan` as OuterRef(depth >= 1).
    """

    kind: str
    plan: Any  # LogicalPlan
    operands: tuple[Expr, ...] = ()
    operator: str = "eq"
    negated: bool = False

    def children(self) -> tuple[Expr, ...]:
        return self.operands

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return replace(self, operands=children)


@dataclass(frozen=True, kw_only=True)
class SortKey:
    """One ORDER BY item; nulls_first is always explicit (PostgreSQL's default filled in)."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, kw_only=True)
class AggregateCall:
    """One aggregate of an Aggregate node. `function` is the registry's name ("count", "sum", …;
    count(*) is "count_star" without arguments). After binding, `args`, `filter` and the keys of
    `order_by` are ColumnRefs or Literals of the node's input: everything else was projected
    below."""

    function: str
    args: tuple[Expr, ...]
    type: SqlType
    distinct: bool = False
    filter: Expr | None = None
    order_by: tuple[SortKey, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FrameBound:
    """kind: unbounded_preceding, preceding, current_row, following, unbounded_following."""

    kind: str
    offset: Expr | None = None


@dataclass(frozen=True, kw_only=True)
class Frame:
    """mode: rows, range, groups. exclude: no_others, current_row, group, ties."""

    mode: str = "range"
    start: FrameBound = FrameBound(kind="unbounded_preceding")
    end: FrameBound = FrameBound(kind="current_row")
    exclude: str = "no_others"


@dataclass(frozen=True, kw_only=True)
class WindowCall:
    """One OVER call of a Window node; an aggregate or a window function ("row_number", "lag", …).
    `args`, `partition_by`, keys of `order_by` and `filter` are ColumnRefs or Literals of the
    input. `ties` orders rows that are equal in `order_by`, and makes no peers of them (columns, or
    casts of them to text; the optimizer's rule `ties` fills it in)."""

    function: str
    args: tuple[Expr, ...]
    type: SqlType
    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[SortKey, ...] = ()
    frame: Frame | None = None
    distinct: bool = False
    filter: Expr | None = None
    ignore_nulls: bool = False
    ties: tuple[SortKey, ...] = ()


def column(index: int, type_: SqlType, name: str = "") -> ColumnRef:
    """Shorthand for a ColumnRef."""
    return ColumnRef(index=index, type=type_, name=name)


def literal(value: Any, type_: SqlType) -> Literal:
    """Shorthand for a Literal."""
    return Literal(value=value, type=type_)


TRUE = Literal(value=True, type=BOOLEAN)
ZERO = Literal(value=0, type=BIGINT)


def walk(expr: Expr) -> Iterator[Expr]:
    """The node and all below it, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children()))


def transform(expr: Expr, fn: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up: `fn` sees each node after its children were rebuilt."""
    children = expr.children()
    if children:
        rebuilt = tuple(transform(c, fn) for c in children)
        if any(a is not b for a, b in zip(children, rebuilt, strict=True)):
            expr = expr.with_children(rebuilt)
    return fn(expr)


def columns_used(expr: Expr) -> set[int]:
    """Indices of the input columns that the expression reads (a Subquery's own plan not
    included)."""
    return {e.index for e in walk(expr) if isinstance(e, ColumnRef)}


def conjuncts(predicate: Expr) -> list[Expr]:
    """The AND-ed parts of a predicate."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return [c for arg in predicate.args for c in conjuncts(arg)]
    return [predicate]


def conjunction(parts: Sequence[Expr]) -> Expr:
    """AND of the parts; TRUE for none."""
    if not parts:
        return TRUE
    if len(parts) == 1:
        return parts[0]
    return Call(function="and", args=tuple(parts), type=BOOLEAN)
