"""Time windows by their definition, row by row: what a slow reader of the zone's clock finds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

US = dt.timedelta(microseconds=1)
DAY = dt.timedelta(days=1)
EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Length:
    """Months, or an exact length."""

    months: int = 0
    exact: dt.timedelta = dt.timedelta()

    @property
    def on_the_clock(self) -> bool:
        return bool(self.months) or self.exact >= DAY

    @property
    def longest(self) -> dt.timedelta:
        return self.months * 31 * DAY + self.exact


@dataclass(frozen=True)
class Model:
    """Naive datetimes: in UTC, or as the zone's wall clock shows them (`wall`)."""

    kind: str
    size: Length
    step: Length
    offset: Length
    zone: ZoneInfo

    def windows(self, t: dt.datetime) -> list[tuple[dt.datetime, dt.datetime]]:
        """All (start, end) that hold a moment, in order."""
        if self.kind == "hop":
            back = t - self.size.longest - 40 * dt.timedelta(hours=1)
            made = [(s, self.end(s, wall)) for s, wall in self.points(self.step, back, t).items()]
            return sorted((s, e) for s, e in made if s <= t < e)
        ahead = t + self.size.longest + 40 * dt.timedelta(hours=1)
        sizes = self.points(self.size, t, ahead)
        start = max(p for p in sizes if p <= t)
        last = min(p for p in sizes if p > t)
        if self.kind == "tumble":
            return [(start, last)]
        ends = {p for p in self.points(self.step, t, ahead) if t < p < last} | {last}
        return [(start, end) for end in sorted(ends)]

    def end(self, start: dt.datetime, wall: dt.datetime) -> dt.datetime:
        """Where a HOP window ends that began then."""
        if self.size.months:
            day = wall - self.offset.exact
            number = (day.year - 1970) * 12 + day.month - 1
            return self.instant(self.month(number + self.size.months))
        if self.size.exact >= DAY:
            return self.instant(wall + self.size.exact)
        return start + self.size.exact

    def points(
        self, length: Length, low: dt.datetime, high: dt.datetime
    ) -> dict[dt.datetime, dt.datetime]:
        """Points in UTC with their times on the wall clock, all from the last before low to the
        first after high among them."""
        if length.on_the_clock:
            found = {}
            for wall in self.steps(length, low - 3 * DAY, high + 3 * DAY):
                found[self.instant(wall)] = wall  # of two that are one moment the later one
            return found
        found = {}
        day = EPOCH + (low - 3 * DAY - EPOCH) // DAY * DAY + self.offset.exact % DAY
        while day < high + 3 * DAY:
            at, end = self.instant(day), self.instant(day + DAY)
            wall = day
            while at < end:
                found[at] = wall
                at += length.exact
                wall = self.wall(at)
            day += DAY
        return found

    def steps(self, length: Length, low: dt.datetime, high: dt.datetime) -> Iterator[dt.datetime]:
        """The wall clock's points around these times."""
        if not length.months:
            first = EPOCH + self.offset.exact
            k = (low - first) // length.exact - 1
            while first + k * length.exact < high + length.exact:
                yield first + k * length.exact
                k += 1
            return
        k = ((low.year - 1970) * 12 - self.offset.months) // length.months - 14
        while True:
            at = self.month(k * length.months + self.offset.months)
            yield at
            if at > high + length.longest:
                return
            k += 1

    def month(self, number: int) -> dt.datetime:
        """Where a month begins (0: January of 1970) on the wall clock, moved by the offset."""
        return dt.datetime(1970 + number // 12, number % 12 + 1, 1) + self.offset.exact

    def wall(self, utc: dt.datetime) -> dt.datetime:
        return utc.replace(tzinfo=dt.UTC).astimezone(self.zone).replace(tzinfo=None)

    def instant(self, wall: dt.datetime) -> dt.datetime:
        """The first moment that shows this time, or would have if the clock had gone on."""
        return wall.replace(tzinfo=self.zone, fold=0).astimezone(dt.UTC).replace(tzinfo=None)


def us(t: dt.datetime) -> int:
    """µs since the epoch."""
    return (t - EPOCH) // US
