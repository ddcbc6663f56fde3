"""Joins of rows from windows that close at different times: nothing of an open one is late."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from streamsql.core.errors import FeatureNotSupported
from streamsql.engine.database import Database
from streamsql.operators import arrange, condition_join

COUNTS = (
    "SELECT k, window_start ws, window_end we, count(*) c "
    "FROM TUMBLE(a, t, INTERVAL '10 seconds') GROUP BY 1, 2, 3"
)
BEFORE = "x.k = y.k AND y.ws = x.ws - INTERVAL '10 seconds'"
QUERIES = {
    "before": f"SELECT x.k, x.ws, x.c, y.c p FROM g x JOIN g y ON {BEFORE}",
    "left": f"SELECT x.k, x.ws, x.c, y.c p FROM g x LEFT JOIN g y ON {BEFORE}",
    "full": f"SELECT x.k, x.ws, x.c, y.k l, y.ws w, y.c p FROM g x FULL JOIN g y ON {BEFORE}",
    "after": "SELECT x.k, x.ws, x.c, y.c p FROM g x LEFT JOIN g y "
    "ON x.k = y.k AND y.ws = x.ws + INTERVAL '10 seconds'",
    "same key": "SELECT x.k, x.ws, y.ws w, x.c, y.c p FROM g x JOIN g y ON x.k = y.k",
    "same window": "SELECT x.k, x.ws, x.c, y.c p FROM g x JOIN g y ON x.k = y.k AND x.ws = y.ws",
    "end meets start": "SELECT x.k, x.ws, y.c p FROM g x JOIN g y ON x.k = y.k AND x.ws = y.we",
    "band": "SELECT x.ws, x.c, y.ws w, y.c p FROM g x JOIN g y "
    "ON y.ws BETWEEN x.ws - INTERVAL '30 s' AND x.ws - INTERVAL '10 s' AND x.k < y.k",
    "band and key": "SELECT x.k, x.we, x.c, y.we w, y.c p FROM g x JOIN g y ON x.k = y.k "
    "AND y.we BETWEEN x.we - INTERVAL '30 s' AND x.we - INTERVAL '10 s'",
    "exists": f"SELECT k, ws, c FROM g x WHERE EXISTS (SELECT 1 FROM g y WHERE {BEFORE})",
    "not exists after": "SELECT k, ws, c FROM g x WHERE NOT EXISTS (SELECT 1 FROM g y "
    "WHERE x.k = y.k AND y.ws = x.ws + INTERVAL '10 seconds' AND y.c > 1)",
    "scalar": f"SELECT k, ws, c, (SELECT y.c FROM g y WHERE {BEFORE}) p FROM g x",
}


@pytest.fixture
def db() -> Iterator[Database]:
    with Database() as database:
        database.execute("CREATE TABLE a (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t)")
        database.execute(f"CREATE MATERIALIZED VIEW g AS {COUNTS}")
        yield database


def rows(db: Database, query: str) -> list[str]:
    return sorted(map(repr, db.execute(query).fetchall()))


def test_joins_of_windows_equal_their_queries_where_nothing_is_late(db: Database) -> None:
    names = {name: f"v{i}" for i, name in enumerate(QUERIES)}
    for name, query in QUERIES.items():
        db.execute(f"CREATE MATERIALIZED VIEW {names[name]} AS {query}")
    draw, second, number = random.Random(1), 0, 0
    for _ in range(30):
        values = []
        for _ in range(25):
            second, number = second + draw.randint(0, 3), number + 1
            time = f"TIMESTAMP '2024-01-01' + INTERVAL '{second} s'"
            values.append(f"({number}, {draw.randint(0, 25)}, {time})")
        db.execute(f"INSERT INTO a VALUES {', '.join(values)}")
    for name, query in QUERIES.items():
        assert rows(db, f"SELECT * FROM {names[name]}") == rows(db, query), name
    assert db.execute("SELECT * FROM streamsql.late_rows").fetchall() == []


@pytest.mark.parametrize("emit", ["", " EMIT ON WINDOW CLOSE"])
def test_a_window_and_the_one_before_it(db: Database, emit: str) -> None:
    db.execute(
        f"CREATE MATERIALIZED VIEW v AS SELECT x.c, y.c p FROM g x LEFT JOIN g y ON {BEFORE}{emit}"
    )
    for second in (1, 12, 14, 16, 25, 27, 38, 60):
        time = f"TIMESTAMP '2024-01-01' + INTERVAL '{second} s'"
        db.execute(f"INSERT INTO a VALUES ({second}, 1, {time})")
    open_window = [] if emit else [(1, None)]
    shown = [(1, None), (3, 1), (2, 3), (1, 2), *open_window]
    assert rows(db, "SELECT * FROM v") == sorted(map(repr, shown))
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


def test_a_key_that_goes_in_the_tick_of_new_rows_leaves_closed_windows_alone(
    db: Database,
) -> None:
    """A change of both sides in one tick is judged as each of them alone is."""
    db.execute("CREATE TABLE u (k INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, ws, c FROM g WHERE k IN (SELECT k FROM u)")
    at = "TIMESTAMP '2024-01-01' + INTERVAL '{} s'".format
    db.execute(f"INSERT INTO a VALUES (1, 3, {at(1)}), (2, 4, {at(25)})")
    db.execute("INSERT INTO u VALUES (3), (4)")  # too late for the window of 3
    db.execute(f"BEGIN; DELETE FROM u; INSERT INTO a VALUES (3, 4, {at(26)}); COMMIT")
    assert rows(db, "SELECT * FROM v") == []
    db.execute(
        f"BEGIN; INSERT INTO u VALUES (3), (4); INSERT INTO a VALUES (4, 4, {at(27)}); COMMIT"
    )
    assert rows(db, "SELECT k, c FROM v") == ["(4, 3)"]
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


TIMES = {
    "before": BEFORE,
    "after": "x.k = y.k AND y.ws = x.ws + INTERVAL '10 seconds'",
    "turned round": "x.k = y.k AND y.ws - INTERVAL '10 seconds' = x.ws",
    "end meets start": "x.k = y.k AND x.we = y.ws",
    "range": "x.k = y.k AND y.ws BETWEEN x.ws + INTERVAL '5 s' AND x.ws + INTERVAL '20 s'",
    "range alone": "y.ws BETWEEN x.ws AND x.ws + INTERVAL '20 s' AND x.k < y.k",
    "all before": "x.k = y.k AND y.ws < x.ws",
    "all after": "x.k = y.k AND y.ws > x.ws",
    "any": "x.k = y.k",
    "same": "x.k = y.k AND x.ws = y.ws",
}
JOINS = {
    kind: f"SELECT x.k, x.ws, x.c, y.ws w, y.c p FROM g x {kind} JOIN g y ON {{on}}"
    for kind in ("INNER", "LEFT", "RIGHT", "FULL")
} | {
    "no window": "SELECT x.k, x.ws, x.c, y.c p FROM g x JOIN g y ON {on}",
    "few columns": "SELECT x.c, y.c p FROM g x LEFT JOIN g y ON {on}",
    "exists": "SELECT x.k, x.ws, x.c FROM g x WHERE EXISTS (SELECT 1 FROM g y WHERE {on})",
    "not exists": "SELECT x.k, x.ws, x.c FROM g x WHERE NOT EXISTS (SELECT 1 FROM g y WHERE {on})",
    "a column": "SELECT x.k, x.ws, x.c, y.c p FROM (SELECT k, ws, we - INTERVAL '10 s' AS wt, we, c "
                "FROM g) x LEFT JOIN g y ON {on} AND x.wt < '2100-01-01'",
}  # fmt: skip
ENDLESS = {("all before", "RIGHT"), ("all before", "FULL"),
           *((on, join) for on in ("all after", "any")
             for join in ("LEFT", "FULL", "few columns", "a column")),
           ("all after", "not exists"), ("any", "RIGHT"), ("any", "not exists")}  # fmt: skip
"""Joins whose rows may get partners for ever."""
OTHERS = {
    "lag": "SELECT k, ws, c, lag(c) OVER (PARTITION BY k ORDER BY ws) l FROM g",
    "lag of all": "SELECT k, ws, c, lag(c) OVER (ORDER BY ws, k) l FROM g",
    "lag by end": "SELECT k, we, c, lag(c) OVER (PARTITION BY k ORDER BY we) l FROM g",
    "lag inline": f"SELECT k, ws, c, lag(c) OVER (ORDER BY ws, k) l FROM ({COUNTS}) z",
    "asof": "SELECT b.id, b.t, g.ws, g.c FROM b ASOF LEFT JOIN g ON b.k = g.k AND g.ws <= b.t",
    "asof by end": "SELECT b.id, b.t, g.ws, g.c FROM b ASOF LEFT JOIN g ON b.k = g.k "
                   "AND g.we <= b.t",
    "asof inner": "SELECT b.id, b.t, g.ws, g.c FROM b ASOF JOIN g ON b.k = g.k AND g.ws < b.t",
    "asof itself": "SELECT a.id, a.t, g.ws, g.c FROM a ASOF LEFT JOIN g ON a.k = g.k "
                   "AND g.ws <= a.t",
}  # fmt: skip


def shapes() -> dict[tuple[str, ...], str]:
    found = {(on, join): sql.format(on=TIMES[on]) for on in TIMES for join, sql in JOINS.items()}
    return found | {(name, ""): sql for name, sql in OTHERS.items()}


def second_table(db: Database) -> None:
    db.execute("CREATE TABLE b (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t)")


def put(db: Database, table: str, rows_: list[tuple[int, int, int]]) -> None:
    """Rows (id, key, second)."""
    values = (f"({i}, {k}, TIMESTAMP '2024-01-01' + INTERVAL '{s} s')" for i, k, s in rows_)
    db.execute(f"INSERT INTO {table} VALUES {', '.join(values)}")


@pytest.mark.parametrize("part", range(2))
def test_on_close_rows_come_once_whole_and_right(db: Database, part: int) -> None:
    second_table(db)
    made = {}
    for i, (shape, sql) in enumerate(shapes().items()):
        if i % 2 != part:
            continue
        for emit in ("", " EMIT ON WINDOW CLOSE"):
            name = f"v{i}{'f' if emit else ''}"
            if emit and shape in ENDLESS:
                with pytest.raises(FeatureNotSupported, match="changes its rows after that"):
                    db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}{emit}")
                continue
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}{emit}")
            made[name] = (shape, sql)
            if emit:
                db.execute(f"CREATE SUBSCRIPTION s{name} FROM {name} WITH (retention = '1 day')")
    draw, at, number = random.Random(part), {"a": 0, "b": 0}, 0
    for _ in range(25):
        table = draw.choice("ab")
        chunk = []
        for _ in range(draw.randint(1, 5)):
            at[table], number = at[table] + draw.randint(0, 5), number + 1
            chunk.append((number, draw.randint(1, 3), at[table]))
        put(db, table, chunk)
    for table in "ab":
        db.execute(f"ADVANCE WATERMARK FOR {table} TO '2024-01-02'")
    for name, (shape, sql) in made.items():
        assert rows(db, f"SELECT * FROM {name}") == rows(db, sql), (shape, name)
        if name[-1] == "f":
            db.execute(f"DECLARE c{name} SUBSCRIPTION CURSOR FOR s{name} SINCE begin()")
            given = db.execute(f"FETCH 5000 FROM c{name}").fetchall()
            assert all(weight == 1 for _, weight, *_ in given), shape
    assert db.execute("SELECT * FROM streamsql.late_rows").fetchall() == []


@pytest.mark.parametrize("emit", ["", " EMIT ON WINDOW CLOSE"])
def test_what_has_no_partner_to_come_is_freed(db: Database, monkeypatch, emit: str) -> None:
    monkeypatch.setattr(arrange, "FREE_FROM", 16)
    monkeypatch.setattr(condition_join, "FREE_FROM", 16)
    second_table(db)
    ons = ("before", "after", "range")
    kinds = ("FULL", "exists", "not exists")
    chosen = {(on, join): s for (on, join), s in shapes().items() if on in ons and join in kinds}
    for i, sql in enumerate(chosen.values()):
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {sql}{emit}")
    held = []
    for ten in range(60):
        for table in "ab":
            put(db, table, [(ten, k, 10 * ten + k) for k in range(3)])
        if ten in (29, 59):
            held.append({n.label: n.operator.state_rows() for n in db.engine.circuit})
    grown = {x: (held[0][x], n) for x, n in held[1].items() if n > max(60, 1.5 * held[0][x])}
    assert not grown


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN", "exists"])
@pytest.mark.parametrize("ws", ["x.ws", "x.ws + INTERVAL '10 s'"])
def test_rows_stay_as_long_as_the_other_side_may_be_late(monkeypatch, kind: str, ws: str) -> None:
    monkeypatch.setattr(arrange, "FREE_FROM", 4)
    monkeypatch.setattr(condition_join, "FREE_FROM", 4)
    with Database() as db:
        db.execute("CREATE TABLE a (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t)")
        db.execute(
            "CREATE TABLE b (id INT, k INT, t TIMESTAMP, WATERMARK FOR t AS t)"
            " WITH (allowed_lateness = '10 min')"
        )
        db.execute(f"CREATE VIEW x AS {COUNTS}; CREATE VIEW y AS {COUNTS.replace('(a,', '(b,')}")
        on = f"x.k = y.k AND y.ws = {ws}"
        sql = f"SELECT x.k, x.ws, x.c, y.c p FROM x {kind} y ON {on}"
        if kind == "exists":
            sql = f"SELECT k, ws, c FROM x WHERE EXISTS (SELECT 1 FROM y WHERE {on})"
        db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
        for ten in range(20):
            put(db, "a", [(ten, k, 10 * ten + k) for k in range(3)])
            put(db, "b", [(ten, 9, 10 * ten)])
        put(db, "b", [(100 + ten, k, 10 * ten + k) for ten in range(20) for k in range(3)])
        assert rows(db, "SELECT * FROM v") == rows(db, sql)
        assert db.execute("SELECT * FROM streamsql.late_rows").fetchall() == []
