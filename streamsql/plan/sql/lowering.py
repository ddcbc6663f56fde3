"""The lowering itself: one function per plan node, each giving a whole SELECT.

Every nested SELECT names its columns c0, c1, …; FROM items are t1, t2, …. Joins, filters,
projections, sorts and limits that stand directly on one another share one SELECT. DuckDB never sees
a user's name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamsql.core.errors import InvariantViolation
from streamsql.functions.duckdb_sql import aggregate_sql, expression_sql, window_sql
from streamsql.functions.expressions import (
    ColumnRef,
    Expr,
    OuterRef,
    SortKey,
    Subquery,
)
from streamsql.plan.depth import limited_depth
from streamsql.plan.nodes import (
    Aggregate,
    CteRef,
    Distinct,
    DistinctOn,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    RecursiveCte,
    Scan,
    SetOperation,
    Sort,
    TableFunction,
    TimeWindow,
    Values,
    Window,
)

RelationSql = Callable[[Scan], str]
Row = Callable[[int], str]
"""SQL of column i of a row."""
Env = tuple[Row, ...]
"""The rows around, outermost first; OuterRef(depth=1) is the last."""


@limited_depth
def to_duckdb_sql(plan: LogicalPlan, relation: RelationSql, *, timezone: str = "UTC") -> str:
    """One SELECT statement that answers the plan.

    relation: SQL of the FROM item for a Scan; its columns must be named c0, c1, … in the order of
    `scan.schema` with the exact DuckDB types. Parameters must be replaced by literals before. A
    plan without columns gives one column c0 to be ignored. Rows that cannot be computed raise
    duckdb errors which `functions.duckdb_errors.translate` makes ours.
    """
    return Lowering(relation, timezone).query(plan, ())


@dataclass(frozen=True)
class Source:
    """A FROM clause and how its row's columns are written."""

    sql: str
    row: Row


class Lowering:
    """State of one lowering: alias numbers, names of recursive CTEs."""

    def __init__(self, relation: RelationSql, timezone: str) -> None:
        self.relation = relation
        self.timezone = timezone
        self._numbers = itertools.count(1)
        self._ctes: dict[int, str] = {}

    def alias(self) -> str:
        """A new alias."""
        return f"t{next(self._numbers)}"

    # expressions --------------------------------------------------------------------------------
    def expr(self, expr: Expr, row: Row, env: Env) -> str:
        """The expression over `row`, inside the rows of `env`."""
        if isinstance(expr, ColumnRef):
            return row(expr.index)

        def column(ref: ColumnRef | OuterRef) -> str:
            if isinstance(ref, ColumnRef):
                return row(ref.index)
            return env[-ref.depth](ref.index)

        def subquery(node: Subquery) -> str:
            from streamsql.plan.sql.subqueries import subquery_sql

            return subquery_sql(self, node, row, env)

        return expression_sql(expr, column, subquery, timezone=self.timezone)

    def order(self, keys: Sequence[SortKey], row: Row, env: Env) -> str:
        """ORDER BY list with everything explicit."""
        return ", ".join(
            f"{self.expr(k.expr, row, env)} {'DESC' if k.descending else 'ASC'} "
            f"NULLS {'FIRST' if k.nulls_first else 'LAST'}"
            for k in keys
        )

    # FROM items ---------------------------------------------------------------------------------
    def item(self, plan: LogicalPlan, env: Env) -> Source:
        """The plan as one aliased FROM item."""
        alias = self.alias()
        if isinstance(plan, Scan):
            sql = f"{self.relation(plan)} AS {alias}"
        elif isinstance(plan, CteRef):
            sql = f"{self._ctes[plan.cte_id]} AS {alias}"
        else:
            sql = f"({self.query(plan, env)}) AS {alias}"
        return Source(sql, lambda i: f"{alias}.c{i}")

    def source(self, plan: LogicalPlan, env: Env) -> Source:
        """The plan as a FROM clause; joins are written side by side."""
        if isinstance(plan, Join) and plan.kind in _JOIN_WORDS:
            from streamsql.plan.sql.joins import join_source

            return join_source(self, plan, env)
        return self.item(plan, env)

    # whole queries ------------------------------------------------------------------------------
    def query(self, plan: LogicalPlan, env: Env) -> str:
        """A SELECT for the plan."""
        handler = _HANDLERS.get(type(plan))
        if handler is None:
            raise InvariantViolation(f"no SQL for plan node {type(plan).__name__}")
        return handler(self, plan, env)

    def columns(self, plan: LogicalPlan, row: Row) -> str:
        """The select list that passes the row on."""
        found = [as_column(row(i), i) for i in range(len(plan.schema))]
        return ", ".join(found) or "1 AS c0"

    def stack(self, plan: LogicalPlan, env: Env) -> str:
        """[Project] over [Sort | Limit] over [Filter]* over a source, as one SELECT."""
        top, node = plan, plan
        project = None
        if isinstance(node, Project):
            project, node = node, node.input
        tail = None
        if isinstance(node, Sort) or (isinstance(node, Limit) and not node.with_ties):
            tail, node = node, node.input
        filters = []
        while isinstance(node, Filter):
            filters.append(node.predicate)
            node = node.input
        source = self.source(node, env)
        if project is None:
            select = self.columns(top, source.row)
        else:
            select = ", ".join(
                as_column(self.expr(e, source.row, env), i) for i, e in enumerate(project.exprs)
            )
        sql = f"SELECT {select or '1 AS c0'} FROM {source.sql}"
        if filters:
            # innermost first: what it keeps out must not reach an outer one that can fail
            parts = [self.expr(p, source.row, env) for p in reversed(filters)]
            sql += f" WHERE {guarded_and(filters[::-1], parts)}"
        if tail is not None:
            sql += self._tail(tail, source.row, env)
        return sql

    def _tail(self, node: Sort | Limit, row: Row, env: Env) -> str:
        keys = node.order_by + (node.ties if isinstance(node, Limit) else ())
        sql = f" ORDER BY {self.order(keys, row, env)}" if keys else ""
        if isinstance(node, Limit):
            from streamsql.plan.sql.limits import bounds_sql

            sql += bounds_sql(self, node, env)
        return sql

    def cte_name(self, cte_id: int) -> str:
        """The SQL name of a recursive CTE."""
        return self._ctes.setdefault(cte_id, f"r{cte_id}")


