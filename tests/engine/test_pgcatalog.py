"""The catalog: what it shows of our relations, in PostgreSQL's shapes and types."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamsql
from streamsql.core.errors import (
    AmbiguousColumn,
    InvalidTextRepresentation,
    StreamSqlError,
    UndefinedColumn,
    UndefinedFunction,
    UndefinedObject,
    UndefinedSchema,
    UndefinedTable,
)
from streamsql.dialect import parse
from streamsql.engine.pgcatalog import PgCatalog
from streamsql.engine.pgcatalog.names import quote_ident
from streamsql.engine.pgcatalog.static import system_relations

SETUP = """
CREATE SCHEMA sales;
CREATE TABLE customers (
  id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, email TEXT, active BOOLEAN DEFAULT true,
  credit NUMERIC(12,2) DEFAULT 0.00, attrs JSONB, tags TEXT[], created TIMESTAMPTZ);
CREATE TABLE sales.orders (
  a BIGINT, b TEXT, qty SMALLINT, ordered TIMESTAMP, double_qty INT AS qty * 2,
  PRIMARY KEY (b, a));
CREATE TABLE "Odd ""name" ("Col" INT, "select" TEXT);
CREATE VIEW active_customers AS SELECT id, name FROM customers WHERE active;
CREATE MATERIALIZED VIEW sales.by_day AS
  SELECT b, count(*) AS n FROM sales.orders GROUP BY b;
