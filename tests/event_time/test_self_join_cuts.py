"""A table joined with itself by a span of time: how its rows are cut into statements says nothing.

Every row is two changes of one tick; of a pair of two new rows the later one made it.
"""

from __future__ import annotations

import random

import pytest

import streamsql

NEAR = "x.k = y.k AND y.t BETWEEN x.t - INTERVAL '3 s' AND x.t + INTERVAL '3 s' AND x.id <> y.id"
PAIRS = f"SELECT x.t, y.id AS j FROM e x {{}} JOIN e y ON {NEAR}"
COUNTED = "SELECT window_start, count(*) AS n FROM TUMBLE(({}), t, INTERVAL '5 s') GROUP BY 1"
SHAPES = {
    "inner": f"SELECT x.id AS i, y.id AS j FROM e x JOIN e y ON {NEAR} EMIT ON WINDOW CLOSE",
    "left": f"SELECT x.id AS i, y.id AS j FROM e x LEFT JOIN e y ON {NEAR} EMIT ON WINDOW CLOSE",
    "full": f"SELECT x.id AS i, y.id AS j FROM e x FULL JOIN e y ON {NEAR} EMIT ON WINDOW CLOSE",
    "exists": f"SELECT x.id FROM e x WHERE EXISTS (SELECT 1 FROM e y WHERE {NEAR}) "
    "EMIT ON WINDOW CLOSE",
    "not exists": f"SELECT x.id FROM e x WHERE NOT EXISTS (SELECT 1 FROM e y WHERE {NEAR}) "
    "EMIT ON WINDOW CLOSE",
    "windows": COUNTED.format(PAIRS.format("")),
    "windows, left": COUNTED.format(PAIRS.format("LEFT")),
}
Row = tuple[int, int, int]  # id, key, second


def contents(sql: str, parts: list[list[Row]]) -> list[tuple[object, ...]]:
    """The view after these statements; a view made now and VERIFY say the same."""
    with streamsql.connect() as db:
        db.execute(
            "CREATE TABLE e (id INT PRIMARY KEY, k INT, t TIMESTAMP, "
            "WATERMARK FOR t AS t - INTERVAL '4 s')"
        )
        db.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
        for part in parts:
            rows = (f"({i}, {k}, '2024-01-01 00:00:{s:02}')" for i, k, s in part)
            db.execute(f"INSERT INTO e VALUES {', '.join(rows)}")
        db.execute(f"CREATE MATERIALIZED VIEW later AS {sql}")
        found = sorted(db.execute("SELECT * FROM v").fetchall(), key=str)
        assert found == sorted(db.execute("SELECT * FROM later").fetchall(), key=str)
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
        return found


def cuts(rows: list[Row]) -> list[list[list[Row]]]:
    """Row by row, three by three, all at once."""
    return [[rows[i : i + n] for i in range(0, len(rows), n)] for n in (1, 3, len(rows))]


@pytest.mark.parametrize("shape", SHAPES)
def test_cut_into_statements_has_no_say(shape: str) -> None:
    for seed in range(3):
        rnd = random.Random(seed)
        at, rows = 10, []
        for i in range(12):
            at += rnd.randint(0, 4)
            rows.append(
                (i, rnd.randint(1, 2), min(59, max(0, at - rnd.choice([0, 0, 0, 3, 6, 9]))))
            )
        first, *others = [contents(SHAPES[shape], parts) for parts in cuts(rows)]
        assert all(other == first for other in others), (seed, rows)


def test_lonely_row_stays_where_its_first_match_is_too_late() -> None:
    for parts in cuts([(24, 2, 14), (25, 1, 23), (26, 2, 17)]):
        assert contents(SHAPES["left"], parts) == [(24, None)]
        assert contents(SHAPES["not exists"], parts) == [(24,)]
