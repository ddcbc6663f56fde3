"""TUMBLE, HOP, CUMULATE, SESSION in FROM."""

from __future__ import annotations

import zoneinfo

from sqlglot import exp

from streamsql.core.errors import (
    DatatypeMismatch,
    InvalidParameterValue,
    UndefinedColumn,
)
from streamsql.core.schema import Column, Schema
from streamsql.core.types import TIMESTAMP, Kind
from streamsql.dialect.nodes import WindowTvf
from streamsql.functions.calendar_windows import is_utc
from streamsql.functions.coerce import coerce
from streamsql.functions.expressions import ColumnRef, Expr
from streamsql.functions.textio.zones import canonical_zone
from streamsql.plan.binder.context import RelationInfo
from streamsql.plan.binder.env import Env, FromItem, position_of
from streamsql.plan.binder.outputs import identity
from streamsql.plan.binder.scope import (
    NamedColumn,
    NamedRelation,
    Namespace,
    lookup,
    lookup_qualified,
    undefined_column,
)
from streamsql.plan.nodes import LogicalPlan, Project, Scan, TimeWindow, WindowSpec

TIME_KINDS = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
US_PER_DAY = 86_400_000_000


def bind_time_window(node: WindowTvf, env: Env) -> FromItem:
    """The relation's rows with window_start, window_end and window_time behind them."""
    from streamsql.plan.binder.from_clause import bind_item, rename_columns

    source = bind_item(node.this, env)
    time = _time_column(node, source, env)
    partition = tuple(_plain(c, source, env) for c in node.args.get("partition_by") or [])
    plan, columns = _window(node, source, time, partition, env)
    item = _named(node, source, plan, columns)
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        item = rename_columns(item, alias, alias.name)
    return item


# --- the relation's columns ---------------------------------------------------------------------
def _plain(node: exp.Expression, source: FromItem, env: Env) -> int:
    """Position of a plain column of the windowed relation."""
    position = position_of(node)
    assert isinstance(node, exp.Column)
    parts = [p.name for p in node.parts]
    scope = env.scope(source.namespace)
    found: tuple[NamedColumn, Expr] | None
    if len(parts) == 1:
        found = lookup(scope, parts[0], position)
    else:
        found = lookup_qualified(scope, None, parts[-2], parts[-1], position)
    if found is None:
        raise undefined_column(scope, ".".join(parts), position)
    expr = found[1]
    if not isinstance(expr, ColumnRef):
        raise UndefinedColumn(
            f'column "{parts[-1]}" is not a column of the windowed relation',
            position=position,
            hint="Compute it in a subquery: TUMBLE((SELECT …), …).",
        )
    return expr.index


def _time_column(node: WindowTvf, source: FromItem, env: Env) -> int:
    column_node = node.args.get("time_column")
    if column_node is None:
        scan = source.plan
        if not isinstance(scan, Scan) or scan.watermark_column is None:
            raise UndefinedColumn(
                "WINDOW needs a relation with a watermark column",
                position=position_of(node),
                hint="Declare WATERMARK FOR <column>, or write TUMBLE(relation, column, size).",
            )
        return scan.watermark_column
    index = _plain(column_node, source, env)
    column = source.plan.schema[index]
    if column.type.kind not in TIME_KINDS:
        raise DatatypeMismatch(
            f"the time column of {node.kind.upper()} must be a date or timestamp, but "
            f'"{column.name}" is {column.type}',
            position=position_of(column_node),
            hint="Cast it in a subquery, for example to_timestamp(x) for epoch seconds.",
        )
    return index


def _named(node: WindowTvf, source: FromItem, plan: LogicalPlan, columns: list[int]) -> FromItem:
    """The window's row: the relation's own names, then the three new columns."""
    alias = node.args.get("alias")
    owner = source.namespace.relations[0] if len(source.namespace.relations) == 1 else None
    info: RelationInfo | None = None
    name = alias.name if alias is not None and alias.name else None
    if name is None and owner is not None:
        name, info = owner.alias, owner.info
    named = list(source.namespace.columns)
    for title, index in zip(WINDOW_COLUMNS, columns, strict=True):
        ref = ColumnRef(index=index, type=plan.schema[index].type, name=title)
        named.append(NamedColumn(title, ref))
    relations = [] if name is None else [NamedRelation(name, tuple(named), info=info)]
    return FromItem(plan, Namespace(len(plan.schema), relations, named))


