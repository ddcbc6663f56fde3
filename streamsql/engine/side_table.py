"""A table's rows in its new columns, made while writes go on in the old ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.delta import Delta
from streamsql.core.errors import NotNullViolation
from streamsql.engine.alterations import check_keys, in_columns
from streamsql.engine.beside import TableStep
from streamsql.engine.ddl import AlterRelations, DdlOp
from streamsql.engine.indexes import indexes_of
from streamsql.engine.new_columns import NewColumns, write_fill
from streamsql.engine.requests import Tick
from streamsql.engine.side_check import Validator
from streamsql.engine.storage.key_index import follow
from streamsql.engine.storage.table import TableChange, TableState, signed
from streamsql.engine.tables import new_table_state

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine

SLICE_ROWS = 131_072


class SideTable:
    """The rows of one table as a change of the catalog will leave them (a `beside.Part`).

    state: what takes the table's place. steps: what becomes of the rows, one after the other.
    """

    def __init__(
        self, engine: Engine, oid: int, steps: Sequence[TableStep], wanted: Validator
    ) -> None:
        """Engine thread: from the rows that are there now. wanted: what they have to keep."""
        self.oid = oid
        self.steps = steps
        self.wanted = wanted
        self.state = new_table_state(steps[-1].new, steps[-1].catalog)
        self._between = [new_table_state(s.new, s.catalog) for s in steps[:-1]]
        self._columns = [NewColumns(s.change, s.old, s.new, s.catalog) for s in steps]
        self._stored: pa.Table | None = engine.tables[oid].snapshot()
        self._required = [i for i, c in enumerate(self.state.relation.columns) if not c.nullable]
        self.rows = self._stored.num_rows

    def fill(self) -> Iterator[int]:
        """See `Part`. Raises: 23502, errors of the expressions."""
        assert self._stored is not None
        stored, self._stored = self._stored, None
        for start in range(0, stored.num_rows, SLICE_ROWS):
            part = stored.slice(start, SLICE_ROWS).combine_chunks()
            for batch in part.to_batches():
                made = self._converted(batch)
                self.wanted.take(made)
                self.state.store.apply(Delta(made, None, None, True))
            yield part.num_rows

    def prepare(self, engine: Engine) -> None:
        """See `Part`: what the next write looks rows up by, and the table's indexes.

        Raises: UniqueViolation (23505) if two rows have the same key now.
        """
        check_keys(self.state)
        self.state.index_keys()
        self.wanted.prepare()
        for index in indexes_of(self.steps[-1].catalog, self.oid):
            engine.indexes.create(index, self.steps[-1].catalog, self.state, alone=True)

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
        """See `Part`. Raises: 23502, errors of the expressions."""
        state = self.state
        for change in noted:
            gone = state.no_rows()
            if change.retracted.num_rows:
                found = state.store.find(self._converted(change.retracted, check=False))
                gone = state.store.take(found)
            come = state.no_rows()
            if change.inserted.num_rows:
                come = self._converted(change.inserted)
            self.wanted.take(come, gone)
            applied = state.store.apply(signed(gone, come))
            follow(state.indexes, applied)
            if bool((applied.new > 1).any()):
                check_keys(state)

    def _converted(self, batch: pa.RecordBatch, *, check: bool = True) -> pa.RecordBatch:
        for columns, made in zip(self._columns, (*self._between, self.state), strict=True):
            batch = in_columns(columns, batch, made)
        for i in self._required if check else ():
            if batch.column(i).null_count:
                relation = self.state.relation
                name = relation.columns[i].name
                raise NotNullViolation(
                    f'column "{name}" of relation "{relation.name}" contains null values',
                    hint="Update these rows first, or give the new column a DEFAULT.",
                )
        return batch

    def place(self, table: TableState) -> TableState:
        """Engine thread, every tick taken in: the state that takes the table's place."""
        state = self.state
        state.next_row_id = table.next_row_id
        if state.tracker is not None and table.tracker is not None:
            state.tracker.state = table.tracker.state
        return state

    def finish(self) -> None:
        """See `Part`. Raises: 23505."""
        self.wanted.finish(self.state)

    def close(self) -> None:
        """See `Part`."""

    def recorded(self, ops: Sequence[DdlOp]) -> list[DdlOp]:
        """The operations for the log: values that no expression gives again are written out."""
        if not any(c.volatile for c in self._columns):
            return list(ops)
        rows = self.state.snapshot()
        ids = rows.column(self.state.num_columns)
        found: list[DdlOp] = []
        for op in ops:
            if not isinstance(op, AlterRelations):
                found.append(op)
                continue
            changes = tuple(
                replace(r, fill=write_fill([rows.column(i) for i, _ in r.compute], ids))
                if r.oid == self.oid and r.compute
                else r
                for r in op.rows
            )
            found.append(replace(op, rows=changes))
        return found
