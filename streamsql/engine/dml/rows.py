"""Whole rows of a table: defaults, generated columns, NOT NULL, CHECK."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import make_batch
from streamsql.core.errors import CheckViolation, NotNullViolation
from streamsql.core.schema import Schema
from streamsql.engine.definitions import TableProgram
from streamsql.engine.relations import Relation
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Literal
from streamsql.functions.textio import to_text
from streamsql.functions.textio.time_digits import rounded

NO_COLUMNS = Schema(())


class RowMaker:
    """Fills in what a statement leaves out of a table's rows."""

    def __init__(self, relation: Relation, program: TableProgram) -> None:
        self.relation = relation
        self.schema = relation.columns
        self.generated = {i for i, _ in program.generated}
        self._defaults = {
            i: expr
            for i, expr in enumerate(program.defaults)
            if expr is not None and i not in self.generated
        }
        self._generated = [i for i, _ in program.generated]
        self._generate = (
            Evaluator([e for _, e in program.generated], self.schema) if self.generated else None
        )
        self._digits = self.schema.digits
        self._checks = tuple(name for name, _ in program.checks)
        self._check = (
            Evaluator([e for _, e in program.checks], self.schema) if program.checks else None
        )

    def complete(
        self, given: Mapping[int, pa.Array], num_rows: int, now_us: int, timezone: str
    ) -> pa.RecordBatch:
        """Rows in the user's schema from the columns that are given (position → array)."""
        columns = [
            given[i] if i in given else self.default(i, num_rows, now_us, timezone)
            for i in range(len(self.schema))
        ]
        for i, digits in self._digits:  # TIMESTAMP(3) and kin; generated ones have theirs already
            columns[i] = rounded(columns[i], digits)
        rows = make_batch(columns, self.schema.arrow, num_rows)
        return self.regenerate(rows, now_us, timezone)

    def default(self, column: int, num_rows: int, now_us: int, timezone: str) -> pa.Array:
        """The column's default, evaluated for each row."""
        type_ = self.schema[column].type.arrow
        expr = self._defaults.get(column)
        if expr is None or (isinstance(expr, Literal) and expr.value is None):
            return pa.nulls(num_rows, type_)
        blank = make_batch([], NO_COLUMNS.arrow, num_rows)
        return Evaluator([expr], NO_COLUMNS).run(blank, now_us, timezone)[0]

    def regenerate(self, rows: pa.RecordBatch, now_us: int, timezone: str) -> pa.RecordBatch:
        """The rows with their generated columns computed anew."""
        if self._generate is None or not rows.num_rows:
            return rows
        columns = list(rows.columns)
        values = self._generate.run(rows, now_us, timezone)
        for i, value in zip(self._generated, values, strict=True):
            columns[i] = value
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)

    def check(self, rows: pa.RecordBatch) -> None:
        """Every row keeps NOT NULL and the CHECK constraints.

        Raises: NotNullViolation (23502), CheckViolation (23514), errors of the conditions.
        """
        self.check_not_null(rows)
        for name, failing in self.failing(rows):
            if failing.any():
                text = row_text(rows, self.schema, int(np.argmax(failing)))
                raise CheckViolation(
                    f'new row for relation "{self.relation.name}" violates check constraint'
                    f' "{name}"',
                    detail=f"Failing row contains ({text}).",
                )

    def failing(self, rows: pa.RecordBatch) -> list[tuple[str, npt.NDArray[np.bool_]]]:
        """(constraint, bool[n]: the row breaks it) for each CHECK; NULL breaks nothing."""
        if self._check is None or not rows.num_rows:
            return []
        found = self._check.run(rows, 0, self.relation.context.timezone)
        return [
            (name, np.asarray(pc.invert(kept.fill_null(True))))
            for name, kept in zip(self._checks, found, strict=True)
        ]

    def check_not_null(self, rows: pa.RecordBatch) -> None:
        """Raises: NotNullViolation (23502), naming the column."""
        for i, column in enumerate(self.schema):
            if column.nullable or not rows.column(i).null_count:
                continue
            at = int(np.argmax(np.asarray(pc.is_null(rows.column(i)))))
            raise NotNullViolation(
                f'null value in column "{column.name}" of relation "{self.relation.name}" '
                "violates not-null constraint",
                detail=f"Failing row contains ({row_text(rows, self.schema, at)}).",
            )


def row_text(rows: pa.RecordBatch, schema: Schema, at: int) -> str:
    """One row as PostgreSQL prints it in error details: (1, null, x)."""
    texts = []
    for i, column in enumerate(schema):
        value = to_text(rows.column(i).slice(at, 1), column.type)[0].as_py()
        texts.append("null" if value is None else value)
    return ", ".join(texts)
