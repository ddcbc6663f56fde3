"""The system relations of schema `streamsql`: what was late, what failed, what is running."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.circuit.idle import slowest_source
from streamsql.circuit.operator import LateRow, RowError, Step
from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, DOUBLE, INTERVAL, JSON, TEXT, TIMESTAMP, TIMESTAMPTZ
from streamsql.engine import history
from streamsql.engine.held_back import open_span
from streamsql.engine.json_rows import rows_as_json
from streamsql.engine.relations import Owner, Relation
from streamsql.engine.requests import Tick
from streamsql.engine.storage.watermarks import to_us
from streamsql.functions.compute.intervals import from_parts

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine

DAY_US = 86_400_000_000
LONG_DAYS = 2**63 // 1000 // DAY_US
KEPT_ROWS = 1_000_000
"""Rows of late_rows and source_errors that are kept; the oldest go first."""

FIRST_OID = 13100

SCHEMA_NAME = ("schema_name", TEXT)
"""Where the view, the source or the relation stands that a row is about; the last column."""

SCHEMAS: dict[str, Schema] = {
    "late_rows": Schema.of(
        ("view", TEXT), ("source", TEXT), ("row", JSON), ("event_time", TIMESTAMP),
        ("watermark", TIMESTAMP), ("late_by", INTERVAL), ("version", BIGINT), SCHEMA_NAME,
    ),
    "view_errors": Schema.of(
        ("view", TEXT), ("sqlstate", TEXT), ("message", TEXT), ("row", JSON), ("version", BIGINT),
        SCHEMA_NAME,
    ),
    "source_errors": Schema.of(
        ("source", TEXT), ("partition", TEXT), ("offset", TEXT), ("payload", TEXT),
        ("reason", TEXT), ("version", BIGINT), SCHEMA_NAME,
    ),
    "watermarks": Schema.of(
        ("relation", TEXT), ("operator", TEXT), ("watermark", TIMESTAMP), ("held_back_by", TEXT),
        ("since", TIMESTAMP), SCHEMA_NAME,
    ),
    "sources": Schema.of(
        ("name", TEXT), ("connector", TEXT), ("status", TEXT), ("rows", BIGINT),
        ("queued_rows", BIGINT), ("positions", JSON), ("error", TEXT), SCHEMA_NAME,
    ),
    "sinks": Schema.of(
        ("name", TEXT), ("connector", TEXT), ("status", TEXT), ("error", TEXT), SCHEMA_NAME
    ),
    "jobs": Schema.of(
        ("id", BIGINT), ("kind", TEXT), ("relation", TEXT), ("statement", TEXT), ("state", TEXT),
        ("rows_done", BIGINT), ("rows_estimated", BIGINT), ("progress", DOUBLE),
        ("started", TIMESTAMPTZ), ("error", TEXT), SCHEMA_NAME,
    ),
    "operators": Schema.of(
        ("view", TEXT), ("node", BIGINT), ("operator", TEXT), ("maintenance", TEXT),
        ("state", TEXT), ("state_rows", BIGINT), ("state_bytes", BIGINT), ("rows_in", BIGINT),
        ("rows_out", BIGINT), ("late_rows", BIGINT), ("errors", BIGINT), ("busy_us", BIGINT),
        ("watermark", TIMESTAMP), SCHEMA_NAME,
    ),
    "settings": Schema.of(("name", TEXT), ("value", TEXT), ("description", TEXT)),
    "retained_versions": Schema.of(
        ("relation", TEXT), ("retention", TEXT), ("oldest_version", BIGINT),
        ("oldest_time", TIMESTAMPTZ), ("changes", BIGINT), ("bytes", BIGINT),
        ("disk_bytes", BIGINT), SCHEMA_NAME,
    ),
    "indexes": Schema.of(
        ("name", TEXT), ("relation", TEXT), ("entries", BIGINT), ("bytes", BIGINT),
        ("lookups", BIGINT), SCHEMA_NAME,
    ),
    "subscriptions": Schema.of(
        ("name", TEXT), ("relation", TEXT), ("retention", INTERVAL), ("oldest_version", BIGINT),
        ("newest_version", BIGINT), ("bytes", BIGINT), SCHEMA_NAME,
    ),
}  # fmt: skip

NOT_COUNTED = (None, None, None)
"""rows_done, rows_estimated and progress of a view that is there."""

ERROR_KEY = tuple[str, str, str, str, str]
"""View, SQLSTATE, message, row, schema of the view."""
KEPT = ("late_rows", "source_errors", "view_errors")
Owners = Sequence[Owner]


def _spans(begin_us: Int64Array, end_us: Int64Array) -> pa.Array:
    """INTERVAL[n] from one moment to another: in days too where its nanoseconds would not fit."""
    days = end_us // DAY_US - begin_us // DAY_US
    rest = end_us % DAY_US - begin_us % DAY_US
    days, rest = days - (rest < 0), rest + DAY_US * (rest < 0)
    long = np.abs(days) >= LONG_DAYS
    return from_parts(0, days * long, rest + DAY_US * days * ~long)


def system_relations() -> list[Relation]:
    """The catalog's entries."""
    return [
        Relation(
            oid=FIRST_OID + i,
            schema="streamsql",
            name=name,
            kind="system",
            columns=schema,
            type_oid=FIRST_OID + 100 + i,
        )
        for i, (name, schema) in enumerate(SCHEMAS.items())
    ]