_JOIN_WORDS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "cross": "CROSS JOIN",
    # over one state of the tables the right rows are what they are now
    "lookup": "JOIN",
    "lookup_left": "LEFT JOIN",
    "versioned": "JOIN",
    "versioned_left": "LEFT JOIN",
}


def as_column(sql: str, index: int) -> str:
    """`sql AS c<index>`, without AS where it has that name anyway."""
    name = f"c{index}"
    return sql if sql.endswith("." + name) and _is_plain(sql) else f"{sql} AS {name}"


def _is_plain(sql: str) -> bool:
    return sql.replace(".", "").replace("_", "").isalnum()


def guarded_and(predicates: Sequence[Expr], parts: Sequence[str]) -> str:
    """AND of stacked filters; a later one that can fail is evaluated only where the earlier
    hold."""
    from streamsql.functions.resolve import can_fail

    if not any(can_fail(p) for p in predicates[1:]):
        return " AND ".join(f"({p})" for p in parts)
    sql = parts[-1]
    for part in reversed(parts[:-1]):
        sql = f"CASE WHEN {part} THEN {sql} ELSE false END"
    return sql


# --- one function per node ----------------------------------------------------------------------
def _scan(low: Lowering, plan: Scan, env: Env) -> str:
    source = low.item(plan, env)
    return f"SELECT {low.columns(plan, source.row)} FROM {source.sql}"


def _values(low: Lowering, plan: Values, env: Env) -> str:
    def no_row(index: int) -> str:
        raise InvariantViolation("VALUES has no input columns")

    if not plan.rows:
        nulls = ", ".join(
            f"CAST(NULL AS {t.duckdb}) AS c{i}" for i, t in enumerate(plan.schema.types)
        )
        return f"SELECT {nulls or '1 AS c0'} WHERE false"
    rows = [[low.expr(e, no_row, env) for e in row] for row in plan.rows]
    if not plan.schema:
        return f"SELECT 1 AS c0 FROM range({len(rows)})"
    if len(rows) == 1:
        return "SELECT " + ", ".join(f"{e} AS c{i}" for i, e in enumerate(rows[0]))
    names = ", ".join(f"c{i}" for i in range(len(plan.schema)))
    listed = ", ".join(f"({', '.join(row)})" for row in rows)
    return f"SELECT {names} FROM (VALUES {listed}) AS {low.alias()}({names})"


def _stack(low: Lowering, plan: LogicalPlan, env: Env) -> str:
    return low.stack(plan, env)


def _limit(low: Lowering, plan: Limit, env: Env) -> str:
    if plan.with_ties:
        from streamsql.plan.sql.limits import ties_sql

        return ties_sql(low, plan, env)
    return low.stack(plan, env)


