"""Multimap against a dictionary of lists: rows come and go, chains stay in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamsql.core.errors import ProgramLimitExceeded
from streamsql.kernels import multimap
from streamsql.kernels.hashing import Lanes, hash_arrays
from streamsql.kernels.multimap import NO_SKIP, Multimap


def lanes(keys: np.ndarray) -> Lanes:
    return hash_arrays([pa.array(keys, pa.int64())], len(keys))


class Model:
    """What a Multimap should say, row numbers used again as an arrangement does."""

    def __init__(self) -> None:
        self.map = Multimap()
        self.rows: dict[int, list[int]] = {}
        self.key: dict[int, int] = {}
        self.free = list(range(20_000))[::-1]

    def link(self, keys: np.ndarray) -> None:
        rows = [self.free.pop() for _ in keys]
        self.map.link(*lanes(keys), np.array(rows, np.int64))
        for key, row in zip(keys.tolist(), rows, strict=True):
            self.rows.setdefault(key, []).insert(0, row)
            self.key[row] = key

    def unlink(self, rows: np.ndarray) -> None:
        self.map.unlink(rows)
        for row in set(rows.tolist()) & set(self.key):
            self.rows[self.key.pop(row)].remove(row)
            self.free.append(row)

    def pairs(self, keys: np.ndarray, skip: np.ndarray = NO_SKIP) -> list[tuple[int, int]]:
        left_out = skip if skip.size else np.zeros(keys.size, np.bool_)
        return [
            (i, row)
            for i, key in enumerate(keys.tolist())
            if not left_out[i]
            for row in self.rows.get(key, [])
        ]


def as_pairs(probes: np.ndarray, rows: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(probes.tolist(), rows.tolist(), strict=True))


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "asked for ahead"])
@pytest.mark.parametrize("keys", [3, 200, 5_000])
def test_random_histories_are_as_in_a_dictionary(
    monkeypatch: pytest.MonkeyPatch, keys: int, cached: bool
) -> None:
    random = np.random.default_rng(keys)
    model = Model()
    if not cached:  # a row number beyond what stays in cache
        model.free.insert(0, 0)
        model.free.pop()
        model.free.append(multimap.CACHED + 7)
    for _ in range(60):
        count = min(int(random.integers(0, 400)), len(model.free))
        model.link(random.integers(0, keys, count))
        held = np.array(sorted(model.key), np.int64)
        gone = random.permutation(held)[: random.integers(0, held.size + 1)]
        model.unlink(np.concatenate([gone, gone[:2]]))  # twice: the second time in no chain
        asked = random.integers(0, keys + 10, 150)
        skip = random.random(150) < 0.2
        assert as_pairs(*model.map.probe(*lanes(asked))) == model.pairs(asked)
        assert as_pairs(*model.map.probe(*lanes(asked), skip)) == model.pairs(asked, skip)
        assert model.map.keys == sum(bool(rows) for rows in model.rows.values())
    model.unlink(np.array(sorted(model.key), np.int64))
    assert model.map.keys == 0
    assert model.map.probe(*lanes(np.arange(10)))[0].size == 0


def test_parts_hold_so_many_pairs_at_most_unless_one_probe_has_more() -> None:
    model = Model()
    model.link(np.repeat([1, 2, 3, 4], [5, 40, 1, 1]))
    asked = np.array([1, 9, 1, 2, 3, 4, 2])
    parts = list(model.map.probe_parts(*lanes(asked), NO_SKIP, 12))
    assert [pair for part in parts for pair in as_pairs(*part)] == model.pairs(asked)
    assert all(probes.size <= 12 or 40 <= probes.size < 80 for probes, _ in parts)
    assert len(parts) > 2
    assert list(Multimap().probe_parts(*lanes(asked), NO_SKIP, 12)) == []


def test_a_probe_finds_far_more_rows_than_it_has_keys() -> None:
    model = Model()
    model.link(np.zeros(3_000, np.int64))
    asked = np.zeros(50, np.int64)
    probes, rows = model.map.probe(*lanes(asked))
    assert np.array_equal(probes, np.repeat(np.arange(50), 3_000))
    assert np.array_equal(rows, np.tile(np.arange(3_000)[::-1], 50))


def test_every_tag_leads_back_to_its_key() -> None:
    """The word of a first row holds the tag of its key, all bits of it set too."""
    tags = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.uint64)
    h0, h1 = tags << np.uint64(32), np.arange(5, dtype=np.uint64)
    map_ = Multimap()
    map_.link(h0, h1, np.arange(5))
    map_.link(h0, h1, np.arange(5, 10))
    map_.unlink(np.arange(5, 10))
    assert as_pairs(*map_.probe(h0, h1)) == [(i, i) for i in range(5)]
    map_.unlink(np.arange(5))
    assert map_.keys == 0


def test_row_numbers_end_below_two_to_the_31() -> None:
    with pytest.raises(ProgramLimitExceeded):
        Multimap().link(*lanes(np.zeros(1, np.int64)), np.array([2**31 - 1]))
