"""Older versions in a checkpoint: the changes of the relations that promise some, and their times.

A retention outlives a restart: what it promises is part of the durable state. Relations without
one cost a checkpoint nothing; after a restart theirs begin anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamsql.core.delta import concat
from streamsql.engine.storage.changelog import ChangeLog
from streamsql.engine.storage.table import TableState
from streamsql.engine.storage.view import NO_NODE, ViewState
from streamsql.state.consolidate import consolidate

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine

State = Mapping[str, pa.Table]
Loader = Callable[[str], State]

TIMES = "times"


def name_of(oid: int) -> str:
    """The name of a relation's changes in a checkpoint."""
    return f"history-{oid}"


def save(engine: Engine) -> tuple[dict[str, State], dict[str, int]]:
    """(name → state, relation → oldest version that can be rebuilt)."""
    states: dict[str, State] = {}
    floors: dict[str, int] = {}
    kept: list[TableState | ViewState] = [*engine.tables.values(), *engine.views.values()]
    for state in kept:
        relation = state.relation
        known = relation.oid in engine.catalog.relations and not relation.temporary
        if known and engine.retention.span(relation.options) is not None:
            states[name_of(relation.oid)] = {"changes": state.log.save()}
            floors[str(relation.oid)] = state.log.floor
    if floors:
        oldest = min(floors.values())
        states[TIMES] = {"times": engine.retention.timeline.save(oldest)}
    return states, floors


def restore_times(engine: Engine, floors: Mapping[str, int], loader: Loader) -> None:
    """When the versions were made that are still kept."""
    if floors:
        engine.retention.restored(loader(TIMES)["times"])


def restore(
    engine: Engine, state: TableState | ViewState, floors: Mapping[str, int], loader: Loader
) -> None:
    """The changes of a table or view whose rows are those of the checkpoint."""
    oid = state.relation.oid
    floor: Any = floors.get(str(oid))
    if floor is None:
        state.log = ChangeLog(engine.version)
    else:
        state.log = ChangeLog.load(loader(name_of(oid))["changes"], floor, state.schema)


def restore_refilled(
    engine: Engine, view: ViewState, floors: Mapping[str, int], loader: Loader
) -> None:
    """The changes of a view that was filled anew, if it holds the same rows as before. Else they
    begin anew, because they do not lead to the rows it has now."""
    oid = view.relation.oid
    if str(oid) not in floors:
        return
    before = ViewState(view.relation, None, NO_NODE, engine.version)
    before.store.load(loader(f"view-{oid}"))
    parts = [view.contents(), before.contents().negate()]
    if not consolidate(concat(parts, view.schema)):
        restore(engine, view, floors, loader)
