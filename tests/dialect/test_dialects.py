"""What the dialect that is set changes, and the spellings that are understood under every one."""

from __future__ import annotations

from typing import Any

import pytest

from streamsql.core.errors import FeatureNotSupported, InvalidParameterValue
from streamsql.dialect import parse
from streamsql.dialect.canonical import statement_sql
from streamsql.dialect.dialects import DIALECTS, dialect_named
from streamsql.dialect.grammar.spellings import java_pattern, json_path
from streamsql.dialect.router import parse_with_differences

# (dialect, statement, canonical text, kinds of differences)
CASES: list[tuple[str, str, str, list[str]]] = [
    # --- RisingWave
    ("risingwave", "DECLARE c SUBSCRIPTION CURSOR FOR s SINCE 1700010800500",
     "DECLARE c SUBSCRIPTION CURSOR FOR s SINCE '2023-11-15 01:13:20.500000+00'", []),
    ("streamsql", "DECLARE c SUBSCRIPTION CURSOR FOR s SINCE 1700010800500",
     "DECLARE c SUBSCRIPTION CURSOR FOR s SINCE 1700010800500", []),
    # --- Flink
    ("flink",
     "CREATE TABLE Clicks (`User` BIGINT, price DECIMAL(10, 2), note STRING, at TIMESTAMP(3), o BIGINT METADATA FROM 'offset' VIRTUAL, seen AS PROCTIME(), twice AS price * 2, WATERMARK FOR at AS at - INTERVAL '5' SECOND, PRIMARY KEY (`User`) NOT ENFORCED) WITH ('connector' = 'kafka', 'topic' = 'c', 'format' = 'json', 'json.fail-on-missing-field' = 'false')",
     "CREATE TABLE \"Clicks\" (\"User\" bigint, price numeric(10,2), note text, at timestamp(3) without time zone, seen AS proctime(), twice AS price * 2, PRIMARY KEY (\"User\"), WATERMARK FOR at AS at - INTERVAL '5' SECOND) ON CONFLICT OVERWRITE INCLUDE offset AS o WITH (connector = 'kafka', topic = 'c') FORMAT PLAIN ENCODE JSON (fail-on-missing-field = 'false')",
     ["types", "types", "keys"]),
    ("flink", "CREATE TABLE s (a INT, t TIMESTAMP_LTZ(6)) PARTITIONED BY (a) WITH ('connector' = 'datagen')",
     "CREATE SOURCE s (a integer, t timestamp(6) with time zone) WITH (connector = 'datagen')", ["ignored"]),
    ("flink", "CREATE TEMPORARY VIEW v AS SELECT Price FROM Clicks", "CREATE VIEW v AS SELECT \"Price\" FROM \"Clicks\"", ["ignored"]),
    ("flink", "SELECT a FROM t ORDER BY a, b DESC, c NULLS LAST", "SELECT a FROM t ORDER BY a ASC NULLS FIRST, b DESC NULLS LAST, c ASC", []),
    ("flink", "SELECT CONCAT(a, b), TO_TIMESTAMP(x), TO_TIMESTAMP(x, 'yyyy/MM/dd HH:mm')",
     "SELECT (CAST(a AS TEXT) || CAST(b AS TEXT)), CAST(x AS TIMESTAMP), CAST(to_timestamp(x, 'YYYY/MM/DD HH24:MI') AS TIMESTAMP)", []),
    ("flink", "SELECT FLOOR(t TO HOUR), CEIL(t TO DAY), FLOOR(x)", "SELECT date_trunc('hour', t), date_trunc('day', (t + INTERVAL '1 day' - INTERVAL '1 microsecond')), floor(x)", []),
    ("flink", "INSERT INTO Out SELECT Id FROM t", "INSERT INTO \"Out\" SELECT \"Id\" FROM t", ["lifetime"]),
    ("flink", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)", []),
    ("flink", "EXECUTE STATEMENT SET BEGIN", "BEGIN", []),
    ("flink", "BEGIN STATEMENT SET", "BEGIN", []),
    ("flink", "SET 'table.local-time-zone' = 'UTC'", "SET 'table.local-time-zone' = 'UTC'", []),
    ("flink", "SELECT * FROM TABLE(HOP(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '5' MINUTES, SIZE => INTERVAL '10' MINUTES))",
     "SELECT * FROM HOP(t, ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)", []),
    # --- ksqlDB
    ("ksql", "CREATE STREAM s (id INT KEY, v VARCHAR, ts TIMESTAMP) WITH (KAFKA_TOPIC = 'x', VALUE_FORMAT = 'JSON', TIMESTAMP = 'ts', PARTITIONS = 3)",
     "CREATE SOURCE s (id integer, v character varying, ts timestamp without time zone, WATERMARK FOR ts AS ts) WITH (topic = 'x', connector = 'kafka') FORMAT PLAIN ENCODE JSON",
     ["ignored", "time", "keys"]),
    ("ksql", "CREATE TABLE t (id INT PRIMARY KEY, v STRING)", "CREATE TABLE t (id integer, v text, PRIMARY KEY (id)) ON CONFLICT OVERWRITE", []),
    ("ksql", "CREATE OR REPLACE STREAM v WITH (PARTITIONS = 2) AS SELECT * FROM s WHERE a > 1 PARTITION BY a EMIT CHANGES",
     "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT * FROM s WHERE a > 1 EMIT IMMEDIATELY", ["ignored", "ignored"]),
    ("ksql", "CREATE TABLE v AS SELECT k, COUNT(*) AS n, WINDOWSTART AS ws FROM s WINDOW TUMBLING (SIZE 5 MINUTES, RETENTION 1 DAY, GRACE PERIOD 1 MINUTE) GROUP BY k EMIT FINAL",
     "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, window_start AS ws FROM TUMBLE(s, INTERVAL '5' MINUTE) AS s GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE",
     ["ignored", "ignored", "time"]),
    ("ksql", "SELECT a->b->c + 1 FROM s EMIT CHANGES", "SUBSCRIBE TO (SELECT (a).b.c + 1 FROM s)", []),
    ("ksql", "SELECT COLLECT_SET(x), COLLECT_LIST(x), LATEST_BY_OFFSET(x), COUNT_DISTINCT(x), EXTRACTJSONFIELD(j, '$.a.b') FROM s",
     "SELECT array_agg(DISTINCT x), array_agg(x), last_value(x) FILTER(WHERE x IS NOT NULL), count(DISTINCT x), (CAST(j AS JSONB) #>> '{a,b}') FROM s", []),
    ("ksql", "PAUSE q", "ALTER MATERIALIZED VIEW q SUSPEND", []),
    ("ksql", "RESUME q", "ALTER MATERIALIZED VIEW q RESUME", []),
    ("ksql", "TERMINATE q", "DROP MATERIALIZED VIEW q", []),
    ("ksql", "DROP STREAM IF EXISTS s DELETE TOPIC", "DROP SOURCE IF EXISTS s", []),
    # --- Materialize
    ("materialize", "CREATE MATERIALIZED VIEW v IN CLUSTER c WITH (REFRESH EVERY '1 day') AS SELECT * FROM e WHERE mz_now() <= ts + INTERVAL '1 day'",
     "CREATE MATERIALIZED VIEW v AS SELECT * FROM e WHERE now() <= ts + INTERVAL '1 day'", ["ignored", "ignored", "time"]),
    ("materialize", "SELECT max(a) FROM t GROUP BY b OPTIONS (AGGREGATE INPUT GROUP SIZE = 100)", "SELECT max(a) FROM t GROUP BY b", ["ignored"]),
    ("materialize", "WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 9) r (n int) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
     "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r", ["time", "ignored"]),
    ("ksql", "SELECT * FROM a JOIN b WITHIN 1 HOUR ON a.x = b.x", "SELECT * FROM a JOIN b ON (a.x = b.x) AND b.rowtime BETWEEN a.rowtime - INTERVAL '1' HOUR AND a.rowtime + INTERVAL '1' HOUR", []),
    ("ksql", "SELECT FILTER(a, x => x > 1) FROM t", "SELECT (CASE WHEN a IS NULL THEN NULL ELSE ARRAY(SELECT x FROM unnest(a) WITH ORDINALITY AS element(x, element_number) WHERE x > 1 ORDER BY element_number ASC) END) FROM t", []),
    ("ksql", "SELECT * FROM t EMIT CHANGES LIMIT 3", "SUBSCRIBE TO (SELECT * FROM t) LIMIT 3", []),
    ("materialize", "TAIL v WITH (SNAPSHOT = false) AS OF 3", "SUBSCRIBE TO v WITH (snapshot = false) AS OF 3", []),
    ("materialize", "SUBSCRIBE v WITH (SNAPSHOT, PROGRESS) UP TO 9", "SUBSCRIBE TO v WITH (progress = true) UP TO 9", []),
    # --- Feldera
    ("feldera", "CREATE TABLE t (k INT PRIMARY KEY, at TIMESTAMP NOT NULL LATENESS INTERVAL '1' HOUR, c INT REFERENCES u (k)) WITH ('materialized' = 'true')",
     "CREATE TABLE t (k integer, at timestamp without time zone NOT NULL, c integer, PRIMARY KEY (k), WATERMARK FOR at AS at - INTERVAL '1' HOUR) ON CONFLICT OVERWRITE", ["ignored", "time", "ignored"]),
    ("feldera", "CREATE VIEW v AS SELECT 1 AS a", "CREATE MATERIALIZED VIEW v AS SELECT 1 AS a", []),
    ("feldera", "CREATE LOCAL VIEW v AS SELECT 1 AS a", "CREATE VIEW v AS SELECT 1 AS a", []),
    ("feldera", "CREATE TABLE t (a INT) WITH ('append_only' = 'true')", "CREATE TABLE t (a integer) APPEND ONLY", []),
    ("feldera", "SELECT * FROM a ASOF LEFT JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k",
     "SELECT * FROM a ASOF LEFT JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k", []),
    # --- Arroyo
    ("arroyo", "CREATE TABLE e (t TIMESTAMP, u BIGINT, WATERMARK FOR t) WITH (connector = 'kafka', type = 'source', format = 'json')",
     "CREATE SOURCE e (t timestamp without time zone, u bigint, WATERMARK FOR t AS t - INTERVAL '1 second') WITH (connector = 'kafka') FORMAT PLAIN ENCODE JSON", []),
    ("arroyo", "SELECT u, count(*) AS n, hop(INTERVAL '5 seconds', INTERVAL '1 minute') AS window FROM e GROUP BY u, window",
     "SELECT u, count(*) AS n, STRUCT(window_start AS start, window_end AS \"end\") AS \"window\" FROM HOP(e, INTERVAL '5 seconds', INTERVAL '1 minute') AS e GROUP BY u, window_start, window_end", []),
    ("arroyo", "SELECT session(INTERVAL '30 seconds'), u FROM e GROUP BY 1, 2",
     "SELECT STRUCT(window_start AS start, window_end AS \"end\") AS \"window\", u FROM SESSION(e PARTITION BY (u), INTERVAL '30 seconds') AS e GROUP BY 2, window_start, window_end", []),
    # --- RisingWave
    ("risingwave", "CREATE TABLE t (a INT PRIMARY KEY)", "CREATE TABLE t (a integer, PRIMARY KEY (a)) ON CONFLICT OVERWRITE", []),
    ("risingwave", "CREATE MATERIALIZED VIEW v AS SELECT 1 EMIT ON WINDOW CLOSE", "CREATE MATERIALIZED VIEW v AS SELECT 1 EMIT ON WINDOW CLOSE", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "canonical", "kinds"), CASES, ids=lambda x: str(x)[:50]
)
def test_statement_of_a_dialect_becomes_canonical(
    dialect: str, text: str, canonical: str, kinds: list[str]
) -> None:
    ((statement, differences),) = parse_with_differences(text, dialect)
    assert statement_sql(statement) == canonical
    assert [d.kind for d in differences] == kinds
    (again,) = parse(canonical)
    assert statement_sql(again) == canonical
    positions = [d.position for d in differences]
    assert positions == sorted(positions)
    assert all(0 <= p < len(text) for p in positions)


