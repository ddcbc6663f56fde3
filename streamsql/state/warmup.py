"""The exercises that compile the kernels of state; see `kernels.warmup`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamsql.core import types as t
from streamsql.core.delta import Delta
from streamsql.core.schema import Schema
from streamsql.kernels.order_keys import can_order
from streamsql.kernels.warmup import Exercise, sample_arrays
from streamsql.state.arrangement import Arrangement
from streamsql.state.column_store import ColumnStore
from streamsql.state.consolidate import consolidate
from streamsql.state.ordered_index import FIRST_AT_LEAST, OrderColumn, OrderedIndex


def _column_store() -> None:
    for nulls in (False, True):
        arrays = sample_arrays(nulls)
        batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
        store = ColumnStore(batch.schema)
        for _ in range(30):
            store.append(batch)
        store.take(np.array([0, 1]))
        store.take(np.array([-1, 1]), negative=True)


def _arrangement() -> None:
    schema = Schema.of(("a", t.BIGINT), ("b", t.TEXT))
    arrays = [pa.array([1, 1, 2]), pa.array(["x", "x", "y"])]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    z = Arrangement(schema)
    key = z.add_key([0])
    z.apply(Delta(batch))
    z.probe(key, batch, [0])
    z.apply(Delta(batch, np.array([-1, 1, 1])))
    z.apply(Delta(pa.concat_batches([batch] * 40), np.arange(120)))
    z.apply(Delta(batch.slice(2), np.array([-1])))
    z.find(batch)
    z._evacuate(0, 4)
    z.probe(key, batch, [0])
    z.snapshot()
    z.compact()
    consolidate(Delta(batch, np.array([1, -1, 1])))


def _ordered_index() -> None:
    arrays = [array for array in sample_arrays(True) if can_order(array.type)]
    index = OrderedIndex([OrderColumn(array.type) for array in arrays], with_tie=True)
    groups = np.zeros(3, np.int64)
    index.add(groups, arrays, np.ones(3, np.int64), np.arange(3))
    cursors = index.first(groups)
    index.next(cursors)
    index.read(index.nth(groups, groups))
    index.find(groups, arrays, FIRST_AT_LEAST)
    index.rank(groups, arrays)
    index.rank_up_to(groups, arrays, 3)
    index.save()
    index.span(groups, arrays, arrays)
    index._pool._compact()
    index.add(groups, arrays, -np.ones(3, np.int64), np.arange(3))
    numbers = OrderedIndex([OrderColumn(pa.int64(), not_null=True)])
    numbers.add(groups, [pa.array([1, 2, 2])], np.ones(3, np.int64))
    numbers.end_words(groups, last=True)
    numbers.rank(groups, [pa.array([1, 2, 2])])
    numbers.heads(groups[:1], groups[:1], 2)


EXERCISES: tuple[Exercise, ...] = (
    ("column store", _column_store),
    ("arrangement", _arrangement),
    ("ordered index", _ordered_index),
)
