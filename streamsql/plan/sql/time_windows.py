"""TUMBLE, HOP and CUMULATE in DuckDB SQL.

All arithmetic is on µs since the epoch (BIGINT). In UTC it is plain SQL; a grid has a clock `x` on
which its steps are equal: µs, or the number of the month since January 1970. Windows that follow a
zone's clock are those that the circuit's operators use (`functions/calendar_windows.py`), by a UDF.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamsql.core.types import BIGINT, Kind, SqlType, array_of
from streamsql.functions.calendar_windows import is_utc
from streamsql.functions.compute.columns import flat
from streamsql.functions.definitions import Kernel, KernelCall
from streamsql.functions.duckdb_udfs import kernel_sql
from streamsql.plan.nodes import TimeWindow
from streamsql.plan.sql.lowering import Env, Lowering, as_column
from streamsql.plan.window_grids import calendar_grid, exact_us


def time_window_sql(low: Lowering, plan: TimeWindow, env: Env) -> str:
    """The input's rows with window_start, window_end, window_time; NULL times give no row."""
    if plan.kind == "session":
        from streamsql.plan.sql.session_windows import session_sql

        return session_sql(low, plan, env)
    return _Windows(low, plan, env).sql()


# --- SQL snippets over µs -----------------------------------------------------------------------
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
def windows_sql(us: str, plan: TimeWindow) -> str:
    """The windows of a time in UTC µs by the zone's clock: BIGINT[], start, end, start, end, …"""
    spec = (plan.kind, plan.size, plan.slide or plan.size, plan.offset, plan.tz)
    name = f"windows {spec}"
    return kernel_sql(name, _windows_kernel(*spec), [us], (BIGINT,), array_of(BIGINT))


def _windows_kernel(*spec: Any) -> Kernel:
    grid = calendar_grid(*spec)

    def kernel(call: KernelCall, times: Any) -> pa.Array:
        del call
        array = flat(times)
        valid = np.asarray(array.is_valid())
        rows, start, end = grid.assign(np.asarray(array.drop_null(), np.int64))
        count = np.zeros(len(array), np.int64)
        each = np.flatnonzero(valid)
        count[each] = 1 if rows is None else np.bincount(rows, minlength=each.size)
        offsets = np.zeros(count.size + 1, np.int32)
        np.cumsum(2 * count, out=offsets[1:])
        bounds = np.stack((start, end), axis=1).ravel()
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(bounds))

    return kernel


class _Windows:
    """Builds the SELECT: times, place on the grid, window numbers, bounds."""

    def __init__(self, low: Lowering, plan: TimeWindow, env: Env) -> None:
        self.low, self.plan, self.env = low, plan, env
        self.type = plan.input.schema[plan.time_column].type
        self.offset = exact_us(plan.offset)
        step = plan.slide if plan.slide is not None else plan.size
        self.months = bool(plan.size.months)
        self.size = plan.size.months if self.months else exact_us(plan.size)
        self.step = step.months if self.months else exact_us(step)

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
        if not is_utc(plan.tz):
            sql = self._add(sql, width, [], [f"{windows_sql('a.t', plan)} AS w"])
            # two lists side by side: DuckDB takes them apart in step
            bounds = ["unnest(a.w[1:-:2]) AS s", "unnest(a.w[2:-:2]) AS e"]
            return self._outputs(self._add(sql, width, [], bounds), width)
        sql = self._add(sql, width, ["t"], [f"{self._clock('a.t')} AS x"])
        sql = self._add(sql, width, ["x"], [f"unnest({self._numbers()}) AS k"])
        if plan.kind == "cumulate":
            passed_steps = floor_div(f"a.x - a.k * {self.size}", self.step)
            ends = f"range({passed_steps} + 1, {self.size // self.step} + 1)"
            sql = self._add(sql, width, ["k"], [f"unnest({ends}) AS j"])
        return self._outputs(self._add(sql, width, [], self._bounds()), width)

    def _add(self, sql: str, width: int, passed: list[str], new: list[str]) -> str:
        """One more level: the input's columns, `passed`, and new expressions over alias `a`."""
        kept = [f"a.c{i}" for i in range(width)] + [f"a.{p}" for p in passed]
        return f"SELECT {', '.join(kept + new)} FROM ({sql}) AS a"

    def _clock(self, t: str) -> str:
        shifted = f"({t} - {self.offset})"
        if not self.months:
            return shifted
        return f"({month_number(shifted)} - {self.plan.offset.months})"

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
        return [f"{self._instant(start)} AS s", f"{self._instant(f'{start} + {length}')} AS e"]

    def _instant(self, x: str) -> str:
        us = month_start(f"{x} + {self.plan.offset.months}") if self.months else x
        return f"{us} + {self.offset}"

    def _outputs(self, sql: str, width: int) -> str:
        outputs = [f"a.c{i}" for i in range(width)]
        outputs += [
            f"{to_type(us, self.type)} AS c{width + i}"
            for i, us in enumerate(("a.s", "a.e", "a.e - 1"))
        ]
        return f"SELECT {', '.join(outputs)} FROM ({sql}) AS a"
