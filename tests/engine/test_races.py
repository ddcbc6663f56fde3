"""What another session does within a statement: refusals that no script of statements reaches."""

from __future__ import annotations

import pytest

from streamsql.engine.session import Session
from tests.engine.test_heal import break_view
from tests.engine.test_jobs import between as between_slices
from tests.engine.test_jobs import made, small
from tests.refused import refused

__all__ = ["between_slices", "small"]  # fixtures


@pytest.fixture
def t(db):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 1)")
    return db


def first(monkeypatch, name: str, sql: str) -> None:
    """Have another session run `sql` before the next call of a session's method."""
    method = getattr(Session, name)

    def patched(self, *args, **kwargs):
        monkeypatch.undo()
        self.database.session().execute(sql)
        return method(self, *args, **kwargs)

    monkeypatch.setattr(Session, name, patched)


def test_relation_is_dropped_between_binding_and_reading(t, monkeypatch):
    first(monkeypatch, "read_view", "DROP TABLE t")
    with refused("42P01", "a relation of the query was dropped by another session"):
        t.execute("SELECT id FROM t").fetchall()


def test_name_of_a_view_in_the_making_is_taken(db, between_slices):
    made(db)
    messages = []

    def take() -> None:
        with refused("42P07", 'relation "m" is being created'):
            db.session().execute("CREATE TABLE m (a INT)")
        messages.append("taken")

    between_slices(take)
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    assert messages == ["taken"]


def fails_meanwhile(db, between_slices):
    """A view `bad` that fails between two slices of the next one that is filled."""
    db.execute("CREATE MATERIALIZED VIEW bad AS SELECT g, count(*) AS n FROM d GROUP BY g")

    def fail() -> None:
        break_view(db, "bad")
        db.session().execute("INSERT INTO d VALUES (100, 'x')")

    between_slices(fail)


def test_another_view_fails_while_a_view_is_made(db, between_slices):
    made(db)
    fails_meanwhile(db, between_slices)
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    expected = db.execute("SELECT count(*) FROM t").fetchall()
    assert db.execute("SELECT count(*) FROM m").fetchall() == expected


def test_view_that_is_read_fails_while_a_view_is_made(db, between_slices):
    made(db)
    fails_meanwhile(db, between_slices)
    with refused("55000", "the view could not be finished, because one that it reads has failed"):
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT id, n FROM t, bad")
    assert db.execute("SELECT count(*) FROM streamsql.jobs WHERE relation = 'm'").fetchall() == [
        (0,)
    ]
