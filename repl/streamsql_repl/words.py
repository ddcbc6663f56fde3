"""Keywords, types and functions that are highlighted and completed."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


KEYWORDS: frozenset[str] = frozenset(
    _words("""
    ADD ADVANCE ALL ALTER ANALYZE AND ANY APPEND ARRAY AS ASC ASOF AT BEGIN BETWEEN BY CASCADE CASE
    CAST CHANGES CLOCK CLOSE COLLATE COLUMN COMMENT COMMIT CONFLICT COPY CREATE CROSS CUBE CUMULATE
    CURRENT CURSOR DEALLOCATE DECLARE DEFAULT DELETE DESC DESCRIBE DESCRIPTOR DISCARD DISTINCT DO
    DROP ELSE EMIT ENCODE END ESCAPE EXCEPT EXCLUDE EXECUTE EXISTS EXPLAIN EXTRACT FALSE FETCH
    FILTER FIRST FLUSH FOLLOWING FOR FORMAT FROM FULL GROUP GROUPING HAVING HOP IF ILIKE IMMEDIATELY
    IN INCLUDE INDEX INDEXES INNER INSERT INTERSECT INTERVAL INTO IS ISNULL JOBS JOIN LAST LATERAL
    LEFT LIKE LIMIT LISTEN MATCH_CONDITION MATERIALIZED MERGE MOVE NATURAL NO NOT NOTHING NOTIFY
    NOTNULL NULL NULLS OF OFFSET ON ONLY OR ORDER ORDINALITY OUTER OVER OVERWRITE PARTITION PLAIN
    PRECEDING PREPARE PRIMARY KEY PROGRESS QUALIFY RANGE RECURSIVE RELEASE RENAME REPLACE RESET
    RESTRICT RESUME RETURNING RIGHT ROLLBACK ROLLUP ROW ROWS SAVEPOINT SCHEMA SELECT SESSION SET
    SETS SHOW SIMILAR SINK SINKS SNAPSHOT SOME SOURCE SOURCES START SUBSCRIBE SUBSCRIPTION
    SUBSCRIPTIONS SUSPEND SWAP SYSTEM_TIME TABLE TABLES THEN TO TRANSACTION TRANSLATE TRUE TRUNCATE
    TUMBLE UNBOUNDED UNION UNLISTEN UP UPDATE USING VALUES VERIFY VIEW VIEWS WAIT WATERMARK WHEN
    WHERE WINDOW WITH WITHIN
    """)
)

TYPES: frozenset[str] = frozenset(
    _words("""
    BIGINT BOOLEAN BOOL BYTEA CHAR DATE DECIMAL DOUBLE FLOAT INT INTEGER JSON JSONB MAP NUMERIC
    PRECISION REAL SMALLINT STRING STRUCT TEXT TIME TIMESTAMP TIMESTAMPTZ UUID VARCHAR ZONE
    """)
)

FUNCTIONS: tuple[str, ...] = _words("""
    abs age array_agg array_length avg bool_and bool_or btrim ceil char_length coalesce concat
    concat_ws count current_date current_timestamp date_bin date_part date_trunc dense_rank exp
    first_value floor format generate_series greatest initcap jsonb_agg jsonb_array_elements
    jsonb_build_object jsonb_typeof lag last_value lead least left length ln log lower lpad ltrim
    max md5 min mod now nth_value ntile nullif percentile_cont percent_rank position power rank
    regexp_match regexp_replace repeat replace reverse right round row_number rpad rtrim sign
    split_part sqrt stddev_pop stddev_samp string_agg strpos substring sum to_char to_date
    to_timestamp translate trim trunc unnest upper var_pop var_samp
""")

STATEMENT_STARTS: tuple[str, ...] = (
    "SELECT",
    "INSERT INTO",
    "UPDATE",
    "DELETE FROM",
    "CREATE TABLE",
    "CREATE SOURCE",
    "CREATE VIEW",
    "CREATE MATERIALIZED VIEW",
    "CREATE SCHEMA",
    "CREATE INDEX",
    "DROP TABLE",
    "DROP VIEW",
    "DROP MATERIALIZED VIEW",
    "DROP SOURCE",
    "ALTER TABLE",
    "ALTER MATERIALIZED VIEW",
    "SUBSCRIBE TO",
    "EXPLAIN",
    "SHOW TABLES",
    "SHOW SOURCES",
    "SHOW MATERIALIZED VIEWS",
    "SHOW VIEWS",
    "SHOW CREATE",
    "DESCRIBE",
    "WITH",
    "VALUES",
    "TABLE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SET",
    "RESET",
    "COPY",
    "TRUNCATE",
    "MERGE INTO",
    "FLUSH",
    "WAIT",
    "ADVANCE CLOCK",
    "ADVANCE WATERMARK FOR",
    "VERIFY MATERIALIZED VIEW",
    "TRANSLATE",
    "DECLARE",
    "FETCH",
    "CLOSE",
)
