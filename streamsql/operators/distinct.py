"""SELECT DISTINCT, UNION."""

from __future__ import annotations

from streamsql.core.schema import Schema
from streamsql.operators.aggregate import (
    Aggregate,
    closing_key,
    freeing_key,
    hand_marks_on,
    identifying,
)
from streamsql.operators.builder import Builder
from streamsql.operators.folding import Folding
from streamsql.operators.map import move
from streamsql.operators.union import lower_union
from streamsql.plan import nodes as plan


class Distinct(Aggregate):
    """Keep one copy of every row that is present (SELECT DISTINCT, UNION).

    Algebra:  distinct(Z)(r) = 1 if Z(r) > 0 else 0.  Non-linear. It is a GROUP BY of all columns
              without aggregates, so that rows are equal as SQL says (0.0 = -0.0).
    Input:    delta [n rows x input schema]; any weights.
    Output:   same schema; weights only -1 or +1; at most one entry per row.
    State:    row -> weight; one entry per live row; freed at weight 0, or when the watermark
              closes the row's window.
    Cost:     O(changed rows) per tick, whatever the number of rows held.
    Errors:   NegativeWeight (XX001) if the weight of a row would fall below 0.
    Source:   Budiu et al., DBSP, VLDB 2023 (incremental distinct).
    """

    def __init__(
        self, schema: Schema, hashed: list[int], close: tuple[int, int] | None, on_close: bool
    ) -> None:
        columns = range(len(schema))
        super().__init__(schema, columns, hashed, Folding((), ()), close=close, on_close=on_close)

    def explain(self) -> dict[str, str]:
        return {**super().explain(), "state": "every distinct row and its count", "detail": ""}


def lower(node: plan.Distinct, build: Builder) -> int | None:
    """SELECT DISTINCT."""
    return add_distinct(build, build.lower(node.input), build.closes_here(node))


def lower_union_distinct(node: plan.SetOperation, build: Builder) -> int | None:
    """UNION without ALL: distinct over the sum."""
    if node.kind != "union" or node.all:
        return None
    both = plan.SetOperation(
        schema=node.schema, left=node.left, right=node.right, kind="union", all=True
    )
    source = lower_union(both, build)
    assert source is not None
    return add_distinct(build, source, build.closes_here(node))


def add_distinct(build: Builder, source: int, wants_close: bool = False) -> int:
    """Distinct over a circuit node."""
    below = build.operator(source)
    columns = tuple(range(len(below.schema)))
    close = freeing_key(columns, below)
    on_close = wants_close and closing_key(columns, below) is not None

    def make() -> Distinct:
        made = Distinct(below.schema, identifying(columns, below), close, on_close)
        move(below, made, {i: [i] for i in columns})
        made.append_only = below.append_only or on_close
        made.lateness_us = below.lateness_us
        hand_marks_on(made, make)
        return made

    return build.add("distinct", [source], (close, on_close), make, private=close is not None)
