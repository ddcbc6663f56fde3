"""OVER calls as the operator sees them: what is ordered, how far a change reaches, what is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamsql.core.errors import FeatureNotSupported, StreamSqlError
from streamsql.core.types import Kind, SqlType
from streamsql.functions.expressions import (
    AggregateCall,
    ColumnRef,
    Expr,
    Frame,
    FrameBound,
    Literal,
    WindowCall,
)
from streamsql.kernels.order_keys import OrderColumn, can_order
from streamsql.operators.accumulators import make
from streamsql.operators.accumulators.moments import NAMES as MOMENTS
from streamsql.operators.ties import Tie, ties_of

RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
NEIGHBOURS = frozenset({"lag", "lead"})
ENDS = frozenset({"first_value", "last_value", "nth_value"})
SUMS = frozenset({"count_star", "count", "sum", "avg", "bool_and", "bool_or"})
EXTREMES = frozenset({"min", "max"})
OFFSET_MAX = 1 << 40
"""Beyond that no partition has rows: offsets are cut to it so that sums of positions stay exact."""

_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
_INTEGERS = frozenset({Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT})


@dataclass(frozen=True)
class Shift:
    """How far a RANGE frame ends from its row, in the order's direction (negative = preceding).

    amount: in the values of the order column, µs for dates and times; months come on top.
    """

    amount: int | float
    months: int = 0


Step = int | Shift | None
"""An end of a frame: rows or groups from the current one, or a Shift; 0 = the current row (in RANGE
and GROUPS its peers), None = unbounded."""


@dataclass(frozen=True)
class Extent:
    """A frame. mode: rows, groups or range. exclude: no_others, current_row, group, ties."""

    mode: str
    start: Step
    end: Step
    exclude: str = "no_others"


@dataclass(frozen=True)
class Reach:
    """Which rows a row that comes or goes has a say in: those whose frame holds it.

    edge: only the first so many rows of a partition decide (n >= 0: a change behind row n touches
    no other row), or the last one alone (-1); None = any.
    """

    mode: str
    start: Step
    end: Step
    edge: int | None = None


@dataclass(frozen=True)
class Load:
    """What is read to compute a stretch of rows.

    left, right: how a frame without bound on that side is known: `base` (from the stored result of
    the neighbour of the stretch), `all` (its rows are read), `free` (its ends are not read).
    """

    extent: Extent
    left: str = "all"
    right: str = "all"


@dataclass(frozen=True)
class Order:
    """PARTITION BY and ORDER BY. partition: columns; order: columns and how they are ordered; ties:
    what orders rows that are equal there, without making them no peers."""

    partition: tuple[int, ...]
    order: tuple[tuple[int, OrderColumn], ...]
    ties: tuple[Tie, ...] = ()


def order_of(call: WindowCall) -> Order:
    """The rows' order for a call that `refusal` has nothing against."""
    partition = [e.index for e in call.partition_by if isinstance(e, ColumnRef)]
    order = [
        (k.expr.index, OrderColumn(k.expr.type.arrow, k.descending, k.nulls_first))
        for k in call.order_by
        if isinstance(k.expr, ColumnRef)
    ]
    return Order(tuple(dict.fromkeys(partition)), tuple(order), ties_of(call.ties))


def aggregate_call(call: WindowCall) -> AggregateCall:
    """The call without its window."""
    return AggregateCall(function=call.function, args=call.args, type=call.type)


def refusal(call: WindowCall) -> str | None:
    """Why a call is computed again for the touched partitions; None = it is kept incrementally."""
    name = f"{call.function}()"
    if call.distinct:
        return f"{name} is DISTINCT"
    for expr in (*call.partition_by, *(k.expr for k in call.order_by), *call.args):
        if not isinstance(expr, ColumnRef | Literal):
            return f"{name} is over an expression that is not a column"
    for key in call.order_by:
        if not can_order(key.expr.type.arrow):
            return f"ORDER BY {key.expr.type} has no ordered index"
    return _refused_function(call, name) or _refused_frame(call)


def _refused_function(call: WindowCall, name: str) -> str | None:
    if call.function in NEIGHBOURS | {"nth_value", "ntile"}:
        if call.function == "ntile":
            offset: Expr | None = call.args[0]
        else:
            offset = call.args[1] if len(call.args) > 1 else None
        if offset is not None and not (isinstance(offset, Literal) and offset.value is not None):
            return f"the offset of {name} is not a constant"
        least = 1 if call.function in ("nth_value", "ntile") else -OFFSET_MAX
        if isinstance(offset, Literal) and offset.value < least:
            return f"the argument of {name} must be greater than zero"
        return None
    if call.function in RANKS | ENDS:
        return None
    if call.function in EXTREMES:
        known = can_order(call.args[0].type.arrow)
        return None if known else f"{call.args[0].type} has no ordered index"
    if call.function in SUMS | MOMENTS:
        made = make(aggregate_call(call), True)
        return None if made is not None else f"{name} of {call.args[0].type} is not incremental"
    return f"{name} has no incremental form over a frame"


def _refused_frame(call: WindowCall) -> str | None:
    frame = call.frame
    if frame is None:
        return None
    try:
        extent = frame_extent(frame, call)
    except StreamSqlError as error:
        return str(error)
    for step in (extent.start, extent.end):
        if isinstance(step, Shift) and (len(order_of(call).order) != 1 or len(call.order_by) != 1):
            return "RANGE with an offset over a constant"
    return None


class _Refused(FeatureNotSupported):
    """A frame without an incremental form; the message says why."""


# --- frames -------------------------------------------------------------------------------------
def extent_of(call: WindowCall) -> Extent:
    """The frame of a call; neighbours are frames of one row."""
    if call.function in NEIGHBOURS:
        return _neighbour_extent(call)
    if call.frame is None:
        return Extent("range", None, 0)
    return frame_extent(call.frame, call)


