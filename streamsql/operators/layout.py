"""Layout: a relation's changes in the columns that it had before it was altered."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, Step
from streamsql.core.delta import Delta, make_batch
from streamsql.core.logical_time import END_OF_TIME
from streamsql.core.schema import Schema


class Layout(Operator):
    """Give the rows of an altered table as the views that are older than the change know them.

    Algebra:  a choice of columns; NULL for those that are dropped.  Linear.
    Output:   the same rows, weights and row watermarks, under the older schema.
    State:    none.
    Cost:     O(columns) per tick: no value is copied.
    """

    algebra = Algebra.LINEAR
    rowwise = True

    def __init__(
        self,
        schema: Schema,
        positions: Sequence[int | None],
        *,
        append_only: bool = False,
        watermark_column: int | None = None,
        lateness_us: int = 0,
    ) -> None:
        """positions: of each column in the input; None = dropped. watermark_column: in `schema`."""
        super().__init__(schema)
        self.positions = tuple(positions)
        self.append_only = append_only
        self.lateness_us = lateness_us
        self.has_watermark = watermark_column is not None
        if watermark_column is not None:
            self.event_times = frozenset({watermark_column})
        else:
            self.watermark = END_OF_TIME

    def step(self, step: Step, *deltas: Delta) -> Delta:
        return self._chosen(deltas[0])

    def current(self, *inputs: Delta) -> Delta | None:
        return self._chosen(inputs[0])

    def _chosen(self, delta: Delta) -> Delta:
        rows = delta.num_rows
        columns = [
            pa.nulls(rows, field.type) if at is None else delta.batch.column(at)
            for at, field in zip(self.positions, self.schema.arrow, strict=True)
        ]
        batch = make_batch(columns, self.schema.arrow, rows)
        return Delta(batch, delta.weights, delta.row_watermark, delta.consolidated)

    def explain(self) -> dict[str, str]:
        return {"detail": "the columns before ALTER TABLE"}
