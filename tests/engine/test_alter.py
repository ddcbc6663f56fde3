"""ALTER: names, columns, options; views over what is altered go on, and all of it is durable."""

from __future__ import annotations

import random

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database
from tests.engine.test_recovery import abandon, opened
from tests.state.faulty_filesystem import Crash, MemoryFileSystem

SETUP = """
CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT DEFAULT 'x');
INSERT INTO t VALUES (1, 10, 'p'), (2, 20, 'q');
CREATE MATERIALIZED VIEW m AS SELECT a, count(*) AS n FROM t GROUP BY a;
CREATE MATERIALIZED VIEW mm AS SELECT sum(n) AS total FROM m;
CREATE VIEW star AS SELECT * FROM t;
CREATE VIEW part AS SELECT t.a, t.b FROM t WHERE t.a > 5;
CREATE MATERIALIZED VIEW j AS SELECT x.id, y.b FROM t x JOIN t y ON x.id = y.id
"""


@pytest.fixture
def made(db):
    db.execute(SETUP)
    return db


def text_of(db, kind, name):
    return db.execute(f"SHOW CREATE {kind} {name}").fetchall()[0][1]


def notices(db, sql):
    return [n.message for n in db.execute(sql).notices]


# --- names ----------------------------------------------------------------------------------------
def test_rename_of_a_table_keeps_views_right_and_their_texts_runnable(made, rows):
    made.execute("ALTER TABLE t RENAME TO u")
    made.execute("INSERT INTO u VALUES (3, 10, 'r')")
    assert rows("SELECT * FROM m") == [(10, 2), (20, 1)]
    assert rows("SELECT count(*) FROM star") == [(3,)]
    assert text_of(made, "TABLE", "u").startswith("CREATE TABLE u (id INT")
    assert text_of(made, "MATERIALIZED VIEW", "m") == (
        "CREATE MATERIALIZED VIEW m AS SELECT a, count(*) AS n FROM u GROUP BY a"
    )
    assert text_of(made, "VIEW", "part") == (
        "CREATE VIEW part AS SELECT t.a, t.b FROM u AS t WHERE t.a > 5"
    )
    for kind, name in (("VIEW", "part"), ("VIEW", "star"), ("MATERIALIZED VIEW", "j")):
        before = rows(f"SELECT * FROM {name}")
        sql = text_of(made, kind, name)
        made.execute(f"DROP {kind} {name}")
        made.execute(sql)
        assert rows(f"SELECT * FROM {name}") == before


def test_the_old_name_is_free_and_means_nothing_to_the_views(made, rows):
    made.execute("ALTER TABLE t RENAME TO u; CREATE TABLE t (id INT)")
    made.execute("INSERT INTO t VALUES (7)")
    assert rows("SELECT * FROM m") == [(10, 1), (20, 1)]
    assert rows("SELECT count(*) FROM star") == [(2,)]


def test_names_taken_and_missing(made, fails):
    assert "already exists" in fails("ALTER TABLE t RENAME TO m", "42P07").message
    fails("ALTER TABLE nope RENAME TO x", "42P01")
    fails("ALTER SOURCE t RENAME TO x", "42809")
    fails("ALTER MATERIALIZED VIEW star RENAME TO x", "42809")
    fails("ALTER TABLE t SET SCHEMA nope", "3F000")
    fails("ALTER TABLE t SET SCHEMA pg_catalog", "42501")
    fails("ALTER TABLE streamsql.jobs RENAME TO x", "42501")
    assert notices(made, "ALTER TABLE IF EXISTS nope RENAME TO x") == [
        'relation "nope" does not exist, skipping'
    ]


