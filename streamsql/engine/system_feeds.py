"""System relations inside of views: their rows as a table that follows them.

A materialized view needs changes, and system relations are computed when they are read. So the
first view over one gives it a table of its own, hidden behind the relation, and after every group
of ticks what has changed in the relation is written to that table, as a tick like any other: it is
logged, and a replay takes it from the log. A view therefore shows a system relation as it was
before that tick; a plain SELECT shows it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, concat
from streamsql.core.errors import DiskError
from streamsql.engine import logs
from streamsql.engine.catalog import Catalog
from streamsql.engine.dml.batches import one_batch
from streamsql.engine.dml.conflicts import Resolved
from streamsql.engine.dml.pending import TableImage
from streamsql.engine.relations import Relation
from streamsql.engine.requests import CommitRequest, Write
from streamsql.engine.storage.table import TableState
from streamsql.engine.system import Mark
from streamsql.engine.tables import new_table_state
from streamsql.state.consolidate import consolidate

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine

ROUNDS_MAX = 3
"""How often in a row the changes that a change makes are looked at."""


class FeedWrite:
    """The difference between a system relation and its table. more: these rows have come, and
    nothing else has happened."""

    def __init__(self, table: TableState, rows: pa.Table, *, more: bool) -> None:
        self.relation_id = table.relation.oid
        self.schema = table.relation.columns
        self.rules = table.relation.rules
        self._rows = rows
        self._more = more

    def resolve(self, image: TableImage) -> Resolved:
        """See `Write`."""
        table = image.table
        n, schema = table.num_columns, table.relation.columns
        if self._more:
            batch = one_batch(self._rows, schema)
            return Resolved(table.no_rows(), batch, batch.num_rows)
        stored = table.snapshot()
        old = stored.select(list(range(n))).rename_columns(schema.arrow.names)
        before = [Delta(b).negate() for b in old.combine_chunks().to_batches() if b.num_rows]
        after = [Delta(b) for b in self._rows.combine_chunks().to_batches() if b.num_rows]
        if not before and not after:
            return Resolved(table.no_rows(), Delta.empty(schema).batch, 0)
        change = consolidate(concat([*before, *after], schema))
        weights = change.weights_or_ones()
        more = np.repeat(np.arange(weights.size), np.maximum(weights, 0))
        insert = change.batch.take(pa.array(more))
        return Resolved(self._gone(table, change.batch, weights), insert, insert.num_rows)

    def _gone(
        self, table: TableState, rows: pa.RecordBatch, weights: np.typing.NDArray[np.int64]
    ) -> pa.RecordBatch:
        """The stored rows that are one too many."""
        lost = np.flatnonzero(weights < 0)
        if not lost.size:
            return table.no_rows()
        columns = tuple(range(table.num_columns))
        wanted = rows.take(pa.array(lost))
        probe, found = table.probe(columns, wanted, columns, null_safe=True)
        order = np.argsort(probe, kind="stable")
        ranked = np.arange(order.size) - np.searchsorted(probe[order], probe[order])
        kept = order[ranked < -weights[lost][probe[order]]]
        return found.take(pa.array(kept))

    def evaluate(self) -> None:
        """Nothing else is read."""


class SystemFeeds:
    """The hidden tables of one engine. Used by the engine thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._seen = -1
        self._marks: dict[int, Mark] = {}

    def oids(self) -> list[int]:
        """Relations that have a table."""
        relations = self.engine.catalog.relations
        return [o for o in list(self.engine.tables) if is_system(relations.get(o))]

    def prepare(self, oids: Iterable[int]) -> bool:
        """Give these relations a table and a node; says whether one is new."""
        engine = self.engine
        new = [oid for oid in oids if oid not in engine.tables]
        for oid in new:
            relation = engine.catalog.relations[oid]
            table = new_table_state(relation, engine.catalog)
            with engine.lock:
                engine.tables[oid] = table
                engine.nodes[oid] = engine.builder.source_node(relation)
        return bool(new)

    def open(self, oids: Iterable[int]) -> None:
        """Before a view over these relations is built: their tables are up to date."""
        wanted = list(oids)
        self.prepare(wanted)
        self._write(wanted)

    def refresh(self) -> None:
        """After a group of ticks: let the views that read system relations know what changed."""
        engine = self.engine
        if engine.version == self._seen or engine.replay_us is not None:
            return
        for _ in range(ROUNDS_MAX):
            read = [o for o in self.oids() if engine.circuit.nodes[engine.nodes[o]].consumers]
            try:
                if not read or not self._write(read):
                    break
            except DiskError as error:  # the ticks before are safe; these rows come with later ones
                logs.warning("system relations could not be logged", reason=error.message)
                return
        self._seen = engine.version

    def _write(self, oids: list[int]) -> bool:
        """One tick with all that has changed; False if nothing has."""
        engine = self.engine
        writes: list[Write] = []
        marks: dict[int, Mark] = {}
        for oid in oids:
            name, before = engine.catalog.relations[oid].name, self._marks.get(oid)
            with engine.lock:
                mark = engine.system.mark(name)
                if mark is not None and mark == before:
                    continue
                more = mark is not None and before is not None and mark.losses == before.losses
                rows = engine.system.table(name)
            if more and mark is not None and before is not None:
                rows = rows.slice(rows.num_rows - (mark.gains - before.gains))
            writes.append(FeedWrite(engine.tables[oid], rows, more=more))
            if mark is not None:
                marks[oid] = mark
        if not writes:
            return False
        tick = engine.committer.stage(CommitRequest(writes))
        if tick is None:
            self._marks |= marks
            return False
        try:
            engine.committer.log_one(tick)
        except BaseException:
            with engine.lock:
                engine.committer.undo(tick)
            raise
        self._marks |= marks
        engine.committer.run([tick])
        return True


def is_system(relation: Relation | None) -> bool:
    """Whether this is a system relation."""
    return relation is not None and relation.kind == "system"


def system_oids(catalog: Catalog, references: Iterable[int]) -> list[int]:
    """The system relations among these relations and below the plain views among them."""
    found: set[int] = set()
    stack, seen = list(references), set[int]()
    while stack:
        oid = stack.pop()
        relation = catalog.relations.get(oid)
        if relation is None or oid in seen:
            continue
        seen.add(oid)
        if relation.kind == "system":
            found.add(oid)
        elif relation.kind == "view":
            stack.extend(relation.depends_on)
    return sorted(found)
