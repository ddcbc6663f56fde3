"""Which order of an inner join's inputs keeps what is stored between the joins small.

Views are made before their data, and a plan must be the same after a restart: nothing is known of
sizes. What is known: a join with a whole unique key finds at most one row (the other side is the
larger one: orders than customers, lines than orders), and filters make an input smaller. From that
each input gets a notional size, ten times that of the largest input it refers to by key; the order
whose intermediate results add up to the least is taken, if it beats the order of FROM clearly.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from math import inf

from streamsql.functions.expressions import Call, ColumnRef, Expr, Literal, conjuncts
from streamsql.plan.nodes import (
    Aggregate,
    Distinct,
    DistinctOn,
    Filter,
    Join,
    LogicalPlan,
    Project,
    Sort,
    TimeWindow,
    Window,
)
from streamsql.plan.optimizer.implied import classes, equal_columns
from streamsql.plan.properties import unique_keys
from streamsql.plan.visit import row_columns

STEP = 10.0
"""How many rows refer to one by key, where nothing else is known."""
EXHAUSTIVE_MAX = 8
"""Inputs of which all orders are compared; of more, greedy ones."""
WORTH = 0.8
"""Another order must cost less than this part of the written one."""
_SHARES = {
    "eq": 0.1, "in": 0.2, "like": 0.2, "ilike": 0.2, "is_null": 0.2, "lt": 0.4, "le": 0.4,
    "gt": 0.4, "ge": 0.4, "or": 0.3, "is_not_null": 1.0, "ne": 1.0, "not": 1.0,
}  # fmt: skip
"""The part of the rows that a predicate leaves, by its function."""


@dataclass(frozen=True)
class Input:
    """An input of the joins. first: its first column in the row of the whole tree."""

    plan: LogicalPlan
    first: int

    @property
    def columns(self) -> range:
        """Its columns in the tree's row."""
        return range(self.first, self.first + len(self.plan.schema))

    @cached_property
    def keys(self) -> tuple[frozenset[int], ...]:
        """Unique keys, as columns of the tree's row."""
        return tuple(frozenset(c + self.first for c in key) for key in unique_keys(self.plan))


@dataclass(frozen=True)
class Joined:
    """Some inputs joined. single: those of which each row is in at most one row of the result."""

    rows: float
    single: frozenset[int]
    inputs: frozenset[int]


