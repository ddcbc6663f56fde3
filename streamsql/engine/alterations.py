"""ALTER on the engine thread: rows, circuit and streams follow the new definitions.

`alter` does all that can fail, before the log is written, and notes in `Built` how to undo it;
`finish` puts it in force in the instant in which the version moves, under the state lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.delta import Delta, make_batch
from streamsql.core.errors import (
    NotNullViolation,
    ObjectNotInPrerequisiteState,
    StreamSqlError,
    UniqueViolation,
)
from streamsql.core.schema import Schema
from streamsql.engine.catalog import Catalog, check_runs, has_failed
from streamsql.engine.ddl import AlterRelations, RowsChange
from streamsql.engine.definitions import watermark_policy
from streamsql.engine.layouts import Layout
from streamsql.engine.new_columns import NewColumns
from streamsql.engine.relations import Relation
from streamsql.engine.side_check import validator
from streamsql.engine.storage.changelog import ChangeLog
from streamsql.engine.storage.table import TableState
from streamsql.engine.storage.view import NO_NODE, ViewState
from streamsql.engine.tables import new_table_state

if TYPE_CHECKING:
    from streamsql.engine.build import Built
    from streamsql.engine.engine import Engine


# --- before the log is written --------------------------------------------------------------------
def alter(engine: Engine, op: AlterRelations, built: Built) -> None:
    """Apply the change to the catalog, and prepare rows and circuit. Raises: 23502, 40001, 42P07,
    errors of the views that are built anew."""
    before = {r.oid: built.catalog.relations[r.oid] for r in op.relations}
    op.apply(built.catalog)
    built.changed |= before.keys()
    for change in op.rows:
        _change_rows(engine, change, before[change.oid], built)
    for layout in op.layouts:
        if layout.oid not in built.nodes and layout.oid not in engine.nodes:
            _add_layout(engine, layout, built)
    for oid, old in before.items():
        relation = built.catalog.relations[oid]
        if relation.kind == "table":
            _check_nulls(engine, old, relation, built)
            _check_constraints(engine, op, old, relation, built)
        if relation.kind == "materialized_view" and relation.suspended != old.suspended:
            _stop_or_start(engine, relation, built)
        elif relation.connector and (
            old.columns != relation.columns or (is_paused(old) and not is_paused(relation))
        ):
            built.sources[oid] = engine.ingest.open(relation, built.catalog)


def _change_rows(engine: Engine, change: RowsChange, old: Relation, built: Built) -> None:
    """The table's rows in their new columns, and a source node for them below the old one."""
    from streamsql.operators.layout import Layout as LayoutOperator
    from streamsql.operators.source import Source
    from streamsql.runtime.compile import source_label

    oid = change.oid
    relation = built.catalog.relations[oid]
    made = engine.jobs.table_of(oid)
    table = built.tables.get(oid) or engine.tables[oid]
    log = converted_log(table.log, old, relation, built.catalog, change)
    if made is None:
        made = converted(table, relation, built.catalog, change)
    built.tables[oid] = made
    made.log = log
    node = built.nodes[oid] if oid in built.nodes else engine.nodes[oid]
    policy = watermark_policy(relation.options)
    back: dict[int, int] = {p: i for i, p in enumerate(change.columns) if p is not None}
    positions = [back.get(i) for i in range(len(old.columns))]
    column = relation.watermark_column
    source = Source(relation.columns, append_only=relation.append_only, watermark_column=column)
    source.lateness_us = policy.lateness_us
    older = LayoutOperator(
        old.columns,
        positions,
        append_only=old.append_only,
        watermark_column=old.watermark_column,
        lateness_us=policy.lateness_us,
    )
    circuit = engine.circuit
    built.underpinned.append((node, circuit.nodes[node].operator))
    label = source_label(oid, relation.layout)
    below = circuit.underpin(node, source, label, older)
    circuit.retain(below)
    built.nodes[oid] = below


