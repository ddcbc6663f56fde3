"""The GROUP BY clause: ordinals, output names, GROUPING SETS, ROLLUP, CUBE."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from sqlglot import exp

from streamsql.core.errors import (
    AmbiguousColumn,
    GroupingError,
    InvalidColumnReference,
    ProgramLimitExceeded,
    SqlSyntaxError,
    WindowingError,
)
from streamsql.core.types import TEXT, Kind
from streamsql.functions.expressions import Expr
from streamsql.plan.binder.env import position_of
from streamsql.plan.binder.expressions import ExprBinder
from streamsql.plan.binder.placeholders import AggregateExpr, GroupingExpr, WindowExpr
from streamsql.plan.binder.regroup import Grouping, has_placeholder
from streamsql.plan.binder.targets import Target

MAX_GROUPING_SETS = 4096

Set = tuple[int, ...]


def bind_group_by(node: exp.Group, binder: ExprBinder, targets: Sequence[Target]) -> Grouping:
    """The keys and sets of GROUP BY. `binder` forbids aggregates and OVER."""
    grouping = Grouping()
    bind = _Items(binder, targets, grouping)
    factors: list[list[Set]] = []
    for item in node.expressions:
        if isinstance(item, exp.GroupingSets | exp.Rollup | exp.Cube):
            factors.append(bind.sets(item))
        else:
            factors.append([bind.keys(item)])
    for kind in ("grouping_sets", "rollup", "cube"):
        found = node.args.get(kind)
        for item in found if isinstance(found, list) else []:
            factors.append(bind.sets(item))
    combined = _cross(factors)
    if node.args.get("distinct"):
        combined = list(dict.fromkeys(combined))
    everything = set(range(len(grouping.keys)))
    if len(combined) == 1 and set(combined[0]) == everything:
        return grouping
    grouping.sets = tuple(combined)
    return grouping


def _cross(factors: list[list[Set]]) -> list[Set]:
    total = 1
    for f in factors:
        total *= len(f)
    if total > MAX_GROUPING_SETS:
        raise ProgramLimitExceeded(f"too many grouping sets present (maximum {MAX_GROUPING_SETS})")
    return [
        tuple(sorted({i for part in parts for i in part})) for parts in itertools.product(*factors)
    ]


class _Items:
    def __init__(self, binder: ExprBinder, targets: Sequence[Target], grouping: Grouping) -> None:
        self.binder = binder
        self.targets = targets
        self.grouping = grouping

    def keys(self, node: exp.Expression) -> Set:
        """The keys of one plain item; (a, b) stands for both."""
        if isinstance(node, exp.Tuple):
            return tuple(k for e in node.expressions for k in self.keys(e))
        if isinstance(node, exp.Paren):
            return self.keys(node.this)
        return (self.grouping.add(self._key(node)),)

    def sets(self, node: exp.Expression) -> list[Set]:
        """The grouping sets that one item stands for."""
        if isinstance(node, exp.GroupingSets):
            return [s for item in node.expressions for s in self.sets(item)]
        if isinstance(node, exp.Rollup):
            items = [self.keys(e) for e in node.expressions]
            return [_join(items[:n]) for n in range(len(items), -1, -1)]
        if isinstance(node, exp.Cube):
            items = [self.keys(e) for e in node.expressions]
            if len(items) > 12:
                raise ProgramLimitExceeded("CUBE is limited to 12 elements")
            return [
                _join(list(chosen))
                for n in range(len(items), -1, -1)
                for chosen in itertools.combinations(items, n)
            ]
        return [self.keys(node)]

    def _key(self, node: exp.Expression) -> Expr:
        position = position_of(node)
        if isinstance(node, exp.Literal):
            target = self._ordinal(node, position)
            return self._checked(target.expr)
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            named = self._named(node, position)
            if named is not None:
                return self._checked(named)
        expr = self.binder.bind(node)
        if expr.type.kind is Kind.UNKNOWN:
            expr = self.binder.coerce(expr, TEXT)
        return expr

    def _ordinal(self, node: exp.Literal, position: int | None) -> Target:
        text = str(node.this)
        if node.is_string or not text.isdigit():
            raise SqlSyntaxError("non-integer constant in GROUP BY", position=position)
        number = int(text)
        if not 1 <= number <= len(self.targets):
            raise InvalidColumnReference(
                f"GROUP BY position {number} is not in select list", position=position
            )
        return self.targets[number - 1]

    def _named(self, node: exp.Column, position: int | None) -> Expr | None:
        """An output name, if no input column has that name."""
        name = node.name
        if self.binder.scope.namespace.bare(name):
            return None
        found: list[Expr] = []
        for t in self.targets:
            if t.name == name and t.expr not in found:
                found.append(t.expr)
        if len(found) > 1:
            raise AmbiguousColumn(f'GROUP BY "{name}" is ambiguous', position=position)
        return found[0] if found else None

    def _checked(self, expr: Expr) -> Expr:
        position = expr.position
        if has_placeholder(expr, (AggregateExpr, GroupingExpr)):
            raise GroupingError(
                "aggregate functions are not allowed in GROUP BY", position=position
            )
        if has_placeholder(expr, WindowExpr):
            raise WindowingError("window functions are not allowed in GROUP BY", position=position)
        return expr


def _join(items: list[Set]) -> Set:
    return tuple(k for item in items for k in item)