class Costs:
    """Notional sizes of some inputs and of what they join to."""

    def __init__(self, inputs: Sequence[Input], conditions: Sequence[Expr]) -> None:
        self.inputs = inputs
        self.owner = {c: n for n, i in enumerate(inputs) for c in i.columns}
        self.classes = classes(equal_columns(conditions))
        tied = [
            row_columns(p)
            for p in conditions
            if isinstance(p, Call) and p.function in ("eq", "is_not_distinct_from")
        ]
        tied += [{a, b} for a, same in self.classes.items() for b in same]
        linked = dict.fromkeys(frozenset(self.owner[c] for c in columns) for columns in tied)
        self.linked = [owners for owners in linked if len(owners) > 1]
        self.sought = [self._key_owners(i) for i in inputs]
        self.base = self._bases()
        self.rows = [base * _share(i.plan) for base, i in zip(self.base, inputs, strict=True)]

    def _bases(self) -> list[float]:
        """Notional sizes without filters."""
        n = len(self.inputs)
        refers = {
            (a, b)
            for a in range(n)
            for b in range(n)
            if a != b and self._finds_one(b, {a}) and not self._finds_one(a, {b})
        }
        depth = [0] * n
        for _ in range(n):  # the longest path; at most n steps where keys refer in a circle
            for a, b in refers:
                depth[a] = min(n, max(depth[a], depth[b] + 1))
        return [STEP ** (1 + d) for d in depth]

    def _key_owners(self, one: Input) -> list[list[set[int]]]:
        """For each unique key of an input, for each column: inputs with a column equal to it."""
        return [
            [{self.owner[o] for o in self.classes.get(c, ()) if o not in one.columns} for c in key]
            for key in one.keys
        ]

    def _finds_one(self, n: int, others: Set[int]) -> bool:
        """Do the columns that equal others' hold a unique key of the input?"""
        return any(all(owners & others for owners in key) for key in self.sought[n])

    def begin(self, n: int) -> Joined:
        """One input alone."""
        return Joined(self.rows[n], frozenset({n}), frozenset({n}))

    def joined(self, left: Joined, n: int) -> Joined:
        """What is joined so far, joined with input n."""
        inputs = left.inputs | {n}
        if self._finds_one(n, left.inputs):
            return Joined(left.rows * self.rows[n] / self.base[n], left.single, inputs)
        one = [self.base[m] for m in left.single if self._finds_one(m, {n})]
        if one:
            return Joined(left.rows * self.rows[n] / max(one), frozenset({n}), inputs)
        # many to many: each value of theirs may stand anywhere on both sides
        return Joined(left.rows * self.rows[n], frozenset(), inputs)

    def best(self, order: Sequence[int]) -> list[int]:
        """The inputs of a connected order, in the order that stores least."""
        if len(order) < 3:
            return list(order)
        if len(order) <= EXHAUSTIVE_MAX:
            found = self._searched(order)
        else:
            found = min((self._from(start, order) for start in order), key=lambda f: f[0])
        return found[1] if found[0] < WORTH * self._cost(order) else list(order)

    def _searched(self, inputs: Sequence[int]) -> tuple[float, list[int]]:
        """(cost, order) of the best order there is: of each set of inputs, the best one to it."""
        best = {frozenset({n}): (0.0, [n], self.begin(n)) for n in inputs}
        for _ in inputs[1:]:
            longer: dict[frozenset[int], tuple[float, list[int], Joined]] = {}
            for before, (cost, order, so_far) in best.items():
                for n in inputs:
                    if n in before or not self.is_linked(n, before):
                        continue
                    joined = self.joined(so_far, n)
                    total = cost + joined.rows
                    known = longer.get(before | {n})
                    if known is None or total < known[0]:
                        longer[before | {n}] = (total, [*order, n], joined)
            best = longer
        return min(((cost, order) for cost, order, _ in best.values()), default=(inf, []))

    def _cost(self, order: Sequence[int]) -> float:
        """The sum of the intermediate results of joining in this order."""
        so_far, total = self.begin(order[0]), 0.0
        for n in order[1:]:
            so_far = self.joined(so_far, n)
            total += so_far.rows
        return total

    def _from(self, start: int, inputs: Sequence[int]) -> tuple[float, list[int]]:
        """(cost, order): always next what gives the smallest result among what is connected."""
        order, so_far, total = [start], self.begin(start), 0.0
        while len(order) < len(inputs):
            near = [n for n in inputs if n not in order and self.is_linked(n, so_far.inputs)]
            if not near:
                return inf, order
            steps = [self.joined(so_far, n) for n in near]
            chosen = min(range(len(near)), key=lambda i: steps[i].rows)
            so_far = steps[chosen]
            order.append(near[chosen])
            total += so_far.rows
        return total, order

    def is_linked(self, n: int, before: frozenset[int]) -> bool:
        """Does an equality connect the input with those before it?"""
        return any(n in k and k <= before | {n} for k in self.linked)


def _share(plan: LogicalPlan) -> float:
    """The part of an input's rows that its filters leave."""
    share = 1.0
    while True:
        if isinstance(plan, Filter):
            for part in conjuncts(plan.predicate):
                share *= _part(part, plan.input)
        if isinstance(plan, Join) and plan.kind in ("semi", "anti"):
            share *= 0.5
            plan = plan.left
        elif isinstance(plan, _THROUGH):
            plan = plan.input
        else:
            return max(share, 0.001)


_THROUGH = (Filter, Project, Sort, Distinct, DistinctOn, Window, TimeWindow, Aggregate)


def _part(part: Expr, source: LogicalPlan) -> float:
    if not isinstance(part, Call):
        return 0.5
    if part.function == "eq":
        fixed = {
            a.index
            for a, b in (part.args, part.args[::-1])
            if isinstance(a, ColumnRef) and isinstance(b, Literal)
        }
        if any(set(key) <= fixed for key in unique_keys(source)):
            return 0.001
    return _SHARES.get(part.function, 0.5)
