"""VALUES of literals and parameters: their columns without a plan and its evaluators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from streamsql.functions.expressions import Cast, Expr, Literal, Parameter
from streamsql.functions.literals import arrow_value, stored
from streamsql.plan.nodes import LogicalPlan, Values

CELLS_MAX = 256
"""More of them go through the plan."""

_INTEGERS = {16: np.int16, 32: np.int32, 64: np.int64}

Cell: TypeAlias = "pa.Array | int"
"""An array of one value that is there already, or the number of a parameter."""


class ConstantRows:
    """The columns of a VALUES with nothing but literals and parameters of the columns' types."""

    def __init__(self, columns: Sequence[Sequence[Cell]], types: Sequence[pa.DataType]) -> None:
        self._columns = columns
        self._types = types

    @classmethod
    def of(cls, plan: LogicalPlan | None) -> ConstantRows | None:
        """The rows of a plan, or None where it is anything else."""
        if not isinstance(plan, Values) or not plan.rows:
            return None
        types = [column.type.arrow for column in plan.schema]
        if not types or len(plan.rows) * len(types) > CELLS_MAX:
            return None
        columns: list[list[Cell]] = [[] for _ in types]
        for row in plan.rows:
            for cell, column, type_ in zip(row, columns, types, strict=True):
                if cell.type.arrow != type_:
                    return None
                given = _given(cell)
                if given is not None:
                    column.append(given.index)
                elif isinstance(cell, Literal):
                    column.append(_one(cell))
                else:
                    return None
        return cls(columns, types)

    def arrays(self, values: Sequence[Literal]) -> list[pa.Array] | None:
        """One array a column; None where a parameter is missing or of another type."""
        arrays = []
        for cells, type_ in zip(self._columns, self._types, strict=True):
            parts = []
            for cell in cells:
                if not isinstance(cell, int):
                    parts.append(cell)
                else:
                    made = None if cell > len(values) else _typed(values[cell - 1], type_)
                    if made is None:
                        return None
                    parts.append(made)
            arrays.append(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))
        return arrays


def _given(cell: Expr) -> Parameter | None:
    """The parameter that a cell is, as it is or as an integer of another size."""
    if isinstance(cell, Cast) and cell.type.is_integer and cell.arg.type.is_integer:
        cell = cell.arg
    return cell if isinstance(cell, Parameter) else None


def _typed(literal: Literal, type_: pa.DataType) -> pa.Array | None:
    """The value as a column of this type; None if it does not fit."""
    if literal.type.arrow == type_:
        return _one(literal)
    if literal.type.is_integer and pa.types.is_integer(type_):
        if literal.value is None:
            return pa.nulls(1, type_)
        return _integer(literal.value, type_) if _fits(literal.value, type_.bit_width) else None
    return None


def _integer(value: int, type_: pa.DataType) -> pa.Array:
    held = pa.py_buffer(np.array([value], _INTEGERS[type_.bit_width]))
    return pa.Array.from_buffers(type_, 1, [None, held], 0)


def _fits(value: object, bits: int) -> bool:
    return isinstance(value, int) and -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _one(literal: Literal) -> pa.Array:
    type_ = literal.type.arrow
    if literal.type.is_integer and _fits(literal.value, type_.bit_width):
        return _integer(literal.value, type_)
    value = arrow_value(stored(literal.value, literal.type), literal.type)
    return pa.array([value], type_)
