"""Uniqueness: what an INSERT does to rows whose key is there already.

All decisions are made for the whole statement at once, on key hashes: the policies differ in which
of several rows with one key stay, and in what happens to the row that the table holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array
from streamsql.core.errors import CardinalityViolation, UniqueViolation
from streamsql.core.schema import Schema
from streamsql.engine.dml.pending import TableImage, joined
from streamsql.engine.relations import Key, Relation
from streamsql.engine.storage.table import row_ids
from streamsql.functions.textio import to_text
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import any_null
from streamsql.kernels.jsonb import hash_keys

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Resolved:
    """What a statement does to its table.

    retract: stored rows to take out. insert: new rows, user's schema. affected: rows that count
    for the command tag. returning: rows that RETURNING sees (user's schema), None = `insert`.
    """

    retract: pa.RecordBatch
    insert: pa.RecordBatch
    affected: int
    returning: pa.RecordBatch | None = None


DoUpdate = Callable[[pa.RecordBatch, pa.RecordBatch], tuple[pa.RecordBatch, BoolArray]]
"""(stored rows [n], proposed rows [n]) → (new rows [n], bool[n]: WHERE was true)."""


def insert_plain(image: TableImage, rows: pa.RecordBatch) -> Resolved:
    """INSERT without ON CONFLICT. Raises: UniqueViolation (23505)."""
    check_unique(image, rows, image.table.no_rows())
    return Resolved(image.table.no_rows(), rows, rows.num_rows)


def insert_do_nothing(image: TableImage, rows: pa.RecordBatch, keys: Sequence[Key]) -> Resolved:
    """Rows that meet an existing or an earlier row on one of `keys` are left out."""
    for key in keys:
        taken, _ = image.matches(key.columns, rows)
        keep = np.ones(rows.num_rows, np.bool_)
        keep[taken] = False
        keep &= first_of_key(rows, key.columns, image.table.schema)
        if not keep.all():
            rows = rows.filter(pa.array(keep))
    if len(keys) < len(image.keys):
        check_unique(image, rows, image.table.no_rows())
    return Resolved(image.table.no_rows(), rows, rows.num_rows)


def insert_overwrite(image: TableImage, rows: pa.RecordBatch, *, merge: bool) -> Resolved:
    """ON CONFLICT OVERWRITE: the last row of a primary key wins. merge: DO UPDATE IF NOT NULL, a
    NULL leaves what was there (in the table, or in an earlier row of the statement)."""
    affected = rows.num_rows
    key = image.table.relation.primary_key
    slots = key_slots(rows, key, image.table.schema)
    last = last_positions(slots)
    final = merged_rows(rows, slots, last) if merge else rows.take(pa.array(np.sort(last)))
    probe, existing = image.matches(key, final)
    if merge and probe.size:
        final = _fill_nulls(final, probe, existing)
    check_unique(image, final, existing)
    return Resolved(existing, final, affected)


def insert_do_update(
    image: TableImage, rows: pa.RecordBatch, key: Key, update: DoUpdate
) -> Resolved:
    """ON CONFLICT (key) DO UPDATE.

    Raises: CardinalityViolation (21000), UniqueViolation (23505).
    """
    if not first_of_key(rows, key.columns, image.table.schema).all():
        raise CardinalityViolation(
            "ON CONFLICT DO UPDATE command cannot affect row a second time",
            hint="Ensure that no rows proposed for insertion within the same command have "
            "duplicate constrained values.",
        )
    probe, existing = image.matches(key.columns, rows)
    fresh = np.ones(rows.num_rows, np.bool_)
    fresh[probe] = False
    plain = rows.filter(pa.array(fresh))
    if not probe.size:
        check_unique(image, plain, existing)
        return Resolved(image.table.no_rows(), plain, plain.num_rows)
    updated, chosen = update(existing, rows.take(pa.array(probe)))
    mask = pa.array(chosen)
    retract, changed = existing.filter(mask), updated.filter(mask)
    order = np.concatenate([np.flatnonzero(fresh), probe[chosen]])
    insert = joined([plain, changed]).take(pa.array(np.argsort(order, kind="stable")))
    check_unique(image, insert, retract)
    return Resolved(retract, insert, insert.num_rows)


def check_unique(image: TableImage, insert: pa.RecordBatch, retract: pa.RecordBatch) -> None:
    """The table without `retract` and with `insert` has no key twice.

    Raises: UniqueViolation (23505) with PostgreSQL's words.
    """
    n = image.table.num_columns
    for key in image.keys:
        first = first_of_key(insert, key.columns, image.table.schema)
        if not first.all():
            raise duplicate_key(image.table.relation, key, insert, int(np.argmin(first)))
        probe, rows = image.matches(key.columns, insert)
        if retract.num_rows and probe.size:
            gone = pa.array(row_ids(retract, n))
            probe = probe[np.asarray(pc.invert(pc.is_in(rows.column(n), value_set=gone)))]
        if probe.size:
            raise duplicate_key(image.table.relation, key, insert, int(probe.min()))


def duplicate_key(relation: Relation, key: Key, rows: pa.RecordBatch, at: int) -> UniqueViolation:
    """The error for the row at that position."""
    names = ", ".join(relation.columns[i].name for i in key.columns)
    values = ", ".join(
        to_text(rows.column(i).slice(at, 1), relation.columns[i].type)[0].as_py()
        for i in key.columns
    )
    return UniqueViolation(
        f'duplicate key value violates unique constraint "{key.name}"',
        detail=f"Key ({names})=({values}) already exists.",
    )


# --- keys within one batch -------------------------------------------------------------------
def key_slots(rows: pa.RecordBatch, columns: Sequence[int], schema: Schema) -> Int64Array:
    """A small number for each row, the same for equal keys, rising by first appearance."""
    slots, _ = HashIndex(expected=rows.num_rows).upsert(*hash_keys(rows, columns, schema))
    return slots


def last_positions(slots: Int64Array) -> Int64Array:
    """Position of the last row of each slot, by slot."""
    last = np.zeros(int(slots.max(initial=-1)) + 1, np.int64)
    last[slots] = np.arange(slots.size)
    return last


def first_of_key(rows: pa.RecordBatch, columns: Sequence[int], schema: Schema) -> BoolArray:
    """bool[n]: no earlier row has the same key; a key with a NULL is like no other."""
    n = rows.num_rows
    if n <= 1:
        return np.ones(n, np.bool_)
    slots = key_slots(rows, columns, schema)
    if int(slots[-1]) == n - 1 and int(slots.max()) == n - 1:
        return np.ones(n, np.bool_)
    first = np.zeros(n, np.bool_)
    first[np.unique(slots, return_index=True)[1]] = True
    return first | any_null(rows, columns)


def merged_rows(rows: pa.RecordBatch, slots: Int64Array, last: Int64Array) -> pa.RecordBatch:
    """One row a key: in each column the last value that is not NULL; in order of the last rows."""
    order = np.argsort(last, kind="stable")
    columns = []
    for column in rows.columns:
        if column.null_count == 0:
            columns.append(column.take(pa.array(last[order])))
            continue
        present = np.flatnonzero(np.asarray(pc.is_valid(column)))
        chosen = last.copy()
        latest = np.full(last.size, -1, np.int64)
        np.maximum.at(latest, slots[present], present)
        chosen = np.where(latest >= 0, latest, chosen)
        columns.append(column.take(pa.array(chosen[order])))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _fill_nulls(
    rows: pa.RecordBatch, probe: Int64Array, existing: pa.RecordBatch
) -> pa.RecordBatch:
    """NULLs of rows[probe] are taken from the stored rows."""
    source = np.full(rows.num_rows, -1, np.int64)
    source[probe] = np.arange(probe.size)
    taken = pa.array(np.where(source < 0, 0, source), mask=source < 0)
    columns = [
        column if column.null_count == 0 else _coalesce(column, existing.column(i).take(taken))
        for i, column in enumerate(rows.columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _coalesce(first: pa.Array, second: pa.Array) -> pa.Array:
    """pc.coalesce for every type: nested ones by a take."""
    n = len(first)
    valid = np.asarray(pc.is_valid(first))
    both = pa.concat_arrays([first, second])
    return both.take(pa.array(np.where(valid, np.arange(n), np.arange(n) + n)))
