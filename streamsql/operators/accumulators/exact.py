"""SUM, AVG, VAR and STDDEV of floats under deletes: exact, so that nothing deleted leaves a
trace."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.errors import NumericValueOutOfRange
from streamsql.functions.expressions import AggregateCall
from streamsql.kernels.arrays import lengthen, room_for
from streamsql.operators import saved
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.columns import flat, to_arrow
from streamsql.operators.loops import exact as loops


class Digits:
    """One exact sum a group, as chains of base 2^32 digits."""

    def __init__(self) -> None:
        self.chain = np.full(64, loops.NONE, np.int64)
        self.entries = np.zeros((64, 2), np.int64)
        self._free = np.empty(64, np.int64)
        self._numbers = np.zeros(2, np.int64)  # entries ever given out, free ones among them

    @property
    def count(self) -> int:
        """Digits held."""
        return int(self._numbers[0] - self._numbers[1])

    def add(self, groups: Int64Array, digits: Int64Array, values: Int64Array) -> None:
        """Add digit values to groups."""
        n, at = groups.size, 0
        if n:
            self._room(int(groups.max()) + 1)
        while at < n:
            at = loops.add_digits(
                groups, digits, values, at, self.chain, self.entries, self._free, self._numbers
            )
            if at < n:
                size = room_for(len(self.entries) + 1)
                lengthen(self, "entries", size)
                lengthen(self, "_free", size)

    def _room(self, groups: int) -> None:
        if groups > self.chain.size:
            lengthen(self, "chain", room_for(groups), loops.NONE)

    def totals(self, groups: Int64Array, rest: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(each group's sum as float64[n], what rounding left out or empty)."""
        if groups.size:
            self._room(int(groups.max()) + 1)
        out = np.empty(groups.size, np.float64)
        left = np.zeros(groups.size if rest else 0, np.float64)
        loops.totals(groups, self.chain, self.entries, out, left)
        return out, left

    def free(self, groups: Int64Array) -> None:
        """Forget these groups' digits."""
        groups = groups[groups < self.chain.size]
        if groups.size:
            spare = int(self._numbers[1])
            self._numbers[1] = loops.free_chains(
                groups, self.chain, self.entries, self._free, spare
            )

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.chain.nbytes + self.entries.nbytes + self._free.nbytes)

    def save(self) -> dict[str, pa.Table]:
        """The chains and their entries, the free ones too."""
        used, spare = self._numbers.tolist()
        return {
            "entries": saved.matrix(self.entries[:used]),
            "free": saved.columns(entry=self._free[:spare]),
            "chain": saved.columns(first=self.chain),
        }

    def load(self, state: Mapping[str, pa.Table]) -> None:
        """Inverse of `save`."""
        self.chain = saved.array(state["chain"], "first")
        self.entries = saved.from_matrix(state["entries"], 64)
        free = saved.array(state["free"], "entry")
        self._free = np.empty(len(self.entries), np.int64)
        self._free[: free.size] = free
        self._numbers[:] = (state["entries"].num_rows, free.size)


class ExactReal(Accumulator):
    """SUM and AVG of floats whose rows may be taken back.

    Algebra:  linear: the sum is kept exactly, as a fixed-point number, and rounded once when it
    is read.
              NaN and infinities are counted apart.
    State:    [count, NaNs, +inf, -inf, rounded sum] a group, and its digits (2 to 4 as a rule).
    """

    lanes = 5
    mergeable = False
    keeps = "exact sums"

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self.sums = Digits()

    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        assert column is not None
        add_values(self.sums, cells, self.at, slots, weights, column, squares=False)

    def settle(self, cells: Cells, touched: Int64Array) -> None:
        self.sums.free(touched[cells[touched, self.at] == 0])
        total, _ = self.sums.totals(touched)
        cells[touched, self.at + 4] = total.view(np.int64)

    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        raise NotImplementedError("exact sums are not merged")

    def result(self, cells: Cells) -> pa.Array:
        count = cells[:, self.at]
        total = np.ascontiguousarray(cells[:, self.at + 4]).view(np.float64)
        total = with_specials(total, cells, self.at)
        plain = (cells[:, self.at + 1 : self.at + 4] <= 0).all(axis=1)
        with np.errstate(all="ignore"):
            if self.call.function == "avg":
                total = total / np.maximum(count, 1)
            found = to_arrow(total, self.type.arrow, count > 0)
        check_finite(found, np.asarray(plain))
        return found

    def free(self, slots: Int64Array) -> None:
        self.sums.free(slots)

    def side_rows(self) -> int:
        return self.sums.count

    def side_bytes(self) -> int:
        return self.sums.nbytes

    def save(self) -> Mapping[str, pa.Table]:
        return self.sums.save()

    def load(self, state: Mapping[str, pa.Table]) -> None:
        self.sums.load(state)


def add_values(
    sums: Digits, cells: Cells, at: int, slots: Int64Array, weights: Int64Array,
    column: pa.Array, *, squares: bool,
) -> None:  # fmt: skip
    """Add a column (or its squares) to exact sums; decimals and integers become floats first."""
    address, width, valid, offset = flat(column)
    scale = 1.0
    if not pa.types.is_floating(column.type):
        width = -width
    room = 6 * slots.size + 6
    group, digit, value = (np.empty(room, np.int64) for _ in range(3))
    found = loops.digits_of(
        cells, at, slots, weights, address, width, scale, valid, offset, squares,
        group, digit, value,
    )  # fmt: skip
    sums.add(group[:found], digit[:found], value[:found])


def finite_or(column: pa.Array, instead: float) -> np.ndarray:
    """The floats of a column, NULLs replaced."""
    filled = column.fill_null(instead) if column.null_count else column
    return np.asarray(filled)


def count_rows(
    cells: Cells, lane: int, slots: Int64Array, weights: Int64Array, which: np.ndarray
) -> None:
    """Add up the weights of these rows in a lane."""
    rows = np.flatnonzero(which)
    if rows.size:
        np.add.at(cells[:, lane], slots[rows], weights[rows] if weights.size else 1)


def check_finite(found: pa.Array, plain: np.ndarray) -> None:
    """Raises: NumericValueOutOfRange (22003) where the result of finite numbers (`plain`) is
    not."""
    if not bool((plain & ~np.isfinite(finite_or(found, 0.0))).any()):
        return
    raise NumericValueOutOfRange("value out of range: overflow")


def with_specials(total: np.ndarray, cells: Cells, at: int) -> np.ndarray:
    """Sums with NaN and infinities put in; lanes [.., NaNs, +inf, -inf] from `at`."""
    nan, plus, minus = (cells[:, at + k] > 0 for k in (1, 2, 3))
    total = np.where(plus, np.inf, np.where(minus, -np.inf, total))
    return np.where(nan | (plus & minus), np.nan, total)
