"""Views that can not be kept up to date are set aside; all others go on as if nothing had happened.

An operator that raises is cut off in the middle of its tick, with all that stands on it
(`circuit.run`), and the views among that are set aside: reads of them give the reason. Operators
that others share with them were whole at every moment, so nothing is computed again for the healthy
ones: what was final for them stays final. Writes are never refused because of a view.

A view that was set aside is tried again when the database is opened the next time, from the rows
that its inputs hold by then. So is one that this version of streamsql computes otherwise than the
one that saved its state; and one whose definition it refuses is set aside with that as the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from streamsql.circuit.graph import NodeFailed
from streamsql.core.errors import (
    InvariantViolation,
    ObjectNotInPrerequisiteState,
    StatementError,
    StreamSqlError,
)
from streamsql.engine import logs
from streamsql.engine.alterations import add_layouts, end_readers, input_views, let_layouts_go
from streamsql.engine.build import Built
from streamsql.engine.relations import Relation
from streamsql.engine.storage.view import NO_NODE, ViewState, without_watermark
from streamsql.state.consolidate import consolidate

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine


def set_aside(engine: Engine, failures: Sequence[NodeFailed]) -> None:
    """Take the views out of the circuit that stand on nodes which failed. Under the state lock."""
    circuit = engine.circuit
    fallen = {oid: view for oid, view in engine.views.items() if view.node in circuit.dead}
    for view in fallen.values():
        own = set(engine.own_nodes(view))
        causes = (f.__cause__ for f in failures if f.node in own)
        cause = next(causes, None) or RuntimeError("a view that it reads has failed")
        logs.error("a view has failed", view=view.relation.name, reason=str(cause))
        view.broken = view.broken or broken_error(view.relation, cause)
    engine.jobs.fail_readers(
        circuit.dead,
        ObjectNotInPrerequisiteState(
            "the view could not be finished, because one that it reads has failed",
            hint="Create it again when that is mended.",
        ),
    )
    for oid, view in fallen.items():
        assert isinstance(view.broken, StreamSqlError)
        end_readers(engine, oid, view.broken)
        let_layouts_go(engine, oid)
        if oid in engine.views:  # else it was made for one of those readers
            engine.builder.release_view(oid, view)
        engine.past.forget(oid)
        view.node = NO_NODE
    circuit.dead.clear()  # what is left are tables' nodes, which keep nothing


def broken_error(relation: Relation, cause: BaseException) -> InvariantViolation:
    """What reads of a view give whose operators failed."""
    return InvariantViolation(
        f'materialized view "{relation.name}" can not be maintained: {cause}',
        hint="Drop the view and create it again; please report the failure.",
    )


def refused(engine: Engine, relation: Relation, cause: Exception) -> ViewState:
    """The state of a view that can not be made any more, although it once could."""
    logs.error("a view can not be made", view=relation.name, reason=str(cause))
    state = ViewState(relation, None, NO_NODE, engine.version)
    state.broken = broken_error(relation, cause)
    if isinstance(cause, StatementError):
        state.broken = ObjectNotInPrerequisiteState(
            f'materialized view "{relation.name}" can not be made any more: {cause.message}',
            hint=f"Drop it, or replace it by another query. {cause.hint or ''}".rstrip(),
        )
    return state


def lost_input(engine: Engine, relation: Relation) -> Exception | None:
    """What keeps a view from being made: one that it reads is set aside."""
    for oid in sorted(input_views(engine.catalog, relation)):
        found = engine.views.get(oid)
        if found is not None and found.broken is not None:
            return RuntimeError("a view that it reads has failed")
    return None


def make_again(engine: Engine, relation: Relation, built: Built) -> None:
    """A view whose creation is replayed: it was made once, so one that is refused now must not keep
    the database from being opened."""
    try:
        engine.builder.build_view(relation, built)
    except StatementError as error:
        failed = built.views.pop(relation.oid, None)
        if failed is not None:
            engine.circuit.release(built.nodes.pop(relation.oid))
        cause = lost_input(engine, relation) or error
        built.views[relation.oid] = refused(engine, relation, cause)


def fill_anew(
    engine: Engine, relation: Relation, old_rows: Callable[[ViewState], None]
) -> ViewState:
    """Make a view from what its inputs hold now. old_rows: puts what it held into the state of a
    view that fails once more. It is not among the engine's views yet."""
    cause = lost_input(engine, relation)
    built = Built(engine.catalog)
    if cause is None:
        try:
            state = engine.builder.build_view(relation, built)
            state.fill(consolidate(without_watermark(built.fills[relation.oid])))
            return state
        except Exception as error:
            cause = error
            for view in built.views.values():
                if view.node in engine.circuit.nodes:
                    engine.circuit.release(view.node)
    state = refused(engine, relation, cause)
    old_rows(state)
    return state


def install(engine: Engine, state: ViewState) -> None:
    """Make a view known that was built while the database is opened."""
    relation = state.relation
    engine.views[relation.oid] = state
    if state.node != NO_NODE:
        engine.nodes[relation.oid] = state.node
        engine.views_of_node.setdefault(state.node, []).append(state)
        add_layouts(engine, relation, engine.catalog, engine.nodes)
