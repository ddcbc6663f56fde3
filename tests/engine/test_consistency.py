"""The bank: money moves between accounts, and in every version a reader sees the total is 0."""

from __future__ import annotations

import random
import threading

import pytest

from streamsql.core.errors import SerializationFailure

ACCOUNTS = 20
TRANSFERS = 60


@pytest.fixture
def bank(db):
    db.execute("CREATE TABLE account (id INT PRIMARY KEY, balance INT)")
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(balance) AS s FROM account")
    db.execute(
        "CREATE MATERIALIZED VIEW side AS SELECT id % 2 AS side, sum(balance) AS s "
        "FROM account GROUP BY id % 2"
    )
    db.execute("CREATE MATERIALIZED VIEW both_sides AS SELECT sum(s) AS s FROM side")
    values = ", ".join(f"({i}, 0)" for i in range(ACCOUNTS))
    db.execute(f"INSERT INTO account VALUES {values}")
    return db


def transfer(session, draw: random.Random, amount: int) -> None:
    source, target = draw.sample(range(ACCOUNTS), 2)
    if amount % 3 == 0:
        session.execute(
            f"UPDATE account SET balance = balance + CASE id WHEN {source} THEN -{amount} "
            f"ELSE {amount} END WHERE id IN ({source}, {target})"
        )
        return
    while True:
        try:
            session.execute("BEGIN")
            session.execute(f"UPDATE account SET balance = balance - {amount} WHERE id = {source}")
            session.execute(f"UPDATE account SET balance = balance + {amount} WHERE id = {target}")
            session.execute("COMMIT")
            return
        except SerializationFailure:
            session.execute("ROLLBACK")


def test_total_is_zero_in_every_version_that_is_seen(bank):
    writers_left = threading.Semaphore(0)
    wrong: list[object] = []
    stop = threading.Event()

    def write(seed: int) -> None:
        draw, session = random.Random(seed), bank.session()
        for i in range(TRANSFERS):
            transfer(session, draw, i + 1)
        writers_left.release()

    def read() -> None:
        session = bank.session()
        while not stop.is_set():
            session.execute("BEGIN")
            rows = [
                session.execute("SELECT sum(balance) FROM account").fetchall(),
                session.execute("SELECT s FROM total").fetchall(),
                session.execute("SELECT s FROM both_sides").fetchall(),
                session.execute(
                    "SELECT (SELECT sum(s) FROM side) - (SELECT sum(balance) FROM account)"
                ).fetchall(),
            ]
            session.execute("COMMIT")
            if any(r != [(0,)] for r in rows):
                wrong.append(rows)

    streams = {name: bank.subscribe(name) for name in ("account", "total", "both_sides")}
    threads = [threading.Thread(target=write, args=(s,)) for s in range(2)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for t in (*threads, *readers):
        t.start()
    for t in threads:
        t.join()
    stop.set()
    for t in readers:
        t.join()
    assert not wrong
    check_stream(streams["account"], lambda state: sum(b * n for (_, b), n in state.items()) == 0)
    check_stream(streams["total"], lambda state: state == {(0,): 1})
    check_stream(streams["both_sides"], lambda state: state == {(0,): 1})
    assert bank.execute("VERIFY MATERIALIZED VIEW side").fetchall() == []


def check_stream(stream, holds) -> None:
    """After each version's changes the condition holds; versions rise."""
    state: dict[tuple[object, ...], int] = {}
    last = 0
    for batch in stream.poll(0):
        versions = batch.column("version").to_pylist()
        weights = batch.column("weight").to_pylist()
        rows = list(zip(*(c.to_pylist() for c in batch.columns[2:]), strict=True))
        assert len(set(versions)) == 1 and versions[0] >= last
        last = versions[0]
        for row, weight in zip(rows, weights, strict=True):
            state[row] = state.get(row, 0) + weight
            if not state[row]:
                del state[row]
        assert all(n > 0 for n in state.values())
        assert holds(state)
    stream.close()


def test_many_threads_insert_and_every_row_arrives_once(db):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, who INT)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT who, count(*) AS n FROM t GROUP BY who")
    errors: list[BaseException] = []

    def work(who: int) -> None:
        session = db.session()
        try:
            for i in range(40):
                session.execute("INSERT INTO t VALUES ($1, $2)", [who * 1000 + i, who])
                assert session.execute("SELECT n FROM m WHERE who = $1", [who]).fetchall() == [
                    (i + 1,)
                ]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(w,)) for w in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert sorted(db.execute("SELECT * FROM m").fetchall()) == [(w, 40) for w in range(6)]
