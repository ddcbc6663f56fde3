"""The logical plan: relational nodes over bound expressions.

Every node knows its `schema`; expressions refer to the columns of the node's input by position.
The plan holds nothing of a single machine: the same plan is lowered to DuckDB SQL (ad-hoc reads,
recompute operators, the test oracle) and to a circuit of incremental operators.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from streamsql.core.schema import Schema
from streamsql.functions.expressions import (
    AggregateCall,
    Expr,
    SortKey,
    WindowCall,
)


@dataclass(frozen=True, kw_only=True)
class LogicalPlan:
    """Base node. `schema`: its output columns."""

    schema: Schema

    def inputs(self) -> tuple[LogicalPlan, ...]:
        return ()

    def with_inputs(self, inputs: tuple[LogicalPlan, ...]) -> LogicalPlan:
        assert not inputs
        return self


@dataclass(frozen=True, kw_only=True)
class Unary(LogicalPlan):
    """A node with one input."""

    input: LogicalPlan

    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[LogicalPlan, ...]) -> LogicalPlan:
        return replace(self, input=inputs[0])


@dataclass(frozen=True, kw_only=True)
class Scan(LogicalPlan):
    """A relation of the catalog: table, source, materialized view or system relation.

    relation_id: the catalog's OID. unique_keys: sets of column positions that are unique.
    watermark_column: position of the column the relation's watermark speaks of, or None. access:
    how a plain query finds the rows, for EXPLAIN ("" = all of them).
    """

    relation_id: int
    name: str
    kind: str = "table"  # table | source | materialized_view | system
    unique_keys: tuple[tuple[int, ...], ...] = ()
    append_only: bool = False
    watermark_column: int | None = None
    access: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class Values(LogicalPlan):
    """Constant rows (VALUES, or SELECT without FROM: one row, no columns)."""

    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Project(Unary):
    """exprs: one per output column."""

    exprs: tuple[Expr, ...]


@dataclass(frozen=True, kw_only=True)
class Filter(Unary):
    """Rows where `predicate` is TRUE."""

    predicate: Expr


TEMPORAL_KINDS = frozenset({"lookup", "lookup_left", "versioned", "versioned_left"})


@dataclass(frozen=True, kw_only=True)
class Join(LogicalPlan):
    """kind: inner, left, right, full, cross, semi, anti, asof, asof_left, lookup, lookup_left,
    versioned, versioned_left.

    condition: over left's columns followed by right's. Output: left ++ right (semi, anti: left
    only).
    null_aware: anti join with NOT IN's NULL rules: a right row counts as a match where the
    condition is TRUE *or NULL* (only its equalities may be NULL; the rest is wrapped in is_true).
    lateral: `right` may hold OuterRef(depth=1) to left's columns. asof: the equalities and exactly
    one inequality (lt, le, gt, ge) are in `condition`, each with its left side over left's columns;
    of equally near right rows the greatest one by its columns (each DESC NULLS LAST, in order) is
    taken. lookup: temporal join by processing time. versioned: by event time; the condition ends in
    `left time >= right's watermark column`.
    """

    left: LogicalPlan
    right: LogicalPlan
    kind: str = "inner"
    condition: Expr | None = None
    lateral: bool = False
    null_aware: bool = False

    @property
    def is_temporal(self) -> bool:
        """FOR SYSTEM_TIME AS OF: what a row is put beside depends on when it came."""
        return self.kind in TEMPORAL_KINDS

    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[LogicalPlan, ...]) -> LogicalPlan:
        return replace(self, left=inputs[0], right=inputs[1])


@dataclass(frozen=True, kw_only=True)
class Aggregate(Unary):
    """GROUP BY. Output: the group keys (positions of input columns), then one column an aggregate.

    keys: positions in the input. No keys and no grouping_sets = global (always one row).
    grouping_sets: tuples of positions *into keys*; None = one set of all keys. A key outside of
    the set is NULL. grouping_calls: GROUPING(…) calls, each a tuple of positions into keys,
    appended as INTEGER columns after the aggregates.
    """

    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    grouping_sets: tuple[tuple[int, ...], ...] | None = None
    grouping_calls: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Window(Unary):
    """OVER calls. Output: the input's columns, then one column a call."""

    calls: tuple[WindowCall, ...]


@dataclass(frozen=True, kw_only=True)
class ClockColumns(Unary):
    """Output: the input's columns, then one BOOLEAN a condition on now(); each turns by the clock.

    Only in plans that a view is compiled from (`operators.clock_plan`)."""

    conditions: tuple[Expr, ...]


@dataclass(frozen=True, kw_only=True)
class Stamped(Unary):
    """Output: the input's columns, then the time at which each row arrived (TIMESTAMPTZ).

    Only in plans that a view is compiled from (`operators.clock_plan`)."""


@dataclass(frozen=True, kw_only=True)
class WindowSpec:
    """Sizes of a time window: `months` (calendar units) and `us` (exact) never both non-zero,
    except that `days` counts whole days apart, because with a time zone they follow the local
    calendar."""

    months: int = 0
    days: int = 0
    us: int = 0


