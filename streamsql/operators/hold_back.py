"""EMIT ON WINDOW CLOSE for any rows: keep them until the watermark has passed their window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamsql.circuit.operator import Operator, State, Step
from streamsql.core.delta import Delta, Int64Array, concat
from streamsql.core.errors import NegativeWeight
from streamsql.core.logical_time import END_OF_TIME, NO_WATERMARK
from streamsql.core.schema import Schema
from streamsql.operators import saved
from streamsql.operators.builder import Builder
from streamsql.operators.columns import sort_order
from streamsql.operators.event_time import event_time_us
from streamsql.operators.interval_log import moved
from streamsql.operators.late import is_late, report_late
from streamsql.operators.map import move
from streamsql.state.consolidate import consolidate

FRESH_MAX = 64  # deltas that are not sorted in yet


@dataclass(slots=True)
class Run:
    """Rows that wait, in the order of their close times (int64[n], µs)."""

    times: Int64Array
    rows: Delta


def _tail(run: Run, start: int) -> Run:
    """The rows from there on; a copy once most have left, whose memory it would hold."""
    times, weights = run.times[start:], run.rows.weights
    if times.base is not None and times.base.size > 2 * times.size:
        return Run(times.copy(), run.rows.take(np.arange(start, run.times.size)))
    weights = None if weights is None else weights[start:]
    return Run(times, Delta(run.rows.batch.slice(start), weights))


class HoldBack(Operator):
    """Give every row out once, when its window closes (EMIT ON WINDOW CLOSE).

    Algebra:  of the input's Z-set, the rows whose close time the watermark has reached.
    Non-linear in
              time: what is given out is final.
    Input:    delta [n rows]; close time = the largest of the close columns, plus the allowed
    lateness. Columns of one side of an outer join may be NULL: then the largest of the others.
    Output:   rows with weights > 0, in the order of their close times and then of their columns.
    State:    the rows that wait, in runs sorted by close time, each at least twice as long as the
              next; freed when they are given out.
    Cost:     O(changed rows x log waiting rows), and a sort of what closes.
    Errors:   a change to a row that closed before it came is late, and dropped.
    """

    needs_time = True

    def __init__(
        self, schema: Schema, columns: dict[int, int], lateness_us: int, judges: bool,
        optional: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        """columns: position -> µs to add to its value (window_end 0, an event time 1). judges: rows
        stand for themselves, so late ones are found here; else the windows below did that, and
        what comes for a closed window (a delete made its session end earlier) is final too.
        optional: columns that are NULL in a row say nothing of it, as in `Operator.ends`; where all
        are, one has to be there."""
        super().__init__(schema)
        self.port: int | None = None  # the input of a join that it holds back
        self.judges = judges
        self.columns = columns
        self.optional = optional
        self.time_column = next(iter(columns)) if judges and len(columns) == 1 else None
        self.behind_us = 0 if self.time_column is None else columns[self.time_column] - 1
        """In whose order rows are given out, and how far behind the watermark."""
        self.lateness_us = lateness_us
        self.runs: list[Run] = []
        self.fresh: list[Delta] = []  # came since
        self.first = END_OF_TIME  # the earliest close time of all
        self.released = NO_WATERMARK

    def step(self, step: Step, *deltas: Delta) -> Delta:
        if deltas[0]:
            self._take(step, deltas[0])
        return self._release(min(step.input_watermarks, default=NO_WATERMARK))

    def _take(self, step: Step, delta: Delta) -> None:
        times, valid = self._close_us(delta.batch)
        if valid is not None:
            step.null_event_times += int(times.size - np.count_nonzero(valid))
            delta, times = delta.take(np.flatnonzero(valid)), times[valid]
        if self.judges:
            delta, times = self._on_time(step, delta, times)
        self._keep(Delta(delta.batch, delta.weights), times)

    def _on_time(self, step: Step, delta: Delta, times: Int64Array) -> tuple[Delta, Int64Array]:
        """Without the entries whose row closed before they came."""
        before = delta.row_watermark
        if before is None:
            before = np.full(times.size, self.released)
        late = is_late(times, before, self.lateness_us)
        if not bool(late.any()):
            return delta, times
        judged = Delta(delta.batch, delta.weights, before)
        event, _ = self._latest(delta.batch, dict.fromkeys(self.columns, 0))
        report_late(step, self, judged, np.flatnonzero(late), event, self.schema, self.origins,
                    self.port)  # fmt: skip
        kept = np.flatnonzero(~late)
        return delta.take(kept), times[kept]

    def _close_us(self, batch: pa.RecordBatch) -> tuple[Int64Array, np.ndarray | None]:
        """(close time of each row without the allowed lateness, which rows have one or None)."""
        return self._latest(batch, self.columns)

    def _latest(
        self, batch: pa.RecordBatch, columns: dict[int, int]
    ) -> tuple[Int64Array, np.ndarray | None]:
        """The largest of these columns, with the µs added, of each row; and which rows have it."""
        found: Int64Array | None = None
        mask: np.ndarray | None = None
        for column, plus in columns.items():
            values, valid = event_time_us(batch.column(column))
            close = moved(values, plus)
            if column in self.optional:
                if valid is not None:
                    close = np.where(valid, close, NO_WATERMARK)
            elif valid is not None:
                mask = valid if mask is None else mask & valid
            found = close if found is None else np.maximum(found, close)
        assert found is not None
        if len(self.optional) == len(self.columns):
            known = found != NO_WATERMARK
            mask = None if bool(known.all()) else known
        return found, mask

    def _keep(self, delta: Delta, times: Int64Array) -> None:
        if not times.size:
            return
        self.first = min(self.first, int(times.min()))
        self.fresh.append(delta)
        if len(self.fresh) >= FRESH_MAX or delta.num_rows >= FRESH_MAX:
            self._sort_in()

    def _sort_in(self) -> None:
        """Make a run of what is fresh, and one of it and runs that are not much longer."""
        if not self.fresh:
            return
        whole = concat(self.fresh, self.schema)
        self.fresh = []
        while self.runs and self.runs[-1].times.size <= 2 * whole.num_rows:
            whole = concat([self.runs.pop().rows, whole], self.schema)
        self._push(whole)

    def _push(self, rows: Delta) -> None:
        """One more run."""
        if rows.weights is not None:
            rows = consolidate(rows)
        times, _ = self._close_us(rows.batch)
        if bool((times[1:] < times[:-1]).any()):
            order = np.argsort(times, kind="stable")
            rows, times = rows.take(order), times[order]
        if times.size:
            self.runs.append(Run(times, rows))

    def _shrink(self) -> None:
        """All rows in one run, each once."""
        parts = [*(run.rows for run in self.runs), *self.fresh]
        if parts:
            self.runs, self.fresh = [], []
            whole = concat(parts, self.schema)
            self._push(Delta(whole.batch, whole.weights_or_ones()))

    def _release(self, watermark: int) -> Delta:
        limit = (
            watermark - self.lateness_us
            if watermark > NO_WATERMARK + self.lateness_us
            else watermark
        )
        self.released = max(self.released, watermark)
        if not (self.first <= limit and watermark < END_OF_TIME):
            return Delta.empty(self.schema)
        self._sort_in()
        due, self.runs = self._cut(limit)
        self.first = min((int(run.times[0]) for run in self.runs), default=END_OF_TIME)
        whole = consolidate(concat(due, self.schema))
        if whole.weights is not None and whole.num_rows and int(whole.weights.min()) < 0:
            raise NegativeWeight("a row that waited for its window was taken back too often")
        times, _ = self._close_us(whole.batch)
        return whole.take(sort_order([pa.array(times), *whole.batch.columns]))

    def _cut(self, limit: int) -> tuple[list[Delta], list[Run]]:
        """(what closes by then, the runs of what stays)."""
        due, kept = [], []
        for run in self.runs:
            n = int(np.searchsorted(run.times, limit, "right"))
            size = run.times.size
            if n:
                due.append(run.rows.take(np.arange(n)))
            if n < size:
                kept.append(_tail(run, n) if n else run)
        return due, kept

    def state_rows(self) -> int:
        self._shrink()
        return sum(run.times.size for run in self.runs)

    def state_bytes(self) -> int:
        held = [*(run.rows for run in self.runs), *self.fresh]
        return sum(d.nbytes for d in held)

    def save(self) -> State:
        self._shrink()
        whole = concat([run.rows for run in self.runs], self.schema)
        return {
            "rows": pa.Table.from_batches([whole.batch]),
            "weights": saved.columns(weight=whole.weights_or_ones()),
            "released": saved.numbers(watermark=self.released),
        }

    def load(self, state: State) -> None:
        self.runs, self.fresh, self.first = [], [], END_OF_TIME
        self.released = saved.number(state["released"], "watermark")
        batch = saved.table_batch(state["rows"], self.schema)
        times, _ = self._close_us(batch)
        self._keep(Delta(batch, saved.array(state["weights"], "weight")), times)

    @property
    def holds_open(self) -> str:
        return "row" if self.judges else "window"

    def open_until_us(self) -> int | None:
        first = self.first
        waiting = [*(run.rows for run in list(self.runs)), *list(self.fresh)]
        if any(rows.weights is not None for rows in waiting):  # some may have been taken back
            times, _ = self._close_us(consolidate(concat(waiting, self.schema)).batch)
            first = int(times.min()) if times.size else END_OF_TIME
        return None if first == END_OF_TIME else first + self.lateness_us

    def explain(self) -> dict[str, str]:
        return {
            "state": "the rows whose window is open",
            "freed": "when the watermark closes their window",
            "detail": "EMIT ON WINDOW CLOSE",
        }


def add_hold_back(build: Builder, source: int, by: int | None = None) -> int | None:
    """Hold back the rows of a node by its windows, else by its event times; None if it has none.

    by: the event time in whose order rows are wanted; None as well where they can not be."""
    below = build.operator(source)
    if below.ends and not (below.closes or below.ends_suffice):
        return None  # its inputs are held back, each by its own windows
    nullable = not below.closes and bool(below.ends)  # of either side, so all inputs have to pass
    judges = not below.closes and not nullable
    columns = dict(below.closes) or dict(below.ends)
    if not columns:
        # a row comes on time by the latest of its times; if that may be lost, by each of them
        behind = below.delays if below.lost_times else {}
        columns = {i: 1 + behind.get(i, 0) for i in sorted(below.event_times)} | dict(below.waits)
        if by is not None:  # rows may not overtake those that come by a later time of theirs
            if below.waits.keys() - {by}:
                return None
            late = below.delays.get(by, 0) if below.lost_times or len(below.event_times) > 1 else 0
            columns = {by: max(1 + late, below.waits.get(by, 1))}
    optional = frozenset(columns if nullable else ())
    if judges:
        optional = frozenset(below.waits) - below.event_times
    if not columns:
        return None

    def make() -> HoldBack:
        made = HoldBack(below.schema, columns, below.lateness_us, judges, optional)
        move(below, made, {i: [i] for i in range(len(below.schema))})
        if optional:
            made.ends = columns
        else:
            made.closes = columns
        made.waits = {}
        made.append_only = True
        # a row comes when the last of these times has passed, and more: windows over others, that
        # closed by the watermark, would have done so before
        made.event_times = frozenset(c for c in made.event_times if columns.get(c, 2) <= 1)
        if judges and len(columns) > 1:
            made.ends, made.closes, made.ends_suffice = columns, {}, True
            made.event_times = frozenset()
        return made

    return build.add("hold-back", [source], columns, make, private=True)
