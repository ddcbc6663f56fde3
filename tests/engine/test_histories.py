"""Random histories of DML, transactions, DDL and restarts: every view equals its query afterwards."""

from __future__ import annotations

import os
import random

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database
from tests.engine.test_recovery import abandon
from tests.state.faulty_filesystem import MemoryFileSystem

VIEWS = (
    "SELECT g, count(*) AS n, sum(v) AS s, min(v) AS lo FROM t GROUP BY g",
    "SELECT t.id, t.v, u.w FROM t JOIN u ON t.g = u.g",
    "SELECT DISTINCT v FROM t",
    "SELECT g FROM t UNION ALL SELECT g FROM u",
    "SELECT t.id FROM t LEFT JOIN u ON t.id = u.g WHERE u.g IS NULL",
    "SELECT id, v, rank() OVER (PARTITION BY g ORDER BY v, id) AS r FROM t",
    "SELECT g, v FROM t EXCEPT SELECT g, w FROM u",
)
SEEDS = 200 if os.environ.get("STREAMSQL_DEEP") else 3
OVER = "SELECT max(n) AS n, count(*) AS c FROM v0"


def statement(draw: random.Random) -> str:
    a, b, c = (draw.randint(0, 9) for _ in range(3))
    some = ", ".join(f"({draw.randint(0, 30)}, {draw.randint(0, 3)}, {draw.randint(0, 5)})"
                     for _ in range(draw.randint(1, 4)))  # fmt: skip
    return draw.choice([
        f"INSERT INTO t VALUES {some}",
        f"INSERT INTO t VALUES {some} ON CONFLICT DO NOTHING",
        f"INSERT INTO t VALUES ({a}, {b % 4}, {c}) ON CONFLICT (id) "
        "DO UPDATE SET v = excluded.v + t.v, g = NULL",
        f"INSERT INTO u VALUES ({b % 4}, {c}), ({b % 4}, {c}), (NULL, {a})",
        f"UPDATE t SET v = v + 1 WHERE g = {b % 4}",
        f"UPDATE t SET id = id + 50 WHERE id < {a}",
        f"UPDATE u SET w = {c} FROM t WHERE t.g = u.g AND t.id > {a}",
        f"DELETE FROM t WHERE id % 5 = {a % 5}",
        f"DELETE FROM u WHERE w = {c}",
        "INSERT INTO u SELECT g, v FROM t WHERE v > 3",
        "TRUNCATE u",
    ])  # fmt: skip


def check(db: Database, count: int) -> None:
    for name in [f"v{i}" for i in range(count)] + ["upon"]:
        assert db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall() == [], name


@pytest.mark.parametrize("seed", range(SEEDS))
def test_views_equal_their_queries_after_every_step(seed):
    draw = random.Random(seed)
    files = MemoryFileSystem(seed)
    db = Database("data", files=files)
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, g INT, v INT); CREATE TABLE u (g INT, w INT)")
    made = 0
    for step in range(40):
        if step % 6 == 0 and made < len(VIEWS):
            db.execute(f"CREATE MATERIALIZED VIEW v{made} AS {VIEWS[made]}")
            if made == 0:
                db.execute(f"CREATE MATERIALIZED VIEW upon AS {OVER}")
            made += 1
        try:
            if draw.random() < 0.3:
                db.execute("BEGIN")
                for _ in range(draw.randint(1, 4)):
                    db.execute(statement(draw))
                db.execute(draw.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
            else:
                db.execute(statement(draw))
        except StreamSqlError as error:
            assert error.sqlstate in ("23505", "21000"), error
            db.execute("ROLLBACK")
        check(db, made)
        if draw.random() < 0.07:
            if draw.random() < 0.5:
                db.close()
            else:
                abandon(db)
                files.crash()
            db = Database("data", files=files)
            check(db, made)
    db.execute("DELETE FROM t; DELETE FROM u")
    for node in db.engine.circuit:
        assert node.operator.state_rows() <= 1, node.operator.name  # a global aggregate keeps one
    db.close()
