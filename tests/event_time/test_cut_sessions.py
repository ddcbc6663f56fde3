"""SESSION with `max` in random lives: pieces that are closed stay as they are, whatever comes."""

from __future__ import annotations

import os

import pytest

from tests.event_time.lives import Life, Made

DEEP = os.environ.get("STREAMSQL_DEEP") == "1"
FIRST = int(os.environ.get("STREAMSQL_FIRST_LIFE", "0"))
LIVES, STEPS = (300, 120) if DEEP else (5, 40)


class SessionLife(Life):
    """All views are of sessions."""

    def view(self) -> None:
        made = self.sessions
        for other in ("window_on_window", "top", "dedup", "plain", "over", "windows"):
            setattr(self, other, made)
        for other in ("windows_on_view", "window_join", "interval_join", "window_span", "union"):
            setattr(self, other, made)
        self.grouped = lambda _: made()  # type: ignore[method-assign]
        super().view()

    def sessions(self) -> Made:
        while True:
            made = super().sessions()
            if "max =>" in made[0]:
                return made


@pytest.mark.parametrize("seed", range(FIRST, FIRST + LIVES))
def test_pieces_of_sessions_are_final_once_they_are_closed(seed: int) -> None:
    life = SessionLife(seed)
    try:
        for _ in range(3):
            life.view()
        for number in range(STEPS):
            life.step()
            found = life.differences()
            if found:
                said = "\n".join(life.said)
                pytest.fail(f"seed {seed}, step {number}:\n{said}\n{found}", pytrace=False)
        wrong = life.verified()
        if wrong:
            said = "\n".join(life.said)
            pytest.fail(f"seed {seed}:\n{said}\n{wrong}", pytrace=False)
    finally:
        life.db.close()
