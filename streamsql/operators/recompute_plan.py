"""Which part of a plan becomes one recompute node, and by which key it can be done in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streamsql.core.schema import Schema
from streamsql.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    OuterRef,
    Subquery,
    conjuncts,
    walk,
)
from streamsql.operators.join_condition import split
from streamsql.operators.over_calls import refusals
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import map_node, node_expressions, outer_refs


@dataclass
class Cut:
    """A node whose inputs were replaced by placeholders.

    root: the node, where every compiled leaf is a Scan of relation -(k + 1), named in{k}. leaves:
    the plans that stood there. inner: of each leaf, whether it stands below a subquery or a lateral
    join.
    """

    root: LogicalPlan
    leaves: list[LogicalPlan] = field(default_factory=list)
    inner: list[bool] = field(default_factory=list)


def cut(node: LogicalPlan) -> Cut:
    """Replace the largest parts below the node that stand on their own."""
    found = Cut(node)
    found.root = _keep(node, found, False)
    return found


def _keep(node: LogicalPlan, found: Cut, inner: bool) -> LogicalPlan:
    """The node with its inputs and the plans of its subqueries cut."""
    inputs = node.inputs()
    if inputs:
        lateral = isinstance(node, plan.Join) and node.lateral
        cuts = [_cut(p, found, inner or (lateral and i == 1)) for i, p in enumerate(inputs)]
        node = node.with_inputs(tuple(cuts))
    if any(isinstance(e, Subquery) for own in node_expressions(node) for e in walk(own)):
        node = map_node(node, lambda e: _cut_expression(e, found))
    return node


def _cut_expression(expr: Expr, found: Cut) -> Expr:
    children = expr.children()
    if children:
        expr = expr.with_children(tuple(_cut_expression(c, found) for c in children))
    if isinstance(expr, Subquery):
        expr = replace(expr, plan=_cut(expr.plan, found, True))
    return expr


def _cut(node: LogicalPlan, found: Cut, inner: bool) -> LogicalPlan:
    if not stands_alone(node):
        return _keep(node, found, inner)
    for k, leaf in enumerate(found.leaves):
        if leaf == node and found.inner[k] == inner:
            return _placeholder(k, leaf.schema)
    found.leaves.append(node)
    found.inner.append(inner)
    return _placeholder(len(found.leaves) - 1, node.schema)


def _placeholder(k: int, schema: Schema) -> plan.Scan:
    return plan.Scan(schema=schema, relation_id=-(k + 1), name=f"in{k}")


def stands_alone(node: LogicalPlan) -> bool:
    """Whether the plan reads nothing of an outer row or of a recursion around it."""
    return not outer_refs(node) and not (_cte_refs(node))


def _cte_refs(node: LogicalPlan) -> set[int]:
    """Recursions that the plan reads and does not hold itself."""
    if isinstance(node, plan.CteRef):
        return {node.cte_id}
    refs: set[int] = set()
    for child in node.inputs():
        refs |= _cte_refs(child)
    for own in node_expressions(node):
        for e in walk(own):
            if isinstance(e, Subquery):
                refs |= _cte_refs(e.plan)
    if isinstance(node, plan.RecursiveCte):
        refs.discard(node.cte_id)
    return refs


@dataclass(frozen=True)
class Keys:
    """How to recompute by key. output: the key's columns in the output; leaves: in each leaf, or
    None where any change touches all keys. extra: expressions to append to a Project for the
    key."""

    output: tuple[int, ...]
    leaves: tuple[tuple[int, ...] | None, ...]
    extra: tuple[Expr, ...] = ()


def derive(found: Cut) -> tuple[Keys | None, str]:
    """The key of a cut node and why it is what it is."""
    root = found.root
    if isinstance(root, plan.Window):
        return _window_keys(root)
    if isinstance(root, plan.Aggregate):
        return _aggregate_keys(root)
    if isinstance(root, plan.TimeWindow):
        if not root.partition_by:
            return None, "SESSION has no PARTITION BY"
        return Keys(root.partition_by, (root.partition_by,)), "by the PARTITION BY of SESSION"
    if isinstance(root, plan.DistinctOn):
        if not root.keys:
            return None, "DISTINCT ON has no columns"
        return Keys(root.keys, (root.keys,)), "by the columns of DISTINCT ON"
    if isinstance(root, plan.SetOperation):
        columns = tuple(range(len(root.schema)))
        sides = (columns,) * len(found.leaves)
        return Keys(columns, sides), f"{root.kind.upper()} by whole rows"
    if isinstance(root, plan.Join) and not root.lateral:
        return _join_keys(root, found)
    if isinstance(root, plan.Join | plan.Filter | plan.Project | plan.TableFunction):
        return _row_keys(root, found)
    if isinstance(root, plan.RecursiveCte):
        return None, "the step is more than row by row: LIMIT without ORDER BY, or a set operation"
    return None, f"{type(root).__name__} has no key"


def _window_keys(root: plan.Window) -> tuple[Keys | None, str]:
    common: set[int] | None = None
    for call in root.calls:
        own = {e.index for e in call.partition_by if isinstance(e, ColumnRef)}
        common = own if common is None else common & own
    reasons = refusals(root.calls)
    because = f"; {reasons}" if reasons else ""
    if not common:
        return None, f"the OVER clauses have no PARTITION BY column in common{because}"
    keys = tuple(sorted(common))
    return Keys(keys, (keys,)), f"by the PARTITION BY columns{because}"


def _aggregate_keys(root: plan.Aggregate) -> tuple[Keys | None, str]:
    names = sorted({call.function for call in root.aggregates})
    if not root.keys or root.grouping_sets is not None:
        return None, f"{', '.join(names)} over all rows has no key"
    output = tuple(range(len(root.keys)))
    return Keys(output, (root.keys,)), f"{', '.join(names)} by the GROUP BY columns"


def _join_name(root: plan.Join) -> str:
    return f"{'an' if root.kind[0] in 'aeiou' else 'a'} {root.kind} join"


def _join_keys(root: plan.Join, found: Cut) -> tuple[Keys | None, str]:
    if root.kind in ("full", "right") or root.null_aware or len(found.leaves) != 2:
        return None, f"{_join_name(root)} of this form has no key"
    parts = split(root)
    if parts is None or not parts.left_keys:
        return None, f"{_join_name(root)} without an equality has no key"
    if parts.left is not root.left or parts.right is not root.right:
        return None, f"{_join_name(root)} that compares expressions has no key"
    keys = Keys(parts.left_keys, (parts.left_keys, parts.right_keys))
    return keys, f"{_join_name(root)} with more than equalities, by its equalities"


def _row_keys(root: LogicalPlan, found: Cut) -> tuple[Keys | None, str]:
    """Row by row functions with subqueries or a lateral side: by the correlation, or by whole
    rows."""
    if not found.leaves or found.inner[0] or any(not i for i in found.inner[1:]):
        return None, "its rows are not those of one input"
    outer = found.leaves[0].schema
    dependents = _dependents(root)
    columns, leaves = _correlation(found, dependents)
    if columns is None:
        columns = tuple(range(len(outer)))
    why = "subqueries by the columns they are correlated on"
    if any(keys is None for keys in leaves[1:]):
        why = "a subquery that is not correlated by an equality: its changes touch all rows"
    if isinstance(root, plan.Project):
        output: list[int] = []
        extra: list[ColumnRef] = []
        for c in columns:
            ref = ColumnRef(index=c, type=outer[c].type)
            if ref in root.exprs:
                output.append(root.exprs.index(ref))
            else:
                output.append(len(root.exprs) + len(extra))
                extra.append(ref)
        return Keys(tuple(output), (columns, *leaves[1:]), tuple(extra)), why
    return Keys(columns, (columns, *leaves[1:])), why


def _dependents(root: LogicalPlan) -> list[LogicalPlan]:
    """Plans that are evaluated for each row of the first leaf."""
    found = [e.plan for own in node_expressions(root) for e in walk(own) if isinstance(e, Subquery)]
    if isinstance(root, plan.Join) and root.lateral:
        found.append(root.right)
    return found


def _correlation(
    found: Cut, dependents: Sequence[LogicalPlan]
) -> tuple[tuple[int, ...] | None, list[tuple[int, ...] | None]]:
    """(outer columns of the key or None, key columns of each leaf): the columns that every
    correlated leaf is bound to by equality; leaves without any are None."""
    bound: dict[int, dict[int, int]] = {}
    free: set[int] = set()
    for dependent in dependents:
        _bind(dependent, {}, 1, bound, free)
    usable = {k: b for k, b in bound.items() if b and k not in free}
    common: set[int] | None = None
    for binding in usable.values():
        common = set(binding) if common is None else common & set(binding)
    leaves: list[tuple[int, ...] | None] = [None] * len(found.leaves)
    if not common:
        return None, leaves
    columns = tuple(sorted(common))
    for k, binding in usable.items():
        leaves[k] = tuple(binding[c] for c in columns)
    return columns, leaves


def _bind(
    node: LogicalPlan, columns: dict[int, int], level: int,
    bound: dict[int, dict[int, int]], free: set[int],
) -> None:  # fmt: skip
    """Walk down with the equalities known so far (column of this node -> outer column)."""
    if isinstance(node, plan.Scan) and node.relation_id < 0:
        k = -node.relation_id - 1
        binding = {outer: own for own, outer in columns.items()}
        if not binding:
            free.add(k)
        if k in bound and bound[k] != binding:
            free.add(k)
        bound[k] = binding
        return
    for own in node_expressions(node):
        for e in walk(own):
            if isinstance(e, Subquery):
                _bind(e.plan, {}, level + 1, bound, free)
    if isinstance(node, plan.Filter):
        more = dict(columns)
        for part in conjuncts(node.predicate):
            pair = _outer_equality(part, level)
            if pair is not None:
                more[pair[0]] = pair[1]
        _bind(node.input, more, level, bound, free)
    elif isinstance(node, plan.Project):
        below = {}
        for position, outer in columns.items():
            expr = node.exprs[position]
            if isinstance(expr, ColumnRef):
                below[expr.index] = outer
        _bind(node.input, below, level, bound, free)
    elif isinstance(node, plan.Aggregate) and node.grouping_sets is None:
        below = {node.keys[i]: outer for i, outer in columns.items() if i < len(node.keys)}
        _bind(node.input, below, level, bound, free)
    elif isinstance(node, plan.Sort | plan.Distinct):
        _bind(node.input, columns, level, bound, free)
    elif isinstance(node, plan.Join):
        n = len(node.left.schema)
        inner = node.kind in ("inner", "cross", "semi")
        more = dict(columns)
        if inner and node.condition is not None:
            for part in conjuncts(node.condition):
                pair = _outer_equality(part, level)
                if pair is not None:
                    more[pair[0]] = pair[1]
        _spread(node, more)
        keeps_left = node.kind in ("inner", "cross", "semi", "anti", "left")
        left = {i: o for i, o in more.items() if i < n} if keeps_left else {}
        right = {i - n: o for i, o in more.items() if i >= n} if inner else {}
        _bind(node.left, left, level, bound, free)
        _bind(node.right, right, level + (1 if node.lateral else 0), bound, free)
    else:
        for child in node.inputs():
            _bind(child, {}, level, bound, free)


def _spread(node: plan.Join, known: dict[int, int]) -> None:
    """An equality of the join carries the binding from one side to the other."""
    if node.kind not in ("inner", "semi") or node.condition is None:
        return
    for part in conjuncts(node.condition):
        if isinstance(part, Call) and part.function == "eq":
            a, b = part.args
            if isinstance(a, ColumnRef) and isinstance(b, ColumnRef) and a.type == b.type:
                if a.index in known:
                    known.setdefault(b.index, known[a.index])
                elif b.index in known:
                    known.setdefault(a.index, known[b.index])


def _outer_equality(part: Expr, level: int) -> tuple[int, int] | None:
    """(own column, outer column) of `own = outer` where outer is the row `level` levels up."""
    if not isinstance(part, Call) or part.function != "eq":
        return None
    a, b = part.args
    if isinstance(a, OuterRef):
        a, b = b, a
    same = a.type.arrow == b.type.arrow
    if isinstance(a, ColumnRef) and isinstance(b, OuterRef) and b.depth == level and same:
        return a.index, b.index
    return None
