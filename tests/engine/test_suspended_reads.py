"""Who reads a suspended view is told that its rows are old: once a statement, in each kind of it."""

from __future__ import annotations

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.engine.session import Session

M = "materialized view m is suspended: its rows are those of when it was"
TOP = "materialized view top is suspended: its rows are those of when it was"
HINT = "ALTER MATERIALIZED VIEW m RESUME brings it up to date."


@pytest.fixture
def session(db) -> Session:
    session = db.session()
    for sql in (
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "CREATE TABLE into_it (n BIGINT)",
        "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t",
        "CREATE VIEW plain AS SELECT n FROM m",
        "CREATE MATERIALIZED VIEW top AS SELECT n + 1 AS n FROM m",
        "ALTER MATERIALIZED VIEW m SUSPEND",
        "INSERT INTO t VALUES (1)",
    ):
        session.execute(sql)
    session.notices.clear()
    return session


def told(session: Session, sql: str) -> list[str]:
    session.notices.clear()
    result = session.execute(sql)
    found = [*result.notices, *session.notices]
    assert all(n.severity == "NOTICE" and n.hint == HINT for n in found)
    return sorted(n.message for n in found)


@pytest.mark.parametrize(
    ("sql", "want"),
    [
        ("SELECT * FROM m", [M]),
        ("SELECT n FROM m WHERE n = 0", [M]),
        ("SELECT * FROM plain", [M]),
        ("SELECT * FROM m AS x, m AS y, plain AS z", [M]),
        ("SELECT * FROM m, top", [M, TOP]),
        ("SELECT (SELECT n FROM top) FROM t", [TOP]),
        ("TABLE m", [M]),
        ("INSERT INTO into_it SELECT n FROM m", [M]),
        ("UPDATE into_it SET n = (SELECT n FROM m)", [M]),
        ("DELETE FROM into_it WHERE n IN (SELECT n FROM m)", [M]),
        ("CREATE TABLE made AS SELECT n FROM m", [M]),
        ("SUBSCRIBE m UP TO 7", [M]),
        ("SELECT * FROM t", []),
        ("SELECT * FROM m FOR SYSTEM_TIME AS OF 6", []),
        ("SELECT state FROM streamsql.jobs", []),
    ],
)
def test_what_reads_a_suspended_view_says_so(session: Session, sql: str, want: list[str]) -> None:
    assert told(session, sql) == want
    session.execute("ALTER MATERIALIZED VIEW m RESUME")
    if not sql.startswith("CREATE"):
        assert told(session, sql.replace("7", "9")) == []


def test_a_cursor_says_so_too(session: Session) -> None:
    session.execute("BEGIN")
    assert told(session, "DECLARE c CURSOR FOR SELECT * FROM m") == [M]
    assert told(session, "FETCH 1 FROM c") == []
    session.execute("COMMIT")


def test_a_query_over_it_can_not_be_followed(session: Session) -> None:
    with pytest.raises(StreamSqlError, match='materialized view "m" is suspended'):
        session.execute("SUBSCRIBE (SELECT n FROM m)")
