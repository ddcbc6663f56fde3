"""When an operator fails, all views that do not stand on it are what they would have been."""

from __future__ import annotations

import pytest

from streamsql.engine.database import Database
from tests.state.faulty_filesystem import MemoryFileSystem

SETUP = """
CREATE TABLE a (k INT, t TIMESTAMP, v INT, WATERMARK FOR t AS t - INTERVAL '2 s');
CREATE TABLE b (k INT, t TIMESTAMP, w INT, WATERMARK FOR t AS t);
CREATE TABLE d (k INT PRIMARY KEY, name TEXT);
"""

VIEWS = {
    "closed": "SELECT k, window_start, sum(v) AS s FROM TUMBLE(a, t, INTERVAL '10 s')"
              " GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE",
    "opened": "SELECT k, window_start, sum(v) AS s FROM TUMBLE(a, t, INTERVAL '10 s')"
              " GROUP BY k, window_start, window_end",
    "over_closed": "SELECT k, max(s) AS m FROM closed GROUP BY k",
    "hops": "SELECT window_start, count(*) AS n, max(v) AS m"
            " FROM HOP(a, t, INTERVAL '5 s', INTERVAL '10 s')"
            " GROUP BY window_start, window_end EMIT ON WINDOW CLOSE",
    "sessions": "SELECT k, window_start, window_end, count(*) AS n"
                " FROM SESSION(a PARTITION BY k, t, INTERVAL '4 s')"
                " GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE",
    "near": "SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k"
            " AND b.t BETWEEN a.t - INTERVAL '3 s' AND a.t + INTERVAL '3 s'",
    "near_left": "SELECT a.k, a.t, a.v, b.w FROM a LEFT JOIN b ON a.k = b.k"
                 " AND b.t BETWEEN a.t - INTERVAL '3 s' AND a.t EMIT ON WINDOW CLOSE",
    "named": "SELECT a.k, a.v, d.name FROM a JOIN d ON a.k = d.k",
    "named_left": "SELECT a.k, a.v, d.name FROM a LEFT JOIN d ON a.k = d.k",
    "all_three": "SELECT x.k, x.v, y.w, d.name FROM a x JOIN b y ON x.k = y.k JOIN d ON x.k = d.k",
    "asof": "SELECT a.k, a.t, a.v, b.w FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.t <= a.t"
            " EMIT ON WINDOW CLOSE",
    "ranked": "SELECT k, v FROM (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC)"
              " AS n FROM a) WHERE n <= 2",
    "summed": "SELECT k, t, sum(v) OVER (PARTITION BY k ORDER BY t) AS s FROM a",
    "distinct_v": "SELECT DISTINCT v FROM a",
    "chain": "SELECT x.k, x.s, d.name FROM opened x JOIN d ON x.k = d.k",
}  # fmt: skip

STEPS = (
    "INSERT INTO d VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO a VALUES (1, '2024-01-01 00:00:01', 5), (2, '2024-01-01 00:00:04', 7)",
    "INSERT INTO b VALUES (1, '2024-01-01 00:00:02', 50), (2, '2024-01-01 00:00:09', 70)",
    "INSERT INTO a VALUES (1, '2024-01-01 00:00:12', 6), (1, '2024-01-01 00:00:13', 8)",
    "INSERT INTO a VALUES (1, '2024-01-01 00:00:02', 100), (2, '2024-01-01 00:00:11', 3)",
    "DELETE FROM a WHERE v = 5",  # what is closed keeps it
    "BEGIN; INSERT INTO b VALUES (1, '2024-01-01 00:00:14', 51); UPDATE d SET name = 'eins'"
    " WHERE k = 1; INSERT INTO a VALUES (2, '2024-01-01 00:00:24', 9); COMMIT",
    "UPDATE a SET v = 4 WHERE v = 3",
    "INSERT INTO b VALUES (2, '2024-01-01 00:00:33', 71); INSERT INTO d VALUES (3, 'three')",
    "INSERT INTO a VALUES (1, '2024-01-01 00:00:35', 1), (1, '2024-01-01 00:00:03', 2)",
    "DELETE FROM a WHERE v = 8",
)
FAILS_AT = 4


def opened(files: MemoryFileSystem) -> Database:
    db = Database("data", files=files)
    if not db.engine.views:
        db.execute(SETUP)
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


def picture(db: Database, names: list[str]) -> dict[str, list[tuple[object, ...]]]:
    """Rows and late rows of these views."""
    shown = {n: sorted(db.execute(f"SELECT * FROM {n}").fetchall(), key=repr) for n in names}
    late = db.execute("SELECT view, source, row, event_time, watermark, version "
                      "FROM streamsql.late_rows").fetchall()  # fmt: skip
    shown["late"] = sorted((r for r in late if r[0] in names), key=repr)
    return shown


