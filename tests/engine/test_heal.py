"""A view whose operator fails is set aside; writes and all other views go on."""

from __future__ import annotations

import pytest

from streamsql.core.errors import InvariantViolation
from tests.refused import refused


@pytest.fixture
def views(db):
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    db.execute("CREATE MATERIALIZED VIEW good AS SELECT sum(v) AS s FROM t")
    db.execute("CREATE MATERIALIZED VIEW bad AS SELECT v, count(*) AS n FROM t GROUP BY v")
    db.execute("CREATE MATERIALIZED VIEW upon AS SELECT max(n) AS n FROM bad")
    db.execute("CREATE MATERIALIZED VIEW chain AS SELECT s + 1 AS s FROM good")
    return db


def break_view(db, name):
    """Make the view's last operator raise in its next step."""
    engine = db.engine
    view = engine.views[engine.catalog.get("public", name).oid]
    operator = engine.circuit.nodes[view.node].operator

    def explode(step, *deltas):
        raise RuntimeError("boom")

    operator.step = explode


def test_other_views_and_writes_go_on(views, rows):
    stream = views.subscribe("chain", snapshot=False)
    break_view(views, "bad")
    views.execute("INSERT INTO t VALUES (3, 3)")
    assert rows("SELECT * FROM good") == [(6,)]
    assert rows("SELECT * FROM chain") == [(7,)]
    views.execute("INSERT INTO t VALUES (4, 4)")
    assert rows("SELECT * FROM chain") == [(11,)]
    changes = [r for b in stream.poll(0.5) for r in b.to_pylist()]
    assert [(c["weight"], c["s"]) for c in changes] == [(-1, 4), (1, 7), (-1, 7), (1, 11)] or [
        (c["weight"], c["s"]) for c in changes
    ] == [(1, 7), (-1, 4), (-1, 7), (1, 11)]
    stream.close()


def test_reads_of_failed_views_give_the_reason(views, fails):
    break_view(views, "bad")
    views.execute("INSERT INTO t VALUES (3, 3)")
    assert "boom" in fails("SELECT * FROM bad", "XX000").message
    fails("SELECT * FROM upon", "XX000")
    status = dict(views.execute("SELECT relation, state FROM streamsql.jobs").fetchall())
    assert status == {"good": "running", "bad": "failed", "upon": "failed", "chain": "running"}


def test_streams_of_failed_views_end_with_the_reason(views):
    streams = [views.subscribe(q, snapshot=False) for q in ("bad", "SELECT max(n) FROM bad")]
    whole = views.subscribe("good", snapshot=False)
    break_view(views, "bad")
    views.execute("INSERT INTO t VALUES (3, 3)")
    for stream in streams:
        with pytest.raises(InvariantViolation, match="boom"):
            stream.poll(0.5)
        stream.close()
    assert sum(b.num_rows for b in whole.poll(0.5)) == 2
    whole.close()
    views.execute("INSERT INTO t VALUES (4, 4)")
    assert views.execute("SELECT s FROM good").fetchall() == [(10,)]


def test_views_over_failed_ones_are_refused(views):
    break_view(views, "bad")
    views.execute("INSERT INTO t VALUES (3, 3)")
    with refused("55000", 'materialized view "bad" has failed'):
        views.execute("CREATE MATERIALIZED VIEW x AS SELECT * FROM bad")
    with refused("55000", 'materialized view "upon" has failed'):
        views.execute("CREATE MATERIALIZED VIEW x AS SELECT n + 1 AS n FROM upon")
    with pytest.raises(InvariantViolation, match="boom"):
        views.execute("EXPLAIN ANALYZE MATERIALIZED VIEW bad")


def test_failed_view_can_be_dropped_and_made_again(views, rows):
    break_view(views, "bad")
    views.execute("INSERT INTO t VALUES (3, 3)")
    views.execute("DROP MATERIALIZED VIEW bad CASCADE")
    views.execute("CREATE MATERIALIZED VIEW bad AS SELECT v, count(*) AS n FROM t GROUP BY v")
    assert rows("SELECT * FROM bad") == [(1, 1), (2, 1), (3, 1)]


def test_failure_while_a_view_is_made_leaves_nothing(views, monkeypatch):
    from streamsql.circuit.graph import Circuit

    before = set(views.engine.circuit.nodes)

    def explode(self, step, new_nodes, snapshots):
        raise RuntimeError("boom")

    monkeypatch.setattr(Circuit, "backfill", explode)
    with pytest.raises(RuntimeError):
        views.execute("CREATE MATERIALIZED VIEW x AS SELECT min(v) AS s FROM t")
    monkeypatch.undo()
    assert set(views.engine.circuit.nodes) == before
    views.execute("CREATE MATERIALIZED VIEW x AS SELECT min(v) AS s FROM t")
    assert views.execute("SELECT * FROM x").fetchall() == [(1,)]


def test_failed_view_is_tried_again_after_a_restart():
    from streamsql.engine.database import Database
    from tests.state.faulty_filesystem import MemoryFileSystem

    files = MemoryFileSystem()
    db = Database("data", files=files)
    db.execute("CREATE TABLE t (v INT); CREATE MATERIALIZED VIEW m AS SELECT sum(v) AS s FROM t")
    break_view(db, "m")
    db.execute("INSERT INTO t VALUES (1), (2)")
    with pytest.raises(InvariantViolation):
        db.execute("SELECT * FROM m").fetchall()
    db.close()
    with Database("data", files=files) as again:
        assert again.execute("SELECT * FROM m").fetchall() == [(3,)]
        again.execute("INSERT INTO t VALUES (10)")
        assert again.execute("SELECT * FROM m").fetchall() == [(13,)]
