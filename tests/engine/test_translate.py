"""TRANSLATE: what it answers, and that the canonical form does here what the original does."""

from __future__ import annotations

from contextlib import closing

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database
from tests.refused import refused

# statements that run here as they are under their dialect; the last of each is a view
SCRIPTS: dict[str, list[str]] = {
    "flink": [
        "CREATE TABLE Bids (`Auction` BIGINT, price DECIMAL(10, 2), at TIMESTAMP(3), twice AS price * 2,"
        " WATERMARK FOR at AS at - INTERVAL '5' SECOND)",
        "CREATE TABLE Items (Id BIGINT, name STRING, PRIMARY KEY (Id) NOT ENFORCED)",
        "INSERT INTO Items VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO Items VALUES (1, 'c')",
        "INSERT INTO Bids (`Auction`, price, at) VALUES (1, 2.5, TIMESTAMP '2024-01-01 00:00:01'),"
        " (2, NULL, TIMESTAMP '2024-01-01 00:00:02'), (1, 4, TIMESTAMP '2024-01-01 00:01:02')",
        "CREATE MATERIALIZED VIEW V AS SELECT window_start, CONCAT(name, '!') AS label, MAX(twice) AS Most,"
        " FLOOR(window_end TO HOUR) AS h FROM TABLE(TUMBLE(TABLE Bids, DESCRIPTOR(at), INTERVAL '1' MINUTE)) b"
        " JOIN Items ON b.`Auction` = Items.Id GROUP BY window_start, window_end, name",
    ],
    "ksql": [
        "CREATE TABLE s (k INT, v STRUCT<a INT, b STRING>, at TIMESTAMP, WATERMARK FOR at AS at)",
        "INSERT INTO s VALUES (1, STRUCT(1 AS a, 'x' AS b), '2024-01-01 00:00:01'),"
        " (1, STRUCT(5 AS a, 'y' AS b), '2024-01-01 00:00:09'), (2, NULL, '2024-01-01 00:07:00')",
        "CREATE TABLE counts AS SELECT k, COUNT(*) AS n, SUM(v->a) AS total, COLLECT_SET(v->b) AS bs, WINDOWSTART AS ws"
        " FROM s WINDOW TUMBLING (SIZE 5 MINUTES, GRACE PERIOD 1 MINUTE) GROUP BY k EMIT CHANGES",
    ],
    "materialize": [
        "CREATE TABLE e (a INT, at TIMESTAMPTZ)",
        "INSERT INTO e VALUES (1, now()), (2, now() - INTERVAL '2 days'), (NULL, now())",
        "CREATE MATERIALIZED VIEW v IN CLUSTER c AS WITH MUTUALLY RECURSIVE r (n int) AS"
        " (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 4) SELECT a, n FROM e, r"
        " WHERE mz_now() <= at + INTERVAL '1 day'",
    ],
    "feldera": [
        "CREATE TABLE t (k INT PRIMARY KEY, at TIMESTAMP NOT NULL LATENESS INTERVAL '1' HOUR, v INT)",
        "INSERT INTO t VALUES (1, '2024-01-01 00:00:00', 5), (2, '2024-01-01 00:00:10', 6)",
        "INSERT INTO t VALUES (2, '2024-01-01 00:00:20', 7)",
        "CREATE VIEW v AS SELECT sum(v) AS total, window_start FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY window_start",
    ],
    "arroyo": [
        "CREATE TABLE e (at TIMESTAMP, u BIGINT, WATERMARK FOR at)",
        "INSERT INTO e VALUES ('2024-01-01 00:00:01', 1), ('2024-01-01 00:00:20', 1), ('2024-01-01 00:03:00', 2)",
        "CREATE MATERIALIZED VIEW v AS SELECT u, count(*) AS n, (window).start AS first FROM"
        " (SELECT u, at, tumble(INTERVAL '1 minute') AS window FROM e GROUP BY u, at, window) x GROUP BY u, window",
    ],
    "risingwave": [
        "CREATE TABLE t (a INT PRIMARY KEY, b INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO t VALUES (2, 3)",
        "CREATE MATERIALIZED VIEW v AS SELECT b, row_number() OVER (ORDER BY b DESC) AS r FROM t QUALIFY r <= 2",
    ],
}  # fmt: skip


def translated(db: Database, text: str, dialect: str) -> list[str]:
    quoted = text.replace("'", "''")
    found = db.execute(f"TRANSLATE '{quoted}' FROM '{dialect}'").fetchall()
    return [row[1] for row in found if row[0] == "statement"]


def run(
    statements: list[str], dialect: str
) -> tuple[list[str], list[tuple[object, ...]], list[object]]:
    """(plan of the last statement, rows of the view, what the catalog knows of all relations)."""
    with streamsql.connect() as db, closing(db.session()) as session:
        session.execute(f"SET dialect = '{dialect}'")
        for statement in statements[:-1]:
            session.execute(statement)
        plan = [row[0] for row in session.execute(f"EXPLAIN (VERBOSE) {statements[-1]}").fetchall()]
        session.execute(statements[-1])
        relations = db.engine.catalog.user_relations()
        name = relations[-1].name
        rows = sorted(session.execute(f'TABLE "{name}"').fetchall() if dialect != "flink"
                      else session.execute(f"TABLE `{name}`").fetchall(), key=repr)  # fmt: skip
        known: list[object] = [
            (r.name, r.kind, r.columns, [k.columns for k in r.keys], r.append_only, r.on_conflict,
             r.watermark_column, r.options, r.emit)
            for r in relations
        ]  # fmt: skip
        return plan, rows, known


