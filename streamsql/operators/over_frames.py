"""OVER: which stretches of rows a change reaches, and the frames of the rows in them.

Everything is in ranks of the whole index: a partition is a range of ranks, a stretch a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.operators.loops import over as loops
from streamsql.operators.over_calls import Extent, Load, Reach, Shift, Step
from streamsql.operators.over_rows import OverRows
from streamsql.operators.over_shifts import OrderValues
from streamsql.state.ordered_index import Places


@dataclass(frozen=True)
class Stretches:
    """Ranges of ranks [start, end) to compute, ascending, each within its partition
    [part_start, part_end); part: the partition's slot."""

    start: Int64Array
    end: Int64Array
    part_start: Int64Array
    part_end: Int64Array
    part: Int64Array


@dataclass(frozen=True)
class Changes:
    """The copies that came or went: their places after the change and their partitions. width: 1
    where the copy is there now, else 0."""

    copies: Int64Array
    places: Places
    width: Int64Array
    parts: Int64Array


def reached(rows: OverRows, changes: Changes, reach: Reach, values: OrderValues) -> Stretches:
    """The stretches in which some frame holds a changed row, or held it."""
    own, start, end = changes.places, reach.start, reach.end
    if reach.mode == "rows":
        before = 0 if not isinstance(end, int) else max(end, 0)
        after = 0 if not isinstance(start, int) else max(-start, 0)
        low, high = own.own - before, own.own + changes.width + after
    elif reach.mode == "groups":
        low = _groups(rows, own.peers_start, own.group_start, -_forward(end))
        high = _groups(rows, own.peers_end, own.group_end, _forward(_negative(start)))
    else:
        low, high = own.peers_start.copy(), own.peers_end.copy()
        values.widen(rows, changes, start, end, low, high)
    if end is None:
        low = own.group_start
    if start is None:
        high = own.group_end
    floor = own.group_start + rows.given[changes.parts] - rows.dropped[changes.parts]
    low, high = np.maximum(low, floor), np.minimum(high, own.group_end)
    if reach.edge is not None:
        behind = own.own - own.group_start > reach.edge
        if reach.edge < 0:
            behind = own.group_end - (own.own + changes.width) > 0
        low = np.where(behind, own.own, low)
        high = np.where(behind, own.own + changes.width, high)
    return _merged(low, high, own, changes.parts)


def _forward(step: Step) -> int:
    return max(step, 0) if isinstance(step, int) else 0


def _negative(step: Step) -> int:
    return -step if isinstance(step, int) else 0


def _groups(rows: OverRows, border: Int64Array, stop: Int64Array, by: int) -> Int64Array:
    """The borders so many groups of peers further (or back), as far as `stop`."""
    if not by:
        return border
    out = np.empty(border.size, np.int64)
    tree = rows.index.tree
    steps = np.full(border.size, by, np.int64)
    loops.groups_away(tree.address, border, stop, steps, rows.index.peer_words, out)
    return out


def _merged(low: Int64Array, high: Int64Array, own: Places, parts: Int64Array) -> Stretches:
    """Stretches that overlap or touch in one partition become one."""
    some = np.flatnonzero(low < high)
    order = some[np.argsort(low[some], kind="stable")]
    low, high, group = low[order], high[order], own.group_start[order]
    furthest = np.maximum.accumulate(high) if high.size else high
    opens = np.ones(low.size, np.bool_)
    opens[1:] = (low[1:] > furthest[:-1]) | (group[1:] != group[:-1])
    first = np.flatnonzero(opens)
    ends = np.maximum.reduceat(high, first) if first.size else high
    picked = order[first]
    return Stretches(low[first], ends, group[first], own.group_end[picked], parts[picked])


