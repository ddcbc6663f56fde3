"""Set-returning functions in the select list."""

from __future__ import annotations

from collections.abc import Sequence

from streamsql.core.schema import Column, Schema
from streamsql.functions.expressions import ColumnRef, Expr, transform
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
        schemas = [Schema((Column(c.function, c.type),)) for c in calls]
        if len(calls) == 1:
            source = table_function(source, calls[0].function, calls[0].args, schemas[0])
        else:
            items = [(c.function, c.args, s) for c, s in zip(calls, schemas, strict=True)]
            source = zip_functions(source, items)

        def swap(e: Expr, calls: list[SetExpr] = calls, first: int = first) -> Expr:
            if isinstance(e, SetExpr) and e in calls:
                index = first + calls.index(e)
                return ColumnRef(index=index, type=e.type, name=e.function, position=e.position)
            return e

        current = [transform(e, swap) for e in current]
