"""OrderedIndex against sorted lists, for every type that has an order."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsql.core import types as t
from streamsql.core.errors import NegativeWeight
from streamsql.kernels.order_keys import can_order
from streamsql.state.ordered_index import (
    EQUAL,
    FIRST_ABOVE,
    FIRST_AT_LEAST,
    LAST_AT_MOST,
    LAST_BELOW,
    Edge,
    OrderColumn,
    OrderedIndex,
)
from tests.kernels.values import ALL_TYPES, STRATEGIES, key_of

SCALARS = [type_ for type_ in ALL_TYPES if can_order(type_.arrow)]


class Reverse:
    """A sort key turned round."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Reverse) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reverse) and self.key == other.key


def plain(value: Any) -> Any:
    """A Python value that sorts as PostgreSQL does."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, pa.MonthDayNano):
        return key_of(value, False)
    return value


def sort_key(values: tuple[Any, ...], columns: list[OrderColumn]) -> Any:
    out = []
    for value, column in zip(values, columns, strict=True):
        null = 0 if value is not None else (-1 if column.nulls_first else 1)
        key = plain(value) if value is not None else 0
        out.append((null, Reverse(key) if column.descending else key))
    return out


@st.composite
def ordered_rows(draw: st.DrawFn) -> tuple[list[OrderColumn], list[tuple[int, tuple[Any, ...]]]]:
    """Columns, and rows of (group, values)."""
    types = draw(st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3))
    columns = [
        OrderColumn(type_.arrow, draw(st.booleans()), draw(st.booleans())) for type_ in types
    ]
    pools = [
        draw(st.lists(st.none() | STRATEGIES[type_], min_size=4, max_size=4)) for type_ in types
    ]
    row = st.tuples(st.integers(0, 2), st.tuples(*[st.sampled_from(pool) for pool in pools]))
    return columns, draw(st.lists(row, min_size=1, max_size=25))


def arrays(
    rows: list[tuple[int, tuple[Any, ...]]], columns: list[OrderColumn]
) -> tuple[Any, list[pa.Array]]:
    groups = np.array([g for g, _ in rows], np.int64)
    return groups, [pa.array([v[i] for _, v in rows], c.type) for i, c in enumerate(columns)]


def read(index: OrderedIndex, cursors: Any) -> list[tuple[int, tuple[Any, ...], int]]:
    got = index.read(cursors)
    values = list(zip(*[a.to_pylist() for a in got.values], strict=True))
    return list(zip(got.groups.tolist(), values, got.ties.tolist(), strict=True))


@given(ordered_rows())
def test_entries_come_in_order_and_answer_questions(
    drawn: tuple[list[OrderColumn], list[tuple[int, tuple[Any, ...]]]],
) -> None:
    columns, rows = drawn
    index = OrderedIndex(columns, with_tie=True)
    groups, values = arrays(rows, columns)
    ties = np.arange(len(rows))
    index.add(groups, values, np.ones(len(rows), np.int64), ties)
    ordered = sorted(range(len(rows)), key=lambda i: (rows[i][0], sort_key(rows[i][1], columns), i))
    every = np.arange(3)
    probe, cursors = index.group(every)
    got = read(index, cursors)
    assert [tie for _, _, tie in got] == ordered
    assert probe.tolist() == [rows[i][0] for i in ordered]
    for (_, value, tie), i in zip(got, ordered, strict=True):
        assert [key_of(plain(v), False) for v in value] == [
            key_of(plain(v), False) for v in rows[i][1]
        ]
        assert tie == i
    check_answers(index, columns, rows, ordered)
    again = OrderedIndex(columns, with_tie=True)
    again.load(index.save())
    assert [tie for _, _, tie in read(again, again.group(every)[1])] == ordered
    index.remove_groups(np.array([1]))
    assert index.entries == sum(g != 1 for g, _ in rows)
    index.add(groups[groups != 1], [v.filter(pa.array(groups != 1)) for v in values],
              -np.ones(index.entries, np.int64), ties[groups != 1])  # fmt: skip
    assert (index.entries, index.total, index._pool.count) == (0, 0, 0)


def check_answers(
    index: OrderedIndex, columns: list[OrderColumn], rows: list[Any], ordered: list[int]
) -> None:
    groups, values = arrays(rows, columns)
    every = np.arange(4)
    of_group = [[i for i in ordered if rows[i][0] == g] for g in range(4)]
    assert index.size(every).tolist() == [len(m) for m in of_group]
    for cursors, pick in ((index.first(every), 0), (index.last(every), -1)):
        for (_, _, tie), cursor, members in zip(
            read(index, cursors), cursors, of_group, strict=True
        ):
            assert (cursor >= 0) == bool(members)
            assert not members or tie == members[pick]
    for n in (0, 1, 3, -1, -2):
        for (_, _, tie), cursor, members in zip(
            read(index, index.nth(every, np.full(4, n))),
            index.nth(every, np.full(4, n)),
            of_group,
            strict=True,
        ):
            exists = -len(members) <= n < len(members)
            assert (cursor >= 0) == exists
            assert not exists or tie == members[n]
    keys = {i: sort_key(rows[i][1], columns) for i in ordered}
    below = [sum(keys[j] < keys[i] for j in of_group[rows[i][0]]) for i in range(len(rows))]
    up_to = [sum(not keys[i] < keys[j] for j in of_group[rows[i][0]]) for i in range(len(rows))]
    assert index.rank(groups, values).tolist() == below
    assert index.rank(groups, values, peers=True).tolist() == up_to
    for mode, place in (
        (FIRST_AT_LEAST, below), (FIRST_ABOVE, up_to), (LAST_AT_MOST, [u - 1 for u in up_to]),
        (LAST_BELOW, [b - 1 for b in below]), (EQUAL, below),
    ):  # fmt: skip
        cursors = index.find(groups, values, mode)
        for (g, _), (_, _, tie), cursor, at in zip(
            rows, read(index, cursors), cursors, place, strict=True
        ):
            exists = 0 <= at < len(of_group[g])
            assert (cursor >= 0) == exists
            assert not exists or tie == of_group[g][at]
    found = index.find(groups, values, EQUAL, np.arange(len(rows)))
    for i, cursor in enumerate(index.next(found)):
        members = of_group[rows[i][0]]
        at = members.index(i)
        assert (cursor >= 0) == (at + 1 < len(members))
    for i, (_, _, tie) in enumerate(read(index, index.previous(found))):
        members = of_group[rows[i][0]]
        at = members.index(i)
        assert at == 0 or tie == members[at - 1]
    probe, cursors = index.span(groups, values, values)
    peers = [(i, j) for i in range(len(rows)) for j in of_group[rows[i][0]] if keys[i] == keys[j]]
    assert (
        list(zip(probe.tolist(), [tie for *_, tie in read(index, cursors)], strict=True)) == peers
    )
    check_between(index, groups, values, keys, of_group)


def check_between(
    index: OrderedIndex,
    groups: Any,
    values: list[pa.Array],
    keys: dict[int, Any],
    of_group: dict[int, list[int]],
) -> None:
    """Stretches of groups from and to the rows' own values, a few entries at a time."""
    edges = [None, Edge(values, False), Edge(values, True)]
    for low, high in itertools.product(edges, edges):
        found = list(index.between(groups, low, high, 3))
        assert all(0 < i.size <= 3 for i, _ in found)
        pairs = [pair for i, ties in found for pair in zip(i.tolist(), ties.tolist(), strict=True)]
        expected = []
        for i, g in enumerate(groups.tolist()):
            for tie in of_group[g]:
                below, above = keys[tie] < keys[i], keys[i] < keys[tie]
                ahead = low is None or above or (not low.open and not below)
                behind = high is None or below or (not high.open and not above)
                if ahead and behind:
                    expected.append((i, tie))
        assert sorted(pairs) == sorted(expected)


