"""NOT IN with SQL's NULL rules, from anti joins that know no NULL rules.

Algebra:  of `a NOT IN (SELECT b FROM r WHERE c)`, where c may compare with the left row, a left row
            stays with a NOT NULL:  if no row of r with c has b = a, and none has b NULL; with a
            NULL:      if there is no row of r with c at all.
          So (σ a NOT NULL (l) ▷[a = b, c] r) ▷[c] (σ b NULL (r))  ∪  σ a NULL (l) ▷[c] r.
          What the schema says can not be NULL needs no part of its own; with neither, NOT IN is the
          plain anti join.
Cost:     that of the anti joins. Without c only whether r (or its NULLs) is empty matters, and that
          is one row; when it turns, every left row turns, as it must.
"""

from __future__ import annotations

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


def lower(node: plan.Join, build: Builder) -> int | None:
    """An anti join of NOT IN: of one column, or of columns that are never NULL."""
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
    equality = members[0]
    if len(members) > 1 or not (isinstance(equality, Call) and equality.function == "eq"):
        return None
    return build.lower(_expanded(node, equality, rest, both))


def _expanded(node: plan.Join, equality: Call, rest: list[Expr], both: Schema) -> plan.LogicalPlan:
    """The anti joins of the docstring."""
    left, right = node.left, node.right
    a, b = equality.args
    width = len(left.schema)
    known = _filter(left, "is_not_null", a) if _nullable(a, both) else left
    found: plan.LogicalPlan = _anti(known, right, [equality, *rest])
    if _nullable(b, both):
        unknown = _filter(right, "is_null", shift_columns(b, -width))
        found = _anti(found, unknown if rest else _any_row(unknown), rest)
    if not _nullable(a, both):
        return found
    none = _anti(_filter(left, "is_null", a), right if rest else _any_row(right), rest)
    return plan.SetOperation(schema=node.schema, left=found, right=none, kind="union", all=True)


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
