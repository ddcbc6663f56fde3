"""The windows' SQL against their definition, written out in Python with zoneinfo."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.plan.support import bind, tables

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
US = datetime.timedelta(microseconds=1)
DAY = datetime.timedelta(days=1)
Span = tuple[datetime.datetime, datetime.datetime]


def random_times(seed: int, n: int) -> list[datetime.datetime]:
    """Around the epoch, around Paris' clock changes of 2024, and anywhere; µs set."""
    rnd = random.Random(seed)
    centres = [
        datetime.datetime(1969, 12, 31, 23, tzinfo=UTC),
        datetime.datetime(2024, 3, 31, 1, tzinfo=UTC),
        datetime.datetime(2024, 10, 27, 1, tzinfo=UTC),
        datetime.datetime(2024, 2, 29, tzinfo=UTC),
        datetime.datetime(1901, 6, 1, tzinfo=UTC),
    ]
    found = []
    for _ in range(n):
        spread = rnd.choice([60, 7200, 86400 * 2, 86400 * 40])
        found.append(
            rnd.choice(centres)
            + datetime.timedelta(seconds=rnd.randint(-spread, spread), microseconds=rnd.choice([0, 1, 999999]))
        )  # fmt: skip
    return found


def wall(t: datetime.datetime, zone: ZoneInfo) -> datetime.datetime:
    return t.astimezone(zone).replace(tzinfo=None)


def instant(local: datetime.datetime, zone: ZoneInfo) -> datetime.datetime:
    return local.replace(tzinfo=zone).astimezone(UTC)


