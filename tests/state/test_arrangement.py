"""Arrangement against a Counter of rows, over random histories."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsql.core import types as t
from streamsql.core.delta import Delta
from streamsql.core.errors import NegativeWeight
from streamsql.core.schema import Schema
from streamsql.state import arrangement as module
from streamsql.state.arrangement import Arrangement
from tests.kernels.values import batch_of, row_key, rows_of

Rows = list[tuple[Any, ...]]
ABC = Schema.of(("a", t.BIGINT), ("b", t.TEXT), ("c", t.BIGINT))


def delta(rows: Rows, weights: list[int] | None = None, schema: Schema = ABC) -> Delta:
    return Delta(batch_of(schema, rows), None if weights is None else np.array(weights, np.int64))


def rows_in(table: pa.Table | pa.RecordBatch) -> Rows:
    return list(zip(*[c.to_pylist() for c in table.columns], strict=True))


def bag(rows: Rows) -> Counter[Any]:
    return Counter(row_key(row, True) for row in rows)


class Model:
    """The Z-set as a Counter; a delta that would go below zero is turned down as a whole."""

    def __init__(self) -> None:
        self.rows: dict[Any, tuple[Any, ...]] = {}
        self.weights: Counter[Any] = Counter()

    def apply(self, rows: Rows, weights: list[int], allow_negative: bool) -> bool:
        after = Counter(self.weights)
        for row, w in zip(rows, weights, strict=True):
            after[row_key(row, True)] += w
            self.rows[row_key(row, True)] = row
        if not allow_negative and any(w < 0 for w in after.values()):
            return False
        self.weights = Counter({k: w for k, w in after.items() if w})
        return True

    def live(self) -> Counter[Any]:
        return self.weights


@given(st.data(), rows_of(max_rows=12), st.booleans(), st.booleans())
def test_history_of_deltas_keeps_the_bag_and_every_old_snapshot(
    data: st.DataObject, drawn: tuple[Schema, Rows], allow_negative: bool, with_key: bool
) -> None:
    schema, pool = drawn
    if not pool:
        return
    z, model = Arrangement(schema, allow_negative=allow_negative), Model()
    key = z.add_key([0]) if with_key else None
    old_snapshots: list[tuple[pa.Table, Counter[Any]]] = []
    for _ in range(data.draw(st.integers(1, 6))):
        rows = data.draw(st.lists(st.sampled_from(pool), max_size=8))
        plain = data.draw(st.booleans())
        weights = [1] * len(rows) if plain else [data.draw(st.integers(-2, 2)) for _ in rows]
        before = model.live()
        given_delta = delta(rows, None if plain else weights, schema)
        if not model.apply(rows, weights, allow_negative):
            with pytest.raises(NegativeWeight):
                z.apply(given_delta)
        else:
            applied = z.apply(given_delta)
            check_applied(applied, z, before, model)
        check_contents(z, model)
        if not allow_negative:
            old_snapshots.append((z.snapshot(), Counter(model.live())))
        if key is not None:
            check_probe(z, key, schema, pool, model)
        if data.draw(st.integers(0, 4)) == 0:
            z.compact()
        elif data.draw(st.integers(0, 4)) == 0:
            again = Arrangement(schema, allow_negative=allow_negative)
            if with_key:
                again.add_key([0])
            again.load(z.save())
            z = again
    for table, expected in old_snapshots:
        assert bag(rows_in(table)) == expected


def check_applied(
    applied: module.Applied, z: Arrangement, before: Counter[Any], model: Model
) -> None:
    entries = rows_in(applied.delta.batch)
    assert [row_key(r, True) for r in rows_in(z.take(applied.rows))] == [
        row_key(r, True) for r in entries
    ]
    assert (applied.new - applied.old == applied.delta.weights_or_ones()).all()
    assert z.weights(applied.rows).tolist() == applied.new.tolist()
    if z._index is not None:
        for row, old, new in zip(entries, applied.old, applied.new, strict=True):
            assert old == before[row_key(row, True)]
            assert new == model.live()[row_key(row, True)]


def check_contents(z: Arrangement, model: Model) -> None:
    contents = z.contents()
    found: Counter[Any] = Counter()
    for row, w in zip(rows_in(contents.batch), contents.weights_or_ones().tolist(), strict=True):
        found[row_key(row, True)] += w
    assert found == model.live()
    assert z.total_weight == sum(model.live().values())
    assert z.live_rows == contents.num_rows
    positive = Counter({k: w for k, w in model.live().items() if w > 0})
    assert bag(rows_in(z.snapshot())) == positive


def check_probe(z: Arrangement, key: int, schema: Schema, pool: Rows, model: Model) -> None:
    batch = batch_of(schema, pool)
    for null_safe in (False, True):
        probe, row = z.probe(key, batch, [0], null_safe=null_safe)
        stored, weights = rows_in(z.take(row)), z.weights(row).tolist()
        found: Counter[Any] = Counter()
        for p, r, w in zip(probe.tolist(), stored, weights, strict=True):
            assert w != 0
            found[p, row_key(r, True)] += w
        expected: Counter[Any] = Counter()
        for p, mine in enumerate(pool):
            for k, w in model.live().items():
                other = model.rows[k]
                matches = row_key(mine[:1], False) == row_key(other[:1], False)
                if matches and (null_safe or mine[0] is not None):
                    expected[p, k] += w
        assert found == expected


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=5), max_size=12))
def test_identity_columns_let_a_row_be_replaced_within_one_delta(
    history: list[list[tuple[int, int]]],
) -> None:
    z, model = Arrangement(ABC, [0]), dict[int, tuple[Any, ...]]()
    key = z.add_key([2])
    for upserts in history:
        rows: Rows = []
        weights: list[int] = []
        for a, c in dict(upserts).items():
            new = (a, f"v{c}", c)
            if a in model and c == 0:
                rows.append(model.pop(a))
                weights.append(-1)
                continue
            # the insertion stands before the retraction: their order must not matter
            rows.append(new)
            weights.append(1)
            if a in model:
                rows.append(model[a])
                weights.append(-1)
            model[a] = new
        z.apply(delta(rows, weights))
        assert bag(rows_in(z.snapshot())) == bag(list(model.values()))
        probe, row = z.probe(key, batch_of(ABC, [(0, "", c) for c in range(4)]), [2])
        found = sorted((p, r[0]) for p, r in zip(probe.tolist(), rows_in(z.take(row)), strict=True))
        assert found == sorted((r[2], r[0]) for r in model.values())
        looked_up = z.find(batch_of(ABC, [(a, "", 0) for a in range(6)]), [0])
        assert [a for a in range(6) if looked_up[a] >= 0] == sorted(model)


def test_retraction_finds_its_row_by_identity_alone() -> None:
    z = Arrangement(ABC, [0])
    z.apply(delta([(1, "x", 1), (2, "y", 2)]))
    applied = z.apply(delta([(1, "whatever", 0)], [-1]))
    assert rows_in(z.take(applied.rows)) == [(1, "x", 1)]
    assert rows_in(z.snapshot()) == [(2, "y", 2)]


def test_failed_apply_changes_nothing() -> None:
    z = Arrangement(ABC)
    z.apply(delta([(1, "x", 1), (2, "y", 2)], [2, 1]))
    generation = z.generation
    with pytest.raises(NegativeWeight):
        z.apply(delta([(1, "x", 1), (9, "new", 0), (2, "y", 2)], [-1, 1, -2]))
    assert sorted(rows_in(z.snapshot())) == [(1, "x", 1), (1, "x", 1), (2, "y", 2)]
    assert z.generation == generation


def test_row_deleted_and_inserted_in_one_delta_stays() -> None:
    z = Arrangement(ABC)
    z.apply(delta([(1, "x", 1)]))
    applied = z.apply(delta([(1, "x", 1), (1, "x", 1)], [-1, 1]))
    assert applied.rows.size == 0
    assert rows_in(z.snapshot()) == [(1, "x", 1)]


def test_snapshot_is_cached_until_a_change_and_shares_memory_when_all_weights_are_one() -> None:
    z = Arrangement(ABC)
    z.apply(delta([(i, "x", i) for i in range(1000)]))
    before = pa.total_allocated_bytes()
    snapshot = z.snapshot()
    assert z.snapshot() is snapshot
    assert pa.total_allocated_bytes() == before
    z.apply(delta([(5, "x", 5)], [-1]))
    assert z.snapshot().num_rows == 999
    assert snapshot.num_rows == 1000


def test_dead_rows_are_dropped_when_they_outnumber_the_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "DEAD_MIN", 16)
    z = Arrangement(ABC)
    key = z.add_key([0])
    moves: list[tuple[list[int], list[int]]] = []
    z.on_move.append(lambda old, new: moves.append((old.tolist(), new.tolist())))
    for tick in range(200):
        z.apply(delta([(tick, "x", tick)]))
        if tick >= 10:
            z.apply(delta([(tick - 10, "x", tick - 10)], [-1]))
    assert z.live_rows == 10
    assert z.num_rows < 64
    assert moves
    assert all(len(old) == len(new) for old, new in moves)
    assert sorted(r[0] for r in rows_in(z.snapshot())) == list(range(190, 200))
    probe, _ = z.probe(key, batch_of(ABC, [(i, "", 0) for i in range(200)]), [0])
    assert sorted(probe.tolist()) == list(range(190, 200))


def test_memory_is_flat_while_rows_come_and_go() -> None:
    z = Arrangement(ABC)
    z.add_key([2])
    sizes = []
    for tick in range(60):
        rows = [(i, "some text", i % 7) for i in range(tick * 500, tick * 500 + 500)]
        z.apply(delta(rows))
        z.apply(delta(rows, [-1] * 500))
        sizes.append(z.nbytes)
    assert z.live_rows == 0
    assert max(sizes[30:]) <= max(sizes[:30])


def test_keys_without_rows_are_forgotten() -> None:
    z = Arrangement(ABC)
    key = z.add_key([0])
    z.apply(delta([(i, "x", 0) for i in range(1, 3000)]))
    for tick in range(300):
        z.apply(delta([(0, "hot", tick), (-tick, "y", 0)]))
        probe, _ = z.probe(key, batch_of(ABC, [(0, "", 0)]), [0])
        assert probe.size == (2 if tick == 0 else 1)
        z.apply(delta([(0, "hot", tick), (-tick, "y", 0)], [-1, -1]))
    assert z._maps[key].keys == 2999


@pytest.mark.parametrize("identity", [None, [0]])
@pytest.mark.parametrize("order", ["oldest first", "at random", "newest first"])
def test_chunks_are_emptied_bit_by_bit_and_used_again(
    monkeypatch: pytest.MonkeyPatch, identity: list[int] | None, order: str
) -> None:
    """Rows come and go for long; numbers stay small, readers keep what they had, all is found."""
    monkeypatch.setattr(module, "SMALL", 100)
    schema = Schema.of(("a", t.BIGINT), ("b", t.TEXT))
    rng = np.random.default_rng(5)

    def rows(ids: np.ndarray) -> pa.RecordBatch:
        numbers = pa.array(ids)
        return pa.RecordBatch.from_arrays([numbers, numbers.cast(pa.string())], schema=schema.arrow)

    z = Arrangement(schema, identity)
    key = z.add_key([1])
    alive = np.arange(0)
    kept: list[tuple[pa.Table, np.ndarray]] = []
    top = 0
    for tick in range(45):
        new = np.arange(top, top + 20_000)
        top += 20_000
        z.apply(Delta(rows(new)))
        alive = np.concatenate([alive, new])
        if tick > 5:
            if order == "at random":
                alive = rng.permutation(alive)
            gone = alive[-20_000:] if order == "newest first" else alive[:20_000]
            alive = alive[:-20_000] if order == "newest first" else alive[20_000:]
            z.apply(Delta(rows(gone), np.full(20_000, -1)))
        if tick % 11 == 0:
            kept.append((z.snapshot(), np.sort(alive)))
            asked = np.concatenate([alive[:500], [-1, top + 1]])
            probe, row = z.probe(key, rows(asked), [1])
            assert np.array_equal(np.sort(probe), np.arange(min(500, alive.size)))
            assert np.array_equal(np.array(z.take(row).column(0)), asked[probe])
            assert (z.find(rows(asked))[:-2] >= 0).all()
    for table, expected in kept:
        assert np.array_equal(np.sort(np.array(table.column(0))), expected)
        assert pc.all(pc.equal(table.column(0).cast(pa.string()), table.column(1))).as_py()
    assert z.num_rows <= 2 * z.live_rows + 2 * 65536
    assert max(z._rows.live()) < 500_000


def test_row_that_comes_back_is_found_by_its_keys() -> None:
    z = Arrangement(ABC)
    key = z.add_key([2])
    ask = batch_of(ABC, [(0, "", 7)])
    for _ in range(3):
        z.apply(delta([(1, "x", 7)]))
        assert z.probe(key, ask, [2])[0].size == 1
        z.apply(delta([(1, "x", 7)], [-1]))
        assert z.probe(key, ask, [2])[0].size == 0


def test_keys_added_later_see_the_rows_that_are_there() -> None:
    z = Arrangement(ABC)
    z.apply(delta([(i, "x", i % 3) for i in range(9)]))
    key = z.add_key([2])
    assert z.add_key([2]) == key
    assert z.probe(key, batch_of(ABC, [(0, "", 1)]), [2])[0].size == 3


def test_negative_weights_are_kept_when_allowed() -> None:
    z = Arrangement(ABC, allow_negative=True)
    z.apply(delta([(1, "x", 1)], [-2]))
    assert (z.total_weight, z.live_rows) == (-2, 1)
    z.apply(delta([(1, "x", 1)], [2]))
    assert (z.total_weight, z.live_rows) == (0, 0)
    with pytest.raises(ValueError, match="whole row"):
        Arrangement(ABC, [0], allow_negative=True)


def test_saved_arrangement_keeps_weights_and_order() -> None:
    z = Arrangement(ABC)
    z.apply(delta([(1, "x", 1), (2, None, 2), (3, "z", 3)], [2, 1, 1]))
    z.apply(delta([(2, None, 2)], [-1]))
    again = Arrangement(ABC)
    again.load(z.save())
    assert rows_in(again.snapshot()) == [(1, "x", 1), (1, "x", 1), (3, "z", 3)]
    assert again.save()["rows"].equals(z.save()["rows"])


def test_large_insertions_are_kept_by_reference_until_rows_are_looked_up() -> None:
    schema = Schema.of(("a", t.BIGINT), ("b", t.TEXT))

    def batch(start: int, n: int) -> pa.RecordBatch:
        numbers = pa.array(np.arange(start, start + n))
        return pa.RecordBatch.from_arrays([numbers, numbers.cast(pa.string())], schema=schema.arrow)

    z = Arrangement(schema)
    first = batch(0, 70_000)
    applied = z.apply(Delta(first))
    assert (
        z.snapshot().column(0).chunk(0).buffers()[1].address == first.column(0).buffers()[1].address
    )
    z.apply(Delta(batch(70_000, 10)))
    assert (z.live_rows, z.num_rows, z.total_weight) == (70_010, 70_010, 70_010)
    assert z.take(applied.rows[-1:]).column(0).to_pylist() == [69_999]
    again = Arrangement(schema)
    again.load(z.save())
    key = z.add_key([0])
    z.apply(Delta(batch(80_000, 9000)))
    z.apply(Delta(batch(5, 1), np.array([-1])))
    _, row = z.probe(key, batch(4, 3), [0])
    assert z.take(row).column(1).to_pylist() == ["4", "6"]
    assert (again.live_rows, z.live_rows) == (70_010, 79_009)
    assert sorted(z.snapshot().column(0).to_pylist())[4:6] == [4, 6]
    assert z.contents().num_rows == 79_009


def test_clear_forgets_rows_and_keeps_keys() -> None:
    z = Arrangement(ABC)
    key = z.add_key([0])
    z.apply(delta([(1, "x", 1)]))
    z.clear()
    assert (z.live_rows, z.snapshot().num_rows) == (0, 0)
    z.apply(delta([(1, "y", 1)]))
    assert z.probe(key, batch_of(ABC, [(1, "", 0)]), [0])[0].size == 1


def test_snapshots_of_many_chunks_refresh_only_what_changed() -> None:
    schema = Schema.of(("a", t.BIGINT), ("b", t.TEXT))
    n = 150_000
    text = pa.array([str(i) for i in range(n)])
    z = Arrangement(schema)
    z.apply(Delta(pa.RecordBatch.from_arrays([pa.array(np.arange(n)), text], schema=schema.arrow)))
    z.apply(delta([(70_000, "70000"), (3, "3")], [-1, 1], schema))
    first = z.snapshot()
    z.apply(delta([(140_000, "140000")], [-1], schema))
    second = z.snapshot()
    values = np.array(second.column(0))
    expected = np.setdiff1d(np.arange(n), [70_000, 140_000])
    assert np.array_equal(np.sort(values), np.sort(np.append(expected, 3)))
    assert first.num_rows == n
    shared = {c.buffers()[1].address for c in first.column(0).chunks}
    assert sum(c.buffers()[1].address in shared for c in second.column(0).chunks) == 2
