"""What orders rows that are equal in ORDER BY: a key of theirs, or all they hold.

OVER, DISTINCT ON and LIMIT get `ties`, aggregates that show an order (array_agg, string_agg,
first_value, arg_max, …) more sort keys, so that a result is a function of its input's rows alone:
the same in a view, in a plain SELECT and in VERIFY, whatever came first. Rows that are still equal
are equal in all that is read of them, and no result tells them apart.

The rule comes last, where what nothing reads is gone: only columns that are kept anyway are asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streamsql.core.types import TEXT, Kind, SqlType
from streamsql.functions import registry
from streamsql.functions.expressions import (
    AggregateCall,
    Cast,
    ColumnRef,
    Expr,
    Literal,
    SortKey,
    WindowCall,
    column,
)
from streamsql.functions.window import BY_PEERS
from streamsql.kernels.order_keys import OrderColumn, can_order
from streamsql.plan.nodes import (
    Aggregate,
    DistinctOn,
    Filter,
    Limit,
    LogicalPlan,
    Project,
    Scan,
    TableFunction,
    TimeWindow,
    Window,
)
from streamsql.plan.optimizer.predicates import reads_clock
from streamsql.plan.properties import orders_rows, unique_keys
from streamsql.plan.visit import transform_plan

ENDS = frozenset({"any_value", "first_value", "last_value"})
BESIDE = frozenset({"arg_min", "arg_max"})


def break_ties(plan: LogicalPlan) -> LogicalPlan:
    """The plan in which every order is total, as far as rows can be told apart."""
    return transform_plan(plan, _total)


def without_bare_limits(plan: LogicalPlan) -> LogicalPlan:
    """LIMIT without ORDER BY takes whichever rows come first, as a plain SELECT may: it is not to
    sort all of them."""

    def bare(node: LogicalPlan) -> LogicalPlan:
        if isinstance(node, Limit) and node.ties and not node.order_by:
            return replace(node, ties=())
        return node

    return transform_plan(plan, bare)


def _total(node: LogicalPlan) -> LogicalPlan:
    match node:
        case Window():
            return _window(node)
        case DistinctOn():
            keys = [column(k, node.schema[k].type) for k in node.keys]
            ties = ties_of(node.input, [*keys, *(k.expr for k in node.order_by)])
            return replace(node, ties=ties)
        case Limit() if not node.with_ties or node.offset is not None:
            return replace(node, ties=ties_of(node.input, [k.expr for k in node.order_by]))
        case Aggregate():
            arrival = keeps_arrival(node.input)
            calls = tuple(_aggregate(call, arrival) for call in node.aggregates)
            return node if calls == node.aggregates else replace(node, aggregates=calls)
    return node


# --- OVER ---------------------------------------------------------------------------------------
def _window(node: Window) -> Window:
    """Calls of one order share their ties, so that one operator keeps the rows of all of them."""
    found: dict[tuple[object, ...], tuple[SortKey, ...]] = {}
    for call in node.calls:
        order = (call.partition_by, call.order_by)
        if order not in found and tells_peers_apart(call):
            given = [*call.partition_by, *(k.expr for k in call.order_by)]
            found[order] = ties_of(node.input, given)
    ties = [found.get((c.partition_by, c.order_by), ()) for c in node.calls]
    calls = tuple(replace(c, ties=t) for c, t in zip(node.calls, ties, strict=True))
    return replace(node, calls=calls)


def tells_peers_apart(call: WindowCall) -> bool:
    """Whether rows that are equal in ORDER BY may have different results, or their order shows."""
    if call.function in BY_PEERS:
        return False
    types = tuple(a.type for a in call.args)
    if registry.window_of(call.function, types) is not None:
        return True
    if call.frame is not None and call.frame.mode == "rows":
        return True
    return shows_order(call)


def shows_order(call: WindowCall) -> bool:
    """Whether the order of the rows in its frame shows in an aggregate."""
    if call.function.startswith("duckdb:") or call.function in BESIDE:
        return call.function in BESIDE
    return registry.aggregate_of(call.function, tuple(a.type for a in call.args)).order_sensitive


# --- aggregates ---------------------------------------------------------------------------------
def keeps_arrival(plan: LogicalPlan) -> bool:
    """Whether rows come up in the order in which a table got them, which the table knows: it is
    read row by row, and no row stays away for a while."""
    if isinstance(plan, Scan):
        return plan.kind in ("table", "source")
    if isinstance(plan, TimeWindow) and plan.kind == "session":
        return False
    if isinstance(plan, Filter) and reads_clock(plan.predicate):
        return False
    if isinstance(plan, Filter | Project | TimeWindow | TableFunction):
        below = plan.inputs()
        return len(below) == 1 and keeps_arrival(below[0])
    return False


def _aggregate(call: AggregateCall, arrival: bool) -> AggregateCall:
    """Lists without ORDER BY show the order of arrival where there is one, else that of values."""
    if call.function in ("min", "max") and call.args[0].type.kind is Kind.INTERVAL:
        return _extreme(call)
    if call.distinct and call.function in ENDS and not call.order_by:
        return replace(call, order_by=(SortKey(expr=call.args[0]),))
    if call.distinct or (arrival and not call.order_by):
        return call
    if call.function not in BESIDE and not orders_rows(call):
        return call
    ordered = {k.expr for k in call.order_by}
    more = [tie_key(a) for a in call.args if not isinstance(a, Literal) and a not in ordered]
    return replace(call, order_by=(*call.order_by, *dict.fromkeys(more)))


def _extreme(call: AggregateCall) -> AggregateCall:
    """MIN or MAX of intervals: one of the values as it was written, of equal ones the first as
    text."""
    value = call.args[0]
    by = SortKey(expr=value, descending=call.function == "max", nulls_first=False)
    order = (by, tie_key(value))
    return replace(call, function="any_value", distinct=False, order_by=order)


# --- orders -------------------------------------------------------------------------------------
def ties_of(plan: LogicalPlan, given: Iterable[Expr]) -> tuple[SortKey, ...]:
    """What makes an order by `given` a total one: the rest of the shortest key that is known, or
    all other columns, those of fixed width first."""
    columns = {e.index: e.type for e in given if isinstance(e, ColumnRef)}
    keys = unique_keys(plan)
    if keys:
        rest = min(([i for i in k if i not in columns] for k in keys), key=lambda k: (len(k), k))
        return tuple(tie_key(_column(plan, i)) for i in rest)
    alike = [i for i, type_ in columns.items() if not _is_exact(type_)]
    others = [i for i in range(len(plan.schema)) if i not in columns]
    chosen = sorted([*others, *alike], key=lambda i: (_width(plan.schema[i].type), i))
    return tuple(tie_key(_column(plan, i)) for i in chosen)


def tie_key(expr: Expr) -> SortKey:
    """The expression as a last sort key; as text where there is no order, or equals differ."""
    if not _is_exact(expr.type):
        expr = Cast(arg=expr, type=TEXT)
    return SortKey(expr=expr)


def _column(plan: LogicalPlan, index: int) -> Expr:
    return column(index, plan.schema[index].type, plan.schema[index].name)


def _is_exact(type_: SqlType) -> bool:
    """Whether values have an order, and equal ones look the same ('1 month' is '30 days')."""
    return can_order(type_.arrow) and type_.kind is not Kind.INTERVAL


def _width(type_: SqlType) -> int:
    """Numbers and times first: they are compared as they are."""
    if not _is_exact(type_):
        return 2
    return int(OrderColumn(type_.arrow).is_text)
