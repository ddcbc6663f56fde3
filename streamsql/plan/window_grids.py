"""How TUMBLE, HOP and CUMULATE count, from what their plan node says."""

from __future__ import annotations

from streamsql.core.logical_time import US_PER_DAY
from streamsql.functions.calendar_windows import CalendarGrid, Span
from streamsql.plan.nodes import WindowSpec


def exact_us(spec: WindowSpec) -> int:
    """The length of a span without its months, µs (a day is 24 hours)."""
    return spec.days * US_PER_DAY + spec.us


def calendar_grid(
    kind: str, size: WindowSpec, step: WindowSpec, offset: WindowSpec, tz: str | None
) -> CalendarGrid:
    """The grid of windows that months or a zone have a say in; step: the size for a tumble."""
    size_, step_, offset_ = (Span(s.months, exact_us(s)) for s in (size, step, offset))
    return CalendarGrid(kind, size_, step_, offset_, tz)
