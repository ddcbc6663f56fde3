"""Random lives with late rows: what is written, on the engine and on the model, and the comparison."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable

import pytest

from streamsql.engine.database import Database
from tests.engine.test_recovery import abandon
from tests.event_time import grouped, joined, model
from tests.event_time.model import DAY, EPOCH, SECOND, Event, Grid, Row, Table, View
from tests.state.faulty_filesystem import MemoryFileSystem

START = round((dt.datetime(2100, 1, 1) - EPOCH) / dt.timedelta(microseconds=1))
BASES = {
    "ahead of 1970": -90 * SECOND,
    "by the clock": START,
    "spring in Paris": round((dt.datetime(2024, 3, 30) - EPOCH) / dt.timedelta(microseconds=1)),
    "autumn in Paris": round((dt.datetime(2024, 10, 25) - EPOCH) / dt.timedelta(microseconds=1)),
}
AGGREGATES = "count(*) AS n, sum(v) AS s, max(v) AS m"
Made = tuple[str, Callable[[bool, int], View], tuple[str, ...]]
"""The query, the model's view of (on_close, lateness), and the tables that it reads."""


def text(us: int) -> str:
    """A moment as SQL."""
    return f"TIMESTAMP '{EPOCH + dt.timedelta(microseconds=us)}'"


def span(us: int) -> str:
    """A length as SQL."""
    if us and us % DAY == 0:
        return f"INTERVAL '{us // DAY} days'"
    return f"INTERVAL '{us // SECOND} seconds'"