def converted(
    table: TableState,
    relation: Relation,
    catalog: Catalog,
    change: RowsChange,
    rows: pa.Table | None = None,
) -> TableState:
    """The table's rows under its new definition; row ids and watermarks stay. rows: those of an
    older version.

    Raises: SerializationFailure (40001) if the values of a new column are for other rows; errors of
    the expressions that give them; UniqueViolation (23505).
    """
    made = new_table_state(relation, catalog)
    made.next_row_id = table.next_row_id
    if made.tracker is not None and table.tracker is not None:
        made.tracker.state = table.tracker.state
    columns = NewColumns(change, table.relation, relation, catalog)
    for batch in (table.snapshot() if rows is None else rows).to_batches():
        if batch.num_rows:
            made.store.apply(Delta(in_columns(columns, batch, made), None, None, True))
    check_keys(made)
    return made


def converted_log(
    log: ChangeLog, old: Relation, relation: Relation, catalog: Catalog, change: RowsChange
) -> ChangeLog:
    """The table's older versions under its new definition: rows that were gone before a column came
    have in it what it gives to every row, or what is computed of the row, or NULL."""
    columns = NewColumns(change, old, relation, catalog, lenient=True)
    width = len(old.columns)

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        hidden = [batch.column(i) for i in range(width, batch.num_columns)]
        values = [*columns.of(batch), *hidden]
        fields = [(f"c{i}", column.type) for i, column in enumerate(values)]  # as `Schema.arrow`
        return make_batch(values, pa.schema(fields), batch.num_rows)

    return log.converted(convert)


def in_columns(columns: NewColumns, batch: pa.RecordBatch, made: TableState) -> pa.RecordBatch:
    """Stored rows of a table as its new state stores them."""
    width = len(columns.old.columns)
    hidden = [batch.column(i) for i in range(width, batch.num_columns)]
    return make_batch([*columns.of(batch), *hidden], made.schema.arrow, batch.num_rows)


def check_keys(made: TableState) -> None:
    """Rows that were made anew are still told apart by their keys.

    Raises: UniqueViolation (23505).
    """
    changed = [k for k in made.relation.keys if k.primary]
    if changed and made.store.total_weight:
        made.store.merge()
        if made.store.total_weight != made.store.live_rows:
            raise UniqueViolation(f'could not create unique index "{changed[0].name}"')


def _check_nulls(engine: Engine, old: Relation, new: Relation, built: Built) -> None:
    """SET NOT NULL, and ADD COLUMN NOT NULL. Raises: NotNullViolation (23502)."""
    table = built.tables.get(new.oid) or engine.tables.get(new.oid)
    if table is None:
        return
    free = {c.name for c in old.columns if not c.nullable}
    fixed = [i for i, c in enumerate(new.columns) if not c.nullable and c.name not in free]
    if not fixed:
        return
    rows = table.snapshot()
    for i in fixed:
        column = new.columns[i]
        if not column.nullable and rows.column(i).null_count:
            raise NotNullViolation(
                f'column "{column.name}" of relation "{new.name}" contains null values',
                hint="Update these rows first, or give the new column a DEFAULT.",
            )


def _check_constraints(
    engine: Engine, op: AlterRelations, old: Relation, new: Relation, built: Built
) -> None:
    """CHECK and UNIQUE that the rows had not to keep before. Raises: 23505, 23514."""
    table = built.tables.get(new.oid) or engine.tables.get(new.oid)
    if table is None or engine.replay_us is not None or engine.jobs.has_checked(new.oid):
        return
    wanted = validator(op, old, new, built.catalog)
    if wanted:
        for batch in table.snapshot().to_batches():
            wanted.take(batch)
        wanted.finish(table)


