"""What compiles the loops of OVER before the first query needs them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Step
from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, DOUBLE, TEXT
from streamsql.functions.expressions import Frame, FrameBound, SortKey, WindowCall, column, literal
from streamsql.operators.over import Over
from streamsql.operators.over_calls import order_of

_SCHEMA = Schema.of(("k", BIGINT), ("v", BIGINT), ("x", DOUBLE), ("s", TEXT))
_K, _V, _X, _S = (column(i, c.type) for i, c in enumerate(_SCHEMA))
_BATCH = pa.record_batch(
    [
        pa.array([1, 1, 2], pa.int64()),
        pa.array([3, None, 5], pa.int64()),
        pa.array([0.5, None, 2.0], pa.float64()),
        pa.array(["a", None, "b"], pa.string()),
    ],
    schema=_SCHEMA.arrow,
)


def _frame(mode: str, start: int | None, end: int | None, exclude: str = "no_others") -> Frame:
    def bound(step: int | None, side: str) -> FrameBound:
        if step is None:
            return FrameBound(kind=f"unbounded_{side}")
        return FrameBound(kind=side, offset=literal(step, BIGINT))

    return Frame(
        mode=mode, start=bound(start, "preceding"), end=bound(end, "following"), exclude=exclude
    )


def over() -> None:
    """Every loop of OVER: rows that come, come twice and go, under each kind of frame."""
    frames = (
        _frame("rows", None, 0),
        _frame("rows", 1, 1, "current_row"),
        _frame("groups", 1, 1, "ties"),
        _frame("range", 1, None),
    )
    calls = [
        WindowCall(
            function=name, args=args, type=type_, partition_by=(_K,), frame=frame,
            order_by=(SortKey(expr=_V),), ignore_nulls=name == "first_value",
        )
        for frame in frames
        for name, args, type_ in (
            ("sum", (_V,), BIGINT), ("sum", (_X,), DOUBLE), ("stddev_samp", (_X,), DOUBLE),
            ("max", (_S,), TEXT), ("first_value", (_V,), BIGINT),
        )
    ]  # fmt: skip
    schema = Schema((*_SCHEMA.columns, *Schema.of(*(("", c.type) for c in calls)).columns))
    operator = Over(
        schema, _SCHEMA, order_of(calls[0]), calls, retracts=True, close=None, lateness_us=0
    )
    operator.step(Step(1, 0), Delta(_BATCH))
    operator.step(Step(2, 0), Delta(_BATCH, np.array([1, 1, -1])))
