"""Rows that went too late for a view: what VERIFY needs beside the tables to replay its past.

A view keeps a row of a closed window when the table lets go of it. So that the view is a function
of what is kept, rows that went in a tick in which some view left a deletion out are kept here, for
that view, with the watermarks under which they came and went. So are rows behind the watermark that
go from below a GROUP BY or DISTINCT whose rows are judged: a row that came late may stand in their
place, and was part of the window only because they were there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta
from streamsql.engine.definitions import watermark_policy
from streamsql.engine.reads.plans import scans
from streamsql.engine.storage.table import TableState, row_ids
from streamsql.engine.storage.view import NO_NODE
from streamsql.operators.event_time import event_time_us
from streamsql.operators.late import is_late

if TYPE_CHECKING:
    from streamsql.circuit.operator import Step
    from streamsql.engine.engine import Engine
    from streamsql.engine.requests import Tick
    from streamsql.engine.storage.table import TableChange
    from streamsql.engine.storage.view import ViewState

KEPT_ROWS = 100_000


@dataclass(frozen=True)
class Gone:
    """Rows of one table that went in one tick. views: OIDs of those that left a deletion out.
    position: id of the first row that came afterwards. mark: the table's watermark, µs. rows: in
    the schema of the table's store."""

    views: frozenset[int]
    table: int
    position: int
    mark: int
    rows: pa.RecordBatch


class LateChanges:
    """What `streamsql.late_rows` tells of deletions, with the whole rows."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._gone: list[Gone] = []
        self.incomplete: set[int] = set()

    def record(self, tick: Tick, step: Step) -> None:
        """Take what operators left out in one tick."""
        nodes = {late.node for late in step.late if _any_deletion(late.weights)}
        old = [c for c in tick.changes if c.retracted.num_rows and self._behind(c)]
        if not nodes and not old:
            return
        engine = self.engine
        views = [v for v in engine.views.values() if nodes & set(engine.own_nodes(v))]
        grouped = [v for v in engine.views.values() if old and v not in views and _judges(v)]
        found = False
        for change in old if grouped else ():
            node = engine.nodes.get(change.relation_id)
            readers = [v for v in grouped if node in engine.circuit.cone(v.node)]
            if readers:
                self._gone.append(_gone(frozenset(v.relation.oid for v in readers), change))
        for change in tick.changes:
            node = engine.nodes.get(change.relation_id)
            readers = [v for v in views if node in engine.circuit.cone(v.node)]
            if change.retracted.num_rows and readers and change.before[1] is not None:
                oids = frozenset(v.relation.oid for v in readers)
                self._gone.append(_gone(oids, change))
                found = True
        if nodes and not found:  # it was a view below that took rows back: what it held is not kept
            self.incomplete.update(v.relation.oid for v in views if self._over_views(v))
        self._trim()

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

    def _trim(self) -> None:
        total = sum(g.rows.num_rows for g in self._gone)
        while total > KEPT_ROWS:
            lost = self._gone.pop(0)
            total -= lost.rows.num_rows
            self.incomplete |= lost.views

    def forget(self, view: int) -> None:
        """The view was dropped, or filled anew."""
        self.incomplete.discard(view)
        if any(view in g.views for g in self._gone):
            rest = ((g, g.views - {view}) for g in self._gone)
            self._gone = [
                Gone(views, g.table, g.position, g.mark, g.rows) for g, views in rest if views
            ]

    def knows(self, view: int) -> bool:
        """Whether all that went too late for the view is here, in the columns of today."""
        if view in self.incomplete:
            return False
        tables = self.engine.tables
        return all(
            g.table in tables and g.rows.schema.equals(tables[g.table].schema.arrow)
            for g in self._gone
            if view in g.views
        )

    def replay(self, table: TableState, view: int) -> Delta:
        """The changes of a table as a view saw them, as far as they count: those of the rows that
        are there, and of rows that went too late."""
        gone = [g for g in self._gone if g.table == table.relation.oid and view in g.views]
        gone = [g for g in gone if g.rows.schema.equals(table.schema.arrow)]
        if not gone:
            return table.arrivals()
        there = table.store.snapshot().combine_chunks().to_batches()
        came = [*there, *(g.rows for g in gone)]
        n = table.num_columns
        ids = _whole(row_ids(b, n) for b in came)
        marks = _whole(np.asarray(b.column(n + 1), np.int64) for b in came)
        left = _whole(np.full(g.rows.num_rows, g.position) for g in gone)
        left_marks = _whole(np.full(g.rows.num_rows, g.mark) for g in gone)
        rows = pa.Table.from_batches([*came, *(g.rows for g in gone)]).combine_chunks()
        order = np.argsort(np.concatenate([2 * ids + 1, 2 * left]), kind="stable")
        weights = np.concatenate([np.ones(ids.size, np.int64), np.full(left.size, -1)])
        (batch,) = rows.take(pa.array(order)).combine_chunks().to_batches()
        watermark = np.concatenate([marks, left_marks])[order]
        return Delta(batch.select(list(range(n))), weights[order], watermark)

    # --- checkpoints ----------------------------------------------------------------------------
    def save(self) -> dict[str, pa.Table]:
        """A table for each change that is kept."""
        out = {}
        for i, g in enumerate(self._gone):
            about = {
                "views": ",".join(str(v) for v in sorted(g.views)), "table": str(g.table),
                "position": str(g.position), "mark": str(g.mark),
            }  # fmt: skip
            table = pa.Table.from_batches([g.rows])
            out[f"gone-{i}"] = table.replace_schema_metadata(about)
        if self.incomplete:
            out["incomplete"] = pa.table({"view": sorted(self.incomplete)})
        return out

    def load(self, saved: dict[str, pa.Table]) -> None:
        """Inverse of `save`."""
        count = sum(name.startswith("gone-") for name in saved)
        self._gone = [_loaded(saved[f"gone-{i}"]) for i in range(count)]
        lost = saved.get("incomplete")
        self.incomplete = set() if lost is None else set(lost["view"].to_pylist())


def _judges(view: ViewState) -> bool:
    return view.node != NO_NODE and view.broken is None and bool(view.compiled.judges_groups)


def _any_deletion(weights: object) -> bool:
    return weights is not None and bool(np.any(np.asarray(weights) < 0))


def _gone(views: frozenset[int], change: TableChange) -> Gone:
    next_row_id, tracker = change.before
    assert tracker is not None
    return Gone(views, change.relation_id, next_row_id, tracker.value, change.retracted)


def _loaded(table: pa.Table) -> Gone:
    about = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    views = frozenset(int(v) for v in about["views"].split(",") if v)
    (rows,) = table.replace_schema_metadata(None).combine_chunks().to_batches()
    position, mark = int(about["position"]), int(about["mark"])
    return Gone(views, int(about["table"]), position, mark, rows)


def _whole(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(p, np.int64) for p in parts])
