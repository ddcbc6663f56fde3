"""Time zones for whole columns: a zone's clock changes as a table that numpy can search."""

from __future__ import annotations

import datetime
import threading
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from streamsql.core.delta import Int64Array
from streamsql.functions.textio.zones import canonical_zone, utc_offset_s

US = 1_000_000
DAY_US = 86_400 * US
PROBE_US = 20 * DAY_US  # by the rules of today no zone changes its clock twice within this
NEAR_US = 6 * DAY_US  # what was decided year by year may: Gaza and Hebron in 2040, within a week
_FIRST_YEAR, _DECIDED_YEAR = 1800, 2100  # local mean time before, the last rule for ever after
_CYCLE_YEARS, _CYCLE_US = 400, 146_097 * DAY_US  # after which the Gregorian calendar repeats
_EPOCH_YEAR = 1970


@dataclass(frozen=True)
class _Table:
    """A zone's clock changes in the years from first to last.

    edges: UTC µs of each change. offsets: µs east of UTC before the first and after each.
    """

    edges: Int64Array
    offsets: Int64Array
    first: int
    last: int


class Zone:
    """UTC to wall clock and back, for arrays; DuckDB's threads ask as the circuit does.

    The table covers whole years and grows to the years that are asked for.
    """

    def __init__(self, name: str) -> None:
        self.name = canonical_zone(name)
        self._lock = threading.Lock()
        self._table = self._build(1970, 2040)

    def to_local(self, utc_us: Int64Array) -> Int64Array:
        """Wall-clock µs of UTC µs."""
        table = self._cover(utc_us)
        return utc_us + table.offsets[np.searchsorted(table.edges, utc_us, side="right")]

    def to_utc(self, local_us: Int64Array) -> Int64Array:
        """UTC µs of wall-clock µs: where the clock repeats the later one, where it skips as if it
        had not been changed yet (both as PostgreSQL does)."""
        table = self._cover(local_us)
        edges = table.edges + table.offsets[1:]
        return local_us - table.offsets[np.searchsorted(edges, local_us, side="right")]

    def turns(self, local_us: Int64Array) -> list[Int64Array]:
        """UTC µs at which the wall clock reaches or passes these values, whichever way: where it
        repeats them, before, at and after its change; where it skips them, at its change."""
        later = self.to_utc(local_us)
        table = self._cover(local_us)
        if not table.edges.size:
            return [later]
        ends = table.edges + np.maximum(table.offsets[1:], table.offsets[:-1])
        at = np.minimum(np.searchsorted(ends, local_us, side="right"), table.edges.size - 1)
        edge, before, after = table.edges[at], table.offsets[at], table.offsets[at + 1]
        low, high = edge + np.minimum(before, after), edge + np.maximum(before, after)
        apart = (local_us >= low) & (local_us < high)
        if not bool(apart.any()):
            return [later]
        return [later, np.where(apart, edge, later), np.where(apart, local_us - before, later)]

    def to_first_utc(self, local_us: Int64Array) -> Int64Array:
        """UTC µs of wall-clock µs: where the clock repeats the first one, where it skips as if it
        had not been changed yet. So does a day begin with the first moment that bears its date."""
        table = self._cover(local_us)
        edges = table.edges + np.maximum(table.offsets[:-1], table.offsets[1:])
        return local_us - table.offsets[np.searchsorted(edges, local_us, side="right")]

    def next_edge(self, utc_us: int) -> list[int]:
        """[until when (µs, UTC) the zone's clock surely goes on as at that moment]; [] if it was
        never changed."""
        table = self._cover(np.array([utc_us], np.int64))
        if not table.edges.size:
            return []
        at = int(np.searchsorted(table.edges, utc_us, side="right"))
        return [int(table.edges[at]) if at < table.edges.size else _year_start(table.last + 1)]

    def _cover(self, us: Int64Array) -> _Table:
        """The table, grown to the years of these times (UTC or wall clock)."""
        table = self._table
        if not us.size:
            return table
        first, last = max(_year(int(us.min())) - 1, _FIRST_YEAR), _year(int(us.max())) + 1
        if first < table.first or last > table.last:
            with self._lock:
                table = self._table
                if first < table.first or last > table.last:
                    table = self._build(min(first, table.first), max(last, table.last))
                    self._table = table
        return table

    def _build(self, first: int, last: int) -> _Table:
        """Every clock change in these years."""
        known = _DECIDED_YEAR + _CYCLE_YEARS
        if last <= known:
            return self._find(first, last)
        found = self._find(min(first, _DECIDED_YEAR), known)
        begin = _year_start(known + 1) - _CYCLE_US
        again = np.flatnonzero(found.edges >= begin)
        cycles = np.arange(1, (last - known) // _CYCLE_YEARS + 2)[:, None]
        edges = (found.edges[again] + cycles * _CYCLE_US).ravel()
        offsets = np.tile(found.offsets[again + 1], cycles.size)
        kept = edges < _year_start(last + 1)
        return _Table(
            np.append(found.edges, edges[kept]),
            np.append(found.offsets, offsets[kept]),
            first,
            last,
        )

    def _find(self, first: int, last: int) -> _Table:
        """Ask the zone for every clock change in these years."""
        at, end, decided = (_year_start(y) for y in (first, last + 1, _DECIDED_YEAR))
        offset = utc_offset_s(at, self.name)
        edges, offsets = [], [offset]
        while at < end:
            later = min(at + (NEAR_US if at < decided else PROBE_US), end)
            new = utc_offset_s(later, self.name)
            if new != offset:
                edges.append(self._change(at, later, offset))
                offsets.append(new)
                offset = new
            at = later
        return _Table(np.array(edges, np.int64), np.array(offsets, np.int64) * US, first, last)

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
    """The year of UTC µs (or one beside it), within what the zone database reaches."""
    return min(max(_EPOCH_YEAR + us // DAY_US * 400 // 146_097, 1), 9990)


def _year_start(year: int) -> int:
    days = datetime.date(min(max(year, 1), 9998), 1, 1).toordinal()
    return (days - datetime.date(_EPOCH_YEAR, 1, 1).toordinal()) * DAY_US


@lru_cache(maxsize=64)
def zone(name: str) -> Zone:
    """The table of a zone, shared by all who ask."""
    return Zone(name)
