"""What each OVER call computes: numbers of rows, rows picked from a frame, aggregates over it."""

from __future__ import annotations

import abc
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamsql.core.delta import Int64Array
from streamsql.core.errors import InvariantViolation
from streamsql.functions.aggregates.overflow import LARGEST
from streamsql.functions.expressions import ColumnRef, Expr, Literal, WindowCall
from streamsql.kernels.order_keys import OrderColumn, encode, is_interval
from streamsql.kernels.text_pool import TextPool
from streamsql.operators.accumulators import make
from streamsql.operators.accumulators.base import Accumulator, Cells
from streamsql.operators.accumulators.count import Count
from streamsql.operators.accumulators.moments import NAMES as MOMENTS
from streamsql.operators.accumulators.moments import CheckedMoments, Moments, as_number
from streamsql.operators.accumulators.sums import CheckedReal, SumWide
from streamsql.operators.columns import NO_WEIGHTS, to_arrow
from streamsql.operators.loops import exact
from streamsql.operators.loops import over as loops
from streamsql.operators.loops import over_values as kernels
from streamsql.operators.over_calls import (
    EXTREMES,
    NEIGHBOURS,
    RANKS,
    aggregate_call,
    pick_number,
    span_of,
)
from streamsql.operators.over_frames import Frames, Loaded
from streamsql.operators.over_rows import OverRows

Bytes = npt.NDArray[np.uint8]


class Value(abc.ABC):
    """One call: it owns the lanes [at, at + lanes) of every copy's cells.

    copy_lanes: those of its lanes that hold the number of a copy.
    """

    lanes = 1
    copy_lanes: tuple[int, ...] = ()

    def __init__(self, call: WindowCall) -> None:
        self.call = call
        self.reach, self.load = span_of(call)
        self.at = 0

    @abc.abstractmethod
    def compute(self, loaded: Loaded, frames: Frames) -> Cells:
        """The cells int64[m, lanes] of the rows `loaded.places`."""

    @abc.abstractmethod
    def column(self, rows: OverRows, copies: Int64Array, cells: Cells) -> pa.Array:
        """The call's column for copies with these cells int64[n, lanes]."""

    def _stored(self, loaded: Loaded, frames: Frames) -> Cells:
        """The cells that each stretch goes on from, int64[stretches, lanes]; 0 where there are
        none."""
        cells = loaded.rows.cells[np.maximum(frames.base, 0), self.at : self.at + self.lanes]
        cells[frames.base < 0] = 0
        return np.ascontiguousarray(cells)

    def _counted(self, loaded: Loaded, column: pa.Array | None) -> Bytes:
        """uint8[n], 1 where a row read passes FILTER and its value is not NULL."""
        counts = np.ones(loaded.size, np.bool_)
        if self.call.filter is not None:
            mask = _argument(self.call.filter, loaded).fill_null(False)
            counts &= np.asarray(mask)
        if column is not None and column.null_count:
            counts &= np.asarray(column.is_valid())
        return counts.astype(np.uint8)