def test_set_schema_qualifies_the_names_in_views(made, rows):
    made.execute("CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s")
    assert text_of(made, "VIEW", "star") == "CREATE VIEW star AS SELECT * FROM s.t"
    assert text_of(made, "TABLE", "s.t").startswith("CREATE TABLE s.t (")
    made.execute("INSERT INTO s.t VALUES (3, 20, 'r')")
    assert rows("SELECT * FROM m") == [(10, 1), (20, 2)]
    made.execute("ALTER MATERIALIZED VIEW m SET SCHEMA s")
    assert rows("SELECT * FROM s.m") == [(10, 1), (20, 2)]
    assert rows("SELECT * FROM mm") == [(3,)]


def test_swap_with_exchanges_names_and_not_rows(made, rows):
    made.execute("CREATE TABLE u (id INT PRIMARY KEY, a INT, b TEXT); INSERT INTO u VALUES (9, 9)")
    made.execute("ALTER TABLE t SWAP WITH u")
    assert rows("SELECT id FROM t") == [(9,)]
    assert rows("SELECT * FROM m") == [(10, 1), (20, 1)]
    assert "FROM u GROUP BY" in text_of(made, "MATERIALIZED VIEW", "m")
    made.execute("INSERT INTO u VALUES (3, 10, 'r')")
    assert rows("SELECT * FROM m") == [(10, 2), (20, 1)]
    with pytest.raises(StreamSqlError) as caught:
        made.execute("ALTER TABLE t SWAP WITH star")
    assert caught.value.sqlstate == "42809"


def test_rename_column_in_every_place_of_a_table(db, rows):
    db.execute("""
        CREATE TABLE t (
          k INT, -- the key
          ts TIMESTAMP, "Sum" INT, g INT GENERATED ALWAYS AS (k * 2) STORED,
          PRIMARY KEY (k), WATERMARK FOR ts AS ts - INTERVAL '1 second'
        )""")
    db.execute('ALTER TABLE t RENAME COLUMN k TO "Key"; ALTER TABLE t RENAME ts TO at')
    text = text_of(db, "TABLE", "t")
    assert '"Key" INT, -- the key' in text
    assert 'AS ("Key" * 2)' in text and 'PRIMARY KEY ("Key")' in text
    assert "WATERMARK FOR at AS at - INTERVAL" in text
    db.execute("INSERT INTO t (\"Key\", at) VALUES (4, '2024-01-01')")
    assert rows('SELECT "Key", g FROM t') == [(4, 8)]


def test_rename_column_follows_into_views_that_keep_their_columns(made, rows, fails):
    made.execute("ALTER TABLE t RENAME COLUMN a TO aa")
    assert text_of(made, "VIEW", "part") == (
        "CREATE VIEW part AS SELECT t.aa AS a, t.b FROM t WHERE t.aa > 5"
    )
    assert text_of(made, "VIEW", "star") == "CREATE VIEW star (id, a, b) AS SELECT * FROM t"
    made.execute("INSERT INTO t (id, aa) VALUES (3, 20)")
    assert rows("SELECT a, n FROM m") == [(10, 1), (20, 2)]
    assert rows("SELECT a FROM part") == [(10,), (20,), (20,)]
    fails("ALTER TABLE t RENAME COLUMN a TO z", "42703")
    fails("ALTER TABLE t RENAME COLUMN aa TO b", "42701")


def test_rename_column_where_the_text_can_not_follow(db, rows):
    db.execute("CREATE TABLE l (k INT, a INT); CREATE TABLE r (k INT, b INT)")
    db.execute("INSERT INTO l VALUES (1, 2); INSERT INTO r VALUES (1, 3)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM l NATURAL JOIN r")
    db.execute("CREATE VIEW w AS SELECT k, a FROM (SELECT * FROM l) s")
    db.execute("ALTER TABLE l RENAME COLUMN k TO kk")
    db.execute("INSERT INTO l VALUES (1, 5)")
    assert rows("SELECT k, a, b FROM v") == [(1, 2, 3), (1, 5, 3)]
    assert rows("SELECT k, a FROM w") == [(1, 2), (1, 5)]
    assert rows("VERIFY MATERIALIZED VIEW v") == []


