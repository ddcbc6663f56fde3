"""Conditions on now() as columns of their rows: whoever reads them need not know of the clock."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta, Int64Array, concat, make_batch
from streamsql.core.schema import Schema
from streamsql.core.types import BOOLEAN
from streamsql.functions.expressions import Expr
from streamsql.operators.builder import Builder
from streamsql.operators.clock_expressions import Condition, Moments, conditions
from streamsql.operators.clock_rows import ByTheClock, ClockRows, clock_facts, marks_of_turns
from streamsql.operators.columns import to_arrow
from streamsql.plan import nodes as plan

UNKNOWN = 2  # a condition that is NULL


class ClockColumns(ByTheClock):
    """Add a column for each condition on now() that turns by the clock (ON, CASE, FILTER, EXISTS).

    Algebra:  each row with columns more; when one of its conditions turns, the row is taken back
              and put out anew.  Linear in the rows, not in time.
    Input:    delta [n rows]; any weights.
    Output:   the row's columns, one BOOLEAN a condition.
    State:    the rows with a condition that will turn again: the next moment and the columns as
              put out; freed at the last turn.
    Cost:     O(changed rows + rows whose moment has come).
    Errors:   as Project; NegativeWeight (XX001) if a waiting row is taken back too often.
    """

    def __init__(
        self, schema: Schema, input_schema: Schema, exprs: Sequence[Expr],
        found: Sequence[Condition], *, on_error: str, timezone: str,
    ) -> None:  # fmt: skip
        super().__init__(schema, input_schema, None, exprs, on_error=on_error, timezone=timezone)
        moments = Moments(found, input_schema, timezone)
        self.rows = ClockRows(input_schema, moments, len(exprs))

    @property
    def name(self) -> str:
        return "Clock columns"

    def _take(self, step: Step, delta: Delta) -> Delta:
        assert self._outputs is not None
        columns, delta = self._run(self._outputs, step, delta)
        if not delta:
            return Delta.empty(self.schema)
        truth = _truth(columns)
        self.rows.take(delta, truth, step.now_us)
        return self._with(delta.batch, truth, delta.weights_or_ones(), delta.row_watermark)

    def _with(
        self, rows: pa.RecordBatch, truth: Int64Array, weights: Int64Array,
        row_watermark: Int64Array | None = None,
    ) -> Delta:  # fmt: skip
        """Rows with their conditions [n, k] as columns."""
        columns = [
            to_arrow(truth[:, k] == 1, BOOLEAN.arrow, truth[:, k] != UNKNOWN)
            for k in range(truth.shape[1])
        ]
        batch = make_batch([*rows.columns, *columns], self.schema.arrow, rows.num_rows)
        return Delta(batch, weights, row_watermark)

    def _turned(self, step: Step, slots: Int64Array, rows: pa.RecordBatch) -> Delta:
        """Rows as they were and as they are."""
        assert self._outputs is not None
        found = self._outputs.run_skipping(
            rows, step.now_us, on_error="null", timezone=self.timezone
        )
        now = _truth(found.columns)
        before, weights = self.rows.turn(slots, rows, now, step.now_us)
        turned = np.flatnonzero((now != before).any(axis=1))
        marks = marks_of_turns(step, turned.size)
        rows = rows.take(pa.array(turned))
        gone = self._with(rows, before[turned], -weights[turned], marks)
        return concat([gone, self._with(rows, now[turned], weights[turned], marks)], self.schema)

    def explain(self) -> dict[str, str]:
        from streamsql.plan.render import render

        listed = ", ".join(render(e, self.input_schema) for e in self.exprs or ())
        return {
            "state": "rows with a condition that turns by the clock",
            "freed": "when it has turned for the last time",
            "detail": listed,
        }


def _truth(columns: Sequence[pa.Array]) -> Int64Array:
    """int64 [n, k]: 1 = TRUE, 0 = FALSE, UNKNOWN = NULL."""
    lanes = []
    for column in columns:
        lane = np.asarray(column.fill_null(False)).astype(np.int64)
        if column.null_count:
            lane[np.asarray(column.is_null())] = UNKNOWN
        lanes.append(lane)
    return np.column_stack(lanes)


def lower(node: plan.ClockColumns, build: Builder) -> int:
    """Rows with the conditions that others read."""
    source = build.lower(node.input)
    below = build.operator(source)
    options = build.options
    found = [c for e in node.conditions for c in conditions(e) or ()]

    def make() -> Operator:
        made = ClockColumns(
            node.schema, below.schema, node.conditions, list(dict.fromkeys(found)),
            on_error=options.on_error, timezone=options.timezone,
        )  # fmt: skip
        clock_facts(below, made)
        return made

    what = (node.conditions, options.on_error, options.timezone)
    return build.add("clock", [source], what, make, private=True)
