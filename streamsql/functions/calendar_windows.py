"""Time windows by a calendar or a zone's clock: which (start, end) hold a time.

One definition for the circuit's operators and for DuckDB, which calls it as a UDF
(`plan/sql/time_windows.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import US_PER_DAY
from streamsql.functions.zone_clock import zone

Assigned = tuple[Int64Array | None, Int64Array, Int64Array]
"""(row of each entry or None = one each, in order; window start µs; window end µs)."""

_UTC = frozenset(
    {"UTC", "GMT", "Z", "ZULU", "UCT", "UNIVERSAL", "GREENWICH", "GMT0", "GMT+0", "GMT-0"}
)
_LONGEST_MONTH_US = 31 * US_PER_DAY
_ZONES_APART_US = 32 * 3_600_000_000
"""No two offsets of one zone are further apart (a zone may change sides of the date line)."""
_AROUND = 2
"""Points taken beyond those that are needed: a clock change moves a point by less than two."""


def is_utc(tz: str | None) -> bool:
    """Whether a zone's clock is that of UTC for ever, by its name; None is UTC."""
    return tz is None or tz.upper().removeprefix("ETC/") in _UTC


@dataclass(frozen=True)
class Span:
    """A length: calendar months and exact µs (a day is 24 hours)."""

    months: int
    us: int

    @property
    def longest_us(self) -> int:
        """What it never exceeds on any calendar, µs, clock changes aside."""
        return self.months * _LONGEST_MONTH_US + self.us


