"""The values of columns that a table gets: one for all rows, or computed from each row."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.delta import make_batch
from streamsql.core.types import SqlType
from streamsql.engine.binding import BindScope
from streamsql.engine.catalog import Catalog
from streamsql.engine.ddl import RowsChange, concurrent_update
from streamsql.engine.definitions import program_of
from streamsql.engine.dml.rows import RowMaker
from streamsql.engine.relations import DefinitionContext, Relation
from streamsql.engine.storage.table import row_ids
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Expr
from streamsql.functions.resolve import volatility

if TYPE_CHECKING:
    from sqlglot import exp


class NewColumns:
    """Rows of a table in its new columns. change: where each column comes from."""

    def __init__(
        self,
        change: RowsChange,
        old: Relation,
        new: Relation,
        catalog: Catalog,
        *,
        lenient: bool = False,
    ) -> None:
        """lenient: for rows that are gone, of which a value that is not known is NULL."""
        self._lenient = lenient
        self.change = change
        self.old = old
        self.new = new
        self._types = [c.type.arrow for c in new.columns]
        self._given: dict[int, pa.Array] = {}
        self._ids: npt.NDArray[np.int64] | None = None
        self._read_fill()
        self._using: dict[int, Evaluator] = {}
        self._own: list[int] = []
        self.volatile = False  # whether another evaluation would give other values
        for at, text in change.compute:
            if at in self._given:
                continue
            if text:
                expr = bind_using(text, old, new.columns[at].type, catalog, change.timezone)
                self._using[at] = Evaluator([expr], old.columns)
            else:
                self._own.append(at)
        if self._own:
            program = program_of(new, BindScope(catalog, new.context))
            self._maker = RowMaker(new, program)
            self._generated = {
                i: Evaluator([e], new.columns) for i, e in program.generated if i in self._own
            }
            defaults = [program.defaults[i] for i in self._own if i not in self._generated]
            self.volatile = any(changes_by_row(e) for e in defaults)

    def _read_fill(self) -> None:
        if not self.change.fill:
            return
        table = read_fill(self.change.fill).combine_chunks()
        batches = table.to_batches()
        new = [i for i, at in enumerate(self.change.columns) if at is None]
        for k, i in enumerate(new):
            empty = pa.array([], self._types[i])
            self._given[i] = batches[0].column(k) if batches else empty
        if "id" in table.column_names:
            known = np.asarray(table.column("id"), np.int64)
            self._order = np.argsort(known, kind="stable")
            self._ids = known[self._order]

    def of(self, stored: pa.RecordBatch) -> list[pa.Array]:
        """The new user's columns for stored rows of the old definition.

        Raises: errors of the expressions; SerializationFailure (40001) if the values that are given
        are for other rows.
        """
        n, width = stored.num_rows, len(self.old.columns)
        rows: list[pa.Array] = []
        for i, at in enumerate(self.change.columns):
            if at is not None:
                rows.append(stored.column(at))
            elif i in self._given:
                rows.append(self._given_values(i, stored, width))
            elif i in self._using:
                seen = stored.select(list(range(width)))
                seen = make_batch(seen.columns, self.old.columns.arrow, n)
                rows.append(self._run(self._using[i], seen, self.change.timezone))
            else:
                rows.append(pa.nulls(n, self._types[i]))
        for i in self._own:
            rows[i] = self._own_values(i, rows, n)
        return rows

    def _run(self, evaluator: Evaluator, rows: pa.RecordBatch, timezone: str) -> pa.Array:
        now_us = self.change.now_us
        if self._lenient:
            return evaluator.run_skipping(rows, now_us, "null", timezone).columns[0]
        return evaluator.run(rows, now_us, timezone)[0]

    def _own_values(self, column: int, rows: list[pa.Array], n: int) -> pa.Array:
        """What the column's own definition gives for these rows."""
        zone = self.new.context.timezone
        evaluator = self._generated.get(column)
        if evaluator is not None:
            return self._run(evaluator, make_batch(rows, self.new.columns.arrow, n), zone)
        if self._lenient:
            return pa.nulls(n, self._types[column])
        return self._maker.default(column, n, self.change.now_us, zone)

    def _given_values(self, column: int, stored: pa.RecordBatch, id_column: int) -> pa.Array:
        given = self._given[column]
        if self._ids is None:
            if not len(given):
                return pa.nulls(stored.num_rows, self._types[column])
            return given.take(pa.array(np.zeros(stored.num_rows, np.int64)))
        wanted, ids = row_ids(stored, id_column), self._ids
        at = np.searchsorted(ids, wanted)
        if self._lenient and ids.size:
            at = np.minimum(at, ids.size - 1)
            return given.take(pa.array(self._order[at], mask=ids[at] != wanted))
        if self._lenient:
            return pa.nulls(stored.num_rows, self._types[column])
        if not ids.size or bool((ids[np.minimum(at, ids.size - 1)] != wanted).any()):
            raise concurrent_update()
        return given.take(pa.array(self._order[at]))


def changes_by_row(default: Expr | None) -> bool:
    """Whether a default has to be computed for each row (random(), gen_random_uuid())."""
    return default is not None and volatility(default).name == "VOLATILE"


def bind_using(
    text: str | exp.Expression,
    old: Relation,
    wanted: SqlType | None,
    catalog: Catalog,
    timezone: str,
) -> Expr:
    """What a column becomes, over the old columns, as a value of the type that is wanted.

    Raises: errors of binding; 42804, 42846 if there is no such cast.
    """
    from streamsql.dialect import parse_expression
    from streamsql.plan.binder import bind_expression

    tree = parse_expression(text) if isinstance(text, str) else text
    scope = BindScope(catalog, DefinitionContext(old.context.search_path, timezone))
    context = scope.context()
    context.parameter_types = None
    return bind_expression(
        tree, old.columns, context, old.name, target=wanted, clause="transform expressions"
    )


def read_fill(data: bytes) -> pa.Table:
    """Inverse of `write_fill`."""
    return pa.ipc.open_stream(data).read_all()


def write_fill(columns: Sequence[pa.Array | pa.ChunkedArray], ids: pa.Array | None) -> bytes:
    """`RowsChange.fill`: the new columns' values, with the row ids unless they are for all rows."""
    named = {f"c{i}": column for i, column in enumerate(columns)}
    if ids is not None:
        named["id"] = ids
    table = pa.table(named)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()
