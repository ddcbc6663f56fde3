"""Checkpoints: everything of one version as named states and one JSON document, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamsql.circuit.checks import configured_checks
from streamsql.circuit.graph import Circuit
from streamsql.core.clock import ManualClock
from streamsql.core.errors import DataCorrupted
from streamsql.engine import heal, history, logs
from streamsql.engine.alterations import add_layouts, input_views
from streamsql.engine.build import Built
from streamsql.engine.catalog_codec import catalog_to_json, load_catalog
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
    states["past"] = engine.past.save()
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
    anew = _restore_views(engine, relations, meta, loader)
    engine.system.load(dict(loader("system")))
    if "past" in meta["states"]:
        engine.late_changes.load(dict(loader("late-changes")))
        engine.past.load(loader("past"))
    for oid in anew:
        engine.late_changes.forget(oid)
        engine.past.begin(engine.views[oid])
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
) -> set[int]:
    """The circuit with its states. Views that had failed, or that are computed otherwise than by
    those who saved their states (another version of streamsql plans differently), are filled anew
    from the rows of their inputs, with the views above them; returns their OIDs."""
    names = set(meta["states"])
    states: dict[str, State] = {}
    for label in meta["watermarks"]:
        name = f"node-{label}"
        states[label] = loader(name) if name in names else {}
    anew = build_nodes(engine, relations, states, {int(oid) for oid in meta["broken"]})
    marks = {node.label: node.watermark for node in engine.circuit} | meta["watermarks"]
    for label in marks:  # a table's node keeps nothing
        states.setdefault(label, {})
    try:
        engine.circuit.load(states, marks, meta.get("idle", {}))
    except DataCorrupted as error:
        logs.error("views are filled anew", reason=error.message)
        anew = _start_anew(engine, relations)
    history_of = meta.get("history", {})

    def load_rows(view: ViewState) -> None:
        view.store.load(loader(f"view-{view.relation.oid}"))

    for view in engine.views.values():
        load_rows(view)
        history.restore(engine, view, history_of, loader)
    for relation in relations:
        if relation.oid in anew:
            made = heal.fill_anew(engine, relation, load_rows)
            heal.install(engine, made)
            history.restore_refilled(engine, made, history_of, loader)
    return anew


def _start_anew(engine: Engine, relations: list[Relation]) -> set[int]:
    """An empty circuit in the place of one that could not be loaded; all views that run."""
    engine.circuit = Circuit(configured_checks())
    engine.nodes.clear()
    engine.views.clear()
    engine.views_of_node.clear()
    every = {r.oid for r in relations if r.kind == "materialized_view"}
    anew = build_nodes(engine, relations, {}, every)
    for oid in list(engine.nodes):
        if oid in engine.catalog.relations:
            engine.builder.restore_watermark(engine.catalog.relations[oid])
    return anew


def build_nodes(
    engine: Engine, relations: list[Relation], states: Mapping[str, State], broken: set[int]
) -> set[int]:
    """Sources and views of a catalog, in order of creation, into an empty circuit; their states are
    loaded afterwards. Returns the views left out: `broken` ones, those that can not be built from
    nodes with these states, and those that read such views."""
    for oid in engine.feeds.oids():
        engine.nodes[oid] = engine.builder.source_node(engine.catalog.relations[oid])
    left: set[int] = set()
    for relation in relations:
        if relation.kind in ("table", "source"):
            engine.nodes[relation.oid] = engine.builder.source_node(relation)
            add_layouts(engine, relation, engine.catalog, engine.nodes)
        elif relation.kind == "materialized_view":
            state = None
            if relation.suspended is not None:
                state = ViewState(relation, None, NO_NODE, engine.version)
            elif relation.oid not in broken and not left & input_views(engine.catalog, relation):
                state = _built(engine, relation, states)
            if state is None:
                left.add(relation.oid)
            else:
                heal.install(engine, state)
    return left


def _built(engine: Engine, relation: Relation, states: Mapping[str, State]) -> ViewState | None:
    """A view without its rows, or None if it is not made of nodes with these states."""
    try:
        state = engine.builder.build_view(relation, Built(engine.catalog), fill=False)
    except Exception:  # said when it is tried again
        return None
    circuit = engine.circuit
    if all(circuit.nodes[n].label in states for n in state.compiled.new_nodes):
        return state
    circuit.release(state.node)
    return None
