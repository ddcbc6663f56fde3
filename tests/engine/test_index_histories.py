"""Random queries over a table with indexes and one without, under a random history: equal."""

from __future__ import annotations

import random

import pytest

CONDITIONS = (
    "a = {i}", "a IN ({i}, {j})", "a > {i}", "a BETWEEN {i} AND {j}", "b = '{s}'", "b LIKE '{s}%'",
    "b IS NULL", "a IS NULL", "c = {f}", "c < {f}", "c >= {f} AND c <= {g}", "a % 3 = {k}",
    "d > '2024-01-0{n}'", "d = '2024-01-0{n}'", "id = {m}", "id IN ({m}, {o})", "b <> '{s}'",
    "a IS NOT DISTINCT FROM {i}", "a IS NOT DISTINCT FROM NULL", "b >= '{s}'",
)  # fmt: skip
ORDERS = ("", "", "ORDER BY a, b, id", "ORDER BY c, id LIMIT 4", "ORDER BY a DESC, b DESC, id DESC"
          " LIMIT 5", "ORDER BY b, c, id LIMIT 3")  # fmt: skip


class Chance:
    """What a history is drawn from."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, below: int) -> int:
        return self.random.randrange(below)

    def maybe(self, value: str) -> str:
        return "NULL" if self.number(6) == 0 else value

    def row(self, id_: int) -> str:
        text = self.random.choice("xyz") + self.random.choice(("", "a", "b"))
        values = (str(self.number(8)), f"'{text}'", str(self.number(50) / 10),
                  f"'2024-01-0{1 + self.number(7)}'")  # fmt: skip
        return f"({id_}, {', '.join(self.maybe(v) for v in values)})"

    def condition(self) -> str:
        parts = self.random.choices(CONDITIONS, k=self.random.choice((1, 1, 2, 3)))
        return " AND ".join(
            p.format(
                i=self.number(8), j=self.number(8), s=self.random.choice("xyz"),
                f=self.number(50) / 10, g=self.number(50) / 10, k=self.number(3),
                n=1 + self.number(7), m=self.number(150), o=self.number(150),
            )
            for p in parts
        )  # fmt: skip

    def write(self) -> str | None:
        kind = self.random.random()
        if kind < 0.3:
            rows = ", ".join(self.row(i) for i in self.random.sample(range(150), 12))
            return f"INSERT INTO T VALUES {rows} ON CONFLICT (id) DO NOTHING"
        if kind < 0.4:
            return f"DELETE FROM T WHERE {self.condition()}"
        if kind < 0.55:
            a, c = self.maybe(str(self.number(8))), self.number(50) / 10
            return f"UPDATE T SET a = {a}, c = {c} WHERE {self.condition()}"
        return None


@pytest.mark.parametrize("seed", [1, 2])
def test_indexed_and_bare_tables_answer_alike(db, seed):
    for name in ("indexed", "bare"):
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b TEXT, c NUMERIC(6, 1),"
                   " d TIMESTAMP)")  # fmt: skip
    db.execute("CREATE INDEX i1 ON indexed (a, b); CREATE INDEX i2 ON indexed (b, c, id);"
               "CREATE INDEX i3 ON indexed ((a % 3), d); CREATE INDEX i4 ON indexed (c, id)")  # fmt: skip
    chance, session, versions, used = Chance(seed), db.session(), [], 0
    for _ in range(90):
        write = chance.write()
        if write is not None:
            if session.transaction is None and chance.number(8) == 0:
                session.execute("BEGIN")
            elif session.transaction is not None and chance.number(3) == 0:
                session.execute(chance.random.choice(("COMMIT", "ROLLBACK")))
            for name in ("indexed", "bare"):
                session.execute(write.replace(" T ", f" {name} "))
            if session.transaction is None:
                versions.append(db.version)
        of = ""
        if versions and chance.number(5) == 0:
            of = f" FOR SYSTEM_TIME AS OF {chance.random.choice(versions[-20:])}"
        order = chance.random.choice(ORDERS)
        sql = f"SELECT * FROM indexed{of} WHERE {chance.condition()} {order}"
        found = session.execute(sql).fetchall()
        want = session.execute(sql.replace("indexed", "bare")).fetchall()
        if order:
            assert found == want, sql
        else:
            assert sorted(found, key=repr) == sorted(want, key=repr), sql
        used += "Index Lookup" in str(session.execute(f"EXPLAIN {sql}").fetchall())
        join = (
            "SELECT l.id, r.id FROM bare l JOIN indexed r ON r.a = l.a AND r.b = l.b"
            f" WHERE l.id = {chance.number(150)}"
        )
        want = session.execute(join.replace("indexed", "bare")).fetchall()
        assert sorted(session.execute(join).fetchall()) == sorted(want), join
    assert used > 45
