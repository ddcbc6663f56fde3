"""Constraints that a table gets: whether the rows that are there keep them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Delta, make_batch
from streamsql.core.errors import CheckViolation, UniqueViolation
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.ddl import AlterRelations
from streamsql.engine.definitions import program_of
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.indexes import duplicated
from streamsql.engine.relations import Key, Relation
from streamsql.engine.requests import Tick
from streamsql.engine.storage.table import TableChange, TableState
from streamsql.engine.storage.view import ViewState
from streamsql.kernels.hashing import any_null
from streamsql.kernels.jsonb import hash_keys
from streamsql.state.arrangement import Arrangement

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine

SLICE_ROWS = 131_072
LANES = Schema((Column("h0", BIGINT, False), Column("h1", BIGINT, False)))


class Validator:
    """What the rows of a table have to keep from now on.

    checks: names of CHECK constraints. keys: of UNIQUE constraints and indexes; their rows are
    counted by the hash of the key, so that rows may come and go before the end.
    """

    def __init__(
        self, relation: Relation, checks: frozenset[str], keys: Sequence[Key], catalog: Catalog
    ) -> None:
        self.relation = relation
        self.checks = checks
        self.keys = tuple(keys)
        self._maker: RowMaker | None = None
        if checks:
            program = program_of(relation, BindScope(catalog, relation.context))
            self._maker = RowMaker(relation, program)
        self._counts = [Arrangement(LANES) for _ in self.keys]

    def __bool__(self) -> bool:
        return bool(self.checks or self.keys)

    def take(self, come: pa.RecordBatch, gone: pa.RecordBatch | None = None) -> None:
        """Rows (at least the user's columns) that came, and those that went.

        Raises: CheckViolation (23514), errors of the conditions.
        """
        if self._maker is not None:
            for name, failing in self._maker.failing(self._visible(come)):
                if name in self.checks and failing.any():
                    raise CheckViolation(
                        f'check constraint "{name}" of relation "{self.relation.name}" is '
                        "violated by some row"
                    )
        for key, counts in zip(self.keys, self._counts, strict=True):
            for batch, weight in ((gone, -1), (come, 1)):
                if batch is not None and batch.num_rows:
                    counts.apply(_lanes(batch, key.columns, weight, self.relation.columns))

    def _visible(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(i) for i in range(len(self.relation.columns))]
        return make_batch(columns, self.relation.columns.arrow, rows.num_rows)

    def prepare(self) -> None:
        """The rows of the start are in: count them now, and not when everybody waits."""
        for counts in self._counts:
            counts.merge()

    def finish(self, state: TableState | ViewState | pa.Table) -> None:
        """All rows are in. state: what they are now.

        Raises: UniqueViolation (23505) if two of them have the same key.
        """
        for key, counts in zip(self.keys, self._counts, strict=True):
            counts.merge()
            if counts.total_weight == counts.live_rows:
                continue
            rows = state if isinstance(state, pa.Table) else state.snapshot()
            for batch in rows.combine_chunks().to_batches():
                raise self._twice(key, batch)

    def _twice(self, key: Key, batch: pa.RecordBatch) -> UniqueViolation:
        from streamsql.engine.dml.conflicts import first_of_key

        at = int(np.argmin(first_of_key(batch, key.columns, self.relation.columns)))
        return duplicated(key.name, self.relation.columns, key.columns, batch, at)


def _lanes(batch: pa.RecordBatch, columns: tuple[int, ...], weight: int, schema: Schema) -> Delta:
    """The keys of the rows that have one, as hashes."""
    h0, h1 = hash_keys(batch, columns, schema)
    keyed = ~any_null(batch, columns)
    lanes = [pa.array(lane.view(np.int64)[keyed]) for lane in (h0, h1)]
    n = len(lanes[0])
    return Delta(make_batch(lanes, LANES.arrow, n), np.full(n, weight, np.int64))


def validator(op: AlterRelations, old: Relation, new: Relation, catalog: Catalog) -> Validator:
    """What a change of a table's definition asks of its rows that was not asked before."""
    moved = {at for r in op.rows if r.oid == new.oid for at, text in r.compute if text}
    before = frozenset() if moved else _check_names(old, catalog)
    checks = _check_names(new, catalog) - before
    known = {(k.name, k.columns) for k in old.keys}
    keys = [
        k
        for k in new.keys
        if not k.primary and ((k.name, k.columns) not in known or moved & set(k.columns))
    ]
    return Validator(new, checks, keys, catalog)


def _check_names(relation: Relation, catalog: Catalog) -> frozenset[str]:
    if relation.kind != "table" or not getattr(relation.statement, "checks", ()):
        return frozenset()
    program = program_of(relation, BindScope(catalog, relation.context))
    return frozenset(name for name, _ in program.checks)


class SideCheck:
    """Rows of a table that are looked at while it goes on (a `beside.Part`)."""

    def __init__(self, engine: Engine, oid: int, wanted: Validator) -> None:
        """Engine thread: from the rows that are there now."""
        self.oid = oid
        self.wanted = wanted
        self._table: TableState = engine.tables[oid]
        self._stored: pa.Table | None = self._table.snapshot()
        self.rows = self._stored.num_rows

    def fill(self) -> Iterator[int]:
        """See `Part`. Raises: 23514, errors of the conditions."""
        assert self._stored is not None
        stored, self._stored = self._stored, None
        for start in range(0, stored.num_rows, SLICE_ROWS):
            part = stored.slice(start, SLICE_ROWS).combine_chunks()
            for batch in part.to_batches():
                self.wanted.take(batch)
            yield part.num_rows

    def prepare(self, engine: Engine) -> None:
        """See `Part`; what the next write looks new keys up by is made in the table's own time."""
        self.wanted.prepare()

    def note(
        self,
        engine: Engine,
        tick: Tick,
        deltas: Mapping[int, list[Delta]],
        outputs: Mapping[int, Delta],
    ) -> list[TableChange] | None:
        """See `Part`."""
        return [c for c in tick.changes if c.relation_id == self.oid] or None

    def follow(self, noted: Sequence[TableChange]) -> None:
        """See `Part`. Raises: 23514, errors of the conditions."""
        for change in noted:
            self.wanted.take(change.inserted, change.retracted)

    def finish(self) -> None:
        """See `Part`. Raises: 23505."""
        self.wanted.finish(self._table)

    def close(self) -> None:
        """See `Part`."""
