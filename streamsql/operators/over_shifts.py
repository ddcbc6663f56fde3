"""RANGE frames with an offset: values of the order column, shifted and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.logical_time import US_PER_DAY
from streamsql.kernels.order_keys import OrderColumn, decode, encode
from streamsql.kernels.text_pool import TextPool
from streamsql.operators.columns import int64_values
from streamsql.operators.over_calls import Shift, Step

if TYPE_CHECKING:
    from streamsql.operators.over_frames import Changes
    from streamsql.operators.over_rows import OverRows

INFINITY = 2**63 - 1
LONGEST_MONTH_DIFFERENCE_US = 3 * US_PER_DAY
"""What adding months and taking them away again may miss: the 31st becomes the 28th."""


class OrderValues:
    """The values of the one order column that RANGE offsets speak of, as words of the index's keys.

    word: which word of the key; the one before it says where NULLs stand. Words compare in the
    order's direction; a DATE is compared as µs, so that `comparable` words are asked for.
    """

    word = 2

    def __init__(self, column: OrderColumn | None) -> None:
        """column: of the order, None = there is none."""
        self.column = column
        type_ = pa.int64() if column is None else column.type
        self.descending = column is not None and column.descending
        self.real = pa.types.is_floating(type_)
        self.date = pa.types.is_date32(type_)
        self.time = self.date or pa.types.is_timestamp(type_)

    # --- words and values ----------------------------------------------------------------------
    def comparable(self, words: Int64Array) -> Int64Array:
        """Words that compare with the bounds of `ends`."""
        if not self.date:
            return words
        return self._turned(self._turned(words) * US_PER_DAY)

    def _turned(self, words: Int64Array) -> Int64Array:
        return ~words if self.descending else words

    def _values(self, words: Int64Array) -> np.ndarray:
        """Words as int64 (µs for dates) or float64."""
        if self.real:
            column = OrderColumn(pa.float64(), self.descending, not_null=True)
            keys = np.ascontiguousarray(words.reshape(-1, 1))
            return np.array(decode(keys, [column], TextPool())[0])
        values = self._turned(words)
        return values * US_PER_DAY if self.date else values

    def _words(self, values: np.ndarray) -> Int64Array:
        """Inverse of `_values`."""
        if not self.real:
            return self._turned(values)
        column = OrderColumn(pa.float64(), self.descending, not_null=True)
        out = np.empty((values.size, 1), np.int64)
        encode([pa.array(values)], [column], TextPool(), out)
        return out[:, 0]

    def _shifted(self, values: np.ndarray, shift: Shift, sign: int = 1) -> np.ndarray:
        """Values moved by the shift (or against it) in the order's direction."""
        sign = -sign if self.descending else sign
        if self.real:
            with np.errstate(all="ignore"):
                return np.asarray(values + sign * float(shift.amount))
        if shift.months:
            from streamsql.functions.compute.datetimes import add_months

            finite = np.abs(values) != INFINITY
            values = np.where(finite, add_months(values, sign * shift.months), values)
        return _saturated(values, sign * int(shift.amount), self.time)

    def moved(self, times: Int64Array, shift: Shift, sign: int = 1) -> Int64Array:
        """Times (µs) at this shift (or against it) from others."""
        return self._shifted(times, shift, sign)

    def ends(self, words: Int64Array, shift: Shift) -> Int64Array:
        """Where the frames of rows with these words end: comparable words."""
        return self._words(self._shifted(self._values(words), shift))

    # --- ranks ---------------------------------------------------------------------------------
    def borders(
        self, rows: OverRows, parts: Int64Array, first: Int64Array, last: Int64Array, shift: Shift
    ) -> tuple[Int64Array, Int64Array]:
        """(rank from which the frame of the row of rank `first` may begin, rank up to which that of
        `last` may end) where this shift is an end of the frames."""
        tree = rows.index.tree
        out = []
        for ranks, above in ((first, False), (last, True)):
            keys, _ = tree.read(tree.select(ranks))
            values = self._shifted(self._values(np.ascontiguousarray(keys[:, self.word])), shift)
            found = self._rank(rows, parts, values, above)
            null = keys[:, self.word - 1] != 0
            peers = np.ascontiguousarray(keys[:, : rows.index.peer_words])
            out.append(np.where(null, tree.rank(peers, above), found))
        return out[0], out[1]

    def _rank(
        self, rows: OverRows, parts: Int64Array, values: np.ndarray, above: bool
    ) -> Int64Array:
        """Rows before those of at least these values in their partition; `above`: and of them."""
        if self.date:  # the day that holds the moment: one too many at most
            values = np.floor_divide(values, US_PER_DAY)
        keys = np.zeros((values.size, 3), np.int64)
        keys[:, 0], keys[:, 2] = parts, self._words(values)
        return rows.index.tree.rank(keys, above)

    def widen(
        self, rows: OverRows, changes: Changes, start: Step, end: Step,
        low: Int64Array, high: Int64Array,
    ) -> None:  # fmt: skip
        """Move the ends of what changed rows reach, ranks `low` and `high`, as far as frames with
        these ends go. The rows of value v reach those of v - end to v - start."""
        if self.column is None or not (isinstance(start, Shift) or isinstance(end, Shift)):
            return
        column = rows.column(rows.order.order[0][0], changes.copies)
        valid = np.asarray(column.is_valid())
        values = self._column_values(column)
        for step, above, ranks in ((end, False, low), (start, True, high)):
            if isinstance(step, Shift):
                moved = self._slack(self._shifted(values, step, -1), values, step, above)
                found = self._rank(rows, changes.parts, moved, above)
                wider = np.maximum(ranks, found) if above else np.minimum(ranks, found)
                ranks[:] = np.where(valid, wider, ranks)

    def _column_values(self, column: pa.Array) -> np.ndarray:
        if self.real:
            return np.array(column.cast(pa.float64()).fill_null(0.0))
        values = int64_values(column)
        return values * US_PER_DAY if self.date else values

    def _slack(
        self, moved: np.ndarray, values: np.ndarray, shift: Shift, above: bool
    ) -> np.ndarray:
        """A little further in the order: rounding, and months of unequal length."""
        sign = 1 if above != self.descending else -1
        if self.real:
            with np.errstate(all="ignore"):
                room = 1e-15 * (np.abs(values) + abs(shift.amount))
                return np.where(np.isfinite(moved), moved + sign * room, moved)
        more = LONGEST_MONTH_DIFFERENCE_US if shift.months else 0
        more += US_PER_DAY if self.date else 0
        return _saturated(moved, sign * more, self.time)


def _saturated(values: np.ndarray, by: int, time: bool) -> np.ndarray:
    """values + by, held at the ends of int64; infinite times stay what they are."""
    by = max(-INFINITY, min(by, INFINITY))
    room = np.clip(values, -INFINITY - min(by, 0), INFINITY - max(by, 0)) + by
    if time:
        return np.where(np.abs(values) == INFINITY, values, room)
    return room
