"""Which sources' rows make up a tick."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streamsql.engine import ingest
from streamsql.engine.ingest import Ingest
from streamsql.runtime.scheduler import IngestQueue

SECOND = 1_000_000


class Source:
    """A source whose entries are (rows, watermark after them in seconds)."""

    is_table = False

    def __init__(self, oid: int, entries: list[tuple[int, int | None]]) -> None:
        self.relation = SimpleNamespace(oid=oid)
        timed = any(second is not None for _, second in entries)
        self.tracker = SimpleNamespace(value=-(2**63)) if timed else None
        self.queue: IngestQueue = IngestQueue(10**9, lambda: None)
        for rows, second in entries:
            self.queue.put(rows, second)

    def mark(self):
        return ()


@pytest.fixture
def ticks(monkeypatch):
    """Function: sources → for each tick, the rows taken of each source."""
    monkeypatch.setattr(ingest, "TICK_ROWS", 100)

    def run(*sources: Source) -> list[list[int]]:
        self = Ingest(SimpleNamespace(sources={s.relation.oid: s for s in sources}))

        def take(source, second, tick):
            if source.tracker is not None:
                source.tracker.value = second * SECOND

        self._take = take
        found = []
        while any(s.queue.rows for s in sources):
            before = [s.queue.rows for s in sources]
            self._taken = {}
            self._fill(None, [s for s in sources if s.queue.rows])
            found.append([a - s.queue.rows for a, s in zip(before, sources, strict=True)])
        return found

    return run


def test_sources_with_watermarks_stay_together_in_event_time(ticks):
    persons = Source(1, [(2, t) for t in range(1, 6)])
    bids = Source(2, [(92, t) for t in range(1, 6)])
    auctions = Source(3, [(6, t) for t in range(1, 6)])
    assert ticks(persons, bids, auctions) == [[2, 92, 6]] * 5


def test_source_that_is_behind_comes_first(ticks):
    ahead = Source(1, [(50, 100), (50, 101)])
    behind = Source(2, [(40, t) for t in range(1, 7)])
    found = ticks(ahead, behind)
    assert [b for _, b in found[1:3]] == [80, 80]
    assert sum(a for a, _ in found) == 100


def test_large_entry_is_a_tick_of_its_own(ticks):
    assert ticks(Source(1, [(92, 1), (92, 2), (500, 3)])) == [[92], [92], [500]]


def test_full_source_does_not_starve_the_others(ticks):
    greedy = Source(1, [(10, None)] * 1000)
    modest = Source(2, [(10, None)] * 20)
    timed = Source(3, [(10, t) for t in range(20)])
    found = ticks(greedy, modest, timed)
    assert all(min(taken) > 0 for taken in found[:5])
    assert all(sum(taken) <= 100 for taken in found)
