"""The syntax of the statements, for \\h."""

from __future__ import annotations

from dataclasses import dataclass

# one topic a paragraph: "NAME | other first words: what it does", then its syntax, indented
_TEXT = """
SELECT | WITH | VALUES | TABLE: read rows
    [ WITH [ RECURSIVE ] name AS (query) [, …] ]
    SELECT [ DISTINCT [ ON (expr, …) ] ] expr [ [ AS ] name ], …
    [ FROM relation [ [ AS ] alias ] [ JOIN … ON … ], … ]
    [ WHERE condition ] [ GROUP BY expr, … | GROUPING SETS (…) ] [ HAVING condition ]
    [ WINDOW name AS (…) ] [ QUALIFY condition ]
    [ { UNION | INTERSECT | EXCEPT } [ ALL ] query ]
    [ ORDER BY expr [ ASC | DESC ] [ NULLS { FIRST | LAST } ], … ] [ LIMIT n ] [ OFFSET n ]
    relation: a name, (query), or a time window over one of these:
      TUMBLE(rel, time, size [, offset])       HOP(rel, time, hop, size [, offset])
      CUMULATE(rel, time, step, size)          SESSION(rel [PARTITION BY k, …], time, gap)

CREATE TABLE: a table, fed by DML or by a connector
    CREATE TABLE [ IF NOT EXISTS ] name (
      column type [ NOT NULL ] [ DEFAULT expr ] [ PRIMARY KEY ] [ AS expr ], …,
      [ PRIMARY KEY (column, …), ] [ WATERMARK FOR column AS expr ] )
    [ APPEND ONLY ] [ ON CONFLICT { OVERWRITE | DO NOTHING | DO UPDATE IF NOT NULL } ]
    [ INCLUDE { key | partition | offset | timestamp | header | payload } [ AS name ] … ]
    [ WITH (connector = …, …) ] [ FORMAT f ENCODE e (…) ]
    CREATE TABLE name AS query

CREATE SOURCE: outside data that is not kept
    CREATE SOURCE [ IF NOT EXISTS ] name (columns as in CREATE TABLE)
    WITH (connector = 'file' | 'datagen' | 'nexmark', …)
    FORMAT PLAIN ENCODE { JSON | CSV | PARQUET } [ (…) ]

CREATE VIEW: a named query
    CREATE [ OR REPLACE ] VIEW name [ (columns) ] AS query

CREATE RECURSIVE VIEW: a view that reads itself
    CREATE RECURSIVE VIEW name (columns) AS query

CREATE MATERIALIZED VIEW: a query whose result is always up to date
    CREATE [ OR REPLACE ] MATERIALIZED VIEW [ IF NOT EXISTS ] name [ (columns) ] [ WITH (…) ]
    AS query [ EMIT IMMEDIATELY | EMIT ON WINDOW CLOSE ]
    options: on_error = 'skip' | 'null' | 'fail', retention = '1 day'

CREATE INDEX: an index
    CREATE INDEX [ IF NOT EXISTS ] name ON relation (expr, …) [ INCLUDE (column, …) ]

CREATE SUBSCRIPTION: keeps the changes of a relation, to be read from any point later
    CREATE SUBSCRIPTION [ IF NOT EXISTS ] name FROM relation WITH (retention = '1 day')

CREATE SCHEMA: a namespace
    CREATE SCHEMA [ IF NOT EXISTS ] name

INSERT: add rows
    INSERT INTO table [ (columns) ] { VALUES (…), … | query | DEFAULT VALUES }
    [ ON CONFLICT [ (columns) ] { DO NOTHING | DO UPDATE SET column = expr, … [ WHERE … ] } ]
    [ RETURNING expr, … ]

UPDATE: change rows
    UPDATE table SET column = expr, … [ FROM … ] [ WHERE condition ] [ RETURNING expr, … ]

DELETE: remove rows
    DELETE FROM table [ USING … ] [ WHERE condition ] [ RETURNING expr, … ]

MERGE: insert, change or remove rows by what a query says
    MERGE INTO table [ [ AS ] alias ] USING relation ON condition
    WHEN MATCHED [ AND condition ] THEN { UPDATE SET … | DELETE | DO NOTHING }
    WHEN NOT MATCHED [ AND condition ] THEN { INSERT [ (columns) ] VALUES (…) | DO NOTHING }

TRUNCATE: remove all rows
    TRUNCATE [ TABLE ] table, …

COPY: rows in bulk
    COPY table [ (columns) ] FROM STDIN [ (FORMAT csv, HEADER, …) ]
    COPY { table | (query) | (SUBSCRIBE …) } TO STDOUT [ (…) ]
    With a file on this machine: \\copy table from 'file' (FORMAT csv)

SUBSCRIBE | TAIL: the changes of a view, as they happen
    SUBSCRIBE [ TO ] { view | (query) } [ WITH (SNAPSHOT = …, PROGRESS = …) ]
    [ AS OF version ] [ UP TO version ]
    In place on the screen: \\live view

BEGIN | START TRANSACTION: a transaction, whose writes are one tick
    BEGIN [ READ ONLY ]

COMMIT | END: end a transaction
    COMMIT

ROLLBACK | ABORT: give a transaction up
    ROLLBACK [ TO SAVEPOINT name ]

SAVEPOINT | RELEASE: a part of a transaction that can be given up alone
    SAVEPOINT name
    ROLLBACK TO [ SAVEPOINT ] name
    RELEASE [ SAVEPOINT ] name

EXPLAIN: how a query or view is kept up to date
    EXPLAIN [ (ANALYZE, VERBOSE, FORMAT TEXT | JSON | DOT) ] statement
    EXPLAIN ANALYZE MATERIALIZED VIEW view

COMMENT: words about an object, for the catalog
    COMMENT ON { TABLE | SOURCE | VIEW | MATERIALIZED VIEW | INDEX | SCHEMA | DATABASE } name
      IS { 'text' | NULL }
    COMMENT ON COLUMN relation.column IS { 'text' | NULL }
    COMMENT ON CONSTRAINT name ON table IS { 'text' | NULL }

CANCEL JOB: stop views that are being made in the background
    CANCEL { JOB | JOBS } number, …

DROP | TERMINATE: remove an object
    DROP { TABLE | SOURCE | VIEW | MATERIALIZED VIEW | INDEX | SCHEMA | SUBSCRIPTION }
    [ IF EXISTS ] name, … [ CASCADE ]

ALTER | PAUSE | RESUME: change an object
    ALTER { TABLE | MATERIALIZED VIEW | SOURCE } name
      { RENAME TO name | RENAME COLUMN a TO b | SET (…) | SUSPEND | RESUME
        | ADD COLUMN … | DROP COLUMN name | SWAP WITH name }
    PAUSE name, RESUME name: ALTER … SUSPEND and RESUME in ksqlDB's words

SHOW | LIST: lists, definitions, settings
    SHOW { TABLES | SOURCES | VIEWS | MATERIALIZED VIEWS | INDEXES | JOBS
           | SUBSCRIPTIONS | SCHEMAS | FUNCTIONS | PROCESSLIST } [ LIKE 'pattern' ]
    SHOW COLUMNS FROM relation
    SHOW CREATE { TABLE | VIEW | MATERIALIZED VIEW | SOURCE | INDEX | SUBSCRIPTION } name
    SHOW { setting | ALL }

DESCRIBE | DESC: the columns of a relation
    DESCRIBE relation

SET | RESET | UNSET: change a setting
    SET [ LOCAL ] name { = | TO } value
    RESET name

DISCARD: forget what the session has
    DISCARD { ALL | PLANS | TEMP | SEQUENCES }

PREPARE | EXECUTE | DEALLOCATE: a statement with parameters
    PREPARE name [ (type, …) ] AS statement
    EXECUTE name [ (value, …) ]
    DEALLOCATE [ PREPARE ] { name | ALL }

DECLARE: a cursor over a query, a stream of changes or a subscription
    DECLARE name [ SCROLL ] CURSOR [ WITH HOLD ] FOR query
    DECLARE name CURSOR FOR SUBSCRIBE [ TO ] …
    DECLARE name SUBSCRIPTION CURSOR FOR subscription
      [ SINCE { now() | begin() | version | 'timestamp' } | FULL ]

FETCH | MOVE: rows of a cursor
    FETCH [ n | ALL | NEXT | PRIOR | FIRST | LAST | ABSOLUTE n | RELATIVE n | BACKWARD n ]
      [ FROM ] cursor [ WITH (timeout = '1s') ]

CLOSE: end a cursor
    CLOSE { cursor | ALL }

LISTEN | UNLISTEN | NOTIFY: accepted, since drivers send them
    LISTEN channel, UNLISTEN { channel | * }, NOTIFY channel [ , 'payload' ]

FLUSH | WAIT: wait for what sources have delivered
    FLUSH

ADVANCE: the manual clock of tests
    SET streamsql.clock = 'manual'
    ADVANCE CLOCK { TO 'timestamp' | BY INTERVAL 'interval' }
    ADVANCE WATERMARK FOR table TO 'timestamp'

VERIFY: compare a view with its query
    VERIFY MATERIALIZED VIEW view

TRANSLATE: another system's statement in our words, and what it means differently here
    SET dialect = 'flink' | 'ksql' | 'materialize' | 'risingwave' | …
    TRANSLATE 'statement'
"""


@dataclass(frozen=True)
class Topic:
    """name: first words; others: what else it starts with; summary: what it does; syntax: how it
    is written."""

    name: str
    others: tuple[str, ...]
    summary: str
    syntax: str


def _read(text: str) -> tuple[Topic, ...]:
    topics = []
    for paragraph in text.strip().split("\n\n"):
        title, _, syntax = paragraph.partition("\n")
        names, _, summary = title.partition(": ")
        name, *others = names.split(" | ")
        lines = [line.removeprefix("    ") for line in syntax.splitlines()]
        topics.append(Topic(name, tuple(others), summary, "\n".join(lines)))
    return tuple(topics)


TOPICS = _read(_TEXT)
