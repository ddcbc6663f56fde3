"""HashIndex against a dict."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsql.core.errors import DataCorrupted
from streamsql.kernels import hashing
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import Lanes

Keys = list[int | None]
steps = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "remove", "find"]), st.lists(st.none() | st.integers(0, 40))
    ),
    max_size=12,
)


def lanes(keys: Keys) -> Lanes:
    return hashing.hash_arrays([pa.array(keys, pa.int64())])


def crowded(keys: Keys) -> Lanes:
    """Lanes whose entries all start at one of four places: long searches, wrapping round the end."""
    h0, h1 = lanes(keys)
    return (h0 >> np.uint64(62) << np.uint64(32)) | (np.uint64(13) << np.uint64(32)), h1


@pytest.mark.parametrize("lanes_of", [lanes, crowded])
@pytest.mark.parametrize("reuse", [False, True])
@given(history=steps)
def test_index_answers_as_a_dict_does(lanes_of, reuse: bool, history) -> None:  # type: ignore[no-untyped-def]
    index, model = HashIndex(reuse), dict[int | None, int]()
    if lanes_of is crowded:  # NULL has the second lane of 0 and would meet it without its tag
        history = [(step, [k for k in keys if k is not None]) for step, keys in history]
    for step, keys in history:
        if step == "upsert":
            before, slots_before = len(model), index.num_slots
            slots, new_rows = index.upsert_rows(*lanes_of(keys))
            for i, key in enumerate(keys):
                if key in model:
                    assert slots[i] == model[key]
                else:
                    assert i in new_rows
                    assert slots[i] not in model.values()
                    model[key] = int(slots[i])
            assert new_rows.size == len(model) - before
            assert (np.diff(new_rows) > 0).all()
            if not reuse:
                fresh = slots[new_rows].tolist()
                assert fresh == list(range(slots_before, slots_before + new_rows.size))
        elif step == "remove":
            gone = sorted({key for key in keys if key in model}, key=str)
            slots = np.array([model.pop(key) for key in gone], np.int64)
            assert index.remove(slots) == len(gone)
        else:
            assert index.find(*lanes_of(keys)).tolist() == [model.get(k, -1) for k in keys]
        assert index.count == len(model)
        everything = list(model)
        assert index.find(*lanes_of(everything)).tolist() == list(model.values())
        assert index.live_slots().tolist() == sorted(model.values())


def test_upsert_numbers_new_keys_on_from_the_old_count() -> None:
    index = HashIndex()
    assert index.upsert(*lanes([5, 7, 5]))[0].tolist() == [0, 1, 0]
    slots, first_new = index.upsert(*lanes([7, 9, None]))
    assert (slots.tolist(), first_new) == ([1, 2, 3], 2)


def test_index_grows_through_many_keys() -> None:
    index = HashIndex()
    keys = list(range(0, 300_000, 3))
    for start in range(0, len(keys), 7001):
        index.upsert(*lanes(keys[start : start + 7001]))
    found = index.find(*lanes(list(range(300_000))))
    assert found[::3].tolist() == list(range(100_000))
    assert (found[1::3] == -1).all()


def test_reused_slots_keep_arrays_short() -> None:
    index = HashIndex(reuse=True)
    for tick in range(50):
        slots, _ = index.upsert(*lanes(list(range(tick * 100, tick * 100 + 100))))
        index.remove(slots)
    assert index.num_slots == 100
    assert index.count == 0
    assert index.nbytes < 16_000


def test_removing_a_slot_twice_is_corruption_when_slots_are_reused() -> None:
    index = HashIndex(reuse=True)
    slots, _ = index.upsert(*lanes([1]))
    index.remove(slots)
    with pytest.raises(DataCorrupted):
        index.remove(slots)
    assert HashIndex().remove(np.array([], np.int64)) == 0


@given(st.lists(st.integers()), st.lists(st.integers()), st.booleans())
def test_saved_index_goes_on_where_it_was(first: Keys, then: Keys, reuse: bool) -> None:
    first, then = ([k % 2**60 for k in ks if k is not None] for ks in (first, then))
    index = HashIndex(reuse)
    slots, _ = index.upsert(*lanes(first))
    index.remove(np.unique(slots[::3]))
    again = HashIndex.load(index.save())
    assert again.count == index.count
    assert again.find(*lanes(first)).tolist() == index.find(*lanes(first)).tolist()
    ours, _ = index.upsert(*lanes(then))
    theirs, _ = again.upsert(*lanes(then))
    assert ours.tolist() == theirs.tolist()


def test_index_saved_under_another_key_is_refused() -> None:
    state = dict(HashIndex().save())
    head = state["head"].to_pydict()
    state["head"] = pa.table({**head, "hash_key": [1]})
    with pytest.raises(DataCorrupted, match="hash key"):
        HashIndex.load(state)


def test_growing_is_never_a_long_pause() -> None:
    """The work of growing is spread: no call of a steady stream costs many times the others."""
    index = HashIndex()
    spent = []
    for start in range(0, 600_000, 2000):
        batch = lanes(list(range(start, start + 2000)))
        before = index._table._segments
        index.upsert(*batch)
        spent.append(index._table._segments - before)
    assert index.count == 600_000
    assert max(spent) <= index._table._segments // 4 + 1
    assert index.nbytes < 600_000 * 60


@pytest.mark.parametrize("expected", [0, 5, 3000, 100_000])
def test_expected_keys_find_room(expected: int) -> None:
    index = HashIndex(expected=expected)
    keys = list(range(max(expected, 1)))
    size = index._table.nbytes
    index.upsert(*lanes(keys))
    assert index.find(*lanes(keys)).tolist() == keys
    assert index._table.nbytes <= 1.5 * size


def test_clear_and_reserve() -> None:
    index = HashIndex()
    index.reserve(100_000)
    size = index.nbytes
    index.upsert(*lanes(list(range(1000))))
    assert index._table.nbytes + 8192 >= size >= index._table.nbytes
    index.clear()
    assert len(index) == 0
    assert index.find(*lanes([3])).tolist() == [-1]
