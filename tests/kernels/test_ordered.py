"""OrderedTree against a sorted dict, and the shape of the tree itself."""

from __future__ import annotations

import ctypes
import random
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsql.core.errors import NegativeWeight
from streamsql.kernels import ordered_nodes as nodes
from streamsql.kernels.ordered import (
    EQUAL,
    FIRST_ABOVE,
    FIRST_AT_LEAST,
    LAST_AT_MOST,
    LAST_BELOW,
    OrderedTree,
)

Key = tuple[int, ...]
ORDER, SIZE, KEYS = nodes.ORDER, nodes.SIZE, nodes.KEYS


def validate(tree: OrderedTree) -> None:
    """Keys in order, bounds and sums right, leaves chained, no node lost."""
    head = tree._head
    stride, words = nodes.node_bytes(tree.words), tree.words
    leaves: list[int] = []
    seen: set[int] = set()

    def node(n: int) -> tuple[Any, ...]:
        page = tree._pages_at[n >> nodes.PAGE_BITS] + (n & nodes.PAGE_MASK) * stride
        raw = np.frombuffer(ctypes.string_at(int(page), stride), np.uint8)
        counts = raw[nodes.COUNTS : nodes.CHILDREN].view(np.int64)
        children = raw[nodes.CHILDREN : SIZE].view(np.int32)
        return (
            *raw[SIZE:KEYS].view(np.int32),
            counts,
            children,
            raw[KEYS:].view(np.int64).reshape(-1, words),
        )

    def check(n: int, low: Key | None, high: Key | None, level: int | None) -> int:
        assert n not in seen
        seen.add(n)
        size, depth, _, _, counts, children, raw = node(n)
        keys = [tuple(k) for k in raw[:size].tolist()]
        assert level is None or depth == level
        assert keys == sorted(set(keys))
        if depth == 0:
            leaves.append(n)
            assert all((low is None or k >= low) and (high is None or k < high) for k in keys)
            assert (counts[:size] > 0).all()
            return int(counts[:size].sum())
        assert size > 0
        for i in range(size):
            below = keys[i] if i else low
            above = keys[i + 1] if i + 1 < size else high
            assert check(int(children[i]), below, above, depth - 1) == counts[i]
        return int(counts[:size].sum())

    assert check(int(head[nodes.ROOT // 8]), None, None, None) == tree.total
    for left, right in pairwise(leaves):
        assert node(left)[2] == right
        assert node(right)[3] == left
    assert node(leaves[0])[3] == node(leaves[-1])[2] == -1
    unused = 0
    assert head[nodes.USED // 8] <= head[nodes.CAPACITY // 8] == tree._pages_at.size
    for free, fresh in ((nodes.FREE, nodes.FRESH), (nodes.FREE_INNER, nodes.FRESH_INNER)):
        at = int(head[free // 8])
        while at >= 0:
            unused, at = unused + 1, int(node(at)[2])
        unused += -int(head[fresh // 8]) & nodes.PAGE_MASK  # what is left of its page
    assert unused + len(seen) == head[nodes.USED // 8] << nodes.PAGE_BITS


class Model:
    """Counts by key."""

    def __init__(self) -> None:
        self.counts: dict[Key, int] = {}

    def add(self, keys: list[Key], weights: list[int]) -> tuple[list[int], list[int]]:
        old, new = [], []
        for key, w in zip(keys, weights, strict=True):
            old.append(self.counts.get(key, 0))
            new.append(old[-1] + w)
            if new[-1]:
                self.counts[key] = new[-1]
            else:
                self.counts.pop(key, None)
        return old, new


def same(tree: OrderedTree, model: Model) -> None:
    keys, counts = tree.dump()
    assert [tuple(k) for k in keys.tolist()] == sorted(model.counts)
    assert counts.tolist() == [model.counts[k] for k in sorted(model.counts)]
    assert tree.entries == len(model.counts)
    validate(tree)


@pytest.mark.parametrize("spread", [3, 300, 100_000])
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_grow_and_shrink_to_nothing(spread: int, seed: int) -> None:
    rng = random.Random(seed)
    tree, model = OrderedTree(2), Model()
    for step in range(40):
        growing = step < 24
        keys: list[Key] = []
        weights: list[int] = []
        drawn = dict(model.counts)
        for _ in range(rng.randint(1, 700)):
            if drawn and rng.random() > (0.8 if growing else 0.15):
                key = rng.choice(list(drawn)[:50]) if rng.random() < 0.5 else next(reversed(drawn))
                keys.append(key)
                weights.append(-drawn.pop(key))
            else:
                key = (rng.randint(0, 5), rng.randint(-spread, spread))
                if key not in keys:
                    keys.append(key)
                    weights.append(rng.randint(1, 3))
        old, new = tree.add(np.array(keys), np.array(weights))
        assert (old.tolist(), new.tolist()) == model.add(keys, weights)
        same(tree, model)
    everything = list(model.counts)
    rng.shuffle(everything)
    tree.add(np.array(everything), np.array([-model.counts[k] for k in everything]))
    assert (tree.entries, tree.total) == (0, 0)
    validate(tree)


@pytest.mark.parametrize("order", ["up", "down", "inside out", "random"])
def test_every_order_of_insertion_and_deletion(order: str) -> None:
    n = 6000
    values = list(range(n))
    if order == "down":
        values.reverse()
    elif order == "inside out":
        values = [
            v
            for pair in zip(range(n // 2, n), range(n // 2 - 1, -1, -1), strict=True)
            for v in pair
        ]
    elif order == "random":
        random.Random(1).shuffle(values)
    tree = OrderedTree(1)
    keys = np.array(values).reshape(-1, 1)
    for i in range(0, n, 200):  # below the size from which batches are sorted
        tree.add(keys[i : i + 200], np.ones(200, np.int64))
    validate(tree)
    assert tree.dump()[0].ravel().tolist() == list(range(n))
    if order == "up":
        page = nodes.node_bytes(1) << nodes.PAGE_BITS  # of inner nodes
        assert tree.nbytes - page < 2 * n * 20  # keys that come in order fill their nodes
    for i in range(0, n, 200):
        tree.add(keys[i : i + 200], -np.ones(200, np.int64))
        if i % 1000 == 0:
            validate(tree)
    assert tree.entries == 0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 2)), max_size=40),
    st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 7), st.integers(-1, 3)), min_size=1),
    st.integers(1, 3),
    st.integers(0, 1),
)
def test_questions_by_whole_and_by_partial_keys(
    keys: list[Key], asked: list[Key], words: int, prefix: int
) -> None:
    tree, model = OrderedTree(3), Model()
    if keys:
        ones = np.ones(len(keys), np.int64)
        tree.add(np.array(keys), ones)
        model.add(keys, ones.tolist())
    check_questions(tree, model, asked, words, prefix)


def test_questions_to_a_tree_of_several_levels() -> None:
    rng = random.Random(7)
    tree, model = OrderedTree(3), Model()
    keys = [(rng.randint(0, 20), rng.randint(0, 30), rng.randint(0, 30)) for _ in range(12_000)]
    weights = [rng.randint(1, 3) for _ in keys]
    tree.add(np.array(keys), np.array(weights))
    model.add(keys, weights)
    asked = [(rng.randint(-1, 21), rng.randint(-1, 31), rng.randint(-1, 31)) for _ in range(300)]
    for words in (1, 2, 3):  # few questions go down the tree as they come, many in order
        check_questions(tree, model, asked[:150], words, words % 2)
        check_questions(tree, model, asked, words, words % 2)


def check_questions(
    tree: OrderedTree, model: Model, asked: list[Key], words: int, prefix: int
) -> None:
    ordered = sorted(model.counts)
    short = [k[:words] for k in ordered]
    sums = np.concatenate([[0], np.cumsum([model.counts[k] for k in ordered])]).astype(int)
    question = np.array(asked)[:, :words]
    for mode in (FIRST_AT_LEAST, FIRST_ABOVE, LAST_AT_MOST, LAST_BELOW, EQUAL):
        cursors = tree.seek(question, mode, prefix)
        found, counts = tree.read(cursors)
        for row, cursor, key, count in zip(
            question.tolist(), cursors.tolist(), found.tolist(), counts.tolist(), strict=True
        ):
            low, high = bisect_left(short, tuple(row)), bisect_right(short, tuple(row))
            place = {
                FIRST_AT_LEAST: low, FIRST_ABOVE: high, LAST_AT_MOST: high - 1, LAST_BELOW: low - 1,
                EQUAL: low if low < high else -1,
            }[mode]  # fmt: skip
            exists = 0 <= place < len(ordered)
            if exists and ordered[place][:prefix] != tuple(row[:prefix]):
                exists = False
            assert (cursor >= 0) == exists
            assert not exists or tuple(key) == ordered[place]
            assert count == (model.counts[ordered[place]] if exists else 0)
    rows = [tuple(r) for r in question.tolist()]
    assert tree.rank(question).tolist() == [sums[bisect_left(short, r)] for r in rows]
    assert tree.rank(question, above=True).tolist() == [sums[bisect_right(short, r)] for r in rows]
    inside = tree.rank(question) - tree.rank(question[:, :1])
    for most in (1, 3, 40, 2000):
        assert tree.rank_up_to(question, most).tolist() == np.minimum(inside, most).tolist()
    if words == tree.words:
        own, start = tree.rank_in_group(question)
        assert own.tolist() == tree.rank(question).tolist()
        assert start.tolist() == tree.rank(question[:, :1]).tolist()
    check_heads(tree, model, sorted({r[0] for r in rows}))
    both = [tree.rank(question).tolist(), tree.rank(question, above=True).tolist()]
    assert [side.tolist() for side in tree.bounds(question)] == both
    flat = [k for k in ordered for _ in range(model.counts[k])]
    wanted = np.arange(-2, len(flat) + 2)[:: max(1, len(flat) // 100)]
    selected, _ = tree.read(tree.select(wanted))
    for i, key in zip(wanted.tolist(), selected.tolist(), strict=True):
        if 0 <= i < len(flat):
            assert tuple(key) == flat[i]
    high_rows = [max(r, s) for r, s in zip(rows, rows[1:] + rows[:1], strict=True)]
    probe, cursor = tree.span(question, np.array(high_rows))
    spanned, _ = tree.read(cursor)
    expected = [
        (i, ordered[j])
        for i, (a, b) in enumerate(zip(rows, high_rows, strict=True))
        for j in range(bisect_left(short, a), bisect_right(short, b))
    ]
    assert list(zip(probe.tolist(), map(tuple, spanned.tolist()), strict=True)) == expected
    everything = tree.cursors()
    forth, _ = tree.read(tree.step(everything, True, prefix))
    for key, after, cursor_after in zip(
        ordered, ordered[1:], tree.step(everything, True, prefix), strict=False
    ):
        assert (cursor_after >= 0) == (key[:prefix] == after[:prefix])
    if ordered and not prefix:
        assert [tuple(k) for k in forth.tolist()][:-1] == ordered[1:]
        back, _ = tree.read(tree.step(everything, False))
        assert [tuple(k) for k in back.tolist()][1:] == ordered[:-1]


def check_heads(tree: OrderedTree, model: Model, groups: list[int]) -> None:
    """The first rows of groups by each way to rank them, each from another row on."""
    rows: dict[int, list[tuple[int, ...]]] = {g: [] for g in groups}
    for key in sorted(model.counts):
        if key[0] in rows:
            rows[key[0]] += [key] * model.counts[key]
    begin = np.array([i % 3 for i in range(len(groups))], np.int64)
    for peers in (0, *range(1, tree.words + 1), *range(-tree.words, 0)):
        for end in (0, 1, 3, 100):
            found = tree.heads(np.array(groups, np.int64), begin, end, peers)
            expected = [
                [e for e in ranked(rows[g], peers)[b:] if e[1] < end]
                for g, b in zip(groups, begin.tolist(), strict=True)
            ]
            flat = [e for part in expected for e in part]
            assert found.lengths.tolist() == [len(e) for e in expected]
            assert found.lasts.tolist() == [key[-1] for key, _ in flat]
            assert found.ranks.tolist() == [rank for _, rank in flat]
            keys, _ = tree.read(found.cursors)
            assert [tuple(k) for k in keys.tolist()] == [key for key, _ in flat]


def ranked(rows: list[tuple[int, ...]], peers: int) -> list[tuple[tuple[int, ...], int]]:
    """Rows in order with their ranks: ROW_NUMBER - 1, or RANK - 1 or DENSE_RANK - 1 by words."""
    if not peers:
        return [(key, i) for i, key in enumerate(rows)]
    cut = [key[: abs(peers)] for key in rows]
    places = cut if peers > 0 else sorted(set(cut))
    return [(key, places.index(short)) for key, short in zip(rows, cut, strict=True)]


def test_count_below_zero_is_refused() -> None:
    tree = OrderedTree(1)
    tree.add(np.array([[1]]), np.array([2]))
    with pytest.raises(NegativeWeight):
        tree.add(np.array([[1]]), np.array([-3]))
    assert tree.dump()[1].tolist() == [2]
    with pytest.raises(ValueError, match="words"):
        tree.add(np.array([[1, 2]]), np.array([1]))


def test_memory_is_used_again() -> None:
    tree = OrderedTree(2)
    rng = np.random.default_rng(3)
    sizes = []
    for _ in range(12):
        keys = rng.integers(0, 1 << 40, (5000, 2))
        ones = np.ones(5000, np.int64)
        tree.add(keys, ones)
        tree.add(keys, -ones)
        sizes.append(tree.nbytes)
    assert tree.entries == 0
    assert sizes[-1] == sizes[2]
    tree.clear()
    assert tree.nbytes < sizes[0]
