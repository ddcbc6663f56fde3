"""TIMESTAMP(p) and its kin: every way into a table rounds, also after a restart."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import streamsql
from streamsql.engine.database import Database

TEXT = "2024-01-01 00:00:00.123456"
ROUNDED = datetime.datetime(2024, 1, 1, 0, 0, 0, 123000)


def _copy(db: Database, statement: str, data: bytes) -> None:
    session = db.session()
    copy: Any = session.run(session.parse(statement)[0])
    copy.write(data)
    copy.finish()


def test_copy_programs_and_sources_round(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"4,{TEXT}\n")
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (id INT, ts TIMESTAMP(3), g TIMESTAMP(0) AS ts)")
        _copy(db, "COPY t (id, ts) FROM STDIN", f"1\t{TEXT}\n".encode())
        db.insert("t", {"id": [2], "ts": [datetime.datetime.fromisoformat(TEXT)]})
        db.insert("t", {"id": [3], "ts": [TEXT]})
        whole = datetime.datetime(2024, 1, 1)
        found = db.execute("SELECT id, ts, g FROM t ORDER BY id").fetchall()
        assert found == [(i, ROUNDED, whole) for i in (1, 2, 3)]
        db.execute(
            "CREATE TABLE s (id INT, ts TIMESTAMP(3)) WITH (connector = 'file', path = "
            f"'{tmp_path}/in.csv') FORMAT PLAIN ENCODE CSV (header = false)"
        )
        db.execute("FLUSH")
        assert db.execute("SELECT * FROM s").fetchall() == [(4, ROUNDED)]


def test_digits_outlive_a_restart(tmp_path: Path) -> None:
    with streamsql.connect(tmp_path / "d") as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMPTZ(3))")
    with streamsql.connect(tmp_path / "d") as db:
        db.execute(f"INSERT INTO t VALUES (1, '{TEXT}+00')")
        (row,) = db.execute("SELECT ts FROM t").fetchall()
        assert row == (ROUNDED.replace(tzinfo=row[0].tzinfo),)
        result = db.execute("SELECT ts, ts + interval '1 s' FROM t")
        assert [c.type.typmod for c in result.columns or ()] == [3, -1]
