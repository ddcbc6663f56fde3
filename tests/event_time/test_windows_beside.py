"""Joins of windows with timed rows near them: a pair is given as long as its span of time is open,
be the window closed by then or not, and given out on close when nothing can change it."""

from __future__ import annotations

import random

import pytest

from streamsql.engine.database import Database
from streamsql.operators import condition_join
from tests.event_time.test_windows_over_joins import db, live, rows
from tests.state.faulty_filesystem import MemoryFileSystem

__all__ = ["db"]

WINDOWS = {
    "tumble": "TUMBLE(a, t, INTERVAL '10 s')",
    "hop": "HOP(a, t, INTERVAL '5 s', INTERVAL '10 s')",
    "cumulate": "CUMULATE(a, t, INTERVAL '5 s', INTERVAL '10 s')",
}
COUNTS = (
    "SELECT k, window_start AS ws, window_end AS we, window_time AS wt, count(*) AS c FROM {} "
    "GROUP BY 1, 2, 3, 4"
)
EACH = "SELECT k, window_start AS ws, window_end AS we, window_time AS wt, id AS c FROM {}"
SPANS = {
    "after": "b.t BETWEEN x.we AND x.we + INTERVAL '5 s'",
    "after, by start": "b.t BETWEEN x.ws + INTERVAL '10 s' AND x.ws + INTERVAL '17 s'",
    "by time": "b.t BETWEEN x.wt AND x.wt + INTERVAL '5 s'",
    "in it": "b.t >= x.ws AND b.t < x.we",
    "in it or just after": "b.t BETWEEN x.ws AND x.we",
    "before": "b.t BETWEEN x.ws - INTERVAL '5 s' AND x.ws - INTERVAL '1 s'",
    "around": "b.t BETWEEN x.we - INTERVAL '5 s' AND x.we + INTERVAL '5 s'",
    "long": "b.t BETWEEN x.ws AND x.we + INTERVAL '30 s'",
}
PAIR = "SELECT x.k, x.ws, x.we, x.c, b.id, b.t FROM g x {} b ON {{}}"
GROUPED = (
    "SELECT window_start, count(*) AS n, sum(c) AS s FROM TUMBLE((SELECT x.c, x.we, b.t FROM g x "
    "JOIN b ON {{}}), {}, INTERVAL '10 s') GROUP BY window_start, window_end"
)
KINDS = {kind: PAIR.format(kind) for kind in ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")} | {
    "turned round": "SELECT x.we, x.c, b.id FROM b JOIN g x ON {}",
    "no time": "SELECT x.k, x.c, b.id FROM b JOIN g x ON {}",
    "start alone": "SELECT x.k, x.ws, x.c, b.id FROM g x LEFT JOIN b ON {}",
    "exists": "SELECT x.k, x.we, x.c FROM g x WHERE EXISTS (SELECT 1 FROM b WHERE {})",
    "not exists": "SELECT x.k, x.ws, x.c FROM g x WHERE NOT EXISTS (SELECT 1 FROM b WHERE {})",
    "of the other": "SELECT b.id, b.t FROM b WHERE EXISTS (SELECT 1 FROM g x WHERE {})",
    "not of the other": "SELECT b.id, b.t FROM b WHERE NOT EXISTS (SELECT 1 FROM g x WHERE {})",
    "windows by row": GROUPED.format("t"),
    "windows by window": GROUPED.format("we"),
}


def shapes() -> dict[tuple[str, str, str], str]:
    return {
        (span, key, kind): sql.format(("x.k = b.k AND " if key else "") + condition)
        for span, condition in SPANS.items()
        for key in ("key", "")
        for kind, sql in KINDS.items()
    }


@pytest.mark.parametrize("seed", range(6))
def test_pairs_of_a_window_and_rows_near_it_are_the_query(db: Database, seed: int) -> None:
    draw = random.Random(seed)
    rows_of = COUNTS if seed else EACH
    window = [*WINDOWS.values()][seed % 3]
    kind = ["VIEW", "MATERIALIZED VIEW", "MATERIALIZED VIEW"][draw.randrange(3)]
    emit = " EMIT ON WINDOW CLOSE" if seed in (2, 3) else ""
    db.execute(
        f"CREATE {'MATERIALIZED VIEW' if emit else kind} g AS {rows_of.format(window)}{emit}"
    )
    names = {}
    chosen = draw.sample(sorted(shapes().items()), 12)
    chosen.append((("after", "key", "JOIN"), shapes()["after", "key", "JOIN"]))
    for i, (name, sql) in enumerate(chosen):
        for close in ("", " EMIT ON WINDOW CLOSE"):
            view = f"v{i}{'f' if close else ''}"
            names[name, close] = view, sql
            db.execute(f"CREATE MATERIALIZED VIEW {view} AS {sql}{close}")
    live(db, seed)
    for name, (view, sql) in names.items():
        assert rows(db, f"SELECT * FROM {view}") == rows(db, sql), name
        assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == [], name
    assert db.execute("SELECT * FROM streamsql.late_rows").fetchall() == []


