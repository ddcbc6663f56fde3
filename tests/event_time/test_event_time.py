"""Random lives with late rows, deletes, idle tables and restarts: views and late rows are the
model's, and VERIFY finds no difference.

One life again: `pytest tests/event_time -k "[seed]"`; the failure prints its statements.
"""

from __future__ import annotations

import os

import pytest

from tests.event_time.lives import Life, live_through

DEEP = os.environ.get("STREAMSQL_DEEP") == "1"
FIRST = int(os.environ.get("STREAMSQL_FIRST_LIFE", "0"))
LIVES, STEPS = (400, 120) if DEEP else (6, 40)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + LIVES))
def test_views_follow_the_rules_of_event_time(seed: int) -> None:
    live_through(Life(seed), seed, STEPS)
