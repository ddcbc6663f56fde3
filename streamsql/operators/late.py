"""Late changes: those that belong to a window that was closed when they came."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import LateRow, Operator, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import Lanes, hash_arrays
from streamsql.operators.columns import BoolArray, take_rows
from streamsql.operators.event_time import event_time_us


def is_late(close_us: Int64Array, watermark: Int64Array, lateness_us: int) -> BoolArray:
    """bool[n]: the window closed (end + allowed lateness <= watermark) before the row came."""
    late: BoolArray = close_us <= watermark - lateness_us
    if lateness_us:
        late &= watermark > NO_WATERMARK + lateness_us
    return late


def may_be_late(below: Operator, delta: Delta, mark: int, lateness_us: int) -> bool:
    """Whether anything may take an entry that an operator put out for late, judged by this mark."""
    return bool(doubtful(below, delta, np.full(delta.num_rows, mark), lateness_us).any())


def doubtful(below: Operator, delta: Delta, marks: Int64Array, lateness_us: int) -> BoolArray:
    """bool[n]: which entries anything may take for late, judged by these marks."""
    found = np.zeros(delta.num_rows, np.bool_)
    plus = {**below.ends, **below.closes}
    plus |= {column: us - 1 for column, us in below.waits.items()}
    plus |= dict.fromkeys(below.event_times - plus.keys(), 0)
    for column, us in plus.items():
        times, valid = event_time_us(delta.columns[column])
        passed = is_late(times + us, marks, lateness_us)
        found |= passed if valid is None else passed & valid
    return found


def report_late(
    step: Step,
    operator: Operator,
    delta: Delta,
    rows: Int64Array,
    times: Int64Array,
    schema: Schema,
    origins: Mapping[int, tuple[int, int]] | None = None,
    port: int | None = None,
) -> None:
    """Add the entries `rows` of the delta to the tick's late rows.

    origins: where the delta's columns come from; then the whole rows of that source are reported.
    port: the one input that they came by.
    """
    assert delta.row_watermark is not None
    late = delta.take(rows)
    batch, schema = _whole_rows(step, late, schema, origins or {})
    marks = late.row_watermark
    step.late.append(
        LateRow(operator.name, batch, schema, times[rows], marks, late.weights, port=port)
    )


def _whole_rows(
    step: Step, late: Delta, schema: Schema, origins: Mapping[int, tuple[int, int]]
) -> tuple[pa.RecordBatch, Schema]:
    """The source's rows that late entries were made from: unused columns were pruned on the way.

    They are found by what is left of them and by the watermark they came under, which decides
    lateness; equal ones are all late, and are taken in their order.
    """
    nodes = {node for node, _ in origins.values()}
    if len(nodes) != 1:
        return late.batch, schema
    node = nodes.pop()
    if node not in step.given or node not in step.schemas:
        return late.batch, schema
    given = concat(step.given[node], step.schemas[node])
    if given.row_watermark is None:
        return late.batch, schema
    pairs = [(i, column) for i, (_, column) in sorted(origins.items())]
    here = [*(late.batch.column(i) for i, _ in pairs), pa.array(late.row_watermark)]
    there = [*(given.batch.column(c) for _, c in pairs), pa.array(given.row_watermark)]
    lanes = hash_arrays(there, given.num_rows, exact=True)
    found = _nth_equals(lanes, hash_arrays(here, late.num_rows, exact=True))
    if found is None:
        return late.batch, schema
    return take_rows(given.batch, found), step.schemas[node]


def _nth_equals(there: Lanes, here: Lanes) -> Int64Array | None:
    """int64[n]: for each row here one of there that is equal to it: the second one for the second
    of equal rows, and so on; None if there are not that many of one."""
    index = HashIndex(expected=there[0].size)
    key, _ = index.upsert(*there)
    wanted = index.find(*here)
    if not wanted.size or bool((wanted < 0).any()):
        return None
    rows, counts = np.argsort(key, kind="stable"), np.bincount(key)
    first = np.cumsum(counts) - counts
    order = np.argsort(wanted, kind="stable")
    in_order = wanted[order]
    asked = np.bincount(wanted, minlength=counts.size)
    nth = np.arange(order.size) - (np.cumsum(asked) - asked)[in_order]
    if bool((nth >= counts[in_order]).any()):
        return None
    found = np.empty(order.size, np.int64)
    found[order] = rows[first[in_order] + nth]
    return found


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