def test_rename_column_of_a_view(made, rows):
    made.execute("ALTER MATERIALIZED VIEW m RENAME COLUMN n TO cnt")
    assert rows("SELECT a, cnt FROM m") == [(10, 1), (20, 1)]
    assert text_of(made, "MATERIALIZED VIEW", "mm") == (
        "CREATE MATERIALIZED VIEW mm AS SELECT sum(cnt) AS total FROM m"
    )
    made.execute("INSERT INTO t VALUES (3, 10, 'r')")
    assert rows("SELECT * FROM mm") == [(3,)]


# --- columns --------------------------------------------------------------------------------------
def test_add_column_gives_old_rows_the_default_and_views_keep_theirs(made, rows):
    made.execute("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7")
    made.execute("ALTER TABLE t ADD d TEXT")
    assert rows("SELECT * FROM t") == [(1, 10, "p", 7, None), (2, 20, "q", 7, None)]
    assert rows("SELECT * FROM star") == [(1, 10, "p"), (2, 20, "q")]
    made.execute("INSERT INTO t VALUES (3, 10, 'r', 1, 'd')")
    assert rows("SELECT * FROM m") == [(10, 2), (20, 1)]
    assert rows("SELECT * FROM j") == [(1, "p"), (2, "q"), (3, "r")]
    made.execute("CREATE MATERIALIZED VIEW late AS SELECT c, count(*) FROM t GROUP BY c")
    made.execute("DELETE FROM t WHERE id = 1")
    assert rows("SELECT * FROM late") == [(1, 1), (7, 1)]
    assert rows("SELECT * FROM m") == [(10, 1), (20, 1)]
    for name in ("m", "mm", "j", "late"):
        assert rows(f"VERIFY MATERIALIZED VIEW {name}") == []


def test_add_column_computed_for_each_row(db, rows):
    db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2), (3)")
    db.execute("ALTER TABLE t ADD g INT GENERATED ALWAYS AS (a * 10) STORED")
    db.execute("ALTER TABLE t ADD u UUID DEFAULT gen_random_uuid()")
    db.execute("ALTER TABLE t ADD at TIMESTAMPTZ DEFAULT now()")
    assert rows("SELECT a, g FROM t") == [(1, 10), (2, 20), (3, 30)]
    assert rows("SELECT count(DISTINCT u), count(DISTINCT at) FROM t") == [(3, 1)]


def test_add_column_refusals(made, fails):
    assert fails("ALTER TABLE t ADD COLUMN a INT", "42701").message == (
        'column "a" of relation "t" already exists'
    )
    assert "contains null values" in fails("ALTER TABLE t ADD c INT NOT NULL", "23502").message
    fails("ALTER TABLE t ADD c INT PRIMARY KEY", "0A000")
    fails("ALTER TABLE t ADD c INT DEFAULT 0 CHECK (c > 0)", "23514")
    fails("ALTER TABLE t ADD c INT DEFAULT 'x'", "22P02")
    fails("ALTER MATERIALIZED VIEW m ADD c INT", "42809")
    assert notices(made, "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT") == [
        'column "a" of relation "t" already exists, skipping'
    ]
    assert text_of(made, "TABLE", "t").count(",") == 2


def test_drop_column_is_refused_while_a_view_uses_it(made, rows, fails):
    error = fails("ALTER TABLE t DROP COLUMN b", "2BP01")
    assert error.message == ("cannot drop column b of table t because other objects depend on it")
    assert "view star depends on column b of table t" in error.detail
    assert "materialized view j depends on" in error.detail
    assert "materialized view m " not in error.detail
    assert "CASCADE" in error.hint
    assert notices(made, "ALTER TABLE t DROP COLUMN b CASCADE") == [
        "drop cascades to 3 other objects"
    ]
    assert rows("SELECT * FROM t") == [(1, 10), (2, 20)]
    made.execute("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (5, 50)")
    assert rows("SELECT * FROM m") == [(20, 1), (50, 1)]
    assert rows("VERIFY MATERIALIZED VIEW m") == []
    fails("ALTER TABLE t DROP COLUMN b", "42703")
    made.execute("ALTER TABLE t DROP COLUMN IF EXISTS b")
    fails("ALTER TABLE t DROP COLUMN id", "0A000")


