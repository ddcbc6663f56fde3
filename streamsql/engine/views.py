"""Materialized views, from the definition to a plan for the circuit."""

from __future__ import annotations

from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.relations import Relation
from streamsql.operators.builder import Options
from streamsql.plan.binder.context import NOW_TICK
from streamsql.plan.nodes import BoundQuery, LogicalPlan

RECURSION_OPTIONS = ("max_iterations", "max_recursion_rows")
VIEW_OPTIONS = ("on_error", "retention", "state_ttl", *RECURSION_OPTIONS)


def bind_view_query(relation: Relation, scope: BindScope) -> BoundQuery:
    """The bound query of a view's definition. Raises: 0A000 for what is not deterministic."""
    from streamsql.plan.binder import bind_query

    assert relation.query is not None
    context = scope.context(volatile_allowed=False, now=NOW_TICK)
    return bind_query(relation.query, context)


def bind_view(relation: Relation, catalog: Catalog) -> LogicalPlan:
    """The optimized plan of a materialized view, under the settings it was written under."""
    from streamsql.plan.optimizer import optimize

    bound = bind_view_query(relation, BindScope(catalog, relation.context))
    return optimize(bound.plan)


def compile_options(relation: Relation) -> Options:
    """What the operators are told about the view."""
    iterations, rows = (relation.options.get(name) for name in RECURSION_OPTIONS)
    default = Options()
    return Options(
        iterations_max=int(iterations) if iterations else default.iterations_max,
        recursion_rows_max=int(rows) if rows else default.recursion_rows_max,
        view_id=relation.oid,
        on_error=relation.options.get("on_error", "skip"),
        timezone=relation.context.timezone,
        on_close=relation.emit == "on_window_close",
        private=frozenset(relation.extra.get("private", ())),
        private_tag=int(relation.extra.get("private_tag", 0)),
    )