def states(db: Database) -> dict[str, object]:
    """What the operators keep, by label, and their watermarks."""
    circuit = db.engine.circuit
    kept = {
        label: {name: table.to_pylist() for name, table in state.items()}
        for label, state in circuit.save().items()
    }
    return {"watermarks": circuit.watermarks(), **kept}


def healthy_without(db: Database, label: str) -> list[str]:
    """The views that do not stand on a node."""
    circuit = db.engine.circuit
    node = circuit.find(label)
    assert node is not None
    return [
        v.relation.name for v in db.engine.views.values() if node not in circuit.cone(v.node)
    ]  # fmt: skip


def inject(db: Database, label: str, where: str) -> list[str]:
    """Make a node raise in its next step, before it, behind it, or at the end of the tick; gets an
    entry when that happens."""
    circuit = db.engine.circuit
    node = circuit.nodes[circuit.find(label)]
    operator, happened = node.operator, []
    step, commit = operator.step, operator.commit

    def explode(*args: object) -> None:
        happened.append(where)
        if where == "behind":
            step(*args)
        if where == "commit":
            commit()
        raise RuntimeError("boom")

    if where == "commit":
        node.commits = True
        operator.commit = explode
    elif where == "watermark":
        node.follows = False
        operator.advance_watermark = explode
    else:
        operator.step = explode
    return happened


@pytest.fixture(scope="module")
def undisturbed():
    """After each statement: rows of the views, states of the operators; at the end, reopened."""
    files = MemoryFileSystem()
    db = opened(files)
    seen = []
    for sql in STEPS:
        db.execute(sql)
        seen.append((picture(db, list(VIEWS)), states(db)))
    labels = [n.label for n in db.engine.circuit if n.inputs]
    db.close()
    with Database("data", files=files) as again:
        last = picture(again, list(VIEWS))
    assert last == seen[-1][0]
    assert last["closed"] and last["sessions"] and last["late"]
    return seen, labels


def assert_same_rows(db, healthy, seen) -> None:
    expected, _ = seen
    found = picture(db, healthy)
    assert {n: found[n] for n in healthy} == {n: expected[n] for n in healthy}
    assert found["late"] == [r for r in expected["late"] if r[0] in healthy]


def assert_same_states(db, seen) -> None:
    _, kept = seen
    now = states(db)
    assert now.pop("watermarks") == {
        k: v for k, v in kept["watermarks"].items() if k in db.engine.circuit.watermarks()
    }
    assert now == {k: v for k, v in kept.items() if k in now}


@pytest.mark.parametrize("part", range(4))
def test_healthy_views_are_what_they_would_have_been(undisturbed, part):
    seen, labels = undisturbed
    places = ("before", "behind", "commit", "watermark")
    for i, label in enumerate(labels):
        if i % 4 != part:
            continue
        db = opened(MemoryFileSystem())
        happened: list[str] = []
        for at, sql in enumerate(STEPS):
            if at == FAILS_AT - i % 3:
                healthy = healthy_without(db, label)
                happened = inject(db, label, places[(i // 4 + part) % 4])
            db.execute(sql)
            if at >= FAILS_AT and happened:
                assert_same_rows(db, healthy, seen[at])
        assert happened
        assert_same_states(db, seen[-1])
        failed = db.execute("SELECT relation FROM streamsql.jobs WHERE state = 'failed'").fetchall()
        assert {n for (n,) in failed} == VIEWS.keys() - set(healthy)
        db.close()


@pytest.mark.parametrize("name", ["opened", "near", "named"])
def test_healthy_views_keep_what_is_final_over_a_restart(undisturbed, name):
    seen, _ = undisturbed
    files = MemoryFileSystem()
    db = opened(files)
    for at, sql in enumerate(STEPS):
        if at == FAILS_AT:
            view = db.engine.views[db.engine.catalog.get("public", name).oid]
            label = db.engine.circuit.nodes[view.node].label
            healthy = healthy_without(db, label)
            assert inject(db, label, "behind") == []
        db.execute(sql)
    db.close()
    with Database("data", files=files) as again:
        assert_same_rows(again, healthy, seen[-1])
        failed = again.execute("SELECT count(*) FROM streamsql.jobs WHERE state = 'failed'")
        assert failed.fetchall() == [(0,)]  # it is tried again
        assert again.execute(f"SELECT count(*) > 0 FROM {name}").fetchall() == [(True,)]
        again.execute("INSERT INTO a VALUES (1, '2024-01-01 00:01:00', 1)")
        with Database("other", files=MemoryFileSystem()) as plain:
            plain.execute(SETUP)
            for n, query in VIEWS.items():
                plain.execute(f"CREATE MATERIALIZED VIEW {n} AS {query}")
            for sql in (*STEPS, "INSERT INTO a VALUES (1, '2024-01-01 00:01:00', 1)"):
                plain.execute(sql)
            assert_same_rows(again, healthy, (picture(plain, list(VIEWS)), None))
