"""GROUP BY: from a SELECT's expressions over the FROM row to an Aggregate node and the row it
makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streamsql.core.errors import FeatureNotSupported, GroupingError
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BOOLEAN, INTEGER
from streamsql.functions.expressions import (
    AggregateCall,
    Case,
    ColumnRef,
    Expr,
    Literal,
    OuterRef,
    Subquery,
    column,
    walk,
)
from streamsql.functions.resolve import can_fail
from streamsql.plan.binder.placeholders import AggregateExpr, GroupingExpr, OuterAggregate
from streamsql.plan.binder.scope import Namespace
from streamsql.plan.names import call_name
from streamsql.plan.nodes import Aggregate, LogicalPlan, Project
from streamsql.plan.visit import (
    expression_outer_refs,
    map_aggregate,
    map_outer_plan,
    push_down_levels,
    replace_columns,
    row_columns,
)

CALL_BASE = 1 << 20
"""Provisional column numbers of aggregate calls, while the number of keys may still grow."""
GROUPING_BASE = 1 << 21
"""The same for GROUPING calls."""


@dataclass
class Grouping:
    """The bound GROUP BY: distinct keys, and the grouping sets as positions into them."""

    keys: list[Expr] = field(default_factory=list)
    sets: tuple[tuple[int, ...], ...] | None = None

    def add(self, expr: Expr) -> int:
        """Position of the key, added if new."""
        if expr in self.keys:
            return self.keys.index(expr)
        self.keys.append(expr)
        return len(self.keys) - 1


class Regroup:
    """Rewrites a SELECT's expressions from its FROM row to the row that an Aggregate makes.

    Collects the aggregate and GROUPING calls on the way; `plan()` builds the node afterwards.
    """

    def __init__(self, grouping: Grouping, namespace: Namespace) -> None:
        self.grouping = grouping
        self.namespace = namespace
        self.calls: list[AggregateCall] = []
        self.grouping_calls: list[tuple[int, ...]] = []
        self._keys = {e: i for i, e in enumerate(grouping.keys)}
        self._dependent: dict[int, Expr] = {}
        if grouping.sets is None:
            self._find_dependent_columns()

    def _find_dependent_columns(self) -> None:
        """Columns of a relation whose primary key is grouped by may stand free, as in
        PostgreSQL."""
        for relation in self.namespace.relations:
            if relation.info is None or not relation.info.unique_keys:
                continue
            refs = [c.expr for c in relation.columns]
            if relation.info.kind != "table":
                continue
            if all(refs[i] in self._keys for i in relation.info.unique_keys[0]):
                for e in refs:
                    if isinstance(e, ColumnRef):
                        self._dependent[e.index] = e

    # rewriting ------------------------------------------------------------------------------------
    def rewrite(self, expr: Expr) -> Expr:
        """The expression over [keys, aggregates, grouping calls].

        Raises: GroupingError (42803) for a column that is neither grouped nor aggregated.
        """
        key = self._keys.get(expr) if not isinstance(expr, Literal) else None
        if key is not None:
            return self._key(key, expr)
        if isinstance(expr, AggregateExpr):
            self._check_direct(expr)
            return self._call(expr.call, expr.position)
        if isinstance(expr, GroupingExpr):
            return self._grouping_call(expr)
        if isinstance(expr, ColumnRef):
            return self._column(expr.index, expr.name, expr.position, outer=False)
        children = expr.children()
        if children:
            mapped = tuple(self.rewrite(c) for c in children)
            expr = expr.with_children(mapped)
        if isinstance(expr, Subquery):
            expr = replace(expr, plan=map_outer_plan(expr.plan, self._outer, 1))
        return expr

    def _check_direct(self, expr: AggregateExpr) -> None:
        """Direct arguments: one value for each group, which every row of it holds."""
        for argument in expr.direct:
            try:
                self.rewrite(argument)
            except GroupingError as error:
                raise GroupingError(
                    error.message,
                    position=error.position,
                    detail="Direct arguments of an ordered-set aggregate must use only grouped "
                    "columns.",
                ) from None
            if self.grouping.sets is not None and row_columns(argument):
                raise FeatureNotSupported(
                    "direct arguments that are columns are not supported with GROUPING SETS",
                    position=argument.position,
                    hint="Write a query for each grouping set, and UNION ALL.",
                )

    def _key(self, index: int, expr: Expr) -> Expr:
        name = expr.name if isinstance(expr, ColumnRef) else ""
        return ColumnRef(index=index, type=expr.type, name=name, position=expr.position)

    def _outer(self, ref: OuterRef, level: int) -> Expr:
        if ref.depth != level:
            return ref
        if isinstance(ref, OuterAggregate):
            return push_down_levels(self._call(ref.call, ref.position), level)
        return push_down_levels(self._column(ref.index, ref.name, ref.position, outer=True), level)

    def _column(self, index: int, name: str, position: int | None, *, outer: bool) -> Expr:
        for i, key in enumerate(self.grouping.keys):
            if isinstance(key, ColumnRef) and key.index == index:
                return self._key(i, key)
        dependent = self._dependent.get(index)
        if dependent is not None:
            self._keys[dependent] = self.grouping.add(dependent)
            return self._key(self._keys[dependent], dependent)
        label = self._label(index, name)
        if outer:
            raise GroupingError(
                f'subquery uses ungrouped column "{label}" from outer query', position=position
            )
        raise GroupingError(
            f'column "{label}" must appear in the GROUP BY clause or be used in an aggregate '
            "function",
            position=position,
            hint=f"Add {label} to GROUP BY, or write for example min({label}).",
        )

    def _label(self, index: int, name: str) -> str:
        for relation in self.namespace.relations:
            for c in relation.columns:
                if isinstance(c.expr, ColumnRef) and c.expr.index == index:
                    return f"{relation.alias}.{c.name}"
        return name

    def _call(self, call: AggregateCall, position: int | None) -> Expr:
        if call not in self.calls:
            self.calls.append(call)
        index = CALL_BASE + self.calls.index(call)
        return ColumnRef(
            index=index, type=call.type, name=call_name(call.function), position=position
        )

    def _grouping_call(self, expr: GroupingExpr) -> Expr:
        positions = []
        for arg in expr.args:
            key = self._keys.get(arg)
            if key is None:
                raise GroupingError(
                    "arguments to GROUPING must be grouping expressions of the associated query "
                    "level",
                    position=arg.position if arg.position is not None else expr.position,
                )
            positions.append(key)
        call = tuple(positions)
        if call not in self.grouping_calls:
            self.grouping_calls.append(call)
        index = GROUPING_BASE + self.grouping_calls.index(call)
        return ColumnRef(index=index, type=INTEGER, name="grouping", position=expr.position)

    def finish(self, expr: Expr) -> Expr:
        """A rewritten expression with its provisional column numbers made final."""

        def move(ref: ColumnRef | OuterRef) -> Expr:
            return ColumnRef(
                index=self._final(ref.index), type=ref.type, name=ref.name, position=ref.position
            )

        return replace_columns(expr, move)

    def _final(self, index: int) -> int:
        keys = len(self.grouping.keys)
        if index >= GROUPING_BASE:
            return keys + len(self.calls) + index - GROUPING_BASE
        return keys + index - CALL_BASE if index >= CALL_BASE else index

    # building -------------------------------------------------------------------------------------
    def plan(self, source: LogicalPlan) -> Aggregate:
        """The Aggregate over `source`, with a Project below where keys or arguments need one."""
        keys = self.grouping.keys
        calls = [_guard(c) for c in self.calls]
        source, positions, calls = project_inputs(source, keys, calls)
        columns = [Column(k.name if isinstance(k, ColumnRef) else "", k.type) for k in keys]
        columns += [Column(call_name(c.function), c.type) for c in calls]
        columns += [Column("grouping", INTEGER, False) for _ in self.grouping_calls]
        return Aggregate(
            schema=Schema(tuple(columns)),
            input=source,
            keys=tuple(positions),
            aggregates=tuple(calls),
            grouping_sets=self.grouping.sets,
            grouping_calls=tuple(self.grouping_calls),
        )


def _guard(call: AggregateCall) -> AggregateCall:
    """FILTER decides before the arguments are computed: `sum(1/x) FILTER (WHERE x <> 0)` must not
    fail, although the argument is projected for every row."""
    condition = call.filter
    if condition is None:
        return call

    def guard(e: Expr) -> Expr:
        if isinstance(e, ColumnRef | Literal) or not can_fail(e):
            return e
        return Case(whens=((condition, e),), otherwise=None, type=e.type)

    guarded = map_aggregate(replace(call, filter=None), guard)
    return replace(guarded, filter=condition)


def _is_simple(expr: Expr) -> bool:
    return isinstance(expr, ColumnRef | Literal)


def project_inputs(
    source: LogicalPlan, keys: Sequence[Expr], calls: Sequence[AggregateCall]
) -> tuple[LogicalPlan, list[int], list[AggregateCall]]:
    """(input, key positions, calls over it): a Project only if something is more than a column."""
    used: list[Expr] = list(keys)
    for call in calls:
        used += [*call.args, *(k.expr for k in call.order_by)]
        used += [] if call.filter is None else [call.filter]
    if all(isinstance(k, ColumnRef) for k in keys) and all(_is_simple(e) for e in used):
        return source, [k.index for k in keys if isinstance(k, ColumnRef)], list(calls)
    exprs: list[Expr] = []

    def place(e: Expr) -> Expr:
        if isinstance(e, Literal):
            return e
        if e not in exprs:
            exprs.append(e)
        name = e.name if isinstance(e, ColumnRef) else ""
        return column(exprs.index(e), e.type, name)

    positions = []
    for k in keys:
        if k not in exprs:
            exprs.append(k)
        positions.append(exprs.index(k))
    calls = [map_aggregate(c, place) for c in calls]
    if not exprs:
        exprs.append(Literal(value=True, type=BOOLEAN))
    return make_project(source, exprs), positions, list(calls)


def make_project(source: LogicalPlan, exprs: Sequence[Expr]) -> Project:
    """A Project whose columns are named after plain columns."""
    columns = tuple(
        Column(e.name if isinstance(e, ColumnRef) else "", e.type, _nullable(e, source))
        for e in exprs
    )
    return Project(schema=Schema(columns), input=source, exprs=tuple(exprs))


def _nullable(expr: Expr, source: LogicalPlan) -> bool:
    if isinstance(expr, ColumnRef):
        return source.schema[expr.index].nullable
    return not (isinstance(expr, Literal) and expr.value is not None)


def has_aggregates(exprs: Sequence[Expr]) -> bool:
    """Does any expression hold an aggregate or GROUPING call of its own query?"""
    return any(_has_own(e) for e in exprs)


def _has_own(expr: Expr) -> bool:
    for e in walk(expr):
        if isinstance(e, AggregateExpr | GroupingExpr):
            return True
        if isinstance(e, Subquery) and any(
            isinstance(r, OuterAggregate) and depth == 0 for r, depth in expression_outer_refs(e)
        ):
            return True
    return False


def has_placeholder(expr: Expr, kind: type[Expr] | tuple[type[Expr], ...]) -> bool:
    """Does the expression hold a placeholder of this class?"""
    return any(isinstance(e, kind) for e in walk(expr))
