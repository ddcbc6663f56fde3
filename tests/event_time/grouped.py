"""Windows over DISTINCT, GROUP BY the time, UNION, EXCEPT, INTERSECT: each change of a time's rows is
judged by the watermark of the row that made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.event_time.model import NEVER, Answer, Event, Grid, Row, View

Inner = Callable[[dict[str, list[Row]]], Counter[tuple[int, int]]]
"""The rows of one time, by table -> what the query below the window makes of them: (k, v)."""


def distinct(rows: dict[str, list[Row]]) -> Counter[tuple[int, int]]:
    """SELECT DISTINCT ts, k, 1 AS v FROM a; the same of a and b is a UNION."""
    return Counter({(r.k, 1) for part in rows.values() for r in part})


def grouped(rows: dict[str, list[Row]]) -> Counter[tuple[int, int]]:
    """SELECT ts, count(*) AS k, sum(v) AS v FROM a GROUP BY ts."""
    return Counter([(len(rows["a"]), sum(r.v for r in rows["a"]))] if rows["a"] else [])


def except_all(rows: dict[str, list[Row]]) -> Counter[tuple[int, int]]:
    """SELECT ts, k, v % 2 FROM a EXCEPT ALL SELECT ts, k, v % 2 FROM b."""
    left, right = (Counter((r.k, r.v % 2) for r in rows[t]) for t in "ab")
    return left - right


def intersect(rows: dict[str, list[Row]]) -> Counter[tuple[int, int]]:
    """SELECT ts, k, v % 2 FROM a INTERSECT SELECT ts, k, v % 2 FROM b."""
    left, right = ({(r.k, r.v % 2) for r in rows[t]} for t in "ab")
    return Counter(left & right)


INNER: dict[str, tuple[Inner, str, tuple[str, ...]]] = {
    "distinct": (distinct, "SELECT DISTINCT ts, k, 1 AS v FROM a", ("a",)),
    "group": (grouped, "SELECT ts, count(*) AS k, sum(v) AS v FROM a GROUP BY ts", ("a",)),
    "union": (distinct, "SELECT ts, k, 1 AS v FROM a UNION SELECT ts, k, 1 FROM b", ("a", "b")),
    "except": (
        except_all,
        "SELECT ts, k, v % 2 AS v FROM a EXCEPT ALL SELECT ts, k, v % 2 FROM b",
        ("a", "b"),
    ),
    "intersect": (
        intersect,
        "SELECT ts, k, v % 2 AS v FROM a INTERSECT SELECT ts, k, v % 2 FROM b",
        ("a", "b"),
    ),
}


@dataclass
class Grouped(View):
    """GROUP BY window over such rows: (start, end, count(*), sum(k), sum(v)).

    grid: None = the rows themselves, each the window [t, t + 1 µs), on close. The changes of a tick
    under one watermark are made together. early: rows that are late for all their windows are left
    out below.
    """

    inner: Inner = field(default=distinct)
    grid: Grid | None = None
    tables: tuple[str, ...] = ("a",)
    early: bool = False
    rows: dict[int, dict[str, list[Row]]] = field(default_factory=dict)
    shown: Counter[tuple[int, int, int, int, int]] = field(default_factory=Counter)
    waiting: list[tuple[int, int, Event]] = field(default_factory=list)

    def leave(self, events: list[Event], others: dict[str, int]) -> None:
        self.settle()  # a tick begins
        super().leave(events, others)

    def take(self, event: Event, others: dict[str, int]) -> None:
        ts = event.row.ts
        if ts is None:
            self.nulls += 1
            return
        mark = min([event.mark, *(others[t] for t in self.tables if t != event.table)])
        if self.early and self.grid is not None:
            ends = [end for _, end in self.grid.windows(ts)]
            if not ends or self.is_closed(max(ends), mark):
                self.late[ts, mark] += bool(ends)
                return
        self.waiting.append((ts, mark, event))

    def settle(self) -> None:
        """Make the changes that wait: by time, and then in the order of their watermarks."""
        for ts, mark in sorted({(ts, mark) for ts, mark, _ in self.waiting}):
            rows = self.rows.setdefault(ts, {t: [] for t in self.tables})
            before = self.inner(rows)
            for at, under, event in self.waiting:
                if (at, under) == (ts, mark):
                    part = rows[event.table]
                    part.append(event.row) if event.weight > 0 else part.remove(event.row)
            after = Counter(self.inner(rows))
            after.subtract(before)
            for row, weight in after.items():
                if weight:
                    self.change(ts, mark, row, weight)
        self.waiting = []

    def change(self, ts: int, mark: int, row: tuple[int, int], weight: int) -> None:
        """One entry below the windows, unless these are closed."""
        was_late = False
        for start, end in self.grid.windows(ts) if self.grid else [(ts, ts + 1)]:
            if self.is_closed(end, mark):
                was_late = True
            else:
                self.shown[start, end, ts, *row] += weight
        self.late[ts, mark] += was_late

    def answer(self, marks: dict[str, int]) -> Answer:
        self.settle()
        assert min(self.shown.values(), default=0) >= 0
        mark = min((marks[t] for t in self.tables), default=NEVER)
        open_ = Counter(
            {r: n for r, n in self.shown.items()
             if n and (not self.on_close or self.is_closed(r[1], mark))}
        )  # fmt: skip
        if self.grid is None:
            return Counter({(ts, k, v): n for (_, _, ts, k, v), n in open_.items()})
        found: dict[tuple[int, int], list[int]] = {}
        for (start, end, _, k, v), n in open_.items():
            sums = found.setdefault((start, end), [0, 0, 0])
            sums[0], sums[1], sums[2] = sums[0] + n, sums[1] + n * k, sums[2] + n * v
        return Counter((*window, *sums) for window, sums in found.items())
