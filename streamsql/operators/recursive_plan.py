"""The step of a recursive query over all iterations at once: its rows carry their iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, BOOLEAN, SqlType
from streamsql.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    Literal,
    OuterRef,
    Subquery,
    WindowCall,
    column,
    conjunction,
)
from streamsql.operators.recompute_plan import stands_alone
from streamsql.plan import nodes as plan
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import (
    map_expressions,
    map_sort_keys,
    map_window,
    outer_refs,
    replace_columns,
    replace_columns_plan,
    transform_plan,
    walk_plan,
)

WORKING = 1 << 40
"""Relation id of the working table inside of the step; the leaves' follow it."""
_JOINS = frozenset({"inner", "cross", "left", "semi", "anti", "asof", "asof_left"})


@dataclass(frozen=True)
class StepPlan:
    """root: over `working` (the query's columns, then the iteration BIGINT) and the `leaves`, scans
    with ids WORKING + 1, …; its columns are the query's, then the iteration of the row that each
    came from."""

    root: LogicalPlan
    working: plan.Scan
    leaves: tuple[LogicalPlan, ...]


@dataclass(frozen=True)
class _Carried:
    """A node on the way from the working table to the step's root, with the iteration at column
    `at` of its output; all other columns are in their old order."""

    node: LogicalPlan
    at: int

    def moved(self, old: int) -> int:
        """Where an old column is now."""
        return old if old < self.at else old + 1

    def remap(self, expr: Expr) -> Expr:
        return replace_columns(
            expr, lambda r: ColumnRef(index=self.moved(r.index), type=r.type, name=r.name)
        )


def step_plan(node: plan.RecursiveCte) -> StepPlan | None:
    """The step with iterations; None if a part of it means more than row by row of one iteration
    (an aggregate, a branch that does not read the working table, …)."""
    schema = Schema((*node.schema.columns, Column("iteration", BIGINT, False)))
    working = plan.Scan(schema=schema, relation_id=WORKING, name="working table")
    leaves: list[LogicalPlan] = []
    found = _carry(node.step, node.cte_id, working, leaves)
    if found is None:
        return None
    exprs = [column(found.moved(i), c.type) for i, c in enumerate(node.step.schema)]
    columns = [Column(n.name, c.type) for n, c in zip(node.schema, node.step.schema, strict=True)]
    whole = plan.Project(
        schema=Schema((*columns, Column("iteration", BIGINT, False))),
        input=found.node,
        exprs=(*exprs, column(found.at, BIGINT)),
    )
    return StepPlan(_without_relations(whole, leaves), working, tuple(leaves))


def _carry(
    node: LogicalPlan, cte_id: int, working: plan.Scan, leaves: list[LogicalPlan]
) -> _Carried | None:
    if isinstance(node, plan.CteRef):
        return _Carried(working, len(node.schema)) if node.cte_id == cte_id else None
    if isinstance(node, plan.Join):
        return _join(node, cte_id, working, leaves)
    if isinstance(node, plan.SetOperation):
        member = _as_membership(node)
        return None if member is None else _join(member, cte_id, working, leaves)
    carry = _CARRIES.get(type(node))
    if carry is None or not isinstance(node, plan.Unary):
        return None
    below = _carry(node.input, cte_id, working, leaves)
    return None if below is None else carry(node, below)


def _reads(node: LogicalPlan, cte_id: int) -> bool:
    return any(isinstance(n, plan.CteRef) and n.cte_id == cte_id for n in walk_plan(node))


def _leaf(node: LogicalPlan, leaves: list[LogicalPlan]) -> LogicalPlan | None:
    """What stands for a side that does not read the working table."""
    if not stands_alone(node):
        return None
    if node in leaves:
        number = leaves.index(node)
    else:
        number = len(leaves)
        leaves.append(node)
    return plan.Scan(schema=node.schema, relation_id=WORKING + 1 + number, name=f"in{number}")


def _without_relations(node: LogicalPlan, leaves: list[LogicalPlan]) -> LogicalPlan:
    """The relations that subqueries and lateral sides read become leaves too."""

    def swap(p: LogicalPlan) -> LogicalPlan:
        if isinstance(p, plan.Scan) and p.relation_id < WORKING:
            return _leaf(p, leaves) or p
        return p

    def inside(e: Expr) -> Expr:
        return replace(e, plan=transform_plan(e.plan, swap)) if isinstance(e, Subquery) else e

    return map_expressions(transform_plan(node, swap), inside)


# --- nodes on the way ---------------------------------------------------------------------------
def _inserted(schema: Schema, at: int, type_: SqlType = BIGINT) -> Schema:
    columns = list(schema.columns)
    columns.insert(at, Column("iteration", type_, False))
    return Schema(tuple(columns))


def _project(node: plan.Project, below: _Carried) -> _Carried:
    exprs = (*(below.remap(e) for e in node.exprs), column(below.at, BIGINT))
    at = len(node.exprs)
    schema = _inserted(node.schema, at)
    return _Carried(plan.Project(schema=schema, input=below.node, exprs=exprs), at)


def _filter(node: plan.Filter, below: _Carried) -> _Carried:
    predicate = below.remap(node.predicate)
    made = plan.Filter(schema=below.node.schema, input=below.node, predicate=predicate)
    return _Carried(made, below.at)


def _sort(node: plan.Sort, below: _Carried) -> _Carried:
    return below


