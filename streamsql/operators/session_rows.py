"""Rows of sessions by slot: those that changed, and where they are put."""

from __future__ import annotations

import bisect
from typing import NamedTuple

import numpy as np

from streamsql.core.delta import Int64Array


class Changed(NamedTuple):
    """Rows whose weight changed, by slot: partition, time, weight before and after."""

    slots: Int64Array
    parts: Int64Array
    times: Int64Array
    old: Int64Array
    new: Int64Array

    def only(self, mask: np.ndarray) -> Changed:
        return Changed(*(a[mask] for a in self))


class Placed(NamedTuple):
    """Rows by slot, each once, and the bounds of their sessions."""

    slots: Int64Array
    weights: Int64Array
    start: Int64Array
    end: Int64Array


def within(
    rows: Changed, parts: Int64Array, first: Int64Array, last: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """(rows that lie in a span, the span of each); spans do not overlap."""
    if not rows.slots.size or not parts.size:
        nothing = np.empty(0, np.int64)
        return nothing, nothing
    order = np.lexsort((first, parts))
    keys = list(zip(parts[order].tolist(), first[order].tolist(), strict=True))
    inside, spans = [], []
    for i, key in enumerate(zip(rows.parts.tolist(), rows.times.tolist(), strict=True)):
        at = bisect.bisect_right(keys, key) - 1
        if at >= 0 and keys[at][0] == key[0] and key[1] <= last[order[at]]:
            inside.append(i)
            spans.append(int(order[at]))
    return np.array(inside, np.int64), np.array(spans, np.int64)
