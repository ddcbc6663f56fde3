"""CREATE INDEX: look-ups without a scan, in every version, kept by every tick."""

from __future__ import annotations

import random
import threading

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError

TABLE = """
    CREATE TABLE t (id INT PRIMARY KEY, k BIGINT, s VARCHAR(10), n NUMERIC(10, 2), at TIMESTAMP);
    INSERT INTO t SELECT g, CASE WHEN g % 50 = 0 THEN NULL ELSE g % 100 END, 's' || (g % 40),
        g * 0.5, TIMESTAMP '2024-01-01' + g * INTERVAL '1 second' FROM generate_series(1, 4000) g(g)
"""


@pytest.fixture
def table(db):
    db.execute(TABLE)


def plan(db, sql, parameters=None):
    return "\n".join(r[0] for r in db.execute(f"EXPLAIN {sql}", parameters).fetchall())


CONDITIONS = [
    ("k = 5", "i (k = 5)"),
    ("5 = k AND n > 3", "i (k = 5)"),
    ("k = 5::INT AND at > '2024-01-01 00:30:00'", "i (k = 5, at > timestamp"),
    ("k = 5 AND at BETWEEN '2024-01-01' AND '2024-01-02'", "i (k = 5, at >= timestamp"),
    ("k IN (1, 2, NULL, 3)", "i (k IN (1, 2, 3))"),
    ("k IN (1, 2) AND at < '2024-01-01 00:10:00'", "i (k IN (1, 2), at < timestamp"),
    ("k < 3", "i (k < 3)"),
    ("k >= 98", "i (k >= 98)"),
    ("k > 3 AND k <= 4", "i (k > 3, k <= 4)"),
    ("k IS NULL", "i (k IS NULL)"),
    ("k IS NOT DISTINCT FROM NULL", "i (k IS NULL)"),
    ("k = NULL", None),
    ("upper(s) = 'S7'", "u (upper(s::text) = 'S7')"),
    ("s = 's7'", "s (s = 's7')"),
    ("s LIKE 's39%' AND s LIKE '%9'", "s (s >= 's39', s < 's3:')"),
    ("s LIKE 's39_'", "s (s"),
    ("id + k = 10", "e (id::bigint + k = 10)"),
    ("id = 77", "t_pkey (id = 77)"),
    ("id IN (3, 4, 4, 99999)", "t_pkey (id IN (3, 4, 99999))"),
    ("n = 7.5 AND k = 15", "i (k = 15)"),
    ("k = 5 OR k = 6", None),
    ("k <> 5", None),
    ("k = id", None),
]


INDEXES = """
    CREATE INDEX i ON t (k, at);
    CREATE INDEX u ON t (upper(s));
    CREATE INDEX s ON t (s);
    CREATE INDEX e ON t ((id + k))
"""


@pytest.fixture
def indexed(db, table):
    db.execute(INDEXES)


@pytest.fixture(scope="module")
def both():
    """The same rows with indexes (t) and without (bare)."""
    with streamsql.connect() as database:
        database.execute(TABLE)
        database.execute("CREATE TABLE bare AS SELECT * FROM t")
        database.execute(INDEXES)
        yield database


@pytest.mark.parametrize(("condition", "access"), CONDITIONS)
def test_conditions_are_answered_from_the_index_that_explain_names(both, condition, access):
    sql = f"SELECT * FROM t WHERE {condition}"
    want = both.execute(sql.replace("FROM t", "FROM bare")).fetchall()
    assert sorted(both.execute(sql).fetchall(), key=repr) == sorted(want, key=repr)
    shown = plan(both, sql)
    assert (f"Index Lookup using {access}" in shown) if access else "Index Lookup" not in shown


