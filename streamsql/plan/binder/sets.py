"""Set-returning functions in the select list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamsql.functions.expressions import Call, Expr, column, transform
from streamsql.plan.binder.placeholders import SetExpr
from streamsql.plan.binder.regroup import has_placeholder
from streamsql.plan.binder.table_functions import table_function, zip_functions
from streamsql.plan.nodes import LogicalPlan


def add_set_functions(source: LogicalPlan, exprs: Sequence[Expr]) -> tuple[LogicalPlan, list[Expr]]:
    """Expand the set-returning calls in `exprs`, innermost first.

    Calls of one nesting level run side by side: the row is repeated as often as the longest gives
    values, the others give NULL then. The source's columns keep their positions.
    """
    current = list(exprs)
    while True:
        calls: list[SetExpr] = []

        def collect(e: Expr, calls: list[SetExpr] = calls) -> Expr:
            if (
                isinstance(e, SetExpr)
                and e not in calls
                and not any(has_placeholder(a, SetExpr) for a in e.args)
            ):
                calls.append(e)
            return e

        for e in current:
            transform(e, collect)
        if not calls:
            return source, current
        first = len(source.schema)
        if len(calls) == 1:
            only = calls[0]
            source = table_function(source, only.function, only.args, only.schema)
        else:
            source = zip_functions(source, [(c.function, c.args, c.schema) for c in calls])
        values = _values(calls, first)

        def swap(e: Expr, values: dict[SetExpr, Expr] = values) -> Expr:
            return values.get(e, e) if isinstance(e, SetExpr) else e

        current = [transform(e, swap) for e in current]


def _values(calls: Sequence[SetExpr], first: int) -> dict[SetExpr, Expr]:
    """What each call stands for over the expanded row: its column, or a struct of its columns."""
    found: dict[SetExpr, Expr] = {}
    for call in calls:
        refs = [column(first + i, c.type, c.name) for i, c in enumerate(call.schema)]
        first += len(refs)
        if len(refs) == 1:
            found[call] = replace(refs[0], name=call.function, position=call.position)
        else:
            found[call] = Call(function="row", args=tuple(refs), type=call.type)
    return found
