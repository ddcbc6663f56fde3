"""The watermark of a table or source: a running maximum, row by row.

A row is judged by the watermark before it, so lateness does not depend on how rows were cut into
batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK, US_PER_DAY
from streamsql.engine.storage.adaptive import Disorder
from streamsql.kernels.arrays import int64s
from streamsql.kernels.running import watermarks as running_watermarks

Int64Array = npt.NDArray[np.int64]

NULL_TIME = NO_WATERMARK
"""Stands for a NULL event time: it moves no watermark."""

DEFAULT_MAX_FUTURE_US = US_PER_DAY


def to_us(times: pa.Array) -> Int64Array:
    """DATE, TIMESTAMP or TIMESTAMPTZ as int64 µs since the epoch; NULL = NULL_TIME."""
    values = _raw(times).astype(np.int64, copy=False)
    if pa.types.is_date32(times.type):
        values = values * US_PER_DAY
    if times.null_count:
        values = np.where(np.asarray(pc.is_null(times)), NULL_TIME, values)
    return values


def _raw(times: pa.Array) -> npt.NDArray[np.signedinteger[Any]]:
    """The integers of a DATE or TIMESTAMP column as they are in memory."""
    dtype = np.int32 if times.type.bit_width == 32 else np.int64
    data = times.buffers()[1]
    if data is None:
        return np.zeros(len(times), dtype)
    return np.frombuffer(data, dtype, len(times), times.offset * np.dtype(dtype).itemsize)


@dataclass(frozen=True)
class WatermarkPolicy:
    """The options of WITH: all µs; None = off. lateness_us: `allowed_lateness`, which the
    operators add to the ends of windows."""

    idle_timeout_us: int | None = None
    max_future_us: int | None = DEFAULT_MAX_FUTURE_US
    lateness_us: int = 0


@dataclass(frozen=True)
class Partition:
    """value: running maximum so far. last_us: clock when its last row came."""

    value: int
    last_us: int


@dataclass(frozen=True)
class WatermarkState:
    """All that a tracker remembers; a value, so that a tick can be undone.

    value: the source's watermark, never falls. disorder: by partition, of the adaptive form.
    idle_base: (watermark, clock) when everything fell idle, from which the watermark moves on with
    the clock; None while rows come. begun_us: clock from which rows were to be expected; None: not
    yet. idle_us: clock when the last partition fell idle; None: it is active.
    """

    value: int = NO_WATERMARK
    partitions: dict[str, Partition] = field(default_factory=dict)
    disorder: dict[str, Disorder] = field(default_factory=dict)
    idle_base: tuple[int, int] | None = None
    since_us: int = 0
    begun_us: int | None = None
    idle_us: int | None = None


@dataclass(frozen=True)
class Observed:
    """before: int64[n], the watermark before each row. ahead: positions of rows too far ahead of
    the clock, which did not move the watermark."""

    before: Int64Array
    ahead: Int64Array


class WatermarkTracker:
    """Keeps the watermark of one relation.

    evaluate: user rows, clock → int64[n], µs: the watermark expression of each row. time_column:
    position of the column that it speaks of. percentile: (fraction, span µs) of the adaptive form,
    which takes the place of the expression.
    """

    def __init__(
        self,
        time_column: int,
        evaluate: Callable[[pa.RecordBatch, int], Int64Array],
        policy: WatermarkPolicy,
        percentile: tuple[float, int] | None = None,
    ) -> None:
        self.time_column = time_column
        self.policy = policy
        self.state = WatermarkState()
        self._evaluate = evaluate
        self._percentile = percentile

    @property
    def value(self) -> int:
        """The watermark, µs."""
        return self.state.value

    def observe(self, rows: pa.RecordBatch, now_us: int, partition: str = "") -> Observed:
        """Take rows of one partition, in their order."""
        state = self.state
        n = rows.num_rows
        if not n:
            return Observed(np.empty(0, np.int64), np.empty(0, np.int64))
        times = to_us(rows.column(self.time_column))
        limit = END_OF_TIME
        if self.policy.max_future_us is not None:
            limit = now_us + self.policy.max_future_us
        disorder = state.disorder
        if self._percentile is None:
            values = self._evaluate(rows, now_us)
        else:
            known_disorder = disorder.get(partition) or Disorder.none()
            given = np.where(times > limit, NULL_TIME, times)
            values, after_rows = known_disorder.observe(given, *self._percentile)
            disorder = {**disorder, partition: after_rows}
        known = state.partitions.get(partition, Partition(NO_WATERMARK, now_us))
        others = self._others(partition, now_us)
        before, ahead = np.empty(n, np.int64), np.empty(n, np.int64)
        running, found = running_watermarks(
            int64s(values), int64s(times), limit, known.value, others, state.value, before, ahead
        )
        after = max(min(running, others), state.value)
        self.state = replace(
            state,
            value=after,
            partitions={**state.partitions, partition: Partition(running, now_us)},
            disorder=disorder,
            idle_base=None,
            idle_us=None,
            since_us=now_us if after > state.value else state.since_us,
        )
        return Observed(before, ahead[:found].copy())

    def _others(self, partition: str, now_us: int) -> int:
        """The minimum over the other partitions that are not idle."""
        timeout = self.policy.idle_timeout_us
        values = [
            p.value
            for name, p in self.state.partitions.items()
            if name != partition and (timeout is None or now_us - p.last_us < timeout)
        ]
        return min(values, default=2**63 - 1)

    def begin(self, now_us: int) -> None:
        """From now on rows are expected: it falls idle if none come. Once."""
        if self.state.begun_us is None:
            self.state = replace(self.state, begun_us=now_us)

    def clock(self, now_us: int) -> bool:
        """Let the clock pass: idle partitions no longer hold back. True if the watermark rose, or
        the whole fell idle (or no longer is, its timeout being another one)."""
        rose = self._clock(now_us)
        idle_us = self.idle_at_us()
        if idle_us is not None and idle_us > now_us:
            idle_us = None
        if idle_us == self.state.idle_us:
            return rose
        self.state = replace(self.state, idle_us=idle_us)
        return True

    def idle_at_us(self) -> int | None:
        """When it falls idle, or fell, if no more rows come."""
        timeout, state = self.policy.idle_timeout_us, self.state
        last_us = max((p.last_us for p in state.partitions.values()), default=state.begun_us)
        return None if timeout is None or last_us is None else last_us + timeout

    def _clock(self, now_us: int) -> bool:
        timeout = self.policy.idle_timeout_us
        state = self.state
        if timeout is None or not state.partitions or state.value == NO_WATERMARK:
            return False
        active = [p.value for p in state.partitions.values() if now_us - p.last_us < timeout]
        if active:
            value = max(state.value, min(active))
            base = None
        else:
            last_us = max(p.last_us for p in state.partitions.values())
            top = max(p.value for p in state.partitions.values())
            base = state.idle_base or (max(state.value, top), last_us)
            value = max(state.value, base[0] + now_us - base[1])
        if value == state.value and base == state.idle_base:
            return False
        since = now_us if value > state.value else state.since_us
        self.state = replace(state, value=value, idle_base=base, since_us=since)
        return value > state.value

    def held_back_by(self, now_us: int) -> str | None:
        """The partition with the lowest watermark, where there are several."""
        timeout = self.policy.idle_timeout_us
        active = {
            name: p.value
            for name, p in self.state.partitions.items()
            if timeout is None or now_us - p.last_us < timeout
        }
        return min(active, key=lambda name: active[name]) if len(active) > 1 else None

    def next_due_us(self, now_us: int) -> int | None:
        """When the clock alone moves the watermark next."""
        timeout = self.policy.idle_timeout_us
        state = self.state
        if timeout is None:
            return None
        if not state.partitions or state.value == NO_WATERMARK:
            return self.idle_at_us() if state.idle_us is None else None
        due = [p.last_us + timeout for p in state.partitions.values()]
        waiting = [d for d in due if d > now_us]
        if waiting:
            active = [p.value for p in state.partitions.values() if p.last_us + timeout > now_us]
            return now_us if min(active) > state.value else min(waiting)
        if state.idle_base is None:
            return now_us
        step = max(min(timeout // 4, 1_000_000), 10_000)
        # from the last move on: whoever asks again and again must come to it
        value, began = state.idle_base
        return max(state.since_us, began + state.value - value) + step

    def advance_to(self, value: int, now_us: int) -> None:
        """ADVANCE WATERMARK: never falls."""
        if value > self.state.value:
            self.state = replace(self.state, value=value, since_us=now_us)

    def save(self) -> dict[str, object]:
        """JSON form, for `load`."""
        s = self.state
        return {
            "value": s.value,
            "partitions": {k: [p.value, p.last_us] for k, p in s.partitions.items()},
            "disorder": {k: d.save() for k, d in s.disorder.items()},
            "idle_base": s.idle_base,
            "since_us": s.since_us,
            "begun_us": s.begun_us,
            "idle_us": s.idle_us,
        }

    def load(self, saved: dict[str, object]) -> None:
        """Inverse of `save`."""
        base: list[int] | None = saved["idle_base"]  # type: ignore[assignment]
        parts: dict[str, list[int]] = saved["partitions"]  # type: ignore[assignment]
        disorder: dict[str, dict[str, object]] = saved["disorder"]  # type: ignore[assignment]
        self.state = WatermarkState(
            value=int(saved["value"]),  # type: ignore[call-overload]
            partitions={k: Partition(*v) for k, v in parts.items()},
            disorder={k: Disorder.load(d) for k, d in disorder.items()},
            idle_base=None if base is None else (base[0], base[1]),
            since_us=int(saved["since_us"]),  # type: ignore[call-overload]
            begun_us=saved.get("begun_us", 0),  # type: ignore[arg-type]
            idle_us=saved.get("idle_us"),  # type: ignore[arg-type]
        )
