"""OVER under EMIT ON WINDOW CLOSE: rows come in the order of their time, each is given out once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK, US_PER_DAY
from streamsql.functions.expressions import WindowCall
from streamsql.operators.event_time import CloseQueue
from streamsql.operators.loops import over as loops
from streamsql.operators.over_calls import (
    RANKS,
    Extent,
    Shift,
    extent_of,
    pick_number,
    refusal,
    span_of,
)
from streamsql.operators.over_rows import OverRows, sorted_distinct
from streamsql.operators.over_shifts import OrderValues

_OF_WHOLE_PARTITIONS = frozenset({"percent_rank", "cume_dist", "ntile"})


def frame_closes(call: WindowCall) -> bool:
    """Whether the rows of a frame are known some time after its row, where rows come in order."""
    if refusal(call) is not None:
        return call.frame is None or call.frame.end.kind not in ("following", "unbounded_following")
    if call.function in _OF_WHOLE_PARTITIONS:
        return False
    end = _extent(call).end
    if isinstance(end, Shift):
        return end.months <= 0
    return end is not None


def waits(call: WindowCall) -> bool:
    """Whether a row must wait for rows behind it."""
    if refusal(call) is not None:
        return False
    end = _extent(call).end
    return end.amount > 0 if isinstance(end, Shift) else end is not None and end > 0


def _extent(call: WindowCall) -> Extent:
    return Extent("rows", None, 0) if call.function in RANKS else extent_of(call)


class Final:
    """Which rows of an OVER are final, and which of them later frames still need.

    The watermark says that no row before it comes any more. A row is final when the end of its
    frames is behind it: so many rows or groups follow, or their time has passed. What lies in
    front of all frames to come is forgotten, but for the row that running frames go on from, rows
    that stored results name, and the first rows where FIRST_VALUE asks for them.
    """

    def __init__(
        self,
        rows: OverRows,
        calls: Sequence[WindowCall],
        values: OrderValues,
        copy_lanes: Sequence[int],
    ) -> None:
        self.rows = rows
        self.values = values
        self.copy_lanes = list(copy_lanes)
        self.extents = list(dict.fromkeys(_extent(call) for call in calls))
        self.head = 0
        self.last = 0
        self.keeps_all = False
        for call in calls:
            load = span_of(call)[1]
            if call.function in RANKS or load.left == "base":
                self.last = 1
            elif load.extent.start is None and load.left == "free" and pick_number(call) >= 0:
                self.head = max(self.head, pick_number(call) + 1)
            elif load.extent.start is None and load.left == "all":
                self.keeps_all = True
        self._due, self._spans = CloseQueue(), CloseQueue()
        self.frontier = NO_WATERMARK

    # --- giving out ----------------------------------------------------------------------------
    def advance(self, came: Int64Array, frontier: int) -> Int64Array:
        """The copies that are final now, in order of arrival. frontier: µs; rows to come are not
        before it."""
        moved = NO_WATERMARK < frontier < END_OF_TIME
        self.frontier = max(self.frontier, frontier) if moved else self.frontier
        due = self._due.pop(self.frontier)[1]
        parts = sorted_distinct(np.concatenate([self.rows.part[came], due]))
        parts = parts[self.rows.size[parts] > 0]
        if not parts.size:
            return came[:0]
        start, end = self._bounds(parts)
        first = start + self.rows.given[parts] - self.rows.dropped[parts]
        final = np.maximum(self._final(parts, start, end), first)
        self.rows.given[parts] += final - first
        ready = self._copies(first, final - first)
        self._expect(parts, final, end)
        return ready[np.argsort(self.rows.arrival[ready], kind="stable")]

    def _bounds(self, parts: Int64Array) -> tuple[Int64Array, Int64Array]:
        start = self.rows.index.tree.rank(parts.reshape(-1, 1))
        return start, start + self.rows.size[parts]

    def _copies(self, start: Int64Array, lengths: Int64Array) -> Int64Array:
        """The copies of ranges of ranks."""
        n = int(lengths.sum())
        copies, rest = np.empty(n, np.int64), np.empty(n, np.int64)
        index = self.rows.index
        loops.walk(
            index.tree.address, start, lengths, index.peer_words, 0,
            copies, np.empty(n, np.uint8), rest, rest,
        )  # fmt: skip
        return copies

    def _final(self, parts: Int64Array, start: Int64Array, end: Int64Array) -> Int64Array:
        """The rank behind the last final row of each partition."""
        final = end
        for extent in self.extents:
            step = extent.end
            if isinstance(step, Shift):
                if step.amount > 0:
                    bound = np.full(parts.size, self.frontier - int(step.amount))
                    final = np.minimum(final, self._rank(parts, bound))
            elif step and step > 0 and extent.mode == "groups":
                final = np.minimum(final, self._groups_back(end, start, step))
            elif step and step > 0:
                final = np.minimum(final, end - step)
        return final

    def _groups_back(self, ranks: Int64Array, stop: Int64Array, groups: int) -> Int64Array:
        out = np.empty(ranks.size, np.int64)
        index = self.rows.index
        steps = np.full(ranks.size, -groups)
        loops.groups_away(index.tree.address, ranks, stop, steps, index.peer_words, out)
        return out

    def _rank(self, parts: Int64Array, times: Int64Array) -> Int64Array:
        """The rank of the first row of each partition at or behind a time, µs."""
        if self.values.date:
            times = -np.floor_divide(-times, US_PER_DAY)
        keys = np.zeros((parts.size, 3), np.int64)
        keys[:, 0], keys[:, 2] = parts, times
        return self.rows.index.tree.rank(keys)

    def _times(self, ranks: Int64Array) -> Int64Array:
        """The times of the rows of these ranks, µs."""
        tree = self.rows.index.tree
        words = np.ascontiguousarray(tree.read(tree.select(ranks))[0][:, self.values.word])
        return self.values.comparable(words)

    def _expect(self, parts: Int64Array, final: Int64Array, end: Int64Array) -> None:
        """Come back when time alone makes the next row final."""
        ahead = [int(e.end.amount) for e in self.extents if isinstance(e.end, Shift)]
        if max(ahead, default=0) <= 0:
            return
        waiting = np.flatnonzero(final < end)
        due = self._times(final[waiting]) + max(ahead) + 1
        self._due.push(np.maximum(due, self.frontier + 1), parts[waiting])

    # --- forgetting ----------------------------------------------------------------------------
    def forget(self, came: Int64Array, ready: Int64Array) -> None:
        """Drop the rows that no frame needs any more."""
        if self.keeps_all:
            return
        parts = sorted_distinct(self.rows.part[np.concatenate([came, ready])])
        due = self._spans.pop(self.frontier)[1] if self._reaches_back else came[:0]
        if due.size:
            parts = sorted_distinct(np.concatenate([parts, due]))
            parts = parts[self.rows.size[parts] > 0]
        if not parts.size:
            return
        start, end = self._bounds(parts)
        first = start + self.rows.given[parts] - self.rows.dropped[parts]
        cut = self._needed(parts, start, end, first)
        low = np.minimum(start + self.head, cut)
        old = self._copies(low, cut - low)
        if old.size and self.copy_lanes:
            stays = np.maximum(first - 1, start)
            live = self._copies(stays, end - stays)
            named = sorted_distinct(self.rows.cells[live][:, self.copy_lanes].ravel())
            old = old[~np.isin(old, named)]
        self._expect_span(parts, cut, first)
        if old.size:
            self.rows.drop(old)

    @property
    def _reaches_back(self) -> bool:
        return any(isinstance(x, Shift) for e in self.extents for x in (e.start, e.end))

    def _needed(
        self, parts: Int64Array, start: Int64Array, end: Int64Array, first: Int64Array
    ) -> Int64Array:
        """The first rank of each partition that frames of rows not given out, or to come, need."""
        cut = np.maximum(first - self.last, start)
        for extent in self.extents:
            steps = [x for x in (extent.start, extent.end) if isinstance(x, int)]
            back = -min([0, *steps])
            if back and extent.mode == "groups":
                cut = np.minimum(cut, self._groups_back(first, start, back + self.last))
            elif back:
                cut = np.minimum(cut, first - back)
            for step in (extent.start, extent.end):
                if isinstance(step, Shift) and (step.amount < 0 or step.months < 0):
                    times = self._earliest(start, end, first, step)
                    cut = np.minimum(cut, self._rank(parts, times))
        return np.maximum(cut, start)

    def _earliest(
        self, start: Int64Array, end: Int64Array, first: Int64Array, step: Shift
    ) -> Int64Array:
        """The earliest time at this step from a row that is not given out, or is to come, or that
        running frames go on from."""
        times = np.full(first.size, self.frontier)
        read = np.maximum(first - self.last, start)
        known = np.flatnonzero(read < end)
        times[known] = np.minimum(times[known], self._times(read[known]))
        return np.asarray(self.values.moved(times, step))

    def _expect_span(self, parts: Int64Array, cut: Int64Array, first: Int64Array) -> None:
        """Come back when rows that are kept for their time alone are out of reach."""
        kept = np.flatnonzero(cut < first - self.last)
        if not kept.size or not self._reaches_back:
            return
        shifts = [x for e in self.extents for x in (e.start, e.end) if isinstance(x, Shift)]
        times = self._times(first[kept] - 1)
        due = np.max([self.values.moved(times, s, -1) for s in shifts], axis=0) + 1
        self._spans.push(np.maximum(due, self.frontier + 1), parts[kept])

    def reset(self) -> None:
        """After `load`: look at every partition once more."""
        self._due, self._spans = CloseQueue(), CloseQueue()
        live = self.rows.parts.live()
        soon = np.full(live.size, NO_WATERMARK + 1)
        self._due.push(soon, live)
        self._spans.push(soon, live)
