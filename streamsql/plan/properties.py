"""What follows from a plan's shape: unique keys, append-only output, watermark columns,
determinism."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from streamsql.functions.definitions import Volatility
from streamsql.functions.expressions import (
    AggregateCall,
    Call,
    ColumnRef,
    Expr,
    Literal,
    Subquery,
    conjuncts,
    walk,
)
from streamsql.functions.registry import aggregate_of
from streamsql.functions.resolve import is_ordered_set
from streamsql.functions.resolve import volatility as expression_volatility
from streamsql.plan.nodes import (
    Aggregate,
    CteRef,
    Distinct,
    DistinctOn,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    RecursiveCte,
    Scan,
    SetOperation,
    Sort,
    TableFunction,
    TimeWindow,
    Values,
    Window,
)
from streamsql.plan.patterns import top_n
from streamsql.plan.visit import node_expressions, walk_plan

Key = tuple[int, ...]
MAX_KEYS = 8
"""Keys that are followed per node; more add nothing but time."""

# --- unique keys --------------------------------------------------------------------------------


def unique_keys(plan: LogicalPlan) -> tuple[Key, ...]:
    """Sets of output columns (sorted positions) in which no two rows agree, NULL being equal to
    NULL.

    The empty key () says that there is at most one row. Smaller keys come first; none implies
    another.
    """
    handler = _KEYS.get(type(plan))
    return () if handler is None else _minimal(handler(plan))


def _minimal(keys: Iterable[Iterable[int]]) -> tuple[Key, ...]:
    ordered = sorted({tuple(sorted(set(k))) for k in keys}, key=lambda k: (len(k), k))
    kept: list[Key] = []
    for key in ordered:
        if not any(set(k) <= set(key) for k in kept):
            kept.append(key)
    return tuple(kept[:MAX_KEYS])


def _of_scan(p: Scan) -> Iterable[Key]:
    return p.unique_keys


def _of_values(p: Values) -> Iterable[Key]:
    return [()] if len(p.rows) <= 1 else []


def _of_project(p: Project) -> Iterable[Key]:
    where: dict[int, int] = {}
    for i, e in enumerate(p.exprs):
        if isinstance(e, ColumnRef):
            where.setdefault(e.index, i)
    return [
        tuple(where[c] for c in key) for key in unique_keys(p.input) if all(c in where for c in key)
    ]


def fixed_columns(predicate: Expr) -> set[int]:
    """Columns that the predicate compares with a constant by equality."""
    found = set()
    for part in conjuncts(predicate):
        if isinstance(part, Call) and part.function == "eq":
            a, b = part.args
            if isinstance(a, ColumnRef) and isinstance(b, Literal):
                found.add(a.index)
            elif isinstance(b, ColumnRef) and isinstance(a, Literal):
                found.add(b.index)
    return found


def _of_filter(p: Filter) -> Iterable[Key]:
    fixed = fixed_columns(p.predicate) | _first_places(p)
    return [tuple(c for c in key if c not in fixed) for key in unique_keys(p.input)]


def _first_places(p: Filter) -> set[int]:
    """Columns of row numbers that the filter keeps to 1."""
    if not isinstance(p.input, Window):
        return set()
    found = [top_n(replace(p, predicate=part)) for part in conjuncts(p.predicate)]
    return {
        f.number_column
        for f in found
        if f is not None and f.limit == 1 and f.number_column is not None
    }


def _of_window(p: Window) -> Iterable[Key]:
    """The input's keys; a row number tells the rows of its partition apart."""
    width = len(p.input.schema)
    found: list[Key] = list(unique_keys(p.input))
    for i, call in enumerate(p.calls):
        columns = [e.index for e in call.partition_by if isinstance(e, ColumnRef)]
        plain = all(isinstance(e, ColumnRef | Literal) for e in call.partition_by)
        if call.function == "row_number" and plain:
            found.append((*columns, width + i))
    return found


def _same(p: LogicalPlan) -> Iterable[Key]:
    return unique_keys(p.inputs()[0])


