"""A join condition tested on pairs of rows, inside of an operator that must know who is alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import RowError, Step
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.schema import Schema
from streamsql.functions.expressions import Expr
from streamsql.operators import saved
from streamsql.operators.columns import NO_WEIGHTS, BoolArray
from streamsql.operators.map import rows_json


class PairCondition:
    """What two rows beside each other must satisfy. schema: left's columns, then right's.

    Errors: a pair that the condition fails on does not match, and is reported until it is gone.
    """

    def __init__(self, predicate: Expr, schema: Schema, timezone: str, name: str) -> None:
        from streamsql.functions.evaluator import Evaluator

        self.predicate = predicate
        self.schema = schema
        self.timezone = timezone
        self.name = name
        self.bad_pairs = 0
        self.failure: tuple[str, str] | None = None
        self._evaluator = Evaluator([predicate], schema)

    def holds(
        self, step: Step, pairs: pa.RecordBatch, weights: Int64Array = NO_WEIGHTS
    ) -> BoolArray:
        """bool[n]: the condition is TRUE. weights: of the pairs, for the reports (empty = 1)."""
        found = self._evaluator.run_skipping(pairs, step.now_us, "null", self.timezone)
        if found.errors:
            self._report(step, pairs, weights, found.errors)
        mask = found.columns[0]
        return np.asarray(mask.fill_null(False) if mask.null_count else mask)

    def _report(
        self, step: Step, pairs: pa.RecordBatch, weights: Int64Array,
        errors: list[tuple[int, str, str]],
    ) -> None:  # fmt: skip
        rows = np.array([row for row, _, _ in errors], np.int64)
        texts = rows_json(Delta(pairs), rows, self.schema)
        for (row, sqlstate, message), text in zip(errors, texts, strict=True):
            weight = int(weights[row]) if weights.size else 1
            if weight:
                step.errors.append(RowError(self.name, sqlstate, message, text, weight))
            self.bad_pairs += weight
            self.failure = (sqlstate, message) if self.bad_pairs > 0 else None

    def save(self) -> dict[str, pa.Table]:
        """How many bad pairs there are, and the last error."""
        if not self.bad_pairs:
            return {}
        state, message = self.failure or ("", "")
        names = pa.table({"sqlstate": [state], "message": [message]})
        return {"bad": saved.numbers(pairs=self.bad_pairs), "failure": names}

    def load(self, state: Mapping[str, pa.Table]) -> None:
        """Inverse of `save`."""
        if "bad" in state:
            self.bad_pairs = saved.number(state["bad"], "pairs")
            row = state["failure"].to_pylist()[0]
            self.failure = (row["sqlstate"], row["message"])

    def text(self) -> str:
        """The condition, for EXPLAIN."""
        from streamsql.plan.render import render

        return render(self.predicate, self.schema)
