"""INSERT … VALUES of literals and parameters: rows without a plan, or the plan where they differ."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

import streamsql
from streamsql.core.errors import StreamSqlError
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, INTEGER, SMALLINT, TEXT
from streamsql.engine.dml.constants import ConstantRows
from streamsql.functions.expressions import Cast, Literal, Parameter
from streamsql.plan.nodes import Values


@pytest.fixture
def db() -> Iterator[Any]:
    with streamsql.connect(":memory:") as database:
        database.execute(
            "CREATE TABLE t (a SMALLINT, b INT, c VARCHAR(3), d NUMERIC(5,2), e DATE, f BOOLEAN,"
            " g BIGINT, h DOUBLE PRECISION)"
        )
        yield database


def test_values_of_every_type_arrive_as_they_were_given(db: Any) -> None:
    rows = [
        (1, 2, "abc", Decimal("1.25"), datetime.date(2024, 1, 1), True, 5, -0.0),
        (None,) * 8,
        (-(2**15), 2**31 - 1, "", Decimal("-999.99"), datetime.date(1969, 12, 31), False, -(2**63),
         float("inf")),
    ]  # fmt: skip
    for row in rows:
        db.execute("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", row)
    db.execute("INSERT INTO t (b, a) VALUES ($1, 7), (8, $2)", (5, 6))
    found = db.execute("SELECT * FROM t").fetchall()
    assert found[:3] == rows
    assert str(found[0][7]) == "-0.0"
    assert [row[:2] for row in found[3:]] == [(7, 5), (6, 8)]


@pytest.mark.parametrize(
    ("column", "value", "sqlstate"),
    [
        ("a", 2**15, "42804"), ("b", 2**31, "42804"), ("c", "abcd", "22001"),
        ("d", 1000, "22003"), ("g", 2**63, "42804"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(db: Any, column: str, value: Any, sqlstate: str) -> None:
    with pytest.raises(StreamSqlError) as caught:
        db.execute(f"INSERT INTO t ({column}) VALUES ($1)", (value,))
    assert caught.value.sqlstate == sqlstate
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_integers_of_another_size_are_taken_where_they_fit() -> None:
    schema = Schema.of(("a", INTEGER), ("b", SMALLINT))
    cells = (
        Cast(type=INTEGER, arg=Parameter(type=SMALLINT, index=1)),
        Cast(type=SMALLINT, arg=Parameter(type=BIGINT, index=2)),
    )
    rows = ConstantRows.of(Values(schema=schema, rows=(cells,)))
    assert rows is not None

    def given(a: int | None, b: int | None) -> list[Any] | None:
        arrays = rows.arrays([Literal(type=SMALLINT, value=a), Literal(type=BIGINT, value=b)])
        return None if arrays is None else [x.to_pylist() for x in arrays]

    assert given(5, 6) == [[5], [6]]
    assert given(None, 6) == [[None], [6]]
    assert given(5, 2**15) is None  # the plan says what is wrong
    assert rows.arrays([Literal(type=SMALLINT, value=1)]) is None
    assert rows.arrays([Literal(type=TEXT, value="1"), Literal(type=BIGINT, value=2)]) is None
