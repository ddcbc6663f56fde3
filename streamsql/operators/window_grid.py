"""Time windows by their definition: which (start, end) hold a time, in exact or calendar units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamsql.core.delta import Int64Array
from streamsql.core.errors import InvariantViolation
from streamsql.core.logical_time import US_PER_DAY
from streamsql.operators.loops import windows as loops
from streamsql.operators.zones import zone
from streamsql.plan.nodes import WindowSpec

Assigned = tuple[Int64Array | None, Int64Array, Int64Array]
"""(row of each entry or None = one each, in order; window start µs; window end µs)."""

_UTC = frozenset({None, "UTC", "Etc/UTC", "GMT"})


def exact_us(spec: WindowSpec) -> int:
    """The length of a span without months, µs (a day is 24 hours)."""
    return spec.days * US_PER_DAY + spec.us


def us_text(us: int) -> str:
    """A length in µs for people."""
    from streamsql.plan.render import interval_text

    return interval_text(0, us // US_PER_DAY, us % US_PER_DAY)


@dataclass(frozen=True)
class Grid:
    """The windows of one TUMBLE, HOP or CUMULATE.

    kind: tumble, hop, cumulate. step: hop's slide, cumulate's step; size for a tumble. Sizes of
    months or of whole days follow the wall clock of `tz`; with a zone, other sizes are exact
    durations counted from each local midnight, so that the hour that a clock change repeats has
    windows of its own. `offset` has no months.
    """

    kind: str
    size: WindowSpec
    step: WindowSpec
    offset: WindowSpec
    tz: str | None

    def __post_init__(self) -> None:
        for what, spec in (("size", self.size), ("step", self.step)):
            if spec.months <= 0 and exact_us(spec) <= 0:
                raise InvariantViolation(f"the {what} of a time window is not positive")

    @property
    def is_exact(self) -> bool:
        """Whether all windows are whole µs multiples counted from the epoch."""
        return self.tz in _UTC and not self.size.months

    @property
    def _from_midnight(self) -> bool:
        whole_days = not self.size.us and not self.step.us
        return self.tz not in _UTC and not self.size.months and not whole_days

    def assign(self, times: Int64Array) -> Assigned:
        """All windows of each time (µs, int64[n]), by row and then by start or end."""
        if self.is_exact or not times.size:
            return self._assign_exact(times)
        if self.kind == "cumulate":
            return self._grow(times)
        if self.kind == "tumble":
            point = self._floor(times, self.size)
            return None, self._instant(point), self._instant(self._plus(point, self.size))
        return self._walk_back(times)

    def _assign_exact(self, times: Int64Array) -> Assigned:
        size, step, offset = exact_us(self.size), exact_us(self.step), exact_us(self.offset)
        n = times.size
        if self.kind == "tumble":
            start = np.empty(n, np.int64)
            loops.tumble(times, size, offset, start)
            return None, start, start + size
        if self.kind == "hop":
            total = loops.count_hops(times, size, step, offset)
            rows, start = np.empty(total, np.int64), np.empty(total, np.int64)
            loops.hops(times, size, step, offset, rows, start)
            return rows, start, start + size
        room = n * -(-size // step)
        rows, start, end = (np.empty(room, np.int64) for _ in range(3))
        found = loops.cumulates(times, step, size, offset, rows, start, end)
        return rows[:found], start[:found], end[:found]

    # --- calendar and zones --------------------------------------------------------------------
    # A grid point is kept as its wall-clock time (months and days) or, in windows counted from
    # midnight, as its UTC time; `_instant` gives the UTC time of either.
    def _floor(self, times: Int64Array, spec: WindowSpec) -> Int64Array:
        """The latest grid point at or before each time (UTC µs), for windows every `spec`."""
        shift, length = exact_us(self.offset), exact_us(spec)
        if self._from_midnight:
            midnight = self._midnight(times - shift, 0)
            return midnight + np.floor_divide(times - shift - midnight, length) * length + shift
        clock = self._to_local(times) - shift
        if spec.months:
            number = np.floor_divide(_month(clock), spec.months) * spec.months
            return _month_start(number) + shift
        return np.floor_divide(clock, length) * length + shift

    def _plus(self, point: Int64Array, spec: WindowSpec) -> Int64Array:
        """The grid point a window of length `spec` from each point ends at."""
        shift, length = exact_us(self.offset), exact_us(spec)
        if self._from_midnight:
            if self.kind == "hop":
                return point + length
            return np.minimum(point + length, self._midnight(point - shift, 1) + shift)
        if spec.months:
            return _month_start(_month(point - shift) + spec.months) + shift
        return point + length

    def _instant(self, point: Int64Array) -> Int64Array:
        return point if self._from_midnight else self._to_utc(point)

    def _midnight(self, times: Int64Array, days_later: int) -> Int64Array:
        """UTC µs of the local midnight before (or `days_later` days after that) each time."""
        day = np.floor_divide(self._to_local(times), US_PER_DAY) + days_later
        return self._to_utc(day * US_PER_DAY)

    def _walk_back(self, times: Int64Array) -> Assigned:
        """HOP: from the latest start backwards, as long as the window still holds the time."""
        rows, starts, ends = [], [], []
        row, latest = np.arange(times.size), times
        while row.size:
            point = self._floor(latest, self.step)
            start, end = self._instant(point), self._instant(self._plus(point, self.size))
            inside = end > times[row]
            rows.append(row[inside])
            starts.append(start[inside])
            ends.append(end[inside])
            # a hole between windows (slide > size) ends the walk as well
            row, latest = row[inside], start[inside] - 1
        row, start, end = (np.concatenate(p) for p in (rows, starts, ends))
        order = np.lexsort((start, row))
        return row[order], start[order], end[order]

    def _grow(self, times: Int64Array) -> Assigned:
        """CUMULATE: from the common start, end after end up to the full size."""
        point = self._floor(times, self.size)
        start = self._instant(point)
        last = self._plus(point, self.size)
        rows, ends = [], []
        row = np.arange(times.size)
        while row.size:
            point = np.minimum(self._plus(point, self.step), last[row])
            end = self._instant(point)
            holds = end > times[row]
            rows.append(row[holds])
            ends.append(end[holds])
            more = point < last[row]
            row, point = row[more], point[more]
        row, end = np.concatenate(rows), np.concatenate(ends)
        order = np.lexsort((end, row))
        return row[order], start[row[order]], end[order]

    def _to_local(self, us: Int64Array) -> Int64Array:
        """Wall-clock µs in the zone."""
        return us if self.tz in _UTC else zone(str(self.tz)).to_local(us)

    def _to_utc(self, local_us: Int64Array) -> Int64Array:
        """UTC µs of wall-clock times."""
        return local_us if self.tz in _UTC else zone(str(self.tz)).to_utc(local_us)


def _month(us: Int64Array) -> Int64Array:
    """Months since 1970-01 of wall-clock µs."""
    months = np.empty(us.size, np.int64)
    loops.month_of(np.floor_divide(us, US_PER_DAY), months)
    return months


def _month_start(months: Int64Array) -> Int64Array:
    """Wall-clock µs at which these months (since 1970-01) begin."""
    days = np.empty(months.size, np.int64)
    loops.day_of_month_start(months, days)
    return days * US_PER_DAY
