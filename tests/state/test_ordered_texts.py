"""Texts in an ordered index while entries come and go: slots are used again, order stays."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from streamsql.state import ordered_index
from streamsql.state.ordered_index import OrderColumn, OrderedIndex

Row = tuple[int | None, str | None, int]


def key(row: Row) -> tuple[bool, int, bool, str, int]:
    number, text, tie = row
    return number is None, number or 0, text is None, text or "", tie


def rows_of(index: OrderedIndex) -> list[Row]:
    entries = index.read(index.positions(0, index.total))
    numbers, texts = (values.to_pylist() for values in entries.values)
    return list(zip(numbers, texts, entries.ties.tolist(), strict=True))


def add(index: OrderedIndex, rows: list[tuple[Row, int]]) -> None:
    values = [pa.array([r[0] for r, _ in rows], pa.int32()),
              pa.array([r[1] for r, _ in rows], pa.string())]  # fmt: skip
    ties = np.array([r[2] for r, _ in rows], np.int64)
    weights = np.array([w for _, w in rows], np.int64)
    index.add(np.zeros(ties.size, np.int64), values, weights, ties)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("retired", [0, 1024])
def test_random_history_of_texts_that_go_and_come_back(seed, retired, monkeypatch):
    monkeypatch.setattr(ordered_index, "RETIRED_MIN", retired)
    chance = random.Random(seed)
    index = OrderedIndex([OrderColumn(pa.int32()), OrderColumn(pa.string())], with_tie=True)
    shadow: dict[int, Row] = {}
    tie = 0
    for _ in range(150):
        words = chance.sample("abcdefghijkl", 4)  # other texts each time: slots are used again
        gone = chance.sample(sorted(shadow), min(len(shadow), chance.randrange(30)))
        changes = [(shadow.pop(t), -1) for t in gone]
        for _ in range(chance.randrange(30)):
            tie += 1
            text = chance.choice([None, *(w * chance.choice([1, 2, 9]) for w in words)])
            shadow[tie] = (chance.choice([None, 1, 2]), text, tie)
            changes.append((shadow[tie], 1))
        add(index, changes)
        want = sorted(shadow.values(), key=key)
        assert rows_of(index) == want
        number, text = chance.choice([None, 1, 2]), chance.choice(words)
        values = [pa.array([number], pa.int32()), pa.array([text], pa.string())]
        below = [r for r in want if key(r)[:4] < (number is None, number or 0, False, text)]
        assert index.prefix_rank(values) == len(below)
    add(index, [(row, -1) for row in shadow.values()])
    assert index.entries == 0
    assert index._pool.count == 0