def months(t: datetime.datetime, n: int) -> datetime.datetime:
    total = t.year * 12 + t.month - 1 + n
    return t.replace(year=total // 12, month=total % 12 + 1)


def exact(t: datetime.datetime, step: datetime.timedelta, size: datetime.timedelta,
          offset: datetime.timedelta, origin: datetime.datetime) -> Iterator[Span]:  # fmt: skip
    """Windows of a grid of exact steps that cover t."""
    k = (t - offset - origin) // step
    start = origin + offset + k * step
    while start + size > t:
        yield start, start + size
        start -= step


def check(sql: str, expected: Any, times: list[datetime.datetime], table: str = "z") -> None:
    """The windows the query gives to each time, as bags."""
    if table == "z":
        rows: dict[str, list[Any]] = {"z": [(t, None, i) for i, t in enumerate(times)]}
    else:
        rows = {"ev": [(t.replace(tzinfo=None), None, i) for i, t in enumerate(times)]}
    rows[table].append((None, None, 99))
    tables().fill(rows)
    found: Counter[Any] = Counter()
    for x, start, end, time in tables().rows(bind(sql).plan):
        start, end, time = (v if v.tzinfo else v.replace(tzinfo=UTC) for v in (start, end, time))
        assert time == end - US
        found[x, start.astimezone(UTC), end.astimezone(UTC)] += 1
    wanted = Counter((i, s, e) for i, t in enumerate(times) for s, e in expected(t))
    assert found == wanted, (found - wanted, wanted - found)


COLUMNS = "x, window_start, window_end, window_time"


@pytest.mark.parametrize("table", ["z", "ev"])
@pytest.mark.parametrize(("size", "offset"), [(60, 0), (3600, -900), (86400, 3600), (7, 3)])
def test_tumble_exact(table: str, size: int, offset: int) -> None:
    step, shift = datetime.timedelta(seconds=size), datetime.timedelta(seconds=offset)
    column = {"z": "tz", "ev": "ts"}[table]
    sql = (
        f"SELECT {COLUMNS} FROM TUMBLE({table}, {column}, INTERVAL '{size} seconds', "
        f"INTERVAL '{offset} seconds')"
    )
    check(sql, lambda t: exact(t, step, step, shift, EPOCH), random_times(1, 40), table)


@pytest.mark.parametrize(
    ("hop", "size"), [(60, 300), (70, 300), (300, 60), (60, 60), (90000, 100000)]
)
def test_hop_size_need_not_be_a_multiple_and_holes_stay_empty(hop: int, size: int) -> None:
    step, length = datetime.timedelta(seconds=hop), datetime.timedelta(seconds=size)
    sql = f"SELECT {COLUMNS} FROM HOP(ev, ts, INTERVAL '{hop} seconds', INTERVAL '{size} seconds')"
    none = datetime.timedelta()

    def expected(t: datetime.datetime) -> Iterator[Span]:
        yield from exact(t, step, length, none, EPOCH)

    check(sql, expected, random_times(2, 40), "ev")


def test_cumulate_grows_by_steps() -> None:
    step, size = datetime.timedelta(minutes=20), datetime.timedelta(hours=1)
    sql = f"SELECT {COLUMNS} FROM CUMULATE(ev, ts, INTERVAL '20 minutes', INTERVAL '1 hour')"

    def expected(t: datetime.datetime) -> Iterator[Span]:
        ((start, _),) = exact(t, size, size, datetime.timedelta(), EPOCH)
        for n in (1, 2, 3):
            if t < start + n * step:
                yield start, start + n * step

    check(sql, expected, random_times(3, 40), "ev")


@pytest.mark.parametrize("zone_name", [None, "Europe/Paris", "America/New_York"])
@pytest.mark.parametrize(("n", "days"), [(1, 0), (3, 0), (12, 2)])
def test_tumble_of_calendar_months(zone_name: str | None, n: int, days: int) -> None:
    zone = ZoneInfo(zone_name or "UTC")
    tz = "" if zone_name is None else f", tz => '{zone_name}'"
    sql = f"SELECT {COLUMNS} FROM TUMBLE(z, tz, INTERVAL '{n} months', INTERVAL '{days} days'{tz})"
    shift = datetime.timedelta(days=days)

    def expected(t: datetime.datetime) -> Iterator[Span]:
        local = wall(t, zone) - shift
        number = (local.year - 1970) * 12 + local.month - 1
        start = months(datetime.datetime(1970, 1, 1), number // n * n)
        yield instant(start + shift, zone), instant(months(start, n) + shift, zone)

    check(sql, expected, random_times(4, 40))


def test_hop_of_calendar_months() -> None:
    sql = f"SELECT {COLUMNS} FROM HOP(z, tz, INTERVAL '1 month', INTERVAL '3 months')"

    def expected(t: datetime.datetime) -> Iterator[Span]:
        first = t.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        for n in range(3):
            yield months(first, -n), months(first, 3 - n)

    check(sql, expected, random_times(5, 30))


@pytest.mark.parametrize("zone_name", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize(("days", "offset"), [(1, 0), (7, 0), (1, 6)])
def test_tumble_of_local_days_follows_the_clock_change(
    zone_name: str, days: int, offset: int
) -> None:
    zone, shift = ZoneInfo(zone_name), datetime.timedelta(hours=offset)
    sql = (
        f"SELECT {COLUMNS} FROM TUMBLE(z, tz, INTERVAL '{days} days', "
        f"INTERVAL '{offset} hours', tz => '{zone_name}')"
    )

    def expected(t: datetime.datetime) -> Iterator[Span]:
        local = wall(t, zone) - shift
        number = (local - datetime.datetime(1970, 1, 1)) // DAY // days * days
        start = datetime.datetime(1970, 1, 1) + number * DAY
        yield instant(start + shift, zone), instant(start + days * DAY + shift, zone)

    check(sql, expected, random_times(6, 40))


@pytest.mark.parametrize("zone_name", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("minutes", [30, 60, 120, 420])
def test_tumble_below_a_day_counts_from_local_midnight(zone_name: str, minutes: int) -> None:
    zone, step = ZoneInfo(zone_name), datetime.timedelta(minutes=minutes)
    sql = f"SELECT {COLUMNS} FROM TUMBLE(z, tz, INTERVAL '{minutes} minutes', tz => '{zone_name}')"

    def expected(t: datetime.datetime) -> Iterator[Span]:
        day = datetime.datetime.combine(wall(t, zone).date(), datetime.time())
        midnight, following = instant(day, zone), instant(day + DAY, zone)
        start = midnight + (t - midnight) // step * step
        yield start, min(start + step, following)

    check(sql, expected, random_times(7, 40))


def test_repeated_hour_has_windows_of_its_own_and_skipped_hour_none() -> None:
    autumn = [datetime.datetime(2024, 10, 27, h, 30, tzinfo=UTC) for h in (0, 1)]  # 2:30 twice
    spring = [datetime.datetime(2024, 3, 31, h, 30, tzinfo=UTC) for h in (0, 1)]  # 1:30, 3:30
    tables().fill({"z": [(t, None, i) for i, t in enumerate([*autumn, *spring])]})
    sql = "SELECT x, window_start FROM TUMBLE(z, tz, INTERVAL '1 hour', tz => 'Europe/Paris') ORDER BY x"
    starts = [s.astimezone(UTC).hour for _, s in tables().query(sql)]
    assert starts == [0, 1, 0, 1]


def test_hop_below_a_day_goes_on_over_midnight() -> None:
    zone = ZoneInfo("Europe/Paris")
    step, size = datetime.timedelta(hours=2), datetime.timedelta(hours=5)
    sql = (
        f"SELECT {COLUMNS} FROM HOP(z, tz, INTERVAL '2 hours', INTERVAL '5 hours', "
        "tz => 'Europe/Paris')"
    )

    def expected(t: datetime.datetime) -> Iterator[Span]:
        today = datetime.datetime.combine(wall(t, zone).date(), datetime.time())
        for n in range(3):
            midnight, following = (
                instant(today - n * DAY, zone),
                instant(today - (n - 1) * DAY, zone),
            )
            start = midnight
            while start < following:
                if start <= t < start + size:
                    yield start, start + size
                start += step

    check(sql, expected, random_times(8, 40))


# --- sessions -----------------------------------------------------------------------------------
def sessions(
    rows: list[tuple[datetime.datetime, Any, int]],
    gap: datetime.timedelta,
    longest: datetime.timedelta | None,
) -> Counter[Any]:
    """By definition: walk each partition in the order of time."""
    found: Counter[Any] = Counter()
    for key in {k for _, k, _ in rows}:
        current: list[tuple[datetime.datetime, int]] = []
        start = None
        done = []
        for t, _, x in sorted((r for r in rows if r[1] == key), key=lambda r: r[0]):
            late = current and t - current[-1][0] > gap
            full = start is not None and longest is not None and t >= start + longest
            if late or full or start is None:
                done.append(current)
                current, start = [], t
            current.append((t, x))
        for session in [*done, current]:
            if session:
                end = session[-1][0] + gap
                if longest is not None:
                    end = min(end, session[0][0] + longest)
                for _, x in session:
                    found[x, session[0][0], end] += 1
    return found


@pytest.mark.parametrize("longest", [None, 5, 12])
@pytest.mark.parametrize("seed", range(6))
def test_session_by_its_definition(seed: int, longest: int | None) -> None:
    rnd = random.Random(seed)
    base = datetime.datetime(1969, 12, 31, 23, 58)
    rows = [
        (base + datetime.timedelta(minutes=rnd.randint(0, 40)), rnd.choice([None, 1, 2]), i)
        for i in range(rnd.randint(0, 25))
    ]
    tables().fill({"ev": rows})
    most = "" if longest is None else f", max => INTERVAL '{longest} minutes'"
    sql = (
        "SELECT x, window_start, window_end FROM "
        f"SESSION(ev PARTITION BY g, ts, INTERVAL '3 minutes'{most})"
    )
    gap = datetime.timedelta(minutes=3)
    limit = None if longest is None else datetime.timedelta(minutes=longest)
    assert Counter(tables().query(sql)) == sessions(rows, gap, limit)


def test_exactly_the_gap_apart_is_one_session() -> None:
    base = datetime.datetime(2024, 1, 1)
    gap = datetime.timedelta(minutes=3)
    tables().fill({"ev": [(base, 1, 1), (base + gap, 1, 2), (base + 2 * gap + US, 1, 3)]})
    sql = "SELECT x, window_start FROM SESSION(ev, ts, INTERVAL '3 minutes') ORDER BY x"
    assert [s for _, s in tables().query(sql)] == [base, base, base + 2 * gap + US]


# --- forms --------------------------------------------------------------------------------------
def test_windows_nest_and_the_inner_columns_need_names() -> None:
    tables().fill({"ev": [(datetime.datetime(2024, 1, 1, 0, 0, 30), 1, 7)]})
    sql = (
        "SELECT s, e, window_start, window_end FROM TUMBLE((SELECT window_start AS s, window_end AS e, "
        "window_time AS t FROM TUMBLE(ev, ts, INTERVAL '1 minute')), t, INTERVAL '1 hour')"
    )
    first = datetime.datetime(2024, 1, 1)
    minute, hour = datetime.timedelta(minutes=1), datetime.timedelta(hours=1)
    assert tables().query(sql) == [(first, first + minute, first, first + hour)]


def test_date_is_windowed_at_its_midnight_and_stays_a_date() -> None:
    tables().fill({"z": [(None, datetime.date(2024, 1, 3), 1)]})
    sql = "SELECT * FROM TUMBLE(z, d, INTERVAL '2 days')"
    row = tables().query(sql)[0]
    assert row[1] == datetime.date(2024, 1, 3)
    assert row[3:5] == (datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 4))


def test_timestamptz_takes_the_zone_of_the_session_with_a_notice() -> None:
    bound = bind("SELECT * FROM TUMBLE(z, tz, INTERVAL '1 day')", timezone="Asia/Tokyo")
    assert bound.plan.tz == "Asia/Tokyo"  # type: ignore[attr-defined]
    assert any("Asia/Tokyo" in n for n in bound.notices)
    assert not bind("SELECT * FROM TUMBLE(ev, ts, INTERVAL '1 day')", timezone="Asia/Tokyo").notices