# --- layouts --------------------------------------------------------------------------------------
def _add_layout(engine: Engine, layout: Layout, built: Built) -> None:
    """A node for a layout that a view reads from now on."""
    base = built.catalog.relations[layout.of]
    nodes = {**engine.nodes, **built.nodes}
    if layout.of in nodes:
        built.nodes[layout.oid] = layout_node(engine, layout, base, nodes[layout.of])


def add_layouts(
    engine: Engine, relation: Relation, catalog: Catalog, nodes: dict[int, int]
) -> None:
    """The nodes of all layouts of a relation whose own node is in `nodes`."""
    for layout in catalog.layouts.values():
        if layout.of == relation.oid and relation.oid in nodes:
            nodes[layout.oid] = layout_node(engine, layout, relation, nodes[relation.oid])


def layout_node(engine: Engine, layout: Layout, base: Relation, node: int) -> int:
    """The circuit node of a layout, held once for it."""
    from streamsql.operators.layout import Layout as LayoutOperator
    from streamsql.runtime.compile import add_layout, source_label

    circuit = engine.circuit
    if layout.number == base.layout and layout.positions == tuple(range(len(base.columns))):
        circuit.retain(node)
        return node
    as_was = layout.as_relation(base)
    made = LayoutOperator(
        layout.columns,
        layout.positions,
        append_only=base.append_only,
        watermark_column=as_was.watermark_column,
        lateness_us=circuit.nodes[node].operator.lateness_us,
    )
    return add_layout(circuit, node, source_label(base.oid, layout.number), made)


# --- views that stop and start --------------------------------------------------------------------
def _stop_or_start(engine: Engine, relation: Relation, built: Built) -> None:
    if relation.suspended is not None:
        built.suspended.append(relation.oid)
    else:
        engine.builder.make_view(relation, built)
        add_layouts(engine, relation, built.catalog, built.nodes)


def input_views(catalog: Catalog, relation: Relation) -> set[int]:
    """Materialized views that a view reads, directly or through plain views."""
    found: set[int] = set()
    stack = list(relation.depends_on)
    while stack:
        other = catalog.relations.get(stack.pop())
        if other is None:
            continue
        if other.kind == "materialized_view":
            found.add(other.oid)
        elif other.kind == "view":
            stack.extend(other.depends_on)
    return found


def check_inputs_run(relation: Relation, catalog: Catalog, views: Mapping[int, ViewState]) -> None:
    """Raises: ObjectNotInPrerequisiteState (55000) if one of the views that it reads is suspended,
    or was set aside."""
    for oid in sorted(input_views(catalog, relation)):
        check_runs(catalog.relations[oid])
        if oid in views and views[oid].broken is not None:
            raise has_failed(catalog.relations[oid])


# --- in force -------------------------------------------------------------------------------------
def is_paused(relation: Relation) -> bool:
    """Whether a source is suspended."""
    return bool(relation.extra.get("paused"))


def replace_sources(engine: Engine, built: Built) -> None:
    """Readers of connectors whose columns changed, or that go on after a pause, start anew where
    the old ones have come to; those that pause give back what nobody has taken yet."""
    for oid in built.changed - built.sources.keys():
        relation, source = built.catalog.relations.get(oid), engine.sources.get(oid)
        if relation is not None and source is not None and is_paused(relation):
            source.close()
            source.status = "paused"
    for oid, new in built.sources.items():
        old = engine.sources.get(oid)
        if old is not None:
            old.close()
            new.positions, new.runs, new.rows = old.positions, old.runs, old.rows
            if new.tracker is not None and old.tracker is not None:
                new.tracker.state = old.tracker.state


def end_readers(engine: Engine, oid: int, error: StreamSqlError) -> None:
    """End the change streams of a relation, and of queries that read it. Under the state lock."""
    engine.hub.drop_relation(oid, error)
    _end_queries(engine, oid, error)


