"""Views that are made over filled tables: neither what other views are there nor VERIFY says
otherwise than the tables' rows in their order of arrival."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

import streamsql
from streamsql.engine.database import Database

FIRST = int(os.environ.get("STREAMSQL_FIRST_LIFE", "0"))
BELOW = {
    "in itself": "SELECT ts FROM a WHERE k IN (SELECT k + 1 FROM a)",
    "not in itself": "SELECT ts FROM a WHERE k NOT IN (SELECT k + 1 FROM a)",
    "exists": "SELECT ts FROM a WHERE EXISTS (SELECT FROM a AS x WHERE x.k = a.k + 1)",
    "not exists": "SELECT ts FROM a WHERE NOT EXISTS (SELECT FROM a AS x WHERE x.k = a.k + 1)",
    "in another": "SELECT ts FROM a WHERE k IN (SELECT k FROM b)",
    "not in another": "SELECT ts FROM a WHERE k NOT IN (SELECT k FROM b WHERE k > 2)",
    "intersect itself": "SELECT ts FROM a INTERSECT SELECT ts FROM a WHERE k > 2",
    "intersect all": "SELECT ts FROM a INTERSECT ALL SELECT ts FROM a WHERE k > 2",
    "except itself": "SELECT ts FROM a EXCEPT SELECT ts FROM a WHERE k > 2",
    "except all": "SELECT ts FROM a EXCEPT ALL SELECT ts FROM a WHERE k > 2",
    "intersect": "SELECT ts FROM a INTERSECT SELECT ts FROM b",
    "except": "SELECT ts FROM a EXCEPT SELECT ts FROM b",
    "self join": "SELECT x.ts FROM a AS x JOIN a AS y ON x.k = y.k + 1",
    "left self join": "SELECT x.ts FROM a AS x LEFT JOIN a AS y ON x.k = y.k + 1",
    "union itself": "SELECT ts FROM a UNION SELECT ts FROM a WHERE k > 2",
    "union all itself": "SELECT ts FROM a UNION ALL SELECT ts FROM a WHERE k > 2",
    "distinct": "SELECT DISTINCT ts, k FROM a",
    "group by": "SELECT ts, count(*) AS n FROM a GROUP BY ts",
    "more than average": "SELECT ts FROM a WHERE k > (SELECT avg(k) FROM a)",
    "distinct keys": "SELECT a.ts FROM a JOIN (SELECT DISTINCT k FROM a) x ON a.k = x.k + 1",
}  # fmt: skip
ABOVE = (
    "SELECT window_start, count(*) AS n FROM TUMBLE(({}), ts, INTERVAL '20 s') "
    "GROUP BY window_start, window_end"
)


class History:
    """One seed's writes, whatever views stand by."""

    def __init__(self, db: Database, seed: int) -> None:
        self.db, self.draw, self.step = db, random.Random(seed), 0
        for table in "ab":
            db.execute(f"CREATE TABLE {table} (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")

    def write(self, steps: int) -> None:
        draw = self.draw
        for _ in range(steps):
            table, at = draw.choice("aab"), 9 * self.step
            self.step += 1
            rows = (
                f"({draw.randint(1, 4)}, {moment(max(0, at + draw.randint(-60, 9)))})"
                for _ in range(3)
            )
            self.db.execute(f"INSERT INTO {table} VALUES {', '.join(rows)}")
            chance, key = draw.random(), draw.randint(1, 4)
            chosen = f"WHERE k = {key} AND ts > {moment(max(0, at - 40))}"
            if chance < 0.2:
                self.db.execute(f"DELETE FROM {table} {chosen}")
            elif chance < 0.35:
                self.db.execute(f"UPDATE {table} SET k = k % 4 + 1 {chosen}")


def moment(seconds: int) -> str:
    return f"TIMESTAMP '2024-01-01 00:{seconds // 60:02}:{seconds % 60:02}'"


def rows(db: Database, view: str) -> Counter[tuple[object, ...]]:
    return Counter(map(tuple, db.execute(f"SELECT * FROM {view}").fetchall()))


@pytest.mark.parametrize(("seed", "below"), list(enumerate(BELOW.values(), FIRST)), ids=BELOW)
def test_view_made_later_is_what_it_is_without_other_views(seed: int, below: str) -> None:
    with streamsql.connect() as db, streamsql.connect() as alone:
        history, same = History(db, seed), History(alone, seed)
        db.execute(f"CREATE MATERIALIZED VIEW before AS {ABOVE.format(below)}")
        db.execute(f"CREATE MATERIALIZED VIEW below AS {below}")
        db.execute(f"CREATE MATERIALIZED VIEW above AS {ABOVE.format('SELECT * FROM below')}")
        for h in (history, same):
            h.write(12)
            h.db.execute(f"CREATE MATERIALIZED VIEW after AS {ABOVE.format(below)}")
        db.execute(f"CREATE MATERIALIZED VIEW above_after AS {ABOVE.format('TABLE below')}")
        for steps in (0, 6):
            history.write(steps)
            same.write(steps)
            assert rows(db, "after") == rows(alone, "after")
            for view in ("before", "below", "above", "after", "above_after"):
                assert not db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall(), view
            assert not alone.execute("VERIFY MATERIALIZED VIEW after").fetchall()
        spoil(db, "after")


def spoil(db: Database, name: str) -> None:
    """All rows go from a view: VERIFY finds each of them."""
    (view,) = (v for v in db.engine.views.values() if v.relation.name == name)
    right = view.contents()
    view.store.clear()
    lost = db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall()
    assert [weight for weight, _ in lost] == [-1] * right.num_rows
    assert lost
