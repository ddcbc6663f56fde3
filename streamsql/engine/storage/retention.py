"""How long old versions stay readable: the promise, its memory, and when each version was made.

Without a promise every relation keeps its last changes up to `changelog.RETAIN_BYTES`. With one
(`SET streamsql.retention`, or `WITH (retention = …)` of a table or view) the relation keeps exactly
the versions it asks for, as long as all such changes together fit into
`streamsql.retention_memory`; beyond that the relation that grows loses its oldest ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from streamsql.core.errors import FeatureNotSupported, InvalidParameterValue, StreamSqlError
from streamsql.engine.storage.changelog import RETAIN_BYTES, ChangeLog, Keep

TIMES_MAX = 1 << 20
"""Versions whose time is remembered: 16 MB."""

TIMES_PROMISED = 1 << 23
"""The same, of versions that a retention speaks of."""

SWEEP_US = 1_000_000
SWEEP_VERSIONS = 64

SETTING = "streamsql.retention"
MEMORY = "streamsql.retention_memory"
OPTION = "retention"

_VERSIONS = re.compile(r"(\d+)(?:\s*versions?)?", re.IGNORECASE)


@dataclass(frozen=True)
class Span:
    """A time (µs), or a number of versions: one of them is set."""

    us: int | None = None
    versions: int | None = None


@lru_cache(maxsize=256)
def parse_span(text: str, name: str) -> Span | None:
    """'1 hour', '500 versions', '500' (versions too); None for 'off'.

    Raises: InvalidParameterValue (22023).
    """
    from streamsql.dialect import interval_parts

    plain = text.strip()
    if plain.lower() in ("off", "none", "default", "0"):
        return None
    found = _VERSIONS.fullmatch(plain)
    if found is not None:
        return Span(versions=min(int(found[1]), 1 << 60))
    try:
        months, days, us = interval_parts(plain)
    except StreamSqlError as error:
        raise invalid(text, name) from error
    total = days * 86_400_000_000 + us
    if months or total <= 0:
        raise invalid(text, name)
    return Span(us=total)


def invalid(text: str, name: str) -> InvalidParameterValue:
    """22023 with what may be written."""
    return InvalidParameterValue(
        f'invalid value for "{name}": "{text}"',
        hint="Give a time of days or less, for example '1 hour', or '1000 versions', or 'off'.",
    )


def check_retention(options: Mapping[str, str], *, keeps_rows: bool = True) -> None:
    """The option of a new table or view. Raises: 22023; 0A000 for a source."""
    if OPTION not in options:
        return
    if not keeps_rows:
        raise FeatureNotSupported(
            "a source keeps no rows, and so no older versions of them",
            hint="Give the retention to a table or a materialized view.",
        )
    parse_span(options[OPTION], OPTION)


class Timeline:
    """When versions were made: two growing columns, versions and times (µs), both ascending."""

    def __init__(self) -> None:
        self._versions = np.empty(1024, np.int64)
        self._times = np.empty(1024, np.int64)
        self._size = 0

    def add(self, version: int, us: int, needed: int | None = None) -> None:
        """The newest version. Beyond the limit those before the `needed` one are forgotten, and if
        that is little or nothing is needed, the older half."""
        if self._size and self._size % TIMES_MAX == 0:
            gone = self._size // 2
            if needed is not None and self._size < TIMES_PROMISED:
                gone = int(np.searchsorted(self._versions[: self._size], needed))
            self._forget(gone)
        if self._size == self._versions.size:
            self._versions = np.resize(self._versions, self._size * 2)
            self._times = np.resize(self._times, self._size * 2)
        self._versions[self._size], self._times[self._size] = version, us
        self._size += 1

    def _forget(self, gone: int) -> None:
        left = self._size - gone
        self._versions[:left] = self._versions[gone : self._size].copy()
        self._times[:left] = self._times[gone : self._size].copy()
        self._size = left

    def save(self, oldest: int) -> pa.Table:
        """Versions from that one on, with their times."""
        start = int(np.searchsorted(self._versions[: self._size], oldest))
        kept = slice(start, self._size)
        return pa.table({"c0": self._versions[kept].copy(), "c1": self._times[kept].copy()})

    def load(self, saved: pa.Table) -> None:
        """Inverse of `save`."""
        self._size = saved.num_rows
        room = max(1024, self._size)
        self._versions, self._times = np.empty(room, np.int64), np.empty(room, np.int64)
        self._versions[: self._size] = np.asarray(saved.column(0))
        self._times[: self._size] = np.asarray(saved.column(1))

    def at(self, us: int) -> int | None:
        """The newest version made at that time or before; None if that is not known any more."""
        place = int(np.searchsorted(self._times[: self._size], us, "right"))
        return int(self._versions[place - 1]) if place else None

    def time_of(self, version: int) -> int | None:
        """When a version was made, µs; None if it is not remembered."""
        place = int(np.searchsorted(self._versions[: self._size], version))
        found = place < self._size and int(self._versions[place]) == version
        return int(self._times[place]) if found else None

    @property
    def first(self) -> tuple[int, int] | None:
        """(version, µs) of the oldest one that is remembered."""
        return (int(self._versions[0]), int(self._times[0])) if self._size else None


class Retention:
    """The promise of one database. Used under the state lock.

    text, memory_text: as SET. account: what all change logs hold.
    """

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.text = "off"
        self.memory_text = "1GB"
        self._span: Span | None = None
        self._memory = memory_bytes(self.memory_text)
        self._bytes = 0
        self._swept = (0, 0)
        self._newest = 0
        self._needed: int | None = None
        self._plain = Keep()

    def set(self, name: str, value: str) -> None:
        """Change one of the two settings. Raises: InvalidParameterValue (22023)."""
        if name == MEMORY:
            self._memory = memory_bytes(value)
            self.memory_text = value
        else:
            self._span = parse_span(value, name)
            self.text = value

    def settings(self) -> dict[str, str]:
        """Both settings, as SHOW gives them."""
        return {SETTING: self.text, MEMORY: self.memory_text}

    def span(self, options: Mapping[str, str]) -> Span | None:
        """What is promised for a relation of these options."""
        text = options.get(OPTION)
        return self._span if text is None else parse_span(text, OPTION)

    def published(self, version: int, us: int) -> None:
        """A version was made."""
        if version > self._newest:
            self._newest = version
            self.timeline.add(version, us, self._needed)

    def keep(self, options: Mapping[str, str], pinned: int | None, now_us: int) -> Keep:
        """What a relation's log has to keep now."""
        if self._span is None and OPTION not in options:
            known, room = self._plain, self._bytes < self._memory
            if known.pinned != pinned or known.room != room:
                self._plain = known = Keep(pinned, None, room)
            return known
        return Keep(pinned, self.oldest(options, now_us), self._bytes < self._memory)

    def oldest(self, options: Mapping[str, str], now_us: int) -> int | None:
        """The oldest version that is promised; None without a promise."""
        span = self.span(options)
        if span is None:
            return None
        if span.versions is not None:
            return max(0, self._newest - span.versions)
        assert span.us is not None
        return self.timeline.at(now_us - span.us) or 0

    def sweep_due(self, now_us: int) -> bool:
        """Whether it is time to `sweep`."""
        version, us = self._swept
        return now_us - us >= SWEEP_US or self._newest - version >= SWEEP_VERSIONS

    def sweep(
        self,
        logs: Iterable[tuple[Mapping[str, str], ChangeLog]],
        pinned: int | None,
        now_us: int,
    ) -> None:
        """Count the memory, and let go of what is out of time in relations that are idle."""
        self._swept = (self._newest, now_us)
        total, needed = 0, None
        for options, log in logs:
            log.trim(self.keep(options, pinned, now_us))
            total += max(0, log.nbytes - RETAIN_BYTES)
            if self.span(options) is not None:
                needed = log.floor if needed is None else min(needed, log.floor)
        self._bytes, self._needed = total, needed

    def restored(self, saved: pa.Table) -> None:
        """The times of the versions before the newest, out of a checkpoint."""
        self.timeline.load(saved)
        if saved.num_rows:
            self._newest = int(saved.column(0)[-1].as_py())


_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def memory_bytes(text: str) -> int:
    """Bytes of '512MB' and the like. Raises: InvalidParameterValue (22023)."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?b)", text.strip(), re.IGNORECASE)
    if found is None:
        raise InvalidParameterValue(
            f'invalid value for parameter "{MEMORY}": "{text}"',
            hint='Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".',
        )
    return int(found[1]) * _UNITS[found[2].lower()]
