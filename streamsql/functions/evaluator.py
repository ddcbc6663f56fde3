"""Evaluating bound expressions over a batch: Arrow kernels first, one DuckDB call for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.schema import Schema
from streamsql.functions.arrow_eval import Compiler
from streamsql.functions.arrow_nodes import Node, Run
from streamsql.functions.compute.columns import (
    BoolArray,
    broadcast,
    column,
    flat,
    with_nulls_at,
)
from streamsql.functions.definitions import Failure
from streamsql.functions.expressions import Expr

RowError = tuple[int, str, str]
"""(row number, SQLSTATE, message)"""


@dataclass
class EvalResult:
    """What `run_skipping` gives.

    columns: one a expression; without the bad rows under "skip", with NULL in them under "null".
    kept: int64 [m] row numbers that are left, or None if all are. errors: one entry a bad row.
    """

    columns: list[pa.Array]
    kept: npt.NDArray[np.int64] | None = None
    errors: list[RowError] = field(default_factory=list)


class Evaluator:
    """Computes expressions over batches of one schema; analyses them once.

    Expressions whose every node has an Arrow kernel run there; all others go to DuckDB together,
    in one call a batch. One evaluator may be used by several threads.
    """

    def __init__(self, exprs: Sequence[Expr], input_schema: Schema) -> None:
        self.exprs = tuple(exprs)
        self.schema = input_schema
        compiler = Compiler()
        self._nodes: list[Node | None] = [compiler.compile(e) for e in self.exprs]
        self._types = [e.type.arrow for e in self.exprs]
        self._foreign = [i for i, n in enumerate(self._nodes) if n is None]

    @property
    def uses_duckdb(self) -> bool:
        """Whether some expression has no Arrow kernel."""
        return bool(self._foreign)

    def run(self, batch: pa.RecordBatch, now_us: int, timezone: str = "UTC") -> list[pa.Array]:
        """One array of `expr.type.arrow` an expression. Raises: the first bad row's error."""
        n = batch.num_rows
        if n == 0:
            return [pa.array([], t) for t in self._types]
        columns, failures = self._arrow(batch, now_us, timezone)
        raise_first([f for fs in failures for f in fs], n)
        if self._foreign:
            from streamsql.functions import duckdb_eval

            exprs = [self.exprs[i] for i in self._foreign]
            found = duckdb_eval.run(exprs, batch, now_us, timezone)
            for i, array in zip(self._foreign, found, strict=True):
                columns[i] = array
        return [self._finish(c, i, n) for i, c in enumerate(columns)]

    def run_skipping(
        self, batch: pa.RecordBatch, now_us: int, on_error: str = "skip", timezone: str = "UTC"
    ) -> EvalResult:
        """As `run`, but bad rows do not raise: on_error "skip" leaves the row out of all columns,
        "null" makes the failing expression NULL in it."""
        n = batch.num_rows
        if n == 0:
            return EvalResult([pa.array([], t) for t in self._types])
        columns, failures = self._arrow(batch, now_us, timezone)
        bad: BoolArray | None = None
        for found in failures:
            if found:
                mask = _union(found, n)
                bad = mask if bad is None else bad | mask
        errors = errors_of(failures, n) if bad is not None else {}
        if self._foreign:
            bad = self._run_foreign(batch, now_us, timezone, columns, errors, bad)
        arrays = [self._finish(c, i, n) for i, c in enumerate(columns)]
        if bad is None:
            return EvalResult(arrays)
        listed = [(row, *errors[row]) for row in sorted(errors)]
        if on_error == "null":
            return EvalResult(self._nulled(arrays, failures, n), None, listed)
        kept = np.flatnonzero(~bad)
        rows = column(kept, pa.int64())
        return EvalResult([a.take(rows) for a in arrays], kept, listed)

    def _arrow(
        self, batch: pa.RecordBatch, now_us: int, timezone: str
    ) -> tuple[list[pa.Array | pa.Scalar | None], list[list[Failure]]]:
        run = Run(batch.columns, batch.num_rows, now_us, timezone)
        columns: list[pa.Array | pa.Scalar | None] = []
        failures: list[list[Failure]] = []
        for node in self._nodes:
            if node is None:
                columns.append(None)
                failures.append([])
                continue
            columns.append(node.value(run))
            failures.append(run.failures)
            run.failures = []  # a new list: the next expression's failures are its own
        return columns, failures

    def _run_foreign(
        self,
        batch: pa.RecordBatch,
        now_us: int,
        timezone: str,
        columns: list[pa.Array | pa.Scalar | None],
        errors: dict[int, tuple[str, str]],
        bad: BoolArray | None,
    ) -> BoolArray | None:
        from streamsql.functions import duckdb_eval

        exprs = [self.exprs[i] for i in self._foreign]
        arrays, found = duckdb_eval.run_skipping(exprs, batch, now_us, timezone)
        for i, array in zip(self._foreign, arrays, strict=True):
            columns[i] = array
        if found:
            bad = np.zeros(batch.num_rows, np.bool_) if bad is None else bad
            for row, error in found.items():
                errors.setdefault(row, error)
                bad[row] = True
        return bad

    def _nulled(
        self, arrays: list[pa.Array], failures: list[list[Failure]], n: int
    ) -> list[pa.Array]:
        return [
            with_nulls_at(a, _union(found, n)) if found else a
            for a, found in zip(arrays, failures, strict=True)
        ]

    def _finish(self, value: pa.Array | pa.Scalar | None, index: int, n: int) -> pa.Array:
        assert value is not None
        array = flat(broadcast(value, n))
        expected = self._types[index]
        return array if array.type == expected else array.cast(expected)


def _union(failures: Sequence[Failure], n: int) -> BoolArray:
    bad = np.zeros(n, np.bool_)
    for f in failures:
        bad |= True if f.rows is True else f.rows
    return bad


def raise_first(failures: Sequence[Failure], n: int) -> None:
    """Raise the error of the first bad row, if any."""
    first: tuple[int, Failure] | None = None
    for f in failures:
        row = 0 if f.rows is True else int(np.argmax(f.rows))
        if first is None or row < first[0]:
            first = (row, f)
    if first is not None:
        row, f = first
        raise f.error(f.text(row), detail=f.detail)


def errors_of(failures: Sequence[Sequence[Failure]], n: int) -> dict[int, tuple[str, str]]:
    """row -> (SQLSTATE, message) of the first failing expression."""
    found: dict[int, tuple[str, str]] = {}
    for group in failures:
        for f in group:
            rows = range(n) if f.rows is True else np.flatnonzero(f.rows)
            for row in rows:
                found.setdefault(int(row), (f.error.sqlstate, f.text(int(row))))
    return found


def evaluate_constant(expr: Expr, now_us: int = 0, timezone: str = "UTC") -> pa.Scalar:
    """The value of an expression without columns, as an Arrow scalar. Raises: its error."""
    batch = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["c0"])
    return Evaluator([expr], Schema(())).run(batch, now_us, timezone)[0][0]


__all__ = ["EvalResult", "Evaluator", "evaluate_constant"]
