"""Replay of the log: every record goes through the code that made it, at the time it was made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.errors import DataCorrupted, StreamSqlError
from streamsql.engine.ddl import AlterRelations, CreateRelation, StartJob, op_from_json
from streamsql.engine.dml.conflicts import Resolved
from streamsql.engine.dml.pending import TableImage
from streamsql.engine.records import Record, batch_from, catalog_changes, decode
from streamsql.engine.requests import CommitRequest, Tick
from streamsql.engine.sources import Arrival
from streamsql.engine.storage.table import TableState
from streamsql.engine.system_feeds import is_system, system_oids
from streamsql.engine.tables import new_table_state

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine


class LoggedWrite:
    """A table's change as the log has it: decided already."""

    def __init__(self, table: TableState, retract: bytes, insert: bytes) -> None:
        self.relation_id = table.relation.oid
        self.schema = table.relation.columns
        self.rules = table.relation.rules
        self._retract = batch_from(retract, table.schema)
        self._insert = batch_from(insert, table.relation.columns)

    def resolve(self, image: TableImage) -> Resolved:
        """See `Write`."""
        return Resolved(self._retract, self._insert, self._insert.num_rows)

    def evaluate(self) -> None:
        """Nothing is read."""


def doomed_views(records: Iterable[tuple[int, bytes]], version: int) -> frozenset[int]:
    """OIDs of the materialized views that these records, after that version, make and drop again,
    and that nothing reads which stays: nobody will see their rows."""
    made: dict[int, set[int]] = {}
    dropped: set[int] = set()
    readers: dict[int, set[int]] = {}
    for _, payload in records:
        found = catalog_changes(payload)
        for op in found.d if found.v > version else ():
            if op["op"] == "drop":
                dropped.add(op["oid"])
            elif op["op"] == "create":
                relation = op["relation"]
                if relation["kind"] == "materialized_view":
                    made.setdefault(relation["oid"], set())
                for oid in relation["references"].values():
                    readers.setdefault(oid, set()).add(relation["oid"])
    doomed = made.keys() & dropped
    while True:
        staying = {oid for oid in doomed if readers.get(oid, set()) - dropped}
        if not staying:
            return frozenset(doomed)
        doomed -= staying


def replay(
    engine: Engine, records: Iterable[tuple[int, bytes]], doomed: frozenset[int] = frozenset()
) -> None:
    """Run all records, given as (lsn, payload), after the engine's version. doomed: views that are
    not made, because they are dropped before the end.

    Raises: DataCorrupted (XX001) if one does not fit.
    """
    engine.doomed = doomed
    for _, payload in records:
        record = decode(payload)
        if record["v"] <= engine.version:
            continue
        engine.replay_us = record["t"]
        try:
            replay_record(engine, record)
        except StreamSqlError as error:
            raise DataCorrupted(
                f"the log can not be replayed at version {record['v']}: {error.message}"
            ) from error
        engine.restore_now(record["t"])
    engine.replay_us = None
    engine.doomed = frozenset()


def replay_record(engine: Engine, record: Record) -> None:
    """One tick again."""
    committer = engine.committer
    committer.next_version = record["v"]
    if "d" in record:
        replay_ddl(engine, record)
        return
    tick: Tick = committer.new_tick()
    if "c" in record:
        tick.clock = record["c"]
        engine.set_clock(record["c"])
    for name, value in record.get("s", {}).items():
        engine.retention.set(name, value)
    tick.advance.update(dict(record.get("a", ())))
    if record.get("k"):
        committer.apply_time(tick)
    with engine.lock:
        for oid, retract, insert, partition in record.get("w", ()):
            if is_system(engine.catalog.relations.get(oid)):
                engine.feeds.prepare([oid])
            table = engine.tables[oid]
            rows = batch_from(retract, table.schema)
            change = table.prepare(
                rows, batch_from(insert, table.relation.columns), tick.now_us, partition
            )
            table.apply(change, tick.version, engine.keep(table.relation))
            tick.changes.append(change)
    _replay_sources(engine, record, tick)
    committer.run([tick])


def _replay_sources(engine: Engine, record: Record, tick: Tick) -> None:
    # records of before the schema was noted have five values
    tick.source_errors += [(*row[:5], *(row[5:] or ["public"])) for row in record.get("e", ())]
    for oid, data, partition in record.get("i", ()):
        source = engine.sources[oid]
        rows: pa.RecordBatch = batch_from(data, source.relation.columns)
        engine.ingest.replay_input(source, Arrival(partition, rows, None), tick)
    for oid, positions in record.get("p", ()):
        engine.sources[oid].positions.update(positions)


def replay_ddl(engine: Engine, record: Record) -> None:
    """A tick with catalog changes."""
    catalog = engine.catalog.fork()
    ops = []
    tables: dict[int, TableState] = {}
    altered: dict[int, TableState] = {}  # empty: for the columns of the logged rows
    for data in record["d"]:
        op = op_from_json(data, catalog)
        op.apply(catalog)
        ops.append(op)
        if isinstance(op, CreateRelation) and op.relation.kind == "table":
            tables[op.relation.oid] = new_table_state(op.relation, catalog)
        if isinstance(op, AlterRelations):
            for change in op.rows:
                altered[change.oid] = new_table_state(catalog.relations[change.oid], catalog)
            highest = max((layout.oid for layout in op.layouts), default=0)
            engine.catalog.oids.next_oid = max(engine.catalog.oids.next_oid, highest + 1)
        if isinstance(op, CreateRelation | StartJob):
            relation = op.relation
            tag = int(relation.extra.get("private_tag", 0))
            engine.catalog.oids.next_oid = max(engine.catalog.oids.next_oid, tag + 1)
            engine.feeds.prepare(system_oids(catalog, relation.depends_on))
            keys = [o for k in relation.keys for o in (k.index_oid, k.constraint_oid)]
            highest = max(relation.oid, relation.type_oid, *keys)
            engine.catalog.oids.next_oid = max(engine.catalog.oids.next_oid, highest + 1)
    writes = []
    for oid, retract, insert, _ in record.get("w", ()):
        table = altered.get(oid) or tables.get(oid) or engine.tables[oid]
        writes.append(LoggedWrite(table, retract, insert))
    engine.builder.commit_ddl(CommitRequest(writes, tuple(ops), tables))
