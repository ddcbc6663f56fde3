"""Texts of programs: tens of thousands of entries in IN and VALUES."""

from __future__ import annotations

import gc
import time

import streamsql
from streamsql.core import collector


def test_long_lists_take_time_in_proportion_to_their_length() -> None:
    def seconds(entries: int) -> float:
        members = ",".join(map(str, range(entries)))
        rows = ",".join(f"({i}, 'x{i}')" for i in range(entries))
        began = time.process_time()
        found = db.execute(f"SELECT count(*) FROM t WHERE a IN ({members})").fetchall()
        assert found == [(min(entries, 1000),)]
        assert db.execute(f"SELECT count(*) FROM (VALUES {rows}) v(a, b)").fetchall() == [
            (entries,)
        ]
        assert db.execute(f"INSERT INTO s VALUES {rows}").tag == f"INSERT 0 {entries}"
        return time.process_time() - began

    with streamsql.connect() as db:
        db.execute(
            "CREATE TABLE t (a INT); INSERT INTO t SELECT i FROM generate_series(0, 999) g(i)"
        )
        db.execute("CREATE TABLE s (a INT, b TEXT)")
        seconds(100)
        short = seconds(800)
        assert seconds(3_200) < 12 * short  # 4 times as many
    assert gc.isenabled()


def test_collector_is_paused_for_long_texts_only_and_comes_back() -> None:
    long = "x" * collector.LONG_TEXT
    with collector.paused_for("short"):
        assert gc.isenabled()
    with collector.paused_for(long):
        assert not gc.isenabled()
        with collector.paused_for(long):
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    try:
        with collector.paused_for(long):
            raise ValueError
    except ValueError:
        assert gc.isenabled()
