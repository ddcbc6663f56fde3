"""Joins whose span of time ends at a column: windows above stay open as long as spans are, and
whatever is given out on close waits for them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from streamsql.engine.database import Database
from tests.event_time.test_windows_over_joins import rows
from tests.state.faulty_filesystem import MemoryFileSystem

SPANS = {
    "column": "b.t BETWEEN a.t AND a.u",
    "before it": "b.t >= a.t AND b.t < a.u",
    "of both": "b.t <= a.u AND a.t <= b.u",
    "wider": "b.t BETWEEN a.t - INTERVAL '5 s' AND a.u + INTERVAL '5 s'",
}
PAIRS = "SELECT a.id, a.t, a.u, b.id AS bid, b.t AS bt FROM a {} b ON {{}}"
PAIR = PAIRS.format("JOIN")
COUNTED = (
    "SELECT window_start AS ws, count(*) AS n, max({}) AS m FROM TUMBLE(({}), {}, INTERVAL '10 s') "
    "GROUP BY window_start, window_end"
)
EXISTS = "SELECT a.id, a.t FROM a WHERE {}EXISTS (SELECT 1 FROM b WHERE {{}})"
QUERIES = {
    "pairs": PAIR,
    "left": PAIRS.format("LEFT JOIN"),
    "one time": "SELECT a.t, b.id FROM a JOIN b ON {}",
    "windows": COUNTED.format("bid", PAIR, "t"),
    "windows by right": COUNTED.format("bid", PAIR, "bt"),
    "windows by one of both": COUNTED.format("bt", PAIR, "t"),
    "windows over left": COUNTED.format("bid", PAIRS.format("LEFT JOIN"), "t"),
    "windows over exists": COUNTED.format("id", EXISTS.format(""), "t"),
    "windows over not exists": COUNTED.format("id", EXISTS.format("NOT "), "t"),
    "windows over three": COUNTED.format(
        "id", f"SELECT x.t, c.id FROM ({PAIR}) x JOIN c ON c.k = x.id % 3 AND c.t BETWEEN x.t AND "
        "x.t + INTERVAL '9 s'", "t"),
    "over": "SELECT t, count(*) OVER (ORDER BY t) AS n FROM (SELECT a.t, b.id FROM a JOIN b ON {}) x",
    "asof": f"SELECT x.id, x.bid, c.id AS cid FROM ({PAIR}) x ASOF LEFT JOIN c ON c.k = x.id % 3 "
            "AND c.t <= x.t",
}  # fmt: skip


def shapes() -> dict[tuple[str, str, str], str]:
    return {
        (span, key, name): sql.format(("a.k = b.k AND " if key else "") + condition)
        for span, condition in SPANS.items()
        for key in ("key", "")
        for name, sql in QUERIES.items()
    }


def opened(files: MemoryFileSystem) -> Database:
    db = Database("data", files=files)
    if not db.engine.tables:
        for name in "abc":
            db.execute(
                f"CREATE TABLE {name} (id INT, k INT, t TIMESTAMP, u TIMESTAMP, "
                "WATERMARK FOR t AS t)"
            )
    return db


@pytest.fixture
def db() -> Iterator[Database]:
    with opened(MemoryFileSystem()) as database:
        yield database


def second(at: int | None) -> str:
    return "NULL" if at is None else f"TIMESTAMP '2024-01-01' + INTERVAL '{at} s'"


def insert(draw: random.Random, at: dict[str, int], number: int, behind: int = 0) -> str:
    """Rows of one table, in the order of their times but for those that come `behind`."""
    table, values = draw.choice("abc"), []
    for i in range(draw.randint(1, 4)):
        at[table] += draw.choice([0, 1, 2, 3, 5])
        end = draw.choice([None, at[table] + draw.randint(-2, 40), at[table] + draw.randint(0, 9)])
        when = at[table] - (draw.randint(0, behind) if draw.random() < 0.2 else 0)
        values.append(f"({number + i}, {draw.randint(0, 2)}, {second(when)}, {second(end)})")
    return f"INSERT INTO {table} VALUES {', '.join(values)}"


def create(db: Database, chosen: list[tuple[tuple[str, str, str], str]]) -> None:
    for i, (_, sql) in enumerate(chosen):
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {sql}")
        db.execute(f"CREATE MATERIALIZED VIEW f{i} AS {sql} EMIT ON WINDOW CLOSE")
        db.execute(f"CREATE SUBSCRIPTION s{i} FROM f{i} WITH (retention = '1 day')")


def check(db: Database, chosen: list[tuple[tuple[str, str, str], str]], *, queries: bool) -> None:
    """All is final: nothing was taken back, VERIFY agrees, and views are their queries if asked."""
    for name in "abc":
        db.execute(f"ADVANCE WATERMARK FOR {name} TO '2024-01-02'")
    for i, (name, sql) in enumerate(chosen):
        db.execute(f"DECLARE c{i} SUBSCRIPTION CURSOR FOR s{i} SINCE begin()")
        given = db.execute(f"FETCH 9000 FROM c{i}").fetchall()
        assert all(weight > 0 for _, weight, *_ in given), name
        for view in (f"v{i}", f"f{i}"):
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == [], name
            if queries:
                assert rows(db, f"SELECT * FROM {view}") == rows(db, sql), name
    assert db.execute("SELECT * FROM streamsql.jobs WHERE state = 'failed'").fetchall() == []


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_in_order_gives_the_query(db: Database, seed: int) -> None:
    draw, at = random.Random(seed), dict.fromkeys("abc", 0)
    chosen = draw.sample(sorted(shapes().items()), 10)
    create(db, chosen)
    for step in range(40):
        db.execute(insert(draw, at, 10 * step))
    check(db, chosen, queries=True)
    assert db.execute("SELECT * FROM streamsql.late_rows").fetchall() == []


@pytest.mark.parametrize("seed", range(2))
def test_late_rows_deletions_and_a_restart_take_nothing_back(seed: int) -> None:
    draw, at, files = random.Random(seed), dict.fromkeys("abc", 0), MemoryFileSystem()
    chosen = draw.sample(sorted(shapes().items()), 10)
    db = opened(files)
    create(db, chosen)
    for step in range(40):
        if draw.random() < 0.2:
            db.execute(f"DELETE FROM {draw.choice('abc')} WHERE id = {10 * draw.randint(0, step)}")
        db.execute(insert(draw, at, 10 * step, behind=20))
        if step == 20:
            marks = rows(db, "SELECT relation, operator, watermark FROM streamsql.watermarks")
            db.close()
            db = opened(files)
            again = rows(db, "SELECT relation, operator, watermark FROM streamsql.watermarks")
            assert again == marks
    check(db, chosen, queries=False)
    db.close()


@pytest.mark.parametrize("name", ["windows", "windows over left"])
def test_the_cut_into_statements_has_no_say(name: str) -> None:
    draw, found = random.Random(3), []
    written = []
    for base in range(0, 120, 15):
        for table in "ab":
            starts = [base + draw.randint(0, 20) for _ in range(6)]
            written.append((table, [f"({i}, {draw.randint(1, 2)}, {second(t)}, {second(t + 25)})"
                                    for i, t in enumerate(starts)]))  # fmt: skip
    sql = shapes()["column", "key", name]
    for each in (True, False):
        with opened(MemoryFileSystem()) as db:
            db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
            for table, values in written:
                for value in values if each else [", ".join(values)]:
                    db.execute(f"INSERT INTO {table} VALUES {value}")
            late = "SELECT source, event_time, watermark FROM streamsql.late_rows"
            found.append((rows(db, "SELECT * FROM v"), rows(db, late)))
    assert found[0] == found[1]
    assert found[0][1]


def test_an_open_span_holds_a_window_of_its_start_and_no_longer(db: Database) -> None:
    sql = COUNTED.format("bid", PAIR.format("b.t BETWEEN a.t AND a.u"), "t")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {sql} EMIT ON WINDOW CLOSE")
    db.execute(f"INSERT INTO a VALUES (1, 1, {second(5)}, {second(60)})")
    db.execute(f"INSERT INTO b VALUES (1, 1, {second(6)}, NULL)")
    db.execute(f"INSERT INTO a VALUES (2, 1, {second(90)}, {second(91)})")
    db.execute(f"INSERT INTO b VALUES (2, 1, {second(60)}, NULL)")
    assert db.execute("SELECT * FROM v").fetchall() == []
    db.execute(f"INSERT INTO b VALUES (3, 1, {second(61)}, NULL)")
    assert [n for _, n, _ in db.execute("SELECT * FROM v").fetchall()] == [2]


def test_what_held_a_watermark_is_freed(db: Database) -> None:
    sql = COUNTED.format("bid", PAIR.format("a.k = b.k AND b.t BETWEEN a.t AND a.u"), "t")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
    (join,) = [n.operator for n in db.engine.circuit if n.label.startswith("interval-join")]
    held = []
    for ten in range(0, 400, 10):
        for table in "ab":
            db.execute(f"INSERT INTO {table} VALUES ({ten}, 1, {second(ten)}, {second(ten + 15)})")
        held.append(sum(len(rows) for rows in join.holding.save().values()))
    assert max(held[20:]) <= max(held[:20]) <= 6
    assert join.watermark > 0


def test_what_holds_a_watermark_is_named(db: Database) -> None:
    sql = COUNTED.format("bid", PAIR.format("a.k = b.k AND b.t BETWEEN a.t AND a.u"), "t")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
    held = "SELECT DISTINCT held_back_by FROM streamsql.watermarks WHERE operator LIKE 'Tumble%'"
    db.execute(f"INSERT INTO a VALUES (1, 1, {second(5)}, {second(60)})")
    db.execute(f"INSERT INTO a VALUES (2, 1, {second(90)}, {second(91)})")
    db.execute(f"INSERT INTO b VALUES (1, 1, {second(60)}, NULL)")
    assert db.execute(held).fetchall()[0][0].startswith("IntervalJoin #")
    db.execute(f"INSERT INTO b VALUES (1, 1, {second(80)}, NULL)")
    assert db.execute(held).fetchall() == [("b",)]


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize(
    "span", [SPANS["column"], "b.t BETWEEN a.t - INTERVAL '3 s' AND a.t + INTERVAL '20 s'"]
)
def test_versions_are_asked_for_by_all_pairs(db: Database, span: str, kind: str) -> None:
    """A temporal join by event time above a join by a span waits for its pairs."""
    pairs = f"SELECT a.id, a.k, a.t, b.id AS bid FROM a JOIN b ON a.k = b.k AND {span}"
    db.execute(
        "CREATE TABLE r (k INT PRIMARY KEY, p INT, t TIMESTAMP, WATERMARK FOR t AS t) "
        "ON CONFLICT OVERWRITE"
    )
    db.execute(
        f"CREATE MATERIALIZED VIEW v AS SELECT x.id, x.bid, r.p FROM ({pairs}) x {kind} r "
        "FOR SYSTEM_TIME AS OF x.t ON x.k = r.k"
    )
    draw, at = random.Random(5), dict.fromkeys("abr", 0)
    versions: list[tuple[int, int, int]] = []
    for number in range(80):
        table, k = draw.choice("abr"), draw.randint(1, 2)
        at[table] += draw.randint(0, 5)
        values = f"{k}, {number}, {second(at[table])}"
        if table == "r":
            versions.append((k, at[table], number))
        else:
            values = f"{number}, {k}, {second(at[table])}, {second(at[table] + 20)}"
        db.execute(f"INSERT INTO {table} VALUES ({values})")
    for table in "abr":
        db.execute(f"ADVANCE WATERMARK FOR {table} TO '2024-01-02'")
    wanted = []
    for row, k, moment, partner in db.execute(pairs).fetchall():
        seconds = 60 * moment.minute + moment.second
        known = [(t, p) for of, t, p in versions if of == k and t <= seconds]
        if known or kind == "LEFT JOIN":
            wanted.append((row, partner, max(known)[1] if known else None))
    assert len(wanted) > 20
    assert rows(db, "SELECT * FROM v") == sorted(map(repr, wanted))
    assert db.execute("SELECT * FROM streamsql.late_rows").fetchall() == []
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