COMMENT ON TABLE customers IS 'People who buy';
COMMENT ON COLUMN customers.name IS 'Full name'
"""
STATEMENTS = json.loads(
    (Path(__file__).parent / "catalog_statements.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def database() -> Iterator[streamsql.Database]:
    database = streamsql.connect()
    database.execute(SETUP)
    yield database
    database.close()


@pytest.fixture
def ask(database):
    """Run a query in a session of its own; its rows."""
    session = database.session(user="ann")

    def run(sql: str, *parameters: object) -> list[tuple]:
        return session.execute(sql, parameters or None).fetchall()

    yield run
    session.close()


# --- what clients send ------------------------------------------------------------------------------
@pytest.mark.parametrize("client", sorted({s["client"] for s in STATEMENTS}))
def test_catalog_statements_of_clients_run_in_the_shape_they_expect(database, client):
    session = database.session()
    catalog = database.pg_catalog()
    wrong = []
    for statement in STATEMENTS:
        if statement["client"] != client:
            continue
        (query,) = parse(statement["sql"])
        assert catalog.handles(query.query), statement["sql"]
        described, types = catalog.describe(query.query, session)
        try:
            result = session.run(session.prepare(query), (None,) * len(types))
            result.table().validate(full=True)
        except StreamSqlError as error:
            wrong.append((statement["sql"], error))
            continue
        assert result.columns == described
        got = [[c.name, c.oid] for c in result.columns]
        if got != statement["columns"]:
            wrong.append((statement["sql"], got, statement["columns"]))
    session.close()
    # CASE over varchar and text: PostgreSQL says varchar
    known = 1 if client == "npgsql_powerbi" else 0
    assert len(wrong) <= known, wrong


def test_every_system_relation_can_be_read_whole(database):
    session = database.session()
    for schema, name in system_relations():
        if name.startswith("_") or name == "pg_get_keywords":
            continue
        result = session.execute(f'SELECT * FROM {schema}."{name}"')
        result.table().validate(full=True)
        relation = system_relations()[schema, name]
        assert [c.name for c in result.columns] == [n for n, _ in relation.columns]
    session.close()


def test_joins_of_the_catalog_hold_together(ask):
    """Every reference from one relation to another has what it refers to."""
    for column, target in [
        ("pg_class.relnamespace", "pg_namespace"), ("pg_attribute.attrelid", "pg_class"),
        ("pg_attribute.atttypid", "pg_type"), ("pg_index.indrelid", "pg_class"),
        ("pg_index.indexrelid", "pg_class"), ("pg_constraint.conrelid", "pg_class"),
        ("pg_type.typnamespace", "pg_namespace"), ("pg_attrdef.adrelid", "pg_class"),
        ("pg_class.relowner", "pg_roles"), ("pg_rewrite.ev_class", "pg_class"),
        ("pg_type.typreceive", "pg_proc"), ("pg_type.typinput", "pg_proc"),
    ]:  # fmt: skip
        relation, name = column.split(".")
        missing = ask(
            f"SELECT count(*) FROM {relation} x WHERE x.{name} <> 0 AND NOT EXISTS"
            f" (SELECT 1 FROM {target} y WHERE y.oid = x.{name})"
        )
        assert missing == [(0,)], column
    assert ask("SELECT oid FROM pg_class GROUP BY oid HAVING count(*) > 1") == []


# --- what it shows ----------------------------------------------------------------------------------
def test_relations_have_their_kinds(ask):
    rows = ask(
        "SELECT n.nspname, c.relname, c.relkind FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname IN ('public', 'sales') ORDER BY 1, 2"
    )
    assert rows == [
        ("public", 'Odd "name', "r"), ("public", "active_customers", "v"),
        ("public", "customers", "r"), ("public", "customers_pkey", "i"),
        ("sales", "by_day", "m"), ("sales", "orders", "r"), ("sales", "orders_pkey", "i"),
    ]  # fmt: skip


def test_columns_have_types_defaults_and_nullability(ask):
    rows = ask(
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attgenerated,"
        " pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a"
        " LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)"
        " WHERE attrelid IN ('customers'::regclass, 'sales.orders'::regclass) ORDER BY attrelid, attnum"
    )
    assert rows[:8] == [
        ("id", "integer", True, "", None), ("name", "character varying(40)", True, "", None),
        ("email", "text", False, "", None), ("active", "boolean", False, "", "true"),
        ("credit", "numeric(12,2)", False, "", "0.00"), ("attrs", "jsonb", False, "", None),
        ("tags", "text[]", False, "", None),
        ("created", "timestamp with time zone", False, "", None),
    ]  # fmt: skip
    assert rows[12] == ("double_qty", "integer", False, "s", "qty * 2")


def test_keys_are_constraints_and_indexes(ask):
    assert ask(
        "SELECT conname, contype, conkey, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = 'sales.orders'::regclass"
    ) == [("orders_pkey", "p", [2, 1], "PRIMARY KEY (b, a)")]
    assert ask(
        "SELECT indexrelid::regclass, indkey, indisprimary, pg_get_indexdef(indexrelid),"
        " pg_get_indexdef(indexrelid, 2, true) FROM pg_index WHERE indrelid = 'sales.orders'::regclass"
    ) == [
        ("sales.orders_pkey", [2, 1], True,
         "CREATE UNIQUE INDEX orders_pkey ON sales.orders USING btree (b, a)", "a")
    ]  # fmt: skip


def test_views_show_the_users_text_and_what_they_depend_on(ask):
    assert ask("SELECT pg_get_viewdef('active_customers'::regclass)") == [
        ("SELECT id, name FROM customers WHERE active;",)
    ]
    assert ask(
        "SELECT DISTINCT r.ev_class::regclass, d.refobjid::regclass FROM pg_depend d"
        " JOIN pg_rewrite r ON r.oid = d.objid WHERE d.classid = 'pg_rewrite'::regclass"
        " AND d.deptype = 'n' ORDER BY 1"
    ) == [("active_customers", "customers"), ("sales.by_day", "sales.orders")]
    assert ask("SELECT schemaname, matviewname FROM pg_matviews") == [("sales", "by_day")]


def test_comments_are_descriptions(ask):
    assert ask(
        "SELECT obj_description('customers'::regclass, 'pg_class'),"
        " col_description('customers'::regclass, 2), obj_description('sales.orders'::regclass)"
    ) == [("People who buy", "Full name", None)]


def test_information_schema_lists_materialized_views_as_tables(ask):
    assert ask(
        "SELECT table_name, table_type FROM information_schema.tables"
        " WHERE table_schema = 'sales' ORDER BY 1"
    ) == [("by_day", "BASE TABLE"), ("orders", "BASE TABLE")]
    assert ask(
        "SELECT column_name, data_type, character_maximum_length, numeric_precision,"
        " numeric_scale, is_nullable, udt_name FROM information_schema.columns"
        " WHERE table_name = 'customers' AND column_name IN ('name', 'credit', 'tags', 'id')"
        " ORDER BY ordinal_position"
    ) == [
        ("id", "integer", None, 32, 0, "NO", "int4"),
        ("name", "character varying", 40, None, None, "NO", "varchar"),
        ("credit", "numeric", None, 12, 2, "YES", "numeric"),
        ("tags", "ARRAY", None, None, None, "YES", "_text"),
    ]
    assert ask(
        "SELECT column_name, ordinal_position FROM information_schema.key_column_usage"
        " WHERE table_name = 'orders' ORDER BY 2"
    ) == [("b", 1), ("a", 2)]


def test_catalog_follows_ddl_at_once_and_transactions_see_their_own(database):
    names = "SELECT relname FROM pg_class WHERE relname LIKE 'fleeting%' ORDER BY 1"
    one, two = database.session(), database.session()
    one.execute("BEGIN")
    one.execute("CREATE TABLE fleeting (a INT PRIMARY KEY)")
    assert one.execute(names).fetchall() == [("fleeting",), ("fleeting_pkey",)]
    assert two.execute(names).fetchall() == []
    one.execute("COMMIT")
    assert two.execute(names).fetchall() == [("fleeting",), ("fleeting_pkey",)]
    two.execute("DROP TABLE fleeting")
    assert one.execute(names).fetchall() == []
    one.close()
    two.close()


def test_oids_stay_and_are_those_of_result_columns(database):
    result = database.execute("SELECT id, name FROM customers")
    ((oid,),) = database.execute("SELECT 'customers'::regclass::oid").fetchall()
    assert [(c.table_oid, c.attnum) for c in result.columns] == [(oid, 1), (oid, 2)]


# --- names and the session -----------------------------------------------------------------------
def test_visibility_follows_the_search_path(ask):
    visible = (
        "SELECT relname, pg_table_is_visible(oid), oid::regclass FROM pg_class"
        " WHERE relname IN ('orders', 'customers') ORDER BY 1"
    )
    assert ask(visible) == [("customers", True, "customers"), ("orders", False, "sales.orders")]
    ask("SET search_path = sales")
    assert ask(visible) == [("customers", False, "public.customers"), ("orders", True, "orders")]
    assert ask("SELECT current_schema(), current_schemas(true), current_schemas(false)") == [
        ("sales", ["pg_catalog", "sales"], ["sales"])
    ]


def test_names_become_oids_and_back(ask):
    assert ask("SELECT 'int4'::regtype") == [("integer",)]
    assert ask(
        "SELECT 'sales'::regnamespace, 'array_in'::regproc, 0::regclass, 999999::regclass"
    ) == [("sales", "array_in", "-", "999999")]
    assert ask("SELECT to_regclass('nothing'), to_regtype('nothing')") == [(None, None)]
    assert ask("SELECT 'customers'::regclass::text || '!'") == [("customers!",)]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT 'nothing'::regclass", UndefinedTable),
        ("SELECT 'nothing'::regtype", UndefinedObject),
        ("SELECT 'nothing'::regnamespace", UndefinedSchema),
        ("SELECT * FROM pg_catalog.pg_nothing", UndefinedTable),
        ("SELECT nothing FROM pg_class", UndefinedColumn),
        ("SELECT x.oid FROM pg_class c", UndefinedTable),
        ("SELECT oid FROM pg_class, pg_type", AmbiguousColumn),
        ("SELECT pg_nothing(oid) FROM pg_class", UndefinedFunction),
        ("SELECT pg_get_userbyid() FROM pg_class", UndefinedFunction),
        ("SELECT oid::nothing FROM pg_class", UndefinedObject),
        ("SELECT 1 FROM pg_class WHERE oid = 'x'", InvalidTextRepresentation),
    ],
)
def test_wrong_catalog_queries_get_postgresql_errors(ask, sql, error):
    with pytest.raises(error):
        ask(sql)


def test_session_functions_answer_for_the_session(database):
    session = database.session(user="ann", backend_pid=4711)
    sql = "SELECT current_user, session_user, current_database(), pg_backend_pid(), version()"
    ((user, login, name, pid, version),) = session.execute(sql).fetchall()
    assert (user, login, name, pid) == ("ann", "ann", "streamsql", 4711)
    assert version.startswith("PostgreSQL 15")
    assert session.execute(
        "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
    ).fetchall() == [(True,)]
    session.execute("SELECT set_config('application_name', 'probe', false)")
    assert session.execute("SELECT current_setting('application_name')").fetchall() == [("probe",)]
    assert session.execute(
        "SELECT setting FROM pg_settings WHERE name = 'application_name'"
    ).fetchall() == [("probe",)]
    assert ("ann", 4711, "active") in session.execute(
        "SELECT usename, pid, state FROM pg_stat_activity"
    ).fetchall()
    session.close()


def test_only_queries_of_the_catalog_are_taken():
    catalog = PgCatalog()
    for sql, expected in [
        ("SELECT 1", False), ("SELECT * FROM t", False), ("SELECT now()", False),
        ("SELECT version()", True), ("SELECT 't'::regclass", True),
        ("SELECT * FROM pg_class", True), ("SELECT * FROM information_schema.tables", True),
        ("SELECT * FROM tables", False), ("SELECT * FROM pg_class, t", False),
        ("WITH x AS (SELECT * FROM pg_class) SELECT * FROM x", True),
        ("SELECT current_user, my_function()", False),
    ]:  # fmt: skip
        (statement,) = parse(sql)
        assert catalog.handles(statement.query) is expected, sql


# --- types of parameters and results ----------------------------------------------------------------
def test_parameters_take_the_type_of_what_they_meet(database):
    session = database.session()
    (statement,) = parse(
        "SELECT relname FROM pg_class WHERE oid = $1 AND relname LIKE $2 AND relnatts = $3"
        " AND relkind = ANY ($4) LIMIT $5"
    )
    prepared = session.prepare(statement)
    assert [str(t) for t in prepared.parameter_types] == [
        "bigint", "text", "smallint", "text[]", "bigint",
    ]  # fmt: skip
    result = session.run(prepared, (1259, "pg%", 33, ["r", "v"], 1))
    assert result.fetchall() == [("pg_class",)]
    session.close()


def test_result_columns_carry_postgresql_oids(database):
    result = database.execute(
        "SELECT oid, relname, relkind, relacl, relnatts, oid::regclass, ARRAY[relname],"
        " count(*) OVER (), relname || 'x', NULL, 'x' FROM pg_class LIMIT 1"
    )
    assert [c.oid for c in result.columns] == [26, 19, 18, 1034, 21, 2205, 1003, 20, 25, 25, 25]
    vectors = database.execute("SELECT indkey, indclass FROM pg_index LIMIT 1")
    assert [c.oid for c in vectors.columns] == [22, 30]


def test_output_columns_are_named_as_postgresql_names_them(database):
    result = database.execute(
        "SELECT relname::text, count(*), 1, 'a'::name, CASE WHEN true THEN 1 END,"
        " coalesce(relname, 'x'), ARRAY[1], EXISTS (SELECT 1), (SELECT 2 AS two)"
        " FROM pg_class GROUP BY relname LIMIT 1"
    )
    assert [c.name for c in result.columns] == [
        "relname", "count", "?column?", "name", "case", "coalesce", "array", "exists", "two",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("relname ~ '^pg_cl' AND relname !~* 'X'", True),
        ("relname OPERATOR(pg_catalog.~) '^(pg_class)$' COLLATE pg_catalog.default", True),
        ("relname LIKE 'pg\\_cl%' AND NOT relname LIKE 'pgx_%'", True),
        ("relkind = ANY (ARRAY['v', 'r'])", True),
        ("relkind = ANY ('{v,m}')", False),
        ("relname <> ALL ('{a,b}'::name[])", True),
        ("relname IN (SELECT relname FROM pg_class)", True),
        ("array_to_string(ARRAY['a', NULL, 'b'], '-', '?') = 'a-?-b'", True),
        ("('{1,2,3}'::int[])[2] = 2 AND array_upper(ARRAY[1, 2], 1) = 2", True),
        ("'2 3'::int2vector::text = '2 3'", True),
        ("format('%I.%s', 'A b', 1) = '\"A b\".1'", True),
        ("quote_ident('select') = '\"select\"' AND quote_literal('a''b') = '''a''''b'''", True),
        ("substring(relname, 4) = 'class' AND substring(relname from '^pg') = 'pg'", True),
        ("pg_size_pretty(123456789::bigint) = '118 MB'", True),
        ("(SELECT count(*) FROM generate_series(1, 3) g(i) WHERE i > 1) = 2", True),
        ("(SELECT sum(n) FROM unnest(ARRAY[5, 6]) WITH ORDINALITY u(x, n)) = 3", True),
        ("has_table_privilege(oid, 'SELECT') AND has_schema_privilege('public', 'USAGE')", True),
        ("xmin IS NOT NULL AND tableoid = 'pg_class'::regclass", True),
        ("EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = pg_class.oid)", True),
    ],
)
def test_expressions_have_postgresql_meaning(ask, expression, expected):
    rows = ask(f"SELECT {expression} FROM pg_class WHERE relname = 'pg_class'")
    assert rows == [(expected,)]


def test_subscripts_of_vectors_count_from_zero(ask):
    assert ask(
        "SELECT indkey[0], generate_subscripts(indkey, 1), unnest(indkey) FROM pg_index"
        " WHERE indrelid = 'sales.orders'::regclass"
    ) == [(2, 0, 2), (2, 1, 1)]
    assert ask(
        "SELECT (information_schema._pg_expandarray(indkey)).n,"
        " (information_schema._pg_expandarray(indkey)).x FROM pg_index"
        " WHERE indrelid = 'sales.orders'::regclass"
    ) == [(1, 2), (2, 1)]


def test_pg_sleep_can_be_cancelled(database):
    session = database.session()
    timer = threading.Timer(0.1, session.cancel)
    timer.start()
    with pytest.raises(StreamSqlError) as caught:
        session.execute("SELECT pg_sleep(30)")
    assert caught.value.sqlstate == "57014"
    session.close()


def test_many_sessions_ask_at_once(database):
    """Different search paths and users at the same time do not meet."""
    wrong: list[object] = []

    def work(number: int) -> None:
        session = database.session(user=f"user{number}")
        path = "sales" if number % 2 else "public"
        session.execute(f"SET search_path = {path}")
        for _ in range(5):
            rows = session.execute(
                "SELECT current_user, current_schema(), pg_table_is_visible('sales.orders'::regclass)"
            ).fetchall()
            if rows != [(f"user{number}", path, bool(number % 2))]:
                wrong.append(rows)
        session.close()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_quote_ident_quotes_what_needs_it():
    assert [quote_ident(n) for n in ("a_1", "A", "1a", "user", 'a"b', "")] == [
        "a_1", '"A"', '"1a"', '"user"', '"a""b"', '""',
    ]  # fmt: skip
