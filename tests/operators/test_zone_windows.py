"""Windows by a zone's clock against a slow reader of the same clock, around its changes."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamsql.functions.zone_clock import zone
from streamsql.operators.window_grid import Grid
from streamsql.plan.nodes import WindowSpec
from tests.operators.zone_model import US, Length, Model, us

CHANGES = {
    "Europe/Paris": (dt.datetime(2021, 10, 31, 1), dt.datetime(2021, 3, 28, 1)),
    "America/New_York": (dt.datetime(2024, 11, 3, 6), dt.datetime(2024, 3, 10, 7)),
    "Australia/Lord_Howe": (dt.datetime(2024, 4, 6, 15), dt.datetime(2024, 10, 5, 15, 30)),
    "America/Sao_Paulo": (dt.datetime(2018, 11, 4, 3), dt.datetime(2018, 2, 18, 2)),
    "America/Havana": (dt.datetime(2024, 11, 3, 5), dt.datetime(2024, 3, 10, 5)),
    "Atlantic/Azores": (dt.datetime(2024, 10, 27, 1), dt.datetime(2024, 3, 31, 1)),
    "Asia/Beirut": (dt.datetime(2022, 3, 26, 22), dt.datetime(2022, 10, 29, 21)),
    "Pacific/Apia": (dt.datetime(2011, 12, 30, 10), dt.datetime(1892, 7, 5)),
    "Pacific/Kwajalein": (dt.datetime(1993, 8, 21, 12), dt.datetime(1969, 10, 1)),
    "America/Juneau": (dt.datetime(1867, 10, 18), dt.datetime(1983, 10, 30, 10)),
    "Asia/Gaza": (dt.datetime(2040, 10, 20), dt.datetime(2040, 10, 27)),
    "Asia/Kolkata": (dt.datetime(1945, 10, 14, 17, 30), dt.datetime(2024, 1, 1)),
    "Africa/Casablanca": (dt.datetime(2024, 3, 10, 2), dt.datetime(2024, 4, 14, 2)),
    "UTC": (dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29)),
}
MINUTES = 60 * 10**6
HOURS = 60 * MINUTES
NONE = WindowSpec()
BELOW = [WindowSpec(us=n * MINUTES) for n in (25, 30, 60, 360, 420, 720, 1439)]
DAYS = [WindowSpec(days=1), WindowSpec(days=2), WindowSpec(days=7), WindowSpec(us=36 * HOURS),
        WindowSpec(us=24 * HOURS), WindowSpec(days=1, us=1)]  # fmt: skip
MONTHS = [WindowSpec(months=n) for n in (1, 3, 5, 12)]
OFFSETS = [NONE, WindowSpec(us=-HOURS), WindowSpec(us=150 * MINUTES), WindowSpec(days=5),
           WindowSpec(days=-1, us=17)]  # fmt: skip
MONTH_OFFSETS = [*OFFSETS, WindowSpec(months=-1), WindowSpec(months=3, days=5),
                 WindowSpec(months=14, days=-40)]  # fmt: skip


@st.composite
def grids(draw) -> Grid:
    kind = draw(st.sampled_from(["tumble", "hop", "cumulate"]))
    zone = draw(st.sampled_from(sorted(CHANGES)))
    if zone == "UTC" or draw(st.integers(0, 3)) == 0:
        step, offset = draw(st.sampled_from(MONTHS)), draw(st.sampled_from(MONTH_OFFSETS))
    else:
        step, offset = draw(st.sampled_from(BELOW + DAYS)), draw(st.sampled_from(OFFSETS))
    size = step
    if kind == "cumulate":
        n = draw(st.sampled_from([1, 2, 3, 8, 24]))
        size = WindowSpec(months=step.months * n, days=step.days * n, us=step.us * n)
    elif kind == "hop":
        size = draw(st.sampled_from(MONTHS if step.months else BELOW + DAYS))
    return Grid(kind, size, step, offset, None if zone == "UTC" else zone)


def length(spec: WindowSpec) -> Length:
    return Length(spec.months, dt.timedelta(days=spec.days) + spec.us * US)


def model(grid: Grid) -> Model:
    sizes = [length(s) for s in (grid.size, grid.step, grid.offset)]
    return Model(grid.kind, *sizes, ZoneInfo(grid.tz or "UTC"))


def windows(grid: Grid, times: list[dt.datetime]) -> list[list[tuple[int, int]]]:
    rows, start, end = grid.assign(np.array([us(t) for t in times], np.int64))
    found: list[list[tuple[int, int]]] = [[] for _ in times]
    for row, s, e in zip(range(len(times)) if rows is None else rows, start, end, strict=True):
        found[row].append((int(s), int(e)))
    return found


HOUR_STEPS = Grid("cumulate", WindowSpec(days=1), WindowSpec(us=12 * HOURS), NONE, "Europe/Paris")


@given(
    grid=grids(),
    apart=st.lists(st.tuples(st.booleans(), st.integers(-200, 200)), min_size=1, max_size=6),
)
@example(grid=HOUR_STEPS, apart=[(False, -1), (False, 43)])
@settings(max_examples=150, deadline=None)
def test_windows_are_those_of_the_zones_clock_around_its_changes(grid, apart) -> None:
    changes = CHANGES[grid.tz or "UTC"]
    times = [changes[which] + dt.timedelta(minutes=30 * n) for which, n in apart]
    expected = [[(us(s), us(e)) for s, e in model(grid).windows(t)] for t in times]
    assert windows(grid, times) == expected
    # and times of one pane are in the same windows
    if grid.kind != "tumble":
        panes = grid.pane(np.array([us(t) for t in times], np.int64))
        assert windows(grid, [dt.datetime(1970, 1, 1) + int(p) * US for p in panes]) == expected


@given(
    zone_name=st.sampled_from(sorted(CHANGES)),
    times=st.lists(
        st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9990, 1, 1)), min_size=1, max_size=4
    ),
)
@example(zone_name="Asia/Gaza", times=[dt.datetime(2040, 10, 23), dt.datetime(2501, 7, 1)])
@settings(max_examples=40, deadline=None)
def test_a_zones_table_says_what_its_rules_say_in_any_year(zone_name, times) -> None:
    info = ZoneInfo(zone_name)
    shown = zone(zone_name).to_local(np.array([us(t) for t in times], np.int64))
    aware = [t.replace(tzinfo=dt.UTC).astimezone(info).replace(tzinfo=None) for t in times]
    assert shown.tolist() == [us(t) for t in aware]


def test_windows_of_a_millisecond_cost_no_points_of_whole_days() -> None:
    times = [dt.datetime(2021, 10, 31, 0, 59, 59, 999500), dt.datetime(2024, 1, 1)]
    for kind, size in (("tumble", 1000), ("hop", 2500), ("cumulate", 3000)):
        spec = WindowSpec(us=size), WindowSpec(us=1000)
        grid = Grid(kind, *spec, NONE, "Europe/Paris")
        points = grid._calendar._steps.around(np.array([us(t) for t in times]), 0, 0)
        assert points.utc.size < 10
        for found, t in zip(windows(grid, times), times, strict=True):
            assert found[0][0] <= us(t) < found[-1][1]


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("grid", "time", "expected"),
    [
        # a day of 25 hours has a third half of one hour
        (HOUR_STEPS, "2021-10-31 00:30",
         ["10-30 22:00 10-31 10:00", "10-30 22:00 10-31 22:00", "10-30 22:00 10-31 23:00"]),
        (HOUR_STEPS, "2021-10-31 22:30", ["10-30 22:00 10-31 23:00"]),
        # a day of 23 hours has a shorter second one
        (HOUR_STEPS, "2021-03-28 12:00", ["03-27 23:00 03-28 22:00"]),
        (Grid("hop", WindowSpec(days=1), WindowSpec(us=12 * HOURS), NONE, "Europe/Paris"),
         "2021-10-31 10:30",
         ["10-30 10:00 10-31 11:00", "10-30 22:00 10-31 23:00", "10-31 10:00 11-01 10:00"]),
        (Grid("hop", WindowSpec(us=12 * HOURS), WindowSpec(days=1), NONE, "Europe/Paris"),
         "2021-10-31 09:30", ["10-30 22:00 10-31 10:00"]),
        # the 30th of December 2011 is missing: the 31st follows the 29th
        (Grid("tumble", WindowSpec(days=1), WindowSpec(days=1), NONE, "Pacific/Apia"),
         "2011-12-30 10:00", ["12-30 10:00 12-31 10:00"]),
        (Grid("cumulate", WindowSpec(days=2), WindowSpec(us=12 * HOURS), NONE, "Pacific/Apia"),
         "2011-12-30 09:59", ["12-28 10:00 12-30 10:00"]),
        # midnight itself is skipped: the day begins at one, and ends at midnight
        (Grid("hop", WindowSpec(days=1), WindowSpec(us=12 * HOURS), NONE, "America/Sao_Paulo"),
         "2018-11-04 03:00", ["11-03 15:00 11-04 14:00", "11-04 03:00 11-05 02:00"]),
        # the half hour that Lord Howe repeats
        (Grid("tumble", WindowSpec(us=HOURS), WindowSpec(us=HOURS), NONE, "Australia/Lord_Howe"),
         "2024-04-06 15:10", ["04-06 15:00 04-06 16:00"]),
        (Grid("tumble", WindowSpec(us=HOURS), WindowSpec(us=HOURS), NONE, "Australia/Lord_Howe"),
         "2024-04-07 13:10", ["04-07 13:00 04-07 13:30"]),
        # midnight is repeated: the day begins with the first hour that bears its date
        (Grid("tumble", WindowSpec(days=1), WindowSpec(days=1), NONE, "Atlantic/Azores"),
         "2024-10-27 00:30", ["10-27 00:00 10-28 01:00"]),
        # Britain's fiscal year
        (Grid("tumble", WindowSpec(months=12), WindowSpec(months=12),
              WindowSpec(months=3, days=5), "Europe/London"),
         "2024-04-05 22:59", ["04-05 23:00 04-05 23:00"]),
    ],
)  # fmt: skip
def test_windows_around_clock_changes(grid, time, expected) -> None:
    found = windows(grid, [utc(time)])[0]
    as_text = [
        " ".join(f"{dt.datetime(1970, 1, 1) + b * US:%m-%d %H:%M}" for b in bounds)
        for bounds in found
    ]
    assert as_text == expected
