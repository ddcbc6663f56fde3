"""Checkpoints: everything of one version as named states and one JSON document, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamsql.core.clock import ManualClock
from streamsql.core.errors import DataCorrupted
from streamsql.engine import history
from streamsql.engine.alterations import add_layouts
from streamsql.engine.build import Built
from streamsql.engine.catalog_codec import catalog_to_json, load_catalog
from streamsql.engine.heal import rebuild
from streamsql.engine.relations import Relation
from streamsql.engine.storage.view import NO_NODE, ViewState

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine

State = Mapping[str, pa.Table]
Loader = Callable[[str], State]


def collect(engine: Engine) -> tuple[dict[str, State], dict[str, Any]]:
    """(name → state, meta) of the newest version."""
    engine.recordings.flush()
    states: dict[str, State] = {}
    tables: dict[str, Any] = {}
    for oid, table in engine.tables.items():
        if table.relation.temporary:
            continue
        states[f"table-{oid}"] = table.store.save()
        tracker = None if table.tracker is None else table.tracker.save()
        tables[str(oid)] = {"next_row_id": table.next_row_id, "tracker": tracker}
    for oid, view in engine.views.items():
        if oid in engine.catalog.relations:
            states[f"view-{oid}"] = view.store.save()
    for label, state in engine.circuit.save().items():
        if state:
            states[f"node-{label}"] = state
    states["system"] = engine.system.save()
    states["late-changes"] = engine.late_changes.save()
    older, floors = history.save(engine)
    states |= older
    meta = {
        "version": engine.version,
        "now_us": engine.clock_us(),
        "retention": engine.retention.settings(),
        "history": floors,
        "clock": "manual" if isinstance(engine.clock, ManualClock) else "system",
        "catalog": catalog_to_json(engine.catalog),
        "tables": tables,
        "sources": {str(oid): saved for oid, saved in engine.ingest.save().items()},
        "watermarks": engine.circuit.watermarks(),
        "idle": engine.circuit.idle_marks(),
        "states": sorted(states),
        "broken": {str(o): str(v.broken) for o, v in engine.views.items() if v.broken},
    }
    return states, meta


def restore(engine: Engine, meta: dict[str, Any], loader: Loader) -> None:
    """Bring a fresh engine to the version of a checkpoint.

    Raises: DataCorrupted (XX001).
    """
    try:
        engine.restore_now(meta["now_us"])
        engine.replay_us = meta["now_us"]  # a manual clock goes on from where it stood
        engine.set_clock(meta["clock"])
        engine.replay_us = None
        load_catalog(meta["catalog"], engine.catalog)
    except (KeyError, TypeError, ValueError) as error:
        raise DataCorrupted(f"the checkpoint's catalog can not be read: {error}") from error
    engine.version = meta["version"]
    engine.committer.next_version = meta["version"] + 1
    for name, value in meta.get("retention", {}).items():
        engine.retention.set(name, value)
    history.restore_times(engine, meta.get("history", {}), loader)
    engine.retention.published(engine.version, meta["now_us"])
    relations = engine.catalog.user_relations()
    for relation in relations:
        if relation.kind in ("table", "source"):
            _restore_rows(engine, relation, meta, loader)
    for relation in list(engine.catalog.relations.values()):
        if relation.kind == "system" and str(relation.oid) in meta["tables"]:
            _restore_rows(engine, relation, meta, loader)
    _restore_views(engine, relations, meta, loader)
    engine.system.load(dict(loader("system")))
    if "late-changes" in meta["states"]:
        engine.late_changes.load(dict(loader("late-changes")))
    engine.recordings.sync()


def _restore_rows(engine: Engine, relation: Relation, meta: dict[str, Any], loader: Loader) -> None:
    """A table with its rows, or a source with its positions."""
    from streamsql.engine.tables import new_table_state

    oid = relation.oid
    if relation.kind in ("table", "system"):
        table = new_table_state(relation, engine.catalog)
        saved = meta["tables"][str(oid)]
        table.store.load(loader(f"table-{oid}"))
        table.next_row_id = saved["next_row_id"]
        if table.tracker is not None and saved["tracker"] is not None:
            table.tracker.load(saved["tracker"])
        history.restore(engine, table, meta.get("history", {}), loader)
        engine.tables[oid] = table
    if relation.kind == "source" or relation.connector is not None:
        engine.sources[oid] = engine.ingest.open(relation, engine.catalog, check=False)
        engine.ingest.load(oid, meta["sources"][str(oid)])


def _restore_views(
    engine: Engine, relations: list[Relation], meta: dict[str, Any], loader: Loader
) -> None:
    """The circuit with its states. A circuit that is built otherwise than the saved one (another
    version of streamsql plans differently), or had failed views, is filled anew from the rows."""
    names = set(meta["states"])
    states: dict[str, State] = {}
    for label in meta["watermarks"]:
        name = f"node-{label}"
        states[label] = loader(name) if name in names else {}
    try:
        if meta["broken"]:
            raise DataCorrupted("a view had failed")
        build_nodes(engine, relations)
        engine.circuit.load(states, meta["watermarks"], meta.get("idle", {}))
    except DataCorrupted:
        refill(engine, relations)
        restored = [v for v in engine.views.values() if v.relation.suspended is not None]
        history.restore_refilled(engine, meta.get("history", {}), loader)
    else:
        restored = list(engine.views.values())
    for view in restored:
        view.store.load(loader(f"view-{view.relation.oid}"))
        history.restore(engine, view, meta.get("history", {}), loader)


def build_nodes(engine: Engine, relations: list[Relation]) -> None:
    """Sources and views of a catalog, in order of creation, into an empty circuit; their states are
    loaded afterwards."""
    for oid in engine.feeds.oids():
        engine.nodes[oid] = engine.builder.source_node(engine.catalog.relations[oid])
    for relation in relations:
        if relation.kind in ("table", "source"):
            engine.nodes[relation.oid] = engine.builder.source_node(relation)
        elif relation.suspended is not None:
            view = ViewState(relation, None, NO_NODE, engine.version)
            engine.views[relation.oid] = view
        elif relation.kind == "materialized_view":
            view = engine.builder.build_view(relation, Built(engine.catalog), fill=False)
            engine.views[relation.oid] = view
            engine.nodes[relation.oid] = view.node
            engine.views_of_node.setdefault(view.node, []).append(view)
        add_layouts(engine, relation, engine.catalog, engine.nodes)


def refill(engine: Engine, relations: list[Relation]) -> None:
    """Compute all views anew from the rows of the tables."""
    empty = {
        r.oid: ViewState(r, None, NO_NODE, engine.version)
        for r in relations
        if r.kind == "materialized_view"
    }
    for oid, change in rebuild(engine, empty).items():
        engine.views[oid].fill(change)
