"""What an aggregate keeps per group, and how rows, partial groups and results go through it."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamsql.core.delta import Int64Array
from streamsql.core.types import SqlType
from streamsql.functions.expressions import AggregateCall

Cells = npt.NDArray[np.int64]


class Accumulator(abc.ABC):
    """One aggregate over all groups: it owns the lanes [at, at + lanes) of each group's cells.

    lanes: how many int64 lanes it needs. retracts: whether rows may be taken back. mergeable:
    whether partial groups can be folded in (`merge`), which HOP and sessions use. exact: merging
    gives the very lanes that `add` would have given, so that a tick's rows may be folded among
    themselves first. Most keep everything in their lanes; those that can not override the `side`
    methods.
    """

    lanes: int = 1
    retracts: bool = True
    mergeable: bool = True
    exact: bool = False
    keeps: str = ""
    """What is held beside the group's cells, for EXPLAIN; of those that override `side_rows`."""

    def __init__(self, call: AggregateCall) -> None:
        self.call = call
        self.at = 0

    @property
    def type(self) -> SqlType:
        return self.call.type

    def shown_by(self) -> Sequence[tuple[int, bool]] | None:
        """Lanes that say all of `result`, each with whether only its being above 0 does: two
        states print the same exactly where these agree. None = compare what is printed."""
        return None

    @abc.abstractmethod
    def add(
        self, cells: Cells, slots: Int64Array, weights: Int64Array, column: pa.Array | None
    ) -> None:
        """Fold rows in. slots: int64[n], the group of each row; weights: int64[n] or empty = +1;
        column: the argument [n], None for count(*)."""

    @abc.abstractmethod
    def merge(self, cells: Cells, slots: Int64Array, part: Cells) -> None:
        """Fold partial groups in: part int64[m, lanes of the group], slots int64[m]."""

    @abc.abstractmethod
    def result(self, cells: Cells) -> pa.Array:
        """The aggregate's value for gathered cells int64[m, lanes of the group], in
        `call.type.arrow`."""

    # state outside of the cells ----------------------------------------------------------------
    def settle(self, cells: Cells, touched: Int64Array) -> None:  # noqa: B027
        """Called once a tick after all rows are in, before results are read from `touched`."""

    def tidy(self, cells: Cells) -> None:  # noqa: B027
        """Called at the end of a tick, when nobody holds gathered cells any more."""

    def free(self, slots: Int64Array) -> None:  # noqa: B027
        """These groups are gone."""

    def side_rows(self) -> int:
        """Entries held outside of the cells."""
        return 0

    def side_bytes(self) -> int:
        """Bytes held outside of the cells."""
        return 0

    def save(self) -> Mapping[str, pa.Table]:
        """State outside of the cells."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Inverse of `save`."""
