"""Rows that went, and whose going counts: what VERIFY needs beside the tables to replay their past.

A view keeps a row of a closed window when the table lets go of it. So that the view is a function
of what is kept, rows that went in a tick in which some view left a deletion out are kept here, for
that view, with the watermarks under which they came and went. So are rows behind the watermark that
go from below a GROUP BY or DISTINCT whose rows are judged, or from a session: a row that came late
may be on time only because they were there. And so is every row that goes from a relation whose
rows a view beholds only at a moment (`needs.Needs.whole`).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, Int64Array
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.engine.definitions import watermark_policy
from streamsql.engine.storage.table import TableState, row_ids
from streamsql.engine.storage.view import NO_NODE
from streamsql.operators.event_time import event_time_us
from streamsql.operators.late import is_late
from streamsql.plan.visit import scans
from streamsql.state.checkpoint import mark_immutable

if TYPE_CHECKING:
    from streamsql.circuit.operator import Step
    from streamsql.engine.engine import Engine
    from streamsql.engine.requests import Tick
    from streamsql.engine.storage.table import TableChange
    from streamsql.engine.storage.view import ViewState

KEPT_ROWS = 100_000
SMALL_ROWS, SMALL_MAX = 4096, 64
"""So many entries of so few rows are joined into larger ones."""
LOST = ("incomplete", "trimmed")
WENT = ("\x00version", "\x00position", "\x00mark")


@dataclass(frozen=True)
class Gone:
    """Rows of one table that went. views: OIDs of those that it counts for. version: of the tick in
    which each row went; position: id of the first row that came afterwards; mark: the table's
    watermark, µs (NO_WATERMARK without one); int64 [rows]. rows: in the schema of the table's
    store. number: names it in checkpoints."""

    views: frozenset[int]
    table: int
    version: Int64Array
    position: Int64Array
    mark: Int64Array
    rows: pa.RecordBatch
    number: int


class LateChanges:
    """What `streamsql.late_rows` tells of deletions, with the whole rows, and what else is kept.
    incomplete: views that miss some of it where views below are not computed anew; trimmed: views
    of which too many rows went to be kept."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._gone: list[Gone] = []
        self._small = 0
        self._numbers = itertools.count(1)
        self.incomplete: set[int] = set()
        self.trimmed: set[int] = set()

    def record(self, tick: Tick, step: Step) -> None:
        """Take what operators left out in one tick, and what went from tables."""
        nodes = {late.node for late in step.late if _any_deletion(late.weights)}
        engine = self.engine
        views = [v for v in engine.views.values() if nodes and nodes & set(engine.own_nodes(v))]
        old = {c.relation_id for c in tick.changes if c.retracted.num_rows and self._behind(c)}
        grouped = [v for v in engine.views.values() if old and _judges(v)]
        found = False
        for change in tick.changes:
            if not change.retracted.num_rows:
                continue
            oids = set(engine.past.keepers(change.relation_id))
            readers = self._readers(views, change.relation_id)
            found = found or bool(readers)
            oids |= readers
            if change.relation_id in old:
                oids |= self._readers(grouped, change.relation_id)
            if oids:
                self._keep(frozenset(oids), change, tick.version)
        if views and not found:  # it was a view below that took rows back: what it held is not kept
            self.incomplete.update(v.relation.oid for v in views if self._over_views(v))

    def _readers(self, views: Iterable[ViewState], table: int) -> set[int]:
        """OIDs of those of the views that stand on a table."""
        engine = self.engine
        node = engine.nodes.get(table)
        return {v.relation.oid for v in views if node in engine.circuit.cone(v.node)}

    def _behind(self, change: TableChange) -> bool:
        """Whether a row that goes is behind the watermark."""
        table, tracker = self.engine.tables.get(change.relation_id), change.before[1]
        column = None if table is None else table.relation.watermark_column
        if table is None or tracker is None or column is None:
            return False
        times, valid = event_time_us(change.retracted.column(column))
        lateness_us = watermark_policy(table.relation.options).lateness_us
        behind = is_late(times, np.full(times.size, tracker.value), lateness_us)
        return bool((behind if valid is None else behind & valid).any())

    def _over_views(self, view: ViewState) -> bool:
        below = {s.relation_id for s in scans(view.compiled.plan)}
        return not below.isdisjoint(self.engine.views)

    def _keep(self, views: frozenset[int], change: TableChange, version: int) -> None:
        next_row_id, tracker = change.before
        mark = NO_WATERMARK if tracker is None else tracker.value
        rows = change.retracted
        numbers = (version, next_row_id, mark)
        went, at, under = (np.full(rows.num_rows, n, np.int64) for n in numbers)
        number = next(self._numbers)
        self._gone.append(Gone(views, change.relation_id, went, at, under, rows, number))
        self._small += 1
        if self._small > SMALL_MAX:
            self._join()
        self._trim()

    def _join(self) -> None:
        """Make larger entries of small ones: each is kept as a table in checkpoints."""
        out: list[Gone] = []
        groups: dict[tuple[object, ...], list[Gone]] = {}
        for g in self._gone:
            if g.rows.num_rows >= SMALL_ROWS:
                out.append(g)
            else:
                key = (g.views, g.table, str(g.rows.schema))
                groups.setdefault(key, []).append(g)
        for parts in groups.values():
            went, at = _whole(g.version for g in parts), _whole(g.position for g in parts)
            under = _whole(g.mark for g in parts)
            (rows,) = pa.Table.from_batches([g.rows for g in parts]).combine_chunks().to_batches()
            first, number = parts[0], next(self._numbers)
            out.append(Gone(first.views, first.table, went, at, under, rows, number))
        self._gone = sorted(out, key=lambda g: int(g.version[-1]))
        self._small = 0

    def _trim(self) -> None:
        total = sum(g.rows.num_rows for g in self._gone)
        while total > KEPT_ROWS:
            lost = self._gone.pop(0)
            total -= lost.rows.num_rows
            self.incomplete |= lost.views
            self.trimmed |= lost.views

    def forget(self, view: int) -> None:
        """The view was dropped, or filled anew."""
        self.incomplete.discard(view)
        self.trimmed.discard(view)
        if any(view in g.views for g in self._gone):
            rest = (replace(g, views=g.views - {view}) for g in self._gone)
            self._gone = [g for g in rest if g.views]

    def knows(self, view: int) -> bool:
        """Whether all that went and counts for the view is here, in the columns of today."""
        return view not in self.incomplete and self._readable({view})

    def know(self, views: Collection[int]) -> bool:
        """The same for views that are computed from their tables, with the views between: what a
        view below took back is computed again."""
        return self.trimmed.isdisjoint(views) and self._readable(views)

    def _readable(self, views: Collection[int]) -> bool:
        tables = self.engine.tables
        return all(
            g.table in tables and g.rows.schema.equals(tables[g.table].schema.arrow)
            for g in self._gone
            if not g.views.isdisjoint(views)
        )

    def history(
        self, table: TableState, views: Collection[int], after: int = 0
    ) -> tuple[Delta, Int64Array, Int64Array, Int64Array]:
        """All changes of a table that count for these views, in no order: (rows with their weights
        and watermarks, id of each row, id of the first row after the change, version in which a row
        went or −1). after: rows that went up to this version never were."""
        gone = [g for g in self._gone if g.table == table.relation.oid]
        gone = [g for g in gone if not g.views.isdisjoint(views) and g.version[-1] > after]
        gone = [g for g in gone if g.rows.schema.equals(table.schema.arrow)]
        n = table.num_columns
        there = table.store.snapshot().combine_chunks().to_batches()
        came = [*there, *(g.rows for g in gone)] or [table.no_rows()]
        ids = _whole(row_ids(b, n) for b in came)
        left = _whole([*(g.position for g in gone), _NONE])
        version = _whole([*(g.version for g in gone), _NONE])
        rows = pa.Table.from_batches([*came, *(g.rows for g in gone)]).combine_chunks()
        (batch,) = rows.to_batches() or [table.no_rows()]
        weights = np.concatenate([np.ones(ids.size, np.int64), np.full(left.size, -1)])
        watermark = None
        if table.tracker is not None:
            marks = _whole(np.asarray(b.column(n + 1), np.int64) for b in came)
            watermark = np.concatenate([marks, *(g.mark for g in gone)])
        delta = Delta(batch.select(list(range(n))), weights if left.size else None, watermark)
        went = np.concatenate([np.full(ids.size, -1), version])
        own = np.concatenate([ids, *(row_ids(g.rows, n) for g in gone)])
        return delta, own, np.concatenate([ids + 1, left]), went

    def replay(self, table: TableState, view: int) -> Delta:
        """The changes of a table as a view saw them, as far as they count: those of the rows that
        are there, and of rows that went too late."""
        delta, _, place, went = self.history(table, {view})
        if delta.weights is None:
            return table.arrivals()
        order = np.argsort(np.where(went < 0, 2 * place - 1, 2 * place), kind="stable")
        return delta.take(order)

    # --- checkpoints ----------------------------------------------------------------------------
    def save(self) -> dict[str, pa.Table]:
        """A table for each entry; those that do not change any more are the same ones each time."""
        out = {}
        for g in self._gone:
            columns = [*g.rows.columns, *map(pa.array, (g.version, g.position, g.mark))]
            table = pa.table(columns, [*g.rows.schema.names, *WENT])
            about = {"views": ",".join(str(v) for v in sorted(g.views)), "table": str(g.table)}
            out[f"gone-{g.number:09d}"] = mark_immutable(table.replace_schema_metadata(about))
        for name, views in zip(LOST, (self.incomplete, self.trimmed), strict=True):
            if views:
                out[name] = pa.table({"view": sorted(views)})
        return out

    def load(self, saved: dict[str, pa.Table]) -> None:
        """Inverse of `save`."""
        names = sorted(name for name in saved if name.startswith("gone-"))
        self._gone = [_loaded(saved[name], i) for i, name in enumerate(names, 1)]
        self._numbers = itertools.count(len(names) + 1)
        lost = [saved[n]["view"].to_pylist() if n in saved else [] for n in LOST]
        self.incomplete, self.trimmed = map(set, lost)


_NONE = np.empty(0, np.int64)


def _judges(view: ViewState) -> bool:
    return view.node != NO_NODE and view.broken is None and bool(view.compiled.judges_groups)


def _any_deletion(weights: object) -> bool:
    return weights is not None and bool(np.any(np.asarray(weights) < 0))


def _loaded(table: pa.Table, number: int) -> Gone:
    about = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    views = frozenset(int(v) for v in about["views"].split(",") if v)
    (rows,) = table.replace_schema_metadata(None).combine_chunks().to_batches()
    went, at, under = (np.asarray(rows[name], np.int64) for name in WENT)
    plain = rows.select(rows.schema.names[: -len(WENT)])
    return Gone(views, int(about["table"]), went, at, under, plain, number)


def _whole(parts: Iterable[Int64Array]) -> Int64Array:
    found = [np.asarray(p, np.int64) for p in parts]
    return np.concatenate(found) if found else _NONE
