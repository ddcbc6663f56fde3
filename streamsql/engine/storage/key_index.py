"""KeyIndex: the rows of one table or view in the order of an index's keys.

Entries are (key values, row number); a stored row has one, whatever its weight. Look-ups count
before they read: a question becomes two positions in the order, and only then rows are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array
from streamsql.core.schema import Schema
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import ColumnRef, Expr
from streamsql.kernels.order_keys import can_order, is_interval
from streamsql.state.arrangement import Applied, Arrangement
from streamsql.state.ordered_index import OrderColumn, OrderedIndex

FILL_ROWS = 1 << 20

__all__ = ["KeyIndex", "Range", "can_order", "follow"]


def follow(indexes: Mapping[int, KeyIndex], applied: Applied) -> None:
    """Let indexes know what became of the rows."""
    for index in indexes.values():
        index.change(applied)


@dataclass(frozen=True)
class Range:
    """The keys of one question: first columns equal `equal` (arrays of one, NULL = is NULL), the
    next one between low and high (None = open, but never NULL)."""

    equal: tuple[pa.Array, ...] = ()
    low: pa.Array | None = None
    low_included: bool = True
    high: pa.Array | None = None
    high_included: bool = True

    @property
    def bounded(self) -> bool:
        return self.low is not None or self.high is not None


@dataclass(eq=False)
class KeyIndex:
    """One index over the rows of `store`. All methods are called under the state lock, or by the
    engine thread before the index is known to others.

    name: of the index. oid: of its catalog entry. keys: expressions over the first columns of the
    store (the user's). unique: columns that it keeps unique, () = none. lookups: questions
    answered. failing: rows on which an expression fails, as the rows of a view may (a table takes
    none): it is not looked up in while there is one, so that a query meets the error.
    """

    name: str
    oid: int
    keys: tuple[Expr, ...]
    schema: Schema
    store: Arrangement
    unique: tuple[int, ...] = ()
    lookups: int = 0
    failing: int = 0
    order: OrderedIndex = field(init=False)

    def __post_init__(self) -> None:
        self._plain = [e.index for e in self.keys if isinstance(e, ColumnRef)]
        if len(self._plain) < len(self.keys):
            self._plain = []
            self._evaluator = Evaluator(list(self.keys), self.schema)
        self.columns = tuple(OrderColumn(e.type.arrow) for e in self.keys)
        self.order = OrderedIndex(self.columns, with_tie=True)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.order.nbytes

    # --- following the rows ---------------------------------------------------------------------
    def attach(self, *, merge: bool) -> None:
        """Take in the rows that are there, and hear of rows that are copied elsewhere. merge: equal
        rows may be stored twice still; they must be one before rows are known by their numbers."""
        if merge:
            self.store.merge()
        for _ in self.fill(list(self.store.live_batches()), strict=not merge):
            pass
        self.follow_rows()

    def follow_rows(self) -> None:
        """Hear of rows that are copied elsewhere."""
        self.store.on_move.append(self.moved)

    def fill(
        self, parts: Sequence[tuple[Int64Array, pa.RecordBatch]], *, strict: bool = False
    ) -> Iterator[int]:
        """Take in stored rows with their numbers, the first ones; gives how many, now and then.
        strict: see `values`."""
        if parts:
            rows = np.concatenate([rows for rows, _ in parts])
            values = []
            for _, batch in parts:
                values.append(self.values(batch, strict=strict))
                yield 0
            table = pa.table([pa.chunked_array(c) for c in zip(*values, strict=True)],
                             names=[f"k{i}" for i in range(len(self.keys))])  # fmt: skip
            # entries that come in order fill the tree from left to right: five times as fast
            plain = takewhile(lambda f: not is_interval(f.type), table.schema)  # Arrow sorts none
            by = [(f.name, "ascending") for f in plain]
            order = pc.sort_indices(table, sort_keys=by) if by else pa.array(np.arange(rows.size))
            for start in range(0, len(order), FILL_ROWS):
                part = order.slice(start, FILL_ROWS)
                taken = table.take(part).combine_chunks()
                columns = [c.combine_chunks() for c in taken.columns]
                ties = rows[np.asarray(part).astype(np.int64)]
                self._add(columns, np.ones(ties.size, np.int64), ties)
                yield ties.size

    def detach(self) -> None:
        """The index is dropped."""
        if self.moved in self.store.on_move:
            self.store.on_move.remove(self.moved)
        self.order.clear()

    def change(self, applied: Applied, *, strict: bool = False) -> None:
        """Rows of a change that came to life, and those that died. strict: see `values`."""
        old, new = applied.old != 0, applied.new != 0
        touched = np.flatnonzero(old != new)
        if not touched.size:
            return
        batch = applied.delta.batch
        if touched.size < batch.num_rows:
            batch = batch.take(pa.array(touched))
        weights = np.where(new[touched], 1, -1)
        values = self.values(batch, weights, strict=strict)
        self._add(values, weights, applied.rows[touched])

    def moved(self, old: Int64Array, new: Int64Array) -> None:
        """The same rows have other numbers now."""
        self.move(old, new, self.store.take(new))

    def move(self, old: Int64Array, new: Int64Array, rows: pa.RecordBatch) -> None:
        """`moved`, when it was seen at the time what the rows are."""
        values = self.values(rows, np.zeros(old.size, np.int64))
        self._add(values, np.full(old.size, -1), old)
        self._add(values, np.ones(new.size, np.int64), new)

    def _add(self, values: list[pa.Array], weights: Int64Array, rows: Int64Array) -> None:
        groups = np.zeros(rows.size, np.int64)
        self.order.add(groups, values, weights, np.ascontiguousarray(rows))

    def values(
        self, batch: pa.RecordBatch, weights: Int64Array | None = None, *, strict: bool = False
    ) -> list[pa.Array]:
        """The keys of these stored rows. weights: int64[n], by which rows on which an expression
        fails are counted (None = 1); they are NULL then. strict: raise their error."""
        if self._plain:
            return [batch.column(i) for i in self._plain]
        visible = batch.select(list(range(len(self.schema))))
        visible = pa.RecordBatch.from_arrays(visible.columns, schema=self.schema.arrow)
        if strict:
            if weights is not None:
                visible = visible.filter(pa.array(weights > 0))
            found = self._evaluator.run(visible, 0)
            if weights is None or bool((weights > 0).all()):
                return list(found)
            visible = pa.RecordBatch.from_arrays(
                batch.columns[: len(self.schema)], schema=self.schema.arrow
            )
        result = self._evaluator.run_skipping(visible, 0, on_error="null")
        failed = [row for row, _, _ in result.errors]
        self.failing += len(failed) if weights is None else int(weights[failed].sum())
        return list(result.columns)

    def check(self, rows: pa.RecordBatch) -> None:
        """Rows (at least the user's columns) that a table is to take. Raises: errors of the
        expressions."""
        if not self._plain and rows.num_rows:
            visible = rows.columns[: len(self.schema)]
            batch = pa.RecordBatch.from_arrays(visible, schema=self.schema.arrow)
            self._evaluator.run(batch, 0)

    # --- questions ------------------------------------------------------------------------------
    def span(self, wanted: Range) -> tuple[int, int]:
        """First position of the rows in the order of the keys, and the one behind the last."""
        prefix = list(wanted.equal)
        if not wanted.bounded:
            return self._rank(prefix, False), self._rank(prefix, True)
        if wanted.low is None:
            start = self._rank(prefix, False)
        else:
            start = self._rank([*prefix, wanted.low], not wanted.low_included)
        if wanted.high is None:
            nothing = pa.nulls(1, self.columns[len(prefix)].type)
            end = self._rank([*prefix, nothing], False)
        else:
            end = self._rank([*prefix, wanted.high], wanted.high_included)
        return start, max(start, end)

    def _rank(self, values: Sequence[pa.Array], above: bool) -> int:
        return int(self.order.prefix_rank(values, above=above))

    def peers(self, position: int, columns: int) -> tuple[int, int]:
        """The positions of the rows that agree with the one at a position in the first so many
        keys: [first, last)."""
        entry = self.order.read(self.order.positions(position, position + 1))
        prefix = entry.values[:columns]
        return self._rank(prefix, False), self._rank(prefix, True)

    def rows(self, start: int, end: int) -> Int64Array:
        """Numbers of the stored rows at these positions, in the order of the keys."""
        self.lookups += 1
        return self.order.ties(self.order.positions(start, end))
