"""Every statement form of the language, canonical and accepted spellings alike."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from streamsql.core import types as t
from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTableDefinition,
    SqlSyntaxError,
    StatementError,
    UndefinedObject,
)
from streamsql.dialect import parse
from streamsql.dialect import statements as s
from streamsql.dialect.generator import to_sql


def one(sql: str, dialect: str = "streamsql") -> Any:
    (statement,) = parse(sql, dialect)
    return statement


# statement text, class, and fields it must have; a tree is compared as canonical text
FORMS: list[tuple[str, type, dict[str, Any]]] = [
    # --- tables
    ("CREATE TABLE t (a INT)", s.CreateTable, {"name": ("t",), "is_source": False, "on_conflict": "default"}),
    ("CREATE TABLE IF NOT EXISTS s.t (a INT PRIMARY KEY, b TEXT NOT NULL DEFAULT 'x')", s.CreateTable, {"if_not_exists": True, "primary_key": ("a",), "name": ("s", "t")}),
    ("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b))", s.CreateTable, {"primary_key": ("a", "b")}),
    ("CREATE TABLE t (a INT, CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED)", s.CreateTable, {"primary_key": ("a",)}),
    ("CREATE TABLE t (a INT, c INT AS a + 1)", s.CreateTable, {}),
    ("CREATE TABLE t (a INT, c INT GENERATED ALWAYS AS (a + 1) STORED)", s.CreateTable, {}),
    ("CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) APPEND ONLY", s.CreateTable, {"append_only": True}),
    ("CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS PERCENTILE(0.99, INTERVAL '10 minutes'))", s.CreateTable, {}),
    ("CREATE TABLE t (a INT PRIMARY KEY) ON CONFLICT OVERWRITE", s.CreateTable, {"on_conflict": "overwrite"}),
    ("CREATE TABLE t (a INT PRIMARY KEY) ON CONFLICT DO NOTHING", s.CreateTable, {"on_conflict": "do_nothing"}),
    ("CREATE TABLE t (a INT PRIMARY KEY) ON CONFLICT IGNORE", s.CreateTable, {"on_conflict": "do_nothing"}),
    ("CREATE TABLE t (a INT PRIMARY KEY) ON CONFLICT DO UPDATE IF NOT NULL", s.CreateTable, {"on_conflict": "update_if_not_null"}),
    ("CREATE TABLE t (a INT) INCLUDE key AS k INCLUDE partition INCLUDE offset AS o INCLUDE timestamp AS ts INCLUDE header AS h INCLUDE payload AS p WITH (connector = 'kafka') FORMAT PLAIN ENCODE JSON",
     s.CreateTable, {"include": (("key", "k"), ("partition", "_partition"), ("offset", "o"), ("timestamp", "ts"), ("header", "h"), ("payload", "p"))}),
    ("CREATE TABLE t (a INT) WITH (connector = 'file', path = '/tmp/x', speed = 1.5, follow = true, idle_timeout = '30s', max_future = off) FORMAT PLAIN ENCODE CSV (header = true, delimiter = '|')",
     s.CreateTable, {"options": {"connector": "file", "path": "/tmp/x", "speed": "1.5", "follow": "true", "idle_timeout": "30s", "max_future": "off"},
                     "format": s.FormatDef(format="plain", encode="csv", options={"header": "true", "delimiter": "|"}), "is_source": False}),
    ("CREATE TABLE t AS SELECT 1 AS a", s.CreateTable, {"as_query": "SELECT 1 AS a"}),
    ("CREATE TABLE t (a, b) AS SELECT 1, 2", s.CreateTable, {"as_query": "SELECT 1, 2", "as_columns": ("a", "b")}),
    ("CREATE TABLE t AS TABLE s WITH NO DATA", s.CreateTable, {}),
    ("CREATE TEMP TABLE t (a INT)", s.CreateTable, {"temporary": True}),
    ("CREATE TEMPORARY TABLE t (a INT)", s.CreateTable, {"temporary": True}),
    ("CREATE TABLE t (a NUMERIC(10, 2)[], b STRUCT<x INT, y TEXT>, c MAP(TEXT, INT), d VARCHAR(3), e DOUBLE PRECISION, f TIMESTAMP WITH TIME ZONE)", s.CreateTable, {}),
    ("CREATE TABLE t ()", s.CreateTable, {"columns": ()}),
    # --- tables, Flink
    ("UNSET 'auto.offset.reset'", s.SetVariable, {"name": "auto.offset.reset", "value": None}),
    ("DECLARE RECURSIVE VIEW v (a INT NOT NULL, b VARCHAR)", s.DeclareRecursive, {"name": ("v",), "columns": ("a", "b")}),
    ("LIST STREAMS", s.ShowObjects, {"kind": "sources"}),
    ("DESCRIBE s EXTENDED", s.Describe, {"name": ("s",)}),
    ("CREATE TABLE `Orders` (`Id` BIGINT, price DECIMAL(10, 2), note STRING, ts TIMESTAMP(3), l TIMESTAMP_LTZ(3), proc AS PROCTIME(), c AS price * 2, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (`Id`) NOT ENFORCED)"
     " WITH ('connector' = 'kafka', 'topic' = 'x', 'format' = 'json', 'json.ignore-parse-errors' = 'true')",
     s.CreateTable, {"name": ("Orders",), "primary_key": ("Id",), "options": {"connector": "kafka", "topic": "x"}, "is_source": False,
                     "format": s.FormatDef(format="plain", encode="json", options={"ignore-parse-errors": "true"})}),
    ("CREATE TABLE t (a INT, ts TIMESTAMP(3) METADATA FROM 'timestamp', `partition` BIGINT METADATA VIRTUAL) COMMENT 'x' WITH ('connector' = 'kafka', 'format' = 'debezium-json')",
     s.CreateTable, {"include": (("timestamp", "ts"), ("partition", "partition")), "is_source": True, "format": s.FormatDef(format="debezium", encode="json")}),
    ("CREATE TABLE t (a INT COMMENT 'the a', r ROW<x INT, y ARRAY<STRING>>, m MAP<STRING, INT>) WITH ('connector' = 'datagen')", s.CreateTable, {"is_source": True}),
    # --- sources
    ("CREATE SOURCE s (a INT) WITH (connector = 'nexmark') FORMAT PLAIN ENCODE JSON", s.CreateTable, {"is_source": True}),
    ("CREATE SOURCE IF NOT EXISTS s (*) WITH (connector = 'file') FORMAT PLAIN ENCODE PARQUET", s.CreateTable, {"is_source": True, "schema_star": True, "if_not_exists": True}),
    ("CREATE SOURCE s WITH (connector = 'file', nexmark.table.type = 'bid')", s.CreateTable, {"options": {"connector": "file", "nexmark.table.type": "bid"}}),
    ("CREATE STREAM s (id INT KEY, v VARCHAR) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON')", s.CreateTable, {"is_source": True, "primary_key": (), "options": {"connector": "kafka", "topic": "t"}, "format": s.FormatDef(format="plain", encode="json")}),
    # --- views
    ("CREATE VIEW v AS SELECT 1", s.CreateView, {"materialized": False, "query_sql": "SELECT 1"}),
    ("CREATE OR REPLACE VIEW v (a, b) AS SELECT 1, 2", s.CreateView, {"or_replace": True, "columns": ("a", "b")}),
    ("CREATE RECURSIVE VIEW v (n) AS SELECT 1 UNION ALL SELECT n + 1 FROM v", s.CreateView, {"columns": ("n",)}),
    ("CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM t", s.CreateView, {"materialized": True, "emit": None}),
    ("CREATE MATERIALIZED VIEW IF NOT EXISTS v (c) WITH (state_ttl = '1 day', on_error = 'null') AS SELECT 1", s.CreateView, {"if_not_exists": True, "options": {"state_ttl": "1 day", "on_error": "null"}}),
    ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1 EMIT IMMEDIATELY", s.CreateView, {"emit": "immediately", "or_replace": True}),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1 EMIT CHANGES", s.CreateView, {"emit": "immediately"}),
    ("CREATE MATERIALIZED VIEW v AS SELECT a FROM t GROUP BY a EMIT ON WINDOW CLOSE", s.CreateView, {"emit": "on_window_close", "query_sql": "SELECT a FROM t GROUP BY a"}),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1 EMIT FINAL", s.CreateView, {"emit": "on_window_close"}),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1 FROM t EMIT AFTER WINDOW CLOSE", s.CreateView, {"emit": "on_window_close"}),
    ("CREATE MATERIALIZED TABLE v FRESHNESS = INTERVAL '1' MINUTE AS SELECT 1", s.CreateView, {"materialized": True}),
    ("CREATE DYNAMIC TABLE v TARGET_LAG = '1 minute' WAREHOUSE = w AS SELECT 1", s.CreateView, {"materialized": True}),
    ("CREATE MATERIALIZED VIEW v IN CLUSTER c AS SELECT 1", s.CreateView, {"notices": ('IN CLUSTER "c" has no effect: there is one engine',)}),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1 WITH DATA", s.CreateView, {}),
    ("CREATE MATERIALIZED VIEW v AS (SELECT 1)", s.CreateView, {"query_sql": "(SELECT 1)"}),
    # --- sinks, subscriptions, indexes, schemas
    ("CREATE SINK k FROM v WITH (connector = 'kafka', type = 'upsert', primary_key = 'a') FORMAT UPSERT ENCODE JSON", s.CreateSink, {"from_relation": ("v",), "format": s.FormatDef(format="upsert", encode="json")}),
    ("CREATE SINK IF NOT EXISTS k AS SELECT 1 WITH (connector = 'file', type = 'append-only')", s.CreateSink, {"query": "SELECT 1", "if_not_exists": True}),
    ("CREATE SINK k INTO t FROM v", s.CreateSink, {"into": ("t",)}),
    ("CREATE SINK k INTO t AS SELECT 1", s.CreateSink, {"into": ("t",)}),
    ("CREATE SUBSCRIPTION sub FROM v WITH (retention = '1 day')", s.CreateSubscription, {"relation": ("v",), "options": {"retention": "1 day"}}),
    ("CREATE INDEX i ON v (a, lower(b) DESC, (a + 1)) INCLUDE (c)", s.CreateIndex, {"include": ("c",), "name": ("i",)}),
    ("CREATE UNIQUE INDEX IF NOT EXISTS i ON v USING btree (a text_ops ASC NULLS FIRST)", s.CreateIndex, {"unique": True, "if_not_exists": True}),
    ("CREATE INDEX ON v (a)", s.CreateIndex, {"name": None}),
    ("CREATE SCHEMA IF NOT EXISTS x AUTHORIZATION me", s.CreateSchema, {"name": "x", "if_not_exists": True}),
    # --- subscribe
    ("SUBSCRIBE v", s.Subscribe, {"relation": ("v",), "snapshot": True, "progress": False}),
    ("SUBSCRIBE TO s.v WITH (SNAPSHOT = false, PROGRESS = true) AS OF 3 UP TO 9", s.Subscribe, {"snapshot": False, "progress": True, "as_of": 3, "up_to": 9}),
    ("SUBSCRIBE TO (SELECT a FROM t) WITH (PROGRESS)", s.Subscribe, {"query": "SELECT a FROM t", "progress": True}),
    ("SUBSCRIBE (SELECT 1) AS OF 3 WITH (SNAPSHOT false)", s.Subscribe, {"snapshot": False}),
    ("TAIL v", s.Subscribe, {"relation": ("v",)}),
    ("SELECT * FROM v EMIT CHANGES", s.Subscribe, {"query": "SELECT * FROM v"}),
    ("COPY (SUBSCRIBE v WITH (SNAPSHOT = false)) TO STDOUT", s.Copy, {"direction": "to"}),
    ("DECLARE c CURSOR FOR SUBSCRIBE v", s.DeclareCursor, {"name": "c"}),
    ("DECLARE c SUBSCRIPTION CURSOR FOR sub", s.DeclareCursor, {"subscription": ("sub",), "full": False, "since": None}),
    ("DECLARE c SUBSCRIPTION CURSOR FOR sub SINCE now()", s.DeclareCursor, {"since": "now()"}),
    ("DECLARE c SUBSCRIPTION CURSOR FOR sub SINCE 17000", s.DeclareCursor, {"since": "17000"}),
    ("DECLARE c SUBSCRIPTION CURSOR FOR sub FULL", s.DeclareCursor, {"full": True}),
    ("FETCH 10 FROM c WITH (timeout = '1s')", s.Fetch, {"count": 10, "timeout_us": 1_000_000, "cursor": "c"}),
    ("FETCH c WITH (timeout = '1 minute')", s.Fetch, {"count": 1, "timeout_us": 60_000_000}),
    # --- DML
    ("INSERT INTO t VALUES (1, 'a'), (2, DEFAULT)", s.Insert, {"table": ("t",), "columns": (), "query": "VALUES (1, 'a'), (2, DEFAULT)"}),
    ("INSERT INTO t (a, \"B\") SELECT 1, 2 RETURNING a, b AS c", s.Insert, {"columns": ("a", "B")}),
    ("INSERT INTO t DEFAULT VALUES", s.Insert, {"query": None}),
    ("INSERT INTO t AS x (a) VALUES ($1) ON CONFLICT DO NOTHING", s.Insert, {"alias": "x"}),
    ("INSERT INTO t VALUES ($1,$2) ON CONFLICT (a) DO UPDATE SET b = excluded.b, c = t.c + 1 WHERE t.a > 1", s.Insert, {}),
    ("INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT t_pkey DO NOTHING RETURNING *", s.Insert, {}),
    ("WITH q AS (SELECT 1 AS a) INSERT INTO t SELECT * FROM q", s.Insert, {"query": "WITH q AS (SELECT 1 AS a) SELECT * FROM q"}),
    ("INSERT INTO t (SELECT 1)", s.Insert, {"columns": ()}),
    ("INSERT INTO t (a) OVERRIDING SYSTEM VALUE VALUES (1)", s.Insert, {"columns": ("a",)}),
    ("INSERT INTO t TABLE u", s.Insert, {}),
    ("UPDATE t SET a = 1, b = b + 1 WHERE c", s.Update, {"table": ("t",), "where": "c"}),
    ("UPDATE s.t AS x SET (a, b) = (1, DEFAULT), c = 3 FROM u, v WHERE u.k = x.k RETURNING x.*", s.Update, {"alias": "x"}),
    ("UPDATE t x SET a = 1", s.Update, {"alias": "x"}),
    ("DELETE FROM t", s.Delete, {"where": None}),
    ("DELETE FROM t x USING u WHERE u.k = x.k RETURNING *", s.Delete, {"alias": "x"}),
    ("TRUNCATE t", s.Truncate, {"tables": (("t",),)}),
    ("TRUNCATE TABLE t, s.u RESTART IDENTITY CASCADE", s.Truncate, {"tables": (("t",), ("s", "u"))}),
    ("MERGE INTO t AS x USING (SELECT 1 AS k) s ON x.k = s.k WHEN MATCHED AND s.k > 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 1, w = DEFAULT WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)", s.Merge, {}),
    ("MERGE INTO t USING s ON true WHEN NOT MATCHED BY SOURCE THEN DO NOTHING WHEN NOT MATCHED THEN INSERT DEFAULT VALUES RETURNING *", s.Merge, {}),
    ("COPY t FROM STDIN", s.Copy, {"direction": "from", "format": "text", "table": ("t",)}),
    ("COPY t (a, b) FROM STDIN WITH (FORMAT csv, HEADER true, DELIMITER ';', NULL '', QUOTE '\"', ESCAPE '\\', ENCODING 'utf-8')", s.Copy, {"format": "csv", "header": True, "delimiter": ";", "null": "", "quote": '"', "escape": "\\", "columns": ("a", "b")}),
    ("COPY t FROM STDIN (FORMAT BINARY)", s.Copy, {"format": "binary"}),
    ("COPY t FROM STDIN CSV HEADER", s.Copy, {"format": "csv", "header": True}),
    ("COPY t FROM STDIN WITH DELIMITER AS '|' NULL AS '\\N' CSV", s.Copy, {"delimiter": "|", "null": "\\N"}),
    ("COPY BINARY t TO STDOUT", s.Copy, {"format": "binary", "direction": "to"}),
    ("COPY (SELECT * FROM t) TO STDOUT WITH CSV FORCE QUOTE *", s.Copy, {"query": "SELECT * FROM t"}),
    ("COPY (VALUES (1)) TO STDOUT (FORMAT csv, FORCE_QUOTE (a))", s.Copy, {}),
    ("COPY s.t TO STDOUT", s.Copy, {"table": ("s", "t")}),
    # --- transactions
    ("BEGIN", s.Transaction, {"action": "begin", "read_only": False}),
    ("BEGIN READ ONLY", s.Transaction, {"read_only": True}),
    ("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY, DEFERRABLE", s.Transaction, {"read_only": True}),
    ("BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE NOT DEFERRABLE", s.Transaction, {"read_only": False}),
    ("START TRANSACTION ISOLATION LEVEL READ COMMITTED", s.Transaction, {"action": "begin"}),
    ("COMMIT", s.Transaction, {"action": "commit"}), ("COMMIT WORK", s.Transaction, {"action": "commit"}), ("END", s.Transaction, {"action": "commit"}), ("END TRANSACTION AND NO CHAIN", s.Transaction, {"action": "commit"}),
    ("ROLLBACK", s.Transaction, {"action": "rollback"}), ("ABORT", s.Transaction, {"action": "rollback"}),
    ("SAVEPOINT a", s.Transaction, {"action": "savepoint", "name": "a"}), ("RELEASE SAVEPOINT a", s.Transaction, {"action": "release", "name": "a"}), ("RELEASE a", s.Transaction, {"action": "release"}),
    ("ROLLBACK TO SAVEPOINT \"A\"", s.Transaction, {"action": "rollback_to", "name": "A"}), ("ROLLBACK WORK TO a", s.Transaction, {"action": "rollback_to", "name": "a"}),
    # --- operations
    ("EXPLAIN SELECT 1", s.Explain, {"analyze": False, "format": "text"}),
    ("EXPLAIN ANALYZE VERBOSE SELECT 1", s.Explain, {"analyze": True, "verbose": True}),
    ("EXPLAIN (ANALYZE, VERBOSE false, FORMAT JSON, COSTS off) SELECT 1", s.Explain, {"analyze": True, "verbose": False, "format": "json"}),
    ("EXPLAIN (FORMAT DOT) CREATE MATERIALIZED VIEW v AS SELECT 1", s.Explain, {"format": "dot"}),
    ("EXPLAIN (SELECT 1)", s.Explain, {}), ("EXPLAIN INSERT INTO t VALUES (1)", s.Explain, {}), ("EXPLAIN PLAN FOR SELECT 1", s.Explain, {}),
    ("EXPLAIN ANALYZE MATERIALIZED VIEW v", s.Explain, {"materialized_view": ("v",), "statement": None, "analyze": True}),
    ("EXPLAIN MATERIALIZED VIEW v", s.Explain, {"materialized_view": ("v",)}),
    ("VERIFY MATERIALIZED VIEW v", s.Verify, {"name": ("v",)}),
    *((f"SHOW {w.upper()}", s.ShowObjects, {"kind": w}) for w in ("tables", "sources", "materialized views", "views", "sinks", "indexes", "jobs", "subscriptions", "schemas", "databases", "functions")),
    ("SHOW TABLES FROM s LIKE 'a%'", s.ShowObjects, {"schema": "s", "like": "a%"}),
    ("SHOW INDEXES FROM t", s.ShowObjects, {"kind": "indexes", "relation": ("t",)}),
    ("SHOW COLUMNS FROM s.r", s.ShowObjects, {"kind": "columns", "relation": ("s", "r")}),
    ("SHOW PARAMETERS", s.ShowVariable, {"name": "all"}), ("SHOW ALL", s.ShowVariable, {"name": "all"}),
    ("SHOW CREATE TABLE t", s.ShowCreate, {"kind": "table"}), ("SHOW CREATE MATERIALIZED VIEW s.v", s.ShowCreate, {"kind": "materialized view", "name": ("s", "v")}),
    ("SHOW CREATE VIEW v", s.ShowCreate, {"kind": "view"}), ("SHOW CREATE SOURCE v", s.ShowCreate, {"kind": "source"}), ("SHOW CREATE SINK v", s.ShowCreate, {"kind": "sink"}),
    ("DESCRIBE r", s.Describe, {"name": ("r",)}), ("DESC s.r", s.Describe, {"name": ("s", "r")}), ("DESCRIBE TABLE r", s.Describe, {"name": ("r",)}),
    ("ALTER TABLE t RENAME TO u", s.Alter, {"kind": "table", "action": "rename", "arguments": {"new_name": "u"}}),
    ("ALTER TABLE t RENAME COLUMN a TO b", s.Alter, {"action": "rename_column", "arguments": {"column": "a", "new_name": "b"}}), ("ALTER TABLE t RENAME a TO b", s.Alter, {"action": "rename_column"}),
    ("ALTER MATERIALIZED VIEW v SET (state_ttl = '1 day')", s.Alter, {"action": "set", "arguments": {"options": {"state_ttl": "1 day"}}}),
    ("ALTER SOURCE s SUSPEND", s.Alter, {"kind": "source", "action": "suspend"}), ("ALTER SINK k RESUME", s.Alter, {"kind": "sink", "action": "resume"}),
    ("ALTER TABLE IF EXISTS t ADD COLUMN c INT DEFAULT 1", s.Alter, {"action": "add_column"}), ("ALTER TABLE t ADD c INT", s.Alter, {"action": "add_column"}),
    ("ALTER TABLE t DROP COLUMN IF EXISTS c CASCADE", s.Alter, {"action": "drop_column", "arguments": {"column": "c", "if_exists": True, "cascade": True}}),
    ("ALTER MATERIALIZED VIEW v SWAP WITH w", s.Alter, {"action": "swap_with", "arguments": {"other": ("w",)}}), ("ALTER TABLE t OWNER TO me", s.Alter, {"action": "owner"}),
    ("ALTER VIEW v SET SCHEMA x", s.Alter, {"action": "set_schema", "arguments": {"schema": "x"}}), ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", s.Alter, {"action": "alter_column"}),
    ("ALTER SYSTEM SET checkpoint_interval = '5s'", s.SetVariable, {"value": "5s"}),
    ("PAUSE q", s.Alter, {"action": "suspend"}), ("RESUME q", s.Alter, {"action": "resume"}), ("TERMINATE q", s.Drop, {"kind": "materialized view"}),
    *((f"DROP {k.upper()} IF EXISTS a.b, c CASCADE", s.Drop, {"kind": k, "names": (("a", "b"), ("c",)), "if_exists": True, "cascade": True}) for k in ("table", "source", "view", "materialized view", "sink", "index", "schema", "subscription")),
    ("DROP TABLE t RESTRICT", s.Drop, {"cascade": False, "if_exists": False}), ("DROP STREAM s DELETE TOPIC", s.Drop, {"kind": "source"}), ("DROP FUNCTION IF EXISTS f", s.Drop, {"kind": "function"}),
    ("COMMENT ON TABLE t IS 'x'", s.Comment, {"kind": "table", "text": "x"}), ("COMMENT ON COLUMN s.t.a IS NULL", s.Comment, {"kind": "column", "name": ("s", "t"), "column": "a", "text": None}), ("COMMENT ON MATERIALIZED VIEW v IS 'x'", s.Comment, {"kind": "materialized view"}),
    ("COMMENT ON CONSTRAINT c ON t IS 'x'", s.Comment, {"kind": "constraint", "name": ("t",), "column": "c"}),
    ("CANCEL JOB 7", s.CancelJobs, {"ids": (7,)}), ("CANCEL JOBS 7, 8", s.CancelJobs, {"ids": (7, 8)}), ("CANCEL JOBS", s.CancelJobs, {"ids": None}),
    ("FLUSH", s.Flush, {}), ("WAIT", s.Flush, {}),
    # --- settings
    ("SET a = 1", s.SetVariable, {"name": "a", "value": "1", "local": False}), ("SET a TO 'x y'", s.SetVariable, {"value": "x y"}), ("SET SESSION A = on", s.SetVariable, {"name": "a", "value": "on"}), ("SET LOCAL a = -1.5", s.SetVariable, {"local": True, "value": "-1.5"}),
    ("SET search_path = a, \"B\", 'c'", s.SetVariable, {"value": 'a, "B", c'}), ("SET a = DEFAULT", s.SetVariable, {"value": None}), ("SET streamsql.clock = 'manual'", s.SetVariable, {"name": "streamsql.clock", "value": "manual"}),
    ("SET dialect = 'risingwave'", s.SetVariable, {"name": "dialect"}), ("SET 'execution.checkpointing.interval' = '3s'", s.SetVariable, {"name": "execution.checkpointing.interval", "value": "3s"}),
    ("SET TIME ZONE 'Europe/Paris'", s.SetVariable, {"name": "timezone", "value": "Europe/Paris"}), ("SET TIME ZONE LOCAL", s.SetVariable, {"value": None}), ("SET TIME ZONE -3", s.SetVariable, {"value": "-3"}), ("SET TIME ZONE INTERVAL '1' HOUR", s.SetVariable, {}),
    ("SET NAMES 'utf8'", s.SetVariable, {"name": "client_encoding", "value": "utf8"}), ("SET SCHEMA 'x'", s.SetVariable, {"name": "search_path", "value": "x"}), ("SET ROLE NONE", s.SetVariable, {"name": "role", "value": None}),
    ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", s.SetVariable, {"name": "default_transaction_read_only", "value": "on"}), ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", s.SetVariable, {}), ("SET SESSION AUTHORIZATION me", s.SetVariable, {}), ("SET CONSTRAINTS ALL DEFERRED", s.SetVariable, {}),
    ("RESET a", s.SetVariable, {"name": "a", "value": None}), ("RESET ALL", s.SetVariable, {"name": "all"}), ("RESET TIME ZONE", s.SetVariable, {"name": "timezone"}), ("RESET SESSION AUTHORIZATION", s.SetVariable, {"name": "session_authorization"}),
    ("SHOW a", s.ShowVariable, {"name": "a"}), ("SHOW TRANSACTION ISOLATION LEVEL", s.ShowVariable, {"name": "transaction_isolation"}), ("SHOW TIME ZONE", s.ShowVariable, {"name": "timezone"}), ("SHOW streamsql.clock", s.ShowVariable, {"name": "streamsql.clock"}), ("SHOW server_version", s.ShowVariable, {"name": "server_version"}),
    ("DISCARD ALL", s.Discard, {"what": "all"}), ("DISCARD TEMPORARY", s.Discard, {"what": "temp"}),
    # --- cursors and prepared statements
    ("DECLARE c CURSOR FOR SELECT 1", s.DeclareCursor, {"query": "SELECT 1", "with_hold": False}), ("DECLARE \"C\" BINARY INSENSITIVE NO SCROLL CURSOR WITH HOLD FOR TABLE t", s.DeclareCursor, {"name": "C", "with_hold": True}), ("DECLARE c SCROLL CURSOR WITHOUT HOLD FOR VALUES (1)", s.DeclareCursor, {"scroll": True}),
    ("FETCH c", s.Fetch, {"count": 1, "move": False}), ("FETCH NEXT FROM c", s.Fetch, {"count": 1}), ("FETCH PRIOR IN c", s.Fetch, {"count": -1}), ("FETCH ALL FROM c", s.Fetch, {"count": None}), ("FETCH ALL c", s.Fetch, {"count": None}), ("FETCH 5 c", s.Fetch, {"count": 5}),
    ("FETCH FORWARD 5 FROM \"c\"", s.Fetch, {"count": 5}), ("FETCH FORWARD ALL FROM c", s.Fetch, {"count": None}), ("FETCH FORWARD FROM c", s.Fetch, {"count": 1}), ("FETCH BACKWARD 2 FROM c", s.Fetch, {"count": -2}), ("FETCH RELATIVE 3 FROM c", s.Fetch, {"count": 3}), ("FETCH -1 c", s.Fetch, {"count": -1}),
    ("MOVE FORWARD 3 IN c", s.Fetch, {"move": True, "count": 3}), ("MOVE c", s.Fetch, {"move": True}), ("FETCH next", s.Fetch, {"cursor": "next"}),
    ("CLOSE c", s.CloseCursor, {"name": "c"}), ("CLOSE ALL", s.CloseCursor, {"name": None}),
    ("PREPARE p AS SELECT $1", s.PrepareStatement, {"types": ()}), ("PREPARE p (int, text[], numeric(3, 1)) AS INSERT INTO t VALUES ($1)", s.PrepareStatement, {"types": (t.INTEGER, t.array_of(t.TEXT), t.numeric(3, 1))}),
    ("EXECUTE p", s.ExecuteStatement, {"arguments": ()}), ("EXECUTE p (1, 'a' || 'b')", s.ExecuteStatement, {}), ("DEALLOCATE p", s.Deallocate, {"name": "p"}), ("DEALLOCATE PREPARE ALL", s.Deallocate, {"name": None}), ("DEALLOCATE ALL", s.Deallocate, {"name": None}),
    ("LISTEN ch", s.Notify, {"action": "listen", "channel": "ch"}), ("UNLISTEN *", s.Notify, {"action": "unlisten", "channel": None}), ("NOTIFY ch, 'x'", s.Notify, {"payload": "x"}), ("NOTIFY ch", s.Notify, {"payload": None}),
    # --- tests in SQL, portability
    ("ADVANCE CLOCK TO '2024-01-01'", s.AdvanceClock, {"to": "2024-01-01", "by_us": None}), ("ADVANCE CLOCK TO TIMESTAMP '2024-01-01'", s.AdvanceClock, {"to": "2024-01-01"}), ("ADVANCE CLOCK BY INTERVAL '1' HOUR", s.AdvanceClock, {"by_us": 3_600_000_000}), ("ADVANCE CLOCK BY '90 seconds'", s.AdvanceClock, {"by_us": 90_000_000}),
    ("ADVANCE WATERMARK FOR s.t TO '2024-01-01'", s.AdvanceWatermark, {"relation": ("s", "t")}), ("TRANSLATE 'SELECT 1'", s.Translate, {"text": "SELECT 1"}), ("TRANSLATE $$SELECT 'x'$$", s.Translate, {"text": "SELECT 'x'"}),
]  # fmt: skip


def test_statement_forms_are_many() -> None:
    assert len({sql for sql, _, _ in FORMS}) >= 150


@pytest.mark.parametrize(("sql", "kind", "fields"), FORMS, ids=[f[0][:60] for f in FORMS])
def test_statement_form_parses_to_its_class(sql: str, kind: type, fields: dict[str, Any]) -> None:
    statement = one(sql)
    assert type(statement) is kind
    assert (statement.sql, statement.position) == (sql, 0)
    for name, value in fields.items():
        found = getattr(statement, name)
        assert (to_sql(found) if isinstance(found, exp.Expression) else found) == value, name


@pytest.mark.parametrize(("sql", "kind", "fields"), FORMS[::7], ids=[f[0][:60] for f in FORMS[::7]])
def test_statement_in_lower_case_with_comments_is_the_same_class(
    sql: str, kind: type, fields: dict[str, Any]
) -> None:
    quoted = any(mark in sql for mark in "'\"`$")
    text = sql if quoted else sql.lower().replace(" ", " /* c */\n ")
    assert type(one(f"-- first\n{text} -- last\n;")) is kind


def test_create_table_columns_have_types_flags_and_positions() -> None:
    sql = "CREATE TABLE t (a INT PRIMARY KEY, b NUMERIC(6,2) NOT NULL DEFAULT 1 + 1, c TEXT AS upper(d), d VARCHAR(5) NULL)"
    table = parse("SELECT 1; " + sql)[1]
    assert isinstance(table, s.CreateTable)
    a, b, c, d = table.columns
    assert (a.name, a.type, a.primary_key) == ("a", t.INTEGER, True)
    assert (str(b.type), b.not_null, to_sql(b.default)) == ("numeric(6,2)", True, "1 + 1")
    assert to_sql(c.generated) == "upper(d)"
    assert str(d.type) == "character varying(5)"
    assert ("SELECT 1; " + sql)[b.position :].startswith("b NUMERIC")


def test_create_table_watermark_forms() -> None:
    delay = one(
        "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
    ).watermark
    assert (delay.column, to_sql(delay.expression)) == ("ts", "ts - INTERVAL '5' SECOND")
    adaptive = one(
        "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS PERCENTILE(0.99, INTERVAL '10 minutes'))"
    ).watermark
    assert (adaptive.expression, adaptive.percentile, adaptive.percentile_span_us) == (
        None,
        0.99,
        600_000_000,
    )
    for wrong in (
        "PERCENTILE(2, '1 minute')",
        "PERCENTILE(0.5)",
        "PERCENTILE(0.5, '1 month')",
        "PERCENTILE(0.5, '0 s')",
    ):
        with pytest.raises(SqlSyntaxError):
            parse(f"CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS {wrong})")


def test_flink_table_with_connector_is_a_source_by_quoted_key_or_dialect() -> None:
    quoted = "CREATE TABLE t (a INT) WITH ('connector' = 'kafka')"
    bare = "CREATE TABLE t (a INT) WITH (connector = 'kafka')"
    assert one(quoted).is_source
    assert not one(bare).is_source
    assert one(bare, "flink").is_source
    assert not one("CREATE TABLE t (a INT PRIMARY KEY) WITH ('connector' = 'kafka')").is_source


def test_statement_inside_another_has_its_own_text_and_the_outer_offset() -> None:
    text = "SELECT 1; EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT zz FROM t"
    explain = parse(text)[1]
    assert isinstance(explain, s.Explain)
    inner = explain.statement
    assert isinstance(inner, s.CreateView)
    assert inner.sql == "CREATE MATERIALIZED VIEW v AS SELECT zz FROM t"
    column = inner.query.find(exp.Column)
    assert column is not None
    assert inner.position + column.meta["start"] == text.index("zz")


def test_with_before_update_delete_merge_moves_to_where_it_is_read() -> None:
    with_ = "WITH q AS (SELECT 1 AS k)"
    inside = "(WITH q AS (SELECT 1 AS k) SELECT * FROM q)"
    delete = one(f"{with_} DELETE FROM t USING q AS z WHERE t.k = z.k AND t.k IN (SELECT k FROM q)")
    assert to_sql(delete.using[0]) == f"{inside} AS z"
    assert f"SELECT k FROM {inside} AS q" in to_sql(delete.where)
    update = one(f"{with_} UPDATE t SET v = (SELECT k FROM q) FROM q WHERE t.k = q.k RETURNING *")
    assert to_sql(update.from_[0]) == f"{inside} AS q"
    assert to_sql(update.assignments[0][1]) == f"(SELECT k FROM {inside} AS q)"
    merge = one(f"{with_} MERGE INTO t USING q ON t.k = q.k WHEN MATCHED THEN DELETE")
    assert to_sql(merge.tree.args["using"]) == f"{inside} AS q"


def test_merge_tree_has_the_documented_shape() -> None:
    tree = one(
        "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED AND s.v > 0 THEN INSERT (k, v) VALUES (s.k, DEFAULT)"
    ).tree
    update, insert = tree.args["whens"].expressions
    assert update.args["matched"] is True
    assert update.args["then"].expressions[0].this.name == "v"
    assert insert.args["matched"] is False
    assert [i.name for i in insert.args["then"].this.expressions] == ["k", "v"]
    assert insert.args["then"].expression.expressions[1].name == "DEFAULT"


WRONG: list[tuple[str, int, str | None]] = [
    ("SELEC 1", 0, "SELECT"), ("FROBNICATE THE TABLE", 0, None), ("CREATE TABLE (a INT)", 13, None), ("CREATE TABEL t (a INT)", 7, None), ("CREATE TABLE t (a)", 17, None), ("CREATE TABLE t (a INT,)", 22, None),
    ("CREATE TABLE t (a INT b INT)", 22, None), ("CREATE TABLE t (a INT, PRIMARY KEY a)", 35, None), ("CREATE VIEW v", 13, None), ("CREATE MATERIALIZED v AS SELECT 1", 7, None),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1 EMIT ON CLOSE", 44, "EMIT"), ("CREATE TABLE t (a INT) ON CONFLICT FOO", 35, "OVERWRITE"), ("CREATE TABLE t (a INT) WITH (a = 1, a = 2)", 36, None), ("CREATE TABLE t (a INT) WITH (a 1", 32, None), ("CREATE TABLE t (a INT) FORMAT PLAIN", 35, None),
    ("INSERT t VALUES (1)", 7, None), ("INSERT INTO t", 13, None), ("INSERT INTO t (a, b VALUES (1)", 20, None), ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO", 43, None), ("UPDATE t a = 1", 11, None), ("UPDATE t SET a 1", 15, None), ("UPDATE t SET (a, b) = (1)", 22, None), ("DELETE t", 7, None), ("DELETE FROM t WHERE", 19, None),
    ("DROP TABLE", 10, None), ("DROP t", 5, None), ("ALTER TABLE t FOO", 14, "RENAME"), ("ALTER TABLE t RENAME", 20, None), ("SET a", 5, None), ("SET a =", 7, None), ("SHOW", 4, None), ("BEGIN ISOLATION LEVEL FOO", 22, None), ("COMMIT FOO", 7, None),
    ("EXPLAIN", 7, None), ("EXPLAIN (FOO) SELECT 1", 8, None), ("EXPLAIN FOO", 8, None), ("COPY t", 6, None), ("COPY t FROM", 11, None), ("COPY t FROM STDIN (FOO 1)", 23, None), ("COPY t FROM STDIN FOO", 18, None), ("DECLARE c FOR SELECT 1", 10, None), ("DECLARE c CURSOR FOR INSERT INTO t VALUES (1)", 21, None), ("FETCH", 5, None),
    ("PREPARE p SELECT 1", 10, None), ("PREPARE p AS DROP TABLE t", 13, None), ("EXECUTE", 7, None), ("SUBSCRIBE", 9, None), ("SUBSCRIBE TO", 12, None), ("SUBSCRIBE v AS OF x", 18, None), ("TRANSLATE SELECT 1", 10, None), ("ADVANCE CLOCK", 13, None), ("ADVANCE t", 8, None), ("CANCEL JOB", 10, None), ("CANCEL JOB x", 11, None), ("CANCEL t", 7, None), ("COMMENT ON COLUMN a IS 'x'", 18, None), ("MERGE INTO t USING s ON true", 28, None),
    ("VERIFY v", 7, None), ("CREATE INDEX i ON v", 19, None), ("CREATE SINK k WITH (a = 1)", 14, None), ("DISCARD x", 8, None), ("GRNAT ALL ON t TO u", 0, "GRANT"), ("USE db", 0, "search_path"), ("UPSERT INTO t VALUES (1)", 0, "ON CONFLICT"), ("SELECT 1; SELECT 2 FORM t x", 24, None), ("; DELET FROM t", 2, "DELETE"),
    ("SHOW CREATE FOO x", 12, "TABLE"), ("1 + 1", 0, None), ("'x'", 0, None),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "position", "hint"), WRONG, ids=[w[0][:60] for w in WRONG])
def test_statement_that_is_wrong_raises_42601_at_its_position(
    sql: str, position: int, hint: str | None
) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse(sql)
    error = caught.value
    assert (error.sqlstate, error.position) == ("42601", position), str(error)
    if hint is not None:
        assert error.hint is not None
        assert hint in error.hint


@pytest.mark.parametrize(
    "sql",
    ["CREATE FUNCTION f() RETURNS int AS 'x'", "CREATE TRIGGER x", "CREATE SEQUENCE q", "CREATE EXTENSION x", "CREATE DATABASE d", "GRANT ALL ON t TO u", "REVOKE ALL ON t FROM u", "VACUUM", "ANALYZE t", "REFRESH MATERIALIZED VIEW v", "LOCK TABLE t", "DO $$x$$",
     "CREATE TABLE t (a INT REFERENCES u)", "CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES u)", "CREATE TABLE t (LIKE u)", "CREATE TABLE t (a INT GENERATED ALWAYS AS IDENTITY)",
     "CREATE TABLE t (a TEXT COLLATE \"de_DE\")", "COPY t FROM '/etc/passwd'", "COPY t TO PROGRAM 'x'", "COPY t FROM STDIN WHERE a > 1", "ALTER TABLE t ADD CONSTRAINT x PRIMARY KEY (a)", "PREPARE TRANSACTION 'x'", "COMMIT AND CHAIN", "FETCH LAST FROM c", "INSERT OVERWRITE t SELECT 1", "CREATE VIEW v AS SELECT 1 EMIT FINAL",
     "UPDATE t SET (a, b) = (SELECT * FROM u)", "DELETE FROM t WHERE CURRENT OF c", "CREATE TABLE t (x INT METADATA FROM 'topic')", "CREATE TABLE t (a INT) PARTITIONED BY (a)", "ALTER USER x PASSWORD 'y'"],
)  # fmt: skip
def test_statement_without_support_raises_0a000_with_hint_and_position(sql: str) -> None:
    with pytest.raises(FeatureNotSupported) as caught:
        parse(sql)
    assert caught.value.hint
    assert caught.value.position is not None


@pytest.mark.parametrize(
    ("sql", "error"),
    [("CREATE TABLE t (a FROBTYPE)", UndefinedObject), ("CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))", InvalidTableDefinition), ("CREATE TABLE t (a INT, WATERMARK FOR a AS a, WATERMARK FOR a AS a)", InvalidTableDefinition), ("CREATE TABLE t (a NUMERIC(50))", InvalidParameterValue), ("COPY t FROM STDIN (FORMAT xml)", InvalidParameterValue), ("EXPLAIN (FORMAT xml) SELECT 1", InvalidParameterValue), ("SUBSCRIBE v WITH (foo = 1)", InvalidParameterValue), ("SUBSCRIBE v WITH (snapshot = 7)", InvalidParameterValue), ("ADVANCE CLOCK BY '1 month'", InvalidParameterValue)],
)  # fmt: skip
def test_statement_with_wrong_value_raises_its_sqlstate_with_position(
    sql: str, error: type[StatementError]
) -> None:
    with pytest.raises(error) as caught:
        parse(sql)
    assert caught.value.position is not None


def test_every_word_of_the_registry_starts_a_tested_statement() -> None:
    from streamsql.dialect.registry import STATEMENTS
    from streamsql.dialect.unsupported import OTHERS

    tested = [sql.upper() for sql, _, _ in FORMS] + [
        "SELECT",
        "VALUES",
        "TABLE",
        "(",
        "PREPARE TRANSACTION",
    ]
    for words, _ in STATEMENTS:
        if words not in OTHERS:
            assert any(sql.startswith(words) for sql in tested), words