@pytest.mark.parametrize("type_", SCALARS, ids=str)
def test_minimum_and_maximum_under_deletes(type_: t.SqlType) -> None:
    """Multiset without ties: what MIN and MAX need."""

    @given(st.lists(STRATEGIES[type_], min_size=1, max_size=8), st.data())
    def check(pool: list[Any], data: st.DataObject) -> None:
        column = OrderColumn(type_.arrow, not_null=True)
        index = OrderedIndex([column])
        model: list[Any] = []
        group = np.array([5])
        for _ in range(6):
            if model and data.draw(st.booleans()):
                value, w = data.draw(st.sampled_from(model)), -1
                model.remove(value)
            else:
                value, w = data.draw(st.sampled_from(pool)), 1
                model.append(value)
            index.add(group, [pa.array([value], type_.arrow)], np.array([w]))
            assert index.total == len(model)
            if model:
                low, high = read(index, index.first(group)), read(index, index.last(group))
                assert plain(low[0][1][0]) == min(map(plain, model))
                assert plain(high[0][1][0]) == max(map(plain, model))

    check()


def test_long_texts_with_one_prefix_are_told_apart() -> None:
    index = OrderedIndex([OrderColumn(pa.string(), not_null=True)])
    words = [f"the same long beginning {i:04d}" for i in range(500)]
    groups = np.zeros(500, np.int64)
    shuffled = np.random.default_rng(0).permutation(500)
    index.add(groups, [pa.array([words[i] for i in shuffled])], np.ones(500, np.int64))
    _, cursors = index.group(np.array([0]))
    assert index.read(cursors).values[0].to_pylist() == words
    unknown = index.find(groups[:1], [pa.array(["the same long beginning 0100x"])], FIRST_AT_LEAST)
    assert index.read(unknown).values[0].to_pylist() == [words[101]]
    assert index._pool.count == 500


def test_retraction_of_what_is_not_there_is_refused_and_leaves_no_text() -> None:
    index = OrderedIndex([OrderColumn(pa.string())])
    with pytest.raises(NegativeWeight):
        index.add(np.array([0]), [pa.array(["a"])], np.array([-1]))
    assert (index.entries, index._pool.count) == (0, 0)
    assert index.save()["entries"].num_rows == 0


def test_texts_that_only_questions_name_are_let_go_once() -> None:
    index = OrderedIndex([OrderColumn(pa.string(), not_null=True)], with_tie=True)
    group, word = np.array([0]), [pa.array(["a word of more than twelve bytes"])]
    index.add(group, [pa.array(["x"])], np.array([1]), group)
    for _ in range(2):
        assert index.span(group, word, word)[0].size == 0
        assert not list(index.between(group, Edge(word, False), Edge(word, False), 9))
        (found,) = index.between(group, Edge(word, False), None, 9)
        assert found[1].tolist() == [0]
    assert index._pool.count == 1
