"""A random life of a database beside DuckDB: rows, transactions, restarts, views, clock, watermark.

A life is a list of steps, drawn from a seed. After a step every view equals DuckDB's answer; if one
does not, `shrink` looks for a short life that still shows it, and `script` writes that as SQL.
"""

from __future__ import annotations

import datetime
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb

from streamsql.core.errors import StreamSqlError
from streamsql.engine.database import Database
from tests.engine.test_recovery import abandon
from tests.state.faulty_filesystem import MemoryFileSystem

from ..oracle.batch import Row, difference, postgres_like
from .harness import rows_of

CREATE = (
    "CREATE TABLE t (id INT PRIMARY KEY, k INT, g VARCHAR, v INT, x NUMERIC(10,2), "
    "d DOUBLE PRECISION, b BOOLEAN, ts TIMESTAMP)",
    "CREATE TABLE u (id INT PRIMARY KEY, k INT, w INT, s VARCHAR, ts TIMESTAMP)",
    "CREATE TABLE p (n INT, k INT, w INT)",
    "CREATE TABLE e (a INT, b INT)",
    "CREATE TABLE c (id INT, k INT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 day')",
)
START = datetime.datetime(2100, 1, 1)  # the manual clock only goes forward, from the machine's time
CLOCK = ("SET streamsql.clock = 'manual'", f"ADVANCE CLOCK TO '{START}+00'")
ROWS_MAX = 3000  # of a view when it is made: joins without conditions stay out
ALLOWED = ("23505", "21000")  # a duplicate key; a row that one statement changes twice


@dataclass(frozen=True)
class Step:
    """What is done: kind and its statements.

    write: both sides run all of them. transaction: so, between BEGIN and `end`. ours: the engine
    alone. view: the view `name` is made of statements[0]; statements[1] is DuckDB's text, in which
    {now} and {w} are the clock and the watermark. drop, close, crash: what they say.
    """

    kind: str
    statements: tuple[str, ...] = ()
    end: str = ""
    name: str = ""
    now: datetime.datetime | None = None
    watermark: datetime.datetime | None = None

    def sql(self) -> list[str]:
        """The step as lines of a script."""
        if self.kind == "transaction":
            return ["BEGIN;", *(f"{s};" for s in self.statements), f"{self.end};"]
        if self.kind == "view":
            return [f"CREATE MATERIALIZED VIEW {self.name} AS {self.statements[0]};"]
        if self.kind == "drop":
            return [f"DROP MATERIALIZED VIEW {self.name};"]
        if self.kind in ("close", "crash"):
            return [f"-- here the server is restarted ({self.kind})"]
        return [f"{s};" for s in self.statements]


@dataclass
class Difference(Exception):
    """A view that is not DuckDB's answer (or an error that has no place), and after how many steps."""

    view: str
    text: str
    after: int

    def __str__(self) -> str:
        return f"{self.view} after step {self.after}: {self.text}"


