"""Saved state as Arrow tables: numpy arrays, nested states, one-row numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.circuit.operator import State
from streamsql.core.delta import Int64Array, make_batch
from streamsql.core.schema import Schema


def nest(prefix: str, state: State) -> dict[str, pa.Table]:
    """The tables of an inner state under `prefix.`."""
    return {f"{prefix}.{name}": table for name, table in state.items()}


def inner(prefix: str, state: State) -> dict[str, pa.Table]:
    """Inverse of `nest`."""
    start = prefix + "."
    return {n[len(start) :]: t for n, t in state.items() if n.startswith(start)}


def numbers(**values: int) -> pa.Table:
    """A one-row table of int64 numbers."""
    return pa.table({name: pa.array([value], pa.int64()) for name, value in values.items()})


def number(table: pa.Table, name: str) -> int:
    """One number of a `numbers` table."""
    value: int = table[name][0].as_py()
    return value


def columns(**arrays: npt.NDArray[np.int64]) -> pa.Table:
    """Parallel int64 arrays as a table (copied: the operator goes on changing them)."""
    return pa.table({name: array.copy() for name, array in arrays.items()})


def array(table: pa.Table, name: str) -> Int64Array:
    """A writable copy of one column of a `columns` table."""
    return np.array(table[name].to_numpy(), np.int64)


def matrix(cells: Int64Array) -> pa.Table:
    """int64 [n, k] as a table of k columns (copied)."""
    return pa.table({f"l{k}": cells[:, k].copy() for k in range(cells.shape[1])})


def from_matrix(table: pa.Table, rows: int) -> Int64Array:
    """Inverse of `matrix`, with room for at least `rows` rows."""
    cells = np.zeros((max(rows, table.num_rows), table.num_columns), np.int64)
    for k in range(table.num_columns):
        cells[: table.num_rows, k] = table.column(k).to_numpy()
    return cells


def table_batch(table: pa.Table, schema: Schema) -> pa.RecordBatch:
    """A saved table of rows as one batch of the schema."""
    arrays = []
    for i in range(len(schema)):
        whole = table.column(i).combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = whole.chunk(0)
        arrays.append(whole)
    return make_batch(arrays, schema.arrow, table.num_rows)