@pytest.mark.parametrize("dialect", SCRIPTS)
def test_canonical_form_defines_the_same_relations_plan_and_rows(
    db: Database, dialect: str
) -> None:
    script = SCRIPTS[dialect]
    canonical = [text for statement in script for text in translated(db, statement, dialect)]
    assert len(canonical) == len(script)
    for text in canonical:
        assert translated(db, text, "streamsql") == [text]
    original, again = run(script, dialect), run(canonical, "streamsql")
    assert again == original
    assert original[1]


def test_translate_lists_differences_with_their_places(db: Database) -> None:
    found = db.execute(
        "TRANSLATE 'CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED); INSERT INTO t SELECT 1' FROM flink"
    )
    assert [c.name for c in found.columns or ()] == ["kind", "text", "position"]
    assert found.fetchall() == [
        ("statement", "CREATE TABLE t (a integer, PRIMARY KEY (a)) ON CONFLICT OVERWRITE", 1),
        ("keys", "the key is not checked there; here it is", 35),
        ("statement", "INSERT INTO t SELECT 1", 50),
        ("lifetime", "INSERT … SELECT writes the rows of now and ends; for a job that goes on create a"
         " materialized view", 64),
    ]  # fmt: skip


def test_translate_uses_the_dialect_of_the_session(db: Database) -> None:
    with closing(db.session()) as session:
        session.execute("SET dialect = 'ksqldb'")
        assert session.execute("SHOW dialect").fetchall() == [("ksql",)]
        assert session.execute("TRANSLATE 'SELECT a->b FROM s'").fetchall() == [
            ("statement", "SELECT (a).b FROM s", 1)
        ]


@pytest.mark.parametrize(("sql", "state", "position"), [
    ("TRANSLATE 'SELECT ''a'' FROM FROM t'", "42601", 29),
    ("TRANSLATE $$SELECT FROM FROM t$$", "42601", 24),
    ("TRANSLATE 'SELECT 1' FROM 'oracle'", "22023", 26),
    ("TRANSLATE 'SELECT * FROM a MATCH_RECOGNIZE (x)'", "0A000", 27),
    ("TRANSLATE 5", "42601", 10),
])  # fmt: skip
def test_error_in_the_text_has_its_place_in_the_statement(
    fails, sql: str, state: str, position: int
) -> None:
    error = fails(sql, state)
    assert error.position == position


def test_set_dialect_refuses_an_unknown_name(fails) -> None:
    assert "materialize" in (fails("SET dialect = 'oracle'", "22023").hint or "")


def test_what_a_dialect_ignores_is_a_notice(db: Database) -> None:
    with closing(db.session()) as session:
        session.execute("CREATE TABLE s (k INT, at TIMESTAMP, WATERMARK FOR at AS at)")
        result = session.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) FROM s WINDOW TUMBLING (SIZE 1 MINUTE, RETENTION 1 DAY) GROUP BY k"
        )
        assert [n.message for n in result.notices] == [
            "RETENTION has no effect: closed windows stay in the view"
        ]


def test_recursive_view_of_feldera_follows_its_input_also_after_a_restart(tmp_path) -> None:
    edges = "SELECT x, y FROM closure ORDER BY x, y"
    with streamsql.connect(tmp_path) as db, closing(db.session()) as session:
        session.execute("SET dialect = 'feldera'")
        session.execute("CREATE TABLE edges (x INT, y INT)")
        session.execute("INSERT INTO edges VALUES (1, 2), (2, 3)")
        session.execute("DECLARE RECURSIVE VIEW closure (x INT, y INT)")
        session.execute(
            "CREATE MATERIALIZED VIEW closure AS (SELECT x, y FROM edges)"
            " UNION (SELECT e.x, c.y FROM edges e JOIN closure c ON e.y = c.x)"
        )
        assert session.execute(edges).fetchall() == [(1, 2), (1, 3), (2, 3)]
    with streamsql.connect(tmp_path) as db:
        db.execute("INSERT INTO edges VALUES (3, 4)")
        assert db.execute(edges).fetchall() == [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]
        db.execute("DELETE FROM edges WHERE x = 2")
        assert db.execute(edges).fetchall() == [(1, 2), (3, 4)]


def test_a_view_that_was_not_declared_can_not_read_itself(db: Database, fails) -> None:
    with closing(db.session()) as session:
        session.execute("DECLARE RECURSIVE VIEW other (x INT)")
    fails("CREATE VIEW closure AS SELECT 1 AS x UNION SELECT x FROM closure", "42P01")


def test_the_text_may_be_a_parameter() -> None:
    with streamsql.connect() as db:
        written = db.execute("TRANSLATE 'SELECT `a`, ''$1'' FROM t' FROM 'flink'").fetchall()
        assert written[0] == ("statement", "SELECT a, '$1' FROM t", 1)
        given = "SELECT `a`, '$1' FROM t"
        assert db.execute("TRANSLATE $1 FROM 'flink'", [given]).fetchall() == written
        assert db.execute("TRANSLATE ? FROM 'flink'", [given]).fetchall() == written
        with refused("22004", "the text of TRANSLATE may not be null"):
            db.execute("TRANSLATE $1", [None])
        with pytest.raises(StreamSqlError) as caught:
            db.execute("TRANSLATE $1", ["SELECT 1 FROM FROM"])
        error = caught.value
        assert (error.sqlstate, error.message) == ("42601", 'syntax error at or near "FROM"')
        assert (error.detail, error.position) == ("It is at character 15 of $1.", None)
        session = db.session()
        with refused("42804", "the text of TRANSLATE must be type text, not type integer"):
            session.prepare(session.parse("TRANSLATE $1")[0], (23,))
        assert session.prepare(session.parse("TRANSLATE $1")[0], (1043,)).columns is not None
