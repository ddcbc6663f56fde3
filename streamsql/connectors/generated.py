"""What made-up sources share: rows in numbered blocks, a pace, and a row number as position."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from streamsql.connectors.base import BadRow, Position, SourceBatch, SourceReader

Clock = Callable[[], float]
"""Seconds that only grow."""


class GeneratedSource(SourceReader):
    """Rows that a number makes: block n holds the rows from n * block_rows on, and is the same each
    time, so that any position can be sought.

    rows_per_second: 0 = as fast as they are asked for; limit: rows in all, None = for ever.
    One partition, "0"; its position is a row number.
    """

    INCLUDES = ("partition", "offset")

    def __init__(
        self,
        *,
        block_rows: int,
        rows_per_second: float = 0.0,
        limit: int | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._block_rows = block_rows
        self._rows_per_second = rows_per_second
        self._limit = limit
        self._clock = clock
        self._row = 0
        self._start: tuple[float, int] | None = None
        self._block: tuple[int, pa.RecordBatch] | None = None

    @abstractmethod
    def make_block(self, number: int) -> pa.RecordBatch:
        """The rows of a block, `block_rows` of them (the last one may be shorter)."""

    def poll(self, max_rows: int) -> list[SourceBatch]:
        """The rows that are due."""
        upto = self._row + max_rows
        if self._limit is not None:
            upto = min(upto, self._limit)
        if self._rows_per_second:
            now = self._clock()
            if self._start is None:
                self._start = (now, self._row)
            due = int((now - self._start[0]) * self._rows_per_second) + 1
            upto = min(upto, self._start[1] + due)
        out = []
        while self._row < upto:
            number, at = divmod(self._row, self._block_rows)
            rows = min(upto - self._row, self._block_rows - at)
            if self._block is None or self._block[0] != number:
                self._block = (number, self.make_block(number))
            self._row += rows
            batch = self._block[1].slice(at, rows)
            before = partial(_row_number, self._row - rows)
            included = self._included(rows)
            out.append(SourceBatch("0", batch, self._row, included=included, before=before))
        return out

    def _included(self, rows: int) -> dict[str, pa.Array]:
        """Of the `rows` before the present one."""
        found: dict[str, pa.Array] = {}
        for kind in self.include_kinds:
            if kind == "partition":
                found[kind] = pa.array(["0"] * rows, pa.string())
            else:
                found[kind] = pa.array(np.arange(self._row - rows, self._row, dtype=np.int64))
        return found

    def positions(self) -> dict[str, Position]:
        return {"0": self._row} if self._row else {}

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._row = int(positions.get("0", 0))
        self._start = None

    @property
    def finished(self) -> bool:
        return self._limit is not None and self._row >= self._limit


def _row_number(start: int, row: int, bad: BadRow | None) -> Position:
    """`SourceBatch.before` of a batch that begins at row `start`."""
    return start + row
