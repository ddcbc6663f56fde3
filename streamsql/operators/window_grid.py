"""Time windows: which (start, end) hold a time, in exact units or by a calendar."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamsql.core.delta import Int64Array
from streamsql.core.errors import InvariantViolation
from streamsql.core.logical_time import US_PER_DAY
from streamsql.functions.calendar_windows import Assigned, CalendarGrid, is_utc
from streamsql.operators.loops import windows as loops
from streamsql.plan.nodes import WindowSpec
from streamsql.plan.window_grids import calendar_grid, exact_us


def us_text(us: int) -> str:
    """A length in µs for people."""
    from streamsql.plan.render import interval_text

    return interval_text(0, us // US_PER_DAY, us % US_PER_DAY)


@dataclass(frozen=True)
class Grid:
    """The windows of one TUMBLE, HOP or CUMULATE.

    kind: tumble, hop, cumulate. step: hop's slide, cumulate's step; size for a tumble. What months
    or a zone have a say in is counted as `CalendarGrid` says.
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
        return is_utc(self.tz) and not self.size.months

    def assign(self, times: Int64Array) -> Assigned:
        """All windows of each time (µs, int64[n]), by row and then by start or end."""
        return self._assign_exact(times) if self.is_exact else self._calendar.assign(times)

    def pane(self, times: Int64Array) -> Int64Array:
        """The latest bound of any HOP or CUMULATE window at or before each time."""
        if not self.is_exact:
            return self._calendar.pane(times)
        start = np.empty(times.size, np.int64)
        loops.tumble(times, self.pane_us, exact_us(self.offset), start)
        return start

    @property
    def pane_us(self) -> int:
        """The length of a pane, if the windows are exact."""
        return math.gcd(exact_us(self.size), exact_us(self.step))

    @cached_property
    def _calendar(self) -> CalendarGrid:
        return calendar_grid(self.kind, self.size, self.step, self.offset, self.tz)

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
