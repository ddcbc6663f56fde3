"""Set-returning functions beside each row: UNNEST, generate_series, jsonb_each and their kin."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.circuit.operator import Algebra, Operator, Step
from streamsql.core.delta import Delta, Int64Array, make_batch
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT
from streamsql.functions import registry
from streamsql.functions.expressions import Call, ColumnRef, Expr
from streamsql.functions.overloads import select_overload
from streamsql.functions.resolve import result_type
from streamsql.operators.builder import Builder
from streamsql.operators.columns import take_rows, to_arrow
from streamsql.operators.map import add_map, is_plain, move
from streamsql.plan import nodes as plan


class TableFunction(Operator):
    """Each row once for every row that the function gives for it (FROM t, UNNEST(t.a)).

    Algebra:  a function of each row, weights untouched.  Linear.
    Input:    delta [n rows], with the function's columns as arrays; any weights.
    Output:   the input's columns, the function's, the ordinality; weights and row watermarks kept.
              A row without any is gone, or (LEFT JOIN LATERAL … ON true) stands beside NULLs.
    State:    none.
    Cost:     O(rows put out).
    """

    algebra = Algebra.LINEAR
    rowwise = True

    def __init__(self, schema: Schema, input_schema: Schema, node: plan.TableFunction) -> None:
        """input_schema: that of the node's input, then the function's columns as arrays."""
        super().__init__(schema)
        self.width = len(node.input.schema)
        self.input_schema = input_schema
        self.function = node.function
        self.args = node.args
        self.numbered = node.with_ordinality
        self.outer = node.outer

    def step(self, step: Step, *deltas: Delta) -> Delta:
        return self._spread(deltas[0])

    def _spread(self, delta: Delta) -> Delta:
        if not delta:
            return Delta.empty(self.schema)
        lists = delta.batch.columns[self.width :]
        length = np.asarray(pc.fill_null(pc.list_value_length(lists[0]), 0)).astype(np.int64)
        row, place = _spans(length, self.outer)
        columns = [*take_rows(delta.batch.select(list(range(self.width))), row).columns]
        for i, array in enumerate(lists):
            type_ = self.schema[self.width + i].type.arrow
            columns.append(_elements(array, length, row, place, type_))
        if self.numbered:
            columns.append(to_arrow(place + 1, BIGINT.arrow, place >= 0))
        return Delta(
            make_batch(columns, self.schema.arrow, row.size),
            None if delta.weights is None else delta.weights[row],
            None if delta.row_watermark is None else delta.row_watermark[row],
        )

    def current(self, *inputs: Delta) -> Delta | None:
        return self._spread(inputs[0])

    def explain(self) -> dict[str, str]:
        from streamsql.plan.render import render

        listed = ", ".join(render(a, self.input_schema) for a in self.args)
        more = " WITH ORDINALITY" if self.numbered else ""
        kept = ", rows without any beside NULLs" if self.outer else ""
        return {"detail": f"{self.function}({listed}){more}{kept}"}


def array_calls(node: plan.TableFunction) -> list[Expr]:
    """For each column of the function, the call that gives it as an array."""
    types = tuple(a.type for a in node.args)
    found = select_overload(registry.set_returning()[node.function], types)
    definition = found[0] if isinstance(found, list) else found
    calls: list[Expr] = []
    for name in definition.arrays:
        array = registry.definition_of(name, types)
        calls.append(Call(function=name, args=node.args, type=result_type(array, types)))
    return calls


def _spans(length: Int64Array, outer: bool) -> tuple[Int64Array, Int64Array]:
    """(row, place in its list) of every element; outer: a row without any has the place -1."""
    shown = np.maximum(length, 1) if outer else length
    row = np.repeat(np.arange(length.size), shown)
    place = np.arange(row.size) - np.repeat(np.cumsum(shown) - shown, shown)
    if outer:
        place[length[row] == 0] = -1
    return row, place


def _elements(
    lists: pa.Array, length: Int64Array, row: Int64Array, place: Int64Array, type_: pa.DataType
) -> pa.Array:
    """The elements at these places, NULL for -1."""
    values = lists.flatten()
    if values.type != type_:
        values = values.cast(type_)
    if place.size == len(values) and not bool((place < 0).any()):
        return values
    start = np.cumsum(length) - length
    return values.take(to_arrow(start[row] + place, pa.int64(), place >= 0))


def lower(node: plan.TableFunction, build: Builder) -> int | None:
    """A set-returning function of the columns of one row."""
    types = tuple(a.type for a in node.args)
    definitions = registry.set_returning().get(node.function)
    if definitions is None or not all(is_plain(a) for a in node.args):
        return None
    found = select_overload(definitions, types)
    definition = found[0] if isinstance(found, list) else found
    if not definition or not definition.arrays:
        return None
    arrays = array_calls(node)
    width = len(node.input.schema)
    columns = (*node.input.schema.columns, *(Column("", a.type) for a in arrays))
    own = [ColumnRef(index=i, type=c.type) for i, c in enumerate(node.input.schema)]
    # rows that the function fails on are that operator's to report
    source = add_map(build, build.lower(node.input), None, [*own, *arrays], Schema(columns))
    below = build.operator(source)

    def make() -> TableFunction:
        made = TableFunction(node.schema, below.schema, node)
        made.append_only = below.append_only
        made.lateness_us = below.lateness_us
        move(below, made, {i: [i] for i in range(width)})
        return made

    what = (width, node.with_ordinality, node.outer, node.schema)
    return build.add("table-function", [source], what, make)
