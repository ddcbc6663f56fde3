"""The clock protocol: the engine never asks the system for the time directly."""

from __future__ import annotations

import time
from typing import Protocol

from streamsql.core.errors import InvalidParameterValue


class Clock(Protocol):
    """Wall-clock time in µs since the Unix epoch, UTC."""

    def now_us(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


class ManualClock:
    """A clock that moves only when told to; it never goes back."""

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def advance_to(self, now_us: int) -> None:
        """Raises: InvalidParameterValue (22023) if that is earlier than now."""
        if now_us < self._now_us:
            raise InvalidParameterValue(
                "the manual clock never goes back",
                hint="Give a time that is not before the clock's present time.",
            )
        self._now_us = now_us
