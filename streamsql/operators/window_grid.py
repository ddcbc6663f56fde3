"""Time windows by their definition: which (start, end) hold a time, in exact or calendar units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array
from streamsql.core.errors import InvalidParameterValue
from streamsql.core.logical_time import US_PER_DAY
from streamsql.operators.columns import int64_values, to_arrow
from streamsql.operators.loops import windows as loops
from streamsql.plan.nodes import WindowSpec

Assigned = tuple[Int64Array | None, Int64Array, Int64Array]
"""(row of each entry or None = one each, in order; window start µs; window end µs)."""

_UTC = frozenset({None, "UTC", "Etc/UTC", "GMT"})


def exact_us(spec: WindowSpec) -> int:
    """The length of a span without months, µs (a day is 24 hours)."""
    return spec.days * US_PER_DAY + spec.us


@dataclass(frozen=True)
class Grid:
    """The windows of one TUMBLE, HOP or CUMULATE.

    kind: tumble, hop, cumulate. step: hop's slide, cumulate's step; size for a tumble.
    """

    kind: str
    size: WindowSpec
    step: WindowSpec
    offset: WindowSpec
    tz: str | None

    def __post_init__(self) -> None:
        for what, spec in (("size", self.size), ("step", self.step)):
            if spec.months * 31 * US_PER_DAY + exact_us(spec) <= 0:
                raise InvalidParameterValue(f"the {what} of a time window must be positive")
        if self.kind == "cumulate" and self._longer(self.step, self.size):
            raise InvalidParameterValue("the step of CUMULATE must not be larger than its size")

    @staticmethod
    def _longer(a: WindowSpec, b: WindowSpec) -> bool:
        return a.months * 28 * US_PER_DAY + exact_us(a) > b.months * 31 * US_PER_DAY + exact_us(b)

    @property
    def is_exact(self) -> bool:
        """Whether all windows are whole µs multiples counted from the epoch."""
        return self.tz in _UTC and not self.size.months and not self.step.months

    def assign(self, times: Int64Array) -> Assigned:
        """All windows of each time (µs, int64[n]), by row and then by start or end."""
        if self.is_exact and not self.offset.months:
            return self._assign_exact(times)
        if self.kind == "cumulate":
            return self._grow(times)
        if self.kind == "tumble":
            start = self._floor(times)
            return None, start, self._end(start)
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
    def _floor(self, times: Int64Array, spec: WindowSpec | None = None) -> Int64Array:
        """The latest grid point at or before each time."""
        spec = spec or self.step
        shift = exact_us(self.offset)
        local = self._to_local(times)
        if spec.months:
            months, days = np.empty(times.size, np.int64), np.empty(times.size, np.int64)
            loops.month_of(np.floor_divide(local - shift, US_PER_DAY), months)
            origin = self.offset.months
            months = np.floor_divide(months - origin, spec.months) * spec.months + origin
            loops.day_of_month_start(months, days)
            return self._to_utc(days * US_PER_DAY + shift)
        length = exact_us(spec)
        if length >= US_PER_DAY or self.tz in _UTC:
            return self._to_utc(np.floor_divide(local - shift, length) * length + shift)
        # shorter than a day: exact durations from local midnight, so that the hour that a clock
        # change repeats has windows of its own
        midnight = self._to_utc(np.floor_divide(local - shift, US_PER_DAY) * US_PER_DAY + shift)
        return midnight + np.floor_divide(times - midnight, length) * length

    def _end(self, start: Int64Array, spec: WindowSpec | None = None) -> Int64Array:
        """The end of the window that begins at each start."""
        spec = spec or self.size
        length = exact_us(spec)
        if not spec.months and (length < US_PER_DAY or self.tz in _UTC):
            return start + length
        local = self._to_local(start)
        if spec.months:
            shift = exact_us(self.offset)
            day = np.floor_divide(local - shift, US_PER_DAY)
            months, first, later = (np.empty(start.size, np.int64) for _ in range(3))
            loops.month_of(day, months)
            loops.day_of_month_start(months, first)
            loops.day_of_month_start(months + spec.months, later)
            # a start inside of a month (a step in days): the same day there, clamped to its end
            after = np.empty(start.size, np.int64)
            loops.day_of_month_start(months + spec.months + 1, after)
            target = np.minimum(later + (day - first), after - 1)
            return self._to_utc(local + (target - day) * US_PER_DAY + length)
        return self._to_utc(local + length)

    def _walk_back(self, times: Int64Array) -> Assigned:
        """HOP: from the latest start backwards, as long as the window still holds the time."""
        rows, starts, ends = [], [], []
        row, point = np.arange(times.size), times
        while row.size:
            start = self._floor(point)
            end = self._end(start)
            inside = end > times[row]
            rows.append(row[inside])
            starts.append(start[inside])
            ends.append(end[inside])
            # a hole between windows (slide > size) ends the walk as well
            row, point = row[inside], start[inside] - 1
        row, start, end = (np.concatenate(p) for p in (rows, starts, ends))
        order = np.lexsort((start, row))
        return row[order], start[order], end[order]

    def _grow(self, times: Int64Array) -> Assigned:
        """CUMULATE: from the common start, end after end up to the full size."""
        start = self._floor(times, self.size)
        last = self._end(start)
        rows, starts, ends = [], [], []
        row, end = np.arange(times.size), start
        while row.size:
            end = np.minimum(self._end(end, self.step), last[row])
            holds = end > times[row]
            rows.append(row[holds])
            starts.append(start[row[holds]])
            ends.append(end[holds])
            more = end < last[row]
            row, end = row[more], end[more]
        row, start, end = (np.concatenate(p) for p in (rows, starts, ends))
        order = np.lexsort((end, row))
        return row[order], start[order], end[order]

    def _to_local(self, us: Int64Array) -> Int64Array:
        """Wall-clock µs in the zone."""
        if self.tz in _UTC:
            return us
        stamps = to_arrow(us, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", self.tz))
        return int64_values(pc.local_timestamp(stamps))

    def _to_utc(self, local_us: Int64Array) -> Int64Array:
        """UTC µs of wall-clock times: the earlier one where the clock repeats, the end of the gap
        where it skips."""
        if self.tz in _UTC:
            return local_us
        stamps = to_arrow(local_us, pa.timestamp("us"))
        return int64_values(
            pc.assume_timezone(stamps, self.tz, ambiguous="earliest", nonexistent="latest")
        )
