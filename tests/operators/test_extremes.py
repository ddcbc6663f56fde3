"""MIN and MAX under deletes: the value a group shows, when its holder goes or a better one comes."""

from __future__ import annotations

import random

import pytest

import streamsql


def _view(rows: list[tuple[int, int, int | None]]) -> list[tuple[int, ...]]:
    found = []
    for k in sorted({k for _, k, _ in rows}):
        values = [v for _, group, v in rows if group == k and v is not None]
        found.append((k, min(values, default=None), max(values, default=None), len(values)))
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(4))
def test_extremes_follow_random_histories_of_ties_nulls_and_emptied_groups(seed: int) -> None:
    rng = random.Random(seed)
    rows: dict[int, tuple[int, int, int | None]] = {}
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT, v BIGINT)")
        db.execute(
            "CREATE MATERIALIZED VIEW m AS "
            "SELECT k, min(v) AS lo, max(v) AS hi, count(v) AS n FROM t GROUP BY k"
        )
        db.execute("CREATE MATERIALIZED VIEW top AS SELECT k, max(v / 2.0::double) AS hi FROM t "
                   "GROUP BY k")  # fmt: skip
        for step in range(40):
            texts = []
            for _ in range(rng.randint(1, 4)):
                gone = rng.sample(sorted(rows), min(len(rows), rng.randint(0, 6)))
                if step % 10 == 9:
                    gone = sorted(rows)
                if gone:
                    texts.append(f"DELETE FROM t WHERE id IN ({', '.join(map(str, gone))})")
                for i in gone:
                    del rows[i]
                new = [i for i in {rng.randint(0, 40) for _ in range(6)} if i not in rows]
                for i in new:
                    value = None if rng.random() < 0.2 else rng.randint(-4, 4)
                    rows[i] = (i, rng.randint(0, 4), value)
                if new:
                    listed = ", ".join(
                        f"({i}, {rows[i][1]}, {'NULL' if rows[i][2] is None else rows[i][2]})"
                        for i in new
                    )
                    texts.append(f"INSERT INTO t VALUES {listed}")
            if texts:
                db.execute("; ".join(texts))  # one tick
            expected = _view(list(rows.values()))
            assert db.execute("SELECT k, lo, hi, n FROM m ORDER BY k").fetchall() == expected
            halves = [(k, None if hi is None else hi / 2) for k, _, hi, _ in expected]
            assert db.execute("SELECT k, hi FROM top ORDER BY k").fetchall() == halves
        assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []
