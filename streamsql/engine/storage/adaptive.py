"""WATERMARK … AS PERCENTILE(fraction, span): a delay that follows the disorder of the rows.

The delay after a row is the given percentile of the disorder (how far a row is behind the newest
one before it) of the rows in the last `span` of event time. Disorders are counted in buckets that
are 1/16 wide, by sixteenths of the span; so a row costs a walk over some hundred counters, and the
delay is right to 6 %, never too short. It depends on the rows and their order alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamsql.core.logical_time import NO_WATERMARK
from streamsql.kernels.jit import kernel

Int64Array = npt.NDArray[np.int64]

PARTS = 16
BUCKETS = 16 + 59 * 16


@dataclass(frozen=True)
class Disorder:
    """What was counted: counts int64[PARTS, BUCKETS], epochs int64[PARTS] (which sixteenth of event
    time a row of counts is for), newest: the largest event time, µs. A value; `observe` copies."""

    counts: Int64Array
    epochs: Int64Array
    newest: int

    @classmethod
    def none(cls) -> Disorder:
        """Nothing was seen yet."""
        return cls(
            np.zeros((PARTS, BUCKETS), np.int64),
            np.full(PARTS, NO_WATERMARK, np.int64),
            NO_WATERMARK,
        )

    def observe(
        self, times: Int64Array, fraction: float, span_us: int
    ) -> tuple[Int64Array, Disorder]:
        """(watermark that each row stands for, int64[n] µs; what is counted afterwards).

        times: event times, NO_WATERMARK = none.
        """
        counts, epochs = self.counts.copy(), self.epochs.copy()
        values = np.empty(times.size, np.int64)
        part_us = max(1, span_us // PARTS)
        newest = adapt(times, fraction, part_us, self.newest, counts, epochs, values)
        return values, Disorder(counts, epochs, int(newest))

    def save(self) -> dict[str, object]:
        """JSON form: only the counters that are not 0."""
        parts, buckets = np.nonzero(self.counts)
        return {
            "counts": [parts.tolist(), buckets.tolist(), self.counts[parts, buckets].tolist()],
            "epochs": self.epochs.tolist(),
            "newest": self.newest,
        }

    @classmethod
    def load(cls, saved: dict[str, object]) -> Disorder:
        """Inverse of `save`."""
        found = cls.none()
        counts: list[list[int]] = saved["counts"]  # type: ignore[assignment]
        parts, buckets, values = (np.array(column, np.int64) for column in counts)
        found.counts[parts, buckets] = values
        found.epochs[:] = np.array(saved["epochs"], np.int64)
        return cls(found.counts, found.epochs, int(saved["newest"]))  # type: ignore[call-overload]


@kernel
def adapt(
    times: Int64Array,
    fraction: float,
    part_us: int,
    newest: int,
    counts: Int64Array,
    epochs: Int64Array,
    values: Int64Array,
) -> int:
    """Row by row: count its disorder, and take the percentile of what the span holds.

    counts, epochs: changed. values: filled. Returns the newest event time.
    """
    none = NO_WATERMARK
    for i in range(times.size):
        t = times[i]
        if t == none:
            values[i] = none
            continue
        late = 0
        if newest != none and t < newest:
            late = newest - t
        newest = max(newest, t)
        top = newest // part_us
        epoch = t // part_us
        if epoch > top - PARTS:
            part = epoch % PARTS
            if epochs[part] != epoch:
                epochs[part] = epoch
                counts[part, :] = 0
            bucket = late
            if late >= 16:
                exponent = 4
                while late >> (exponent + 1) > 0:
                    exponent += 1
                bucket = 16 + (exponent - 4) * 16 + ((late >> (exponent - 4)) & 15)
            counts[part, bucket] += 1
        total = 0
        for p in range(PARTS):
            if epochs[p] > top - PARTS:
                for b in range(BUCKETS):
                    total += counts[p, b]
        wanted = fraction * total
        seen = 0
        delay = 0
        for b in range(BUCKETS):
            for p in range(PARTS):
                if epochs[p] > top - PARTS:
                    seen += counts[p, b]
            if seen >= wanted:
                delay = b
                if b >= 16:
                    shift = (b - 16) // 16
                    delay = ((16 + (b - 16) % 16 + 1) << shift) - 1
                break
        values[i] = newest - delay
    return newest