def test_parameters_and_aggregates_and_subqueries_use_the_index(db, rows, indexed):
    assert rows("SELECT count(*) FROM t WHERE k = $1", [7]) == [(40,)]
    assert "i (k = $1)" in plan(db, "SELECT count(*) FROM t WHERE k = $1")
    assert "i (k = 7)" in plan(db, "SELECT count(*) FROM t WHERE k = $1", [7])
    assert rows("SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.k = $1 AND b.s = $2",
                [7, "s7"]) == [(i,) for i in sorted(range(7, 4001, 200), key=lambda i: repr((i,)))]  # fmt: skip
    lookups = dict(db.execute("SELECT name, lookups FROM streamsql.indexes").fetchall())
    assert lookups["i"] >= 2 and lookups["s"] >= 1 and lookups["u"] == 0


ORDERS = [
    ("WHERE k = 5 ORDER BY at LIMIT 3", True),
    ("WHERE k = 5 ORDER BY at DESC LIMIT 3 OFFSET 2", True),
    ("WHERE k = 5 ORDER BY k, at", True),
    ("ORDER BY k, at LIMIT 7", True),
    ("ORDER BY k DESC, at DESC LIMIT 7", True),
    ("WHERE k > 90 ORDER BY k, at LIMIT 5", True),
    ("WHERE k IS NULL ORDER BY at LIMIT 5", True),
    ("WHERE k = 5 AND n > 300 ORDER BY at LIMIT 3", False),
    ("ORDER BY k, at DESC LIMIT 3", False),
    ("ORDER BY k DESC NULLS LAST, at DESC LIMIT 3", False),
    ("WHERE k IN (1, 2) ORDER BY at LIMIT 3", False),
    ("WHERE k = 5 ORDER BY n LIMIT 3", False),
]


@pytest.mark.parametrize(("tail", "ordered"), ORDERS)
def test_order_of_the_index_is_that_of_the_query(both, tail, ordered):
    sql = f"SELECT id, k, at FROM t {tail}"
    want = both.execute(sql.replace("FROM t", "FROM bare")).fetchall()
    assert both.execute(sql).fetchall() == want
    shown = plan(both, sql)
    assert ("in order" in shown) == ordered
    assert not ordered or " by " not in shown


def test_limits_that_are_wrong_stay_errors(db, indexed, fails):
    fails("SELECT id FROM t WHERE k = 5 ORDER BY at LIMIT -1", "2201W")
    assert db.execute("SELECT id FROM t WHERE k = 5 ORDER BY at LIMIT 0").fetchall() == []


def test_random_history_is_indexed_at_every_tick(db, rows):
    db.execute("CREATE TABLE h (id INT, k INT, s TEXT)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT k, s FROM h WHERE id % 3 <> 0")
    db.execute("CREATE INDEX hk ON h (k); CREATE INDEX mk ON m (k, s)")
    chance = random.Random(3)
    shadow: list[tuple[int, int | None, str]] = []
    versions = {}
    for step in range(120):
        k = chance.randrange(6)
        if chance.random() < 0.6 or not shadow:
            new = [(step * 10 + j, chance.choice([None, k, k + 1]), chance.choice("abc"))
                   for j in range(chance.randrange(1, 6))]  # fmt: skip
            shadow += new
            db.insert("h", [{"id": i, "k": k, "s": s} for i, k, s in new])
        elif chance.random() < 0.5:
            shadow = [r for r in shadow if r[1] != k]
            db.execute(f"DELETE FROM h WHERE k = {k}")
        else:
            shadow = [(i, (k + 1) % 6 if v == k else v, s) for i, v, s in shadow]
            db.execute(f"UPDATE h SET k = {(k + 1) % 6} WHERE k = {k}")
        want = sorted((i, v, s) for i, v, s in shadow if v == 3)
        versions[db.version] = want
        assert rows("SELECT * FROM h WHERE k = 3") == sorted(want, key=repr)
        view = sorted((v, s) for i, v, s in shadow if i % 3 and v == 3 and s == "b")
        assert rows("SELECT * FROM m WHERE k = 3 AND s = 'b'") == view
    for version, want in versions.items():
        of = f"FOR SYSTEM_TIME AS OF {version}"
        assert rows(f"SELECT * FROM h {of} WHERE k = 3") == sorted(want, key=repr)
        view = sorted((v, s) for i, v, s in want if i % 3)
        assert rows(f"SELECT * FROM m {of} WHERE k = 3") == view
    db.execute("DELETE FROM h")
    assert rows("SELECT entries FROM streamsql.indexes") == [(0,), (0,)]


