"""The rules of event time, written down plainly: watermarks, lateness, windows, sessions, closing.

Times are integers (µs since the epoch), rows are tuples. Nothing is incremental: a view keeps the
rows that were on time for it and computes its answer from them whenever it is asked.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

NEVER = -(2**62)
SECOND = 1_000_000
DAY = 86_400 * SECOND
EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Row:
    """id, k, v and the event time (None = NULL)."""

    id: int
    k: int
    v: int
    ts: int | None


@dataclass(frozen=True)
class Event:
    """A row that came (+1) or went (−1), and the watermark of its table before it."""

    table: str
    row: Row
    weight: int
    mark: int


@dataclass
class Table:
    """A table with a watermark. delay: of `ts - delay`; percentile: (fraction, span) instead."""

    name: str
    delay: int = 0
    percentile: tuple[float, int] | None = None
    max_future: int | None = DAY
    idle_timeout: int | None = None
    lateness: int = 0
    value: int = NEVER
    top: int = NEVER
    last: int | None = None
    rows: list[tuple[Row, int]] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    newest: int = NEVER
    disorders: list[tuple[int, int]] = field(default_factory=list)
    idle_value: int | None = None

    def insert(self, row: Row, now: int) -> Event:
        """One row: judged by the watermark before it, which it may then move."""
        event = Event(self.name, row, 1, self.value)
        self.rows.append((row, self.value))
        self.last, self.idle_value = now, None
        too_far = row.ts is not None and self.max_future is not None and (
            row.ts > now + self.max_future
        )  # fmt: skip
        if row.ts is not None and not too_far:
            self.top = max(self.top, self._moves_to(row.ts))
            self.value = max(self.value, self.top)
        return event

    def _moves_to(self, ts: int) -> int:
        if self.percentile is None:
            return ts - self.delay
        fraction, span = self.percentile
        part = span // 16
        late = max(0, self.newest - ts) if self.newest != NEVER else 0
        self.newest = max(self.newest, ts)
        self.disorders.append((ts // part, _rounded_up(late)))
        top = self.newest // part
        counted = sorted(d for at, d in self.disorders if at > top - 16)
        wanted = fraction * len(counted)
        delay = next((d for i, d in enumerate(counted, 1) if i >= wanted), 0)
        return self.newest - delay

    def delete(self, row: Row, mark: int) -> Event:
        """One row goes, judged by the watermark before the statement."""
        at = next(i for i, (r, _) in enumerate(self.rows) if r == row)
        del self.rows[at]
        return Event(self.name, row, -1, mark)

    def clock(self, now: int) -> None:
        """A table without rows for `idle_timeout`: its watermark goes on with the clock."""
        if self.idle_timeout is None or self.last is None or self.value == NEVER:
            return
        if now - self.last >= self.idle_timeout:
            base = max(self.value_at_idle(), self.top)
            self.value = max(self.value, base + now - self.last)

    def value_at_idle(self) -> int:
        if self.idle_value is None:
            self.idle_value = self.value
        return self.idle_value


def _rounded_up(late: int) -> int:
    """Disorder is counted in buckets of a sixteenth; the delay is a bucket's upper end."""
    if late < 16:
        return late
    shift = late.bit_length() - 5
    return (((late >> shift) + 1) << shift) - 1


# --- windows ------------------------------------------------------------------------------------
def local(us: int, zone: str | None) -> dt.datetime:
    """Wall-clock time of a moment."""
    moment = EPOCH + dt.timedelta(microseconds=us)
    if zone is None:
        return moment
    return moment.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def utc(wall: dt.datetime, zone: str | None) -> int:
    """The moment of a wall-clock time; a repeated one is the later, a skipped one as before it."""
    if zone is not None:
        known = wall.replace(tzinfo=ZoneInfo(zone))
        early, late = known.utcoffset(), known.replace(fold=1).utcoffset()
        offset = late if early > late else early  # repeated: the later; skipped: the old offset
        wall = wall - offset
    return round((wall - EPOCH) / dt.timedelta(microseconds=1))