def opened(files: MemoryFileSystem) -> Database:
    db = Database("data", files=files)
    if not db.engine.tables:
        for name in "ab":
            db.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT, t TIMESTAMP, WATERMARK FOR t AS "
                "t - INTERVAL '3 s') WITH (allowed_lateness = '2 s')"
            )
        db.execute(f"CREATE VIEW g AS {COUNTS.format(WINDOWS['tumble'])}")
    return db


def second(at: int) -> str:
    return f"TIMESTAMP '2024-01-01' + INTERVAL '{at} s'"


@pytest.mark.parametrize("seed", range(2))
def test_late_rows_deletions_and_a_restart_take_nothing_back(seed: int) -> None:
    draw, files = random.Random(seed), MemoryFileSystem()
    chosen = draw.sample(sorted(shapes().items()), 12)
    db = opened(files)
    for i, (_, sql) in enumerate(chosen):
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {sql} EMIT ON WINDOW CLOSE")
        db.execute(f"CREATE SUBSCRIPTION s{i} FROM v{i} WITH (retention = '1 day')")
        db.execute(f"CREATE MATERIALIZED VIEW w{i} AS {sql}")
    at, number, there = dict.fromkeys("ab", 0), 0, {name: [] for name in "ab"}
    for step in range(40):
        table = draw.choice("ab")
        if there[table] and draw.random() < 0.2:
            recent = there[table][-12:]
            gone = recent[draw.randrange(len(recent))]
            there[table].remove(gone)
            db.execute(f"DELETE FROM {table} WHERE id = {gone}")
            continue
        values = []
        for _ in range(draw.randint(1, 5)):
            at[table], number = at[table] + draw.randint(0, 4), number + 1
            when = at[table] - (draw.randint(0, 25) if draw.random() < 0.2 else 0)
            there[table].append(number)
            values.append(f"({number}, {draw.randint(1, 2)}, {second(when)})")
        db.execute(f"INSERT INTO {table} VALUES {', '.join(values)}")
        if step == 20:
            shown = [rows(db, f"SELECT * FROM {v}{i}") for v in "vw" for i in range(len(chosen))]
            db.close()
            db = opened(files)
            again = [rows(db, f"SELECT * FROM {v}{i}") for v in "vw" for i in range(len(chosen))]
            assert again == shown
    for name in "ab":
        db.execute(f"ADVANCE WATERMARK FOR {name} TO '2024-01-02'")
    for i, (name, _) in enumerate(chosen):
        db.execute(f"DECLARE c{i} SUBSCRIPTION CURSOR FOR s{i} SINCE begin()")
        given = db.execute(f"FETCH 5000 FROM c{i}").fetchall()
        assert all(weight > 0 for _, weight, *_ in given), name
        for view in (f"v{i}", f"w{i}"):
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == [], name
    assert db.execute("SELECT * FROM streamsql.jobs WHERE state = 'failed'").fetchall() == []
    db.close()


@pytest.mark.parametrize("name", ["JOIN", "FULL JOIN", "windows by window"])
def test_the_cut_into_statements_has_no_say(name: str) -> None:
    """Each table's rows one by one and all in one statement, late ones among them."""
    draw, found = random.Random(7), []
    parts = []
    for base in range(0, 120, 20):
        for table in "ab":
            times = [base + draw.randint(0, 25) - draw.choice([0, 0, 0, 30]) for _ in range(8)]
            parts.append((table, [f"({i}, {draw.randint(1, 2)}, {second(t)})"
                                  for i, t in enumerate(times)]))  # fmt: skip
    sql = shapes()["around", "key", name]
    for each in (True, False):
        with Database() as db:
            for table in "ab":
                db.execute(
                    f"CREATE TABLE {table} (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t)"
                )
            db.execute(f"CREATE VIEW g AS {COUNTS.format(WINDOWS['tumble'])}")
            db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
            for table, values in parts:
                for value in values if each else [", ".join(values)]:
                    db.execute(f"INSERT INTO {table} VALUES {value}")
            late = "SELECT source, event_time, watermark FROM streamsql.late_rows"
            found.append((rows(db, "SELECT * FROM v"), rows(db, late)))
            assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
    assert found[0] == found[1]
    assert found[0][1]


@pytest.mark.parametrize("emit", ["", " EMIT ON WINDOW CLOSE"])
def test_rows_are_freed_when_their_span_is_over(db: Database, monkeypatch, emit: str) -> None:
    monkeypatch.setattr(condition_join, "FREE_FROM", 4)
    db.execute(f"CREATE VIEW g AS {COUNTS.format(WINDOWS['tumble'])}")
    kinds = ("JOIN", "FULL JOIN", "not exists", "windows by row")
    chosen = [s for (span, _, kind), s in shapes().items() if span == "around" and kind in kinds]
    for i, sql in enumerate(chosen):
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {sql}{emit}")
    held = []
    for ten in range(60):
        for table in "ab":
            listed = ", ".join(f"({ten}, {k}, {second(10 * ten + k)})" for k in range(3))
            db.execute(f"INSERT INTO {table} VALUES {listed}")
        if ten in (19, 59):
            held.append({n.label: n.operator.state_rows() for n in db.engine.circuit})
    grown = {x: (held[0][x], n) for x, n in held[1].items() if n > max(60, 1.5 * held[0][x])}
    assert not grown
