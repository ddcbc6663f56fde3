"""Stages: tables with data, and the query shapes that are run over them."""

from __future__ import annotations

from ..harness import Stage
from . import aggregates, events, joins, ordering, tpcds, tpch, types

STAGES: tuple[Stage, ...] = (
    tpch.STAGE,
    tpcds.STAGE,
    joins.STAGE,
    aggregates.STAGE,
    ordering.STAGE_TOP,
    ordering.STAGE_OVER,
    events.STAGE,
    events.STREAM_STAGE,
    events.CLOCK_STAGE,
    types.STAGE,
)
