"""Values at the edges of their types: a view is its query, ad hoc too, while they come and go."""

from __future__ import annotations

import streamsql

COLUMNS = "id INT PRIMARY KEY, k INT, si SMALLINT, re REAL, db DOUBLE PRECISION, ts TIMESTAMP, iv INTERVAL, js JSONB, tx TEXT"
ROWS = (
    "(1, 1, 1, 'Infinity', 'Infinity', '-infinity', '1 mon', '1', 'a')",
    "(2, 1, -1, 1, 1, '2024-01-01', '30 days', '1.0', 'a ')",
    "(3, 1, 1, '-0', 2, NULL, '-3 hours', '[]', NULL)",
    "(4, 2, 32767, 'NaN', 'NaN', 'infinity', NULL, 'null', 'e\u0301')",
    "(5, 2, NULL, 0, 5e-324, '1969-12-31', '720 hours', '{\"a\": [1]}', '\u00e9')",
    "(6, NULL, 0, 1e-45, 1e300, NULL, '1 day', NULL, '')",
)
CALLS = (
    "stddev(DISTINCT si)", "var_pop(DISTINCT si) FILTER (WHERE id < 3)", "var_pop(re)", "var_pop(re) FILTER (WHERE id = 1)",
    "sum(re)", "min(db)", "max(re)", "count(DISTINCT re)", "any_value(DISTINCT ts)", "first_value(DISTINCT tx)",
    "last_value(DISTINCT si)", "array_agg(ts ORDER BY k)", "jsonb_agg(db ORDER BY id)", "json_agg(re ORDER BY re)",
    "sum(DISTINCT iv)", "max(iv) FILTER (WHERE id > 1)", "min_by(tx, js)", "array_agg(id ORDER BY js DESC)",
    "string_agg(tx, '|' ORDER BY si)", "mode() WITHIN GROUP (ORDER BY iv)", "percentile_disc(0.5) WITHIN GROUP (ORDER BY ts)",
)  # fmt: skip
OVER = (
    "rank() OVER (ORDER BY re)", "lag(tx) OVER (ORDER BY si)", "first_value(ts) OVER (PARTITION BY k ORDER BY si)",
    "max(re) OVER (ORDER BY id ROWS 1 PRECEDING)", "ntile(2) OVER (ORDER BY js)", "sum(db) OVER (ORDER BY tx ROWS 1 PRECEDING)",
    "string_agg(tx, '-') OVER (PARTITION BY k ORDER BY js)", "dense_rank() OVER (ORDER BY iv DESC)",
)  # fmt: skip
CHANGES = (
    "UPDATE t SET si = si, tx = tx",
    "DELETE FROM t WHERE id IN (1, 5)",
    f"INSERT INTO t VALUES {ROWS[4]}, {ROWS[0]}",
    "UPDATE t SET k = 2 WHERE id = 1",
    "DELETE FROM t WHERE k = 2",
    "DELETE FROM t",
)


def test_views_over_edges_are_their_queries() -> None:
    db = streamsql.connect()
    db.execute(f"CREATE TABLE t ({COLUMNS})")
    views = {f"v{i}": f"SELECT k, {call} AS r FROM t GROUP BY k" for i, call in enumerate(CALLS)}
    views |= {f"w{i}": f"SELECT id, {call} AS r FROM t" for i, call in enumerate(OVER)}
    for name, sql in views.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    for statement in (f"INSERT INTO t VALUES {', '.join(ROWS)}", *CHANGES):
        db.execute(statement)
        for name, sql in views.items():
            found = db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall()
            assert found == [], (sql, statement, found)
            seen, asked = (
                sorted(map(repr, db.execute(q).fetchall())) for q in (f"SELECT * FROM {name}", sql)
            )
            assert seen == asked, (sql, statement)
    assert db.execute("SELECT count(*) FROM streamsql.view_errors").fetchall() == [(0,)]
    db.close()


def test_jsonb_numbers_are_written_out() -> None:
    db = streamsql.connect()
    found = db.execute(
        "SELECT to_jsonb(1e300::float8)::text, '-1.5e3'::jsonb::text, '0e5'::jsonb::text"
    ).fetchall()
    assert found == [("1" + "0" * 300, "-1500", "0")]
