"""Aggregates that are kept up to date row by row; all others are recomputed per key.

`MAKERS` is the registry: aggregate name -> maker(call, append_only) -> Accumulator or None, where
None sends the node to recompute per key.
"""

from __future__ import annotations

from collections.abc import Callable

from streamsql.functions.expressions import AggregateCall
from streamsql.operators.accumulators.base import Accumulator
from streamsql.operators.accumulators.bitwise import make_bits
from streamsql.operators.accumulators.booleans import Truth
from streamsql.operators.accumulators.count import Count, CountRows
from streamsql.operators.accumulators.extremes import make_extreme
from streamsql.operators.accumulators.moments import NAMES, make_moments
from streamsql.operators.accumulators.ordered import make_beside, make_ordered
from streamsql.operators.accumulators.percentiles import make_mode, make_percentile
from streamsql.operators.accumulators.regression import NAMES as REGRESSIONS
from streamsql.operators.accumulators.regression import make_regression
from streamsql.operators.accumulators.sums import make_sum

Maker = Callable[[AggregateCall, bool], Accumulator | None]


ORDERED = (
    "array_agg", "string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg",
    "first_value", "last_value", "any_value",
)  # fmt: skip


def _count_star(call: AggregateCall, append_only: bool) -> Accumulator:
    return CountRows(call) if call.filter is None else Count(call)


MAKERS: dict[str, Maker] = {
    "count_star": _count_star,
    "count": lambda call, append_only: Count(call),
    "sum": make_sum,
    "avg": make_sum,
    "min": make_extreme,
    "max": make_extreme,
    "bool_and": lambda call, append_only: Truth(call),
    "bool_or": lambda call, append_only: Truth(call),
    **dict.fromkeys(sorted(NAMES), make_moments),
    "approx_count_distinct": lambda call, append_only: Count(call),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), make_bits),
    **dict.fromkeys(ORDERED, make_ordered),
    **dict.fromkeys(("arg_min", "arg_max"), make_beside),
    **dict.fromkeys(("percentile_cont", "percentile_disc", "median"), make_percentile),
    "mode": make_mode,
    **dict.fromkeys(REGRESSIONS, make_regression),
}


def make(call: AggregateCall, append_only: bool) -> Accumulator | None:
    """The accumulator of a call over an input that is append-only or not; None = there is none."""
    if call.order_by and call.function not in MAKERS:
        return None
    maker = MAKERS.get(call.function)
    return None if maker is None else maker(call, append_only)


__all__ = ["MAKERS", "Accumulator", "make"]