@dataclass(frozen=True)
class Mark:
    """How far a relation that only grows has come. gains: rows that were ever added. losses: how
    often rows went."""

    gains: int
    losses: int


class SystemState:
    """What the system relations remember, and how the computed ones are made."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._opened_us = time.time_ns() // 1000
        self._late: list[pa.RecordBatch] = []
        self._source_errors: list[pa.RecordBatch] = []
        self._errors: dict[ERROR_KEY, list[int]] = {}
        self._gains: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self._computed: dict[str, Callable[[], list[tuple[Any, ...]]]] = {
            "watermarks": self._watermark_rows,
            "sources": self._source_rows,
            "sinks": list,
            "jobs": self._job_rows,
            "operators": self._operator_rows,
            "settings": self._setting_rows,
            "retained_versions": self._retained_rows,
            "indexes": self._index_rows,
            "subscriptions": self._subscription_rows,
        }

    # --- recording (engine thread) --------------------------------------------------------------
    def record(self, tick: Tick, step: Step, views: Collection[int] | None = None) -> None:
        """Take what the operators reported in one tick. views: those that it was reported for while
        they were filled; None = all that the operators work for."""
        owners: dict[tuple[int, int | None], Owners] = {}
        late_at = {(late.node, late.port) for late in step.late}
        for at in {*late_at, *((e.node, None) for e in step.errors)}:
            found = self.engine.owners_of(*at)
            owners[at] = [own for own in found if views is None or own.oid in views]
        for late in step.late:
            self._record_late(late, owners[late.node, late.port], tick.version)
        for error in step.errors:
            self._record_error(error, owners[error.node, None], tick.version)
        if tick.source_errors:
            rows = [(*row[:-1], tick.version, row[-1]) for row in tick.source_errors]
            batch = batch_of(rows, SCHEMAS["source_errors"])
            self._add("source_errors", self._source_errors, batch)

    def _record_late(self, late: LateRow, owners: Owners, version: int) -> None:
        event = np.asarray(late.event_time_us, np.int64)
        watermark = np.asarray(late.watermark_us, np.int64)
        n = late.batch.num_rows
        rows = rows_as_json(late.batch, late.schema)
        intervals = _spans(event, watermark)
        for owner in owners:
            columns = [
                pa.repeat(pa.scalar(owner.view, pa.string()), n),
                pa.repeat(pa.scalar(owner.sources, pa.string()), n),
                rows,
                pa.array(event).cast(pa.timestamp("us")),
                pa.array(watermark).cast(pa.timestamp("us")),
                intervals,
                pa.array(np.full(n, version, np.int64)),
                pa.repeat(pa.scalar(owner.schema, pa.string()), n),
            ]
            schema = SCHEMAS["late_rows"].arrow
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            self._add("late_rows", self._late, batch)

    def _add(self, name: str, batches: list[pa.RecordBatch], more: pa.RecordBatch) -> None:
        before = len(batches) + 1
        batches.append(more)
        self._gains[name] += more.num_rows
        trim(batches)
        self._losses[name] += len(batches) < before

    def mark(self, name: str) -> Mark | None:
        """How far `late_rows` and its like are; None for what is computed."""
        if name not in KEPT:
            return None
        return Mark(self._gains[name], self._losses[name])

    def _record_error(self, error: RowError, owners: Owners, version: int) -> None:
        """An error that is retracted (its row was corrected) leaves the relation again."""
        for owner in owners:
            self._losses["view_errors"] += 1
            key = (owner.view, error.sqlstate, error.message, error.row_json, owner.schema)
            versions = self._errors.setdefault(key, [])
            if error.weight > 0:
                versions += [version] * min(error.weight, KEPT_ROWS)
            else:
                del versions[max(0, len(versions) + error.weight) :]
            if not versions:
                del self._errors[key]

    def record_ahead(
        self, tick: Tick, relation: Relation, rows: pa.RecordBatch, ahead: Int64Array,
        partition: str = "",
    ) -> None:  # fmt: skip
        """Rows too far ahead of the clock: they are kept, but moved no watermark. ahead: their
        positions in the rows, which come from this partition of a source."""
        visible = rows.take(pa.array(ahead)).select(list(range(len(relation.columns))))
        texts = rows_as_json(visible, relation.columns).to_pylist()
        reason = "event time is further ahead of the clock than max_future allows"
        about = (reason, tick.version, relation.schema)
        found = [(relation.name, partition, "", text, *about) for text in texts]
        batch = batch_of(found, SCHEMAS["source_errors"])
        self._add("source_errors", self._source_errors, batch)

    def forget(self, relation: Relation) -> None:
        """A dropped view's errors and late rows go with it."""
        self._losses.update(("late_rows", "view_errors"))
        for key in self._errors_of(relation):
            del self._errors[key]
        if relation.kind == "materialized_view":
            kept = []
            for batch in self._late:
                others = pc.invert(about(batch, 0, relation))
                if pc.any(others).as_py():
                    kept.append(batch.filter(others))
            self._late = kept

    def _errors_of(self, view: Relation) -> list[ERROR_KEY]:
        return [k for k in self._errors if (k[0], k[4]) == (view.name, view.schema)]

    def rename(self, renamed: Sequence[tuple[Relation, Relation]]) -> None:
        """What was recorded under relations' names and schemas stands under their new ones.
        renamed: (before, after); all at once, as two may exchange their names."""
        self._losses.update(KEPT)
        late, errors = [(b, b) for b in self._late], [(b, b) for b in self._source_errors]
        moved: list[tuple[ERROR_KEY, list[int]]] = []
        for old, new in renamed:
            if old.kind == "materialized_view":
                for key in self._errors_of(old):
                    to = (new.name, *key[1:4], new.schema)
                    moved.append((to, self._errors.pop(key)))
                late = [(b, placed(now, about(b, 0, old), new)) for b, now in late]
            else:  # by its name alone: late rows do not tell the schema of what they come from
                late = [(b, named(now, 1, pc.equal(b.column(1), old.name), new.name))
                        for b, now in late]  # fmt: skip
            if old.kind in ("table", "source"):
                errors = [(b, placed(now, about(b, 0, old), new)) for b, now in errors]
        self._errors.update(moved)
        self._late = [now for _, now in late]
        self._source_errors = [now for _, now in errors]

    # --- reading --------------------------------------------------------------------------------
    def table(self, name: str) -> pa.Table:
        """The rows of one system relation now."""
        with self.engine.lock:
            return self._table(name)

    def _table(self, name: str) -> pa.Table:
        schema = SCHEMAS[name].arrow
        if name == "late_rows":
            return pa.Table.from_batches(list(self._late), schema=schema)
        if name == "source_errors":
            return pa.Table.from_batches(list(self._source_errors), schema=schema)
        if name == "view_errors":
            rows = [(*k[:4], v, k[4]) for k, versions in self._errors.items() for v in versions]
            return pa.Table.from_batches([batch_of(rows, SCHEMAS[name])], schema=schema)
        return pa.Table.from_batches([batch_of(self._computed[name](), SCHEMAS[name])])

    def _watermark_rows(self) -> list[tuple[Any, ...]]:
        """A row per source and per operator under one; held_back_by: for a source its slowest
        partition, for an operator the source that is furthest behind of those that are not idle, or
        the join whose open spans hold it; since: when that source moved last, or from when its rows
        were expected."""
        engine = self.engine
        rows: list[tuple[Any, ...]] = []
        origins: dict[int, tuple[str | None, int | None]] = {}
        for oid, tracker in engine.trackers():
            schema, name = engine.qualified_name(oid)
            held = tracker.held_back_by(engine.advance_now())
            since = tracker.state.since_us or tracker.state.begun_us
            rows.append((name, "source", time_or_none(tracker.value), held, since, schema))
            origins[engine.nodes[oid]] = (name, since)
        nodes = engine.circuit.nodes
        for view in list(engine.views.values()):
            for node_id in engine.own_nodes(view):
                if any(i in origins for i in engine.circuit.cone(node_id)):
                    slowest = slowest_source(nodes[node_id]).id
                    holder, since = origins.get(slowest, (None, None))
                    span = open_span(engine, node_id)
                    if span is not None:
                        holder = f"{span.operator.name} #{span.id}"
                    label = f"{nodes[node_id].operator.name} #{node_id}"
                    moved = time_or_none(nodes[node_id].watermark)
                    relation = view.relation
                    rows.append((relation.name, label, moved, holder, since, relation.schema))
        return rows

    def _source_rows(self) -> list[tuple[Any, ...]]:
        import json

        return [
            (s.relation.name, s.relation.connector, s.status, s.rows, s.queue.rows,
             json.dumps(s.positions), s.error, s.relation.schema)
            for s in list(self.engine.sources.values())
        ]  # fmt: skip

    def _job_rows(self) -> list[tuple[Any, ...]]:
        """What is being made, then what runs: views and sources."""
        rows = self.engine.jobs.rows()
        for oid, view in list(self.engine.views.items()):
            failure = self.engine.view_failure(view)
            state = "running" if failure is None else "failed"
            if view.relation.suspended is not None:
                state = "suspended"
            error = None if failure is None else str(failure)
            relation = view.relation
            started = view.started_us or self._opened_us
            rows.append((oid, "materialized view", relation.name, relation.sql, state,
                         *NOT_COUNTED, started, error, relation.schema))  # fmt: skip
        for oid, source in list(self.engine.sources.items()):
            relation = source.relation
            state = "suspended" if source.status == "paused" else source.status
            rows.append((oid, "source", relation.name, relation.sql, state, source.rows, None, None,
                         source.started_us, source.error, relation.schema))  # fmt: skip
        return rows

    def _operator_rows(self) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for view in list(self.engine.views.values()):
            for node_id in self.engine.own_nodes(view):
                node = self.engine.circuit.nodes.get(node_id)
                if node is None:
                    continue
                op, m = node.operator, node.metrics
                rows.append(
                    (view.relation.name, node_id, op.name, op.maintenance,
                     op.explain().get("state"), op.state_rows(), op.state_bytes(), m.rows_in,
                     m.rows_out, m.late_rows, m.errors, m.busy_ns // 1000,
                     time_or_none(node.watermark), view.relation.schema)
                )  # fmt: skip
        return rows

    def _setting_rows(self) -> list[tuple[Any, ...]]:
        from streamsql.engine.settings import Variables

        return list(Variables(self.engine.settings()).all())

    def _index_rows(self) -> list[tuple[Any, ...]]:
        return [
            (i.name, s.relation.name, i.order.entries, i.nbytes, i.lookups, s.relation.schema)
            for s, i in self.engine.indexes.all()
        ]

    def _subscription_rows(self) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for recording in self.engine.recordings:
            days, us = divmod(recording.retention_us, 86_400_000_000)
            store = recording.store
            source = self.engine.relation_name(recording.relation_id)
            rows.append((recording.relation.name, source, (0, days, us * 1000), store.floor,
                         store.newest, store.nbytes, recording.relation.schema))  # fmt: skip
        return rows

    def _retained_rows(self) -> list[tuple[Any, ...]]:
        """What every table and view keeps for reads of older versions."""
        engine = self.engine
        default = engine.retention.text
        states: list[Any] = [*engine.tables.values(), *engine.views.values()]
        return [
            (s.relation.name, s.relation.options.get("retention", default), s.log.floor,
             engine.retention.timeline.time_of(s.log.floor), len(s.log), s.log.nbytes,
             engine.durability.state_bytes(history.name_of(s.relation.oid)), s.relation.schema)
            for s in states
            if s.relation.oid in engine.catalog.relations and s.relation.kind != "system"
        ]  # fmt: skip

    # --- checkpoints ----------------------------------------------------------------------------
    def save(self) -> dict[str, pa.Table]:
        """The rows that are kept, as tables."""
        return {n: self.table(n) for n in KEPT}

    def load(self, saved: dict[str, pa.Table]) -> None:
        """Inverse of `save`."""
        saved = {name: with_schema(saved[name], SCHEMAS[name]) for name in KEPT}
        self._late = saved["late_rows"].to_batches()
        self._source_errors = saved["source_errors"].to_batches()
        self._errors.clear()
        counts = Counter(zip(*(c.to_pylist() for c in saved["view_errors"].columns), strict=True))
        for (*key, version, schema), n in counts.items():
            versions = self._errors.setdefault((*key, schema), [])  # type: ignore[arg-type]
            versions.extend([version] * n)


