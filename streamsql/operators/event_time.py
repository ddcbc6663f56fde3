"""Event times in µs, whatever the column's type, and the queue of what closes when."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import END_OF_TIME, US_PER_DAY
from streamsql.operators.columns import BoolArray, int64_values, to_arrow, valid_mask


def event_time_us(column: pa.Array) -> tuple[Int64Array, BoolArray | None]:
    """(µs since the epoch int64[n], valid mask or None) of a DATE or TIMESTAMP[TZ] column."""
    values = int64_values(column)
    if pa.types.is_date32(column.type):
        values = values * US_PER_DAY
    return values, valid_mask(column)


INFINITY = 2**63 - 1
"""'infinity' as a timestamp; its negative is '-infinity'."""


def finite_times(column: pa.Array) -> tuple[Int64Array, BoolArray | None]:
    """`event_time_us` where infinite times count as missing: they belong to no window."""
    values, valid = event_time_us(column)
    if values.size and (int(values.max()) == INFINITY or int(values.min()) <= -INFINITY):
        finite = (values != INFINITY) & (values > -INFINITY)
        valid = finite if valid is None else valid & finite
    return values, valid


def event_time_column(
    us: Int64Array, type_: pa.DataType, valid: BoolArray | None = None
) -> pa.Array:
    """µs as a column of that type; a DATE is the day that holds the instant."""
    if pa.types.is_date32(type_):
        us = np.floor_divide(us, US_PER_DAY)
    return to_arrow(us, type_, valid)


class CloseQueue:
    """Slots by the time their window closes (µs).

    Slots may be freed or reused behind the queue's back: who pops checks them against the close
    time that the group holds now.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, list[Int64Array]] = {}
        self._heap: list[int] = []

    def push(self, close_us: Int64Array, slots: Int64Array) -> None:
        """Note when these slots close."""
        if not slots.size:
            return
        order = np.argsort(close_us, kind="stable")
        times, starts = np.unique(close_us[order], return_index=True)
        for time_us, part in zip(times.tolist(), np.split(slots[order], starts[1:]), strict=True):
            bucket = self._buckets.get(time_us)
            if bucket is None:
                self._buckets[time_us] = [part]
                heapq.heappush(self._heap, time_us)
            else:
                bucket.append(part)

    def pop(self, watermark: int) -> Iterator[tuple[int, Int64Array]]:
        """(close time, distinct slots) of everything that closes at or before the watermark, in
        order of time."""
        while self._heap and self._heap[0] <= watermark < END_OF_TIME:
            time_us = heapq.heappop(self._heap)
            yield time_us, np.unique(np.concatenate(self._buckets.pop(time_us)))

    def next_us(self) -> int | None:
        """The time of the first entry, or None."""
        return self._heap[0] if self._heap else None