def _distinct(node: plan.Distinct, below: _Carried) -> _Carried:
    return _Carried(plan.Distinct(schema=below.node.schema, input=below.node), below.at)


def _distinct_on(node: plan.DistinctOn, below: _Carried) -> _Carried:
    made = replace(
        node,
        schema=below.node.schema,
        input=below.node,
        keys=(*(below.moved(k) for k in node.keys), below.at),
        order_by=map_sort_keys(node.order_by, below.remap),
        ties=map_sort_keys(node.ties, below.remap),
    )
    return _Carried(made, below.at)


def _window(node: plan.Window, below: _Carried) -> _Carried:
    calls = []
    for call in node.calls:
        moved = map_window(call, below.remap)
        calls.append(replace(moved, partition_by=(*moved.partition_by, column(below.at, BIGINT))))
    schema = _inserted(node.schema, below.at)
    made = plan.Window(schema=schema, input=below.node, calls=tuple(calls))
    return _Carried(made, below.at)


def _table_function(node: plan.TableFunction, below: _Carried) -> _Carried:
    made = replace(
        node,
        schema=_inserted(node.schema, below.at),
        input=below.node,
        args=tuple(below.remap(a) for a in node.args),
    )
    return _Carried(made, below.at)


def _limit(node: plan.Limit, below: _Carried) -> _Carried | None:
    """The first rows of each iteration: a filter over a row number."""
    bounds = [node.limit, *([] if node.offset is None else [node.offset])]
    if not node.order_by or not all(isinstance(b, Literal) and b.value is not None for b in bounds):
        return None
    limit, *skipped = [b.value for b in bounds if isinstance(b, Literal)]
    if limit < 1 or (node.with_ties and any(skipped)):
        return None
    width = len(below.node.schema)
    call = WindowCall(
        function="rank" if node.with_ties else "row_number",
        args=(),
        type=BIGINT,
        partition_by=(column(below.at, BIGINT),),
        order_by=map_sort_keys(node.order_by, below.remap),
        ties=map_sort_keys(node.ties, below.remap),
    )
    wide = Schema((*below.node.schema.columns, Column("", BIGINT, False)))
    numbered = plan.Window(schema=wide, input=below.node, calls=(call,))
    tests: list[Expr] = [_against("le", width, limit + sum(skipped))]
    if any(skipped):
        tests.append(_against("gt", width, sum(skipped)))
    first = plan.Filter(schema=wide, input=numbered, predicate=conjunction(tests))
    refs = tuple(column(i, c.type, c.name) for i, c in enumerate(below.node.schema))
    made = plan.Project(schema=below.node.schema, input=first, exprs=refs)
    return _Carried(made, below.at)


def _against(function: str, number: int, value: int) -> Call:
    args = (column(number, BIGINT), Literal(value=value, type=BIGINT))
    return Call(function=function, args=args, type=BOOLEAN)


def _as_membership(node: plan.SetOperation) -> plan.Join | None:
    """EXCEPT (not ALL) as an anti join of the distinct rows."""
    if node.all or node.kind != "except":
        return None
    width = len(node.schema)
    parts = [
        Call(
            function="is_not_distinct_from",
            args=(column(i, c.type), column(width + i, c.type)),
            type=BOOLEAN,
        )
        for i, c in enumerate(node.schema)
    ]
    return plan.Join(
        schema=node.schema,
        left=plan.Distinct(schema=node.schema, input=node.left),
        right=node.right,
        kind="anti",
        condition=conjunction(parts),
    )


_CARRIES: dict[type[LogicalPlan], Callable[..., _Carried | None]] = {
    plan.Project: _project,
    plan.Filter: _filter,
    plan.Sort: _sort,
    plan.Distinct: _distinct,
    plan.DistinctOn: _distinct_on,
    plan.Window: _window,
    plan.Limit: _limit,
    plan.TableFunction: _table_function,
}


def _join(
    node: plan.Join, cte_id: int, working: plan.Scan, leaves: list[LogicalPlan]
) -> _Carried | None:
    on_left = _reads(node.left, cte_id)
    width = len(node.left.schema)
    if on_left:
        if node.kind not in _JOINS or _reads(node.right, cte_id):
            return None
        side = _carry(node.left, cte_id, working, leaves)
        other = _other_side(node, side, leaves)
        if side is None or other is None:
            return None
        left, right, at = side.node, other, side.at
    else:
        if node.lateral or node.kind not in ("inner", "cross", "right"):
            return None
        side = _carry(node.right, cte_id, working, leaves)
        rest = _leaf(node.left, leaves)
        if side is None or rest is None:
            return None
        left, right, at = rest, side.node, width + side.at
    whole = _Carried(node, at)
    made = replace(
        node,
        schema=_inserted(node.schema, at),
        left=left,
        right=right,
        condition=None if node.condition is None else whole.remap(node.condition),
    )
    return _Carried(made, at)


def _other_side(
    node: plan.Join, side: _Carried | None, leaves: list[LogicalPlan]
) -> LogicalPlan | None:
    """The right side of a join whose left side is on the way."""
    if side is None:
        return None
    if not node.lateral:
        return _leaf(node.right, leaves)
    if any(depth > 1 for _, depth in outer_refs(node.right)):
        return None

    def move(ref: ColumnRef | OuterRef) -> Expr:
        return ColumnRef(index=side.moved(ref.index), type=ref.type, name=ref.name)

    return replace_columns_plan(node.right, move)
