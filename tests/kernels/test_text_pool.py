"""TextPool: slots by text, and what is forgotten."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsql.kernels import text_pool
from streamsql.kernels.text_pool import TextPool

texts = st.lists(st.none() | st.text(max_size=12), max_size=12)


@given(st.lists(texts, max_size=6), st.integers(0, 3))
def test_equal_texts_share_a_slot_and_come_back(
    batches: list[list[str | None]], padding: int
) -> None:
    pool, known = TextPool(), dict[str, int]()
    for batch in batches:
        array = pa.array([None, *["pad"] * padding, *batch], pa.string()).slice(1 + padding)
        slots = pool.intern(array)
        for text, slot in zip(batch, slots.tolist(), strict=True):
            assert slot == (-1 if text is None else known.setdefault(text, slot))
        assert pool.texts(slots, pa.string()).to_pylist() == batch
    assert len(set(known.values())) == len(known) == pool.count


def test_texts_nobody_holds_are_forgotten_and_memory_stays_flat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_pool, "COMPACT_MIN", 1 << 10)
    pool = TextPool()
    kept = pool.intern(pa.array(["kept text"]))
    pool.hold(kept, np.array([1]))
    sizes = []
    for tick in range(40):
        array = pa.array([f"text number {tick * 1000 + i}" for i in range(1000)])
        slots = pool.intern(array)
        pool.hold(slots, np.ones(1000, np.int64))
        pool.hold(slots, -np.ones(1000, np.int64))
        pool.release(np.concatenate([slots, slots, kept]))
        sizes.append(pool.nbytes)
    assert pool.count == 1
    assert pool.texts(kept, pa.string()).to_pylist() == ["kept text"]
    assert max(sizes[10:]) <= max(sizes[:10])


def test_binary_texts_and_empty_ones() -> None:
    pool = TextPool()
    slots = pool.intern(pa.array([b"", b"\x00", b"\x00\x00", b""]))
    assert slots[0] == slots[3]
    assert pool.texts(slots[:3], pa.binary()).to_pylist() == [b"", b"\x00", b"\x00\x00"]
    assert pool.texts(np.empty(0, np.int64), pa.string()).to_pylist() == []