def test_rows_that_move_in_memory_are_found(db, rows):
    db.execute("CREATE TABLE h (id INT PRIMARY KEY, k INT)")
    db.execute("CREATE INDEX hk ON h (k)")
    for start in range(0, 60_000, 20_000):
        db.execute(
            f"INSERT INTO h SELECT g, g % 97 FROM generate_series({start}, {start + 19_999}) g(g)"
        )
        db.execute(f"DELETE FROM h WHERE id >= {start} AND id % 10 <> 0")
    for _ in range(6):
        db.execute("UPDATE h SET k = k + 1")
    want = [(i,) for i in range(0, 60_000, 10) if i % 97 + 6 == 50]
    assert sorted(db.execute("SELECT id FROM h WHERE k = 50").fetchall()) == want
    assert rows("SELECT entries FROM streamsql.indexes") == [(6000,)]


def test_a_transaction_sees_its_own_writes_through_the_index(db, indexed):
    session = db.session()
    session.execute("BEGIN")
    session.execute("DELETE FROM t WHERE k = 5 AND id < 3000")
    session.execute("INSERT INTO t (id, k) VALUES (9001, 5), (9002, 6)")
    db.execute("UPDATE t SET k = 5 WHERE id = 1")
    found = session.execute("SELECT id FROM t WHERE k = 5 ORDER BY at, id").fetchall()
    assert found == [(i,) for i in range(3005, 4000, 100)] + [(9001,)]
    session.execute("ROLLBACK")
    assert len(db.execute("SELECT id FROM t WHERE k = 5").fetchall()) == 41


def test_lookups_see_whole_versions_while_others_write(db):
    db.execute("CREATE TABLE pairs (k INT, v INT); CREATE INDEX p ON pairs (k)")
    db.execute("INSERT INTO pairs SELECT g, 0 FROM generate_series(1, 100) g(g)")
    stop = threading.Event()

    def write():
        session = db.session()
        while not stop.is_set():
            session.execute("BEGIN; DELETE FROM pairs WHERE k = 7;"
                            "INSERT INTO pairs VALUES (7, 1), (7, -1); COMMIT")  # fmt: skip

    thread = threading.Thread(target=write)
    thread.start()
    try:
        session = db.session()
        for _ in range(60):
            found = session.execute("SELECT sum(v) FROM pairs WHERE k = 7").fetchall()
            assert found == [(0,)]
    finally:
        stop.set()
        thread.join()


# --- the catalog --------------------------------------------------------------------------------
def test_names_are_postgresqls_and_if_not_exists_is_quiet(db, rows, table, fails):
    db.execute("CREATE INDEX ON t (k, s); CREATE INDEX ON t (k, s); CREATE INDEX ON t (lower(s))")
    names = [r[0] for r in rows("SHOW INDEXES FROM t")]
    assert names == ["t_expr_idx", "t_k_s_idx", "t_k_s_idx1", "t_pkey"]
    notices = db.execute("CREATE INDEX IF NOT EXISTS t_k_s_idx ON t (k)").notices
    assert [n.message for n in notices] == ['relation "t_k_s_idx" already exists, skipping']
    assert fails("CREATE INDEX t ON t (k)", "42P07").message == 'relation "t" already exists'
    notices = db.execute("CREATE INDEX inc ON t (k) INCLUDE (s, n)").notices
    assert [n.message for n in notices] == ["INCLUDE has no effect: an index finds whole rows"]
    mixed = "CREATE INDEX mixed ON t USING btree (k DESC, id) WITH (fillfactor = 50)"
    assert [n.message for n in db.execute(mixed).notices] == [
        "the direction of a key has no effect: an index is read both ways",
        "the options of an index have no effect",
    ]
    error = fails("CREATE INDEX g ON t USING gin (k)", "0A000")
    assert error.message == "access method gin is not supported"
    assert rows("SHOW INDEXES FROM t")[0] == ("inc", "t", "k", "s, n", False)
    assert rows("SHOW CREATE INDEX inc") == [
        ("public.inc", "CREATE INDEX inc ON t (k) INCLUDE (s, n)")
    ]


