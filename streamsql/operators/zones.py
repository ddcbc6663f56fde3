"""Time zones for whole columns: a zone's clock changes as a table that numpy can search."""

from __future__ import annotations

import datetime
from functools import lru_cache

import numpy as np

from streamsql.core.delta import Int64Array
from streamsql.functions.textio.zones import canonical_zone, utc_offset_s

US = 1_000_000
DAY_US = 86_400 * US
PROBE_US = 20 * DAY_US  # no zone has two clock changes closer than this that matter apart
_EPOCH_YEAR = 1970


class Zone:
    """UTC to wall clock and back, for arrays.

    The table covers whole years and grows to the years that are asked for.
    """

    def __init__(self, name: str) -> None:
        self.name = canonical_zone(name)
        self._first = self._last = 2000
        self._edges = np.empty(0, np.int64)
        self._offsets = np.empty(1, np.int64)
        self._build(1970, 2040)

    def to_local(self, utc_us: Int64Array) -> Int64Array:
        """Wall-clock µs of UTC µs."""
        self._cover(utc_us)
        return utc_us + self._offsets[np.searchsorted(self._edges, utc_us, side="right")]

    def to_utc(self, local_us: Int64Array) -> Int64Array:
        """UTC µs of wall-clock µs: where the clock repeats the later one, where it skips as if it
        had not been changed yet (both as PostgreSQL does)."""
        self._cover(local_us)
        edges = self._edges + self._offsets[1:]
        return local_us - self._offsets[np.searchsorted(edges, local_us, side="right")]

    def turns(self, local_us: Int64Array) -> list[Int64Array]:
        """UTC µs at which the wall clock reaches or passes these values, whichever way: where it
        repeats them, before, at and after its change; where it skips them, at its change."""
        later = self.to_utc(local_us)
        if not self._edges.size:
            return [later]
        ends = self._edges + np.maximum(self._offsets[1:], self._offsets[:-1])
        at = np.minimum(np.searchsorted(ends, local_us, side="right"), self._edges.size - 1)
        edge, before, after = self._edges[at], self._offsets[at], self._offsets[at + 1]
        low, high = edge + np.minimum(before, after), edge + np.maximum(before, after)
        apart = (local_us >= low) & (local_us < high)
        if not bool(apart.any()):
            return [later]
        return [later, np.where(apart, edge, later), np.where(apart, local_us - before, later)]

    def next_edge(self, utc_us: int) -> list[int]:
        """[until when (µs, UTC) the zone's clock surely goes on as at that moment]; [] if it was
        never changed."""
        self._cover(np.array([utc_us], np.int64))
        if not self._edges.size:
            return []
        at = int(np.searchsorted(self._edges, utc_us, side="right"))
        return [int(self._edges[at]) if at < self._edges.size else _year_start(self._last + 1)]

    def _cover(self, us: Int64Array) -> None:
        if not us.size:
            return
        first, last = _year(int(us.min())) - 1, _year(int(us.max())) + 1
        if first < self._first or last > self._last:
            self._build(min(first, self._first), max(last, self._last))

    def _build(self, first: int, last: int) -> None:
        """Find every clock change in these years."""
        at, end = _year_start(first), _year_start(last + 1)
        offset = utc_offset_s(at, self.name)
        edges, offsets = [], [offset]
        while at < end:
            later = min(at + PROBE_US, end)
            new = utc_offset_s(later, self.name)
            if new != offset:
                edges.append(self._change(at, later, offset))
                offsets.append(new)
                offset = new
            at = later
        self._edges = np.array(edges, np.int64)
        self._offsets = np.array(offsets, np.int64) * US
        self._first, self._last = first, last

    def _change(self, low: int, high: int, offset: int) -> int:
        """The first second after `low` (offset holds) at which another offset holds."""
        a, b = low // US, -(-high // US)
        while b - a > 1:
            middle = (a + b) // 2
            if utc_offset_s(middle * US, self.name) == offset:
                a = middle
            else:
                b = middle
        return b * US


def _year(us: int) -> int:
    """The year of UTC µs, within what the zone database reaches."""
    days = us // DAY_US
    return min(max(_EPOCH_YEAR + days // 366 - (1 if days < 0 else 0), 1), 9990)


def _year_start(year: int) -> int:
    days = datetime.date(min(max(year, 1), 9998), 1, 1).toordinal()
    return (days - datetime.date(_EPOCH_YEAR, 1, 1).toordinal()) * DAY_US


@lru_cache(maxsize=64)
def zone(name: str) -> Zone:
    """The table of a zone, shared by all who ask."""
    return Zone(name)
