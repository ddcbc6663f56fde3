"""Decimal kernels against Python's integers: exact, rounded half away from zero, overflow told."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamsql.core.types import BIGINT, DOUBLE, NUMERIC, REAL, SMALLINT, SqlType, numeric
from streamsql.functions.compute import decimals
from streamsql.functions.compute.columns import column, decimal_words
from streamsql.functions.definitions import KernelCall

LIMIT = 10**38
RNG = random.Random(11)


def _numbers(n: int) -> list[int]:
    sizes = [0, 1, 3, 9, 10, 18, 19, 20, 25, 37, 38]
    return [RNG.choice([-1, 1]) * RNG.randrange(10 ** RNG.choice(sizes)) for _ in range(n)]


def _column(values: Sequence[int], scale: int) -> pa.Array:
    raw = b"".join(v.to_bytes(16, "little", signed=True) for v in values)
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(values), [None, pa.py_buffer(raw)])


def _unscaled(array: pa.Array) -> list[int]:
    return [int.from_bytes(w.tobytes(), "little", signed=True) for w in decimal_words(array)]


def _divided(a: int, b: int) -> int:
    q, r = divmod(abs(a), abs(b))
    q += 2 * r >= abs(b)
    return q if (a < 0) == (b < 0) else -q


def _failed(call: KernelCall) -> dict[int, str]:
    found: dict[int, str] = {}
    for failure in call.failures:
        for row in np.flatnonzero(failure.rows):
            found[int(row)] = failure.error.sqlstate
    return found


def check(kernel: Any, t: SqlType, args: list[pa.Array], expected: list[int | str]) -> None:
    """expected: unscaled results, or the SQLSTATE of the row."""
    call = KernelCall(len(expected), t, tuple(numeric(38, a.type.scale) for a in args))
    found = kernel(call, *args)
    failed = _failed(call)
    values = _unscaled(found)
    for i, e in enumerate(expected):
        if isinstance(e, str):
            assert failed.get(i) == e, i
            assert not found[i].is_valid
        else:
            assert i not in failed and values[i] == e, (i, [a[i] for a in args])


def _fit(v: int) -> int | str:
    return v if abs(v) < LIMIT else "22003"


A, B = _numbers(3000), _numbers(3000)


@pytest.mark.parametrize(("sa", "sb", "scale"), [(0, 0, 0), (10, 10, 10), (3, 0, 3), (20, 16, 20)])
def test_product_is_exact_or_rounded_or_refused(sa: int, sb: int, scale: int) -> None:
    drop = 10 ** (sa + sb - scale)
    expected = [_fit(_divided(a * b, drop)) for a, b in zip(A, B, strict=True)]
    check(decimals.multiply, numeric(38, scale), [_column(A, sa), _column(B, sb)], expected)


@pytest.mark.parametrize(
    ("sa", "sb", "scale"), [(0, 0, 16), (10, 0, 16), (0, 10, 20), (16, 38, 38)]
)
def test_quotient_is_rounded_half_away(sa: int, sb: int, scale: int) -> None:
    up = 10 ** (scale - sa + sb)
    expected = ["22012" if b == 0 else _fit(_divided(a * up, b)) for a, b in zip(A, B, strict=True)]
    check(decimals.divide, numeric(38, scale), [_column(A, sa), _column(B, sb)], expected)


def test_small_divisors_take_the_same_value_by_the_short_way() -> None:
    small = [RNG.choice([-1, 1]) * RNG.randrange(1, 2**32) for _ in A]
    short = [a % 10**18 for a in A]
    expected = [_divided(a * 10**16, b) for a, b in zip(short, small, strict=True)]
    check(decimals.divide, numeric(38, 16), [_column(short, 0), _column(small, 0)], expected)


@pytest.mark.parametrize(("sa", "sb"), [(0, 0), (2, 10), (10, 0)])
def test_sum_difference_remainder_and_order(sa: int, sb: int) -> None:
    top = max(sa, sb)
    x = [a % 10**25 * (1 if a > 0 else -1) for a in A]
    y = [b % 10**25 * (1 if b > 0 else -1) for b in B]
    left, right = [v * 10 ** (top - sa) for v in x], [v * 10 ** (top - sb) for v in y]
    columns = [_column(x, sa), _column(y, sb)]
    pairs = list(zip(left, right, strict=True))
    check(decimals.add, numeric(38, top), columns, [_fit(a + b) for a, b in pairs])
    check(decimals.subtract, numeric(38, top), columns, [_fit(a - b) for a, b in pairs])
    sign = [1 if a >= 0 else -1 for a, _ in pairs]
    rest: list[int | str] = [
        "22012" if b == 0 else s * (abs(a) % abs(b)) for s, (a, b) in zip(sign, pairs, strict=True)
    ]
    check(decimals.modulo, numeric(38, top), columns, rest)
    order = decimals.compare(*columns, len(x))
    assert order.tolist() == [(a > b) - (a < b) for a, b in pairs]


def test_order_is_exact_where_a_common_scale_would_overflow() -> None:
    huge, tiny = _column([LIMIT - 1, -(LIMIT - 1)], 0), _column([1, 1], 38)
    assert decimals.compare(huge, tiny, 2).tolist() == [1, -1]


@pytest.mark.parametrize("places", [-3, 0, 1, 5, 10])
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_rounding_modes(places: int, mode: int) -> None:
    values = [v % 10**30 * (1 if v > 0 else -1) for v in A]
    scale, result = 10, max(places, 0)
    unit = 10 ** (scale - places)
    expected: list[int | str] = []
    for v in values:
        cut = [_divided(v, unit), int(v / abs(v or 1)) * (abs(v) // unit), v // unit, -(-v // unit)]
        expected.append(_fit(cut[mode] * 10 ** (result - places)))
    check(
        lambda call, a: decimals.round_at(call, a, places, mode),
        numeric(38, result), [_column(values, scale)], expected,
    )  # fmt: skip


def test_integers_and_floats_convert_exactly() -> None:
    call = KernelCall(3, SMALLINT, (numeric(38, 1),))
    found = decimals.to_integers(call, _column([25, -25, 327675], 1))
    assert found.to_pylist() == [3, -3, None] and _failed(call) == {2: "22003"}
    wide = decimals.to_integers(
        KernelCall(2, BIGINT, (NUMERIC,)), _column([2**63 - 1, -(2**63)], 0)
    )
    assert wide.to_pylist() == [2**63 - 1, -(2**63)]
    exact = [Decimal("0.1"), Decimal("123456789012345678.25"), Decimal("-1E-10")]
    floats = decimals.to_floats(pa.array(exact, pa.decimal128(38, 10)), pa.float64())
    assert floats.to_pylist() == [float(d) for d in exact]


def test_floats_become_numeric_with_fifteen_digits() -> None:
    call = KernelCall(3, NUMERIC, (DOUBLE,))
    found = decimals.from_floats(call, pa.array([0.1, 1e30, float("nan")]))
    assert found.to_pylist() == [Decimal("0.1").quantize(Decimal("1e-10")), None, None]
    assert _failed(call) == {1: "22003", 2: "22003"}
    single = decimals.from_floats(KernelCall(1, NUMERIC, (REAL,)), pa.array([0.1], pa.float32()))
    assert single[0].as_py() == Decimal("0.1").quantize(Decimal("1e-10"))


def test_garbage_under_null_does_not_fail_rows() -> None:
    valid = pa.py_buffer(np.packbits([1, 0], bitorder="little"))
    words = np.array([[1, 0], [2**64 - 1, 2**63 - 1]], np.uint64)
    a = column(words, pa.decimal128(38, 0), valid)
    from streamsql.core.schema import Schema
    from streamsql.functions.evaluator import Evaluator
    from streamsql.functions.expressions import column as ref
    from streamsql.functions.resolve import resolve_call

    t = numeric(38, 0)
    product = resolve_call("*", [ref(0, t), ref(0, t)])
    schema = Schema.of(("a", t))
    batch = pa.RecordBatch.from_arrays([a], schema=schema.arrow)
    assert Evaluator([product], schema).run(batch, 0)[0].to_pylist() == [Decimal(1), None]