@pytest.mark.parametrize(
    ("sql", "sqlstate", "message"),
    [
        ("CREATE INDEX x ON nope (a)", "42P01", 'relation "nope" does not exist'),
        ("CREATE INDEX x ON t (nope)", "42703", 'column "nope" does not exist'),
        ("CREATE INDEX x ON t (k) INCLUDE (nope)", "42703", 'column "nope" does not exist'),
        ("CREATE INDEX x ON v (k)", "42809", 'cannot create index on relation "v"'),
        ("CREATE INDEX x ON j (d)", "42704",
         'data type jsonb has no default operator class for access method "btree"'),
        ("CREATE UNIQUE INDEX x ON m (k)", "0A000",
         'cannot create unique index on materialized view "m"'),
        ("CREATE UNIQUE INDEX x ON t (lower(s))", "0A000",
         "unique indexes on expressions are not supported"),
        ("CREATE UNIQUE INDEX x ON t (k)", "23505", 'could not create unique index "x"'),
        ("SELECT * FROM t_pk", "42P01", 'relation "t_pk" does not exist'),
        ("SELECT * FROM taken", "42809", 'cannot open relation "taken"'),
        ("INSERT INTO taken VALUES (1)", "42809", 'cannot open relation "taken"'),
        ("DROP INDEX nope", "42704", 'index "nope" does not exist'),
        ("DROP INDEX t", "42809", '"t" is not an index'),
        ("DROP TABLE taken", "42809", '"taken" is not a table'),
        ("DROP INDEX t_pkey", "2BP01",
         "cannot drop index t_pkey because constraint t_pkey on table t requires it"),
        ("CREATE TABLE taken (a INT)", "42P07", 'relation "taken" already exists'),
    ],
)  # fmt: skip
def test_wrong_statements_change_nothing(db, table, fails, sql, sqlstate, message):
    db.execute("CREATE VIEW v AS SELECT k FROM t; CREATE TABLE j (d JSONB)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT k FROM t; CREATE INDEX taken ON t (k)")
    before = db.execute("SHOW INDEXES").fetchall()
    assert fails(sql, sqlstate).message == message
    assert db.execute("SHOW INDEXES").fetchall() == before


def test_dropping_an_index_or_its_table_lets_go_of_it(db, rows, indexed):
    db.execute("DROP INDEX i")
    assert "Index Lookup" not in plan(db, "SELECT * FROM t WHERE k = 5")
    assert [r[0] for r in rows("SELECT name FROM streamsql.indexes")] == ["e", "s", "u"]
    assert db.execute("DROP TABLE t").notices == []
    assert rows("SELECT name FROM streamsql.indexes") == rows("SHOW INDEXES") == []
    db.execute("DROP INDEX IF EXISTS i")


def test_unique_indexes_are_enforced(db, rows, fails):
    db.execute("CREATE TABLE q (a INT, b INT); INSERT INTO q VALUES (1, 1), (1, 2), (NULL, 1)")
    error = fails("CREATE UNIQUE INDEX qa ON q (a)", "23505")
    assert error.detail == "Key (a)=(1) is duplicated."
    db.execute("CREATE UNIQUE INDEX qab ON q (a, b)")
    error = fails("INSERT INTO q VALUES (1, 2)", "23505")
    assert error.message == 'duplicate key value violates unique constraint "qab"'
    assert error.detail == "Key (a, b)=(1, 2) already exists."
    fails("UPDATE q SET b = 1", "23505")
    db.execute("INSERT INTO q VALUES (NULL, 1), (2, 2)")
    db.execute("INSERT INTO q VALUES (2, 2), (3, 3) ON CONFLICT DO NOTHING")
    assert rows("SELECT count(*) FROM q") == [(6,)]
    db.execute("DROP INDEX qab; INSERT INTO q VALUES (1, 2)")


