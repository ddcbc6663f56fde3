"""Versions against a model: every relation at every version of random histories.

A history is made of transactions (rolled back and to savepoints too), ALTER TABLE, new definitions
of a view, checkpoints, clean restarts, and crashes in the middle of a write or a checkpoint. A
dictionary remembers what every relation held at every version, as computed here; reads AS OF each
version and time, joins of several versions, SUBSCRIBE from each version folded up to each later
one, and a subscriber that goes on after crashes have to agree with it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import closing

import pytest

from streamsql.core.clock import ManualClock
from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database
from tests.engine.test_recovery import abandon
from tests.state.faulty_filesystem import Crash, MemoryFileSystem

DEEP = bool(os.environ.get("STREAMSQL_DEEP"))
SEEDS, STEPS = (150, 80) if DEEP else (2, 36)

SETUP = """
    SET streamsql.retention = '1 day';
    CREATE TABLE t (id INT PRIMARY KEY, v INT);
    CREATE TABLE bag (k INT);
    CREATE MATERIALIZED VIEW m AS SELECT v, count(*) AS n, sum(id) AS s FROM t GROUP BY v;
    CREATE MATERIALIZED VIEW j AS SELECT t.v, bag.k FROM bag JOIN t ON bag.k = t.id;
    CREATE MATERIALIZED VIEW r AS SELECT k FROM bag;
    CREATE VIEW p AS SELECT m.v, m.n + 1 AS more FROM m WHERE m.n > 1;
    CREATE INDEX by_v ON t (v);
    CREATE SUBSCRIPTION sm FROM m WITH (retention = '9 days');
    CREATE SUBSCRIPTION sj FROM j WITH (retention = '9 days')
