"""Windows by a zone's clock, whole: view, ad-hoc query, VERIFY and closing say the same."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest

from streamsql.core.errors import InvalidParameterValue
from streamsql.engine.database import Database
from tests.operators.zone_model import Length, Model

HOUR = dt.timedelta(hours=1)
NONE = Length()
SHAPES = {
    "half days": ("CUMULATE(z, ts, INTERVAL '12' HOUR, INTERVAL '1' DAY, tz => 'Europe/Paris')",
                  Model("cumulate", Length(exact=24 * HOUR), Length(exact=12 * HOUR), NONE,
                        ZoneInfo("Europe/Paris"))),
    "a day, each six hours": (
        "HOP(z, ts, INTERVAL '6' HOUR, INTERVAL '1' DAY, tz => 'Europe/Paris')",
        Model("hop", Length(exact=24 * HOUR), Length(exact=6 * HOUR), NONE,
              ZoneInfo("Europe/Paris"))),
    "shifts": ("HOP(z, ts, INTERVAL '1' DAY, INTERVAL '8' HOUR, INTERVAL '6' HOUR, "
               "tz => 'Australia/Lord_Howe')",
               Model("hop", Length(exact=8 * HOUR), Length(exact=24 * HOUR),
                     Length(exact=6 * HOUR), ZoneInfo("Australia/Lord_Howe"))),
    "years from December": (
        "TUMBLE(z, ts, INTERVAL '1' YEAR, INTERVAL '-1' MONTH)",
        Model("tumble", Length(months=12), Length(months=12), Length(months=-1),
              ZoneInfo("UTC"))),
    "fiscal years": (
        "TUMBLE(z, ts, INTERVAL '1' YEAR, INTERVAL '3 months 5 days', tz => 'Europe/London')",
        Model("tumble", Length(months=12), Length(months=12),
              Length(months=3, exact=120 * HOUR), ZoneInfo("Europe/London"))),
    "quarters, each month": (
        "HOP(z, ts, INTERVAL '1' MONTH, INTERVAL '1' QUARTER, INTERVAL '-5' DAY)",
        Model("hop", Length(months=3), Length(months=1), Length(exact=-120 * HOUR),
              ZoneInfo("UTC"))),
}  # fmt: skip
FIRST = dt.datetime(2021, 10, 30)


@pytest.fixture
def db() -> Iterator[Database]:
    with Database() as database:
        database.execute("CREATE TABLE z (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        database.execute("CREATE TABLE loose (id INT, ts TIMESTAMP)")
        yield database


def expected(model: Model, times: list[dt.datetime]) -> list[tuple[object, ...]]:
    return sorted((*w, n) for w, n in Counter(w for t in times for w in model.windows(t)).items())


def counts(shape: str, table: str) -> str:
    source = SHAPES[shape][0].replace("(z,", f"({table},")
    return f"SELECT window_start ws, window_end we, count(*) n FROM {source} GROUP BY 1, 2"


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_of_a_zone_in_a_view_a_query_and_verify(db: Database, shape: str) -> None:
    query, rows = counts(shape, "loose"), SHAPES[shape][0].replace("(z,", "(loose,")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    db.execute(f"CREATE MATERIALIZED VIEW r AS SELECT id, window_start ws, window_end FROM {rows}")
    draw = random.Random(shape)
    times: list[dt.datetime] = []
    for _ in range(4):
        more = [FIRST + dt.timedelta(minutes=draw.randint(-60, 60 * 96)) for _ in range(8)]
        more.append(FIRST + dt.timedelta(days=draw.randint(-500, 500)))
        values = ", ".join(f"({len(times) + i}, '{t}')" for i, t in enumerate(more))
        db.execute(f"INSERT INTO loose VALUES {values}")
        times += more
        assert sorted(db.execute("SELECT * FROM v").fetchall()) == expected(SHAPES[shape][1], times)
    assert sorted(db.execute(query).fetchall()) == expected(SHAPES[shape][1], times)
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []
    assert db.execute("VERIFY MATERIALIZED VIEW r").fetchall() == []
    db.execute("DELETE FROM loose WHERE id > 0")
    assert db.execute("SELECT * FROM v").fetchall() == expected(SHAPES[shape][1], times[:1])


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_of_a_zone_close_each_once(db: Database, shape: str) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {counts(shape, 'z')} EMIT ON WINDOW CLOSE")
    times = [FIRST + dt.timedelta(minutes=97 * i) for i in range(50)]
    for i, t in enumerate(times):
        db.execute(f"INSERT INTO z VALUES ({i}, '{t}')")
        if i % 10 == 9:
            made = expected(SHAPES[shape][1], times[: i + 1])
            closed = [w for w in made if w[1] <= t]
            assert sorted(db.execute("SELECT * FROM v").fetchall()) == closed
    late = min(w for t in times[:1] for w in SHAPES[shape][1].windows(t)) if closed else None
    db.execute(f"INSERT INTO z VALUES (99, '{times[0]}')")
    dropped = db.execute("SELECT count(*) FROM streamsql.late_rows").fetchall()
    assert dropped == [(1 if late and late[1] <= times[-1] else 0,)]
    assert sorted(db.execute("SELECT * FROM v").fetchall()) == closed
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall() == []


def test_half_days_of_a_day_with_25_hours(db: Database) -> None:
    db.execute("INSERT INTO z VALUES (1, '2021-10-31 00:30'), (2, '2021-10-31 22:30')")
    found = db.execute(counts("half days", "z") + " ORDER BY we").fetchall()
    day = dt.datetime(2021, 10, 30, 22)
    assert found == [(day, day + n * HOUR, rows) for n, rows in ((12, 1), (24, 1), (25, 2))]


def test_hop_by_a_zone_counts_each_row_once_a_pane(db: Database) -> None:
    query = counts("a day, each six hours", "loose")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    lines = [row[0] for row in db.execute("EXPLAIN MATERIALIZED VIEW v").fetchall()]
    assert any(line.startswith("Hop aggregate: ") for line in lines)


def test_names_of_utc_are_utc(db: Database) -> None:
    """Seven hours are counted from the epoch there, and from each midnight by a zone's clock."""
    db.execute("INSERT INTO z VALUES (1, '2021-10-31 00:30')")
    sql = "SELECT window_start FROM TUMBLE(z, ts, INTERVAL '7' HOUR{})"
    in_utc = db.execute(sql.format("")).fetchall()
    for zone in ("UTC", "gmt", "Etc/GMT", "Zulu"):
        assert db.execute(sql.format(f", tz => '{zone}'")).fetchall() == in_utc
    elsewhere = db.execute(sql.format(", tz => 'Africa/Abidjan'")).fetchall()
    assert elsewhere != in_utc
    assert db.execute(sql.format(", tz => 'africa/abidjan'")).fetchall() == elsewhere


def test_days_take_no_offset_in_months(db: Database) -> None:
    with pytest.raises(InvalidParameterValue, match="can not be in months if its size is not"):
        db.execute("SELECT * FROM TUMBLE(z, ts, INTERVAL '1' DAY, INTERVAL '1' MONTH)")