def test_indexes_in_transactions(db, rows, table):
    session = db.session()
    session.execute("BEGIN; CREATE INDEX i ON t (k); INSERT INTO t (id, k) VALUES (9000, 5)")
    assert len(session.execute("SELECT id FROM t WHERE k = 5").fetchall()) == 41
    assert "Index Lookup" not in plan(db, "SELECT * FROM t WHERE k = 5")
    session.execute("ROLLBACK")
    assert rows("SHOW INDEXES") == [("t_pkey", "t", "id", None, True)]
    session.execute("""
        BEGIN; CREATE TABLE n (a INT); INSERT INTO n VALUES (1), (2); CREATE INDEX na ON n (a);
        CREATE MATERIALIZED VIEW nm AS SELECT a + 1 AS b FROM n; CREATE INDEX nb ON nm (b); COMMIT
    """)
    assert rows("SELECT * FROM n WHERE a = 2") == rows("SELECT * FROM nm WHERE b = 2") == [(2,)]
    assert sorted(rows("SELECT name, entries FROM streamsql.indexes")) == [("na", 2), ("nb", 2)]


def test_indexes_survive_restart_and_replay(tmp_path):
    path = str(tmp_path / "data")
    with streamsql.connect(path) as db:
        db.execute(TABLE)
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT k, count(*) AS c FROM t GROUP BY k")
        db.execute("CREATE INDEX i ON t (k, at); CREATE INDEX mc ON m (c)")
        db.execute("CREATE UNIQUE INDEX ti ON t (n)")
    with streamsql.connect(path) as db:
        db.execute("INSERT INTO t (id, k) VALUES (9000, 5)")
        db.execute("CREATE INDEX late ON t (lower(s)); DROP INDEX mc")
        db.engine.durability.close = lambda: None  # as after kill -9: no last checkpoint
        db.engine.durability._lock.release()
    with streamsql.connect(path) as db:
        assert [r[0] for r in sorted(db.execute("SHOW INDEXES").fetchall())] == [
            "i", "late", "t_pkey", "ti"
        ]  # fmt: skip
        assert "using i (k = 5)" in plan(db, "SELECT * FROM t WHERE k = 5")
        assert len(db.execute("SELECT * FROM t WHERE k = 5").fetchall()) == 41
        assert len(db.execute("SELECT * FROM t WHERE lower(s) = 's3'").fetchall()) == 100
        with pytest.raises(StreamSqlError, match='unique constraint "ti"'):
            db.execute("INSERT INTO t (id, n) VALUES (9001, 7)")


def test_catalogs_show_indexes(db, rows, indexed):
    db.execute("CREATE UNIQUE INDEX un ON t (n) INCLUDE (k)")
    definitions = dict(rows("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 't'"))
    assert definitions["u"] == "CREATE INDEX u ON public.t USING btree (upper(s))"
    assert definitions["e"] == "CREATE INDEX e ON public.t USING btree ((id + k))"
    assert definitions["un"] == "CREATE UNIQUE INDEX un ON public.t USING btree (n) INCLUDE (k)"
    assert rows("""
        SELECT c.relname, i.indisunique, i.indisprimary, i.indnkeyatts
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
        WHERE t.relname = 't' AND c.relkind = 'i'
    """) == [
        ("e", False, False, 1), ("i", False, False, 2), ("s", False, False, 1),
        ("t_pkey", True, True, 1), ("u", False, False, 1), ("un", True, False, 1),
    ]  # fmt: skip
    db.execute("COMMENT ON INDEX i IS 'by k'")
    assert rows("SELECT obj_description('i'::regclass, 'pg_class')") == [("by k",)]


