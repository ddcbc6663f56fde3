"""When an operator fails in a tick: the views it works for are set aside, all others are rebuilt.

A failure leaves the circuit half stepped, so it is thrown away and built anew from the rows that
tables have. Writes are never refused because of a view: the tick that met the failure goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.circuit.checks import configured_checks
from streamsql.circuit.graph import Circuit, NodeFailed
from streamsql.core.delta import Delta, concat
from streamsql.core.errors import InvariantViolation, ObjectNotInPrerequisiteState
from streamsql.engine.alterations import add_layouts, input_views
from streamsql.engine.build import Built
from streamsql.engine.relations import Relation
from streamsql.engine.storage.view import NO_NODE, ViewState, without_watermark
from streamsql.state.consolidate import consolidate

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine


def heal(engine: Engine, failed: NodeFailed) -> dict[int, Delta]:
    """Rebuild the circuit without the views of the node that failed.

    Returns, by view, what the rebuilt views' contents differ by from what they showed.
    """
    before = dict(engine.views)
    engine.jobs.fail_all(
        ObjectNotInPrerequisiteState(
            "the view could not be finished, because another one has failed",
            hint="Create it again.",
        )
    )
    broken = {
        view.relation.oid for view in before.values() if failed.node in engine.own_nodes(view)
    }
    for oid in broken:
        before[oid].broken = broken_error(before[oid].relation, failed.__cause__ or failed)
    return rebuild(engine, before)


def broken_error(relation: Relation, cause: BaseException) -> InvariantViolation:
    """What reads of a view give whose operators failed."""
    return InvariantViolation(
        f'materialized view "{relation.name}" can not be maintained: {cause}',
        hint="Drop the view and create it again; please report the failure.",
    )


def rebuild(engine: Engine, views: dict[int, ViewState]) -> dict[int, Delta]:
    """A new circuit for the tables, sources and unbroken views; see `heal`."""
    engine.circuit = Circuit(configured_checks())
    engine.nodes.clear()
    engine.views_of_node.clear()
    for relation in engine.catalog.relations.values():
        if relation.kind in ("table", "source", "system") and (
            relation.oid in engine.tables or relation.oid in engine.sources
        ):
            engine.nodes[relation.oid] = engine.builder.source_node(relation)
            engine.builder.restore_watermark(relation)
            add_layouts(engine, relation, engine.catalog, engine.nodes)
    engine.views = {}
    for oid, old in views.items():
        state = old if old.relation.suspended is not None else rebuilt(engine, old, views)
        engine.views[oid] = state
        engine.late_changes.forget(oid)
        if state.node != NO_NODE:
            engine.nodes[oid] = state.node
            engine.views_of_node.setdefault(state.node, []).append(state)
            add_layouts(engine, state.relation, engine.catalog, engine.nodes)
    return {
        oid: adopt_rows(state, views[oid])
        for oid, state in engine.views.items()
        if state.node != NO_NODE
    }


def adopt_rows(state: ViewState, old: ViewState) -> Delta:
    """Put the rows that were shown back into a rebuilt view; what they differ by is its change."""
    fresh, shown = state.contents(), old.contents().negate()
    state.log, state.store, state.indexes = old.log, old.store, old.indexes
    return consolidate(concat([fresh, shown], state.schema))


def rebuilt(engine: Engine, old: ViewState, views: dict[int, ViewState]) -> ViewState:
    """The view in the new circuit, filled; or the old one, marked as broken."""
    relation = old.relation
    broken_input = any(
        views[oid].broken is not None
        for oid in input_views(engine.catalog, relation)
        if oid in views
    )
    if old.broken is None and broken_input:
        old.broken = broken_error(relation, RuntimeError("a view that it reads has failed"))
    if old.broken is not None:
        old.node = NO_NODE
        return old
    built = Built(engine.catalog)
    try:
        state = engine.builder.build_view(relation, built)
        state.store.apply(consolidate(without_watermark(built.fills[relation.oid])))
    except Exception as error:
        old.broken = broken_error(relation, error)
        old.node = NO_NODE
        return old
    return state