def _of_limit(p: Limit) -> Iterable[Key]:
    if isinstance(p.limit, Literal) and p.limit.value in (0, 1) and not p.with_ties:
        return [()]
    return unique_keys(p.input)


def equal_pairs(condition: Expr | None, left_width: int) -> list[tuple[int, int]]:
    """(left column, right column) of the equalities between plain columns; right counted from 0."""
    pairs = []
    for part in [] if condition is None else conjuncts(condition):
        if isinstance(part, Call) and part.function in ("eq", "is_not_distinct_from"):
            a, b = part.args
            if isinstance(a, ColumnRef) and isinstance(b, ColumnRef):
                i, j = sorted((a.index, b.index))
                if i < left_width <= j:
                    pairs.append((i, j - left_width))
    return pairs


def _of_join(p: Join) -> Iterable[Key]:
    left = unique_keys(p.left)
    if p.kind in ("semi", "anti", "asof", "asof_left", "versioned", "versioned_left"):
        return left
    width = len(p.left.schema)
    right = unique_keys(p.right)
    moved = [tuple(c + width for c in key) for key in right]
    found: list[Key] = [(*a, *b) for a in left for b in moved]
    pairs = equal_pairs(p.condition, width)
    keeps_left = ("inner", "cross", "left", "lookup", "lookup_left")
    if p.kind in keeps_left and _covered(right, {j for _, j in pairs}):
        found += left
    matches_once = _covered(left, {i for i, _ in pairs})
    if p.kind in ("inner", "cross", "right") and not p.lateral and matches_once:
        found += moved
    return found


def _covered(keys: Iterable[Key], columns: set[int]) -> bool:
    return any(set(key) <= columns for key in keys)


def _of_aggregate(p: Aggregate) -> Iterable[Key]:
    if p.grouping_sets is not None and len(p.grouping_sets) != 1:
        return []
    if p.grouping_sets is not None:
        return [p.grouping_sets[0]]
    return [tuple(range(len(p.keys)))]


def _of_time_window(p: TimeWindow) -> Iterable[Key]:
    keys = unique_keys(p.input)
    width = len(p.input.schema)
    if p.kind in ("tumble", "session"):
        return keys
    bound = width if p.kind == "hop" else width + 1
    return [(*key, bound) for key in keys]


def _all_columns(p: LogicalPlan) -> Iterable[Key]:
    return [tuple(range(len(p.schema)))]


def _of_distinct(p: Distinct) -> Iterable[Key]:
    return [*unique_keys(p.input), *_all_columns(p)]


def _of_distinct_on(p: DistinctOn) -> Iterable[Key]:
    return [*unique_keys(p.input), p.keys]


def _of_set_operation(p: SetOperation) -> Iterable[Key]:
    found: list[Key] = [] if p.all else list(_all_columns(p))
    if p.kind in ("except", "intersect"):
        found += unique_keys(p.left)
    return found


def _of_table_function(p: TableFunction) -> Iterable[Key]:
    if not p.with_ordinality:
        return []
    return [(*key, len(p.schema) - 1) for key in unique_keys(p.input)]


def _of_recursive(p: RecursiveCte) -> Iterable[Key]:
    return [] if p.all else _all_columns(p)


_KEYS: dict[type[LogicalPlan], Callable[..., Iterable[Key]]] = {
    Scan: _of_scan,
    Values: _of_values,
    Project: _of_project,
    Filter: _of_filter,
    Sort: _same,
    Limit: _of_limit,
    Join: _of_join,
    Aggregate: _of_aggregate,
    Window: _of_window,
    TimeWindow: _of_time_window,
    Distinct: _of_distinct,
    DistinctOn: _of_distinct_on,
    SetOperation: _of_set_operation,
    TableFunction: _of_table_function,
    RecursiveCte: _of_recursive,
}


# --- append only --------------------------------------------------------------------------------
def append_only(plan: LogicalPlan) -> bool:
    """Does the output only grow, as long as the relations that are append-only do?

    True only if every relation read is append-only and every node passes growth on as growth.
    """
    return all(_grows(node) for node in walk_plan(plan))