def test_indexes_follow_alter_and_replace(db, rows):
    db.execute("CREATE TABLE a (id INT PRIMARY KEY, k INT, s TEXT)")
    db.execute("INSERT INTO a SELECT g, g % 10, 's' || g FROM generate_series(1, 100) g(g)")
    db.execute("CREATE INDEX ik ON a (k, id); CREATE INDEX iu ON a (upper(s))")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT k, count(*) AS n FROM a GROUP BY k")
    db.execute("CREATE INDEX im ON m (n)")
    db.execute("ALTER TABLE a ADD COLUMN z INT DEFAULT 1; ALTER TABLE a RENAME COLUMN k TO kk")
    db.execute("ALTER TABLE a RENAME TO b; ALTER INDEX ik RENAME TO jk")
    db.execute("INSERT INTO b VALUES (101, 3, 'x', 2); DELETE FROM b WHERE id = 3")
    assert "Index Lookup using jk (kk = 3)" in plan(db, "SELECT * FROM b WHERE kk = 3")
    assert rows("SELECT count(*), max(z) FROM b WHERE kk = 3") == [(10, 2)]
    db.execute("ALTER TABLE b DROP COLUMN s")
    assert [r[0] for r in rows("SELECT name FROM streamsql.indexes")] == ["im", "jk"]
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT kk AS k, count(*) + 5 AS n "
               "FROM b GROUP BY kk")  # fmt: skip
    db.execute("INSERT INTO b VALUES (102, 3, 2)")
    assert "Index Lookup using im (n = 16)" in plan(db, "SELECT * FROM m WHERE n = 16")
    assert rows("SELECT * FROM m WHERE n = 16") == [(3, 16)]
    assert len(rows("SELECT * FROM m WHERE n = 15")) == 9


JOINS = [
    ("SELECT t.id FROM few f JOIN t ON t.k = f.k WHERE t.n > 5", "i (k = k)"),
    ("SELECT t.id FROM t JOIN few f ON f.k = t.k", "i (k = k)"),
    ("SELECT f.k, t.id FROM few f LEFT JOIN t ON t.k = f.k AND t.id < 100", "i (k = k)"),
    ("SELECT f.k, t.id FROM t RIGHT JOIN few f ON t.k = f.k AND t.id < 100", "i (k = k)"),
    ("SELECT f.k FROM few f WHERE EXISTS (SELECT 1 FROM t WHERE t.k = f.k)", "i (k = k)"),
    ("SELECT f.k FROM few f WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = f.k)", "i (k = k)"),
    ("SELECT t.id FROM t WHERE k IN (SELECT k FROM few)", "i (k = k)"),
    ("SELECT t.id FROM (VALUES (3), (3), (77)) v(x) JOIN t ON t.id = v.x", "t_pkey (id ="),
    ("SELECT b.id FROM t a JOIN t b ON b.id = a.id + 1 WHERE a.k = 7", "t_pkey (id ="),
    ("SELECT t.id FROM few f JOIN t ON t.k = f.k AND t.at = f.at", "i (k = k, at = at)"),
    ("SELECT f.k, t.id FROM t FULL JOIN few f ON t.k = f.k", None),
    ("SELECT t.id FROM t LEFT JOIN few f ON t.k = f.k", None),
    ("SELECT f.k FROM few f WHERE f.k NOT IN (SELECT k FROM t)", None),
    ("SELECT t.id FROM few f JOIN t ON t.k < f.k", None),
]


@pytest.fixture(scope="module")
def joined(both):
    both.execute("""
        CREATE TABLE few (k BIGINT, at TIMESTAMP);
        INSERT INTO few VALUES (3, '2024-01-01 00:01:43'), (5, NULL), (NULL, NULL), (5, NULL),
            (999, '2024-01-01')
    """)
    return both


