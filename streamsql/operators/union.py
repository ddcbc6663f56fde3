"""UNION ALL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamsql.circuit.operator import Algebra, Operator, State, Step
from streamsql.core.delta import Delta, concat, make_batch
from streamsql.core.schema import Schema
from streamsql.operators.builder import Builder
from streamsql.operators.join_marks import JoinMarks
from streamsql.plan.nodes import LogicalPlan, SetOperation


class UnionAll(Operator):
    """All rows of all inputs (UNION ALL).

    Algebra:  A + B.  Linear in each input.
    Output:   the entries of each input after the other; columns by position. What is above judges
              them late by the least watermark of all inputs, as `JoinMarks` says.
    State:    the inputs' watermarks.
    """

    algebra = Algebra.LINEAR

    def __init__(self, schema: Schema, inputs: int) -> None:
        super().__init__(schema)
        self.marks = JoinMarks(inputs)

    def step(self, step: Step, *deltas: Delta) -> Delta:
        self.marks.begin(step.input_watermarks)
        return self._together(deltas)

    def _together(self, deltas: Sequence[Delta]) -> Delta:
        return _sum(self.schema, tuple(self.marks.judged(i, d) for i, d in enumerate(deltas)))

    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:
        self.marks.note_sources(sources)

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        self.marks.end(inputs)
        return super().advance_watermark(inputs)

    def save(self) -> State:
        return self.marks.save()

    def load(self, state: State) -> None:
        self.marks.load(state)

    @property
    def replays(self) -> bool:
        return not any(self.marks.others)  # else no one knows how far the others were

    def current(self, *inputs: Delta) -> Delta | None:
        with self.marks.retelling():
            return self._together(inputs)


def _sum(schema: Schema, deltas: tuple[Delta, ...]) -> Delta:
    renamed = [
        Delta(
            make_batch(d.batch.columns, schema.arrow, d.num_rows),
            d.weights,
            d.row_watermark,
            d.consolidated,
        )
        for d in deltas
        if d
    ]
    return concat(renamed, schema)


def lower_union(node: SetOperation, build: Builder) -> int | None:
    """UNION ALL of any number of inputs in one operator."""
    if node.kind != "union" or not node.all:
        return None
    inputs = [build.lower(plan) for plan in _branches(node)]
    return add_union(build, inputs, node.schema)


def add_union(
    build: Builder, inputs: list[int], schema: Schema, ends: Mapping[int, int] | None = None,
    *, ends_suffice: bool = False,
) -> int:  # fmt: skip
    """The sum of circuit nodes. ends, ends_suffice: as in `Operator`."""
    below = [build.operator(i) for i in inputs]

    def make() -> UnionAll:
        made = UnionAll(schema, len(below))
        made.append_only = all(b.append_only for b in below)
        made.lateness_us = max(b.lateness_us for b in below)
        made.event_times = frozenset.intersection(*(b.event_times for b in below))
        made.delays = {
            i: us for i in made.event_times if (us := max(b.delays.get(i, 0) for b in below))
        }
        made.useless = {
            i: max(b.useless[i] + b.lateness_us for b in below) - made.lateness_us
            for i in made.event_times
            if all(i in b.useless for b in below)
        }
        made.lost_times = any(b.lost_times or b.event_times - made.event_times for b in below)
        first = below[0].closes
        made.closes = {
            column: max(b.closes[column] for b in below)
            for column in first
            if all(column in b.closes for b in below)
        }
        made.ends = ends or {}
        made.ends_suffice = ends_suffice and bool(ends)
        return made

    return build.add("union", inputs, schema, make)


def _branches(node: LogicalPlan) -> list[LogicalPlan]:
    if isinstance(node, SetOperation) and node.kind == "union" and node.all:
        return [*_branches(node.left), *_branches(node.right)]
    return [node]
