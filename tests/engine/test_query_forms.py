"""Queries of every form, whose answers were compared with PostgreSQL, as views made before their
rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database
from tests.golden.script import Block, parse

SCRIPT = Path(__file__).parent.parent / "golden" / "postgres_queries.slt"

SKIPPED = ("SELECT FROM k", "corr(i,j)", "var_pop(n)")
"""A view has a column; sums that lose digits: a view's differ from a query's in the last one shown
(tests/oracle compares them as rounded)."""


def blocks() -> list[Block]:
    return list(parse(SCRIPT))


@pytest.mark.parametrize("part", range(3))
def test_views_hold_what_the_queries_answer(part: int) -> None:
    """The tables are created and filled by the script's statements; the queries of one part."""
    statements = [b.sql for b in blocks() if b.head == ["statement", "ok"]]
    asked = [b.sql for b in blocks() if b.head[0] == "query"]
    queries = [sql for sql in asked if not any(text in sql for text in SKIPPED)][part::3]
    assert len(queries) > 80
    with Database() as db:
        for sql in statements:
            if sql.startswith("CREATE"):
                db.execute(sql)
        for n, sql in enumerate(queries):
            columns = ", ".join(f"c{i}" for i in range(_width(db, sql)))
            db.execute(f"CREATE MATERIALIZED VIEW v{n} ({columns}) AS {sql}")
        for sql in statements:
            if not sql.startswith("CREATE"):
                db.execute(sql)
        wrong = []
        for n, sql in enumerate(queries):
            wanted, found = _rows(db, sql), _rows(db, f"SELECT * FROM v{n}")
            if found != wanted:
                wrong.append((sql, found, wanted))
        assert wrong == []


def _width(db: Database, sql: str) -> int:
    """The number of columns."""
    return len(db.execute(f"SELECT * FROM ({sql}) AS q LIMIT 0").columns or ())


def _rows(db: Database, sql: str) -> list[str]:
    try:
        return sorted(repr(row) for row in db.execute(sql).fetchall())
    except StreamSqlError as error:
        return [f"{error.sqlstate} {error.message}"]
