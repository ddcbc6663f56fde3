"""Expressions over words give what the evaluator gives, row by row, or leave it to the evaluator."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, BOOLEAN, DATE, INTEGER, SMALLINT, TEXT, TIMESTAMP, SqlType
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Cast, Expr, column, literal
from streamsql.functions.resolve import resolve_call
from streamsql.operators.word_program import WordProgram

TYPES = (SMALLINT, INTEGER, BIGINT, BOOLEAN, DATE, TIMESTAMP)
COLUMNS: dict[SqlType, list[int | bool | None]] = {
    SMALLINT: [0, 1, -1, 32767, -32768, None, 7],
    INTEGER: [0, 2**31 - 1, -(2**31), 5, None, -3, 7],
    BIGINT: [2**63 - 1, -(2**63), 0, None, -1, 12, 7],
    BOOLEAN: [True, False, None, True, False, None, True],
    DATE: [0, 19000, None, -5, 1, 2, 3],
    TIMESTAMP: [0, 10**15, None, -5, 1, 2**62, 3],
}
SCHEMA = Schema.of(*((t.kind.value, t) for t in TYPES), ("again", BOOLEAN))
ROWS = 7


def batch(offset: int = 0) -> pa.RecordBatch:
    """All values of every type; offset: rows in front that are sliced away."""
    arrays = []
    for t in (*TYPES, BOOLEAN):
        values = COLUMNS[t] if len(arrays) < len(TYPES) else COLUMNS[t][2:] + COLUMNS[t][:2]
        arrays.append(pa.array([None] * offset + values, t.arrow))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.arrow).slice(offset)


def call(name: str, *args: Expr) -> Expr:
    return resolve_call(name, list(args), None)


def expressions() -> Iterator[Expr]:
    """Every operation over columns and constants of every type it takes."""
    refs = [column(i, t) for i, t in enumerate(TYPES)]
    for t, ref in zip(TYPES, refs, strict=True):
        constants = [literal(None, t), Cast(type=t, arg=ref)]
        if t in (SMALLINT, INTEGER, BIGINT):
            constants += [literal(7, t), literal(-1, t)]
        for other, op in itertools.product([ref, *constants], ("=", "<>", "<", "<=", ">", ">=")):
            yield call(op, ref, other)
        yield call("is_null", ref)
        yield call("is_not_null", ref)
    for a, b in itertools.product(refs[:3], repeat=2):
        yield from (call(op, a, b) for op in ("+", "-", "*"))
        yield Cast(type=a.type, arg=b)
    flags = [refs[3], column(6, BOOLEAN), literal(None, BOOLEAN), literal(True, BOOLEAN)]
    for a, b in itertools.product(flags, repeat=2):
        yield from (call(op, a, b) for op in ("and", "or"))
        yield call("not", call("and", a, call(">", refs[1], literal(3, INTEGER))))


@pytest.mark.parametrize("offset", [0, 3])
def test_words_give_what_the_evaluator_gives(offset: int) -> None:
    rows = batch(offset)
    compiled = failed = 0
    for expr in expressions():
        program = WordProgram.of([expr])
        if program is None:
            continue
        compiled += 1
        evaluator = Evaluator([expr], SCHEMA)
        whole = evaluator.run_skipping(rows, 0)
        got = program.run(rows.columns, ROWS)
        assert (got is None) == bool(whole.errors), expr
        for i in range(ROWS):
            row = rows.slice(i, 1)
            wanted = evaluator.run_skipping(row, 0)
            one = program.run(row.columns, 1)
            if wanted.errors:
                failed += 1
                assert one is None, expr
                continue
            value = wanted.columns[0]
            value = value.cast(pa.int64()) if expr.type is not DATE else value.cast(pa.int32())
            assert one is not None, expr
            assert [int(one[0, 1]) if one[0, 0] else None] == value.to_pylist(), expr
    assert compiled > 150
    assert failed > 20


def test_several_expressions_share_their_parts() -> None:
    doubled = call("*", column(1, INTEGER), literal(2, INTEGER))
    program = WordProgram.of([call(">", doubled, literal(5, INTEGER)), doubled])
    assert program is not None
    found = program.run([pa.array([1], pa.int16()), pa.array([4], pa.int32())], 1)
    assert np.asarray(found).tolist() == [[1, 1, 1, 8]]


def test_what_is_no_word_is_left_to_the_evaluator() -> None:
    assert WordProgram.of([call("upper", column(0, TEXT))]) is None
    assert WordProgram.of([call("/", column(0, INTEGER), literal(2, INTEGER))]) is None
