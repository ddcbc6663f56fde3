"""Variance of integers and NUMERIC in a view: every digit as exact arithmetic has it."""

from __future__ import annotations

import random
from decimal import Context, Decimal

import numpy as np
import pytest

import streamsql
from streamsql.operators.accumulators.doubled import decimals, divide, root, two_sum

WIDE = Context(prec=80)


def exact(values: list[Decimal], name: str) -> Decimal:
    n = len(values)
    total, squares = sum(values), sum(WIDE.multiply(v, v) for v in values)
    top = WIDE.subtract(WIDE.multiply(n, squares), WIDE.multiply(total, total))
    found = WIDE.divide(top, Decimal(n * n if name.endswith("pop") else n * (n - 1)))
    found = found if name.startswith("var") else WIDE.sqrt(found)
    return found.quantize(Decimal(1).scaleb(-16), context=WIDE)


@pytest.mark.parametrize("options", ["", "APPEND ONLY"])
@pytest.mark.parametrize(("type_", "unit", "most"), [
    ("SMALLINT", 1, 9), ("INT", 1, 10**6), ("BIGINT", 1, 10**7), ("NUMERIC(9,3)", 1000, 10**6),
])  # fmt: skip
def test_all_digits_are_right_after_deletes(type_, unit, most, options):
    draw = random.Random(f"{type_}")
    names = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
    values = [Decimal(draw.randint(-most, most)) / unit for _ in range(60)]
    with streamsql.connect() as db:
        db.execute(f"CREATE TABLE t (id INT, v {type_}) {options}")
        calls = ", ".join(f"{n}(v) AS {n}" for n in names)
        db.execute(f"CREATE MATERIALIZED VIEW m AS SELECT {calls} FROM t")
        for start in (0, 20, 40):
            rows = ", ".join(f"({i}, {values[i]})" for i in range(start, start + 20))
            db.execute(f"INSERT INTO t VALUES {rows}")
        if not options:
            db.execute("DELETE FROM t WHERE id % 3 = 1")
            values = [v for i, v in enumerate(values) if i % 3 != 1]
        seen = db.execute("SELECT * FROM m").fetchall()[0]
        assert list(seen) == [exact(values, n) for n in names]
        assert db.execute("VERIFY MATERIALIZED VIEW m").fetchall() == []


def test_equal_values_have_no_variance():
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (v NUMERIC(9,3))")
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT var_pop(v) AS p, stddev(v) AS s FROM t")
        db.execute("INSERT INTO t VALUES (0.1)")
        assert db.execute("SELECT * FROM m").fetchall() == [(Decimal(0), None)]
        db.execute("INSERT INTO t VALUES (0.1), (0.1)")
        assert db.execute("SELECT * FROM m").fetchall() == [(Decimal(0), Decimal(0))]


@pytest.mark.parametrize("scale", [2, 15, 16, 20])
def test_pairs_have_the_digits_of_exact_division(scale):
    top = np.array([1.0, 2.0, 7.0, 1e15 + 1, 0.0, 123456789.0])
    by = np.array([3.0, 7.0, 9.0, 7.0, 5.0, 1e6])
    found = decimals(divide((top, np.zeros(6)), by), scale).to_pylist()
    unit = Decimal(1).scaleb(-scale)
    assert found == [
        WIDE.divide(Decimal(t), Decimal(b)).quantize(unit, context=WIDE)
        for t, b in zip(top, by, strict=True)
    ]
    roots = decimals(root(two_sum(top, np.zeros(6))), scale).to_pylist()
    assert roots == [WIDE.sqrt(Decimal(t)).quantize(unit, context=WIDE) for t in top]
