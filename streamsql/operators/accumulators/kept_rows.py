"""KeptRows: the rows of every group in ORDER BY order, equal ones in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array, make_batch
from streamsql.core.errors import NegativeWeight
from streamsql.kernels.hash_index import HashIndex
from streamsql.kernels.hashing import Lanes, hash_arrays
from streamsql.kernels.multimap import Multimap
from streamsql.operators import saved
from streamsql.state.column_store import ColumnStore
from streamsql.state.ordered_index import OrderColumn, OrderedIndex

SPARE_ROWS = 4096


class KeptRows:
    """What array_agg and its kin keep of their rows.

    types: of the columns kept. order: what the rows of a group are ordered by (nothing: arrival
    alone). retracts: rows may be taken back; each is found by its identity, and of identical ones
    the one that came last goes, so that what comes and goes within a tick leaves no trace, and what
    goes and comes again stands where it came.
    State: one entry a row; freed with the row or its group.
    Cost: O(log rows) a row; taking one back also looks at the rows identical to it.
    """

    def __init__(
        self, types: Sequence[pa.DataType], order: Sequence[OrderColumn], *, retracts: bool
    ) -> None:
        self.schema = pa.schema([(f"c{i}", t) for i, t in enumerate(types)])
        self.store = ColumnStore(self.schema)
        self.index = OrderedIndex(order, with_tie=True)
        self.retracts = retracts
        self.lanes = np.zeros((2, 64 if retracts else 0), np.uint64)
        self.where = Multimap()

    @property
    def rows(self) -> int:
        """Rows held."""
        return self.index.entries

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = self.store.nbytes + self.index.nbytes + self.lanes.nbytes + self.where.nbytes
        return int(held)

    # --- changes -------------------------------------------------------------------------------
    def add(
        self,
        groups: Int64Array,
        weights: Int64Array,
        values: Sequence[pa.Array],
        order: Sequence[pa.Array],
        identity: Sequence[pa.Array],
        *,
        exact: bool = True,
    ) -> None:
        """Take rows in and out. All [n]; weights: empty = +1. identity: the columns that tell rows
        apart, by representation (`exact`) or by SQL equality.

        Raises: NegativeWeight (XX001) if a row is taken back that is not there.
        """
        lanes = None
        if self.retracts:
            lanes = hash_arrays([pa.array(groups), *identity], groups.size, exact=exact)
        if not weights.size or bool((weights == 1).all()):
            self._append(groups, values, order, lanes)
            return
        come, go = np.flatnonzero(weights > 0), np.flatnonzero(weights < 0)
        before = self.store.num_rows
        come = np.repeat(come, weights[come])
        rows = pa.array(come)
        self._append(
            groups[come], [v.take(rows) for v in values], [o.take(rows) for o in order],
            None if lanes is None else (lanes[0][come], lanes[1][come]),
        )  # fmt: skip
        if go.size:
            assert lanes is not None
            rows = pa.array(go)
            self._take_out(
                groups[go], -weights[go], [o.take(rows) for o in order],
                (lanes[0][go], lanes[1][go]), before, (weights, lanes) if come.size else None,
            )  # fmt: skip

    def _append(
        self, groups: Int64Array, values: Sequence[pa.Array], order: Sequence[pa.Array],
        lanes: Lanes | None,
    ) -> None:  # fmt: skip
        n = groups.size
        if not n:
            return
        base = self.store.append(make_batch(list(values), self.schema, n))
        ties = base + np.arange(n)
        self.index.add(groups, order, np.ones(n, np.int64), ties)
        if lanes is not None:
            if base + n > self.lanes.shape[1]:
                grown = np.zeros((2, 2 * (base + n)), np.uint64)
                grown[:, : self.lanes.shape[1]] = self.lanes
                self.lanes = grown
            self.lanes[:, base : base + n] = lanes
            self.where.link(*lanes, ties)

    def _take_out(
        self, groups: Int64Array, times: Int64Array, order: Sequence[pa.Array], lanes: Lanes,
        before: int, whole: tuple[Int64Array, Lanes] | None,
    ) -> None:  # fmt: skip
        """before: the first row number of this tick. whole: weights and lanes of all its entries in
        their order; None if nothing came."""
        known = HashIndex()
        number, first = known.upsert_rows(*lanes)
        needed = np.bincount(number, times, first.size).astype(np.int64)
        which, rows = self.where.probe(lanes[0][first], lanes[1][first])
        sorted_ = np.lexsort((-rows, which))
        which, rows = which[sorted_], rows[sorted_]
        starts = np.searchsorted(which, np.arange(first.size))
        if bool((np.bincount(which, minlength=first.size) < needed).any()):
            raise NegativeWeight("a row was taken back that its group does not hold")
        new = rows >= before
        came = np.bincount(which[new], minlength=first.size)
        older = needed if whole is None else np.minimum(deepest(known, *whole), needed)
        older = np.minimum(older, np.bincount(which, minlength=first.size) - came)
        place = np.arange(which.size) - starts[which]
        chosen = np.where(new, place < (needed - older)[which], place - came[which] < older[which])
        which, rows = which[chosen], rows[chosen]
        entries = first[which]
        taken = [o.take(pa.array(entries)) for o in order]
        self.index.add(groups[entries], taken, np.full(rows.size, -1), rows)
        self.where.unlink(rows)

    def free(self, groups: Int64Array) -> None:
        """Forget the rows of these groups."""
        if not self.rows or not groups.size:
            return
        if self.retracts:
            _, cursors = self.index.group(groups)
            self.where.unlink(self.index.ties(cursors))
        self.index.remove_groups(groups)

    def tidy(self) -> None:
        """Let go of dead rows when they are most of them. Row numbers change."""
        if self.store.num_rows <= 2 * self.rows + SPARE_ROWS:
            return
        entries = self.index.save()["entries"]
        old = saved.array(entries, "tie")
        order = np.argsort(old)
        new = np.empty(old.size, np.int64)
        new[order] = np.arange(old.size)
        self.store.rebuild(old[order])
        at = entries.column_names.index("tie")
        self.index.load({"entries": entries.set_column(at, "tie", pa.array(new))})
        if self.retracts:
            self.lanes = np.ascontiguousarray(self.lanes[:, old[order]])
            self.where = Multimap()
            self.where.link(self.lanes[0], self.lanes[1], np.arange(old.size))

    # --- questions -----------------------------------------------------------------------------
    def of(self, groups: Int64Array) -> tuple[Int64Array, Int64Array]:
        """All rows of these groups in order: (i int64[m] ascending, row int64[m])."""
        which, cursors = self.index.group(groups)
        return which, self.index.ties(cursors)

    def end(self, groups: Int64Array, *, last: bool) -> Int64Array:
        """The first or last row of each group, -1 where it has none."""
        cursors = self.index.last(groups) if last else self.index.first(groups)
        return np.where(cursors < 0, -1, self.index.ties(cursors))

    def take(self, rows: Int64Array) -> list[pa.Array]:
        """The columns of these rows; NULL for -1."""
        return list(self.store.take(rows, negative=True).columns)

    # --- saving --------------------------------------------------------------------------------
    def save(self) -> dict[str, pa.Table]:
        """Everything, row numbers included."""
        n = self.store.num_rows
        lanes = self.lanes[:, : n if self.retracts else 0].view(np.int64)
        return {
            **saved.nest("index", self.index.save()),
            "rows": self.store.table(),
            "lanes": saved.columns(h0=lanes[0], h1=lanes[1]),
        }

    def load(self, state: Mapping[str, pa.Table]) -> None:
        """Inverse of `save`."""
        self.index.load(saved.inner("index", state))
        for batch in state["rows"].to_batches():
            self.store.append(batch)
        if self.retracts:
            lanes = [saved.array(state["lanes"], n).view(np.uint64) for n in ("h0", "h1")]
            self.lanes = np.stack(lanes)
            live = np.sort(saved.array(self.index.save()["entries"], "tie"))
            self.where.link(self.lanes[0][live], self.lanes[1][live], live)


def deepest(known: HashIndex, weights: Int64Array, lanes: Lanes) -> Int64Array:
    """How far below its start the number of copies of each known row gets within a tick, int64 >= 0
    by slot: so many copies that were there before go."""
    slots = known.find(*lanes)
    at = np.flatnonzero(slots >= 0)
    at = at[np.argsort(slots[at], kind="stable")]
    total = np.cumsum(weights[at])
    starts = np.flatnonzero(np.diff(slots[at], prepend=-1))
    base = np.concatenate([[0], total])[starts]
    return np.asarray(np.maximum(base - np.minimum.reduceat(total, starts), 0))