def test_drop_column_that_operators_only_carry_along(db, rows):
    db.execute("CREATE TABLE l (a INT, b INT); CREATE TABLE r (c INT, d INT)")
    db.execute("INSERT INTO l VALUES (1, 1), (2, 2); INSERT INTO r VALUES (1, 1), (2, 2)")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) FROM l, r")
    db.execute("CREATE MATERIALIZED VIEW nn AS SELECT * FROM n")
    db.execute("ALTER TABLE l DROP COLUMN a; ALTER TABLE r DROP COLUMN c")
    assert rows("SELECT * FROM nn") == [(4,)]
    db.execute("DELETE FROM l WHERE b = 1; INSERT INTO r VALUES (3)")
    assert rows("SELECT * FROM nn") == [(3,)]
    assert rows("VERIFY MATERIALIZED VIEW n") == []


def test_drop_column_takes_generated_columns_and_not_the_watermark(db, fails, rows):
    db.execute(
        "CREATE TABLE t (a INT, g INT GENERATED ALWAYS AS (a + 1) STORED, ts TIMESTAMP, "
        "WATERMARK FOR ts AS ts)"
    )
    db.execute("INSERT INTO t (a, ts) VALUES (1, '2024-01-01')")
    assert 'column "g"' in fails("ALTER TABLE t DROP COLUMN a", "2BP01").detail
    fails("ALTER TABLE t DROP COLUMN ts", "0A000")
    db.execute("ALTER TABLE t DROP COLUMN a CASCADE")
    assert [r[0] for r in db.execute("SHOW COLUMNS FROM t").fetchall()] == ["ts"]
    assert text_of(db, "TABLE", "t") == ("CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts)")


def test_not_null_and_default_come_and_go(made, rows, fails):
    made.execute("ALTER TABLE t ALTER COLUMN a SET NOT NULL")
    fails("INSERT INTO t VALUES (3, NULL)", "23502")
    made.execute("ALTER TABLE t ALTER a DROP NOT NULL; INSERT INTO t VALUES (3, NULL)")
    assert rows("SELECT * FROM m") == [(10, 1), (20, 1), (None, 1)]
    assert "contains null values" in fails("ALTER TABLE t ALTER a SET NOT NULL", "23502").message
    made.execute("ALTER TABLE t ALTER b SET DEFAULT 'y' || 'z'; INSERT INTO t (id) VALUES (4)")
    assert rows("SELECT b FROM t WHERE id = 4") == [("yz",)]
    assert "b TEXT DEFAULT 'y' || 'z'" in text_of(made, "TABLE", "t")
    made.execute("ALTER TABLE t ALTER b DROP DEFAULT; INSERT INTO t (id) VALUES (5)")
    assert rows("SELECT b FROM t WHERE id = 5") == [(None,)]
    fails("ALTER TABLE t ALTER id DROP NOT NULL", "42P16")
    fails("ALTER TABLE t ALTER nope SET NOT NULL", "42703")
    fails("ALTER TABLE t ALTER a TYPE TEXT", "0A000")
    fails("ALTER TABLE t ALTER a SET DEFAULT 'x'", "22P02")


def test_a_table_made_by_a_query_can_be_altered(db, rows):
    db.execute("CREATE TABLE c AS SELECT 1 AS a, 'x' AS b")
    db.execute("ALTER TABLE c ADD d INT DEFAULT 5; ALTER TABLE c DROP COLUMN b")
    assert rows("SELECT * FROM c") == [(1, 5)]
    db.execute("CREATE TABLE d AS SELECT 1 AS a; ALTER TABLE d RENAME COLUMN a TO z")
    assert rows("SELECT z FROM d") == [(1,)]


