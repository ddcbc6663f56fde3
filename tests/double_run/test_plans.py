"""Which TPC-H and Nexmark queries are recomputed anywhere in their plan, and why that is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import streamsql
from streamsql.dialect import parse
from streamsql.dialect.statements import CreateView

from .stages import tpch

NEXMARK = Path(__file__).resolve().parents[2] / "sql-examples" / "nexmark"
ACCEPTED: dict[str, str] = {}
"""Query -> the reason an expert accepts. Empty: every operator of every query is incremental."""


@pytest.fixture(scope="module")
def db() -> Iterator[streamsql.Database]:
    with streamsql.connect() as made:
        for table in tpch.TABLES:
            made.execute(table.create())
        yield made


def recomputed(db: streamsql.Database, create: str) -> list[str]:
    """The lines of EXPLAIN that say so, each with its reason."""
    lines = [row[0] for row in db.execute(f"EXPLAIN {create}").fetchall()]
    assert lines[0].startswith("Maintenance: ")
    found = []
    for line, following in zip(lines[1:], [*lines[2:], ""], strict=True):
        if "(recompute" in line:
            found.append(f"{line.strip()} — {following.strip()}")
    assert bool(found) == (lines[0] != "Maintenance: incremental")
    return found


@pytest.mark.parametrize("name", tpch.QUERIES)
def test_tpch_is_incremental(name: str, db: streamsql.Database) -> None:
    found = recomputed(db, f"CREATE MATERIALIZED VIEW m AS {tpch.QUERIES[name]}")
    assert bool(found) == (f"tpch {name}" in ACCEPTED), found


def test_nexmark_is_incremental() -> None:
    seen = set()
    with streamsql.connect() as nexmark:
        for path in sorted(NEXMARK.glob("*.sql"), key=lambda p: (p.name[0] == "q", p.name)):
            for statement in parse(path.read_text(encoding="utf-8")):
                if not isinstance(statement, CreateView):
                    nexmark.execute(statement.sql)
                    continue
                found = recomputed(nexmark, statement.sql)
                assert bool(found) == (f"nexmark {path.stem}" in ACCEPTED), (path.stem, found)
                seen.add(path.stem)
    assert len(seen) == 20


def test_every_accepted_reason_belongs_to_a_query() -> None:
    names = {f"tpch {n}" for n in tpch.QUERIES} | {f"nexmark {p.stem}" for p in NEXMARK.glob("q*")}
    assert set(ACCEPTED) <= names
    assert all(len(reason) > 20 for reason in ACCEPTED.values())