def batch_of(rows: Sequence[tuple[Any, ...]], schema: Schema) -> pa.RecordBatch:
    """Rows of Python values as a batch; times are µs."""
    columns = []
    for i, column in enumerate(schema):
        values = [row[i] for row in rows]
        if column.type in (TIMESTAMP, TIMESTAMPTZ):
            columns.append(pa.array(values, pa.int64()).cast(column.type.arrow))
        else:
            columns.append(pa.array(values, column.type.arrow))
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def about(batch: pa.RecordBatch, column: int, relation: Relation) -> pa.Array:
    """bool[n]: which rows are about this relation, whose name stands in `column`."""
    here = pc.equal(batch.column(batch.num_columns - 1), relation.schema)
    return pc.and_(pc.equal(batch.column(column), relation.name), here)


def placed(batch: pa.RecordBatch, mask: pa.Array, relation: Relation) -> pa.RecordBatch:
    """The batch with these rows about this relation: its name is the first column, its schema the
    last."""
    batch = named(batch, 0, mask, relation.name)
    return named(batch, batch.num_columns - 1, mask, relation.schema)


def named(batch: pa.RecordBatch, column: int, mask: pa.Array, new: str) -> pa.RecordBatch:
    """The batch with another name in these rows of a column of names."""
    if not pc.any(mask).as_py():
        return batch
    values = pc.if_else(mask, new, batch.column(column))
    return batch.set_column(column, batch.schema.field(column), values)


def with_schema(rows: pa.Table, schema: Schema) -> pa.Table:
    """Rows that were kept before there was `schema_name`, as if all stood in public."""
    if rows.num_columns == len(schema):
        return rows
    public = pa.array(["public"] * rows.num_rows, pa.string())
    return rows.append_column(schema.arrow.field(len(schema) - 1), public)


def trim(batches: list[pa.RecordBatch]) -> None:
    """Drop the oldest batches beyond the limit."""
    total = sum(b.num_rows for b in batches)
    while len(batches) > 1 and total - batches[0].num_rows >= KEPT_ROWS:
        total -= batches.pop(0).num_rows


def time_or_none(us: int) -> int | None:
    """µs, or None for "not yet" and "never"."""
    return None if us in (NO_WATERMARK, END_OF_TIME) else us


__all__ = ["SCHEMAS", "SystemState", "system_relations", "to_us"]
