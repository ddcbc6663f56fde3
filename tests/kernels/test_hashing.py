"""Lanes are equal exactly when rows are one key."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsql.core import types as t
from streamsql.core.schema import Schema
from streamsql.kernels import hashing
from tests.kernels.values import ALL_TYPES, batch_of, column, row_key, rows_of


def lanes_of(batch: pa.RecordBatch, exact: bool) -> list[tuple[int, int]]:
    columns = range(batch.num_columns)
    h0, h1 = hashing.hash_rows(batch) if exact else hashing.hash_columns(batch, columns)
    return list(zip(h0.tolist(), h1.tolist(), strict=True))


def check(schema: Schema, rows: list[tuple[Any, ...]], padding: int, exact: bool) -> None:
    lanes = lanes_of(batch_of(schema, rows, padding), exact)
    keys = [row_key(row, exact) for row in rows]
    for i, j in product(range(len(rows)), repeat=2):
        assert (lanes[i] == lanes[j]) == (keys[i] == keys[j]), (rows[i], rows[j])


@given(rows_of(), st.integers(0, 9), st.booleans())
def test_lanes_are_equal_exactly_when_rows_are(
    drawn: tuple[Schema, list[tuple[Any, ...]]], padding: int, exact: bool
) -> None:
    check(*drawn, padding, exact)


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
@given(data=st.data())
def test_lanes_of_every_type_alone(type_: t.SqlType, data: st.DataObject) -> None:
    values = data.draw(column(type_, 8))
    schema = Schema.of(("c0", type_))
    check(schema, [(v,) for v in values], data.draw(st.integers(0, 9)), data.draw(st.booleans()))


@given(rows_of())
def test_lanes_do_not_depend_on_slices(drawn: tuple[Schema, list[tuple[Any, ...]]]) -> None:
    schema, rows = drawn
    assert lanes_of(batch_of(schema, rows, 0), False) == lanes_of(batch_of(schema, rows, 5), False)


def test_one_column_of_eight_bytes_is_exact() -> None:
    values = [0, 1, -1, 2**63 - 1, -(2**63), None]
    h0, h1 = hashing.hash_arrays([pa.array(values, pa.int64())])
    assert h1.view(np.int64).tolist() == [0, 1, -1, 2**63 - 1, -(2**63), 0]
    assert h0[0] != h0[5]


def test_integers_of_all_widths_hash_alike() -> None:
    lanes = [
        hashing.hash_arrays([pa.array([-3, 7], w)]) for w in (pa.int16(), pa.int32(), pa.int64())
    ]
    for h0, h1 in lanes[1:]:
        assert (h0 == lanes[0][0]).all()
        assert (h1 == lanes[0][1]).all()


def test_sql_equality_joins_signed_zeros_nans_and_intervals() -> None:
    nan_negative = math.copysign(math.nan, -1)
    floats = pa.array([0.0, -0.0, math.nan, nan_negative])
    h0, _ = hashing.hash_arrays([floats, floats])
    assert h0[0] == h0[1]
    assert h0[2] == h0[3]
    spans = pa.array(
        [
            pa.MonthDayNano([1, 0, 0]),
            pa.MonthDayNano([0, 30, 0]),
            pa.MonthDayNano([0, 29, 864 * 10**11]),
        ]
    )
    sql, _ = hashing.hash_arrays([spans])
    exact, _ = hashing.hash_arrays([spans], exact=True)
    assert len(set(sql.tolist())) == 1
    assert len(set(exact.tolist())) == 3


def test_hash_of_no_column_is_one_value() -> None:
    h0, h1 = hashing.hash_columns(batch_of(Schema.of(("a", t.BIGINT)), [(1,), (2,)]), [])
    assert h0[0] == h0[1]
    assert h1[0] == h1[1]


def test_moving_bytes_between_columns_changes_the_hash() -> None:
    left, right = pa.array(["ab", "a", ""]), pa.array(["c", "bc", "abc"])
    h0, _ = hashing.hash_arrays([left, right])
    assert len(set(h0.tolist())) == 3


def test_lanes_spread_over_high_and_low_bits() -> None:
    h0, h1 = hashing.hash_arrays([pa.array(range(4096)), pa.array([0] * 4096)])
    for lane in (h0, h1):
        for shift in (0, 32, 52):
            buckets = np.bincount((lane >> np.uint64(shift)).astype(np.int64) & 255, minlength=256)
            assert buckets.max() < 48  # 16 expected


def test_no_collision_among_a_million_strings() -> None:
    text = pa.array([str(i) for i in range(1_000_000)])
    h0, h1 = hashing.hash_arrays([text])
    assert np.unique(h0).size == 1_000_000
    assert np.unique(h1).size == 1_000_000


@given(rows_of())
def test_any_null_finds_rows_with_a_null(drawn: tuple[Schema, list[tuple[Any, ...]]]) -> None:
    schema, rows = drawn
    found = hashing.any_null(batch_of(schema, rows, 3), range(len(schema)))
    assert found.tolist() == [any(v is None for v in row) for row in rows]


def test_key_changes_every_hash_and_fingerprint() -> None:
    before_key = hashing._key
    before = hashing.key_fingerprint(), hashing.hash_arrays([pa.array(["a"])])[0][0]
    try:
        hashing.set_key(b"0123456789abcdef")
        after = hashing.key_fingerprint(), hashing.hash_arrays([pa.array(["a"])])[0][0]
    finally:
        hashing._key = before_key
    assert before[0] != after[0]
    assert before[1] != after[1]
    with pytest.raises(ValueError, match="16 bytes"):
        hashing.set_key(b"short")


def test_type_that_can_not_be_hashed_is_refused() -> None:
    with pytest.raises(TypeError, match="can not be hashed"):
        hashing.hash_arrays([pa.array([[1]], pa.large_list(pa.int32()))])
