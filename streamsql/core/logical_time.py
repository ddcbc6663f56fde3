"""Logical time: ticks (versions) and watermarks."""

from __future__ import annotations

NO_WATERMARK = -(2**63)
"""Watermark of an input that has not moved yet: below every event time, µs."""

END_OF_TIME = 2**63 - 1
"""Watermark of an input that can not change any more."""

US_PER_SECOND = 1_000_000
US_PER_DAY = 86_400 * US_PER_SECOND
