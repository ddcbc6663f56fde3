"""NOT IN with SQL's NULL rules, from anti joins that know no NULL rules.

Algebra:  of `a NOT IN (SELECT b FROM r WHERE c)`, where c may compare with the left row, a left row
            stays with a NOT NULL:  if no row of r with c has b = a, and none has b NULL; with a
            NULL:      if there is no row of r with c at all.
          So (σ a NOT NULL (l) ▷[a = b, c] r) ▷[c] (σ b NULL (r))  ∪  σ a NULL (l) ▷[c] r.
          What the schema says can not be NULL needs no part of its own; with neither, NOT IN is the
          plain anti join.
          Of several columns, a member may match (so that the row goes) if each pair of values is
          equal or has a NULL. Left rows are told apart by which of their values are NULL, and of
          those that are not, by which of the member's are: an anti join by the others, for each.
Cost:     that of the anti joins. Without c only whether r (or its NULLs) is empty matters, and that
          is one row; when it turns, every left row turns, as it must.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeVar

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BOOLEAN
from streamsql.functions.expressions import (
    TRUE,
    Call,
    ColumnRef,
    Expr,
    conjunction,
    conjuncts,
)
from streamsql.operators.builder import Builder
from streamsql.plan import nodes as plan
from streamsql.plan.visit import shift_columns

T = TypeVar("T")
NULLABLE_MAX = 3
"""Columns that may be NULL: with n of them there are up to 3 to the n anti joins."""


def lower(node: plan.Join, build: Builder) -> int | None:
    """An anti join of NOT IN: few of its columns may be NULL."""
    if not node.null_aware or node.kind != "anti" or node.lateral or node.condition is None:
        return None
    members: list[Expr] = []
    rest: list[Expr] = []
    for part in conjuncts(node.condition):
        if isinstance(part, Call) and part.function == "is_true":
            rest.append(part.args[0])  # what is not TRUE is no match: an anti join's own rule
        else:
            members.append(part)
    both = Schema((*node.left.schema.columns, *node.right.schema.columns))
    if not any(_nullable(side, both) for m in members for side in m.children()):
        return build.lower(_anti(node.left, node.right, [*members, *rest]))
    pairs = [m.args for m in members if isinstance(m, Call) and m.function == "eq"]
    doubtful = sum(_nullable(a, both) or _nullable(b, both) for a, b in pairs)
    if len(pairs) < len(members) or doubtful > NULLABLE_MAX:
        return None
    return build.lower(_expanded(node, members, rest, both))


def _expanded(
    node: plan.Join, members: list[Expr], rest: list[Expr], both: Schema
) -> plan.LogicalPlan:
    """The anti joins of the docstring."""
    sides = [m.children() for m in members]
    nullable = [i for i, (a, _) in enumerate(sides) if _nullable(a, both)]
    whole: plan.LogicalPlan | None = None
    for unknown in _subsets(nullable):
        left: plan.LogicalPlan = node.left
        for i in nullable:
            left = _filter(left, "is_null" if i in unknown else "is_not_null", sides[i][0])
        part = _kept(node, left, [m for i, m in enumerate(members) if i not in unknown], rest, both)
        whole = part if whole is None else plan.SetOperation(
            schema=node.schema, left=whole, right=part, kind="union", all=True
        )  # fmt: skip
    assert whole is not None
    return whole


def _kept(
    node: plan.Join, left: plan.LogicalPlan, members: list[Expr], rest: list[Expr], both: Schema
) -> plan.LogicalPlan:
    """Left rows, whose values in `members` are known, that no row of the right may equal."""
    width = len(node.left.schema)
    nullable = [m for m in members if _nullable(m.children()[1], both)]
    found = left
    for unknown in _subsets(nullable):
        right: plan.LogicalPlan = node.right
        for m in unknown:
            right = _filter(right, "is_null", shift_columns(m.children()[1], -width))
        on = [*(m for m in members if m not in unknown), *rest]
        found = _anti(found, right if on else _any_row(right), on)
    return found


def _subsets(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """All of them, the empty one first."""
    for size in range(len(items) + 1):
        yield from itertools.combinations(items, size)


def _nullable(expr: Expr, schema: Schema) -> bool:
    return not (isinstance(expr, ColumnRef) and not schema[expr.index].nullable)


def _anti(left: plan.LogicalPlan, right: plan.LogicalPlan, on: list[Expr]) -> plan.Join:
    condition = conjunction(on) if on else None
    return plan.Join(
        schema=left.schema, left=left, right=right, kind="anti", condition=condition
    )  # fmt: skip


def _filter(source: plan.LogicalPlan, test: str, of: Expr) -> plan.Filter:
    predicate = Call(function=test, args=(of,), type=BOOLEAN)
    return plan.Filter(schema=source.schema, input=source, predicate=predicate)


def _any_row(source: plan.LogicalPlan) -> plan.LogicalPlan:
    """One row if the source has any."""
    schema = Schema((Column("found", BOOLEAN),))
    constant = plan.Project(schema=schema, input=source, exprs=(TRUE,))
    return plan.Distinct(schema=schema, input=constant)
