"""The aggregates, a file for each family."""

from __future__ import annotations

from streamsql.functions.aggregates import basic
from streamsql.functions.definitions import AggregateDef

AGGREGATES: tuple[AggregateDef, ...] = (*basic.AGGREGATES,)
