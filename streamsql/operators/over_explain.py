"""What EXPLAIN says of OVER: the calls, and how many rows a change makes it compute."""

from __future__ import annotations

from collections.abc import Sequence

from streamsql.core.schema import Schema
from streamsql.functions.expressions import WindowCall
from streamsql.operators.over_calls import Load, Reach, span_of
from streamsql.plan.render import render_window


def detail(calls: Sequence[WindowCall], schema: Schema) -> str:
    """The calls as SQL, and what a changed row costs."""
    listed = ", ".join(render_window(call, schema) for call in calls)
    costs = dict.fromkeys(_cost(call, *span_of(call)) for call in calls)
    return f"{listed}; a change computes {' or '.join(costs)}"


def _cost(call: WindowCall, reach: Reach, load: Load) -> str:
    """Which rows a row that comes or goes makes it compute."""
    if not call.order_by and reach.mode != "rows":
        return "its partition"
    start, end, extent = reach.start, reach.end, load.extent
    if reach.edge is not None:
        which = "last row" if reach.edge < 0 else "first rows"
        return f"itself, and its partition where it is among the {which}"
    if start is None and end is None:
        return "its partition"
    if start is None:
        rows = "the rows from it to its partition's end"
    elif end is None:
        rows = "the rows from its partition's start to it"
    else:
        rows = "the rows whose frame holds it"
    if (extent.start is None and load.left == "all") or (
        extent.end is None and load.right == "all"
    ):
        return f"{rows}, reading its partition"
    return rows