def add_months(at: dt.datetime, months: int) -> dt.datetime:
    """The first of a month, so many months on."""
    number = at.year * 12 + at.month - 1 + months
    return dt.datetime(number // 12, number % 12 + 1, 1)


@dataclass(frozen=True)
class Grid:
    """TUMBLE, HOP or CUMULATE. size, step: µs, or months where `months`; zone: days follow it."""

    kind: str
    size: int
    step: int
    offset: int = 0
    months: bool = False
    zone: str | None = None

    def windows(self, ts: int) -> list[tuple[int, int]]:
        """(start, end) of all windows that hold the moment."""
        if self.months:
            wall = local(ts, self.zone)
            first = dt.datetime(wall.year, wall.month, 1)
            since = (first.year - 1970) * 12 + first.month - 1
            start = add_months(first, -(since % self.step))
            bounds = [
                (add_months(start, -i * self.step), add_months(start, -i * self.step + self.size))
                for i in range(-(-self.size // self.step))
            ]
            pairs = [(utc(a, self.zone), utc(b, self.zone)) for a, b in bounds]
            return [(a, b) for a, b in pairs if a <= ts < b]
        if self.zone is not None:  # whole days on the wall clock
            wall = utc(local(ts, self.zone), None) - self.offset
            first = wall // self.step * self.step
            starts = [first - i * self.step for i in range(-(-self.size // self.step))]
            made = [
                (self._moment(s + self.offset), self._moment(s + self.offset + self.size))
                for s in starts
            ]
            return [(a, b) for a, b in made if a <= ts < b]
        at = ts - self.offset
        if self.kind == "cumulate":
            start = at // self.size * self.size
            ends = range(start + self.step, start + self.size + 1, self.step)
            return [(start + self.offset, e + self.offset) for e in ends if at < e]
        first = at // self.step * self.step
        starts = range(first, at - self.size, -self.step)
        return [(s + self.offset, s + self.offset + self.size) for s in starts]

    def _moment(self, wall_us: int) -> int:
        return utc(EPOCH + dt.timedelta(microseconds=wall_us), self.zone)


# --- views --------------------------------------------------------------------------------------
Answer = Counter[tuple[object, ...]]


@dataclass
class View:
    """What was on time, and what was late: (event time, watermark it was judged by)."""

    on_close: bool
    lateness: int
    late: Counter[tuple[int, int]] = field(default_factory=Counter)
    nulls: int = 0

    def take(self, event: Event, others: dict[str, int]) -> None:
        """One change. others: each table's watermark before the tick."""
        raise NotImplementedError

    def leave(self, events: list[Event], others: dict[str, int]) -> None:
        """Rows that go together, none before the other."""
        for event in events:
            self.take(event, others)

    def answer(self, marks: dict[str, int]) -> Answer:
        """The view's rows, when the tables' watermarks are these."""
        raise NotImplementedError

    def is_closed(self, end: int, mark: int) -> bool:
        return mark != NEVER and end + self.lateness <= mark


def summed(rows: list[Row]) -> tuple[int, int, int]:
    """count(*), sum(v), max(v)."""
    values = [r.v for r in rows]
    return len(values), sum(values), max(values)


@dataclass
class Windowed(View):
    """GROUP BY window over one table, or over a UNION ALL of several."""

    grid: Grid = field(default_factory=lambda: Grid("tumble", SECOND, SECOND))
    tables: tuple[str, ...] = ("a",)
    rows: list[tuple[int, int, Row]] = field(default_factory=list)

    def take(self, event: Event, others: dict[str, int]) -> None:
        if event.row.ts is None:
            self.nulls += 1
            return
        mark = min([event.mark, *(others[t] for t in self.tables if t != event.table)])
        was_late = False
        for start, end in self.grid.windows(event.row.ts):
            if self.is_closed(end, mark):
                was_late = True
            elif event.weight > 0:
                self.rows.append((start, end, event.row))
            else:
                self.rows.remove((start, end, event.row))
        self.late[event.row.ts, mark] += was_late

    def groups(self, marks: dict[str, int]) -> dict[tuple[int, int], list[Row]]:
        """The rows of each window that shows."""
        mark = min(marks[t] for t in self.tables)
        found: dict[tuple[int, int], list[Row]] = {}
        for start, end, row in self.rows:
            if not self.on_close or self.is_closed(end, mark):
                found.setdefault((start, end), []).append(row)
        return found

    def answer(self, marks: dict[str, int]) -> Answer:
        return Counter((*w, *summed(rows)) for w, rows in self.groups(marks).items())


@dataclass
class Ranked(Windowed):
    """Top-N in each window: ORDER BY v DESC, id. limit 1 by id alone is the first row of each k."""

    limit: int = 2
    by_key: bool = False

    def answer(self, marks: dict[str, int]) -> Answer:
        found: Answer = Counter()
        for (_, end), rows in self.groups(marks).items():
            for k in {r.k for r in rows} if self.by_key else {None}:
                part = [r for r in rows if k is None or r.k == k]
                if self.by_key:
                    part.sort(key=lambda r: (r.ts, r.id))
                else:
                    part.sort(key=lambda r: (-r.v, r.id))
                found.update((end, r.id) for r in part[: 1 if self.by_key else self.limit])
        return found


@dataclass
class WindowOnWindow(Windowed):
    """A coarser TUMBLE over the results of a finer one: (end, inner windows, rows, sum)."""

    outer: Grid = field(default_factory=lambda: Grid("tumble", SECOND, SECOND))

    def answer(self, marks: dict[str, int]) -> Answer:
        mark = min(marks[t] for t in self.tables)
        found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        inner: dict[tuple[int, int], list[Row]] = {}
        for start, end, row in self.rows:
            inner.setdefault((start, end), []).append(row)
        for (_, end), rows in inner.items():
            (window,) = self.outer.windows(end - 1)
            if not self.on_close or self.is_closed(window[1], mark):
                found.setdefault(window, []).append(summed(rows))
        return Counter(
            (end, len(parts), sum(p[0] for p in parts), sum(p[1] for p in parts))
            for (_, end), parts in found.items()
        )


@dataclass
class Sessions(View):
    """SESSION PARTITION BY k, cut at its start + longest. A row belongs to a closed session if it
    would change it."""

    gap: int = SECOND
    longest: int | None = None
    rows: list[Row] = field(default_factory=list)

    def sessions(self, k: int, more: tuple[Row, ...] = ()) -> list[list[Row]]:
        """The sessions of a key, in order; with more rows."""
        found: list[list[Row]] = []
        rows = [*self.rows, *more]
        for row in sorted((r for r in rows if r.k == k), key=lambda r: r.ts or 0):
            if found and row.ts - found[-1][-1].ts <= self.gap and self._is_uncut(found[-1], row):
                found[-1].append(row)
            else:
                found.append([row])
        return found

    def _is_uncut(self, session: list[Row], row: Row) -> bool:
        return self.longest is None or row.ts - session[0].ts < self.longest

    def end(self, session: list[Row]) -> int:
        """Where it ends, and the watermark closes it."""
        end = session[-1].ts + self.gap
        return end if self.longest is None else min(end, session[0].ts + self.longest)

    def take(self, event: Event, others: dict[str, int]) -> None:
        row, ts = event.row, event.row.ts
        if ts is None:
            self.nulls += 1
            return
        if self._is_late(event):
            self.late[ts, event.mark] += 1
        elif event.weight > 0:
            self.rows.append(row)
        else:
            self.rows.remove(row)

    def leave(self, events: list[Event], others: dict[str, int]) -> None:
        timed = [e for e in events if e.row.ts is not None]
        self.nulls += len(events) - len(timed)
        late = [e for e in timed if self._is_late(e)]  # by the sessions as they are before
        for event in timed:
            if event in late:
                self.late[event.row.ts, event.mark] += 1
            else:
                self.rows.remove(event.row)

    def _is_late(self, event: Event) -> bool:
        row = event.row
        before = self.sessions(row.k)
        if event.weight < 0:
            own = [s for s in before if row in s]
            return not own or self.is_closed(self.end(own[0]), event.mark)
        after = self.sessions(row.k, (row,))
        own = [s for s in after if row in s]
        if self.is_closed(self.end(own[0]), event.mark):
            return True
        return any(s not in after for s in before if self.is_closed(self.end(s), event.mark))

    def answer(self, marks: dict[str, int]) -> Answer:
        found: Answer = Counter()
        for k in {r.k for r in self.rows}:
            for session in self.sessions(k):
                end = self.end(session)
                if not self.on_close or self.is_closed(end, marks["a"]):
                    found[k, session[0].ts, end, *summed(session)] += 1
        return found


@dataclass
class WindowJoin(View):
    """TUMBLE(a) JOIN TUMBLE(b) of one window and key; each side is judged by its own watermark."""

    grid: Grid = field(default_factory=lambda: Grid("tumble", SECOND, SECOND))
    kind: str = "inner"
    sides: dict[str, Windowed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            self.sides[name] = Windowed(False, self.lateness, grid=self.grid, tables=(name,))

    def take(self, event: Event, others: dict[str, int]) -> None:
        self.sides[event.table].take(event, others)
        self.late = self.sides["a"].late + self.sides["b"].late

    def answer(self, marks: dict[str, int]) -> Answer:
        mark, found = min(marks["a"], marks["b"]), Counter()
        right = self.sides["b"].rows
        for start, end, row in self.sides["a"].rows:
            if self.on_close and not self.is_closed(end, mark):
                continue
            partners = [o.id for s, _, o in right if s == start and o.k == row.k]
            if self.kind == "left":
                partners = partners or [None]
            found.update((end, row.id, p) for p in partners)
        return found


@dataclass
class IntervalJoin(View):
    """a.ts BETWEEN b.ts - before AND b.ts + after: a row is late once its partners' time is over for
    both tables."""

    before: int = 0
    after: int = 0
    rows: dict[str, list[Row]] = field(default_factory=lambda: {"a": [], "b": []})

    def take(self, event: Event, others: dict[str, int]) -> None:
        ts = event.row.ts
        if ts is None:
            return
        # partners of an a row lie in [ts - after, ts + before], of a b row in [ts - before, ts + after]
        last = ts + (self.before if event.table == "a" else self.after)
        mark = min(event.mark, others["b" if event.table == "a" else "a"])
        if self.is_closed(last + 1, mark):
            self.late[ts, mark] += 1
        elif event.weight > 0:
            self.rows[event.table].append(event.row)
        else:
            self.rows[event.table].remove(event.row)

    def answer(self, marks: dict[str, int]) -> Answer:
        return Counter(
            (x.id, y.id)
            for x in self.rows["a"]
            for y in self.rows["b"]
            if x.k == y.k and y.ts - self.before <= x.ts <= y.ts + self.after
        )


@dataclass
class Single(View):
    """Each row is the window [t, t + 1 µs): a plain SELECT, or OVER (ORDER BY ts, id), when final.

    span: None, or rows of the frame of sum(v) in front of the row.
    """

    span: int | None = None
    rows: list[Row] = field(default_factory=list)

    def take(self, event: Event, others: dict[str, int]) -> None:
        ts = event.row.ts
        if ts is None:
            self.nulls += 1
        elif self.is_closed(ts + 1, event.mark):
            self.late[ts, event.mark] += 1
        elif event.weight > 0:
            self.rows.append(event.row)
        else:
            self.rows.remove(event.row)

    def answer(self, marks: dict[str, int]) -> Answer:
        final = [r for r in self.rows if self.is_closed(r.ts + 1, marks["a"])]
        if self.span is None:
            return Counter((r.id, r.v) for r in final)
        found: Answer = Counter()
        for k in {r.k for r in final}:
            part = sorted((r for r in final if r.k == k), key=lambda r: (r.ts, r.id))
            for i, row in enumerate(part):
                found[row.id, sum(r.v for r in part[max(0, i - self.span) : i + 1])] += 1
        return found