def _reads(catalog: Catalog, relation: Relation) -> set[int]:
    """OIDs of all that a definition reads, plain views' too."""
    found: set[int] = set()
    stack = list(relation.depends_on)
    while stack:
        oid = stack.pop()
        if oid not in found:
            found.add(oid)
            other = catalog.relations.get(oid)
            if other is not None and other.kind == "view":
                stack.extend(other.depends_on)
    return found


def end_streams(engine: Engine, built: Built) -> None:
    """Streams whose columns are others now get an error; the rest goes on. Under the state lock."""
    for oid in built.changed:
        old, new = engine.catalog.relations.get(oid), built.catalog.relations.get(oid)
        if old is None or new is None:
            continue
        error = ObjectNotInPrerequisiteState(
            f'relation "{old.name}" was altered', hint="SUBSCRIBE again."
        )
        if old.columns.types != new.columns.types or old.layout != new.layout:
            end_readers(engine, oid, error)
        elif oid in built.replaced or new.suspended != old.suspended:
            _end_queries(engine, oid, error)


def _end_queries(engine: Engine, oid: int, error: StreamSqlError) -> None:
    """End the streams of queries over a relation, not those of the relation itself."""
    for other in list(engine.views.values()):
        temporary = other.relation.oid not in engine.catalog.relations
        if temporary and oid in _reads(engine.catalog, other.relation):
            engine.hub.drop_relation(other.relation.oid, error)


def finish(engine: Engine, built: Built) -> None:
    """Let go of what the change has replaced. Under the state lock."""
    catalog, circuit = built.catalog, engine.circuit
    _rename_recorded(engine, built)
    for oid in built.changed:
        relation = catalog.relations.get(oid)
        if relation is not None:
            _redefine(engine, oid, relation)
    for oid in built.suspended:
        view = engine.views[oid]
        engine.builder.release_view(oid, view)
        engine.past.forget(oid)
        view.node = NO_NODE
    for node in (*(n for n, _ in built.underpinned), *built.released):
        circuit.release(node)
    for layout in built.layouts:
        _let_layout_go(engine, layout.oid)
    for oid in built.suspended:
        for layout in catalog.layouts.values():
            if layout.of == oid:
                _let_layout_go(engine, layout.oid)


def let_layouts_go(engine: Engine, oid: int) -> None:
    """The nodes of all layouts of a relation that has none any more. Under the state lock."""
    for layout in engine.catalog.layouts.values():
        if layout.of == oid:
            _let_layout_go(engine, layout.oid)


def _let_layout_go(engine: Engine, oid: int) -> None:
    node = engine.nodes.pop(oid, None)
    if node is not None and node in engine.circuit.nodes:
        engine.circuit.release(node)


def _rename_recorded(engine: Engine, built: Built) -> None:
    """What was recorded under a name gets the new one, or goes if the view was replaced."""
    renamed = []
    for oid in built.changed:
        old, new = engine.catalog.relations.get(oid), built.catalog.relations.get(oid)
        if old is None or new is None:
            continue
        if (old.schema, old.name) != (new.schema, new.name):
            renamed.append((old, new))
        elif oid in built.views:
            engine.system.forget(old)
    if renamed:
        engine.system.rename(renamed)


def _redefine(engine: Engine, oid: int, relation: Relation) -> None:
    """States know their new definitions."""
    for states in (engine.tables, engine.views, engine.sources):
        state = states.get(oid)  # type: ignore[attr-defined]
        if state is not None:
            state.relation = relation
    for tracked in (engine.tables.get(oid), engine.sources.get(oid)):
        if tracked is not None and tracked.tracker is not None:
            tracked.tracker.policy = watermark_policy(relation.options)
    table = engine.tables.get(oid)
    if table is not None and table.schema.columns[: len(relation.columns)] != (
        relation.columns.columns
    ):
        hidden = table.schema.columns[len(relation.columns) :]
        table.schema = Schema((*relation.columns.columns, *hidden))
    view = engine.views.get(oid)
    if view is not None:
        view.schema = relation.columns
