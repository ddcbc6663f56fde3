"""The rows of one side of an interval join, for as long as partners may come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.kernels.arrays import int64s
from streamsql.kernels.hashing import Lanes, any_null, hash_columns
from streamsql.kernels.multimap import Multimap
from streamsql.operators.event_time import event_time_us
from streamsql.operators.interval_bounds import Bound
from streamsql.operators.late import report_late
from streamsql.operators.loops import intervals as loops
from streamsql.state.consolidate import consolidate

MERGE_ROWS = 1 << 16  # a piece of so many rows is left as it is
SCAN_KEYS = 8  # so few keys are looked for by looking at every row
NEVER, EVER = -(2**63), 2**63 - 1


class Piece:
    """Rows that came together, by reference, with times and bounds (µs); an index once it pays.

    time: int64[n], of the row. bound: int64[n], the latest time of a partner.
    """

    def __init__(
        self, delta: Delta, time: Int64Array, bound: Int64Array, keys: Sequence[int]
    ) -> None:
        self.delta = delta
        self.time = time
        self.bound = bound
        self.keys = tuple(keys)
        self.last = int(bound.max()) if bound.size else NEVER
        self.searches = 0
        self._lanes: Lanes | None = None
        self._index: Multimap | None = None

    @property
    def lanes(self) -> Lanes:
        """The hashed keys of the rows."""
        if self._lanes is None:
            self._lanes = hash_columns(self.delta.batch, self.keys)
        return self._lanes

    def probe(self, lanes: Lanes) -> tuple[Int64Array, Int64Array]:
        """(position in the probe, row) of equal keys. Few keys are looked for in all rows; more of
        them are indexed rather than the rows, the first time."""
        if self._index is None and lanes[0].size <= SCAN_KEYS:
            return self._scan(lanes)
        self.searches += 1
        n, k = self.time.size, lanes[0].size
        if self._index is None and self.searches == 1 and k < n // 4:
            table = Multimap()
            table.link(*lanes, np.arange(k))
            row, position = table.probe(*self.lanes)
            return position, row
        if self._index is None:
            self._index = Multimap()
            self._index.link(*self.lanes, np.arange(n))
        return self._index.probe(*lanes)

    def _scan(self, lanes: Lanes) -> tuple[Int64Array, Int64Array]:
        room = 64
        while True:
            key, row = np.empty(room, np.int64), np.empty(room, np.int64)
            found = loops.scan(*self.lanes, *lanes, key, row)
            if found <= room:
                return key[:found], row[:found]
            room = found

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        index = 0 if self._index is None else self._index.nbytes
        return int(self.delta.batch.nbytes + self.time.nbytes + self.bound.nbytes + index)


class IntervalLog:
    """Pieces of one side, oldest first; retractions are entries like any others.

    Neighbouring small pieces are merged, so that there are few of them. Cost: an append copies
    nothing; each row is copied O(log rows) times while its piece is small.
    """

    def __init__(
        self, schema: Schema, keys: Sequence[int], strict: Sequence[int], own: Bound, other: Bound
    ) -> None:
        """strict: keys whose NULLs match nothing. own: bounds these rows; other: bounds the other
        side's rows, by the time of these."""
        self.schema = schema
        self.keys = tuple(keys)
        self.strict = list(strict)
        self.own = own
        self.time_column = other.time
        self.pieces: list[Piece] = []

    def piece(self, delta: Delta) -> Piece:
        """The entries that may match at all."""
        time, bound, alive = self._times(delta.batch)
        if self.strict:
            nulls = any_null(delta.batch, self.strict)
            if bool(nulls.any()):
                alive = ~nulls if alive is None else alive & ~nulls
        if alive is not None and not bool(alive.all()):
            chosen = np.flatnonzero(alive)
            delta, time, bound = delta.take(chosen), time[chosen], bound[chosen]
        return Piece(delta, int64s(time), int64s(bound), self.keys)

    def _times(self, batch: pa.RecordBatch) -> tuple[Int64Array, Int64Array, np.ndarray | None]:
        """(time, bound, rows that have both or None = all)."""
        time, valid = event_time_us(batch.column(self.time_column))
        until, known = event_time_us(batch.column(self.own.until))
        alive = valid if known is None else (known if valid is None else valid & known)
        return time, moved(until, self.own.plus_us), alive

    def append(self, piece: Piece) -> None:
        """Keep a piece."""
        if piece.time.size:
            self.pieces.append(piece)

    def forget(self, passed: int) -> None:
        """Drop rows whose span ended before `passed` (µs), below which no partner is on time, and
        merge what is small."""
        self.pieces = [p for p in self.pieces if p.last >= passed]
        while len(self.pieces) > 1:
            a, b = self.pieces[-2], self.pieces[-1]
            if a.time.size > 2 * b.time.size or a.time.size + b.time.size > MERGE_ROWS:
                break
            self.pieces[-2:] = self._merged([a, b], passed)

    def _merged(self, pieces: Sequence[Piece], passed: int) -> list[Piece]:
        """One piece of the rows that still count, or none."""
        parts = []
        for piece in pieces:
            kept = np.flatnonzero(piece.bound >= passed)
            delta = Delta(piece.delta.batch, piece.delta.weights)
            parts.append(delta if kept.size == piece.time.size else delta.take(kept))
        whole = concat(parts, self.schema)
        if whole.weights is not None:
            whole = consolidate(whole)
        return [self.piece(whole)] if whole else []

    def shrink(self) -> int:
        """Add all entries up; returns how many rows are left."""
        if any(p.delta.weights is not None for p in self.pieces):
            self.pieces = self._merged(self.pieces, NEVER)
        return self.entries

    @property
    def entries(self) -> int:
        """Entries held."""
        return sum(p.time.size for p in self.pieces)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(p.nbytes for p in self.pieces)

    def contents(self) -> Delta:
        """All entries."""
        parts = [Delta(p.delta.batch, p.delta.weights) for p in self.pieces]
        return concat(parts, self.schema)


def passed_us(watermark: int, lateness_us: int) -> int:
    """Times below it are over for good, µs."""
    if watermark == END_OF_TIME or watermark <= NO_WATERMARK + lateness_us:
        return NEVER
    return watermark - lateness_us


def moved(times: Int64Array, plus_us: int) -> Int64Array:
    """int64[n]: times so much later, µs; infinite or out of range: an end of time."""
    if not plus_us:
        return times
    found: Int64Array = times + plus_us
    infinite = (times == EVER) | (times <= NEVER + 1)
    wrapped = (found < times) != (plus_us < 0)
    if bool((infinite | wrapped).any()):
        found = np.where(infinite | wrapped, np.where(times > 0, EVER, NEVER), found)
    return found


def on_time(
    step: Step, operator: Operator, side: int, delta: Delta, schema: Schema, time_column: int,
    patience_us: int,
) -> Delta:  # fmt: skip
    """One side's entries without those whose span was over when they came; these are reported."""
    marks = delta.row_watermark
    if marks is None:
        return delta
    time, valid = event_time_us(delta.batch.column(time_column))
    late = time < np.maximum(marks, NO_WATERMARK + patience_us) - patience_us
    if valid is not None:
        late &= valid
    if not bool(late.any()):
        return delta
    report_late(step, operator, delta, np.flatnonzero(late), time, schema, port=side)
    return delta.take(np.flatnonzero(~late))