def test_late_rows_and_closed_windows_survive_an_added_column(db, rows):
    db.execute("CREATE TABLE e (v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT window_start, sum(v) AS s FROM "
        "TUMBLE(e, ts, INTERVAL '1 minute') GROUP BY window_start EMIT ON WINDOW CLOSE"
    )
    db.execute("INSERT INTO e VALUES (1, '2024-01-01 00:00:10'), (2, '2024-01-01 00:02:00')")
    db.execute("DELETE FROM e WHERE v = 1")  # its window is closed: the view keeps its sum
    before = rows("SELECT s FROM w")
    assert before == [(1,)]
    db.execute("ALTER TABLE e ADD COLUMN x INT; ALTER TABLE e RENAME COLUMN v TO val")
    assert rows("SELECT s FROM w") == before
    db.execute("INSERT INTO e VALUES (5, '2024-01-01 00:00:20', 1), (7, '2024-01-01 00:05:00', 1)")
    assert rows("SELECT s FROM w") == [(1,), (2,)]
    assert len(rows("SELECT row FROM streamsql.late_rows")) == 2


# --- transactions ---------------------------------------------------------------------------------
def test_alter_in_a_transaction(made, rows):
    session = made.session()
    session.execute("BEGIN; ALTER TABLE t ADD COLUMN c INT DEFAULT 3")
    assert rows("SELECT * FROM t WHERE id = 1") == [(1, 10, "p")]
    session.execute("INSERT INTO t VALUES (3, 10, 'r', 4); UPDATE t SET c = 5 WHERE id = 1")
    found = session.execute("SELECT id, c FROM t ORDER BY id").fetchall()
    assert found == [(1, 5), (2, 3), (3, 4)]
    assert session.execute("SELECT count(*) FROM star").fetchall() == [(3,)]
    made.execute("INSERT INTO t VALUES (8, 20, 'other')")
    session.execute("COMMIT")
    assert rows("SELECT id, c FROM t") == [(1, 5), (2, 3), (3, 4), (8, 3)]
    assert rows("SELECT * FROM m") == [(10, 2), (20, 2)]
    session.execute("BEGIN; ALTER TABLE t DROP COLUMN c; ROLLBACK")
    assert rows("SELECT c FROM t WHERE id = 2") == [(3,)]
    session.execute("BEGIN; INSERT INTO t VALUES (9, 9, 'x', 9)")
    with pytest.raises(StreamSqlError) as caught:
        session.execute("ALTER TABLE t DROP COLUMN c")
    assert caught.value.sqlstate == "55000"
    session.close()


def test_a_write_that_was_bound_before_is_refused(made):
    session = made.session()
    session.execute("BEGIN; INSERT INTO t VALUES (3, 10, 'r')")
    made.execute("ALTER TABLE t ADD COLUMN c INT")
    with pytest.raises(StreamSqlError) as caught:
        session.execute("COMMIT")
    assert caught.value.sqlstate == "40001"
    session.close()


# --- options --------------------------------------------------------------------------------------
def test_set_options(made, rows, fails):
    made.execute("INSERT INTO t VALUES (3, 0, 'z')")
    made.execute("CREATE MATERIALIZED VIEW q AS SELECT id, 100 / a AS x FROM t")
    assert rows("SELECT * FROM q") == [(1, 10), (2, 5)]
    made.execute("ALTER MATERIALIZED VIEW q SET (on_error = 'null')")
    assert rows("SELECT * FROM q") == [(1, 10), (2, 5), (3, None)]
    assert text_of(made, "MATERIALIZED VIEW", "q") == (
        "CREATE MATERIALIZED VIEW q WITH (on_error = 'null') AS SELECT id, 100 / a AS x FROM t"
    )
    fails("ALTER MATERIALIZED VIEW q SET (on_error = 'maybe')", "22023")
    fails("ALTER TABLE t SET (nope = 1)", "0A000")
    made.execute(
        "ALTER TABLE t SET (idle_timeout = '5 s'); ALTER TABLE t SET (idle_timeout = '6 s')"
    )
    assert text_of(made, "TABLE", "t").endswith("WITH (idle_timeout = '6 s')")
    assert "has no effect" in notices(made, "ALTER TABLE t SET PARALLELISM = 4")[0]