@dataclass(frozen=True)
class CalendarGrid:
    """The windows of one TUMBLE, HOP or CUMULATE that a zone or the calendar has a say in.

    kind: tumble, hop, cumulate. step: hop's slide, cumulate's step; size for a tumble. offset: with
    months only if the size has some. tz: None for UTC, where sizes are of months.

    Each length has its *points*, the moments at which windows of that length begin:
    - months, and 24 hours or more: equal steps on the wall clock, counted from the epoch and
      shifted by the offset. Where the clock repeats a point it is the first of the two, where it
      skips one it is as late as if the clock had not been changed yet;
    - less: days begin on the wall clock at `offset` after midnight (mod 24 hours), and in each day
      the points follow at exact distances from its beginning, before the next day's. So the hour
      that a clock change repeats has points of its own, and the hour that it skips has none.
    A TUMBLE window lasts from point to point. CUMULATE windows begin at the last point of the size
    and end at each point of the step before the next point of the size, and there. A HOP window
    begins at each point of the step and ends a size later: on the wall clock if that is of months
    or 24 hours and more (and if it began with a day, counted from the day's own midnight, whether
    the clock showed it or not), an exact duration later if it is less.
    """

    kind: str
    size: Span
    step: Span
    offset: Span
    tz: str | None

    def assign(self, times: Int64Array) -> Assigned:
        """All windows of each time (UTC µs, int64 [n]), by row and then by start or end."""
        if not times.size:
            return (None if self.kind == "tumble" else times), times, times
        if self.kind == "hop":
            return self._hop(times)
        start, end = self._sizes.spans(times)
        return (None, start, end) if self.kind == "tumble" else self._cumulate(times, start, end)

    def pane(self, times: Int64Array) -> Int64Array:
        """The latest bound of any window at or before each time: times of one pane are in the same
        windows."""
        if not times.size:
            return times
        latest = self._steps.spans(times)[0]
        if self.kind != "hop":
            return np.maximum(latest, self._sizes.spans(times)[0])
        if not self._on_the_clock:
            return np.maximum(latest, self._steps.spans(times - self.size.us)[0] + self.size.us)
        ends = np.sort(self._hops(times)[1])
        # the first may end after the earliest time; then it is no bound of that one
        last = ends[np.maximum(np.searchsorted(ends, times, side="right") - 1, 0)]
        return np.where(last <= times, np.maximum(latest, last), latest)

    @property
    def _on_the_clock(self) -> bool:
        """Whether the size is counted on the wall clock."""
        return bool(self.size.months) or self.size.us >= US_PER_DAY

    @property
    def _farthest_us(self) -> int:
        """How far the ends of a window are apart at most, µs."""
        return self.size.longest_us + (_ZONES_APART_US if self._on_the_clock else 0)

    @cached_property
    def _sizes(self) -> _Ruler:
        return _ruler(self.size, self.offset, self.tz)

    @cached_property
    def _steps(self) -> _Ruler:
        return _ruler(self.step, self.offset, self.tz)

    def _cumulate(self, times: Int64Array, start: Int64Array, last: Int64Array) -> Assigned:
        """From the common start, point after point of the step up to the full size."""
        points = self._steps.around(times, 0, self._farthest_us).utc
        first = np.searchsorted(points, times, side="right")
        stop = np.searchsorted(points, last, side="left")
        row, at = _ranges(first, stop + 1)
        end = np.where(at < stop[row], points[np.minimum(at, points.size - 1)], last[row])
        return row, start[row], end

    def _hop(self, times: Int64Array) -> Assigned:
        points, ends = self._hops(times)
        longest = int((ends - points).max())
        row, at = _ranges(
            np.searchsorted(points, times - longest, side="right"),
            np.searchsorted(points, times, side="right"),
        )
        # on the wall clock a window that began earlier may end later, and a hole is in no window
        holds = ends[at] > times[row]
        row, at = row[holds], at[holds]
        return row, points[at], ends[at]

    def _hops(self, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(start, end) of all windows that may hold one of the times."""
        points = self._steps.around(times, self._farthest_us, 0)
        if self.size.months:
            ends = self._steps.ends(points, self.size)
        elif self.size.us >= US_PER_DAY:
            ends = _Clock(self.tz).to_utc(points.wall() + self.size.us)
        else:
            ends = points.utc + self.size.us
        return points.utc, ends


def _ranges(first: Int64Array, stop: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(row, position) of every position of every row's range."""
    count = stop - first
    row = np.repeat(np.arange(count.size), count)
    return row, np.arange(row.size) + np.repeat(first - np.cumsum(count) + count, count)


# --- points -------------------------------------------------------------------------------------
class _Clock:
    """The wall clock of a zone, or of UTC."""

    def __init__(self, tz: str | None) -> None:
        self._zone = None if is_utc(tz) else zone(str(tz))

    def to_local(self, utc: Int64Array) -> Int64Array:
        return utc if self._zone is None else self._zone.to_local(utc)

    def to_utc(self, local: Int64Array) -> Int64Array:
        return local if self._zone is None else self._zone.to_first_utc(local)


@dataclass(frozen=True)
class _Points:
    """Points in order, no two alike.

    utc: int64 [n], µs. wall: their times on the wall clock, that of a day's beginning as if the
    clock had shown it; asked for by HOP alone.
    """

    utc: Int64Array
    wall: Callable[[], Int64Array]


class _Ruler:
    """Points at equal steps on the wall clock, numbered from the epoch on."""

    def __init__(self, clock: _Clock, shift: int, length: int) -> None:
        """shift: µs from the epoch to point 0; length: µs from one to the next."""
        self.clock = clock
        self.shift = shift
        self.length = length

    def number(self, wall: Int64Array) -> Int64Array:
        """Of the last point at or before wall-clock times."""
        return np.floor_divide(wall - self.shift, self.length)

    def wall(self, number: Int64Array) -> Int64Array:
        """Wall-clock µs of points."""
        return number * self.length + self.shift

    def numbers(self, times: Int64Array, back: int, ahead: int) -> Int64Array:
        """The numbers of all points from `back` µs before each of the times to `ahead` after it,
        in order, and of some around them."""
        first = self.number(self.clock.to_local(times - back)) - _AROUND
        last = self.number(self.clock.to_local(times + ahead)) + _AROUND
        low, width = int(first.min()), int((last - first).max()) + 1
        high = int(last.max())
        if high - low < width * first.size:
            return np.arange(low, high + 1)
        each: Int64Array = np.unique(np.unique(first)[:, None] + np.arange(width))
        return each

    def around(self, times: Int64Array, back: int, ahead: int) -> _Points:
        """All points from `back` µs before each of the times to `ahead` after it, and some more,
        the last at or before and the first after among them."""
        wall = self.wall(self.numbers(times, back, ahead))
        utc = self.clock.to_utc(wall)
        # of the days that a zone skipped as a whole the one after begins at the same moment
        kept = np.append(utc[1:] > utc[:-1], True)
        if not bool(kept.all()):
            utc, wall = utc[kept], wall[kept]
        return _Points(utc, lambda: wall)

    def spans(self, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(the last point at or before each time, the first one after it)."""
        points = self.around(times, 0, 0).utc
        at = np.searchsorted(points, times, side="right")
        return points[at - 1], points[at]

    def ends(self, points: _Points, size: Span) -> Int64Array:
        """The ends of windows of so many months from these points."""
        raise NotImplementedError


class _Months(_Ruler):
    """Points some months apart."""

    def __init__(self, clock: _Clock, offset: Span, months: int) -> None:
        super().__init__(clock, offset.us, months)
        self.first = offset.months

    def number(self, wall: Int64Array) -> Int64Array:
        return np.floor_divide(self._month(wall) - self.first, self.length)

    def wall(self, number: Int64Array) -> Int64Array:
        return self._month_start(number * self.length + self.first)

    def ends(self, points: _Points, size: Span) -> Int64Array:
        return self.clock.to_utc(self._month_start(self._month(points.wall()) + size.months))

    def _month(self, wall: Int64Array) -> Int64Array:
        """Months since 1970-01."""
        days: Any = np.floor_divide(wall - self.shift, US_PER_DAY).astype("M8[D]")
        return np.asarray(days.astype("M8[M]").astype(np.int64))

    def _month_start(self, month: Int64Array) -> Int64Array:
        days: Any = month.astype("M8[M]").astype("M8[D]")
        return np.asarray(days.astype(np.int64)) * US_PER_DAY + self.shift


class _WithinDays(_Ruler):
    """Points at exact distances from the beginning of each day, which `shift` moves."""

    def __init__(self, clock: _Clock, shift: int, step: int) -> None:
        super().__init__(clock, shift, step)
        self.days = _Ruler(clock, shift, US_PER_DAY)
        self.step = step

    def spans(self, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        begin, end = self.days.spans(times)
        start = begin + np.floor_divide(times - begin, self.step) * self.step
        return start, np.minimum(start + self.step, end)

    def around(self, times: Int64Array, back: int, ahead: int) -> _Points:
        """Only those that are asked for: of a millisecond a day has many."""
        days = self.days.around(times, back, ahead + self.step)
        first, last = self._stretches(self.spans(times)[0], back, ahead)
        stretch, day = _ranges(
            np.searchsorted(days.utc, first, side="right") - 1,
            np.searchsorted(days.utc, last, side="right"),
        )
        begin, end = days.utc[day], days.utc[day + 1]
        low = np.maximum(-np.floor_divide(begin - first[stretch], self.step), 0)
        high = np.minimum(
            np.floor_divide(last[stretch] - begin, self.step),
            np.floor_divide(end - begin - 1, self.step),
        )
        of, nth = _ranges(low, high + 1)
        utc, wall = begin[of] + nth * self.step, days.wall()[day]
        return _Points(utc, lambda: np.where(nth == 0, wall[of], self.clock.to_local(utc)))

    def _stretches(
        self, points: Int64Array, back: int, ahead: int
    ) -> tuple[Int64Array, Int64Array]:
        """(from, to) of the times that are within reach of any of the points, none overlapping."""
        each = np.unique(points)
        low, high = each - back, each + self.step + ahead
        apart = low[1:] > high[:-1]
        return low[np.append(True, apart)], high[np.append(apart, True)]


def _ruler(span: Span, offset: Span, tz: str | None) -> _Ruler:
    clock = _Clock(tz)
    if span.months:
        return _Months(clock, offset, span.months)
    if span.us >= US_PER_DAY:
        return _Ruler(clock, offset.us, span.us)
    return _WithinDays(clock, offset.us, span.us)