@dataclass
class World:
    """Both sides, and the views that are there: name -> DuckDB's text."""

    seed: int
    views: dict[str, str] = field(default_factory=dict)
    now: datetime.datetime = START
    watermark: datetime.datetime = START
    made: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.files = MemoryFileSystem(self.seed)
        self.db = Database("data", files=self.files)
        self.oracle = postgres_like()
        for statement in CREATE:
            self.db.execute(statement)
            self.oracle.execute(re.sub(r" PRIMARY KEY|, WATERMARK.*(?=\)$)", "", statement))
        for statement in CLOCK:
            self.db.execute(statement)

    def close(self) -> None:
        self.db.close()
        self.oracle.close()

    # steps --------------------------------------------------------------------------------------
    def run(self, step: Step) -> None:
        """Do it on both sides. A statement that the engine refuses as it may changes neither."""
        getattr(self, f"_{step.kind}")(step)
        self.now = step.now or self.now
        self.watermark = step.watermark or self.watermark

    def _write(self, step: Step) -> None:
        for statement in step.statements:
            if self._ours(statement):
                self.oracle.execute(statement)

    def _ours(self, statement: str) -> bool:
        try:
            self.db.execute(statement)
        except StreamSqlError as error:
            if error.sqlstate not in ALLOWED:
                raise
            return False
        return True

    def _transaction(self, step: Step) -> None:
        self.db.execute("BEGIN")
        self.oracle.execute("BEGIN")
        for statement in step.statements:
            if not self._ours(statement):
                self.db.execute("ROLLBACK")
                self.oracle.execute("ROLLBACK")
                return
            self.oracle.execute(statement)
        self.db.execute(step.end)
        self.oracle.execute(step.end)

    def _alone(self, step: Step) -> None:
        for statement in step.statements:
            self.db.execute(statement)

    def _view(self, step: Step) -> None:
        ours, theirs = step.statements
        count = f"SELECT count(*) FROM ({self.written(theirs)}) q"
        try:
            rows = self.oracle.execute(count).fetchall()[0][0]
        except duckdb.Error:  # DuckDB lacks it: nothing to compare with
            rows = ROWS_MAX + 1
        if rows > ROWS_MAX:
            self.refused += 1
            return
        self.db.execute(f"CREATE MATERIALIZED VIEW {step.name} AS {ours}")
        self.views[step.name] = theirs
        self.made += 1

    def _drop(self, step: Step) -> None:
        if step.name in self.views:
            self.db.execute(f"DROP MATERIALIZED VIEW {step.name}")
            del self.views[step.name]

    def _close(self, step: Step) -> None:
        self.db.close()
        self._open()

    def _crash(self, step: Step) -> None:
        abandon(self.db)
        self.files.crash()
        self._open()

    def _open(self) -> None:
        self.db = Database("data", files=self.files)

    # checks -------------------------------------------------------------------------------------
    def written(self, text: str) -> str:
        """DuckDB's text at this clock and watermark."""
        return text.replace("{now}", f"TIMESTAMP '{self.now}'").replace(
            "{w}", f"TIMESTAMP '{self.watermark}'"
        )

    def wanted(self, name: str) -> list[Row]:
        return rows_of(self.oracle.sql(self.written(self.views[name])).to_arrow_table())

    def check(self, after: int, only: str | None = None) -> None:
        """Raises: Difference for the first view that is not DuckDB's answer."""
        for name in self.views if only is None else [only]:
            try:
                seen = rows_of(self.db.execute(f"SELECT * FROM {name}").arrow())
            except StreamSqlError as error:
                raise Difference(name, f"reading fails: {error}", after) from error
            found = difference(seen, self.wanted(name))
            if found:
                raise Difference(name, found, after)


def live(world: World, steps: Sequence[Step], check_every: int = 1, only: str = "") -> None:
    """Run the steps, checking all views (or `only` one, at the end). Raises: Difference."""
    last = len(steps) - 1
    for i, step in enumerate(steps):
        try:
            world.run(step)
        except Exception as error:  # whatever it is, no step may raise
            raise Difference(
                only, f"{step.sql()} raises {type(error).__name__}: {error}", i
            ) from error
        if only:
            continue
        if i % check_every == check_every - 1 or i == last or step.kind in ("close", "crash"):
            world.check(i)
    if only and only in world.views:
        world.check(last, only)


def fails(seed: int, steps: Sequence[Step], view: str) -> Difference | None:
    """What this life shows for that view (or for a step that raises); None = nothing."""
    world = World(seed)
    try:
        live(world, steps, only=view or "-")
    except Difference as found:
        return found
    finally:
        world.close()
    return None


def shrink(seed: int, steps: Sequence[Step], found: Difference, seconds: float) -> list[Step]:
    """A shorter life with the same fault: pieces are left out as long as it still shows."""
    kept = list(steps[: found.after + 1])
    until = time.monotonic() + seconds
    size = max(1, len(kept) // 2)
    while size and time.monotonic() < until:
        start, smaller = 0, False
        while start < len(kept) and time.monotonic() < until:
            fewer = kept[:start] + kept[start + size :]
            if fails(seed, fewer, found.view) is not None:
                kept, smaller = fewer, True
            else:
                start += size
        if not smaller or size > 1:
            size //= 2
    return kept


def script(steps: Sequence[Step], found: Difference, theirs: str = "") -> str:
    """The life as a script for `streamsql run`."""
    lines = [f"{s};" for s in (*CREATE, *CLOCK)]
    for step in steps:
        lines += step.sql()
    if found.view:
        lines += [f"SELECT * FROM {found.view};", f"-- DuckDB: {theirs}"]
    return "\n".join([*lines, f"-- {found}"])


def random_time(draw: random.Random, start: datetime.datetime, seconds: int) -> str:
    return f"TIMESTAMP '{start + datetime.timedelta(seconds=draw.randint(1, seconds))}'"