def _join(low: Lowering, plan: Join, env: Env) -> str:
    if plan.kind in _JOIN_WORDS:
        return low.stack(plan, env)
    from streamsql.plan.sql.joins import asof_sql, semi_sql

    return asof_sql(low, plan, env) if plan.kind.startswith("asof") else semi_sql(low, plan, env)


def _aggregate(low: Lowering, plan: Aggregate, env: Env) -> str:
    source = low.item(plan.input, env)
    row = source.row

    def column(ref: ColumnRef | OuterRef) -> str:
        return row(ref.index) if isinstance(ref, ColumnRef) else env[-ref.depth](ref.index)

    keys = [row(k) for k in plan.keys]
    outputs = [*keys, *(aggregate_sql(a, column) for a in plan.aggregates)]
    for call in plan.grouping_calls:
        listed = ", ".join(keys[i] for i in call)
        outputs.append(f"CAST(GROUPING({listed}) AS INTEGER)")
    select = ", ".join(f"{e} AS c{i}" for i, e in enumerate(outputs)) or "count(*) AS c0"
    sql = f"SELECT {select} FROM {source.sql}"
    if plan.grouping_sets is not None:
        sets = ", ".join(f"({', '.join(keys[i] for i in s)})" for s in plan.grouping_sets)
        return f"{sql} GROUP BY GROUPING SETS ({sets})"
    return f"{sql} GROUP BY {', '.join(keys)}" if keys else sql


def _window(low: Lowering, plan: Window, env: Env) -> str:
    source = low.item(plan.input, env)
    row = source.row

    def column(ref: ColumnRef | OuterRef) -> str:
        return row(ref.index) if isinstance(ref, ColumnRef) else env[-ref.depth](ref.index)

    width = len(plan.input.schema)
    outputs = [as_column(row(i), i) for i in range(width)]
    outputs += [f"{window_sql(c, column)} AS c{width + i}" for i, c in enumerate(plan.calls)]
    return f"SELECT {', '.join(outputs)} FROM {source.sql}"


def _distinct(low: Lowering, plan: Distinct, env: Env) -> str:
    source = low.item(plan.input, env)
    return f"SELECT DISTINCT {low.columns(plan, source.row)} FROM {source.sql}"


def _distinct_on(low: Lowering, plan: DistinctOn, env: Env) -> str:
    source = low.item(plan.input, env)
    keys = ", ".join(source.row(k) for k in plan.keys)
    order = low.order(plan.order_by + plan.ties, source.row, env)
    over = f"PARTITION BY {keys}" if keys else ""
    over += f" ORDER BY {order}" if order else ""
    return (
        f"SELECT {low.columns(plan, source.row)} FROM {source.sql} "
        f"QUALIFY row_number() OVER ({over}) = 1"
    )


def _set_operation(low: Lowering, plan: SetOperation, env: Env) -> str:
    word = plan.kind.upper() + (" ALL" if plan.all else "")
    parts = [plan.right]
    left = plan.left
    while (
        isinstance(left, SetOperation)
        and left.kind == plan.kind == "union"
        and left.all == plan.all
    ):
        parts.append(left.right)
        left = left.left
    parts.append(left)
    return f" {word} ".join(f"({low.query(p, env)})" for p in reversed(parts))


def _recursive(low: Lowering, plan: RecursiveCte, env: Env) -> str:
    name = low.cte_name(plan.cte_id)
    names = ", ".join(f"c{i}" for i in range(len(plan.schema)))
    word = "UNION ALL" if plan.all else "UNION"
    base, step = low.query(plan.base, env), low.query(plan.step, env)
    return (
        f"WITH RECURSIVE {name}({names}) AS (({base}) {word} ({step})) SELECT {names} FROM {name}"
    )


def _table_function(low: Lowering, plan: TableFunction, env: Env) -> str:
    from streamsql.plan.sql.table_functions import table_function_sql

    return table_function_sql(low, plan, env)


def _time_window(low: Lowering, plan: TimeWindow, env: Env) -> str:
    from streamsql.plan.sql.time_windows import time_window_sql

    return time_window_sql(low, plan, env)


_HANDLERS: dict[type[LogicalPlan], Callable[..., str]] = {
    Scan: _scan,
    CteRef: _scan,
    Values: _values,
    Project: _stack,
    Filter: _stack,
    Sort: _stack,
    Limit: _limit,
    Join: _join,
    Aggregate: _aggregate,
    Window: _window,
    TimeWindow: _time_window,
    Distinct: _distinct,
    DistinctOn: _distinct_on,
    SetOperation: _set_operation,
    TableFunction: _table_function,
    RecursiveCte: _recursive,
}

__all__ = ["Env", "Lowering", "Row", "Source", "as_column", "to_duckdb_sql"]