class Rank(Value):
    """ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE.

    Algebra:  by the row's place among its partition's rows, the place of its first peer, and how
              many rows or groups of peers there are.
    State:    [number] a row, or the bits of a float.
    """

    def compute(self, loaded: Loaded, frames: Frames) -> Cells:
        s, of = loaded.stretches, loaded.of
        start = (s.part_start - loaded.rows.dropped[s.part])[of]
        size = (s.part_end - s.part_start)[of]
        name = self.call.function
        if name == "dense_rank":
            return self._dense(loaded, frames)
        if name in ("row_number", "ntile"):
            place = loaded.rank_of(loaded.places, of) - start
            return (place + 1 if name == "row_number" else self._tile(place, size)).reshape(-1, 1)
        first, last = (loaded.rank_of(p[loaded.places], of) - start for p in loaded.peers)
        if name == "rank":
            return (first + 1).reshape(-1, 1)
        if name == "percent_rank":
            found = np.where(size > 1, first / np.maximum(size - 1, 1), 0.0)
        else:
            found = last / size
        return found.view(np.int64).reshape(-1, 1)

    def _dense(self, loaded: Loaded, frames: Frames) -> Cells:
        groups = np.cumsum(loaded.opens[loaded.places], dtype=np.int64)
        lengths = loaded.stretches.end - loaded.stretches.start
        first = np.cumsum(lengths) - lengths
        base = self._stored(loaded, frames)[:, 0] + 1 - groups[first]
        return (groups + base[loaded.of]).reshape(-1, 1)

    def _tile(self, place: Int64Array, size: Int64Array) -> Int64Array:
        argument = self.call.args[0]
        assert isinstance(argument, Literal)
        tiles = int(argument.value)
        small, larger = size // tiles, size % tiles
        border = larger * (small + 1)
        behind = larger + (place - border) // np.maximum(small, 1)
        return np.where(place < border, place // (small + 1), behind) + 1

    def column(self, rows: OverRows, copies: Int64Array, cells: Cells) -> pa.Array:
        values = np.ascontiguousarray(cells[:, 0])
        if self.call.type.is_float:
            return to_arrow(values.view(np.float64), self.call.type.arrow)
        return to_arrow(values, self.call.type.arrow)


class Pick(Value):
    """LAG, LEAD, FIRST_VALUE, LAST_VALUE, NTH_VALUE: the value of one row of the frame.

    Algebra:  LAG(x, n) is the row of the frame ROWS n PRECEDING AND n PRECEDING. With IGNORE NULLS
              rows whose value is NULL do not count.
    State:    [copy of the row that is picked, -1 = none] a row; its value stays with that row.
    """

    copy_lanes = (0,)

    def compute(self, loaded: Loaded, frames: Frames) -> Cells:
        n = pick_number(self.call)
        ignoring = self.call.ignore_nulls and (
            self.call.function not in NEIGHBOURS or self.load.extent.start != self.load.extent.end
        )
        if not ignoring and self.load.extent.exclude == "no_others":
            return self._by_rank(loaded, frames, n).reshape(-1, 1)
        counts = np.ones(loaded.size, np.uint8)
        if ignoring:
            counts = self._counted(loaded, _argument(self.call.args[0], loaded))
        present = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        out = np.empty(frames.low.size, np.int64)
        loops.nth_present(
            present, np.flatnonzero(counts), frames.low, frames.x1, frames.x2, frames.high,
            frames.own, np.full(out.size, n), out,
        )  # fmt: skip
        copies = np.where(out >= 0, loaded.copies[np.maximum(out, 0)], -1)
        return copies.reshape(-1, 1)

    def _by_rank(self, loaded: Loaded, frames: Frames, n: int) -> Int64Array:
        """The copy at place n of each frame; ends without bound are not read."""
        s, of, extent = loaded.stretches, loaded.of, self.load.extent
        low, high = loaded.rank_of(frames.low, of), loaded.rank_of(frames.high, of)
        if extent.start is None:
            low = s.part_start[of]
        if extent.end is None:
            high = s.part_end[of]
        rank = (low if n >= 0 else high) + n
        found = np.full(rank.size, -1, np.int64)
        some = (rank >= low) & (rank < high)
        read = some & (rank >= loaded.low[of]) & (rank < loaded.high[of])
        found[read] = loaded.copies[(rank - loaded.low[of] + loaded.offsets[of])[read]]
        rest = some & ~read
        if rest.any():
            distinct, which = np.unique(rank[rest], return_inverse=True)
            found[rest] = loaded.rows.at_ranks(distinct)[which]
        return found

    def column(self, rows: OverRows, copies: Int64Array, cells: Cells) -> pa.Array:
        picked = cells[:, 0]
        there = picked >= 0
        found = _values_of(self.call.args[0], rows, np.ascontiguousarray(picked[there]))
        column = _spread(found, there)
        if len(self.call.args) < 3 or bool(there.all()):
            return column
        default = _values_of(self.call.args[2], rows, copies)
        return pc.if_else(pa.array(there), column, default)


class Sum(Value):
    """COUNT, SUM, AVG, BOOL_AND, BOOL_OR of exact values.

    Algebra:  linear: prefix sums of what the rows add, from the stored result of the row in front
              where the frame has no beginning.
    State:    the accumulator's lanes a row.
    """

    def __init__(self, call: WindowCall, accumulator: Accumulator) -> None:
        super().__init__(call)
        self.accumulator = accumulator
        self.lanes = accumulator.lanes
        self.wide = 1 if isinstance(accumulator, SumWide) else -1

    def compute(self, loaded: Loaded, frames: Frames) -> Cells:
        parts = np.zeros((loaded.size, self.lanes), np.int64)
        column = _argument(self.call.args[0], loaded) if self.call.args else None
        slots = np.arange(loaded.size)
        if self.call.filter is not None:
            slots = np.flatnonzero(self._counted(loaded, None))
            column = None if column is None else column.take(pa.array(slots))
        self.accumulator.add(parts, slots, NO_WEIGHTS, column)
        before = np.empty((loaded.size + 1, self.lanes), np.int64)
        kernels.prefix(parts, self.wide, before)
        out = np.empty((frames.low.size, self.lanes), np.int64)
        kernels.sums(
            before, self.wide, frames.low, frames.x1, frames.x2, frames.high, frames.own,
            self._stored(loaded, frames), loaded.of, out,
        )  # fmt: skip
        return out

    def column(self, rows: OverRows, copies: Int64Array, cells: Cells) -> pa.Array:
        return self.accumulator.result(np.ascontiguousarray(cells))


class Real(Value):
    """SUM and AVG of floats; VARIANCE and STDDEV of any number.

    Algebra:  from the rows of the frame alone, so that a NaN or a huge value that went leaves
              nothing behind: running frames go on from the row in front (Neumaier, Welford), others
              add and take out exactly (sums) or are computed one by one (variance).
    State:    [count, sum, correction] or [count, mean, squared distances] a row; behind that, of
              floats, how many values of its frame are NaN or infinite, and (variance) how many have
              no square.
    Errors:   NumericValueOutOfRange (22003) where finite numbers give no finite result.
    """

    def __init__(self, call: WindowCall) -> None:
        super().__init__(call)
        self.moments = call.function in MOMENTS
        inner = aggregate_call(call)
        kind: type[Accumulator] = CheckedMoments if self.moments else CheckedReal
        if not call.args[0].type.is_float:
            kind = Moments
        self.accumulator = kind(inner)
        self.lanes = self.accumulator.lanes

    def compute(self, loaded: Loaded, frames: Frames) -> Cells:
        column = _argument(self.call.args[0], loaded)
        counts = self._counted(loaded, column)
        values = np.array(as_number(column).cast(pa.float64()).fill_null(0.0), np.float64)
        out = np.empty((frames.low.size, self.lanes), np.int64)
        self._results(loaded, frames, values, counts, out)
        if self.lanes > 3:
            out[:, 3:] = self._specials(loaded, frames, values, counts)
        return out

    def _specials(
        self, loaded: Loaded, frames: Frames, values: npt.NDArray[np.float64], counts: Bytes
    ) -> Cells:
        """How many values of each frame are not finite, and how many are too large."""
        finite, there = np.isfinite(values), counts > 0
        flags = [there & ~finite, there & finite & (np.abs(values) > LARGEST)][: self.lanes - 3]
        before = np.zeros((loaded.size + 1, self.lanes - 3), np.int64)
        np.cumsum(np.column_stack(flags), axis=0, out=before[1:])
        out = np.empty((frames.low.size, self.lanes - 3), np.int64)
        stored = np.ascontiguousarray(self._stored(loaded, frames)[:, 3:])
        kernels.sums(
            before, -1, frames.low, frames.x1, frames.x2, frames.high, frames.own,
            stored, loaded.of, out,
        )  # fmt: skip
        return out

    def _results(
        self, loaded: Loaded, frames: Frames, values: npt.NDArray[np.float64], counts: Bytes,
        out: Cells,
    ) -> None:  # fmt: skip
        """The first three lanes."""
        reals = out.view(np.float64)
        extent = self.load.extent
        if extent.start is None and extent.exclude == "no_others":
            base = self._stored(loaded, frames)
            start = np.zeros(frames.base.size, np.int64)
            start[loaded.of] = frames.low
            kernels.chain_reals(
                values, counts, frames.high, loaded.of, start, self.moments,
                base, base.view(np.float64), out, reals,
            )  # fmt: skip
            return
        fold = kernels.frame_moments if self.moments else exact.frame_sums
        fold(
            values, counts, frames.low, frames.x1, frames.x2, frames.high, frames.own, out, reals
        )  # fmt: skip

    def column(self, rows: OverRows, copies: Int64Array, cells: Cells) -> pa.Array:
        return self.accumulator.result(np.ascontiguousarray(cells))


class Extreme(Value):
    """MIN and MAX.

    Algebra:  the least (greatest) value of the frame, of equal ones the first in order.
    State:    [copy that holds it, -1 = none] a row.
    """

    copy_lanes = (0,)

    def compute(self, loaded: Loaded, frames: Frames) -> Cells:
        column = _argument(self.call.args[0], loaded)
        counts = self._counted(loaded, column)
        stored = self._stored(loaded, frames)[:, 0]
        chained = np.flatnonzero((frames.base >= 0) & (stored >= 0))
        copies = loaded.copies
        if chained.size:
            more = _values_of(self.call.args[0], loaded.rows, stored[chained])
            column = pa.concat_arrays([column, more])
            counts = np.concatenate([counts, np.ones(chained.size, np.uint8)])
            copies = np.concatenate([copies, stored[chained]])
        base = np.full(stored.size, -1, np.int64)
        base[chained] = loaded.size + np.arange(chained.size)
        words = _order_words(column)
        if self.call.function == "max":
            words = ~words
        out = np.empty(frames.low.size, np.int64)
        kernels.extremes(
            words, counts, np.empty(2 * words.size, np.int64), frames.low, frames.x1, frames.x2,
            frames.high, frames.own, base, loaded.of, out,
        )  # fmt: skip
        return np.where(out >= 0, copies[np.maximum(out, 0)], -1).reshape(-1, 1)

    def column(self, rows: OverRows, copies: Int64Array, cells: Cells) -> pa.Array:
        there = cells[:, 0] >= 0
        found = _values_of(self.call.args[0], rows, np.ascontiguousarray(cells[there, 0]))
        return _spread(found, there)


def make_value(call: WindowCall) -> Value:
    """The value of a call that `over_calls.refusal` has nothing against."""
    if call.function in RANKS:
        return Rank(call)
    if call.function in NEIGHBOURS or call.function.endswith("_value"):
        return Pick(call)
    if call.function in EXTREMES:
        return Extreme(call)
    inner = aggregate_call(call)
    if call.function in MOMENTS or (call.function in ("sum", "avg") and call.args[0].type.is_float):
        return Real(call)
    if call.function == "count_star":
        return Sum(call, Count(inner))
    accumulator = make(inner, True)
    if accumulator is None:
        raise InvariantViolation(f"no accumulator for {call.function}")
    return Sum(replace(call), accumulator)


# --- columns ------------------------------------------------------------------------------------
def _argument(expr: Expr, loaded: Loaded) -> pa.Array:
    """A ColumnRef or Literal over the rows read."""
    if isinstance(expr, ColumnRef):
        return loaded.column(expr.index)
    return _constant(expr, loaded.size)


def _values_of(expr: Expr, rows: OverRows, copies: Int64Array) -> pa.Array:
    """A ColumnRef or Literal of these copies."""
    if isinstance(expr, ColumnRef):
        return rows.column(expr.index, copies)
    return _constant(expr, copies.size)


def _constant(expr: Expr, n: int) -> pa.Array:
    if not isinstance(expr, Literal):
        raise InvariantViolation(f"OVER over {type(expr).__name__} was not projected below it")
    from streamsql.functions.literals import to_arrow_scalar

    return pa.repeat(to_arrow_scalar(expr), n)


def _spread(found: pa.Array, there: npt.NDArray[np.bool_]) -> pa.Array:
    """The found values where `there`, NULL elsewhere."""
    if bool(there.all()):
        return found
    index = np.cumsum(there) - 1
    return found.take(pa.array(index, pa.int64(), mask=~there))


def _order_words(column: pa.Array) -> Int64Array:
    """int64[n] that compare as the values do; NULLs mean nothing."""
    if column.type in (pa.string(), pa.binary()):
        ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
        return np.asarray(ranks).astype(np.int64)
    wide = pa.types.is_decimal128(column.type) or is_interval(column.type)
    out = np.empty((len(column), 2 if wide else 1), np.int64)
    encode([column], [OrderColumn(column.type, not_null=True)], TextPool(), out)
    if not wide:
        return np.ascontiguousarray(out[:, 0])
    order = np.lexsort((out[:, 1], out[:, 0]))
    opens = np.ones(order.size, np.int64)
    opens[1:] = (out[order[1:]] != out[order[:-1]]).any(axis=1)
    words = np.empty(order.size, np.int64)
    words[order] = np.cumsum(opens)
    return words