def _grows(node: LogicalPlan) -> bool:
    if any(_can_change(e) for e in node_expressions(node)):
        return False
    match node:
        case Scan():
            return node.append_only
        case Join():
            return node.kind in ("inner", "cross", "semi") and not node.lateral
        case SetOperation():
            return node.kind in ("union", "intersect")
        case TimeWindow():
            return node.kind != "session"
    return isinstance(node, Values | Project | Filter | Distinct | TableFunction | Sort)


def _can_change(expr: Expr) -> bool:
    """Can the value for one and the same row differ from tick to tick?"""
    if any(isinstance(e, Subquery) for e in walk(expr)):
        return True
    return expression_volatility(expr) is not Volatility.IMMUTABLE


# --- watermark columns --------------------------------------------------------------------------
def watermark_columns(plan: LogicalPlan) -> frozenset[int]:
    """Output columns that hold event times which the inputs' watermarks bound: the watermark
    columns of the relations as far as they are passed on, and the bounds of windows over them."""
    match plan:
        case Scan():
            return (
                frozenset() if plan.watermark_column is None else frozenset({plan.watermark_column})
            )
        case Project():
            below = watermark_columns(plan.input)
            return frozenset(
                i for i, e in enumerate(plan.exprs) if isinstance(e, ColumnRef) and e.index in below
            )
        case TimeWindow():
            below = watermark_columns(plan.input)
            width = len(plan.input.schema)
            windows = {width, width + 1, width + 2} if plan.time_column in below else set()
            return below | windows
        case Aggregate():
            below = watermark_columns(plan.input)
            return frozenset(i for i, k in enumerate(plan.keys) if k in below)
        case Join():
            return _of_join_sides(plan)
        case SetOperation():
            left = watermark_columns(plan.left)
            return left & watermark_columns(plan.right) if plan.kind == "union" else left
        case Filter() | Sort() | Limit() | Window() | Distinct() | DistinctOn() | TableFunction():
            return watermark_columns(plan.input)
    return frozenset()


def _of_join_sides(plan: Join) -> frozenset[int]:
    left = watermark_columns(plan.left)
    if plan.kind in ("semi", "anti"):
        return left
    width = len(plan.left.schema)
    right = frozenset(c + width for c in watermark_columns(plan.right))
    if plan.kind in ("left", "asof", "asof_left") or plan.is_temporal:
        return left
    if plan.kind == "right":
        return right
    return frozenset() if plan.kind == "full" else left | right


# --- determinism --------------------------------------------------------------------------------
def plan_volatility(plan: LogicalPlan) -> Volatility:
    """The worst volatility of any expression in the plan, subqueries included."""
    order = (Volatility.IMMUTABLE, Volatility.STABLE, Volatility.VOLATILE)
    worst = Volatility.IMMUTABLE
    for node in walk_plan(plan):
        for expr in node_expressions(node):
            found = [expression_volatility(expr)]
            found += [plan_volatility(e.plan) for e in walk(expr) if isinstance(e, Subquery)]
            worst = max([worst, *found], key=order.index)
    return worst


def orders_rows(call: AggregateCall) -> bool:
    """Whether the order of arrival can show in the aggregate: array_agg, first_value and kin."""
    if call.function.startswith("duckdb:") or call.distinct or is_ordered_set(call.function):
        return False
    return aggregate_of(call.function, tuple(a.type for a in call.args)).order_sensitive


def is_deterministic(plan: LogicalPlan) -> bool:
    """No random() and the like: the rows follow from the input (and, with now(), from the time)."""
    return plan_volatility(plan) is not Volatility.VOLATILE


def reads_loop(plan: LogicalPlan) -> bool:
    """Does the plan stand inside a recursive step (read a CteRef without its RecursiveCte)?"""
    loops = {n.cte_id for n in walk_plan(plan) if isinstance(n, RecursiveCte)}
    return any(isinstance(n, CteRef) and n.cte_id not in loops for n in walk_plan(plan))