# --- the node -----------------------------------------------------------------------------------
def _window(
    node: WindowTvf, source: FromItem, time: int, partition: tuple[int, ...], env: Env
) -> tuple[TimeWindow, list[int]]:
    """The TimeWindow and the positions of its three columns."""
    plan = source.plan
    if plan.schema[time].type.kind is Kind.DATE:
        plan, time = _with_timestamp(plan, time)
    type_ = plan.schema[time].type
    size = _spec(node, "size")
    assert size is not None
    slide, max_size = _spec(node, "slide"), _spec(node, "max")
    _check(node, size, slide, max_size)
    offset = _offset(node, size)
    columns = tuple(Column(n, type_, False) for n in WINDOW_COLUMNS)
    width = len(plan.schema)
    window = TimeWindow(
        schema=Schema(plan.schema.columns + columns),
        input=plan,
        kind=node.kind,
        time_column=time,
        size=size,
        slide=slide,
        offset=offset,
        tz=_zone(node, type_.kind, env),
        partition_by=partition,
        max_size=max_size,
    )
    return window, [width, width + 1, width + 2]


def _with_timestamp(plan: LogicalPlan, time: int) -> tuple[LogicalPlan, int]:
    """A DATE is windowed as the TIMESTAMP of its midnight, in a column behind the others."""
    exprs = identity(plan.schema)
    moment = coerce(exprs[time], TIMESTAMP)
    schema = Schema((*plan.schema.columns, Column("", TIMESTAMP)))
    return Project(schema=schema, input=plan, exprs=(*exprs, moment)), len(plan.schema)


def _parts(node: WindowTvf, name: str) -> tuple[int, int, int] | None:
    from streamsql.dialect import interval_parts

    interval = node.args.get(name)
    return None if interval is None else interval_parts(interval)


def _bad(node: WindowTvf, name: str, text: str, hint: str | None = None) -> InvalidParameterValue:
    at = node.args.get(name)
    position = position_of(at) if at is not None else position_of(node)
    return InvalidParameterValue(text, position=position, hint=hint)


def _spec(node: WindowTvf, name: str) -> WindowSpec | None:
    parts = _parts(node, name)
    if parts is None:
        return None
    months, days, us = parts
    label = _label(node.kind, name)
    if months < 0 or days < 0 or us < 0 or (months, days, us) == (0, 0, 0):
        raise _bad(node, name, f"the {label} of {node.kind.upper()} must be greater than zero")
    if months and (days or us):
        raise _bad(
            node,
            name,
            f"the {label} of {node.kind.upper()} mixes months with days or time",
            "Use whole months, quarters or years, or days and smaller units.",
        )
    return WindowSpec(months=months, days=days, us=us)


def _label(kind: str, name: str) -> str:
    if name == "slide":
        return "step" if kind == "cumulate" else "hop"
    if name == "size" and kind == "session":
        return "gap"
    return {"max": "maximum"}.get(name, name)


def _check(
    node: WindowTvf, size: WindowSpec, slide: WindowSpec | None, max_size: WindowSpec | None
) -> None:
    for name, other in (("slide", slide), ("max", max_size)):
        if other is not None and bool(other.months) != bool(size.months):
            raise _bad(
                node,
                name,
                f"{node.kind.upper()} mixes calendar months with exact units",
                "Use months for all of its intervals, or for none.",
            )
    if node.kind == "cumulate" and slide is not None and not _multiple(size, slide):
        raise _bad(node, "size", "the size of CUMULATE must be a multiple of its step")
    if max_size is not None and _length(max_size) < _length(size):
        raise _bad(node, "max", "the maximum of SESSION must not be smaller than its gap")


def _length(spec: WindowSpec) -> int:
    return spec.months or spec.days * US_PER_DAY + spec.us


def _multiple(size: WindowSpec, step: WindowSpec) -> bool:
    return _length(size) % _length(step) == 0


def _offset(node: WindowTvf, size: WindowSpec) -> WindowSpec:
    """Months only where the windows are of months: there the first is moved by whole months."""
    months, days, us = _parts(node, "offset") or (0, 0, 0)
    if months and not size.months:
        raise _bad(
            node,
            "offset",
            f"the offset of {node.kind.upper()} can not be in months if its size is not",
            "Give it in days or smaller units.",
        )
    return WindowSpec(months=months, days=days, us=us)


def _zone(node: WindowTvf, kind: Kind, env: Env) -> str | None:
    """The zone the windows follow. A TIMESTAMPTZ without tz takes the session's, for good."""
    literal = node.args.get("tz")
    if literal is None:
        zone = env.statement.context.timezone
        if kind is not Kind.TIMESTAMPTZ or is_utc(zone):
            return None
        env.statement.notice(
            f'windows follow the session\'s time zone "{zone}" from now on; '
            "write tz => '…' to choose another"
        )
        return _checked(zone, node)
    name = str(literal.this)
    return None if is_utc(name) else _checked(name, node)


def _checked(name: str, node: WindowTvf) -> str:
    try:
        name = canonical_zone(name)
        zoneinfo.ZoneInfo(name)
    except (InvalidParameterValue, zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise _bad(
            node, "tz", f'time zone "{name}" not recognized', "Use a name like Europe/Paris."
        ) from None
    return name
