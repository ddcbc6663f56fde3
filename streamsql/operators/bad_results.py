"""Groups whose aggregates can not be computed (a sum out of range): kept out, or NULL there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import RowError, Step
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.map import rows_json


class BadGroups:
    """What becomes of groups without a result: `on_error` = 'skip' keeps them out, 'null' gives
    NULL, 'fail' fails the view as long as there is one."""

    def __init__(self, name: str, schema: Schema, on_error: str) -> None:
        """name: the operator's, in reports. schema: of a group's keys."""
        self.name = name
        self.schema = schema
        self.on_error = on_error
        self.rows = 0
        self.failure: tuple[str, str] | None = None

    def kept(
        self,
        step: Step | None,
        keys: pa.RecordBatch,
        errors: dict[int, StreamSqlError],
        weights: Int64Array,
    ) -> Int64Array | None:
        """Report groups that failed; which of all are given out, None = all. step: takes the
        reports, None = nobody is told. weights: of the groups, -1 where one is taken back."""
        if step is not None:
            for row, error in errors.items():
                self._report(step, keys.slice(row, 1), error, int(weights[row]))
        if self.on_error == "null" or not errors:
            return None
        good = np.ones(keys.num_rows, np.bool_)
        good[list(errors)] = False
        return np.flatnonzero(good)

    def _report(self, step: Step, key: pa.RecordBatch, error: StreamSqlError, weight: int) -> None:
        text = rows_json(Delta(key), np.zeros(1, np.int64), self.schema)[0]
        step.errors.append(RowError(self.name, error.sqlstate, error.message, text, weight))
        if self.on_error == "fail":
            self.rows += weight
            self.failure = (error.sqlstate, error.message) if self.rows > 0 else None

    @contextmanager
    def retelling(self) -> Iterator[None]:
        """What is reported within was counted when it was reported first."""
        held = self.rows, self.failure
        try:
            yield
        finally:
            self.rows, self.failure = held

    def save(self) -> pa.Table:
        """For `load`."""
        sqlstate, message = self.failure or ("", "")
        return pa.table({"rows": [self.rows], "sqlstate": [sqlstate], "message": [message]})

    def load(self, table: pa.Table) -> None:
        """Inverse of `save`."""
        (held,) = table.to_pylist()
        self.rows = held["rows"]
        self.failure = (held["sqlstate"], held["message"]) if held["sqlstate"] else None


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
