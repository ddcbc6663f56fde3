"""LEFT, RIGHT and FULL joins: the matching pairs, and the rows that match nothing beside NULLs."""

from __future__ import annotations

from dataclasses import replace

from streamsql.functions.expressions import ColumnRef, Expr, conjuncts, literal
from streamsql.operators.builder import Builder
from streamsql.operators.join import lower_inner
from streamsql.operators.join_condition import split
from streamsql.operators.map import is_plain
from streamsql.operators.union import add_union
from streamsql.operators.windows_apart import apart_ends, apart_of
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import remap_columns


def lower(node: plan.Join, build: Builder) -> int | None:
    """An outer join as a sum:  A LEFT JOIN B = A JOIN B + (A ANTI JOIN B) x NULLs.

    Each part is maintained by its own operator over the same arrangements; a row that loses its
    last match moves from one to the other within a tick. Source: Larson and Zhou, ICDE 2007.
    """
    if node.kind not in ("left", "right", "full") or node.lateral:
        return None
    if node.condition is not None and not all(is_plain(c) for c in conjuncts(node.condition)):
        return None
    inner = lower_inner(
        replace(node, kind="inner", schema=node.left.schema + node.right.schema), build
    )
    if inner is None:
        return None
    parts = [inner]
    n, m = len(node.left.schema), len(node.right.schema)
    if node.kind in ("left", "full"):
        alone = plan.Join(
            schema=node.left.schema, left=node.left, right=node.right, kind="anti",
            condition=node.condition,
        )  # fmt: skip
        exprs = [*_columns(alone), *(literal(None, c.type) for c in node.right.schema)]
        parts.append(build.lower(plan.Project(schema=node.schema, input=alone, exprs=tuple(exprs))))
    if node.kind in ("right", "full"):
        turned = {i: m + i for i in range(n)} | {n + i: i for i in range(m)}
        condition = None if node.condition is None else remap_columns(node.condition, turned)
        alone = plan.Join(
            schema=node.right.schema, left=node.right, right=node.left, kind="anti",
            condition=condition,
        )  # fmt: skip
        exprs = [*(literal(None, c.type) for c in node.left.schema), *_columns(alone)]
        parts.append(build.lower(plan.Project(schema=node.schema, input=alone, exprs=tuple(exprs))))
    equi = split(node)
    assert equi is not None, "the inner join was made of it"
    sides = build.operator(build.lower(equi.left)), build.operator(build.lower(equi.right))
    apart = apart_of(equi, *sides)
    if apart is not None:
        ends = apart_ends(apart, node.kind, *sides, n)
        return add_union(build, parts, node.schema, ends, ends_suffice=apart.ends(node.kind))
    whole = build.operator(inner)
    ends = {**whole.ends, **whole.closes}
    if node.kind != "full":
        kept = range(n) if node.kind == "left" else range(n, n + m)
        ends = ends if any(i in ends for i in kept) else {}
    elif not (any(i < n for i in ends) and any(i >= n for i in ends)):
        ends = {}  # rows of one side alone would never end
    together = node.kind == "full" and bool(whole.closes)
    return add_union(build, parts, node.schema, ends, ends_suffice=together)


def _columns(node: LogicalPlan) -> list[Expr]:
    return [ColumnRef(index=i, type=c.type) for i, c in enumerate(node.schema)]
