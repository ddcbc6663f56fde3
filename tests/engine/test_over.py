"""OVER in a database: VERIFY knows which of equal rows came first, also after a restart."""

from __future__ import annotations

from pathlib import Path

import streamsql


def test_which_of_equal_rows_came_first_is_no_difference(tmp_path: Path) -> None:
    db = streamsql.connect(str(tmp_path / "data"))
    db.execute("CREATE TABLE n (id INT PRIMARY KEY, k INT, v INT)")
    db.execute(
        "CREATE MATERIALIZED VIEW m AS SELECT id, row_number() OVER (ORDER BY k) AS r, "
        "lag(id) OVER (PARTITION BY k ORDER BY v) AS p, sum(v) OVER (ORDER BY k ROWS 2 PRECEDING) AS s FROM n"
    )
    for start in range(0, 200, 50):
        values = ", ".join(f"({i}, {i * 7 % 4}, {i * 5 % 3})" for i in range(start, start + 50))
        db.execute(f"INSERT INTO n VALUES {values}")
        db.execute(f"DELETE FROM n WHERE id % 7 = {start // 50}")
        db.execute("UPDATE n SET v = v + 1 WHERE id % 11 = 3")
    assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []
    shown = db.execute("SELECT * FROM m ORDER BY id").fetchall()
    db.close()
    db = streamsql.connect(str(tmp_path / "data"))
    db.execute("INSERT INTO n VALUES (1000, 1, 1)")
    db.execute("DELETE FROM n WHERE id = 1000")
    assert db.execute("SELECT * FROM m ORDER BY id").fetchall() == shown
    assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []
    db.close()
