"""TUMBLE, HOP and CUMULATE in pure DuckDB SQL.

All arithmetic is on µs since the epoch (BIGINT). A grid has a clock `x` on which its steps are
equal: - exact: µs, shifted by the offset;
- local: µs of the zone's wall clock (sizes of whole days), turned back to UTC at the end;
- months: the number of the (local) month since January 1970;
- midnight: exact steps counted anew from each local midnight (sizes below a day, with a zone).
"""

from __future__ import annotations

from streamsql.core.types import Kind, SqlType
from streamsql.plan.nodes import TimeWindow, WindowSpec
from streamsql.plan.sql.lowering import Env, Lowering, as_column

US_PER_DAY = 86_400_000_000
SHORTEST_DAY_US = 20 * 3_600_000_000


def time_window_sql(low: Lowering, plan: TimeWindow, env: Env) -> str:
    """The input's rows with window_start, window_end, window_time; NULL times give no row."""
    if plan.kind == "session":
        from streamsql.plan.sql.session_windows import session_sql

        return session_sql(low, plan, env)
    return _Windows(low, plan, env).sql()


# --- SQL snippets over µs -----------------------------------------------------------------------
def exact_us(spec: WindowSpec) -> int:
    """Days and µs of a spec as µs."""
    return spec.days * US_PER_DAY + spec.us


def floor_div(a: str, b: int) -> str:
    """Floor division of a BIGINT by a positive constant; DuckDB's // cuts towards zero."""
    return f"((({a}) - ((({a}) % {b}) + {b}) % {b}) // {b})"


def to_type(us: str, type_: SqlType) -> str:
    """µs as a value of the time column's type."""
    name = "make_timestamptz" if type_.kind is Kind.TIMESTAMPTZ else "make_timestamp"
    return f"{name}({us})"


def month_number(us: str) -> str:
    """Months since January 1970 of a naive time in µs."""
    t = f"make_timestamp({us})"
    return f"((year({t}) - 1970) * 12 + month({t}) - 1)"


def month_start(number: str) -> str:
    """µs at the start of a month, by its number."""
    year = f"1970 + {floor_div(number, 12)}"
    return f"epoch_us(CAST(make_date({year}, (({number}) % 12 + 12) % 12 + 1, 1) AS TIMESTAMP))"


def to_local(us: str, zone: str) -> str:
    """UTC µs → µs of the zone's wall clock."""
    return f"epoch_us(timezone('{zone}', make_timestamptz({us})))"


def to_utc(us: str, zone: str) -> str:
    """µs of the zone's wall clock → UTC µs."""
    return f"epoch_us(timezone('{zone}', make_timestamp({us})))"


def zone_literal(plan: TimeWindow) -> str | None:
    """The zone's name, ready to stand between quotes; None for UTC."""
    return None if plan.tz is None else plan.tz.replace("'", "''")


