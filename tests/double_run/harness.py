"""One query four ways: ad hoc, as a view made before the load, after it, and under a shuffled history.

All four must give what DuckDB answers over the same rows: its text is the same where the dialects
agree, and written by hand where they do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import streamsql
from streamsql.core.errors import StreamSqlError

from ..oracle.batch import Row, Shape, difference, postgres_like


@dataclass(frozen=True)
class Table:
    """A table of a stage.

    columns: what stands in CREATE TABLE's parentheses. rows: (random, scale) -> rows; columns of a
    type that Arrow lacks are texts. key: an integer column by which histories pick rows. bump: an
    integer column that may be changed and changed back. duckdb: the select list that gives those
    texts their DuckDB types. options: what follows the parentheses. grows: rows are never changed.
    """

    name: str
    columns: str
    rows: Callable[[np.random.Generator, int], pa.Table]
    key: str
    bump: str | None = None
    duckdb: str = "*"
    options: str = ""
    grows: bool = False

    def create(self) -> str:
        return f"CREATE TABLE {self.name} ({self.columns}) {self.options}".rstrip()


@dataclass(frozen=True)
class Stage:
    """Tables and the shapes over them.

    before, middle, finish: statements for the engine alone before the first view, in the course of
    a history, and at its end (clocks and watermarks).
    """

    name: str
    tables: tuple[Table, ...]
    shapes: tuple[Shape, ...]
    scale: int = 1
    before: tuple[str, ...] = ()
    middle: tuple[str, ...] = ()
    finish: tuple[str, ...] = ()

    def data(self, seed: int) -> dict[str, pa.Table]:
        random = np.random.default_rng(seed)
        return {t.name: t.rows(random, self.scale) for t in self.tables}


def rows_of(table: pa.Table) -> list[Row]:
    """Rows as Python values; JSON documents in one spelling."""
    columns = [[_canonical(v) for v in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _canonical(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.dumps(json.loads(value), sort_keys=True)
        except ValueError:
            return value
    return value


class Oracle:
    """DuckDB with the stage's tables, full or empty."""

    def __init__(self, stage: Stage, data: dict[str, pa.Table]) -> None:
        self.connection = postgres_like()
        for table in stage.tables:
            given = data[table.name]
            self.connection.register("given", given)
            self.connection.execute(
                f"CREATE TABLE {table.name} AS SELECT {table.duckdb} FROM given"
            )
            self.connection.unregister("given")

    def empty(self, stage: Stage) -> None:
        for table in stage.tables:
            self.connection.execute(f"DELETE FROM {table.name}")

    def answers(self, shapes: tuple[Shape, ...]) -> dict[str, list[Row]]:
        found, refused = {}, []
        for shape in shapes:
            try:
                found[shape.name] = rows_of(self.connection.sql(shape.duckdb).to_arrow_table())
            except duckdb.Error as error:
                refused.append(f"{shape.name}: {error}")
        assert not refused, "DuckDB refuses\n" + "\n".join(refused)
        return found


@dataclass
class Outcome:
    """What was compared, and every difference in words."""

    compared: int = 0
    rows: int = 0
    differences: list[str] = field(default_factory=list)


