"""Columns that nothing above reads are left out, down to a Project above each Scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from streamsql.core.schema import Schema
from streamsql.functions.expressions import Expr, SortKey, column
from streamsql.plan.binder.joins import join_schema
from streamsql.plan.nodes import (
    Aggregate,
    Distinct,
    DistinctOn,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    Scan,
    SetOperation,
    Sort,
    TableFunction,
    TimeWindow,
    Values,
    Window,
)
from streamsql.plan.properties import orders_rows, unique_keys
from streamsql.plan.visit import (
    map_aggregate,
    map_window,
    outer_refs,
    remap_columns,
    replace_columns_plan,
    row_columns,
    window_expressions,
)


@dataclass(frozen=True)
class Pruned:
    """A plan with fewer columns. where: old position → new one, for every column that was
    needed."""

    plan: LogicalPlan
    where: Mapping[int, int]


def prune_columns(plan: LogicalPlan) -> LogicalPlan:
    """The plan with the same output and narrower inputs."""
    pruned = _prune(plan, set(range(len(plan.schema))))
    if all(pruned.where[i] == i for i in range(len(plan.schema))) and len(
        pruned.plan.schema
    ) == len(plan.schema):
        return pruned.plan
    return _select(pruned.plan, [pruned.where[i] for i in range(len(plan.schema))], plan.schema)


def _select(plan: LogicalPlan, positions: list[int], schema: Schema) -> Project:
    exprs = tuple(column(p, c.type, c.name) for p, c in zip(positions, schema, strict=True))
    return Project(schema=schema, input=plan, exprs=exprs)


def _prune(plan: LogicalPlan, needed: set[int]) -> Pruned:
    handler = _HANDLERS.get(type(plan))
    if handler is not None:
        return handler(plan, needed)
    inputs = tuple(prune_columns(i) for i in plan.inputs())
    return _unchanged(plan.with_inputs(inputs) if inputs else plan)


def _unchanged(plan: LogicalPlan) -> Pruned:
    return Pruned(plan, {i: i for i in range(len(plan.schema))})


def _used(exprs: Iterable[Expr]) -> set[int]:
    return {i for e in exprs for i in row_columns(e)}


def _at_least_one(needed: set[int], plan: LogicalPlan) -> set[int]:
    """A row must keep a column, or its number would be lost."""
    return needed or ({0} if len(plan.schema) else set())


def _keys(keys: tuple[SortKey, ...], where: Mapping[int, int]) -> tuple[SortKey, ...]:
    return tuple(replace(k, expr=remap_columns(k.expr, where)) for k in keys)


# --- leaves -------------------------------------------------------------------------------------
def _scan(plan: Scan, needed: set[int]) -> Pruned:
    kept = sorted(_at_least_one(needed, plan))
    if len(kept) == len(plan.schema):
        return _unchanged(plan)
    project = _select(plan, kept, plan.schema.select(kept))
    return Pruned(project, {old: new for new, old in enumerate(kept)})


def _values(plan: Values, needed: set[int]) -> Pruned:
    kept = sorted(_at_least_one(needed, plan))
    if len(kept) == len(plan.schema):
        return _unchanged(plan)
    rows = tuple(tuple(row[i] for i in kept) for row in plan.rows)
    narrow = Values(schema=plan.schema.select(kept), rows=rows)
    return Pruned(narrow, {old: new for new, old in enumerate(kept)})


# --- one input ----------------------------------------------------------------------------------
def _project(plan: Project, needed: set[int]) -> Pruned:
    kept = sorted(_at_least_one(needed, plan))
    exprs = [plan.exprs[i] for i in kept]
    below = _prune(plan.input, _used(exprs))
    narrow = Project(
        schema=plan.schema.select(kept),
        input=below.plan,
        exprs=tuple(remap_columns(e, below.where) for e in exprs),
    )
    return Pruned(narrow, {old: new for new, old in enumerate(kept)})


def _filter(plan: Filter, needed: set[int]) -> Pruned:
    below = _prune(plan.input, needed | row_columns(plan.predicate))
    predicate = remap_columns(plan.predicate, below.where)
    return Pruned(
        Filter(schema=below.plan.schema, input=below.plan, predicate=predicate), below.where
    )


def _sort(plan: Sort | Limit | DistinctOn, needed: set[int]) -> Pruned:
    read = _used(k.expr for k in plan.order_by)
    if isinstance(plan, DistinctOn):
        read |= set(plan.keys)
    below = _prune(plan.input, needed | read)
    narrow = replace(
        plan,
        schema=below.plan.schema,
        input=below.plan,
        order_by=_keys(plan.order_by, below.where),
    )
    if isinstance(narrow, DistinctOn):
        narrow = replace(narrow, keys=tuple(below.where[k] for k in narrow.keys))
    return Pruned(narrow, below.where)


def _distinct(plan: Distinct, needed: set[int]) -> Pruned:
    return _unchanged(replace(plan, input=prune_columns(plan.input)))


def _aggregate(plan: Aggregate, needed: set[int]) -> Pruned:
    n = len(plan.keys)
    calls = [i for i in range(len(plan.aggregates)) if n + i in needed]
    kept = [plan.aggregates[i] for i in calls]
    read = set(plan.keys)
    for call in kept:
        read |= _used([*call.args, *(k.expr for k in call.order_by)])
        read |= set() if call.filter is None else row_columns(call.filter)
    if any(orders_rows(call) for call in kept):  # a view tells the rows apart by it
        plan, key = _with_key(plan)
        read |= key
    below = _prune(plan.input, _at_least_one(read, plan.input))
    groupings = range(n + len(plan.aggregates), len(plan.schema))
    outputs = [*range(n), *(n + i for i in calls), *groupings]
    narrow = replace(
        plan,
        schema=plan.schema.select(outputs),
        input=below.plan,
        keys=tuple(below.where[k] for k in plan.keys),
        aggregates=tuple(map_aggregate(c, lambda e: remap_columns(e, below.where)) for c in kept),
    )
    return Pruned(narrow, {old: new for new, old in enumerate(outputs)})


def _with_key(plan: Aggregate) -> tuple[Aggregate, set[int]]:
    """(the aggregate, a key of its input if there is one), brought through a Project below it."""
    below = plan.input
    for key in sorted(unique_keys(below), key=len):
        return plan, set(key)
    if not isinstance(below, Project):
        return plan, set()
    for key in sorted(unique_keys(below.input), key=len):
        columns = [below.input.schema[i] for i in key]
        refs = [column(i, c.type, c.name) for i, c in zip(key, columns, strict=True)]
        schema = Schema((*below.schema.columns, *columns))
        wide = replace(below, schema=schema, exprs=(*below.exprs, *refs))
        first = len(below.schema)
        return replace(plan, input=wide), set(range(first, first + len(key)))
    return plan, set()


def _window(plan: Window, needed: set[int]) -> Pruned:
    width = len(plan.input.schema)
    calls = [i for i in range(len(plan.calls)) if width + i in needed]
    kept = [plan.calls[i] for i in calls]
    read = {i for i in needed if i < width}
    read |= _used(e for c in kept for e in window_expressions(c))
    below = _prune(plan.input, _at_least_one(read, plan.input))
    if not kept:
        return below
    where = dict(below.where)
    first = len(below.plan.schema)
    where.update({width + old: first + new for new, old in enumerate(calls)})
    outputs = tuple(plan.schema[width + i] for i in calls)
    narrow = Window(
        schema=Schema(below.plan.schema.columns + outputs),
        input=below.plan,
        calls=tuple(map_window(c, lambda e: remap_columns(e, below.where)) for c in kept),
    )
    return Pruned(narrow, where)


def _appending(
    plan: TimeWindow | TableFunction, read: set[int], needed: set[int]
) -> tuple[Pruned, dict[int, int], Schema]:
    """A node that appends columns: (input, where, schema) after pruning the input."""
    width = len(plan.input.schema)
    below = _prune(plan.input, {i for i in needed if i < width} | read)
    where = {i: p for i, p in below.where.items() if i < width}
    shift = len(below.plan.schema) - width
    where.update({i: i + shift for i in range(width, len(plan.schema))})
    schema = Schema(below.plan.schema.columns + plan.schema.columns[width:])
    return below, where, schema


def _time_window(plan: TimeWindow, needed: set[int]) -> Pruned:
    read = {plan.time_column, *plan.partition_by}
    below, where, schema = _appending(plan, read, needed)
    narrow = replace(
        plan,
        schema=schema,
        input=below.plan,
        time_column=below.where[plan.time_column],
        partition_by=tuple(below.where[k] for k in plan.partition_by),
    )
    return Pruned(narrow, where)


def _table_function(plan: TableFunction, needed: set[int]) -> Pruned:
    below, where, schema = _appending(plan, _used(plan.args), needed)
    narrow = replace(
        plan,
        schema=schema,
        input=below.plan,
        args=tuple(remap_columns(a, below.where) for a in plan.args),
    )
    return Pruned(narrow, where)


def _narrowed(plan: LogicalPlan, needed: set[int]) -> Pruned:
    """Exactly the needed columns, because a join keeps the rows of its inputs."""
    kept = sorted(_at_least_one(needed, plan))
    below = _prune(plan, set(kept))
    if len(below.plan.schema) == len(kept):
        return below
    positions = [below.where[i] for i in kept]
    narrow = _select(below.plan, positions, below.plan.schema.select(positions))
    return Pruned(narrow, {old: new for new, old in enumerate(kept)})


# --- two inputs ---------------------------------------------------------------------------------
def _join(plan: Join, needed: set[int]) -> Pruned:
    width = len(plan.left.schema)
    read = set(needed)
    if plan.condition is not None:
        read |= row_columns(plan.condition)
    from_left = {i for i in read if i < width}
    if plan.lateral:
        from_left |= {r.index for r, depth in outer_refs(plan.right) if depth == 1}
    from_right = {i - width for i in read if i >= width}
    if plan.kind.startswith("asof"):  # ties are broken by all of right's columns
        from_right = set(range(len(plan.right.schema)))
    left = _narrowed(plan.left, from_left)
    right_plan = plan.right
    if plan.lateral:
        right_plan = replace_columns_plan(
            right_plan, lambda r: column(left.where[r.index], r.type, r.name)
        )
    right = _narrowed(right_plan, from_right)
    new_width = len(left.plan.schema)
    both = dict(left.where)
    both.update({i + width: p + new_width for i, p in right.where.items()})
    condition = plan.condition
    narrow = replace(
        plan,
        schema=join_schema(left.plan.schema, right.plan.schema, plan.kind),
        left=left.plan,
        right=right.plan,
        condition=None if condition is None else remap_columns(condition, both),
    )
    return Pruned(narrow, left.where if plan.kind in ("semi", "anti") else both)


def _set_operation(plan: SetOperation, needed: set[int]) -> Pruned:
    if not (plan.kind == "union" and plan.all):
        return _unchanged(
            replace(plan, left=prune_columns(plan.left), right=prune_columns(plan.right))
        )
    kept = sorted(_at_least_one(needed, plan))
    branches = []
    for branch in (plan.left, plan.right):
        below = _prune(branch, set(kept))
        positions = [below.where[i] for i in kept]
        exact = positions == list(range(len(below.plan.schema)))
        narrow = below.plan if exact else _select(below.plan, positions, branch.schema.select(kept))
        branches.append(narrow)
    schema = plan.schema.select(kept)
    union = replace(plan, schema=schema, left=branches[0], right=branches[1])
    return Pruned(union, {old: new for new, old in enumerate(kept)})


_HANDLERS: dict[type[LogicalPlan], Callable[..., Pruned]] = {
    Scan: _scan,
    Values: _values,
    Project: _project,
    Filter: _filter,
    Sort: _sort,
    Limit: _sort,
    DistinctOn: _sort,
    Distinct: _distinct,
    Aggregate: _aggregate,
    Window: _window,
    TimeWindow: _time_window,
    TableFunction: _table_function,
    Join: _join,
    SetOperation: _set_operation,
}