"""
RELATIONS = ("t", "bag", "m", "j", "r", "p")
START_US = 1_700_000_000_000_000
R_QUERIES = {  # definitions that the view r gets in turn
    "plain": "SELECT k FROM bag",
    "distinct": "SELECT DISTINCT k FROM bag",
    "count": "SELECT k, count(*) AS n FROM bag GROUP BY k",
}


class Content:
    """One state of the tables: t is id -> column -> value, bag counts its rows."""

    def __init__(self, t=None, bag=None):
        self.t = {k: dict(row) for k, row in (t or {}).items()}
        self.bag = Counter(bag or {})

    def copy(self):
        return Content(self.t, self.bag)


class Model:
    """What every relation holds, computed from the tables; `columns` of t as they are now."""

    def __init__(self):
        self.columns = ["id", "v"]
        self.now = Content()
        self.r = "plain"
        self.versions = {}  # version -> (content, kind of r, time)

    def note(self, version, us):
        self.versions.setdefault(version, (self.now.copy(), self.r, us))

    def at(self, version):
        """(content, kind of r) of a version."""
        known = max(v for v in self.versions if v <= version)
        content, kind, _ = self.versions[known]
        return content, kind

    def rows(self, name, version):
        content, kind = self.at(version)
        t, bag = content.t, content.bag
        if name == "t":
            return Counter(tuple(row[c] for c in self.columns) for row in t.values())
        if name == "bag":
            return Counter({(k,): n for k, n in bag.items() if n})
        if name == "j":
            return Counter({(t[k]["v"], k): n for k, n in bag.items() if n and k in t})
        if name == "r":
            return self.rows_of_r(bag, kind)
        groups = {}
        for row in t.values():
            groups.setdefault(row["v"], []).append(row["id"])
        if name == "m":
            return Counter((v, len(ids), sum(ids)) for v, ids in groups.items())
        return Counter((v, len(ids) + 1) for v, ids in groups.items() if len(ids) > 1)

    def rows_of_r(self, bag, kind):
        """In the columns that r has now: k, and n if it counts now."""
        rows = Counter()
        for k, n in bag.items():
            if n:
                shown = (k,) if self.r != "count" else (k, n if kind == "count" else None)
                rows[shown] = n if kind == "plain" else 1
        return rows


class Life:
    """A database, its model, and a subscriber of each subscription."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.files = MemoryFileSystem(seed)
        self.clock = ManualClock(START_US)
        self.model = Model()
        self.db = self.opened()
        self.db.execute(SETUP)
        self.first = self.db.version
        self.model.note(self.db.version, self.clock.now_us())
        self.seen = {name: (self.first, Counter()) for name in ("sm", "sj")}
        self.fresh = 0

    def opened(self):
        return Database("d", clock=self.clock, files=self.files)

    # --- one step -----------------------------------------------------------------------------
    def step(self):
        self.clock.advance_to(self.clock.now_us() + self.chance.randrange(1, 9) * 1_000_000)
        kinds = {self.write: 60, self.transaction: 12, self.alter: 8, self.redefine: 4,
                 self.restart: 4, self.crash: 6, self.checkpoint: 6}  # fmt: skip
        [kind] = self.chance.choices(list(kinds), list(kinds.values()))
        kind()
        self.model.note(self.db.version, self.clock.now_us())
        for name in self.seen:
            if self.chance.random() < 0.3:
                self.follow(name)

    def change(self, content):
        """(a statement, what the tables hold after it)."""
        after, chance = content.copy(), self.chance
        row, v = chance.randrange(8), chance.randrange(4)
        kind = chance.randrange(6)
        if kind == 0:
            after.t.setdefault(row, self.new_row(row, v))
            text = f"INSERT INTO t (id, v) VALUES ({row}, {v}) ON CONFLICT (id) DO NOTHING"
        elif kind == 1:
            after.t = {k: r for k, r in after.t.items() if k != row}
            text = f"DELETE FROM t WHERE id = {row}"
        elif kind == 2:
            for k, r in after.t.items():
                if k > row:
                    r["v"] = (r["v"] + 1) % 4
            text = f"UPDATE t SET v = (v + 1) % 4 WHERE id > {row}"
        elif kind == 3:
            n = chance.randrange(1, 3)
            after.bag[row] += n
            text = f"INSERT INTO bag VALUES {', '.join([f'({row})'] * n)}"
        elif kind == 4:
            del after.bag[row]
            text = f"DELETE FROM bag WHERE k = {row}"
        else:
            old = after.t.pop(row, None)
            if old is not None:
                after.t[row + 10] = {**old, "id": row + 10}
            else:
                after.t.pop(row + 10, None)
            text = (
                f"DELETE FROM t WHERE id = {row + 10}; UPDATE t SET id = id + 10 WHERE id = {row}"
            )
        return text, after

    def new_row(self, row, v):
        """A row of t: other columns have their default, which is their number."""
        given = {"id": row, "v": v}
        return {c: given[c] if c in given else int(c[1:]) for c in self.model.columns}

    def write(self):
        text, self.model.now = self.change(self.model.now)
        self.db.execute(f"BEGIN; {text}; COMMIT" if ";" in text else text)

    def transaction(self):
        session, content = self.db.session(), self.model.now
        session.execute("BEGIN")
        for _ in range(self.chance.randrange(1, 4)):
            text, after = self.change(content)
            if self.chance.random() < 0.3:
                session.execute(f"SAVEPOINT a; {text}; ROLLBACK TO a")
            else:
                session.execute(text)
                content = after
        if self.chance.random() < 0.3:
            session.execute("ROLLBACK")
        else:
            session.execute("COMMIT")
            self.model.now = content
        session.close()

    def alter(self):
        """Columns come and go, in all versions."""
        model = self.model
        others = [c for c in model.columns if c not in ("id", "v")]
        if others and self.chance.random() < 0.5:
            gone = self.chance.choice(others)
            model.columns.remove(gone)
            self.db.execute(f"ALTER TABLE t DROP COLUMN {gone}")
            return
        self.fresh += 1
        name = f"c{self.fresh}"
        model.columns.append(name)
        for content in (model.now, *(c for c, _, _ in model.versions.values())):
            for row in content.t.values():
                row[name] = self.fresh
        self.db.execute(f"ALTER TABLE t ADD COLUMN {name} INT DEFAULT {self.fresh}")

    def redefine(self):
        self.model.r = self.chance.choice(list(R_QUERIES))
        # what a view counted before it did not count once is not known any more
        if self.model.r != "count":
            for version, (content, kind, us) in self.model.versions.items():
                self.model.versions[version] = content, "distinct" if kind == "count" else kind, us
        self.db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW r AS {R_QUERIES[self.model.r]}")

    def checkpoint(self):
        self.db.engine.call(self.db.engine.durability.checkpoint)

    def restart(self):
        self.db.close()
        self.db = self.opened()

    def crash(self):
        """The power fails: now, or in the middle of a write or a checkpoint."""
        version, after = self.db.version, None
        kind = self.chance.randrange(3)
        if kind:
            self.files.fail_at = self.files.operations + self.chance.randrange(1, 30)
            try:
                if kind == 1:
                    self.checkpoint()
                else:
                    for _ in range(8):
                        text, after = self.change(self.model.now)
                        self.db.execute("BEGIN; " + text + "; COMMIT")
                        self.model.now, after = after, None
                        self.model.note(self.db.version, self.clock.now_us())
                        version = self.db.version
            except (Crash, StreamSqlError):
                pass
            self.files.fail_at = 0
        abandon(self.db)
        self.files.crash()
        self.db = self.opened()
        assert self.db.version >= version
        if self.db.version > version:  # it was durable, and nobody had been told
            assert after is not None
            self.model.now = after

    # --- the subscriber -----------------------------------------------------------------------
    def follow(self, name):
        """Take some changes; those of a version that is not whole yet are left for next time."""
        last, bag = self.seen[name]
        with closing(self.db.session()) as session:
            session.execute(f"DECLARE c SUBSCRIPTION CURSOR FOR {name} SINCE {last}")
            count = self.chance.choice(("ALL", "5", "9"))
            rows = session.execute(f"FETCH {count} FROM c").fetchall()
        cut = count != "ALL" and len(rows) == int(count)
        whole = [r for r in rows if not cut or r[0] != rows[-1][0]]
        changes = {}
        for version, weight, *row in whole:
            changes.setdefault(version, Counter())[tuple(row)] += weight
        assert list(changes) == sorted(changes) and all(v > last for v in changes)
        for version, change in changes.items():
            # exactly what this version did, so that nothing is missing and nothing came twice
            before, now = (self.model.rows(name[1:], v) for v in (version - 1, version))
            assert {k: n for k, n in change.items() if n} == difference(now, before)
            bag = apply(bag, change)
            assert bag == now
            last = version
        self.seen[name] = last, bag

    # --- the past -----------------------------------------------------------------------------
    def check(self):
        db, model, newest = self.db, self.model, self.db.version
        oldest = self.first
        for version in range(oldest, newest + 1):
            for name in RELATIONS:
                sql = f"SELECT * FROM {name} FOR SYSTEM_TIME AS OF {version}"
                assert Counter(db.execute(sql).fetchall()) == model.rows(name, version), sql
        for name in ("t", "bag", "m", "j", "r"):
            for version in range(oldest, newest + 1, self.chance.randrange(1, 9)):
                self.check_stream(name, version)
        for _ in range(15):
            self.check_join(*(self.chance.randrange(oldest, newest + 1) for _ in range(3)))
        times = [us for _, _, us in model.versions.values()]
        for _ in range(10):
            us = self.chance.choice(times) - self.chance.randrange(2) * 400_000
            us = max(us, times[0])
            at = max(v for v, (_, _, made) in model.versions.items() if made <= us)
            sql = f"SELECT * FROM t FOR SYSTEM_TIME AS OF to_timestamp({us / 1e6:.6f})"
            assert Counter(db.execute(sql).fetchall()) == model.rows("t", at)

    def check_stream(self, name, version):
        """SUBSCRIBE from a version, folded up to each later one."""
        bag, at = Counter(), version
        stream = self.db.execute(f"SUBSCRIBE {name} AS OF {version} UP TO {self.db.version}")
        for found, weight, *row in stream.fetchall():
            while at < found:
                assert bag == self.model.rows(name, at), (name, version, at)
                at += 1
            bag = apply(bag, Counter({tuple(row): weight}), strict=False)
        for later in range(at, self.db.version + 1):
            assert +bag == self.model.rows(name, later), (name, version, later)

    def check_join(self, a, b, c):
        """Three relations, each at its own version."""
        of = "FOR SYSTEM_TIME AS OF"
        sql = (
            f"SELECT x.v, y.v, z.k FROM t {of} {a} AS x JOIN t {of} {b} AS y ON x.id = y.id"
            f" LEFT JOIN bag {of} {c} AS z ON z.k = y.id"
        )
        first, second = self.model.at(a)[0].t, self.model.at(b)[0].t
        bag, want = self.model.at(c)[0].bag, Counter()
        for key in first.keys() & second.keys():
            n = bag.get(key, 0)
            want[first[key]["v"], second[key]["v"], key if n else None] += n or 1
        assert Counter(self.db.execute(sql).fetchall()) == want


def difference(now, before):
    """The change that leads from one bag to the other."""
    keys = now.keys() | before.keys()
    return {k: now[k] - before[k] for k in keys if now[k] != before[k]}


def apply(bag, change, *, strict=True):
    """The bag after a change; none of its rows may be there less than zero times."""
    after = Counter(bag)
    for row, weight in change.items():
        after[row] += weight
        if not after[row]:
            del after[row]
    assert not strict or min(after.values(), default=1) > 0
    return after


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_version_is_what_it_was(seed):
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    life.check()
    for name in life.seen:
        while life.seen[name][0] < max(r[0] for r in last_change(life, name)):
            life.follow(name)
        assert life.seen[name][1] == life.model.rows(name[1:], life.db.version)
    life.db.close()


def last_change(life, name):
    """The versions at which a subscription has changes, and the one it began with."""
    with closing(life.db.session()) as session:
        session.execute(f"DECLARE c SUBSCRIPTION CURSOR FOR {name} SINCE begin()")
        return [(life.first,), *session.execute("FETCH ALL FROM c").fetchall()]