class DoubleRun:
    """A stage's shapes, run in all four ways."""

    def __init__(self, stage: Stage, seed: int, shapes: tuple[Shape, ...] | None = None) -> None:
        self.stage = stage
        self.seed = seed
        self.shapes = stage.shapes if shapes is None else shapes
        self.data = stage.data(seed)
        self.outcome = Outcome()
        oracle = Oracle(stage, self.data)
        self.full = oracle.answers(self.shapes)
        oracle.empty(stage)
        self.bare = oracle.answers(self.shapes)

    def run(self) -> Outcome:
        self.views_made_before()
        self.views_made_after()
        self.views_under_a_shuffled_history()
        self.outcome.rows = sum(len(rows) for rows in self.full.values())
        return self.outcome

    # the four ways ------------------------------------------------------------------------------
    def views_made_before(self) -> None:
        """Views first, then each table in a few pieces, in order."""
        with self.database() as db:
            self.create_views(db)
            for table in self.stage.tables:
                rows = self.data[table.name]
                size = max(1, -(-rows.num_rows // 3))
                for start in range(0, rows.num_rows, size):
                    db.insert(table.name, rows.slice(start, size))
            self.run_all(db, self.stage.middle + self.stage.finish)
            self.compare(db, "as a view made before the load", self.full)

    def views_made_after(self) -> None:
        """One load, then each query ad hoc, then the views."""
        with self.database() as db:
            for table in self.stage.tables:
                db.insert(table.name, self.data[table.name])
            self.run_all(db, self.stage.middle + self.stage.finish)
            self.compare(db, "ad hoc", self.full, ad_hoc=True)
            self.create_views(db)
            self.compare(db, "as a view made after the load", self.full)

    def views_under_a_shuffled_history(self) -> None:
        """Rows in any order; some are deleted and come back, some are wrong for a while."""
        with self.database() as db:
            self.create_views(db)
            for step in history(self.stage, self.data, self.seed):
                step(db)
            self.run_all(db, self.stage.finish)
            self.compare(db, "as a view under a shuffled history", self.full)
            if not self.stage.finish:
                self.verify(db)
            if all(not t.grows for t in self.stage.tables):
                for table in self.stage.tables:
                    db.execute(f"DELETE FROM {table.name}")
                self.compare(db, "as a view undone to nothing", self.bare)

    # pieces -------------------------------------------------------------------------------------
    def database(self) -> streamsql.Database:
        db = streamsql.connect()
        self.run_all(db, self.stage.before)
        for table in self.stage.tables:
            db.execute(table.create())
        return db

    def run_all(self, db: streamsql.Database, statements: tuple[str, ...]) -> None:
        for statement in statements:
            db.execute(statement)

    def create_views(self, db: streamsql.Database) -> None:
        for shape in self.shapes:
            text = f"CREATE MATERIALIZED VIEW mv_{shape.name} AS {shape.sql} {shape.emit}"
            try:
                db.execute(text)
            except StreamSqlError as error:
                self.differ(f"{shape.name}: no view: {error}")

    def compare(
        self, db: streamsql.Database, way: str, wanted: dict[str, list[Row]], ad_hoc: bool = False
    ) -> None:
        for shape in self.shapes:
            sql = shape.sql if ad_hoc else f"SELECT * FROM mv_{shape.name}"
            self.outcome.compared += 1
            try:
                seen = rows_of(db.execute(sql).arrow())
            except StreamSqlError as error:
                self.differ(f"{shape.name} {way}: {error}")
                continue
            found = difference(seen, wanted[shape.name])
            if found:
                self.differ(f"{shape.name} {way}: {found}")

    def verify(self, db: streamsql.Database) -> None:
        for shape in self.shapes:
            try:
                found = db.execute(f"VERIFY MATERIALIZED VIEW mv_{shape.name}").fetchall()
            except StreamSqlError as error:
                self.differ(f"{shape.name} VERIFY: {error}")
                continue
            if found:
                self.differ(f"{shape.name} VERIFY: {found[:5]}")

    def differ(self, text: str) -> None:
        self.outcome.differences.append(f"{text} (stage {self.stage.name}, seed {self.seed})")


Step = Callable[[streamsql.Database], object]


def history(stage: Stage, data: dict[str, pa.Table], seed: int) -> Iterator[Step]:
    """Steps that lead to the same rows by detours: shuffled inserts, deletes, re-inserts, updates."""
    random = np.random.default_rng(seed + 1)
    changes = [list(_changes(t, data[t.name], random)) for t in stage.tables]
    between = list(stage.middle)
    while any(changes):
        left = [c for c in changes if c]
        yield left[int(random.integers(len(left)))].pop(0)
        if between and random.random() < 0.3:
            statement = between.pop(0)
            yield lambda db, statement=statement: db.execute(statement)  # type: ignore[misc]
    for statement in between:
        yield lambda db, statement=statement: db.execute(statement)  # type: ignore[misc]


def _changes(table: Table, rows: pa.Table, random: np.random.Generator) -> Iterator[Step]:
    order = random.permutation(rows.num_rows)
    pieces = np.array_split(order, 4)
    keys = rows.column(table.key).to_numpy()
    there = np.zeros(rows.num_rows, dtype=bool)
    for piece in pieces:
        yield _insert(table, rows, piece)
        there[piece] = True
        if table.grows:
            continue
        modulus = int(random.integers(2, 5))
        rest = int(random.integers(modulus))
        picked = there & (keys % modulus == rest)
        yield _run(f"DELETE FROM {table.name} WHERE {table.key} % {modulus} = {rest}")
        if table.bump is not None:
            yield _run(f"UPDATE {table.name} SET {table.bump} = {table.bump} + 1")
        # back they come, in another order
        back = random.permutation(np.flatnonzero(picked))
        if table.bump is not None:
            yield _run(f"UPDATE {table.name} SET {table.bump} = {table.bump} - 1")
        yield _insert(table, rows, back)


def _insert(table: Table, rows: pa.Table, positions: np.ndarray[Any, Any]) -> Step:
    return lambda db: db.insert(table.name, rows.take(pa.array(positions)))


def _run(statement: str) -> Step:
    return lambda db: db.execute(statement)
