"""What `kernels.warmup` runs to compile the loops that a few rows would not reach."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core.types import BIGINT, DOUBLE, INTEGER, INTERVAL
from streamsql.functions.expressions import AggregateCall, column
from streamsql.kernels.warmup import Exercise
from streamsql.operators.columns import NO_WEIGHTS
from streamsql.operators.folding import make_folding
from streamsql.operators.groups import batch_keys
from streamsql.operators.loops import pieces
from streamsql.operators.over_warmup import over
from streamsql.operators.word_program import WordProgram


def _keys_of_a_batch() -> None:
    numbers = pa.array([1, 2, None, 1], pa.int64())
    batch_keys([numbers], 4, 4, 2)
    batch_keys([numbers, numbers.cast(pa.int32())], 4, 4, 2)


def _aggregates() -> None:
    """Every accumulator, over rows that stay and over rows that may go, and merged."""
    batch = pa.record_batch(
        [
            pa.array([1, 2, None], pa.int64()),
            pa.array([0.5, None, 3.0], pa.float64()),
            pa.array([1, 2, None], pa.int32()),
            pa.array([(1, 2, 3), None, None], pa.month_day_nano_interval()),
        ],
        names=["c0", "c1", "c2", "c3"],
    )
    refs = [column(i, t) for i, t in enumerate((BIGINT, DOUBLE, INTEGER, INTERVAL))]
    calls = [
        AggregateCall(function=name, args=(ref,), type=ref.type)
        for name in ("sum", "min", "max", "var_samp")
        for ref in refs
        if ref.type is not INTERVAL or name == "sum"
    ]
    calls += [
        AggregateCall(function=name, args=(ref,), type=ref.type)
        for name in ("bit_and", "bit_xor")
        for ref in (refs[0], refs[2])
    ]
    slots = np.array([0, 1, 0])
    for append_only in (True, False):
        folding = make_folding(calls, append_only)
        assert folding is not None
        cells = np.zeros((4, folding.width), np.int64)
        folding.fold(cells, batch, slots, NO_WEIGHTS)
        if not append_only:
            folding.fold(cells, batch, slots, np.array([1, 1, -1]))
        folding.settle(cells, np.array([0, 1]))
        for call, accumulator in zip(calls, folding.accumulators, strict=True):
            if accumulator.mergeable:
                accumulator.merge(cells, slots[:1], cells[1:2].copy())
            if call.function in ("min", "max"):
                accumulator.result(cells[:2])


def _words() -> None:
    """The machine for expressions over a few rows."""
    program = WordProgram.of([column(0, BIGINT)])
    assert program is not None
    program.run([pa.array([1, None])], 2)


def _pieces() -> None:
    """One row, and the piece that it is."""
    one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    begin = np.array([0, 1])
    pieces.judge(none, none, one, one, one, one, none, begin, none, 1, 1, 0, one)
    pieces.close(none, none, 1, 1, 0, np.zeros(1, np.bool_), one, one)


EXERCISES: tuple[Exercise, ...] = (
    ("keys of a batch", _keys_of_a_batch),
    ("accumulators", _aggregates),
    ("words", _words),
    ("rows of OVER", over),
    ("pieces of sessions", _pieces),
)
