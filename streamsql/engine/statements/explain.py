"""EXPLAIN: the plan of a query, or the circuit of a view."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from streamsql.core.errors import FeatureNotSupported
from streamsql.core.types import TEXT
from streamsql.dialect.statements import (
    CreateView,
    Delete,
    Explain,
    Insert,
    Query,
    Subscribe,
    Update,
)
from streamsql.engine.api import Result
from streamsql.engine.catalog import check_runs
from streamsql.engine.held_back import held_back
from streamsql.engine.reads.access import State
from streamsql.engine.reads.lookup import explained, with_lookups
from streamsql.engine.reads.plans import freeze
from streamsql.engine.reads.select import BoundSelect, plan_sql, run_select
from streamsql.engine.reads.versions import at_versions
from streamsql.engine.reads.view import ReadView, slot_of
from streamsql.engine.relations import Relation
from streamsql.engine.statements import dml, queries, views
from streamsql.engine.statements.common import bound_query, lookup, rows_result
from streamsql.engine.statements.handler import Description, Handler, Types, result_columns
from streamsql.engine.storage.table import ROW_ID
from streamsql.functions.expressions import Literal
from streamsql.plan.nodes import LogicalPlan, Scan
from streamsql.plan.visit import scans, transform_plan
from streamsql.runtime.compile import CompiledView

if TYPE_CHECKING:
    from streamsql.engine.session import Session

COLUMNS = (("QUERY PLAN", TEXT),)


def run(
    session: Session, statement: Explain, values: tuple[Literal, ...], declared: Types
) -> Result:
    """EXPLAIN [ANALYZE] [VERBOSE] statement | MATERIALIZED VIEW v."""
    lines = explain_lines(session, statement, values, declared)
    return rows_result("EXPLAIN", COLUMNS, [(line,) for line in lines])


def explain_lines(
    session: Session, statement: Explain, values: tuple[Literal, ...], declared: Types
) -> list[str]:
    """The text, a line a row."""
    if statement.materialized_view is not None:
        relation = lookup(session, statement.materialized_view, kinds=("materialized_view",))
        return explain_view(session, relation, statement)
    inner = statement.statement
    if isinstance(inner, Query):
        return explain_query(session, inner, statement, values, declared)
    if isinstance(inner, CreateView) and inner.materialized:
        return explain_create(session, inner, statement)
    if isinstance(inner, Subscribe) and inner.relation is not None:
        relation = lookup(session, inner.relation)
        if relation.kind == "materialized_view":
            return explain_view(session, relation, statement)
    if isinstance(inner, Subscribe) and inner.query is not None:
        made = CreateView(
            name=("subscription",), query=inner.query, query_sql=inner.sql, materialized=True
        )
        return explain_create(session, replace(made, sql=inner.sql), statement)
    if isinstance(inner, Insert | Update | Delete) and not statement.analyze:
        return formatted(explain_write(session, inner, declared), statement.format)
    raise FeatureNotSupported(
        f"EXPLAIN of {type(inner).__name__} is not supported",
        hint="EXPLAIN a query or CREATE MATERIALIZED VIEW.",
    )


def explain_query(
    session: Session,
    query: Query,
    statement: Explain,
    values: tuple[Literal, ...],
    declared: Types,
) -> list[str]:
    """The logical plan; VERBOSE adds the DuckDB text, ANALYZE runs it."""
    from streamsql.plan.explain import tree

    if session.database.pg_catalog().handles(query.query):
        return ["Catalog query"]
    bound = bound_query(session, query.query, query, declared)
    lines = tree(shown_plan(session, bound, values))
    if statement.verbose and bound.frozen:
        lines += ["", f"DuckDB: {plan_sql(bound.plan, session.timezone)}"]
    if statement.analyze:
        lines += _analyzed(session, bound, session.read_view(), values)
    return formatted(lines, statement.format)


def shown_plan(session: Session, bound: BoundSelect, values: tuple[Literal, ...]) -> LogicalPlan:
    """The plan with the look-ups that running it now would make; without values for its parameters,
    those that it may make."""
    view = session.read_view()
    if not bound.frozen and len(values) < len(bound.parameter_types):
        return explained(bound.plan, states_of(view, bound.plan))
    view = at_versions(session, view, bound.slots, values)
    plan = freeze(named_versions(bound.plan, view), values, session.now_us())
    return with_lookups(plan, view, session.now_us(), session.timezone)[0]


def named_versions(plan: LogicalPlan, view: ReadView) -> LogicalPlan:
    """Scans that say which version they read: name@version."""

    def named(node: LogicalPlan) -> LogicalPlan:
        slot = slot_of(node.relation_id) if isinstance(node, Scan) else None
        if slot is None or not isinstance(node, Scan):
            return node
        return replace(node, name=f"{node.name}@{view.slots[slot]}")

    return transform_plan(plan, named)


def states_of(view: ReadView, plan: LogicalPlan) -> dict[int, State]:
    """The rows behind the scans of a plan, at the newest version."""
    found = {s.relation_id: view.snapshot(s.relation_id) for s in scans(plan)
             if slot_of(s.relation_id) is None}  # fmt: skip
    return {oid: snapshot.state for oid, snapshot in found.items() if snapshot is not None}


def describe(session: Session, statement: Explain, declared: Types) -> Description:
    """One column of text; the parameters are those of the query."""
    columns = result_columns(COLUMNS)
    if isinstance(statement.statement, Query):
        inner = queries.describe_query(session, statement.statement, declared)
        return Description(columns, inner.parameter_types, inner.parameter_oids)
    return Description(columns)


def explain_write(session: Session, inner: Insert | Update | Delete, declared: Types) -> list[str]:
    """What is changed, and the plan of the rows."""
    from streamsql.plan.explain import tree

    plan: LogicalPlan | None
    if isinstance(inner, Insert):
        plan = dml.bound_insert(session, inner, declared).plan
    else:
        plan = dml.bound_modify(session, inner, declared).plan
    lines = [f"{type(inner).__name__} on {inner.table[-1]}"]
    rows = ["Values"]
    if plan is not None:
        rows = tree(explained(plan, states_of(session.read_view(), plan)))
    rows = [line.replace(f'"{ROW_ID}" AS {ROW_ID}', "row id") for line in rows]
    rows = [line.replace(ROW_ID, "row id") for line in rows]
    return lines + [("└─ " if i == 0 else "   ") + line for i, line in enumerate(rows)]


def _analyzed(
    session: Session, bound: BoundSelect, view: object, values: tuple[Literal, ...]
) -> list[str]:
    assert isinstance(view, ReadView)
    start = time.perf_counter()
    rows = sum(b.num_rows for b in run_select(session, bound, view, values))
    elapsed = (time.perf_counter() - start) * 1000
    return ["", f"Rows: {rows}", f"Execution Time: {elapsed:.3f} ms"]


def explain_view(session: Session, relation: Relation, statement: Explain) -> list[str]:
    """The circuit of a view that is running; ANALYZE with what it has counted."""
    check_runs(relation)
    view = session.engine.views[relation.oid]
    if view.broken is not None:  # it has no circuit
        raise view.broken
    why = held_back(session.engine, view.compiled) if statement.analyze else []
    return circuit_lines(session, view.compiled, statement, why)


def circuit_lines(
    session: Session, compiled: CompiledView, statement: Explain, why: Sequence[str] = ()
) -> list[str]:
    """The circuit as text, JSON or DOT. why: what holds its windows open."""
    from streamsql.runtime import explain

    return explain.explain(
        compiled, analyze=statement.analyze, verbose=statement.verbose, format=statement.format,
        relations={r.oid: r.name for r in session.catalog.relations.values()},
        held_back=why,
    )  # fmt: skip


def explain_create(session: Session, create: CreateView, statement: Explain) -> list[str]:
    """The circuit that CREATE MATERIALIZED VIEW would make: it is compiled and let go again."""
    views.check_statement(create)
    schema, name = session.catalog.creation_name(create.name, session.search_path)
    relation, _ = views.bind_definition(session, create, schema, name, "materialized_view", None)
    catalog = session.catalog

    def compile_only() -> list[str]:
        return session.engine.builder.try_view(
            relation, catalog, lambda compiled: circuit_lines(session, compiled, statement)
        )

    lines: list[str] = session.engine.call(compile_only)
    return lines


def formatted(lines: list[str], format_: str) -> list[str]:
    """FORMAT JSON wraps the lines; DOT is for circuits only."""
    if format_ == "json":
        return [json.dumps({"plan": lines}, ensure_ascii=False)]
    if format_ == "dot":
        raise FeatureNotSupported(
            "EXPLAIN (FORMAT DOT) is only possible for materialized views",
            hint="Use FORMAT TEXT.",
        )
    return lines


HANDLER = Handler(run, describe, "EXPLAIN")
