"""Rows on time for the windows above: what stands between may forget what these have closed."""

from __future__ import annotations

from collections.abc import Mapping

from streamsql.circuit.operator import Algebra, Operator, Step
from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.operators import semi_join, set_operation
from streamsql.operators.builder import Builder
from streamsql.operators.map import move
from streamsql.operators.on_time_rule import Rule, judged_by_marks, rule_of
from streamsql.operators.time_window import describe, patience_us
from streamsql.plan import nodes as plan


class OnTime(Operator):
    """Rows on time for the TUMBLE, HOP or CUMULATE that stands above DISTINCT, GROUP BY or UNION.

    Algebra:  on_time(Z)(r) = Z(r) if some window that will hold r's time was open when r came, else
              0.  Linear.
    Input:    delta [n rows]; rows without a (finite) event time are in no window and are counted.
    Output:   the same rows; weights kept. A row whose last window was closed when it arrived (end +
              allowed lateness <= the row's watermark) is dropped and reported as late; so is a
              retraction. The window above would drop all that is made of it.
    State:    none: it is why others may forget (`Operator.useless`).
    Cost:     O(changed rows); windows are looked for only of rows behind the watermark.
    """

    algebra = Algebra.LINEAR
    rowwise = True

    def __init__(self, schema: Schema, rule: Rule) -> None:
        super().__init__(schema)
        self.rule = rule
        self.input_origins: Mapping[int, tuple[int, int]] = {}

    @property
    def name(self) -> str:
        return "OnTime"

    def step(self, step: Step, *deltas: Delta) -> Delta:
        if not deltas[0].num_rows:
            return deltas[0]
        return self.rule.on_time(step, self, deltas[0], self.schema, self.input_origins)

    def current(self, *inputs: Delta) -> Delta | None:
        return self.retell(Step(0, 0), *inputs)

    @property
    def retells(self) -> bool:
        return True

    def retell(self, step: Step, *inputs: Delta) -> Delta:
        return self.step(step, *inputs)

    def explain(self) -> dict[str, str]:
        grid = self.rule.grid
        kind = grid.kind.capitalize()
        return {"detail": f"for {kind} above: {describe(grid)}; late rows are dropped"}


def lower(node: plan.OnTime, build: Builder) -> int | None:
    """Rows on time for the windows above, if the watermark closes them."""
    if isinstance(node.input, plan.SetOperation):
        combined = set_operation.lower(node.input, build, node)
        if combined is not None:  # it judges its sides' rows itself
            return combined
    members = None
    if isinstance(node.input, plan.Join):
        members = semi_join.lower(node.input, build, node)
    source = build.lower(node.input) if members is None else members
    below = build.operator(source)
    if not node.drops or not judged_by_marks(below, node.time_column):
        return source
    rule = rule_of(node, patience_us(below, node.time_column))

    def make() -> OnTime:
        made = OnTime(below.schema, rule)
        made.append_only = below.append_only
        made.lateness_us = below.lateness_us
        move(below, made, {i: [i] for i in range(len(below.schema))})
        plus_us = rule.plus_us + rule.lateness_us - below.lateness_us
        made.useless = {node.time_column: plus_us}
        made.input_origins = below.origins
        return made

    return build.add("on time", [source], rule, make)