def test_what_is_ignored_is_a_notice_of_the_statement() -> None:
    (statement,) = parse(
        "SELECT count(*) FROM s WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 HOUR) GROUP BY k"
    )
    assert statement.notices == (
        "GRACE PERIOD has no effect: allowed_lateness stands in the table's WITH",
    )


def test_one_text_means_two_things_only_where_the_dialect_says_so() -> None:
    folded: Any = parse("SELECT Price FROM t ORDER BY Price")[0]
    kept: Any = parse("SELECT Price FROM t ORDER BY Price", "flink")[0]
    assert folded.query.expressions[0].name == "price"
    assert kept.query.expressions[0].name == "Price"
    assert kept.query.args["order"].expressions[0].args["nulls_first"] is True
    assert statement_sql(parse("SELECT a -> b FROM t")[0]) == "SELECT a -> b FROM t"
    assert statement_sql(parse("SELECT concat(a, b)")[0]) == "SELECT concat(a, b)"


@pytest.mark.parametrize(("dialect", "text", "at"), [
    ("materialize", "CREATE SOURCE s FROM LOAD GENERATOR AUCTION FOR ALL TABLES", "FROM"),
    ("flink", "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY a)", "MATCH_RECOGNIZE"),
    ("feldera", "CREATE TABLE t (a INT) WITH ('connectors' = '[]')", "t ("),
    ("feldera", "CREATE TABLE t (a TIMESTAMP LATENESS INTERVAL '1' HOUR, b TIMESTAMP LATENESS INTERVAL '1' HOUR)", "b "),
])  # fmt: skip
def test_construct_without_translation_is_refused_with_a_way_round(
    dialect: str, text: str, at: str
) -> None:
    with pytest.raises(FeatureNotSupported) as caught:
        parse(text, dialect)
    assert caught.value.hint
    assert caught.value.position == text.index(at)


def test_dialects_have_names_and_aliases() -> None:
    assert [dialect_named(name) for name in DIALECTS] == list(DIALECTS)
    assert dialect_named("KSQLDB") == "ksql"
    with pytest.raises(InvalidParameterValue):
        dialect_named("oracle")


@pytest.mark.parametrize(("java", "postgres"), [
    ("yyyy-MM-dd'T'HH:mm:ss.SSSSSS", 'YYYY-MM-DD"T"HH24:MI:SS.US'), ("d/M/yy h:mm a", "FMDD/FMMM/YY FMHH12:MI AM"),
    ("QQQ", None), ("EEE, ''", "Dy, \"'\""),
])  # fmt: skip
def test_java_date_patterns(java: str, postgres: str | None) -> None:
    assert java_pattern(java) == postgres


@pytest.mark.parametrize(("path", "steps"), [
    ("$", "{}"), ("$.a.b[2]", "{a,b,2}"), ("lax $['a b'].c", '{"a b",c}'), ("$.a[*]", None), ("a", None),
])  # fmt: skip
def test_json_paths(path: str, steps: str | None) -> None:
    assert json_path(path) == steps