# --- grids --------------------------------------------------------------------------------------
class _Windows:
    """Builds the SELECT: times, place on the grid, window numbers, bounds."""

    def __init__(self, low: Lowering, plan: TimeWindow, env: Env) -> None:
        self.low, self.plan, self.env = low, plan, env
        self.type = plan.input.schema[plan.time_column].type
        self.offset = exact_us(plan.offset)
        self.zone = zone_literal(plan)
        step = plan.slide if plan.slide is not None else plan.size
        self.months = bool(plan.size.months)
        self.size = plan.size.months if self.months else exact_us(plan.size)
        self.step = step.months if self.months else exact_us(step)
        whole_days = plan.size.us == 0 and step.us == 0
        self.midnight = self.zone is not None and not self.months and not whole_days
        self.local = self.zone is not None and not self.midnight

    def sql(self) -> str:
        """The whole SELECT."""
        low, plan = self.low, self.plan
        source = low.item(plan.input, self.env)
        width = len(plan.input.schema)
        time = source.row(plan.time_column)
        columns = [as_column(source.row(i), i) for i in range(width)]
        sql = (
            f"SELECT {', '.join([*columns, f'epoch_us({time}) AS t'])} FROM {source.sql} "
            f"WHERE {time} IS NOT NULL AND isfinite({time})"
        )
        if self.midnight:
            sql = self._add(sql, width, ["t"], [self._day("a.t"), "unnest(range(0, {days})) AS n"])
            sql = self._add(sql, width, ["t"], self._day_bounds())
            passed = ["t", "z", "zn"]
            clock = f"a.t - {self.offset} - a.z"
        else:
            passed = ["t"]
            clock = self._clock("a.t")
        sql = self._add(sql, width, passed, [f"{clock} AS x"])
        sql = self._add(sql, width, [*passed, "x"], [f"unnest({self._numbers()}) AS k"])
        if plan.kind == "cumulate":
            passed_steps = floor_div(f"a.x - a.k * {self.size}", self.step)
            ends = f"range({passed_steps} + 1, {self.size // self.step} + 1)"
            sql = self._add(sql, width, [*passed, "k"], [f"unnest({ends}) AS j"])
        sql = self._add(sql, width, passed, self._bounds())
        return self._outputs(sql, width)

    def _add(self, sql: str, width: int, passed: list[str], new: list[str]) -> str:
        """One more level: the input's columns, `passed`, and new expressions over alias `a`."""
        kept = [f"a.c{i}" for i in range(width)] + [f"a.{p}" for p in passed]
        days = self.size // SHORTEST_DAY_US + 2 if self.plan.kind == "hop" else 1
        added = [n.replace("{days}", str(days)) for n in new]
        return f"SELECT {', '.join(kept + added)} FROM ({sql}) AS a"

    def _clock(self, t: str) -> str:
        local = to_local(t, self.zone) if self.local and self.zone is not None else t
        shifted = f"({local} - {self.offset})"
        return month_number(shifted) if self.months else shifted

    def _day(self, t: str) -> str:
        """The local day of the (shifted) time, as µs of its midnight on the wall clock."""
        assert self.zone is not None
        day = floor_div(to_local(f"{t} - {self.offset}", self.zone), US_PER_DAY)
        return f"{day} * {US_PER_DAY} AS d"

    def _day_bounds(self) -> list[str]:
        """z, zn: UTC µs of the midnight n days ago and of the one after it."""
        assert self.zone is not None
        day = f"a.d - a.n * {US_PER_DAY}"
        return [
            f"{to_utc(day, self.zone)} AS z",
            f"{to_utc(f'{day} + {US_PER_DAY}', self.zone)} AS zn",
        ]

    def _numbers(self) -> str:
        """The list of window numbers k that may cover x."""
        if self.plan.kind == "hop":
            first = f"{floor_div(f'a.x - {self.size}', self.step)} + 1"
            return f"range({first}, {floor_div('a.x', self.step)} + 1)"
        return f"[{floor_div('a.x', self.size)}]"

    def _bounds(self) -> list[str]:
        """s and e, the window's bounds in UTC µs."""
        unit = self.step if self.plan.kind == "hop" else self.size
        start = f"a.k * {unit}"
        length = f"a.j * {self.step}" if self.plan.kind == "cumulate" else str(self.size)
        end = f"{start} + {length}"
        if self.midnight:
            first = f"a.z + {start}"
            last = f"a.z + {end}"
            if self.plan.kind != "hop":
                last = f"least({last}, a.zn)"
            return [
                f"{first} + {self.offset} AS s",
                f"{last} + {self.offset} AS e",
                "a.k >= 0 AND " + f"{first} < a.zn AS ok",
            ]
        return [f"{self._instant(start)} AS s", f"{self._instant(end)} AS e", "true AS ok"]

    def _instant(self, x: str) -> str:
        us = month_start(x) if self.months else x
        us = f"{us} + {self.offset}"
        return to_utc(us, self.zone) if self.local and self.zone is not None else us

    def _outputs(self, sql: str, width: int) -> str:
        outputs = [f"a.c{i}" for i in range(width)]
        outputs += [
            f"{to_type(us, self.type)} AS c{width + i}"
            for i, us in enumerate(("a.s", "a.e", "a.e - 1"))
        ]
        where = " WHERE a.ok AND a.s <= a.t AND a.t < a.e" if self.midnight else ""
        return f"SELECT {', '.join(outputs)} FROM ({sql}) AS a{where}"
