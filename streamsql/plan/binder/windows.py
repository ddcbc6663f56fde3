"""OVER: window definitions, named windows, frames; and the Window node below a select list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from streamsql.core.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    GroupingError,
    InvalidColumnReference,
    InvalidFrameOffset,
    StatementError,
    UndefinedObject,
    WindowingError,
    WrongObjectType,
)
from streamsql.core.schema import Column, Schema
from streamsql.core.types import BIGINT, INTERVAL, Kind
from streamsql.functions.casts import Context, can_cast
from streamsql.functions.expressions import (
    ColumnRef,
    Expr,
    Frame,
    FrameBound,
    Literal,
    SortKey,
    WindowCall,
    column,
    transform,
)
from streamsql.functions.resolve import (
    is_aggregate,
    is_ordered_set,
    is_window,
    resolve_window,
)
from streamsql.plan.binder.aggregates import sort_keys
from streamsql.plan.binder.calls import CallSyntax, read_call
from streamsql.plan.binder.env import position_of
from streamsql.plan.binder.expressions import ExprBinder, Handler
from streamsql.plan.binder.outputs import identity
from streamsql.plan.binder.parameters import note_types
from streamsql.plan.binder.placeholders import WindowExpr
from streamsql.plan.names import call_name
from streamsql.plan.nodes import LogicalPlan, Project, Window
from streamsql.plan.visit import map_window, row_columns


@dataclass(frozen=True)
class Definition:
    """A window definition as written, bases merged in."""

    partition_by: tuple[exp.Expression, ...] = ()
    order_by: tuple[exp.Ordered, ...] = ()
    spec: exp.WindowSpec | None = None


def named_windows(nodes: Sequence[exp.Window] | None) -> dict[str, exp.Window]:
    """The WINDOW clause. Raises: WindowingError (42P20) for a name defined twice."""
    found: dict[str, exp.Window] = {}
    for node in nodes or ():
        name = node.this.name
        if name in found:
            raise WindowingError(
                f'window "{name}" is already defined', position=position_of(node.this)
            )
        found[name] = node
    return found


def _definition(node: exp.Window, names: dict[str, exp.Window]) -> Definition:
    partition = tuple(node.args.get("partition_by") or ())
    order = node.args.get("order")
    own = Definition(
        partition, () if order is None else tuple(order.expressions), node.args.get("spec")
    )
    alias = node.args.get("alias")
    if alias is None:
        return own
    base_node = names.get(alias.name)
    if base_node is None:
        raise UndefinedObject(
            f'window "{alias.name}" does not exist',
            position=position_of(alias),
            hint=f"Define it: WINDOW {alias.name} AS (…).",
        )
    earlier = {n: w for n, w in names.items() if w is not base_node}
    base = _definition(base_node, earlier)
    if own == Definition():
        return base
    name = alias.name
    if own.partition_by:
        raise WindowingError(f'cannot override PARTITION BY clause of window "{name}"')
    if own.order_by and base.order_by:
        raise WindowingError(f'cannot override ORDER BY clause of window "{name}"')
    if base.spec is not None:
        raise WindowingError(
            f'cannot copy window "{name}" because it has a frame clause',
            hint="Omit the parentheses in this OVER clause.",
        )
    return Definition(base.partition_by, own.order_by or base.order_by, own.spec)


def _window(binder: ExprBinder, node: exp.Window) -> Expr:
    call = read_call(node.this)
    position = call.position
    if not binder.windows:
        raise _refuse_window(binder, position)
    name = call.name
    if not (is_window(name) or is_aggregate(name)):
        raise WrongObjectType(
            f"OVER specified, but {name} is not a window function nor an aggregate function",
            position=position,
        )
    if call.within_group or (is_ordered_set(name) and not is_window(name)):
        raise FeatureNotSupported(
            f"OVER is not supported for ordered-set aggregate {name}",
            position=position,
            hint="Aggregate in a subquery and join it.",
        )
    return _bind(binder, node, call)


def _bind(binder: ExprBinder, node: exp.Window, call: CallSyntax) -> Expr:
    inner = replace(binder, windows=False, sets=False, inside="window")
    definition = _definition(node, binder.named_windows)
    args = [inner.bind(a) for a in call.args]
    condition = None
    if call.filter is not None:
        condition = replace(inner, clause="FILTER").predicate(call.filter)
    defining = replace(inner, inside="window definition")
    partition = [defining.bind(e) for e in definition.partition_by]
    order = sort_keys(defining, definition.order_by)
    if call.order_by:
        raise FeatureNotSupported(
            "aggregate ORDER BY is not implemented for window functions",
            position=call.position,
            hint="Put the ORDER BY into OVER (…).",
        )
    bound = resolve_window(
        call.name,
        args,
        partition,
        order,
        _frame(inner, definition.spec, order),
        distinct=call.distinct,
        filter=condition,
        ignore_nulls=call.ignore_nulls,
        position=call.position,
    )
    for e in bound.args:
        note_types(binder.statement.context, e)
    return WindowExpr(call=bound, type=bound.type, position=call.position)


def _refuse_window(binder: ExprBinder, position: int | None) -> StatementError:
    match binder.inside:
        case "window":
            return WindowingError("window function calls cannot be nested", position=position)
        case "window definition":
            return WindowingError(
                "window functions are not allowed in window definitions", position=position
            )
        case "aggregate":
            return GroupingError(
                "aggregate function calls cannot contain window function calls",
                position=position,
                hint="Compute the window function in a subquery first.",
            )
    clause = {"JOIN/ON": "JOIN conditions"}.get(binder.clause, binder.clause)
    return WindowingError(
        f"window functions are not allowed in {clause}",
        position=position,
        hint="Use QUALIFY, or filter the result of a subquery." if clause == "WHERE" else None,
    )


# --- frames -------------------------------------------------------------------------------------
def _frame(binder: ExprBinder, spec: exp.WindowSpec | None, order: list[SortKey]) -> Frame | None:
    if spec is None:
        return None
    mode = str(spec.args["kind"]).lower()
    start = _bound(binder, spec, "start", mode, order)
    end = _bound(binder, spec, "end", mode, order)
    exclude = spec.args.get("exclude")
    frame = Frame(
        mode=mode,
        start=start,
        end=end,
        exclude="no_others" if exclude is None else exclude.name.lower().replace(" ", "_"),
    )
    _check_frame(frame, order, position_of(spec))
    return frame


_RANKS = ["unbounded_preceding", "preceding", "current_row", "following", "unbounded_following"]


def _check_frame(frame: Frame, order: list[SortKey], position: int | None) -> None:
    start, end = frame.start.kind, frame.end.kind
    if start == "current_row" and end == "preceding":
        raise WindowingError("frame starting from current row cannot have preceding rows",
                             position=position)  # fmt: skip
    if start == "following" and end in ("preceding", "current_row"):
        what = "current row" if end == "current_row" else "preceding rows"
        raise WindowingError(
            f"frame starting from following row cannot have {what}"
            if end == "preceding"
            else "frame starting from following row cannot end with current row",
            position=position,
        )
    if frame.mode == "groups" and not order:
        raise WindowingError("GROUPS mode requires an ORDER BY clause", position=position)
    offsets = frame.start.offset is not None or frame.end.offset is not None
    if frame.mode == "range" and offsets and len(order) != 1:
        raise WindowingError(
            "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
            position=position,
        )


def _bound(
    binder: ExprBinder, spec: exp.WindowSpec, which: str, mode: str, order: list[SortKey]
) -> FrameBound:
    value, side = spec.args.get(which), str(spec.args.get(f"{which}_side") or "").lower()
    if value == "CURRENT ROW" or (value is None and which == "end"):
        return FrameBound(kind="current_row")
    if value == "UNBOUNDED":
        return FrameBound(kind=f"unbounded_{side}")
    assert isinstance(value, exp.Expression)
    offset = binder.within("window frame").bind(value)
    if row_columns(offset):
        raise InvalidColumnReference(
            f"argument of {mode.upper()} must not contain variables", position=position_of(value)
        )
    return FrameBound(kind=side, offset=_offset(binder, offset, mode, order, which))


def _offset(binder: ExprBinder, offset: Expr, mode: str, order: list[SortKey], which: str) -> Expr:
    if mode in ("rows", "groups"):
        target = BIGINT
    elif len(order) != 1:
        return offset
    else:
        key = order[0].expr.type
        target = INTERVAL if key.kind in _TIMES else key
    if target is BIGINT and not can_cast(offset.type, BIGINT, Context.IMPLICIT):
        raise DatatypeMismatch(
            f"argument of {mode.upper()} must be type bigint, not type {offset.type}",
            position=offset.position,
        )
    result = binder.coerce(offset, target)
    if isinstance(result, Literal):
        if result.value is None:
            raise _bad_offset(which, "null")
        if target is not INTERVAL and result.value < 0:
            raise _bad_offset(which, "negative")
    return result


_TIMES = {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME, Kind.INTERVAL}


def _bad_offset(which: str, what: str) -> InvalidFrameOffset:
    return InvalidFrameOffset(f"frame {which}ing offset must not be {what}")


# --- the Window node ----------------------------------------------------------------------------
def add_windows(source: LogicalPlan, exprs: Sequence[Expr]) -> tuple[LogicalPlan, list[Expr]]:
    """Compute the OVER calls found in `exprs` over `source`; both results as one row.

    The source's columns keep their positions; what the calls need is projected behind them, the
    calls' results come last. Returns the plan and the expressions with calls replaced by columns.
    """
    calls: list[WindowCall] = []

    def collect(e: Expr) -> Expr:
        if isinstance(e, WindowExpr) and e.call not in calls:
            calls.append(e.call)
        return e

    for e in exprs:
        transform(e, collect)
    if not calls:
        return source, list(exprs)
    width = len(source.schema)
    extras: list[Expr] = []

    def place(e: Expr) -> Expr:
        if isinstance(e, ColumnRef | Literal):
            return e
        if e not in extras:
            extras.append(e)
        return column(width + extras.index(e), e.type)

    lowered = [_lower(c, place) for c in calls]
    if extras:
        schema = Schema(source.schema.columns + tuple(Column("", e.type) for e in extras))
        source = Project(schema=schema, input=source, exprs=(*identity(source.schema), *extras))
    first = len(source.schema)
    outputs = tuple(Column(call_name(c.function), c.type) for c in calls)
    plan = Window(
        schema=Schema(source.schema.columns + outputs), input=source, calls=tuple(lowered)
    )

    def swap(e: Expr) -> Expr:
        if isinstance(e, WindowExpr):
            return ColumnRef(
                index=first + calls.index(e.call),
                type=e.type,
                name=call_name(e.call.function),
                position=e.position,
            )
        return e

    return plan, [transform(e, swap) for e in exprs]


def _lower(call: WindowCall, place: object) -> WindowCall:
    """The call over columns; frame offsets are constants and stay."""
    frame = call.frame
    bare = map_window(replace(call, frame=None), place)  # type: ignore[arg-type]
    return replace(bare, frame=frame)


HANDLERS: dict[type[exp.Expression], Handler] = {exp.Window: _window}