# --- durable --------------------------------------------------------------------------------------
def everything(db: Database) -> list[object]:
    found: list[object] = []
    for relation in db.engine.catalog.user_relations():
        name = f'"{relation.schema}"."{relation.name}"'
        shown = sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
        found.append((name, relation.sql, relation.columns, shown))
    return sorted(found, key=repr)


CHANGES = (
    "ALTER TABLE t ADD COLUMN c{i} INT DEFAULT {i}",
    "ALTER TABLE t ADD COLUMN u{i} INT GENERATED ALWAYS AS (a + {i}) STORED",
    "ALTER TABLE t RENAME COLUMN a TO a_; ALTER TABLE t RENAME COLUMN a_ TO a",
    "ALTER TABLE t RENAME COLUMN b TO b{i}",
    "ALTER TABLE t RENAME COLUMN b{j} TO b",
    "ALTER TABLE t DROP COLUMN c{j} CASCADE",
    "ALTER TABLE t DROP COLUMN b CASCADE",
    "CREATE MATERIALIZED VIEW v{i} AS SELECT * FROM t",
    "CREATE VIEW p{i} AS SELECT x.a, y.b FROM t x JOIN t y USING (id)",
    "CREATE MATERIALIZED VIEW o{i} AS SELECT a, n FROM m JOIN p{j} USING (a)",
    "ALTER MATERIALIZED VIEW v{j} RENAME TO v{i}",
    "ALTER MATERIALIZED VIEW m RENAME COLUMN n TO nn{i}",
    "CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT a, count(*) + {i} AS n FROM t GROUP BY a",
    "ALTER MATERIALIZED VIEW m SUSPEND",
    "ALTER MATERIALIZED VIEW m RESUME",
    "ALTER TABLE t ALTER a SET NOT NULL",
    "ALTER TABLE t ALTER a DROP NOT NULL",
    "INSERT INTO t (id, a) VALUES ({i} + 1000, {j})",
    "INSERT INTO t (id, a) VALUES ({i} + 2000, {j}) ON CONFLICT DO NOTHING",
    "UPDATE t SET a = a + 1 WHERE id % 3 = {j} % 3",
    "DELETE FROM t WHERE id % 7 = {j} % 7",
    "DROP MATERIALIZED VIEW v{j} CASCADE",
)


def change(db: Database, source: random.Random, i: int) -> None:
    sql = source.choice(CHANGES).format(i=i, j=source.randrange(max(1, i)))
    try:
        db.execute(sql)
    except StreamSqlError as error:
        assert error.sqlstate[:2] in ("42", "2B", "23", "55", "0A"), (sql, error)


