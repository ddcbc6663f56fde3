"""Inner joins of many inputs in an order in which each is connected to those before it.

No cross product is made where equalities connect the inputs. Among connected orders the one that
stores least goes by keys and filters (`join_cost`); otherwise the order of FROM is kept. The result
is left-deep, with each condition at the first join that has all its columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from streamsql.core.schema import Schema
from streamsql.core.types import BOOLEAN
from streamsql.functions.expressions import Call, Expr, column, conjuncts
from streamsql.plan.binder.joins import join_schema
from streamsql.plan.nodes import Filter, Join, LogicalPlan, Project
from streamsql.plan.optimizer.implied import classes, equal_columns
from streamsql.plan.optimizer.join_cost import Costs, Input
from streamsql.plan.optimizer.predicates import (
    can_move,
    condition_of,
    filtered,
    holds_subquery,
    is_volatile,
    parts_of,
    reads_clock,
)
from streamsql.plan.visit import remap_columns, row_columns, shift_columns, transform_plan


def order_joins(plan: LogicalPlan) -> LogicalPlan:
    """Rebuild every maximal tree of inner and cross joins."""
    return transform_plan(_ordered(plan), _absorb)


def _absorb(plan: LogicalPlan) -> LogicalPlan:
    """What is left of WHERE directly above an inner join is its last condition: there it is tested
    for the same pairs of rows, and an interval join can see its bounds."""
    if not (isinstance(plan, Filter) and isinstance(plan.input, Join)):
        return plan
    join, parts = plan.input, conjuncts(plan.predicate)
    if join.kind not in ("inner", "cross") or join.lateral:
        return plan
    if any(is_volatile(p) or holds_subquery(p) or not row_columns(p) for p in parts):
        return plan
    # what turns by the clock alone stays a filter: a join has no timers
    timed = [p for p in parts if reads_clock(p)]
    parts = [p for p in parts if p not in timed]
    if not parts:
        return plan
    condition = condition_of([*parts_of(join.condition), *parts])
    return filtered(replace(join, kind="inner", condition=condition), timed)


def _ordered(plan: LogicalPlan) -> LogicalPlan:
    if isinstance(plan, Filter) and _is_inner(plan.input):
        # equalities that link inputs order them, even if computing a side may fail: a cross product
        # instead would be worse than an error for a row that could not have matched
        parts = conjuncts(plan.predicate)
        links = [p for p in parts if _is_link(p)]
        rest = [p for p in parts if p not in links]
        return filtered(_rebuilt(plan.input, links), rest)
    if _is_inner(plan):
        return _rebuilt(plan, [])
    inputs = plan.inputs()
    if not inputs:
        return plan
    return plan.with_inputs(tuple(_ordered(i) for i in inputs))


def _rebuilt(plan: LogicalPlan, more: list[Expr]) -> LogicalPlan:
    """The tree of inner joins in its new order, with `more` conditions over its row."""
    leaves: list[Input] = []
    conditions: list[Expr] = []
    _flatten(plan, 0, leaves, conditions)
    leaves = [Input(_ordered(leaf.plan), leaf.first) for leaf in leaves]
    return _Builder(leaves, [*conditions, *more]).build(plan.schema)


def _is_link(predicate: Expr) -> bool:
    """An equality of two sides that both read columns, but none in common."""
    if not (isinstance(predicate, Call) and predicate.function == "eq"):
        return False
    if is_volatile(predicate) or holds_subquery(predicate):
        return False
    a, b = (row_columns(side) for side in predicate.args)
    return bool(a) and bool(b) and not a & b


def _is_inner(plan: LogicalPlan) -> bool:
    return (
        isinstance(plan, Join)
        and plan.kind in ("inner", "cross")
        and not plan.lateral
        and all(can_move(p) for p in parts_of(plan.condition))
    )


def _flatten(plan: LogicalPlan, first: int, leaves: list[Input], conditions: list[Expr]) -> None:
    if not _is_inner(plan):
        leaves.append(Input(plan, first))
        return
    assert isinstance(plan, Join)
    _flatten(plan.left, first, leaves, conditions)
    _flatten(plan.right, first + len(plan.left.schema), leaves, conditions)
    conditions += [shift_columns(p, first) for p in parts_of(plan.condition)]


@dataclass
class _Part:
    """Some leaves joined. where: column of the whole tree's row → column of `plan`."""

    plan: LogicalPlan
    where: dict[int, int]


