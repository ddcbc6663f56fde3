"""Rows that differ by the rounding of floats alone, or by which of equal intervals they show: the
order of sums is not part of a result, nor which '1 month' or '30 days' came first."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from typing import Any

import numpy as np

from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.core.types import Kind
from streamsql.plan.nodes import Aggregate, LogicalPlan, Window
from streamsql.plan.visit import walk_plan

TOLERANCE = 1e-9  # relative; sums of any order agree far better, and no other fault is so small


SPREADS = frozenset({
    "variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop",
})  # fmt: skip


def rounds_numerics(plan: LogicalPlan) -> bool:
    """Whether NUMERICs come from floats: a variance of integers is computed in them."""
    calls = [
        call
        for node in walk_plan(plan)
        if isinstance(node, Aggregate | Window)
        for call in (node.aggregates if isinstance(node, Aggregate) else node.calls)
    ]
    return any(c.function in SPREADS and c.type.kind is Kind.NUMERIC for c in calls)


def float_sums(plan: LogicalPlan) -> tuple[bool, bool]:
    """Whether there are SUMs or AVGs of floats over groups, and over frames."""

    def any_of(node: type[Aggregate] | type[Window]) -> bool:
        calls = (
            call
            for found in walk_plan(plan)
            if isinstance(found, node)
            for call in (found.aggregates if isinstance(found, Aggregate) else found.calls)
        )
        return any(c.function in ("sum", "avg") and c.args[0].type.is_float for c in calls)

    return any_of(Aggregate), any_of(Window)


def without_rounding(difference: Delta, schema: Schema, *, numerics: bool = False) -> Delta:
    """The entries of a consolidated difference that are not another entry's rounding.

    A row too many and a row missing cancel if they are equal but for float columns, and those
    are close; of intervals, equal. difference: as many entries as VERIFY is about to report.
    numerics: NUMERIC columns count as floats (`rounds_numerics`).
    """
    real = [
        i
        for i, column in enumerate(schema)
        if column.type.is_float
        or column.type.kind is Kind.INTERVAL
        or (numerics and column.type.kind is Kind.NUMERIC)
    ]
    if not real or not difference.batch.num_rows:
        return difference
    weights = np.array(difference.weights_or_ones())
    columns = [c.to_pylist() for c in difference.batch.columns]
    waiting: dict[str, list[int]] = defaultdict(list)
    for row in np.flatnonzero(weights < 0).tolist():
        waiting[_rest(columns, real, row)].append(row)
    for row in np.flatnonzero(weights > 0).tolist():
        for other in waiting[_rest(columns, real, row)]:
            if weights[other] and all(_close(columns[i][row], columns[i][other]) for i in real):
                both = min(int(weights[row]), -int(weights[other]))
                weights[row] -= both
                weights[other] += both
                if not weights[row]:
                    break
    keep = np.flatnonzero(weights)
    return Delta(difference.take(keep).batch, weights[keep])


def _length(interval: Any) -> int:
    """Nanoseconds, a month being 30 days and a day 24 hours."""
    days = interval.months * 30 + interval.days
    return int(days * 86_400_000_000_000 + interval.nanoseconds)


def _rest(columns: list[list[Any]], real: list[int], row: int) -> str:
    """All of a row that must be equal exactly."""
    return repr([c[row] for i, c in enumerate(columns) if i not in real])


def _close(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if not isinstance(one, float | Decimal):
        return bool(_length(one) == _length(other))
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-12)
