"""ALTER on the engine thread: rows, circuit and streams follow the new definitions.

`alter` does all that can fail, before the log is written, and notes in `Built` how to undo it;
`finish` puts it in force in the instant in which the version moves, under the state lock.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.delta import Delta, make_batch
from streamsql.core.errors import (
    NotNullViolation,
    ObjectNotInPrerequisiteState,
    StatementError,
    StreamSqlError,
)
from streamsql.core.schema import Schema
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.ddl import AlterRelations, RowsChange, concurrent_update
from streamsql.engine.definitions import program_of, watermark_policy
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.layouts import Layout
from streamsql.engine.relations import Relation
from streamsql.engine.storage.changelog import ChangeLog
from streamsql.engine.storage.table import TableState, row_ids
from streamsql.engine.storage.view import NO_NODE
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
        _check_nulls(engine, old, relation, built)
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
    table = built.tables.get(oid) or engine.tables[oid]
    built.tables[oid] = converted(table, relation, built.catalog, change)
    built.tables[oid].log = converted_log(table, relation, built.catalog, change)
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

    Raises: SerializationFailure (40001) if the values of a new column are for other rows.
    """
    made = new_table_state(relation, catalog)
    made.next_row_id = table.next_row_id
    if made.tracker is not None and table.tracker is not None:
        made.tracker.state = table.tracker.state
    fill = _Fill(change, relation.columns)
    for batch in (table.snapshot() if rows is None else rows).to_batches():
        if batch.num_rows:
            hidden = [batch.column(i) for i in range(table.num_columns, batch.num_columns)]
            columns = [
                batch.column(at) if at is not None else fill.values(i, batch, table.num_columns)
                for i, at in enumerate(change.columns)
            ]
            whole = make_batch([*columns, *hidden], made.schema.arrow, batch.num_rows)
            made.store.apply(Delta(whole, None, None, True))
    return made


def converted_log(
    table: TableState, relation: Relation, catalog: Catalog, change: RowsChange
) -> ChangeLog:
    """The table's older versions under its new definition: rows that were gone before a column came
    have in it what it gives to every row, or what is computed of the row, or NULL."""
    fill = _Fill(change, relation.columns)
    width, columns = table.num_columns, change.columns
    generated: RowMaker | None = None
    if fill.by_row:
        program = program_of(relation, BindScope(catalog, relation.context))
        new = {i for i, at in enumerate(columns) if at is None}
        if new <= {i for i, _ in program.generated}:
            generated = RowMaker(relation, program)

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        hidden = [batch.column(i) for i in range(width, batch.num_columns)]
        made = [
            batch.column(at) if at is not None else fill.known_values(i, batch, width)
            for i, at in enumerate(columns)
        ]
        if generated is not None:
            rows = make_batch(made, relation.columns.arrow, batch.num_rows)
            with suppress(StatementError):  # it fails for a row that is gone: NULL
                made = generated.regenerate(rows, 0, relation.context.timezone).columns
        return make_batch([*made, *hidden], stored.arrow, batch.num_rows)

    stored = Schema((*relation.columns.columns, *table.schema.columns[width:]))
    return table.log.converted(convert)


class _Fill:
    """The values of new columns: one for all rows, or one for each."""

    def __init__(self, change: RowsChange, columns: Schema) -> None:
        new = [i for i, at in enumerate(change.columns) if at is None]
        self._types = [c.type.arrow for c in columns]
        self._given: dict[int, pa.Array] = {}
        self._ids: npt.NDArray[np.int64] | None = None
        if not change.fill:
            return
        table = read_fill(change.fill).combine_chunks()
        batches = table.to_batches()
        for k, i in enumerate(new):
            empty = pa.array([], self._types[i])
            self._given[i] = batches[0].column(k) if batches else empty
        if "id" in table.column_names:
            known = np.asarray(table.column("id"), np.int64)
            self._order = np.argsort(known, kind="stable")
            self._ids = known[self._order]

    @property
    def by_row(self) -> bool:
        """Whether each row has a value of its own."""
        return self._ids is not None

    def known_values(self, column: int, batch: pa.RecordBatch, id_column: int) -> pa.Array:
        """The column for stored rows of older versions; NULL where no value is known."""
        given, n = self._given.get(column), batch.num_rows
        if given is None or not len(given):
            return pa.nulls(n, self._types[column])
        if self._ids is None:
            return given.take(pa.array(np.zeros(n, np.int64)))
        wanted, ids = row_ids(batch, id_column), self._ids
        at = np.minimum(np.searchsorted(ids, wanted), ids.size - 1)
        return given.take(pa.array(self._order[at], mask=ids[at] != wanted))

    def values(self, column: int, batch: pa.RecordBatch, id_column: int) -> pa.Array:
        """The column for a batch of stored rows."""
        n = batch.num_rows
        given = self._given.get(column)
        if given is None:
            return pa.nulls(n, self._types[column])
        if self._ids is None:
            return given.take(pa.array(np.zeros(n, np.int64)))
        wanted, ids = row_ids(batch, id_column), self._ids
        at = np.searchsorted(ids, wanted)
        if not ids.size or bool((ids[np.minimum(at, ids.size - 1)] != wanted).any()):
            raise concurrent_update()
        return given.take(pa.array(self._order[at]))


def read_fill(data: bytes) -> pa.Table:
    """Inverse of `write_fill`."""
    return pa.ipc.open_stream(data).read_all()


def write_fill(columns: Sequence[pa.Array], ids: pa.Array | None) -> bytes:
    """`RowsChange.fill`: the new columns' values, with the row ids unless they are for all rows."""
    named = {f"c{i}": column for i, column in enumerate(columns)}
    if ids is not None:
        named["id"] = ids
    table = pa.table(named)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


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
        engine.builder.build_view(relation, built)
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
        if old.columns.types != new.columns.types:
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
    for oid in built.changed:
        relation = catalog.relations.get(oid)
        if relation is not None:
            _rename(engine, oid, relation, replaced=oid in built.views)
    for oid in built.suspended:
        view = engine.views[oid]
        engine.builder.release_view(oid, view)
        view.node = NO_NODE
    for node in (*(n for n, _ in built.underpinned), *built.released):
        circuit.release(node)
    for layout in built.layouts:
        _let_layout_go(engine, layout.oid)
    for oid in built.suspended:
        for layout in catalog.layouts.values():
            if layout.of == oid:
                _let_layout_go(engine, layout.oid)


def _let_layout_go(engine: Engine, oid: int) -> None:
    node = engine.nodes.pop(oid, None)
    if node is not None and node in engine.circuit.nodes:
        engine.circuit.release(node)


def _rename(engine: Engine, oid: int, relation: Relation, *, replaced: bool) -> None:
    """States know their new definitions; what was recorded under a name, the new name."""
    before = engine.catalog.relations.get(oid)
    if before is not None and before.name != relation.name:
        engine.system.rename(before, relation.name)
    elif before is not None and replaced:
        engine.system.forget(before)
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
