"""Predicates move down to where their columns come from.

Only predicates that can neither fail nor differ from call to call move; the others stay above,
behind those that were written before them. Outer joins become inner where a predicate rejects their
NULLs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from streamsql.functions.expressions import TRUE, ColumnRef, Expr, conjuncts
from streamsql.plan.nodes import (
    Aggregate,
    Distinct,
    DistinctOn,
    Filter,
    Join,
    LogicalPlan,
    Project,
    RecursiveCte,
    SetOperation,
    Sort,
    TableFunction,
    TimeWindow,
    Window,
)
from streamsql.plan.optimizer.implied import (
    Pair,
    equal_columns,
    input_columns,
    known_equalities,
    known_predicates,
    out_of_or,
    through_equalities,
    through_merged,
)
from streamsql.plan.optimizer.predicates import (
    can_move,
    condition_of,
    filtered,
    is_volatile,
    parts_of,
    reads_clock,
    rejects_null,
)
from streamsql.plan.visit import deepen, remap_columns, replace_columns, row_columns, shift_columns

Predicates = list[Expr]


def push_down_predicates(plan: LogicalPlan) -> LogicalPlan:
    """Every Filter as far down as it may go."""
    return _push(plan, [])


def _push(plan: LogicalPlan, predicates: Predicates) -> LogicalPlan:
    """The plan filtered by `predicates` (over its output), in order."""
    if isinstance(plan, Filter):
        return _push(plan.input, [*conjuncts(plan.predicate), *predicates])
    movable = list(dict.fromkeys(p for p in predicates if can_move(p)))
    staying = [p for p in predicates if not can_move(p)]
    handler = _HANDLERS.get(type(plan))
    if handler is None:
        inputs = tuple(_push(i, []) for i in plan.inputs())
        return filtered(plan.with_inputs(inputs) if inputs else plan, predicates)
    below, left_over = handler(plan, movable)
    above = [p for p in predicates if p in staying or p in left_over]
    return filtered(below, above)


Pushed = tuple[LogicalPlan, Predicates]
"""The plan with what it took, and what it did not take."""


# --- one input ----------------------------------------------------------------------------------
def _project(plan: Project, predicates: Predicates) -> Pushed:
    down: Predicates = []
    left: Predicates = []
    for p in predicates:
        used = row_columns(p)
        if any(is_volatile(plan.exprs[i]) for i in used):
            left.append(p)
            continue
        moved = replace_columns(p, lambda r: plan.exprs[r.index])
        (down if can_move(moved) else left).append(moved if can_move(moved) else p)
    return replace(plan, input=_push(plan.input, down)), left


def _by_columns(
    plan: LogicalPlan, predicates: Predicates, allowed: Callable[[int], bool]
) -> tuple[Predicates, Predicates]:
    """(those that read only allowed columns, the others); constant ones stay."""
    down: Predicates = []
    left: Predicates = []
    for p in predicates:
        used = row_columns(p)
        (down if used and all(allowed(i) for i in used) else left).append(p)
    return down, left


def _aggregate(plan: Aggregate, predicates: Predicates) -> Pushed:
    """Below GROUP BY what keeps or drops whole groups: of every grouping set."""
    kept = set(range(len(plan.keys)))
    for columns in plan.grouping_sets or ():
        kept &= set(columns)
    if plan.grouping_sets == ():
        kept = set()
    down, left = _by_columns(plan, predicates, lambda i: i in kept)
    moved = [remap_columns(p, plan.keys) for p in down]
    return replace(plan, input=_push(plan.input, moved)), left


def _window(plan: Window, predicates: Predicates) -> Pushed:
    """Below OVER only what keeps or drops whole partitions."""
    common: set[int] | None = None
    for call in plan.calls:
        keys = {e.index for e in call.partition_by if isinstance(e, ColumnRef)}
        common = keys if common is None else common & keys
    down, left = _by_columns(plan, predicates, lambda i: i in (common or set()))
    return replace(plan, input=_push(plan.input, down)), left


def _time_window(plan: TimeWindow, predicates: Predicates) -> Pushed:
    width = len(plan.input.schema)
    if plan.kind == "session":
        down, left = _by_columns(plan, predicates, lambda i: i in plan.partition_by)
    else:
        down, left = _by_columns(plan, predicates, lambda i: i < width)
    return replace(plan, input=_push(plan.input, down)), left


def _passing(plan: Distinct | Sort, predicates: Predicates) -> Pushed:
    return replace(plan, input=_push(plan.input, predicates)), []


def _distinct_on(plan: DistinctOn, predicates: Predicates) -> Pushed:
    down, left = _by_columns(plan, predicates, lambda i: i in plan.keys)
    return replace(plan, input=_push(plan.input, down)), left


def _table_function(plan: TableFunction, predicates: Predicates) -> Pushed:
    width = len(plan.input.schema)
    down, left = _by_columns(plan, predicates, lambda i: i < width)
    return replace(plan, input=_push(plan.input, down)), left


# --- two inputs ---------------------------------------------------------------------------------
def _set_operation(plan: SetOperation, predicates: Predicates) -> Pushed:
    left, right = _push(plan.left, predicates), _push(plan.right, predicates)
    return replace(plan, left=left, right=right), []


def _recursive(plan: RecursiveCte, predicates: Predicates) -> Pushed:
    return replace(plan, base=_push(plan.base, []), step=_push(plan.step, [])), predicates


def _join(plan: Join, predicates: Predicates) -> Pushed:
    if plan.kind in ("semi", "anti", "asof", "asof_left") or plan.is_temporal:
        return _one_sided_join(plan, predicates)
    plan = _without_needless_outer(plan, predicates)
    width = len(plan.left.schema)
    conditions = parts_of(plan.condition)
    if plan.kind in ("inner", "cross"):
        return _inner(plan, [*conditions, *predicates], width)
    keeps_left = plan.kind == "left"
    keeps_right = plan.kind == "right"
    to_left: Predicates = []
    to_right: Predicates = []
    left_over: Predicates = []
    for p in predicates:
        side = _side(p, width)
        if side == "left" and keeps_left:
            to_left.append(p)
        elif side == "right" and keeps_right:
            to_right.append(_to_right(plan, p))
        else:
            left_over.append(p)
    kept: Predicates = []
    for p in conditions:
        side = _side(p, width) if can_move(p) else "both"
        if side == "right" and keeps_left:
            to_right.append(_to_right(plan, p))
        elif side == "left" and keeps_right:
            to_left.append(p)
        else:
            kept.append(p)
    if plan.kind == "full":
        left_over, to_left, to_right = _merged(plan, left_over, width)
    pairs = [*equal_columns(kept), *_known(plan.left, plan.right)]
    if keeps_left:
        to_right += _follows(plan, to_left, pairs, right=True)
    elif keeps_right:
        to_left += _follows(plan, to_right, pairs, right=False)
    left, right = _push(plan.left, to_left), _push(plan.right, to_right)
    condition = condition_of(kept)
    if condition is None and plan.condition is not None:
        condition = TRUE
    return replace(plan, left=left, right=right, condition=condition), left_over


def _inner(plan: Join, predicates: Predicates, width: int) -> Pushed:
    to_left: Predicates = []
    to_right: Predicates = []
    kept: Predicates = []
    for p in predicates:
        side = _side(p, width) if can_move(p) else "both"
        if side == "left":
            to_left.append(p)
        elif side == "right":
            to_right.append(_to_right(plan, p))
        elif p not in kept:
            kept.append(p)
    pairs = [*equal_columns(kept), *_known(plan.left, plan.right)]
    on_right = list(to_right)
    to_right += _follows(plan, to_left, pairs, right=True)
    to_left += _follows(plan, on_right, pairs, right=False)
    for p in kept:
        _out_of_or(plan, p, to_left, to_right)
    timed = [] if plan.lateral else [p for p in kept if reads_clock(p)]  # a join has no timers
    condition = condition_of([p for p in kept if p not in timed])
    joined = replace(
        plan,
        left=_push(plan.left, to_left),
        right=_push(plan.right, to_right),
        kind="cross" if condition is None else "inner",
        condition=condition,
    )
    return filtered(joined, timed), []


def _known(left: LogicalPlan, right: LogicalPlan) -> list[Pair]:
    width = len(left.schema)
    moved = [(a + width, b + width) for a, b in known_equalities(right)]
    return [*known_equalities(left), *moved]


def _follows(
    plan: Join, predicates: Predicates, pairs: Sequence[Pair], *, right: bool
) -> Predicates:
    """What is known of one side (predicates: that moves there) says of the other through
    equalities, over that other side."""
    width = len(plan.left.schema)
    if plan.lateral or not pairs:
        return []
    if not right:
        known = [shift_columns(p, width) for p in (*predicates, *known_predicates(plan.right))]
        found = through_equalities(known, pairs, range(width))
        return _new(found, plan.left)
    known = [*predicates, *known_predicates(plan.left)]
    found = through_equalities(known, pairs, range(width, width + len(plan.right.schema)))
    return _new([shift_columns(p, -width) for p in found], plan.right)


def _new(predicates: Predicates, plan: LogicalPlan) -> Predicates:
    there = known_predicates(plan) if predicates else []
    return [p for p in predicates if p not in there]


def _out_of_or(plan: Join, predicate: Expr, to_left: Predicates, to_right: Predicates) -> None:
    """What an OR over both sides says of single inputs goes to them besides."""
    if plan.lateral:
        return
    width = len(plan.left.schema)
    for columns in (*input_columns(plan.left), *input_columns(plan.right, width)):
        found = out_of_or(predicate, columns)
        if found is not None and columns.start < width:
            to_left.append(found)
        elif found is not None:
            to_right.append(_to_right(plan, found))


def _merged(
    plan: Join, predicates: Predicates, width: int
) -> tuple[Predicates, Predicates, Predicates]:
    """(what stays above a FULL JOIN, what goes left, what goes right)."""
    staying, to_left, to_right = [], [], []
    for p in predicates:
        found = through_merged(p, plan.condition, width)
        if found is None:
            staying.append(p)
        else:
            to_left.append(found[0])
            to_right.append(found[1])
    return staying, to_left, to_right


def _one_sided_join(plan: Join, predicates: Predicates) -> Pushed:
    """Semi, anti, as-of: what reads only the left row moves to the left input."""
    width = len(plan.left.schema)
    to_left, left_over = _by_columns(plan, predicates, lambda i: i < width)
    to_right: Predicates = []
    kept: Predicates = []
    for p in parts_of(plan.condition):
        side = _side(p, width) if can_move(p) else "both"
        if plan.kind.startswith("asof") or plan.null_aware or plan.is_temporal:
            kept.append(p)
        elif side == "right":
            to_right.append(_to_right(plan, p))
        elif side == "left" and plan.kind == "semi":
            to_left.append(p)
        else:
            kept.append(p)
    if not (plan.null_aware or plan.is_temporal):
        pairs = [*equal_columns(kept), *_known(plan.left, plan.right)]
        to_right += _follows(plan, to_left, pairs, right=True)
    joined = replace(
        plan,
        left=_push(plan.left, to_left),
        right=_push(plan.right, to_right),
        condition=condition_of(kept),
    )
    return joined, left_over


def _to_right(plan: Join, predicate: Expr) -> Expr:
    """A predicate over right's columns, as a filter of the right input."""
    moved = shift_columns(predicate, -len(plan.left.schema))
    return deepen(moved, 1) if plan.lateral else moved


