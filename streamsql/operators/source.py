"""Where rows enter a circuit: tables, sources, and constant rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, make_batch
from streamsql.core.logical_time import END_OF_TIME
from streamsql.core.schema import Schema
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.plan.nodes import Scan, Values


class Source(Operator):
    """The changes of a table or source, as the engine hands them over.

    Algebra:  the identity.  Linear.
    Output:   as given; rows carry the watermark that stood before them, if there is one.
    State:    none (the rows are the table's own).
    """

    algebra = Algebra.LINEAR
    rowwise = True

    def __init__(
        self, schema: Schema, *, append_only: bool = False, watermark_column: int | None = None
    ) -> None:
        super().__init__(schema)
        self.append_only = append_only
        self.has_watermark = watermark_column is not None
        if watermark_column is not None:
            self.event_times = frozenset({watermark_column})
        else:
            self.watermark = END_OF_TIME

    def step(self, step: Step, *deltas: Delta) -> Delta:
        return deltas[0]

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        """A source without a watermark never holds one back: its watermark is the end of time."""
        if self.has_watermark and inputs:
            self.watermark = max(self.watermark, inputs[0])
        return self.watermark


class Constant(Operator):
    """Rows that are always there (VALUES, SELECT without FROM).

    Algebra:  a constant Z-set, given out once.
    Output:   the rows, in the first tick.
    State:    whether they were given out.
    """

    def __init__(self, schema: Schema, columns: Sequence[pa.Array], num_rows: int) -> None:
        super().__init__(schema)
        self.rows = Delta(make_batch(columns, schema.arrow, num_rows))
        self.append_only = True
        self.given = False
        self.watermark = END_OF_TIME

    def step(self, step: Step, *deltas: Delta) -> Delta:
        if self.given:
            return Delta.empty(self.schema)
        self.given = True
        return self.rows

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        return self.watermark

    def save(self) -> State:
        return {"given": saved.numbers(given=int(self.given))}

    def load(self, state: State) -> None:
        self.given = bool(saved.number(state["given"], "given"))

    def explain(self) -> dict[str, str]:
        return {"detail": f"{self.rows.num_rows} rows"}


def lower_scan(node: Scan, build: Builder) -> int | None:
    """The node that stands for the relation: a source's own, or the output of another view."""
    return build.sources.get(node.relation_id)


def lower_values(node: Values, build: Builder) -> int | None:
    """VALUES whose expressions need no row and no clock, evaluated once."""
    from streamsql.operators.map import is_plain

    if not all(is_plain(e) for row in node.rows for e in row):
        return None

    def make() -> Constant:
        from streamsql.functions.evaluator import Evaluator

        nothing = Schema(())
        one = make_batch([], nothing.arrow, 1)
        rows = [Evaluator(row, nothing).run(one, 0) if row else [] for row in node.rows]
        columns = [
            pa.concat_arrays([row[i] for row in rows])
            if rows
            else pa.array([], type=column.type.arrow)
            for i, column in enumerate(node.schema)
        ]
        return Constant(node.schema, columns, len(rows))

    return build.add("values", [], (node.rows, node.schema), make, private=True)