def verified(db: Database) -> None:
    for relation in db.engine.catalog.user_relations():
        if relation.kind == "materialized_view" and relation.suspended is None:
            found = db.execute(f"VERIFY MATERIALIZED VIEW {relation.name}").fetchall()
            assert found == [], (relation.sql, found)


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_keep_views_right_and_come_back(seed):
    source = random.Random(seed)
    files = MemoryFileSystem(seed)
    db = opened(files)
    db.execute(SETUP)
    for i in range(45):
        change(db, source, i)
        if i % 15 == 14:
            verified(db)
            expected, version = everything(db), db.version
            if source.random() < 0.5:
                db.close()
            else:
                abandon(db)
                files.crash()
            db = opened(files)
            assert (db.version, everything(db)) == (version, expected)
    verified(db)
    nodes = len(db.engine.circuit.nodes)
    db.execute("DROP TABLE t CASCADE")
    assert nodes and not db.engine.circuit.nodes and not db.engine.nodes
    assert not db.engine.catalog.layouts
    db.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_in_the_middle_of_a_change_is_all_or_nothing(seed):
    source = random.Random(100 + seed)
    files = MemoryFileSystem(seed)
    db = opened(files)
    db.execute(SETUP)
    before = everything(db)
    files.fail_at = files.operations + source.randrange(1, 40)
    try:
        for i in range(30):
            before = everything(db)
            change(db, source, i)
        before = everything(db)
    except (Crash, StreamSqlError):
        pass
    files.fail_at = 0
    abandon(db)
    files.crash()
    again = opened(files)
    after = everything(again)
    verified(again)
    if after != before:  # the change in flight had reached the disk
        again.execute("DELETE FROM t WHERE id = 1")
    verified(again)
    again.close()


def test_statements_that_an_alter_overtakes_are_run_again(made, monkeypatch):
    """Between the binding of a statement and its rows the table gets other columns."""
    from streamsql.engine.engine import Engine

    made.execute("ALTER TABLE t ADD COLUMN c BIGINT DEFAULT 5; ALTER TABLE t ADD COLUMN d BIGINT")
    other = made.session()
    todo = ["ALTER TABLE t DROP COLUMN c"]
    read_view, commit = Engine.read_view, Engine.commit

    def overtaken(self, *arguments, **named):
        found = read_view(self, *arguments, **named)
        if todo:
            other.execute(todo.pop())
        return found

    monkeypatch.setattr(Engine, "read_view", overtaken)
    assert made.execute("SELECT * FROM t WHERE id = 1").fetchall() == [(1, 10, "p", None)]
    todo.append("ALTER TABLE t DROP COLUMN d")
    assert made.execute("SELECT count(*), max(b) FROM t").fetchall() == [(2, "q")]
    monkeypatch.undo()

    def late(self, request):
        if todo and request.writes:
            other.execute(todo.pop())
        return commit(self, request)

    monkeypatch.setattr(Engine, "commit", late)
    todo.append("ALTER TABLE t ADD COLUMN e INT DEFAULT 6")
    made.execute("INSERT INTO t VALUES (3, 30, 'r')")
    assert made.execute("SELECT e FROM t WHERE id = 3").fetchall() == [(6,)]
    session = made.session()
    session.execute("BEGIN; INSERT INTO t VALUES (4, 40, 's')")
    todo.append("ALTER TABLE t DROP COLUMN e")
    with pytest.raises(StreamSqlError) as caught:
        session.execute("COMMIT")
    assert caught.value.sqlstate == "40001" and session.transaction_status == "I"
    assert made.execute("SELECT count(*) FROM t").fetchall() == [(3,)]


@pytest.mark.parametrize("columns", [1, 2])
def test_explain_names_the_table_below_an_older_layout(db, rows, columns):
    db.execute("""
        CREATE TABLE named (id INT);
        CREATE MATERIALIZED VIEW over AS SELECT id FROM named WHERE id > 0
    """)
    for i in range(columns):
        db.execute(f"ALTER TABLE named ADD COLUMN c{i} INT")
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS SELECT id, c{i} FROM named")
    made = "CREATE MATERIALIZED VIEW w AS SELECT * FROM over JOIN named USING (id)"
    for what in ("MATERIALIZED VIEW over", "MATERIALIZED VIEW v0", made):
        text = str(rows(f"EXPLAIN {what}"))
        assert "Source named  #" in text and "Source source" not in text
    db.execute("ALTER TABLE named RENAME TO other")
    assert "Source other  #" in str(rows("EXPLAIN MATERIALIZED VIEW over"))
