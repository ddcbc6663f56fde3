"""Shapes that an operator treats as one: Top-N."""

from __future__ import annotations

from dataclasses import dataclass

from streamsql.functions.expressions import (
    Call,
    Cast,
    ColumnRef,
    Expr,
    Literal,
    SortKey,
    conjuncts,
)
from streamsql.plan.nodes import DistinctOn, Filter, Limit, LogicalPlan, Window

RANKINGS = ("row_number", "rank", "dense_rank")
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


@dataclass(frozen=True)
class TopN:
    """The first rows of each partition.

    function: row_number, rank or dense_rank; a row is kept while its number is <= limit.
    number_column: position of the number in the output (behind the input's columns), None if the
    plan's output has none (DISTINCT ON, LIMIT). offset: rows left out at the start (LIMIT …
    OFFSET). ties: what orders rows that are equal in order_by.
    """

    input: LogicalPlan
    function: str
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]
    limit: int
    number_column: int | None = None
    offset: int = 0
    ties: tuple[SortKey, ...] = ()


def top_n(plan: LogicalPlan) -> TopN | None:
    """Recognise Filter(number <= n) over Window, DISTINCT ON, and ORDER BY … LIMIT with
    constants."""
    match plan:
        case Filter():
            return _filtered(plan)
        case DistinctOn():
            keys = tuple(
                ColumnRef(index=k, type=plan.schema[k].type, name=plan.schema[k].name)
                for k in plan.keys
            )
            return TopN(plan.input, "row_number", keys, plan.order_by, 1, ties=plan.ties)
        case Limit():
            return _limited(plan)
    return None


def _limited(plan: Limit) -> TopN | None:
    limit, offset = plan.limit, plan.offset
    if not isinstance(limit, Literal) or limit.value is None:
        return None
    skipped = 0
    if offset is not None:
        if not isinstance(offset, Literal):
            return None
        skipped = offset.value or 0
    if plan.with_ties:
        return None if skipped else TopN(plan.input, "rank", (), plan.order_by, limit.value)
    total = limit.value + skipped
    return TopN(plan.input, "row_number", (), plan.order_by, total, offset=skipped, ties=plan.ties)


def _filtered(plan: Filter) -> TopN | None:
    window = plan.input
    if not isinstance(window, Window) or len(window.calls) != 1:
        return None
    call = window.calls[0]
    if call.function not in RANKINGS or not call.order_by:
        return None
    number = len(window.input.schema)
    limits = [_upper_bound(part, number) for part in conjuncts(plan.predicate)]
    if any(n is None for n in limits):
        return None
    return TopN(
        window.input,
        call.function,
        call.partition_by,
        call.order_by,
        max(0, min(n for n in limits if n is not None)),
        number_column=number,
        ties=call.ties,
    )


def _upper_bound(part: Expr, number: int) -> int | None:
    """n of `number <= n`, `number < n + 1`, `number = 1`; None for any other condition."""
    if not isinstance(part, Call) or len(part.args) != 2 or part.function not in _FLIPPED:
        return None
    (a, b), function = part.args, part.function
    if isinstance(_bare(a), Literal):
        a, b, function = b, a, _FLIPPED[function]
    column, bound = _bare(a), _bare(b)
    if not isinstance(column, ColumnRef) or column.index != number:
        return None
    if not isinstance(bound, Literal) or not isinstance(bound.value, int):
        return None
    if function == "le" or (function == "eq" and bound.value == 1):
        return bound.value
    return bound.value - 1 if function == "lt" else None


def _bare(expr: Expr) -> Expr:
    """Without a widening cast between integers."""
    if isinstance(expr, Cast) and expr.type.is_integer and expr.arg.type.is_integer:
        return expr.arg
    return expr
