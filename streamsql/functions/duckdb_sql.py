"""Bound expressions as DuckDB SQL, and the settings every DuckDB connection of ours gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamsql.core.errors import InvariantViolation
from streamsql.core.types import SqlType
from streamsql.functions import registry
from streamsql.functions.cast_table import cast_sql_of
from streamsql.functions.definitions import AggregateSql, FunctionDef
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.functions.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    ColumnRef,
    Expr,
    Frame,
    FrameBound,
    Literal,
    OuterRef,
    Parameter,
    SortKey,
    Subquery,
    WindowCall,
)
from streamsql.functions.literals import literal_sql
from streamsql.functions.resolve import is_ordered_set, needs_guard
from streamsql.functions.window import BY_PEERS

ColumnSql = Callable[[Any], str]
SubquerySql = Callable[[Subquery], str]


class _Writer:
    """Writes one expression; see `expression_sql`."""

    def __init__(self, column: ColumnSql, subquery: SubquerySql | None, timezone: str) -> None:
        self.column = column
        self.subquery = subquery
        self.timezone = timezone

    def write(self, expr: Expr) -> str:
        """SQL of exactly `expr.type.duckdb`."""
        if isinstance(expr, ColumnRef | OuterRef):
            return self.column(expr)
        if isinstance(expr, Literal):
            return literal_sql(expr)
        if isinstance(expr, Call):
            return self.call(expr)
        if isinstance(expr, Cast):
            return self.cast(expr)
        if isinstance(expr, Case):
            return self.case(expr)
        if isinstance(expr, Subquery):
            if self.subquery is None:
                raise InvariantViolation("a subquery reached an evaluator")
            return self.subquery(expr)
        if isinstance(expr, Parameter):
            raise InvariantViolation(f"parameter ${expr.index} was not replaced")
        raise InvariantViolation(f"no SQL for {type(expr).__name__}")

    def call(self, call: Call) -> str:
        """A function call; `and`, `or` keep later arguments that can fail behind the earlier
        ones."""
        args = [self.write(a) for a in call.args]
        if call.function.startswith("duckdb:"):
            name = call.function.removeprefix("duckdb:")
            return f'CAST("{name}"({", ".join(args)}) AS {call.type.duckdb})'
        if call.function in ("and", "or") and any(needs_guard(a) for a in call.args[1:]):
            return _guarded(call.function, args)
        types = tuple(a.type for a in call.args)
        definition = registry.definition_of(call.function, types)
        return call_sql(definition, args, types, call.type, self.timezone)

    def cast(self, cast: Cast) -> str:
        """CAST, or TRY around it."""
        sql = cast_sql_of(self.write(cast.arg), cast.arg.type, cast.type, self.timezone)
        return f"TRY({sql})" if cast.try_ else sql

    def case(self, case: Case) -> str:
        """Searched CASE; DuckDB evaluates a branch only for its rows."""
        whens = " ".join(f"WHEN {self.write(c)} THEN {self.write(r)}" for c, r in case.whens)
        last = f" ELSE {self.write(case.otherwise)}" if case.otherwise is not None else ""
        return f"CAST(CASE {whens}{last} END AS {case.type.duckdb})"


def _guarded(function: str, args: Sequence[str]) -> str:
    """AND/OR in which an argument is evaluated only where those before it do not decide."""
    sql = args[-1]
    for arg in reversed(args[:-1]):
        if function == "and":
            sql = f"CASE WHEN NOT {arg} THEN false ELSE ({arg} AND {sql}) END"
        else:
            sql = f"CASE WHEN {arg} THEN true ELSE ({arg} OR {sql}) END"
    return sql


def call_sql(
    definition: FunctionDef,
    args: Sequence[str],
    types: tuple[SqlType, ...],
    result: SqlType,
    timezone: str = "UTC",
) -> str:
    """SQL of one overload over the SQL of its arguments."""
    template = definition.sql
    if isinstance(template, str):
        sql = template.format(*args)
    elif template is not None:
        sql = template(args, types, result)
    elif definition.kernel is not None:
        return kernel_sql(
            definition.name, definition.kernel, args, types, result,
            timezone=timezone, strict=definition.strict,
        )  # fmt: skip
    else:
        raise InvariantViolation(f"function {definition.name} has neither SQL nor kernel")
    return sql if definition.exact else f"CAST({sql} AS {result.duckdb})"


def expression_sql(
    expr: Expr,
    column: ColumnSql,
    subquery: SubquerySql | None = None,
    *,
    timezone: str = "UTC",
) -> str:
    """DuckDB SQL of the expression, of exactly the DuckDB type `expr.type.duckdb`.

    column: SQL of a ColumnRef or OuterRef. subquery: SQL of a Subquery node.
    Rows that cannot be computed raise; `duckdb_errors.translate` makes the error ours again.
    """
    return _Writer(column, subquery, timezone).write(expr)


def sort_key_sql(key: SortKey, column: ColumnSql) -> str:
    """One ORDER BY item with everything explicit."""
    direction = "DESC" if key.descending else "ASC"
    nulls = "FIRST" if key.nulls_first else "LAST"
    return f"{expression_sql(key.expr, column)} {direction} NULLS {nulls}"


def _order_sql(keys: Sequence[SortKey], column: ColumnSql) -> str:
    keys = [k for k in keys if not isinstance(k.expr, Literal)]  # DuckDB reads them as positions
    return "ORDER BY " + ", ".join(sort_key_sql(k, column) for k in keys) if keys else ""


def aggregate_sql(call: AggregateCall, column: ColumnSql) -> str:
    """DuckDB SQL of an aggregate call, of exactly `call.type.duckdb`."""
    return _aggregate_call(call, column, "")


def _filter_sql(condition: Expr | None, column: ColumnSql) -> str:
    return "" if condition is None else f" FILTER (WHERE {expression_sql(condition, column)})"


def _aggregate_call(call: AggregateCall | WindowCall, column: ColumnSql, over: str) -> str:
    """The call with FILTER and `over` ("" or " OVER (…)") behind every aggregate in it."""
    keys = call.order_by if isinstance(call, AggregateCall) else _list_order(call)
    args = [expression_sql(a, column) for a in call.args]
    tail = _filter_sql(call.filter, column) + over
    distinct = "DISTINCT " if call.distinct else ""
    order = _order_sql(keys, column)
    if call.function.startswith("duckdb:"):
        name = call.function.removeprefix("duckdb:")
        inner = f"{distinct}{', '.join(args)}{' ' + order if order else ''}"
        return f'CAST("{name}"({inner}){tail} AS {call.type.duckdb})'
    types = tuple(a.type for a in call.args)
    if is_ordered_set(call.function):
        types += tuple(k.expr.type for k in keys)
        args += [expression_sql(k.expr, column) for k in keys]
    definition = registry.aggregate_of(call.function, types)
    parts = AggregateSql(
        args=args, types=types, result=call.type, distinct=distinct, order=order, tail=tail,
        descending=bool(keys) and keys[0].descending,
    )  # fmt: skip
    if isinstance(definition.sql, str):
        inner = f"{distinct}{', '.join(args)}{' ' + order if order else ''}"
        sql = f"{definition.sql}({inner}){tail}"
    else:
        sql = definition.sql(parts)
    return f"CAST({sql} AS {call.type.duckdb})"


def _list_order(call: WindowCall) -> tuple[SortKey, ...]:
    """How the rows of a frame are ordered where an aggregate over it shows that."""
    if not call.ties or is_ordered_set(call.function) or call.function.startswith("duckdb:"):
        return ()
    definition = registry.aggregate_of(call.function, tuple(a.type for a in call.args))
    return call.order_by + call.ties if definition.order_sensitive else ()


_BOUNDS = {
    "unbounded_preceding": "UNBOUNDED PRECEDING",
    "unbounded_following": "UNBOUNDED FOLLOWING",
    "current_row": "CURRENT ROW",
}
_EXCLUDE = {"current_row": "CURRENT ROW", "group": "GROUP", "ties": "TIES"}


def _bound_sql(bound: FrameBound, column: ColumnSql) -> str:
    if bound.kind in _BOUNDS:
        return _BOUNDS[bound.kind]
    assert bound.offset is not None
    return f"{expression_sql(bound.offset, column)} {bound.kind.upper()}"


def _frame_sql(frame: Frame, column: ColumnSql) -> str:
    sql = (
        f"{frame.mode.upper()} BETWEEN {_bound_sql(frame.start, column)}"
        f" AND {_bound_sql(frame.end, column)}"
    )
    if frame.exclude in _EXCLUDE:
        sql += f" EXCLUDE {_EXCLUDE[frame.exclude]}"
    return sql


def window_sql(call: WindowCall, column: ColumnSql) -> str:
    """DuckDB SQL of an OVER call, of exactly `call.type.duckdb`."""
    definition = registry.window_of(call.function, tuple(a.type for a in call.args))
    total = call.order_by + call.ties
    by_place = not definition.framed if definition is not None else False
    if call.frame is not None and call.frame.mode == "rows":
        by_place = by_place or call.frame.exclude in ("no_others", "current_row")
    parts = []
    if call.partition_by:
        keys = ", ".join(expression_sql(e, column) for e in call.partition_by)
        parts.append(f"PARTITION BY {keys}")
    by_peers = definition is not None and definition.name in BY_PEERS
    order = total if by_place and not by_peers else call.order_by
    if order:
        parts.append(_order_sql(order, column))
    if call.frame is not None:
        parts.append(_frame_sql(call.frame, column))
    over = f" OVER ({' '.join(parts)})"
    if definition is None:
        return _aggregate_call(call, column, over)
    args = [expression_sql(a, column) for a in call.args]
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    if call.ties and not by_place:  # peers are in the frame together: their order is its own
        nulls = f" {_order_sql(total, column)}{nulls}"
    sql = definition.sql.format(*args, nulls=nulls)
    return f"CAST({sql}{over} AS {call.type.duckdb})"


def configure(con: Any, threads: int | None = None) -> None:
    """Settings, macros and UDFs of a new DuckDB database: UTC, no access to the outside, locked.

    con: a duckdb.DuckDBPyConnection; its cursors share all of it.
    """
    from streamsql.functions.duckdb_setup import setup

    setup(con, threads)