@pytest.mark.parametrize(("sql", "access"), JOINS)
def test_a_small_side_looks_the_other_one_up(joined, sql, access):
    bare = sql.replace("FROM t ", "FROM bare AS t ").replace("JOIN t ", "JOIN bare AS t ")
    bare = bare.replace("bare AS t a", "bare a").replace("bare AS t b", "bare b")
    want = joined.execute(bare).fetchall()
    assert sorted(joined.execute(sql).fetchall(), key=repr) == sorted(want, key=repr)
    shown = plan(joined, sql)
    found = shown.count("Index Lookup")
    assert found if access else not found, shown
    assert access is None or f"Index Lookup using {access}" in shown


def test_two_keys_that_mean_the_same_find_each_row_once(db, rows):
    db.execute("CREATE TABLE f (x DOUBLE PRECISION, i INTERVAL)")
    db.execute("INSERT INTO f VALUES (0.0, '1 month'), ('-0', '30 days'), ('NaN', '1 day')")
    db.execute("CREATE INDEX fx ON f (x); CREATE INDEX fi ON f (i)")
    assert rows("SELECT count(*) FROM f WHERE x IN (0.0, '-0'::FLOAT, 'NaN'::FLOAT)") == [(3,)]
    sql = "SELECT count(*) FROM f WHERE i IN (INTERVAL '1 month', INTERVAL '30 days')"
    assert rows(sql) == [(2,)]


def test_writes_find_their_rows_by_the_index(db, rows, indexed):
    for sql in ("UPDATE t SET n = 1 WHERE k = 7", "DELETE FROM t WHERE k = 8 AND id > 100"):
        shown = plan(db, sql)
        assert "Index Lookup using i (k = " in shown
        assert "\x00" not in shown
        before = rows("SELECT lookups FROM streamsql.indexes WHERE name = 'i'")[0][0]
        assert db.execute(sql).row_count in (40, 39)
        assert rows("SELECT lookups FROM streamsql.indexes WHERE name = 'i'")[0][0] > before


def test_plain_views_over_older_columns_use_the_index(db, rows, indexed):
    db.execute("CREATE VIEW p AS SELECT * FROM t; ALTER TABLE t ADD COLUMN z INT DEFAULT 4")
    sql = "SELECT id, n FROM p WHERE k = 7 AND id < 300"
    assert "Index Lookup using i (k = 7)" in plan(db, sql)
    assert [r[0] for r in sorted(rows(sql))] == [7, 107, 207]


@pytest.mark.parametrize(
    ("condition", "values", "looks_up"),
    [
        ("k = ANY($1)", [[5, 7]], True),
        ("k = ANY($1)", [[5]], True),
        ("k = ANY($1)", [[5, None]], True),
        ("k = ANY($1::smallint[])", [[5, 7]], True),
        ("s = ANY($1)", [["s1", "s39"]], True),
        ("k = ANY($1)", [[]], False),
        ("k = ANY($1)", [None], False),
        ("k <> ALL($1) AND id < 9", [[5, 7]], True),
        ("NOT k = ANY($1)", [[5, None]], False),
    ],
)
def test_an_array_parameter_is_a_list_of_keys(db, rows, indexed, condition, values, looks_up):
    db.execute("CREATE TABLE bare AS SELECT * FROM t; CREATE INDEX j ON t (id)")

    def lookups():
        return rows("SELECT sum(lookups) FROM streamsql.indexes")[0][0]

    before = lookups()
    found = rows(f"SELECT id FROM t WHERE {condition}", values)
    assert (lookups() > before) == looks_up
    # a function of two columns: neither an index nor a list answers it
    array = "$1::text[]" if condition.startswith("s") else "$1::bigint[]"
    beside = condition.replace("::smallint[]", "").replace(
        "$1", f"CASE WHEN id > 0 THEN {array} END"
    )
    assert found == rows(f"SELECT id FROM bare WHERE {beside}", values)
