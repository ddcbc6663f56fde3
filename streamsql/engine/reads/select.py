"""SELECT: bind once, then run over one version of the relations it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from streamsql.core.schema import Schema
from streamsql.core.types import SqlType
from streamsql.engine.api import ResultColumn
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.parameters import settle
from streamsql.engine.reads.current import check_current, tell_suspended
from streamsql.engine.reads.duck import run_sql
from streamsql.engine.reads.fast import run_fast
from streamsql.engine.reads.lookup import with_lookups
from streamsql.engine.reads.plans import freeze, needs_freezing
from streamsql.engine.reads.versions import at_versions, bind_versions, mark_versions
from streamsql.engine.reads.view import ReadView, base_of
from streamsql.functions.expressions import Expr, Literal
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import scans

if TYPE_CHECKING:
    from streamsql.engine.session import Session


@dataclass
class BoundSelect:
    """A bound query. plan: optimized; may hold parameters and now(). sql: DuckDB text, kept where
    the plan holds neither. relations: those read, by their ids in the plan. slots: the versions
    that some of them are read at. catalog: the version of the catalog it was bound in."""

    plan: LogicalPlan
    columns: tuple[ResultColumn, ...]
    parameter_types: tuple[SqlType, ...]
    relations: frozenset[int]
    notices: tuple[str, ...] = ()
    slots: tuple[Expr, ...] = ()
    frozen: bool = False
    catalog: int | None = None
    sql: str | None = field(default=None, compare=False)

    @property
    def schema(self) -> Schema:
        return self.plan.schema


def bind_select(
    tree: exp.Expression, scope: BindScope, declared: list[SqlType | None], text: str | None = None
) -> BoundSelect:
    """Bind and optimize. Raises: errors of binding, with positions."""
    from streamsql.plan.binder import bind_query
    from streamsql.plan.optimizer import optimize
    from streamsql.plan.optimizer.ties import without_bare_limits

    tree, scope, versions = mark_versions(tree, scope)
    context = scope.context(parameter_types=list(declared), text=text)
    slots = bind_versions(versions, context)
    bound = bind_query(tree, context)
    plan = without_bare_limits(optimize(bound.plan))
    relations = frozenset(s.relation_id for s in scans(plan))
    columns = result_columns(bound.plan.schema, bound.origins, scope.catalog)
    return BoundSelect(
        plan,
        columns,
        settle(context.parameter_types or []),
        relations,
        bound.notices,
        slots,
        not needs_freezing(plan),
        scope.catalog.version,
    )


def result_columns(
    schema: Schema, origins: tuple[tuple[int, int] | None, ...], catalog: Catalog
) -> tuple[ResultColumn, ...]:
    """What clients are told: names, types, and the table column a result column is."""
    columns = []
    for i, column in enumerate(schema):
        origin = origins[i] if i < len(origins) else None
        oid, attnum = 0, 0
        if origin is not None and base_of(origin[0]) in catalog.relations:
            oid, attnum = base_of(origin[0]), origin[1] + 1
        columns.append(ResultColumn(column.name, column.type, oid, attnum))
    return tuple(columns)


def run_select(
    session: Session, bound: BoundSelect, view: ReadView, values: tuple[Literal, ...]
) -> Iterator[pa.RecordBatch]:
    """The rows, in batches."""
    plan = bound.plan
    now_us = session.now_us()
    if not bound.frozen:
        plan = freeze(plan, values, now_us)
    session.engine.check_views({base_of(r) for r in bound.relations})
    tell_suspended(session, bound.relations)
    view = at_versions(session, view, bound.slots, values)
    plan, view = with_lookups(plan, view, now_us, session.timezone)
    fast = run_fast(plan, view, now_us, session.timezone)
    if fast is not None:
        check_current(session, bound.plan, bound.catalog)
        return iter((fast,)) if fast.num_rows else iter(())
    same = plan is bound.plan
    tables = view.tables(bound.relations if same else {s.relation_id for s in scans(plan)})
    check_current(session, bound.plan, bound.catalog)
    sql = bound.sql if same else None
    if sql is None:
        sql = plan_sql(plan, session.timezone)
        if same:
            bound.sql = sql
    named = {relation_table(oid): table for oid, table in tables.items()}
    return run_sql(session.engine.pool, sql, named, plan.schema, session.token)


def relation_table(oid: int) -> str:
    """Name of a relation's snapshot inside a DuckDB connection."""
    return f"r{oid}" if oid >= 0 else f"given{-oid}"


def plan_sql(plan: LogicalPlan, timezone: str) -> str:
    """The plan as one DuckDB SELECT over tables named by `relation_table`.

    timezone: the session's, or the one that a view was created under.
    """
    from streamsql.plan.sql import to_duckdb_sql

    return to_duckdb_sql(plan, lambda scan: relation_table(scan.relation_id), timezone=timezone)


def run_plan(
    session: Session,
    plan: LogicalPlan,
    view: ReadView,
    values: tuple[Literal, ...],
    extra: Mapping[str, pa.Table] | None = None,
) -> pa.Table:
    """All rows of a plan that is part of another statement (INSERT … SELECT, UPDATE)."""
    now_us = session.now_us()
    plan = written = freeze(plan, values, now_us)
    relations = {s.relation_id for s in scans(plan)}
    session.engine.check_views({base_of(r) for r in relations})
    tell_suspended(session, relations)
    plan, view = with_lookups(plan, view, now_us, session.timezone)
    fast = run_fast(plan, view, now_us, session.timezone)
    if fast is not None:
        check_current(session, written)
        return pa.Table.from_batches([fast], schema=plan.schema.arrow)
    tables: dict[str, Any] = dict(extra or {})
    for oid, table in view.tables({s.relation_id for s in scans(plan)}).items():
        tables[relation_table(oid)] = table
    check_current(session, written)
    sql = plan_sql(plan, session.timezone)
    batches = run_sql(session.engine.pool, sql, tables, plan.schema, session.token)
    return pa.Table.from_batches(list(batches), schema=plan.schema.arrow)
