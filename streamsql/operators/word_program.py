"""Expressions over words as programs of `loops.words`: the fast way for deltas of a few rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.types import Kind, SqlType
from streamsql.functions.expressions import Call, Cast, ColumnRef, Expr, Literal
from streamsql.functions.literals import to_arrow_scalar
from streamsql.operators.columns import Flat, flat, int64_values
from streamsql.operators.loops import words

ROWS_MAX = 64
"""Above, evaluating by column is the faster way."""

_INTEGERS = {Kind.SMALLINT: 2, Kind.INTEGER: 4, Kind.BIGINT: 8}
_TIMES = frozenset({Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
_COMPARISONS = {
    "eq": words.EQ, "ne": words.NE, "lt": words.LT, "le": words.LE, "gt": words.GT,
    "ge": words.GE,
}  # fmt: skip
_ARITHMETIC = {"add": words.ADD, "subtract": words.SUBTRACT, "multiply": words.MULTIPLY}
_LOGIC = {"and": words.AND, "or": words.OR}
_TESTS = {"not": words.NOT, "is_null": words.IS_NULL, "is_not_null": words.IS_NOT_NULL}


def is_word(type_: SqlType) -> bool:
    """Whether values are integers, times or booleans."""
    return type_.kind in _INTEGERS or type_.kind in _TIMES or type_.kind is Kind.BOOLEAN


def _bits(array: pa.Array) -> Flat:
    """A boolean column by the address of its first bit."""
    valid, data = array.buffers()
    address = 8 * data.address + array.offset
    return Flat(address, 0, valid.address if array.null_count else 0, array.offset)


class WordProgram:
    """Several expressions over the columns of one input.

    Where a row's result would be an error nothing is computed (`run` says None), and the
    evaluator, which knows how to say so, has to do it.
    """

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []
        self._registers: dict[Expr, int] = {}
        self._columns: list[int] = []
        self._bits: list[bool] = []  # which of the columns are bits
        self._program: npt.NDArray[np.int64] = np.empty((0, 4), np.int64)
        self._outputs = np.empty(0, np.int64)

    @classmethod
    def of(cls, exprs: Sequence[Expr]) -> WordProgram | None:
        """The program, or None if an expression needs more than words."""
        made = cls()
        registers = [made._compile(expr) for expr in exprs]
        found = [register for register in registers if register is not None]
        if len(found) < len(registers):
            return None
        made._program = np.array(made._code, np.int64).reshape(-1, 4)
        made._outputs = np.array(found, np.int64)
        return made

    def run(self, columns: Sequence[pa.Array], n: int) -> npt.NDArray[np.int64] | None:
        """int64[n, 2 k]: for each expression whether it has a value, and the value's word."""
        memory = np.array(
            [
                _bits(columns[i]) if bits else flat(columns[i])
                for i, bits in zip(self._columns, self._bits, strict=True)
            ],
            np.int64,
        ).reshape(-1, 4)
        out = np.empty((n, 2 * self._outputs.size), np.int64)
        return out if words.run(self._program, memory, self._outputs, out) else None

    # -- compiling -------------------------------------------------------------------------------
    def _emit(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        self._code.append((op, a, b, c))
        return len(self._code) - 1

    def _compile(self, expr: Expr) -> int | None:
        known = self._registers.get(expr)
        if known is None and is_word(expr.type):
            known = self._make(expr)
            if known is not None:
                self._registers[expr] = known
        return known

    def _make(self, expr: Expr) -> int | None:
        if isinstance(expr, ColumnRef):
            return self._load(expr)
        if isinstance(expr, Literal):
            array = pa.repeat(to_arrow_scalar(expr), 1)
            return self._emit(words.CONSTANT, int(int64_values(array)[0]), 1 - array.null_count)
        if isinstance(expr, Cast):
            width = _INTEGERS.get(expr.type.kind)
            if width is None or expr.try_ or expr.arg.type.kind not in _INTEGERS:
                return None
            below = self._compile(expr.arg)
            return None if below is None else self._emit(words.RESIZE, below, 0, width)
        return self._call(expr) if isinstance(expr, Call) else None

    def _load(self, expr: ColumnRef) -> int:
        if expr.index not in self._columns:
            self._bits.append(expr.type.kind is Kind.BOOLEAN)
            self._columns.append(expr.index)
        return self._emit(words.LOAD, self._columns.index(expr.index))

    def _call(self, expr: Call) -> int | None:
        kinds = {arg.type.kind for arg in expr.args}
        args = [self._compile(arg) for arg in expr.args]
        found = [a for a in args if a is not None]
        if len(found) != len(args) or not found:
            return None
        name = expr.function
        if name in _COMPARISONS and len(kinds) == 1 and len(found) == 2:
            return self._emit(_COMPARISONS[name], found[0], found[1])
        whole = kinds <= _INTEGERS.keys() and expr.type.kind in _INTEGERS
        if name in _ARITHMETIC and whole and len(found) == 2:
            return self._emit(_ARITHMETIC[name], found[0], found[1], _INTEGERS[expr.type.kind])
        if name in _LOGIC and kinds == {Kind.BOOLEAN}:
            result = found[0]
            for arg in found[1:]:
                result = self._emit(_LOGIC[name], result, arg)
            return result
        if name in _TESTS and len(found) == 1 and (name != "not" or kinds == {Kind.BOOLEAN}):
            return self._emit(_TESTS[name], found[0])
        return None
