"""What an operator is: a stateful function from input deltas to an output delta."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from streamsql.core.delta import Delta
from streamsql.core.logical_time import NO_WATERMARK
from streamsql.core.schema import Schema

State = Mapping[str, pa.Table]
"""Saved state of one operator: named Arrow tables (scalars go into a one-row table)."""


class Algebra(enum.Enum):
    """What the generic law tests may assume of an operator."""

    LINEAR = "linear"
    BILINEAR = "bilinear"
    NON_LINEAR = "non-linear"


@dataclass
class LateRow:
    """Late rows found by one operator in one tick, for `streamsql.late_rows`.

    batch: the dropped rows [n]; event_time_us, watermark_us: int64 [n]. port: the input of the
    operator that they came by; None = they are made of what all its inputs gave.
    """

    operator: str
    batch: pa.RecordBatch
    schema: Schema
    event_time_us: object
    watermark_us: object
    weights: object = None  # int64 [n], or None = all +1
    node: int = -1  # filled in by the circuit
    port: int | None = None


@dataclass
class RowError:
    """A row that an expression failed on, for `streamsql.view_errors`."""

    operator: str
    sqlstate: str
    message: str
    row_json: str
    weight: int
    node: int = -1  # filled in by the circuit


@dataclass
class Step:
    """What one tick tells every operator, and what operators report back.

    tick: the version being made. now_us: the tick's clock, µs. input_watermarks: watermark of each
    input *after* this tick's rows, µs (filled by the circuit for each operator before its step).
    late, errors: appended to by operators. null_event_times: rows without an event time, counted.
    filling: whether these are the first rows of new nodes, all that came so far at once.
    given, schemas: what sources and views gave in this tick, by node (`Operator.origins` points
    there), and under which columns.
    """

    tick: int
    now_us: int
    input_watermarks: tuple[int, ...] = ()
    late: list[LateRow] = field(default_factory=list)
    errors: list[RowError] = field(default_factory=list)
    null_event_times: int = 0
    filling: bool = False
    given: dict[int, Sequence[Delta]] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)


class Operator(abc.ABC):
    """Base of all operators. One instance is one node of the circuit.

    Contract of `step`: input deltas may be empty and need not be consolidated; the output may be
    unconsolidated unless the subclass says more. A step with empty inputs must still be made when
    a watermark or the clock moved (`needs_time`). Weights of the output must make the accumulated
    output equal the operator's function of the accumulated inputs.
    """

    algebra: Algebra = Algebra.NON_LINEAR
    maintenance: str = "incremental"  # incremental | recompute per key | recompute
    needs_time: bool = False
    rowwise: bool = False  # one input, each row by itself: parts of a delta may come one by one
    leads: bool = False  # its watermark is that of its first input alone
    recedes: bool = False  # a row may come whose `closes` has passed (sessions shrink)
    ends_suffice: bool = False  # rows are final once the columns of `ends` in them have passed
    consolidates: bool = False  # promises no row twice (under one watermark), no weight 0

    @property
    def exact(self) -> bool:
        """Whether what it has put out so far follows from what it was given, to the last bit,
        whenever and in whatever parts that came."""
        return False

    def __init__(self, schema: Schema) -> None:
        """What `lower` may set afterwards:

        append_only: no output entry ever has a negative weight. event_times: output columns that
        the watermark speaks of. closes: column -> µs; a row changes no more once the watermark
        reaches the column's value plus that (window_end: 0), plus `lateness_us`. ends: more such
        columns that are NULL in some rows (of outer joins); a row is final when those of its
        columns that are not NULL have passed, in both sets. waits: column -> µs, in the same way,
        of rows that change until then by partners that come (outer interval joins) and are not
        judged late here; those of them that are no event times may be NULL. delays: event time ->
        µs; rows that were on time below come until the watermark is so far past it, because a
        partner near in time brings them. gaps: (i, j) -> µs; a row's column i is never further than
        that below its column j. lost_times: rows have event times besides that are not among the
        columns. lost_ends: the same of the ends of windows. determined: column -> the column whose
        value decides it (window_end -> window_start). useless: column -> µs, as in `closes`, of
        rows below time windows: what comes after that is left out here, since these windows, and
        nothing but them, will hold it (`operators.on_time`); so nobody needs what is kept of it.
        origins: column -> (node, column) of the source or view that it is a plain copy of.
        """
        self.schema = schema
        self.watermark = NO_WATERMARK
        self.append_only = False
        self.event_times: frozenset[int] = frozenset()
        self.closes: Mapping[int, int] = {}
        self.ends: Mapping[int, int] = {}
        self.waits: Mapping[int, int] = {}
        self.useless: Mapping[int, int] = {}
        self.delays: Mapping[int, int] = {}
        self.gaps: Mapping[tuple[int, int], int] = {}
        self.lost_times = False
        self.lost_ends = False
        self.lateness_us = 0
        self.determined: Mapping[int, int] = {}
        self.origins: Mapping[int, tuple[int, int]] = {}
        # set during a backfill on older nodes: new readers get all their rows as one delta, so
        # what they look up as the rows before it must be empty
        self.given_whole = False

    @property
    def name(self) -> str:
        """The SQL word shown by EXPLAIN."""
        return type(self).__name__

    @abc.abstractmethod
    def step(self, step: Step, *deltas: Delta) -> Delta:
        """One tick: take each input's delta, return the output's."""

    def advance_watermark(self, inputs: tuple[int, ...]) -> int:
        """The output watermark after this tick: the minimum of the inputs', never falling.
        Operators that hold rows back (EMIT ON WINDOW CLOSE) override it."""
        if inputs:
            self.watermark = max(self.watermark, min(inputs))
        return self.watermark

    def note_sources(self, sources: Sequence[frozenset[int]]) -> None:  # noqa: B027
        """Called once, by who adds the operator. sources: of each input, the nodes below from which
        its watermark comes."""

    def commit(self) -> None:  # noqa: B027  (only operators that share their state have to)
        """Called once after every operator of the tick has stepped, if this one did. Shared
        arrangements apply their delta here, so that all readers of one tick see the old rows."""

    def current(self, *inputs: Delta) -> Delta | None:
        """The accumulated output, without changing any state, or None if it is not known.

        inputs: the accumulated inputs, for operators without state of their own. A view made over
        a shared node starts from this.
        """
        return None

    @property
    def replays(self) -> bool:
        """Whether `current` gives rows the watermarks that they are judged by, as `step` did, where
        the inputs have theirs. All that are `rowwise` do."""
        return self.rowwise

    @property
    def retells(self) -> bool:
        """Whether `retell` may have something to report."""
        return False

    def retell(self, step: Step, *inputs: Delta) -> Delta | None:
        """`current` for a new view; operators that keep no rows report again what they dropped."""
        return self.current(*inputs)

    def failure(self) -> tuple[str, str] | None:
        """(sqlstate, message) while a row that failed under `on_error = 'fail'` is still there."""
        return None

    def save(self) -> State:
        """Everything `load` needs to go on as if never stopped; {} for stateless operators."""
        return {}

    def load(self, state: State) -> None:  # noqa: B027  (stateless operators have nothing to load)
        """Inverse of `save`, called on a fresh instance before its first step."""

    def state_rows(self) -> int:
        """Rows of state held now; 0 after the inverse of the whole history (tests check)."""
        return 0

    def state_bytes(self) -> int:
        """Bytes of state held now."""
        return 0

    @property
    def holds_open(self) -> str:
        """What waits here for the watermark to close it: window, session or row; "": nothing."""
        return ""

    def open_until_us(self) -> int | None:
        """The watermark (µs) at which the oldest of what it `holds_open` closes; None: nothing is
        open. Called while ticks are made: what it reads may be changing."""
        return None

    def next_timer_us(self) -> int | None:
        """Clock time (µs) at which this operator wants an empty tick, or None."""
        return None

    def explain(self) -> dict[str, str]:
        """Fields for EXPLAIN beside the name: `state` (what is kept), `freed` (when), `detail`,
        `why`."""
        return {}


StepFunction = Callable[..., Delta]
