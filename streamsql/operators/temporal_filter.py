"""WHERE t > now() - INTERVAL …: rows that enter and leave by the clock alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.schema import Schema
from streamsql.functions.expressions import Expr
from streamsql.operators.builder import Builder
from streamsql.operators.clock_expressions import (
    Condition,
    Moments,
    conditions,
)
from streamsql.operators.clock_keys import reads_clock
from streamsql.operators.clock_rows import ByTheClock, ClockRows, clock_facts, marks_of_turns
from streamsql.operators.columns import BoolArray
from streamsql.plan import nodes as plan


class TemporalFilter(ByTheClock):
    """Keep the rows for which a condition on now() is true (temporal filter).

    Algebra:  filter by a condition that changes with the clock.  Linear in the rows, not in time.
    Input:    delta [n rows]; any weights.
    Output:   the rows that pass now; at a row's moments (where a comparison with now() turns) it
              is put out or taken back.
    State:    the rows whose condition will change again, each with its next moment; freed at
              the last one.
    Cost:     O(changed rows + rows whose moment has come).
    Errors:   as Filter; NegativeWeight (XX001) if a waiting row is taken back too often.
    """

    def __init__(
        self, schema: Schema, predicate: Expr, found: Sequence[Condition], *,
        on_error: str, timezone: str,
    ) -> None:  # fmt: skip
        super().__init__(schema, schema, predicate, None, on_error=on_error, timezone=timezone)
        self.rows = ClockRows(schema, Moments(found, schema, timezone), 1)

    @property
    def name(self) -> str:
        return "Temporal filter"

    def _take(self, step: Step, delta: Delta) -> Delta:
        assert self._predicate is not None
        columns, delta = self._run(self._predicate, step, delta)
        inside = _true(columns[0])
        self.rows.take(delta, inside.astype(np.int64)[:, None], step.now_us)
        out = delta.take(np.flatnonzero(inside))
        return Delta(out.batch, out.weights, out.row_watermark, False)

    def _turned(self, step: Step, slots: Int64Array, rows: pa.RecordBatch) -> Delta:
        assert self._predicate is not None
        found = self._predicate.run_skipping(
            rows, step.now_us, on_error="null", timezone=self.timezone
        )
        inside = _true(found.columns[0]).astype(np.int64)
        before, weights = self.rows.turn(slots, rows, inside[:, None], step.now_us)
        change = (inside - before[:, 0]) * weights
        turned = np.flatnonzero(change)
        marks = marks_of_turns(step, turned.size)
        return Delta(rows.take(pa.array(turned)), change[turned], marks)

    def explain(self) -> dict[str, str]:
        return {
            "state": "rows that will enter or leave by the clock",
            "freed": "when they have left",
            "detail": "temporal filter",
        }


def _true(column: pa.Array) -> BoolArray:
    return np.asarray(column.fill_null(False))


def lower(node: plan.Filter, build: Builder) -> int | None:
    """A filter that compares with now()."""
    if not reads_clock(node.predicate):
        return None
    found = conditions(node.predicate)
    if found is None:
        return None
    source = build.lower(node.input)
    below = build.operator(source)
    options = build.options

    def make() -> Operator:
        made = TemporalFilter(
            below.schema, node.predicate, found,
            on_error=options.on_error, timezone=options.timezone,
        )  # fmt: skip
        clock_facts(below, made)
        return made

    what = (node.predicate, options.on_error, options.timezone)
    return build.add("temporal", [source], what, make, private=True)