class _Builder:
    """Joins the leaves: first those that equalities connect, then the groups with one another."""

    def __init__(self, leaves: list[Input], conditions: list[Expr]) -> None:
        self.leaves = leaves
        self.waiting = conditions
        self.same = classes(equal_columns(conditions))
        self.known: list[tuple[int, int]] = []
        self.columns = {
            i: column(i, c.type, c.name)
            for leaf in leaves
            for i, c in zip(leaf.columns, leaf.plan.schema, strict=True)
        }
        self.costs = Costs(leaves, conditions)

    def build(self, schema: Schema) -> LogicalPlan:
        """The joined plan, its columns in the order of the tree's row."""
        left = list(range(len(self.leaves)))
        parts = []
        while left:
            order = self.costs.best(self._connected(left))
            left = [n for n in left if n not in order]
            part = self._leaf(order[0])
            for n in order[1:]:
                part = self._join(part, self._leaf(n))
            parts.append(part)
        whole = parts[0]
        for part in parts[1:]:
            whole = self._join(whole, part)
        assert not self.waiting
        if all(old == new for old, new in whole.where.items()):
            return whole.plan
        exprs = tuple(column(whole.where[i], c.type, c.name) for i, c in enumerate(schema))
        return Project(schema=schema, input=whole.plan, exprs=exprs)

    def _connected(self, left: list[int]) -> list[int]:
        """The first leaf and all that equalities connect to it, each next to those before it."""
        order = [left[0]]
        while True:
            joined = frozenset(order)
            found = [n for n in left if n not in joined and self.costs.is_linked(n, joined)]
            if not found:
                return order
            order.append(found[0])

    def _leaf(self, n: int) -> _Part:
        leaf = self.leaves[n]
        return _Part(leaf.plan, {i: i - leaf.first for i in leaf.columns})

    def _join(self, left: _Part, right: _Part) -> _Part:
        width = len(left.plan.schema)
        where = {**left.where, **{i: p + width for i, p in right.where.items()}}
        ready = [c for c in self.waiting if row_columns(c) <= where.keys()]
        self.waiting = [c for c in self.waiting if c not in ready]
        ready = [*self._through(left, right, ready), *self._news(ready)]
        condition = condition_of([remap_columns(c, where) for c in ready])
        kind = "cross" if condition is None else "inner"
        joined = Join(
            schema=join_schema(left.plan.schema, right.plan.schema, kind),
            left=left.plan,
            right=right.plan,
            kind=kind,
            condition=condition,
        )
        return _Part(joined, where)

    def _through(self, left: _Part, right: _Part, ready: list[Expr]) -> list[Expr]:
        """a = c where a = b and b = c are conditions of the tree, but b has yet to be joined."""
        if any(row_columns(c) & left.where.keys() and row_columns(c) & right.where.keys()
               for c in equalities(ready)):  # fmt: skip
            return []
        found: list[Expr] = []
        for same in {id(s): s for s in self.same.values()}.values():
            a = min(same & left.where.keys(), default=None)
            b = min(same & right.where.keys(), default=None)
            if a is not None and b is not None:
                args = (self.columns[a], self.columns[b])
                found.append(Call(function="eq", args=args, type=BOOLEAN))
                self.known.append((a, b))
        return found

    def _news(self, ready: list[Expr]) -> list[Expr]:
        """The conditions without equalities that follow from those of the joins below."""
        kept = []
        for condition in ready:
            for a, b in equal_columns([condition]):
                if b in classes(self.known).get(a, ()):
                    break
                self.known.append((a, b))
            else:
                kept.append(condition)
        return kept


def equalities(parts: Iterable[Expr]) -> list[Expr]:
    """Those of the parts that an index can answer."""
    functions = ("eq", "is_not_distinct_from")
    return [p for p in parts if isinstance(p, Call) and p.function in functions]
