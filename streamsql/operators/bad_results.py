"""Groups whose aggregates can not be computed (a sum out of range): kept out, or NULL there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.errors import StreamSqlError
from streamsql.operators.accumulators.base import Accumulator, Cells


def results_and_errors(
    accumulators: Sequence[Accumulator], cells: Cells
) -> tuple[list[pa.Array], dict[int, StreamSqlError]]:
    """(one column an accumulator, NULL where it fails; the error of each row that fails)."""
    columns: list[pa.Array] = []
    errors: dict[int, StreamSqlError] = {}
    n = len(cells)
    for accumulator in accumulators:
        failing = _failing(accumulator, cells, np.arange(n))
        for row, error in failing:
            errors.setdefault(row, error)
        good = np.ones(n, np.bool_)
        good[[row for row, _ in failing]] = False
        found = accumulator.result(cells[good])
        places = np.cumsum(good) - 1
        columns.append(found.take(pa.array(places, mask=~good)))
    return columns, errors


def _failing(
    accumulator: Accumulator, cells: Cells, among: Int64Array
) -> list[tuple[int, StreamSqlError]]:
    """Rows whose result fails, found by halving."""
    try:
        accumulator.result(np.ascontiguousarray(cells[among]))
    except StreamSqlError as error:
        if among.size == 1:
            return [(int(among[0]), error)]
        halves = np.array_split(among, 2)
        return [pair for half in halves for pair in _failing(accumulator, cells, half)]
    return []
