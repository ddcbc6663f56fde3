"""Incremental operators, one file each, and the order in which they are asked to compute a node.

`OPERATORS` is the registry: (logical node class, lower). `lower(node, builder)` answers the
circuit node, or None = "not mine, ask the next one". The last entry is the general operator, which
takes everything.
"""

from __future__ import annotations

from streamsql.operators import (
    aggregate,
    asof_join,
    clock_columns,
    condition_join,
    distinct,
    general,
    grouping_sets,
    interval_join,
    join,
    map,
    not_in,
    on_time,
    outer_join,
    over,
    panes,
    recursive,
    semi_join,
    session,
    session_aggregate,
    set_operation,
    source,
    stamp,
    table_function,
    temporal_filter,
    temporal_join,
    temporal_join_versions,
    time_window,
    top_n,
    union,
)
from streamsql.operators.builder import Builder, Lower, Options
from streamsql.plan import nodes as plan

OPERATORS: tuple[tuple[type[plan.LogicalPlan], Lower], ...] = (
    (plan.Scan, source.lower_scan),
    (plan.Values, source.lower_values),
    (plan.LogicalPlan, top_n.lower),
    (plan.Project, interval_join.lower_project),
    (plan.Project, join.lower_project),
    (plan.Project, map.lower_project),
    (plan.Filter, map.lower_filter),
    (plan.Filter, temporal_filter.lower),
    (plan.ClockColumns, clock_columns.lower),
    (plan.Stamped, stamp.lower),
    (plan.OnTime, on_time.lower),
    (plan.TimeWindow, time_window.lower),
    (plan.TimeWindow, session.lower),
    (plan.Aggregate, panes.lower),
    (plan.Aggregate, session_aggregate.lower),
    (plan.Aggregate, grouping_sets.lower),
    (plan.Aggregate, aggregate.lower),
    (plan.Join, not_in.lower),
    (plan.Join, interval_join.lower_join),
    (plan.Join, condition_join.lower),
    (plan.Join, join.lower_inner),
    (plan.Join, semi_join.lower),
    (plan.Join, outer_join.lower),
    (plan.Join, asof_join.lower),
    (plan.Join, temporal_join.lower),
    (plan.Join, temporal_join_versions.lower),
    (plan.TableFunction, table_function.lower),
    (plan.SetOperation, union.lower_union),
    (plan.SetOperation, distinct.lower_union_distinct),
    (plan.SetOperation, set_operation.lower),
    (plan.Distinct, distinct.lower),
    (plan.Window, over.lower),
    (plan.RecursiveCte, recursive.lower),
    (plan.Sort, general.lower_sort),
    (plan.Limit, general.lower_offset),
    (plan.LogicalPlan, general.lower),
)

__all__ = ["OPERATORS", "Builder", "Lower", "Options"]
