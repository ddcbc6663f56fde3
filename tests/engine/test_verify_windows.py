"""VERIFY of views whose rows depend on the watermark."""

import streamsql

MINUTES = (
    "SELECT window_start, count(*) AS n FROM TUMBLE(ev, ts, INTERVAL '1 minute') "
    "GROUP BY window_start"
)


def filled() -> streamsql.Database:
    db = streamsql.connect()
    db.execute("CREATE TABLE ev (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')")
    db.execute(f"CREATE MATERIALIZED VIEW live AS {MINUTES}")
    db.execute(f"CREATE MATERIALIZED VIEW final AS {MINUTES} EMIT ON WINDOW CLOSE")
    for time in ("10:00:10", "10:01:30", "10:00:20", "10:02:40", "10:01:50"):
        db.execute(f"INSERT INTO ev VALUES ('2024-06-01 {time}')")
    return db


def test_late_rows_and_open_windows_are_no_differences() -> None:
    with filled() as db:
        assert db.execute("SELECT n FROM live ORDER BY window_start").fetchall() == [
            (1,),
            (1,),
            (1,),
        ]
        assert db.execute("SELECT n FROM final ORDER BY window_start").fetchall() == [(1,), (1,)]
        for view in ("live", "final"):
            assert db.execute(f"VERIFY MATERIALIZED VIEW {view}").fetchall() == []


def test_a_wrong_row_is_found_with_its_weight() -> None:
    with filled() as db:
        for name in ("live", "final"):
            view = next(v for v in db.engine.views.values() if v.relation.name == name)
            right = view.contents()
            view.store.clear()
            view.store.apply(right.take([0]))
            lost = db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall()
            assert {weight for weight, _ in lost} == {-1}
            assert len(lost) == right.num_rows - 1


def test_view_definition_says_when_windows_are_emitted() -> None:
    with filled() as db:
        text = db.execute("SELECT pg_get_viewdef('final'::regclass)").fetchall()[0][0]
        assert text.endswith("EMIT ON WINDOW CLOSE;")
