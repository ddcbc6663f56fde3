"""TUMBLE, HOP, CUMULATE and SESSION in pure DuckDB SQL.

Works on µs since the epoch (BIGINT). Three grids: exact (µs), months (calendar), and with a zone either
local days/months, or exact steps counted from each local midnight.
"""

from __future__ import annotations

from streamsql.core.types import Kind, SqlType
from streamsql.plan.nodes import TimeWindow, WindowSpec
from streamsql.plan.sql.lowering import Env, Lowering, as_column

US_PER_DAY = 86_400_000_000
MONTH_DAYS_MAX = 31


def time_window_sql(low: Lowering, plan: TimeWindow, env: Env) -> str:
    """The input's rows with window_start, window_end, window_time; NULL times give no row."""
    if plan.kind == "session":
        from streamsql.plan.sql.session_windows import session_sql

        return session_sql(low, plan, env)
    return _Grid(low, plan, env).sql()


def exact_us(spec: WindowSpec) -> int:
    """Days and µs of a spec as µs."""
    return spec.days * US_PER_DAY + spec.us


def floor_div(a: str, b: int) -> str:
    """Floor division of BIGINTs; DuckDB's // cuts towards zero."""
    return f"(({a} - (({a} % {b}) + {b}) % {b}) // {b})"


def to_type(us: str, type_: SqlType) -> str:
    """µs as the time column's type."""
    name = "make_timestamptz" if type_.kind is Kind.TIMESTAMPTZ else "make_timestamp"
    return f"{name}({us})"


def month_number(local_us: str) -> str:
    """Months since January 1970 of a local time in µs."""
    t = f"make_timestamp({local_us})"
    return f"((year({t}) - 1970) * 12 + month({t}) - 1)"


def month_start(number: str) -> str:
    """µs at the start of a month by its number."""
    return (
        f"epoch_us(CAST(make_date(CAST(1970 + {floor_div(number, 12)} AS BIGINT), "
        f"CAST((({number}) % 12 + 12) % 12 + 1 AS BIGINT), 1) AS TIMESTAMP))"
    )


def to_local(us: str, zone: str) -> str:
    """UTC µs → µs of the zone's wall clock."""
    return f"epoch_us(timezone('{zone}', make_timestamptz({us})))"


def to_utc(us: str, zone: str) -> str:
    """µs of the zone's wall clock → UTC µs."""
    return f"epoch_us(timezone('{zone}', make_timestamp({us})))"


class _Grid:
    """Windows aligned to a grid: the row goes to each start s with s <= t < end(s)."""

    def __init__(self, low: Lowering, plan: TimeWindow, env: Env) -> None:
        self.low, self.plan, self.env = low, plan, env
        self.step = plan.slide if plan.slide is not None else plan.size
        self.type = plan.input.schema[plan.time_column].type
        self.months = bool(self.step.months or plan.size.months)
        self.offset = exact_us(plan.offset)
        zone = plan.tz
        self.zone = None if zone is None else zone.replace("'", "''")
        daily = self.step.us == 0 and plan.size.us == 0
        self.local = self.zone is not None and (self.months or daily)
        self.from_midnight = self.zone is not None and not self.local

    def sql(self) -> str:
        """The whole SELECT."""
        low, plan = self.low, self.plan
        source = low.item(plan.input, self.env)
        width = len(plan.input.schema)
        a, b, c = low.alias(), low.alias(), low.alias()
        columns = ", ".join(as_column(source.row(i), i) for i in range(width))
        time = source.row(plan.time_column)
        timed = (
            f"SELECT {columns}, epoch_us({time}) AS t FROM {source.sql} "
            f"WHERE {time} IS NOT NULL AND isfinite({time})"
        )
        passed = ", ".join(f"{a}.c{i}" for i in range(width))
        # x is the time on the grid's own clock: local, from midnight, or plain; z is its origin
        placed = f"SELECT {passed}, {a}.t, {self.clock(f'{a}.t')} AS x, {self.origin(f'{a}.t')} AS z FROM ({timed}) AS {a}"
        passed = ", ".join(f"{b}.c{i}" for i in range(width))
        first, last = self.candidates(f"{b}.x")
        numbered = (
            f"SELECT {passed}, {b}.t, {b}.z, unnest(range({first}, {last} + 1)) AS k "
            f"FROM ({placed}) AS {b}"
        )
        return self._outputs(numbered, width, c)

    def _outputs(self, numbered: str, width: int, c: str) -> str:
        d = self.low.alias()
        passed = ", ".join(f"{c}.c{i}" for i in range(width))
        start, end = self.bounds(f"{c}.k", f"{c}.z", f"{c}.t")
        bounded = f"SELECT {passed}, {c}.t, {start} AS s, {end} AS e FROM ({numbered}) AS {c}"
        outputs = [f"{d}.c{i}" for i in range(width)]
        outputs += [
            f"{to_type(us, self.type)} AS c{width + i}"
            for i, us in enumerate((f"{d}.s", f"{d}.e", f"{d}.e - 1"))
        ]
        return (
            f"SELECT {', '.join(outputs)} FROM ({bounded}) AS {d} "
            f"WHERE {d}.s <= {d}.t AND {d}.t < {d}.e"
        )