class Loaded:
    """Rows of an index, read in order to compute stretches of them.

    By stretch s: its rows are read from rank `low[s]` to `high[s]`, and stand at the places
    [offsets[s], offsets[s + 1]) of the arrays by place: copies, opens (first of its peers), nulls
    and values (of the order column, where RANGE frames ask for them).
    """

    def __init__(
        self, rows: OverRows, stretches: Stretches, load: Load, values: OrderValues
    ) -> None:
        self.rows = rows
        self.order_values = values
        self.load = load
        if load.extent.exclude in ("group", "ties") and load.extent.mode == "rows":
            stretches = _with_peers(rows, stretches)
        self.stretches = stretches
        self.before = (load.left == "base") & (stretches.start > stretches.part_start)
        self.behind = (load.right == "base") & (stretches.end < stretches.part_end)
        if load.extent.start is not None:
            self.before[:] = False
        if load.extent.end is not None:
            self.behind[:] = False
        self.low, self.high = self._needed()
        lengths = self.high - self.low
        self.offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        n = int(self.offsets[-1])
        self.copies, self.nulls, self.values = (np.empty(n, np.int64) for _ in range(3))
        self.opens = np.empty(n, np.uint8)
        word = values.word if isinstance(load.extent.start, Shift) or isinstance(
            load.extent.end, Shift) else 0  # fmt: skip
        index = rows.index
        loops.walk(
            index.tree.address, self.low, lengths, index.peer_words, word,
            self.copies, self.opens, self.nulls, self.values,
        )  # fmt: skip
        self._columns: dict[int, pa.Array] = {}

    @property
    def size(self) -> int:
        """Rows read."""
        return int(self.copies.size)

    def column(self, column: int) -> pa.Array:
        """One column of the rows read."""
        if column not in self._columns:
            self._columns[column] = self.rows.column(column, self.copies)
        return self._columns[column]

    @cached_property
    def peers(self) -> tuple[Int64Array, Int64Array]:
        """The places of each row's peers among those read, [first, last)."""
        first, last = np.empty(self.size, np.int64), np.empty(self.size, np.int64)
        loops.peers(self.opens, self.offsets, first, last)
        return first, last

    @cached_property
    def places(self) -> Int64Array:
        """The places of the rows to compute."""
        start = self.offsets[:-1] + self.stretches.start - self.low
        return _ranges(start, self.stretches.end - self.stretches.start)

    @cached_property
    def of(self) -> Int64Array:
        """The stretch of each row to compute."""
        lengths = self.stretches.end - self.stretches.start
        return np.repeat(np.arange(lengths.size), lengths)

    @cached_property
    def targets(self) -> Int64Array:
        """The copies to compute."""
        return self.copies[self.places]

    def rank_of(self, places: Int64Array, of: Int64Array) -> Int64Array:
        """Places of rows in the stretches `of` as ranks."""
        return places - self.offsets[of] + self.low[of]

    def _needed(self) -> tuple[Int64Array, Int64Array]:
        """The ranks to read for each stretch."""
        s, extent, load = self.stretches, self.load.extent, self.load
        low, high = s.start - self.before, s.end + self.behind
        first, last = self._ends(low, high)
        low, high = np.minimum(low, first), np.maximum(high, last)
        if extent.start is None and load.left == "all":
            low = s.part_start
        if extent.end is None and load.right == "all":
            high = s.part_end
        return np.maximum(low, s.part_start), np.minimum(high, s.part_end)

    def _ends(self, low: Int64Array, high: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Where the frames of the rows [low, high) begin and end, as far as they have bounds."""
        s, extent = self.stretches, self.load.extent
        steps = [x for x in (extent.start, extent.end) if isinstance(x, int)]
        back, ahead = -min([0, *steps]), max([0, *steps])
        if extent.mode == "rows":
            return s.start - back, high + ahead
        if extent.mode == "groups":
            first = _groups(self.rows, s.start, s.part_start, -(back + int(self.before.any())))
            last = _groups(self.rows, s.end, s.part_end, ahead + int(self.behind.any()))
            return first, last
        first, last = low, high
        for step in (extent.start, extent.end):
            if isinstance(step, Shift):
                at = self.order_values.borders(self.rows, s.part, low, high - 1, step)
                first, last = np.minimum(first, at[0]), np.maximum(last, at[1])
        return first, last


def _with_peers(rows: OverRows, s: Stretches) -> Stretches:
    """Stretches that end where groups of peers do."""
    tree = rows.index.tree
    first, _ = rows.index.peers(tree.select(s.start))
    _, last = rows.index.peers(tree.select(s.end - 1))
    low, high = s.part_start + first, s.part_start + last
    own = Places(low, low, high, s.part_start, s.part_end)
    return _merged(low, high, own, s.part)


@dataclass(frozen=True)
class Frames:
    """The frames of the rows to compute, as places among the rows read: [low, x1) and [x2, high),
    and `own`, the row itself if it stands between them (-1 = not).

    base: by stretch, the copy whose stored result a frame without bound goes on from (-1 = none);
    the frame then begins (or ends) where that copy's ends (or begins).
    """

    low: Int64Array
    x1: Int64Array
    x2: Int64Array
    high: Int64Array
    own: Int64Array
    base: Int64Array


def frames_of(loaded: Loaded) -> Frames:
    """The frames of the rows of `loaded.places`."""
    extent, s = loaded.load.extent, loaded.stretches
    extra = loaded.before.astype(np.int64), loaded.behind.astype(np.int64)
    start = loaded.offsets[:-1] + s.start - loaded.low - extra[0]
    lengths = s.end - s.start + extra[0] + extra[1]
    places = _ranges(start, lengths)
    of = np.repeat(np.arange(lengths.size), lengths)
    low = _frame_end(loaded, places, of, extent.mode, extent.start, False)
    high = _frame_end(loaded, places, of, extent.mode, extent.end, True)
    base = np.full(lengths.size, -1, np.int64)
    firsts = np.cumsum(lengths) - lengths
    if loaded.before.any() or loaded.behind.any():
        kept = np.ones(places.size, np.bool_)
        for which, at, column in (
            (loaded.before, firsts, high), (loaded.behind, firsts + lengths - 1, low)
        ):  # fmt: skip
            neighbour = at[which]
            base[which] = loaded.copies[places[neighbour]]
            kept[neighbour] = False
            border = np.full(lengths.size, -1, np.int64)
            border[which] = column[neighbour]
            chained = border[of] >= 0
            if column is high:
                low = np.where(chained, border[of], low)
            else:
                high = np.where(chained, border[of], high)
        places, low, high = places[kept], low[kept], high[kept]
    high = np.maximum(low, high)
    x1, x2, own = _excluded(loaded, places, extent, low, high)
    return Frames(low, x1, x2, high, own, base)


def _frame_end(
    loaded: Loaded, places: Int64Array, of: Int64Array, mode: str, step: Step, end: bool
) -> Int64Array:
    """Where the frames of these rows begin, or end."""
    begin, stop = loaded.offsets[of], loaded.offsets[of + 1]
    if step is None:
        return stop.copy() if end else begin.copy()
    if isinstance(step, Shift):
        first, last = loaded.peers
        out = np.empty(places.size, np.int64)
        bounds = loaded.order_values.ends(loaded.values[places], step)
        values = loaded.order_values.comparable(loaded.values)
        loops.range_ends(loaded.nulls, values, places, begin, stop, bounds, end, first, last, out)
        return out
    if mode == "rows":
        return np.clip(places + step + int(end), begin, stop)
    if step == 0:
        return loaded.peers[1 if end else 0][places]
    return _group_end(loaded, places, of, step, end)


def _group_end(
    loaded: Loaded, places: Int64Array, of: Int64Array, step: int, end: bool
) -> Int64Array:
    """`_frame_end` by groups of peers."""
    opens = loaded.opens != 0
    opens[loaded.offsets[:-1][np.diff(loaded.offsets) > 0]] = True
    starts = np.concatenate([np.flatnonzero(opens), [loaded.size]])
    group = np.cumsum(opens) - 1
    at = group[places] + step + int(end)
    first = group[np.minimum(loaded.offsets[:-1], loaded.size - 1)][of]
    last = group[loaded.offsets[1:] - 1][of] + 1
    at = np.clip(at, first, last)
    begin, stop = loaded.offsets[of], loaded.offsets[of + 1]
    return np.clip(starts[at], begin, stop)


def _excluded(
    loaded: Loaded, places: Int64Array, extent: Extent, low: Int64Array, high: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(end of the first part, start of the second part, the row itself between them or -1)."""
    none = np.full(places.size, -1, np.int64)
    if extent.exclude == "no_others":
        return low, low, none
    first, last = places, places + 1
    if extent.exclude != "current_row":
        first, last = (p[places] for p in loaded.peers)
    x1, x2 = np.clip(first, low, high), np.clip(last, low, high)
    if extent.exclude != "ties":
        return x1, x2, none
    inside = (places >= low) & (places < high)
    return x1, x2, np.where(inside, places, none)


def _ranges(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """start, start + 1, … of each range, one range after the other."""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