def _neighbour_extent(call: WindowCall) -> Extent:
    n = neighbour_offset(call)
    if call.ignore_nulls and n:
        return Extent("rows", None, -1) if n < 0 else Extent("rows", 1, None)
    return Extent("rows", n, n)


def neighbour_offset(call: WindowCall) -> int:
    """Rows from the current one to that of LAG (below 0) or LEAD."""
    n = 1
    if len(call.args) > 1 and isinstance(call.args[1], Literal):
        n = int(call.args[1].value)
    n = max(-OFFSET_MAX, min(n, OFFSET_MAX))
    return n if call.function == "lead" else -n


def frame_extent(frame: Frame, call: WindowCall) -> Extent:
    """The bounds of a frame clause as steps. Raises: StreamSqlError with the reason why not."""
    key = call.order_by[0].expr.type if call.order_by else None
    start, end = (_step(b, frame.mode, key) for b in (frame.start, frame.end))
    return Extent(frame.mode, start, end, frame.exclude)


def _step(bound: FrameBound, mode: str, key: SqlType | None) -> Step:
    if bound.kind.startswith("unbounded"):
        return None
    if bound.kind == "current_row":
        return 0
    assert bound.offset is not None
    sign = -1 if bound.kind == "preceding" else 1
    value = _constant(bound.offset)
    if mode != "range":
        if not isinstance(value, int) or value < 0:
            raise _Refused("the offset of a frame must not be negative or NULL")
        return sign * min(value, OFFSET_MAX)
    return _shift(value, sign, key)


def _shift(value: Any, sign: int, key: SqlType | None) -> Shift:
    if key is None or not (key.kind in _TIMES | _INTEGERS or key.is_float):
        raise _Refused(f"RANGE with an offset over {key} has no incremental form")
    if key.kind in _TIMES:
        months, days, ns = value
        if min(months, days, ns) < 0:
            raise _Refused("an interval with negative parts has no incremental RANGE")
        return Shift(sign * (days * 86_400_000_000 + ns // 1000), sign * months)
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise _Refused("the offset of a RANGE frame must be finite and not negative")
    return Shift(sign * value)


def _constant(expr: Expr) -> Any:
    from streamsql.functions.evaluator import evaluate_constant

    return evaluate_constant(expr).as_py()


# --- reach and load -----------------------------------------------------------------------------
def span_of(call: WindowCall) -> tuple[Reach, Load]:
    """How far changes reach for a call, and what it reads."""
    extent = extent_of(call)
    if call.function in RANKS:
        return _rank_span(call.function)
    if call.function in NEIGHBOURS | ENDS:
        return _pick_span(call, extent)
    plain = extent.exclude == "no_others"
    left = "base" if plain and extent.start is None and extent.end is not None else "all"
    reverse = call.function not in MOMENTS and not _is_real(call)
    right = "base" if plain and extent.end is None and extent.start is not None else "all"
    load = Load(extent, left, right if reverse else "all")
    return Reach(extent.mode, extent.start, extent.end), load


def _is_real(call: WindowCall) -> bool:
    return bool(call.args) and call.args[0].type.is_float and call.function in ("sum", "avg")


def _rank_span(function: str) -> tuple[Reach, Load]:
    if function == "row_number":
        extent = Extent("rows", None, 0)
        return Reach("rows", None, 0), Load(extent, "free", "free")
    if function in ("rank", "dense_rank"):
        return Reach("range", None, 0), Load(Extent("range", None, 0), "base", "free")
    return Reach("range", None, None), Load(Extent("range", None, None), "all", "all")


def pick_number(call: WindowCall) -> int:
    """Which row of its frame a call picks: 0 = the first, -1 = the last."""
    if call.function in NEIGHBOURS:
        n = neighbour_offset(call)
        return (n if n <= 0 else n - 1) if call.ignore_nulls else 0
    if call.function == "nth_value" and isinstance(call.args[1], Literal):
        return min(int(call.args[1].value), OFFSET_MAX) - 1
    return -1 if call.function == "last_value" else 0


def _pick_span(call: WindowCall, extent: Extent) -> tuple[Reach, Load]:
    start, end = extent.start, extent.end
    whole = Reach(extent.mode, start, end)
    if call.ignore_nulls or extent.exclude != "no_others":
        return whole, Load(extent)
    n = pick_number(call)
    free = Load(extent, "free", "free")
    if start is None and n >= 0:
        return replace(whole, edge=_first_edge(extent, n)), free
    if end is None and n < 0:
        return replace(whole, edge=-1 if _holds_itself(start) else None), free
    if start is None and isinstance(end, int):
        return Reach(extent.mode, end, end), free
    if end is None and isinstance(start, int) and n == 0:
        return Reach(extent.mode, start, start), free
    return whole, Load(extent)


def _first_edge(extent: Extent, n: int) -> int | None:
    """Rows of the partition that decide the first n + 1 rows of a frame that starts with it."""
    end = extent.end
    if end is None or (isinstance(end, int) and end >= 0):
        return n
    if isinstance(end, Shift):
        return n if end.amount >= 0 and end.months >= 0 else None
    return n - end if extent.mode == "rows" else None


def _holds_itself(start: Step) -> bool:
    """Whether a frame from there to the partition's end is never empty."""
    if isinstance(start, Shift):
        return start.amount <= 0 and start.months <= 0
    return start is None or start <= 0


def refusals(calls: Sequence[WindowCall]) -> str:
    """The reasons why these calls are not incremental, or nothing."""
    found = [why for why in map(refusal, calls) if why is not None]
    return "; ".join(dict.fromkeys(found))