def _side(predicate: Expr, width: int) -> str:
    used = row_columns(predicate)
    if not used:
        return "both"
    if all(i < width for i in used):
        return "left"
    return "right" if all(i >= width for i in used) else "both"


def _without_needless_outer(plan: Join, predicates: Sequence[Expr]) -> Join:
    """LEFT → INNER (and so on) where the rows filled with NULLs are filtered out anyway."""
    if plan.kind not in ("left", "right", "full"):
        return plan
    width = len(plan.left.schema)
    left_columns = set(range(width))
    right_columns = set(range(width, len(plan.schema)))
    fills_right_gone = any(rejects_null(p, right_columns) for p in predicates)
    fills_left_gone = any(rejects_null(p, left_columns) for p in predicates)
    kind = plan.kind
    if kind in ("left", "full") and fills_right_gone:
        kind = "inner" if kind == "left" else "right"
    if kind in ("right", "full") and fills_left_gone:
        kind = "inner" if kind == "right" else "left"
    if kind == plan.kind:
        return plan
    return replace(plan, kind=kind)


_HANDLERS: dict[type[LogicalPlan], Callable[..., Pushed]] = {
    Project: _project,
    Aggregate: _aggregate,
    Window: _window,
    TimeWindow: _time_window,
    Distinct: _passing,
    Sort: _passing,
    DistinctOn: _distinct_on,
    TableFunction: _table_function,
    SetOperation: _set_operation,
    RecursiveCte: _recursive,
    Join: _join,
}
