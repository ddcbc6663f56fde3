"""Late changes: those that belong to a window that was closed when they came."""

from __future__ import annotations

import numpy as np

from streamsql.circuit.operator import LateRow, Operator, Step
from streamsql.core.delta import Delta, Int64Array
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.operators.columns import BoolArray, take_rows
from streamsql.operators.event_time import event_time_us


def is_late(close_us: Int64Array, watermark: Int64Array, lateness_us: int) -> BoolArray:
    """bool[n]: the window closed (end + allowed lateness <= watermark) before the row came."""
    late: BoolArray = close_us <= watermark - lateness_us
    if lateness_us:
        late &= watermark > NO_WATERMARK + lateness_us
    return late


def report_late(
    step: Step, operator: Operator, delta: Delta, rows: Int64Array, times: Int64Array,
    schema: Schema,
) -> None:  # fmt: skip
    """Add the entries `rows` of the delta to the tick's late rows."""
    assert delta.row_watermark is not None
    step.late.append(
        LateRow(
            operator.name,
            take_rows(delta.batch, rows),
            schema,
            times[rows],
            delta.row_watermark[rows],
            None if delta.weights is None else delta.weights[rows],
        )
    )


def drop_closed(step: Step, operator: Operator, delta: Delta) -> Delta:
    """Without the entries of an operator's output that would change a closed window; these are
    reported. Entries are judged by `delta.row_watermark`."""
    if delta.row_watermark is None or not operator.closes or not delta:
        return delta
    late = np.zeros(delta.num_rows, np.bool_)
    times = np.zeros(delta.num_rows, np.int64)
    for column, plus in operator.closes.items():
        event, valid = event_time_us(delta.batch.column(column))
        here = is_late(event + plus, delta.row_watermark, operator.lateness_us)
        if valid is not None:
            here &= valid
        times[here & ~late] = event[here & ~late]
        late |= here
    if not bool(late.any()):
        return delta
    report_late(step, operator, delta, np.flatnonzero(late), times, operator.schema)
    return delta.take(np.flatnonzero(~late))
