"""Which columns of a relation an optimized plan reads."""

from __future__ import annotations

from streamsql.functions.expressions import Subquery, walk
from streamsql.plan.nodes import Aggregate, Filter, Join, LogicalPlan, Project, Scan
from streamsql.plan.visit import node_expressions, outer_refs, row_columns


def columns_read(plan: LogicalPlan, relation_id: int) -> tuple[set[int], set[int]]:
    """(columns that the result depends on, columns that are carried along): a plan that only counts
    rows carries one column that it does not look at."""
    logical: set[int] = set()
    physical: set[int] = set()
    _visit(plan, set(range(len(plan.schema))), relation_id, logical, exact=True)
    _visit(plan, set(range(len(plan.schema))), relation_id, physical, exact=False)
    return logical, physical


def _visit(
    node: LogicalPlan, needed: set[int], relation_id: int, found: set[int], *, exact: bool
) -> None:
    """needed: output columns that something above reads. exact: leave out what is only carried."""
    if isinstance(node, Scan):
        if node.relation_id == relation_id:
            found |= needed
        return
    for root in node_expressions(node):
        for expr in walk(root):
            if isinstance(expr, Subquery):
                inner = set(range(len(expr.plan.schema)))
                _visit(expr.plan, inner, relation_id, found, exact=exact)
    if isinstance(node, Project):
        kept = needed if exact else range(len(node.exprs))
        below = {c for i in kept for c in row_columns(node.exprs[i])}
        _visit(node.input, below, relation_id, found, exact=exact)
    elif isinstance(node, Filter):
        below = needed | row_columns(node.predicate)
        _visit(node.input, below, relation_id, found, exact=exact)
    elif isinstance(node, Aggregate) and exact:
        below = set(node.keys) | {c for e in node_expressions(node) for c in row_columns(e)}
        _visit(node.input, below, relation_id, found, exact=exact)
    elif isinstance(node, Join) and exact and not node.is_temporal and "asof" not in node.kind:
        width = len(node.left.schema)
        read = set(needed)
        if node.condition is not None:
            read |= row_columns(node.condition)
        if node.lateral:
            read |= {r.index for r, depth in outer_refs(node.right) if depth == 1}
        left, right = {i for i in read if i < width}, {i - width for i in read if i >= width}
        _visit(node.left, left, relation_id, found, exact=exact)
        _visit(node.right, right, relation_id, found, exact=exact)
    else:
        for below_node in node.inputs():
            every = set(range(len(below_node.schema)))
            _visit(below_node, every, relation_id, found, exact=exact)