class Life:
    """One database and its model, both driven by a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.files = MemoryFileSystem(seed)
        self.db = Database("data", files=self.files)
        self.base_name = draw.choice(list(BASES))
        self.by_days = "Paris" in self.base_name
        self.unit = 3 * 3600 * SECOND if self.by_days else SECOND
        self.frontier = BASES[self.base_name]
        self.now, self.ids = START, 0
        self.idle = draw.random() < 0.25
        self.said: list[str] = []
        lateness = draw.choice([0, 0, 4 * self.unit])
        self.tables = {name: self._table(name, lateness) for name in ("a", "b")}
        self.views: dict[str, tuple[View, bool]] = {}
        self.run("SET streamsql.clock = 'manual'")
        self.run(f"ADVANCE CLOCK TO '{EPOCH + dt.timedelta(microseconds=START)}+00'")
        for table in self.tables.values():
            self.run(self._ddl(table))

    # tables -------------------------------------------------------------------------------------
    def _table(self, name: str, lateness: int) -> Table:
        draw, unit = self.draw, self.unit
        return Table(
            name,
            delay=draw.choice([0, 3, 6]) * unit,
            percentile=(0.9, 160 * unit) if draw.random() < 0.25 else None,
            max_future=20 * unit if self.base_name == "by the clock" else DAY,
            idle_timeout=30 * SECOND if self.idle else None,
            lateness=lateness,
        )

    def _ddl(self, table: Table) -> str:
        how = f"ts - {span(table.delay)}"
        if table.percentile is not None:
            how = f"PERCENTILE({table.percentile[0]}, {span(table.percentile[1])})"
        options = [f"max_future = '{(table.max_future or 0) // SECOND} seconds'"]
        if table.idle_timeout is not None:
            options.append(f"idle_timeout = '{table.idle_timeout // SECOND} seconds'")
        if table.lateness:
            options.append(f"allowed_lateness = '{table.lateness // SECOND} seconds'")
        return (
            f"CREATE TABLE {table.name} (id INT, k INT, v INT, ts TIMESTAMP, "
            f"WATERMARK FOR ts AS {how}) WITH ({', '.join(options)})"
        )

    def run(self, sql: str) -> None:
        self.said.append(f"{sql};")
        self.db.execute(sql)

    # views --------------------------------------------------------------------------------------
    def view(self) -> None:
        """A view of a kind drawn; those over several watermarks only over empty tables."""
        kinds = [self.windows, self.sessions, self.top, self.dedup, self.plain, self.over]
        kinds += [self.window_on_window, self.windows_on_view]
        empty = all(t.last is None and t.value == model.NEVER for t in self.tables.values())
        if not self.idle:
            kinds += [self.window_join, self.interval_join, self.window_span]
            kinds += [self.union, self.union] if empty else []
        several = empty and not self.idle
        kinds += 2 * [lambda: self.grouped(list(grouped.INNER)[: 5 if several else 2])]
        made = self.draw.choice(kinds)()
        query, make, tables = made
        name = f"v{len(self.views)}"
        on_close = self.draw.random() < 0.5 or "OVER" in query or " FROM a W" in query
        pairs = "BETWEEN b.ts" in query or "b.ts BETWEEN" in query
        on_close = (on_close or query.startswith("SELECT id, v")) and not pairs
        on_close = on_close or query.startswith("SELECT ts, k, v")
        emit = " EMIT ON WINDOW CLOSE" if on_close else ""
        view = make(on_close, max(self.tables[t].lateness for t in tables))
        self.run(f"CREATE MATERIALIZED VIEW {name} AS {query}{emit}")
        # how far the other table was is not known: as far as now where the join judges the rows
        spans = isinstance(view, model.IntervalJoin | joined.WindowSpan)
        known = {n: t.value if spans else model.NEVER for n, t in self.tables.items()}
        for table in tables:
            for row, mark in self.tables[table].rows:
                view.take(Event(table, row, 1, mark), known)
        self.views[name] = (view, empty)

    def grid(self) -> tuple[str, Grid]:
        """The arguments of a window function behind the time, and the grid that they mean."""
        draw, u = self.draw, self.unit
        kind = draw.choice(["tumble", "hop", "cumulate"])
        step = draw.choice([5, 8, 10]) * u
        size = step if kind == "tumble" else step * draw.choice([2, 3])
        if kind == "hop" and draw.random() < 0.3:
            size = step + 3 * u
        offset = draw.choice([0, 0, 2, -3]) * u
        zone, months = None, False
        if self.by_days and kind != "cumulate" and draw.random() < 0.7:
            zone = draw.choice(["Europe/Paris", "America/New_York"])
            days = draw.choice([1, 2])
            step, offset = days * DAY, draw.choice([0, 0, -3 * 3600 * SECOND])
            size = step if kind == "tumble" else 2 * step
            if draw.random() < 0.4:
                months, offset, step, size = True, 0, 1, 1 if kind == "tumble" else 2
        lengths = [f"INTERVAL '{n} months'" if months else span(n) for n in (step, size)]
        wanted = lengths[:1] if kind == "tumble" else lengths
        more = f", offset => {span(offset)}" if offset else ""
        more += f", tz => '{zone}'" if zone else ""
        return f"{', '.join(wanted)}{more}", Grid(kind, size, step, offset, months, zone)

    def windows(self) -> Made:
        args, grid = self.grid()
        query = (
            f"SELECT window_start, window_end, {AGGREGATES} FROM {grid.kind.upper()}(a, ts, {args}) "
            "GROUP BY window_start, window_end"
        )
        return query, lambda c, late: model.Windowed(c, late, grid=grid), ("a",)

    def windows_on_view(self) -> Made:
        """The same over a view on the table."""
        name = f"p{len(self.said)}"
        self.run(f"CREATE MATERIALIZED VIEW {name} AS SELECT ts, v, id, k FROM a WHERE id >= 0")
        query, make, tables = self.windows()
        return query.replace("(a, ts", f"({name}, ts"), make, tables

    def union(self) -> Made:
        args, grid = self.grid()
        both = "(SELECT * FROM a UNION ALL SELECT * FROM b)"
        query = (
            f"SELECT window_start, window_end, {AGGREGATES} FROM {grid.kind.upper()}({both}, ts, "
            f"{args}) GROUP BY window_start, window_end"
        )
        return query, lambda c, n: model.Windowed(c, n, grid=grid, tables=("a", "b")), ("a", "b")

    def grouped(self, names: list[str]) -> Made:
        """Windows, or rows on close, over DISTINCT, GROUP BY ts, UNION, EXCEPT, INTERSECT."""
        args, grid = self.grid()
        inner, below, tables = grouped.INNER[self.draw.choice(names)]
        source, early = f"({below})", True
        if self.draw.random() < 0.3:
            source = f"g{len(self.said)}"
            self.run(f"CREATE MATERIALIZED VIEW {source} AS {below}")
            early = False
        if self.draw.random() < 0.3:
            made = lambda c, n: grouped.Grouped(c, n, inner=inner, tables=tables)  # noqa: E731
            return f"SELECT ts, k, v FROM {source} q", made, tables
        query = (
            "SELECT window_start, window_end, count(*) AS n, sum(k) AS k, sum(v) AS v FROM "
            f"{grid.kind.upper()}({source}, ts, {args}) GROUP BY window_start, window_end"
        )
        return (
            query,
            lambda c, n: grouped.Grouped(c, n, inner=inner, grid=grid, tables=tables, early=early),
            tables,
        )

    def sessions(self) -> Made:
        gap = self.draw.choice([2, 4, 7]) * self.unit
        longest = self.draw.choice([None, gap, 2 * gap, 3 * gap])
        most = "" if longest is None else f", max => {span(longest)}"
        query = (
            f"SELECT k, window_start, window_end, {AGGREGATES} FROM SESSION(a PARTITION BY k, ts, "
            f"{span(gap)}{most}) GROUP BY k, window_start, window_end"
        )
        return query, lambda c, late: model.Sessions(c, late, gap=gap, longest=longest), ("a",)

    def tumble(self) -> tuple[str, Grid]:
        size = self.draw.choice([5, 10]) * self.unit
        return span(size), Grid("tumble", size, size)

    def top(self) -> Made:
        args, grid = self.tumble()
        query = (
            "SELECT window_end, id FROM (SELECT window_end, id, row_number() OVER (PARTITION BY "
            f"window_start, window_end ORDER BY v DESC, id) AS n FROM TUMBLE(a, ts, {args})) q "
            "WHERE n <= 2"
        )
        return query, lambda c, late: model.Ranked(c, late, grid=grid), ("a",)

    def dedup(self) -> Made:
        args, grid = self.tumble()
        query = (
            "SELECT window_end, id FROM (SELECT window_end, id, row_number() OVER (PARTITION BY "
            f"window_start, window_end, k ORDER BY ts, id) AS n FROM TUMBLE(a, ts, {args})) q "
            "WHERE n = 1"
        )
        return query, lambda c, late: model.Ranked(c, late, grid=grid, by_key=True), ("a",)

    def window_on_window(self) -> Made:
        size = self.draw.choice([5, 10]) * self.unit
        inner, outer = Grid("tumble", size, size), Grid("tumble", 3 * size, 3 * size)
        below = (
            "SELECT window_time AS at, count(*) AS n, sum(v) AS s FROM "
            f"TUMBLE(a, ts, {span(size)}) GROUP BY window_start, window_end, window_time"
        )
        query = (
            "SELECT window_end, count(*) AS w, sum(n) AS n, sum(s) AS s FROM "
            f"TUMBLE(({below}), at, {span(3 * size)}) GROUP BY window_start, window_end"
        )
        return query, lambda c, n: model.WindowOnWindow(c, n, grid=inner, outer=outer), ("a",)

    def window_join(self) -> Made:
        args, grid = self.tumble()
        kind = self.draw.choice(["inner", "left"])
        query = (
            f"SELECT x.window_end, x.id, y.id AS j FROM TUMBLE(a, ts, {args}) x {kind.upper()} JOIN "
            f"TUMBLE(b, ts, {args}) y ON x.k = y.k AND x.window_start = y.window_start "
            "AND x.window_end = y.window_end"
        )
        return query, lambda c, n: model.WindowJoin(c, n, grid=grid, kind=kind), ("a", "b")

    def interval_join(self) -> Made:
        before, after = (self.draw.choice([0, 3, 6]) * self.unit for _ in range(2))
        query = (
            "SELECT a.id, b.id AS j FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - "
            f"{span(before)} AND b.ts + {span(after)}"
        )
        return query, lambda c, n: model.IntervalJoin(c, n, before=before, after=after), ("a", "b")

    def window_span(self) -> Made:
        args, grid = self.tumble()
        before, after = (self.draw.choice([0, 3, 6]) * self.unit for _ in range(2))
        query = (
            "SELECT g.we, g.n, b.id FROM (SELECT k, window_end AS we, count(*) AS n FROM "
            f"TUMBLE(a, ts, {args}) GROUP BY k, window_start, window_end) g JOIN b ON g.k = b.k "
            f"AND b.ts BETWEEN g.we - {span(before)} AND g.we + {span(after)}"
        )
        made = lambda c, n: joined.WindowSpan(c, n, grid=grid, before=before, after=after)  # noqa: E731
        return query, made, ("a", "b")

    def plain(self) -> Made:
        return "SELECT id, v FROM a", lambda c, late: model.Single(c, late), ("a",)

    def over(self) -> Made:
        query = (
            "SELECT id, sum(v) OVER (PARTITION BY k ORDER BY ts, id ROWS BETWEEN 2 PRECEDING AND "
            "CURRENT ROW) AS s FROM a"
        )
        return query, lambda c, late: model.Single(c, late, span=2), ("a",)

    # writes -------------------------------------------------------------------------------------
    def row(self, table: Table) -> Row:
        draw, u = self.draw, self.unit
        self.ids += 1
        self.frontier += draw.choice([0, 0, 1, 2, 3]) * u
        ts: int | None = self.frontier - draw.choice([0, 0, 1, 3, 7, 15]) * u
        if draw.random() < 0.03:
            ts = None
        elif draw.random() < 0.03 and table.max_future is not None:
            ts = self.now + table.max_future + draw.choice([0, 1, 100]) * u
        return Row(self.ids, draw.randint(1, 2), draw.randint(0, 9), ts)

    def values(self, rows: list[Row]) -> str:
        return ", ".join(
            f"({r.id}, {r.k}, {r.v}, {'NULL' if r.ts is None else text(r.ts)})" for r in rows
        )

    def insert(self, table: Table, pending: list[tuple[Table, Row, int]]) -> str:
        rows = [self.row(table) for _ in range(self.draw.randint(1, 4))]
        pending += [(table, r, 1) for r in rows]
        return f"INSERT INTO {table.name} VALUES {self.values(rows)}"

    def change(self, table: Table, pending: list[tuple[Table, Row, int]]) -> str | None:
        """A DELETE or UPDATE of rows that are there (the newer half of them, as a rule)."""
        gone = {row.id for _, row, _ in pending}
        known = [r for r, _ in table.rows if r.id not in gone]
        if not known:
            return None
        row = self.draw.choice(known[-12:])
        choice = self.draw.random()
        if choice < 0.5:
            picked = [r for r in known if r.k == row.k and abs(r.id - row.id) <= 2]
            pending += [(table, r, -1) for r in picked]
            listed = ", ".join(str(r.id) for r in picked)
            return f"DELETE FROM {table.name} WHERE id IN ({listed})"
        ts = row.ts
        if choice < 0.75 and ts is not None:
            ts += self.draw.choice([-9, -2, 2, 9]) * self.unit
        new = Row(row.id, row.k, self.draw.randint(0, 9), ts)
        if new == row:
            return None
        pending += [(table, row, -1), (table, new, 1)]
        when = "NULL" if ts is None else text(ts)
        return f"UPDATE {table.name} SET v = {new.v}, ts = {when} WHERE id = {row.id}"

    def write(self) -> None:
        """One statement, or a transaction of several: one tick."""
        statements: list[str] = []
        pending: list[tuple[Table, Row, int]] = []
        for _ in range(1 if self.draw.random() < 0.75 else self.draw.randint(2, 4)):
            table = self.tables[self.draw.choice("aab")]
            made = (self.insert if self.draw.random() < 0.7 else self.change)(table, pending)
            statements += [made] if made else []
        if len(statements) > 1:
            statements = ["BEGIN", *statements, "COMMIT"]
        for statement in statements:
            self.run(statement)
        others = {t.name: t.value for t in self.tables.values()}
        went = [t.delete(r, t.value) for t, r, weight in pending if weight < 0]
        came = [t.insert(r, self.now) for t, r, weight in pending if weight > 0]
        for view, _ in self.views.values():
            known = reads(view)
            view.leave([e for e in went if e.table in known], others)
            for event in came:
                if event.table in known:
                    view.take(event, others)

    def advance_watermark(self) -> None:
        table = self.tables[self.draw.choice("ab")]
        at = self.frontier - self.draw.choice([0, 5, 10]) * self.unit
        self.run(f"ADVANCE WATERMARK FOR {table.name} TO '{EPOCH + dt.timedelta(microseconds=at)}'")
        table.value = max(table.value, at)

    def advance_clock(self) -> None:
        self.now += self.draw.choice([1, 7, 20, 40]) * SECOND
        at = EPOCH + dt.timedelta(microseconds=self.now)
        self.run(f"ADVANCE CLOCK TO '{at}+00'")
        for table in self.tables.values():
            table.clock(self.now)

    def restart(self) -> None:
        if self.draw.random() < 0.5:
            self.said.append("-- close")
            self.db.close()
        else:
            self.said.append("-- crash")
            abandon(self.db)
            self.files.crash()
        self.db = Database("data", files=self.files)

    def step(self) -> None:
        choice = self.draw.random()
        if choice < 0.72:
            self.write()
        elif choice < 0.80 and len(self.views) < 9:
            self.view()
        elif choice < 0.88:
            self.advance_clock()
        elif choice < 0.96:
            self.advance_watermark()
        else:
            self.restart()

    # comparison ---------------------------------------------------------------------------------
    def differences(self) -> list[str]:
        """What differs between the engine and the model now."""
        marks = {t.name: t.value for t in self.tables.values()}
        found = [
            f"watermark of {name}: {seen} instead of {marks[name]}"
            for name, seen in self.watermarks().items()
            if seen != marks[name]
        ]
        rows = self.db.execute("SELECT view, event_time, watermark FROM streamsql.late_rows")
        late: dict[str, Counter[tuple[int, int]]] = {}
        for name, at, mark in rows.fetchall():
            late.setdefault(name, Counter())[micros(at), micros(mark)] += 1
        for name, (view, from_start) in self.views.items():
            answer = self.db.execute(f"SELECT * FROM {name}").fetchall()
            seen = Counter(tuple(micros(v) for v in row) for row in answer)
            wanted = view.answer(marks)
            if seen != wanted:
                found.append(f"{name}: too many {seen - wanted}, missing {wanted - seen}")
            if from_start and +view.late != late.get(name, Counter()):
                seen_late = late.get(name, Counter())
                found.append(f"late rows of {name}: {seen_late} instead of {+view.late}")
        return found

    def watermarks(self) -> dict[str, int]:
        rows = self.db.execute(
            "SELECT relation, watermark FROM streamsql.watermarks WHERE operator = 'source'"
        ).fetchall()
        return {name: model.NEVER if at is None else micros(at) for name, at in rows}

    def verified(self) -> list[str]:
        """What VERIFY says of views that are right."""
        found = []
        for name in self.views:
            rows = self.db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall()
            found += [f"VERIFY {name}: {row}" for row in rows]
        return found


def reads(view: View) -> tuple[str, ...]:
    """The tables that a view of the model reads."""
    if isinstance(view, model.WindowJoin | model.IntervalJoin | joined.WindowSpan):
        return ("a", "b")
    return view.tables if isinstance(view, model.Windowed | grouped.Grouped) else ("a",)


def micros(value: object) -> object:
    """Timestamps as µs, the rest as it is."""
    if isinstance(value, dt.datetime):
        return round((value.replace(tzinfo=None) - EPOCH) / dt.timedelta(microseconds=1))
    return value


def live_through(life: Life, seed: int, steps: int) -> None:
    """Three views and so many steps: at each the model agrees, and VERIFY does at the end."""
    try:
        for _ in range(3):
            life.view()
        for number in range(steps):
            life.step()
            found = life.differences()
            if found:
                said = "\n".join(life.said)
                pytest.fail(f"seed {seed}, step {number}:\n{said}\n{found}", pytrace=False)
        wrong = life.verified()
        if wrong:
            said = "\n".join(life.said)
            pytest.fail(f"seed {seed}:\n{said}\n{wrong}", pytrace=False)
    finally:
        life.db.close()
