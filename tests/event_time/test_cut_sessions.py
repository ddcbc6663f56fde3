"""SESSION with `max` in random lives: pieces that are closed stay as they are, whatever comes."""

from __future__ import annotations

import os

import pytest

import streamsql
from tests.event_time.lives import Life, Made, live_through

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
    live_through(SessionLife(seed), seed, STEPS)


@pytest.mark.parametrize("most", ["", ", max => INTERVAL '60 s'"])
def test_late_row_goes_from_below_a_session_that_has_grown_over_its_time(most: str) -> None:
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (k INT, ts TIMESTAMP, note TEXT, WATERMARK FOR ts AS ts)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT k, window_start, count(*) AS n FROM SESSION(t "
            f"PARTITION BY k, ts, INTERVAL '10 s'{most}) GROUP BY k, window_start, window_end"
        )
        for k, second, note in ((2, 20, "ahead"), (1, 10, "late"), (1, 15, "on time"), (1, 7, "")):
            db.execute(f"INSERT INTO t VALUES ({k}, '2024-01-01 00:00:{second}', '{note}')")
        before = db.execute("SELECT * FROM v ORDER BY k").fetchall()
        assert [(k, start.second, n) for k, start, n in before] == [(1, 7, 2), (2, 20, 1)]
        db.execute("DELETE FROM t WHERE note = 'late'")
        assert db.execute("SELECT * FROM v ORDER BY k").fetchall() == before
        assert not db.execute("VERIFY MATERIALIZED VIEW v").fetchall()
