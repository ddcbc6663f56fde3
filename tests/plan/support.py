"""A small catalog, random rows for it, and the way from SQL text to rows through DuckDB."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb

from streamsql.core.schema import Column, Schema
from streamsql.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    INTEGER,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    SqlType,
    array_of,
    numeric,
)
from streamsql.dialect import parse
from streamsql.functions.duckdb_sql import configure
from streamsql.plan.binder import BindContext, RelationInfo, bind_query
from streamsql.plan.nodes import BoundQuery, LogicalPlan, Scan
from streamsql.plan.sql import to_duckdb_sql


def relation(
    oid: int,
    name: str,
    *columns: tuple[str, SqlType],
    key: tuple[int, ...] | None = None,
    **more: Any,
) -> RelationInfo:
    """A table of the test catalog; key columns are NOT NULL."""
    schema = Schema(tuple(Column(n, t, i not in (key or ())) for i, (n, t) in enumerate(columns)))
    keys = () if key is None else (key,)
    return RelationInfo(oid, name, "public", schema, unique_keys=keys, **more)


RELATIONS = (
    relation(1, "t", ("a", INTEGER), ("b", TEXT), ("v", numeric(6, 2)), ("g", INTEGER)),
    relation(2, "u", ("a", INTEGER), ("c", BIGINT), ("b", TEXT)),
    relation(3, "k", ("id", INTEGER), ("name", TEXT), ("ref", INTEGER), key=(0,)),
    relation(4, "ev", ("ts", TIMESTAMP), ("g", INTEGER), ("x", INTEGER), append_only=True, watermark_column=0),
    relation(5, "z", ("tz", TIMESTAMPTZ), ("d", DATE), ("x", INTEGER)),
    relation(6, "l", ("a", INTEGER), ("xs", array_of(INTEGER)), ("ok", BOOLEAN)),
    relation(7, "Quoted", ("Col", INTEGER), ("col", INTEGER)),
)  # fmt: skip
BY_NAME = {r.name: r for r in RELATIONS}


def resolve(name: tuple[str, ...]) -> RelationInfo | None:
    """The catalog: relations by name, in the schema public only."""
    if len(name) == 2 and name[0] != "public":
        return None
    return BY_NAME.get(name[-1])


def context(**options: Any) -> BindContext:
    """A BindContext over the test catalog."""
    return BindContext(resolve=options.pop("resolve", resolve), **options)


def bind(sql: str, **options: Any) -> BoundQuery:
    """Parse and bind one query."""
    return bind_query(parse(sql)[0].query, context(**options))


def relation_sql(scan: Scan) -> str:
    """The DuckDB table of a Scan."""
    return f"r{scan.relation_id}"


class Tables:
    """The catalog's relations as DuckDB tables r1, r2, … filled with rows.

    Random contents are kept: those of seed 7 are the tables r1_7, r2_7, ….
    """

    def __init__(self) -> None:
        self.con = duckdb.connect()
        configure(self.con)
        self._seeds: set[tuple[int, int]] = set()
        self._create("")

    def _create(self, suffix: str) -> None:
        for r in RELATIONS:
            columns = ", ".join(f"c{i} {c.type.duckdb}" for i, c in enumerate(r.schema))
            self.con.execute(f"CREATE TABLE r{r.relation_id}{suffix} ({columns})")

    def fill(self, rows: dict[str, list[tuple[Any, ...]]], suffix: str = "") -> None:
        """Replace the contents of all tables; those not named become empty."""
        for r in RELATIONS:
            table = f"r{r.relation_id}{suffix}"
            self.con.execute(f"DELETE FROM {table}")
            found = rows.get(r.name)
            if found:
                row = "(" + ", ".join("?" for _ in r.schema) + ")"
                values = [v for one in found for v in one]
                self.con.execute(
                    f"INSERT INTO {table} VALUES {', '.join([row] * len(found))}", values
                )

    def rows(
        self, plan: LogicalPlan, timezone: str = "UTC", seed: int | None = None, size: int = 8
    ) -> list[tuple[Any, ...]]:
        """The plan's rows, in the order DuckDB gives them; checks names and types of the columns.

        seed, size: read the tables of `random_rows(seed, size)` instead of those filled last.
        """
        suffix = ""
        if seed is not None:
            suffix = f"_{seed}_{size}"
            if (seed, size) not in self._seeds:
                self._seeds.add((seed, size))
                self._create(suffix)
                self.fill(random_rows(seed, size), suffix)

        def relation(scan: Scan) -> str:
            return relation_sql(scan) + suffix

        result = self.con.sql(to_duckdb_sql(plan, relation, timezone=timezone))
        if not plan.schema:
            return [() for _ in result.fetchall()]
        assert result.columns == [f"c{i}" for i in range(len(plan.schema))]
        wanted = [duckdb_type(t.duckdb) for t in plan.schema.types]
        assert [str(t) for t in result.types] == wanted, (result.types, wanted)
        return result.fetchall()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self.rows(bind(sql).plan)


@cache
def duckdb_type(name: str) -> str:
    """A DuckDB type name as DuckDB itself spells it."""
    return str(duckdb.sql(f"SELECT CAST(NULL AS {name})").types[0])


@cache
def tables() -> Tables:
    """One set of tables for the test process."""
    return Tables()


def bag(rows: list[tuple[Any, ...]]) -> Counter[str]:
    """Rows as a bag; values by their text, because lists can't be hashed."""
    return Counter(repr(r) for r in rows)


# --- random rows --------------------------------------------------------------------------------
def random_rows(seed: int, size: int = 8) -> dict[str, list[tuple[Any, ...]]]:
    """Few distinct values, duplicates and NULLs in every table; k has its unique key."""
    rnd = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rnd.random() < 0.2 else value

    def small() -> Any:
        return maybe(rnd.randint(0, 4))

    def text() -> Any:
        return maybe(rnd.choice(["x", "y", "zz", ""]))

    def moment() -> Any:
        base = datetime.datetime(2024, 3, 30, 22, 0) + datetime.timedelta(
            minutes=rnd.choice([0, 1, 1, 2, 5, 30, 60, 119, 120, 181, 600, -700000])
        )
        return maybe(base)

    def many(make: Any) -> list[tuple[Any, ...]]:
        return [make() for _ in range(rnd.randint(0, size))]

    def aware() -> Any:
        found = moment()
        return None if found is None else found.replace(tzinfo=datetime.UTC)

    ids = rnd.sample(range(8), rnd.randint(0, 6))
    return {
        "t": many(lambda: (small(), text(), maybe(Decimal(rnd.randint(-3, 3)) / 2), small())),
        "u": many(lambda: (small(), maybe(rnd.randint(0, 30)), text())),
        "k": [(i, text(), small()) for i in ids],
        "ev": many(lambda: (moment(), small(), small())),
        "z": many(lambda: (aware(), maybe(datetime.date(2024, rnd.randint(1, 3), 1)), small())),
        "l": many(lambda: (small(), maybe([small() for _ in range(rnd.randint(0, 3))]), maybe(rnd.random() < 0.5))),
        "Quoted": many(lambda: (small(), small())),
    }  # fmt: skip
