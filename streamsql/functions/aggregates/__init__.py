"""The aggregates, a file for each family."""

from __future__ import annotations

from streamsql.functions.aggregates import (
    bits,
    booleans,
    collecting,
    count,
    extremes,
    json,
    ordered_set,
    position,
    regression,
    sums,
    variance,
)
from streamsql.functions.definitions import AggregateDef

AGGREGATES: tuple[AggregateDef, ...] = (
    *count.AGGREGATES,
    *sums.AGGREGATES,
    *extremes.AGGREGATES,
    *booleans.AGGREGATES,
    *variance.AGGREGATES,
    *regression.AGGREGATES,
    *collecting.AGGREGATES,
    *json.AGGREGATES,
    *ordered_set.AGGREGATES,
    *position.AGGREGATES,
    *bits.AGGREGATES,
)
