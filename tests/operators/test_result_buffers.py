"""What an aggregate gives out is read by loops that take whole buffers: no values and a half."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import streamsql
from streamsql.functions.compute.columns import decimal_words, values
from streamsql.operators.columns import lane_column


@pytest.mark.parametrize("call", ["sum(a)", "sum(v)", "min(v)", "max(w)", "avg(a)", "count(*)"])
def test_a_numeric_expression_reads_an_aggregate_of_a_few_groups(call):
    with streamsql.connect() as db:
        db.execute("CREATE TABLE t (k INT, a NUMERIC(15,2), v INT, w BIGINT)")
        db.execute(f"CREATE MATERIALIZED VIEW whole AS SELECT {call} * 0.05 AS x FROM t")
        query = f"SELECT k, {call} * 0.05 AS x FROM t GROUP BY k"
        db.execute(f"CREATE MATERIALIZED VIEW grouped AS {query}")
        empty = [(Decimal(0),)] if call == "count(*)" else [(None,)]
        assert db.execute("SELECT * FROM whole").fetchall() == empty
        db.execute("INSERT INTO t VALUES (1, 1.5, 2, 3), (2, NULL, NULL, NULL), (3, 2, 5, 7)")
        wanted = sorted(db.execute(query).fetchall())
        assert sorted(db.execute("SELECT * FROM grouped").fetchall()) == wanted


@pytest.mark.parametrize(("type_", "width"), [(pa.int32(), 4), (pa.int64(), 8), (pa.date32(), 4)])
def test_a_lane_becomes_a_column_of_whole_values(type_, width):
    cells = np.array([[1, 7], [0, 0], [2, 9]], np.int64)
    found = lane_column(cells, 1, 0, type_)
    assert found.buffers()[1].size == 3 * width
    assert found.null_count == 1


def test_columns_with_room_behind_their_values_are_read():
    room = pa.py_buffer(np.arange(5, dtype=np.int32).tobytes() + b"\0")
    assert values(pa.Array.from_buffers(pa.int32(), 5, [None, room])[1:3]).tolist() == [1, 2]
    room = pa.py_buffer(np.arange(6, dtype=np.int64).tobytes() + b"\0")
    words = decimal_words(pa.Array.from_buffers(pa.decimal128(20, 0), 3, [None, room])[1:])
    assert words.tolist() == [[2, 3], [4, 5]]