@dataclass(frozen=True, kw_only=True)
class TimeWindow(Unary):
    """TUMBLE / HOP / CUMULATE / SESSION. Output: input's columns ++ window_start, window_end,
    window_time (types: that of the time column).

    kind: tumble, hop, cumulate, session. time_column: position in the input (DATE, TIMESTAMP or
    TIMESTAMPTZ). size: window length (session: the gap). slide: hop's hop, cumulate's step.
    offset: may be negative. tz: zone name or None (UTC). partition_by: session keys (positions).
    max_size: session `max`. All sizes of one node are months, or none is; offset only then.

    Rows with a NULL or infinite time are in no window. The grid is aligned to the Unix epoch
    (floor). Without tz: floor((t - offset) / step). Months: by the number of the month of t -
    (days and µs of the offset) since 1970-01, from the offset's months on. With tz: as
    `functions/calendar_windows.py` says. SESSION: neighbours at most `size` apart (<=) share a
    session; end = last + size; with max_size a row at or behind start + max_size starts a new one
    and end is at most start + max_size.
    """

    kind: str
    time_column: int
    size: WindowSpec
    slide: WindowSpec | None = None
    offset: WindowSpec = WindowSpec()
    tz: str | None = None
    partition_by: tuple[int, ...] = ()
    max_size: WindowSpec | None = None


@dataclass(frozen=True, kw_only=True)
class OnTime(Unary):
    """The input's rows without those that come too late for all windows which a TimeWindow above
    will put them in, and those that are in none. Fields: as in TimeWindow; drops: else they are
    only known to be of no use.

    Only in plans that a view is compiled from (`operators.on_time_plan`)."""

    kind: str
    time_column: int
    size: WindowSpec
    slide: WindowSpec | None = None
    offset: WindowSpec = WindowSpec()
    tz: str | None = None
    drops: bool = True


@dataclass(frozen=True, kw_only=True)
class Distinct(Unary):
    """SELECT DISTINCT over all columns."""


@dataclass(frozen=True, kw_only=True)
class DistinctOn(Unary):
    """SELECT DISTINCT ON (keys) … ORDER BY order_by: the first row of each key. ties: as in
    `WindowCall`."""

    keys: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    ties: tuple[SortKey, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sort(Unary):
    """ORDER BY without a limit; has no meaning for a view's content."""

    order_by: tuple[SortKey, ...]


@dataclass(frozen=True, kw_only=True)
class Limit(Unary):
    """[ORDER BY …] LIMIT/OFFSET (the sort belongs to the node). limit None = no limit. with_ties:
    FETCH … WITH TIES. ties: as in `WindowCall`."""

    order_by: tuple[SortKey, ...]
    limit: Expr | None
    offset: Expr | None = None
    with_ties: bool = False
    ties: tuple[SortKey, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SetOperation(LogicalPlan):
    """kind: union, except, intersect; both inputs have the output's types."""

    left: LogicalPlan
    right: LogicalPlan
    kind: str
    all: bool

    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[LogicalPlan, ...]) -> LogicalPlan:
        return replace(self, left=inputs[0], right=inputs[1])


@dataclass(frozen=True, kw_only=True)
class TableFunction(Unary):
    """A set-returning function applied to each input row (UNNEST, generate_series, …).

    Output: the input's columns, then the function's (and `ordinality` BIGINT when
    with_ordinality).
    FROM f(...) alone has `Values` with one empty row as input. outer: LEFT JOIN LATERAL f ON true.
    """

    function: str
    args: tuple[Expr, ...]
    with_ordinality: bool = False
    outer: bool = False


@dataclass(frozen=True, kw_only=True)
class RecursiveCte(LogicalPlan):
    """WITH RECURSIVE: base UNION [ALL] step, where the step reads `CteRef(cte_id)`."""

    cte_id: int
    base: LogicalPlan
    step: LogicalPlan
    all: bool

    def inputs(self) -> tuple[LogicalPlan, ...]:
        return (self.base, self.step)

    def with_inputs(self, inputs: tuple[LogicalPlan, ...]) -> LogicalPlan:
        return replace(self, base=inputs[0], step=inputs[1])


@dataclass(frozen=True, kw_only=True)
class CteRef(LogicalPlan):
    """The rows of the recursive CTE so far, inside its own step."""

    cte_id: int


@dataclass(frozen=True, kw_only=True)
class BoundQuery:
    """What the binder returns for a query: the plan and what the reader should know beside it.

    order_by: sort of the final result for ad-hoc reads (already a Sort/Limit node inside `plan`).
    parameter_types: types of $1, $2, … as inferred or declared. relations: OIDs read.
    origins: for each output column (relation_id, column position) if it is a plain column, else
    None.
    """

    plan: LogicalPlan
    parameter_types: tuple[Any, ...] = ()
    relations: frozenset[int] = frozenset()
    origins: tuple[tuple[int, int] | None, ...] = ()
    notices: tuple[str, ...] = field(default=(), compare=False)
