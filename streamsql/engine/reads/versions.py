"""FOR SYSTEM_TIME AS OF in plain queries: each relation may be read at a version of its own.

A relation that names a version gets a *slot*: its number in the query's list of versions. While the
query is bound its name carries the slot, and so does its relation id in the plan
(`slot_id`); what the slot stands for is known when the query runs. Other forms (a column,
PROCTIME()) are temporal joins and left to the binder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from streamsql.core.delta import make_batch
from streamsql.core.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    InvalidParameterValue,
    SerializationFailure,
)
from streamsql.core.schema import Schema
from streamsql.core.types import BIGINT, DATETIME_KINDS, TIMESTAMPTZ, Kind
from streamsql.dialect import position_of
from streamsql.engine.binding import BindScope
from streamsql.engine.names import parts_of, table_references
from streamsql.engine.reads.plans import freeze_expression
from streamsql.engine.reads.view import ReadView, slot_id
from streamsql.engine.storage.changelog import VersionOfTime
from streamsql.engine.storage.retention import Timeline
from streamsql.engine.storage.watermarks import to_us
from streamsql.functions.evaluator import Evaluator
from streamsql.functions.expressions import Expr, Literal
from streamsql.functions.literals import parse_literal, to_arrow_scalar
from streamsql.plan.binder.context import BindContext, RelationInfo

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.engine.session import Session

MARK = "\x00at"
CLOCKS = frozenset({"proctime"})


@dataclass(frozen=True)
class VersionedScope(BindScope):
    """A scope that knows relations by marked names."""

    def resolve(self, parts: tuple[str, ...]) -> RelationInfo | None:
        """See `BindScope`; a marked name means the relation at that slot."""
        name, mark, slot = parts[-1].partition(MARK)
        info = super().resolve((*parts[:-1], name))
        if not mark or info is None:
            return info
        query = info.view_query
        if query is not None:
            query = query.copy()
            for table in list(table_references(query)):
                mark_table(table, int(slot))
        return replace(info, relation_id=slot_id(info.relation_id, int(slot)), view_query=query)


def mark_table(table: exp.Table, slot: int) -> None:
    """Let its name say the slot. The name that its columns are qualified with stays."""
    name = table.this.name
    if not table.args.get("alias"):
        table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    marked = exp.to_identifier(f"{name}{MARK}{slot}", quoted=True)
    marked.meta.update(table.this.meta)
    table.set("this", marked)


def is_fixed(version: exp.Version) -> bool:
    """Whether this is a version or a time, and not a column or the clock of a temporal join."""
    value = version.args.get("expression")
    if value is None or value.find(exp.Column) is not None:
        return False
    return not any(str(call.this).lower() in CLOCKS for call in value.find_all(exp.Anonymous))


def mark_versions(
    tree: exp.Expression, scope: BindScope
) -> tuple[exp.Expression, BindScope, list[exp.Expression]]:
    """The tree with marked names, a scope that knows them, and the expression of each slot.

    Raises: FeatureNotSupported (0A000) for relations that keep no versions.
    """
    if not any(is_fixed(v) for v in tree.find_all(exp.Version)):
        return tree, scope, []
    tree = tree.copy()
    slots: list[exp.Expression] = []
    for table in list(table_references(tree)):
        version = table.args.get("version")
        if version is None or not is_fixed(version):
            continue
        relation = scope.relation(parts_of(table))
        if relation is not None and relation.kind in ("source", "system"):
            raise FeatureNotSupported(
                f'"{relation.name}" has no older versions',
                position=position_of(table.this),
                hint="FOR SYSTEM_TIME AS OF reads tables and views.",
            )
        table.set("version", None)
        if relation is not None:  # else the binder says that it does not exist
            value = version.args["expression"]
            if value not in slots:
                slots.append(value)
            mark_table(table, slots.index(value))
    marked = VersionedScope(
        scope.catalog, scope.definition, scope.inline, scope.extra, scope.pg_catalog
    )
    return tree, marked, slots


def bind_versions(slots: Sequence[exp.Expression], context: BindContext) -> tuple[Expr, ...]:
    """The slots' expressions. Raises: errors of binding, DatatypeMismatch (42804)."""
    from streamsql.plan.binder import bind_expression

    bound = []
    for slot in slots:
        types = context.parameter_types
        if isinstance(slot, exp.Parameter) and types is not None:  # AS OF $1: a version
            at = int(slot.this.name) - 1
            types += [None] * (at + 1 - len(types))
            types[at] = types[at] or BIGINT
        expr = bind_expression(slot, Schema(()), context)
        kind = expr.type.kind
        if not (expr.type.is_integer or expr.type.is_text or kind in DATETIME_KINDS) and (
            kind is not Kind.UNKNOWN
        ):
            raise DatatypeMismatch(
                f"FOR SYSTEM_TIME AS OF must be a version or a time, not type {expr.type}",
                position=position_of(slot),
            )
        bound.append(expr)
    return tuple(bound)


def version_numbers(
    session: Session, slots: Sequence[Expr], values: Sequence[Literal]
) -> tuple[int, ...]:
    """What the slots stand for now.

    Raises: InvalidParameterValue (22023) for the future, SerializationFailure (40001) for a time
    that is no longer known.
    """
    return tuple(version_number(session, e, values) for e in slots)


def at_versions(
    session: Session, view: ReadView, slots: Sequence[Expr], values: Sequence[Literal]
) -> ReadView:
    """The view that also knows the versions of the slots. Raises: see `version_numbers`."""
    return replace(view, slots=version_numbers(session, slots, values)) if slots else view


def version_number(
    session: Session, slot: Expr, values: Sequence[Literal], *, ahead: bool = False
) -> int:
    """What an expression of `bind_versions` stands for now. ahead: a version that is to come is
    one too. Raises: see `version_numbers`."""
    now_us = session.now_us()
    frozen = freeze_expression(slot, values, now_us)
    blank = make_batch([], Schema(()).arrow, 1)
    array = Evaluator([frozen], Schema(())).run(blank, now_us, session.timezone)[0]
    if array.null_count:
        raise InvalidParameterValue("the version of FOR SYSTEM_TIME AS OF may not be null")
    kind = slot.type.kind
    if kind is Kind.TIMESTAMPTZ:
        return version_at(session.engine, int(to_us(array)[0]))
    if kind in DATETIME_KINDS:
        text = array.cast(pa.timestamp("us")).cast(pa.string())[0].as_py()
        return version_at(session.engine, instant(text, session.timezone))
    value = array[0].as_py()
    if isinstance(value, str) and not value.strip().isdigit():
        return version_at(session.engine, instant(value, session.timezone))
    return int(value) if ahead else existing(session.engine, int(value))


def version_of_text(session: Session, text: str) -> int:
    """A version or a time that is written as text; a time is of the session's zone.

    Raises: 22007, 22023, 40001.
    """
    if text.strip().isdigit():
        return existing(session.engine, int(text))
    return version_at(session.engine, instant(text, session.timezone))


def instant(text: str, timezone: str) -> int:
    """A time as text in µs UTC. Raises: 22007, 22008."""
    literal = parse_literal(text, TIMESTAMPTZ, None, timezone)
    return int(to_us(pa.array([to_arrow_scalar(literal)], TIMESTAMPTZ.arrow))[0])


def existing(engine: Engine, version: int) -> int:
    """The version itself. Raises: InvalidParameterValue (22023) if there is none yet."""
    if version > engine.version:
        raise InvalidParameterValue(
            f"version {version} does not exist yet",
            hint=f"The newest version is {engine.version}.",
        )
    if version < 0:
        raise InvalidParameterValue(f"version {version} does not exist")
    return version


def version_at(engine: Engine, us: int) -> int:
    """The newest version of that time.

    Raises: InvalidParameterValue (22023) for the future, SerializationFailure (40001).
    """
    if us > engine.clock_us():
        raise InvalidParameterValue(
            "FOR SYSTEM_TIME AS OF is in the future",
            hint=f"The newest version is {engine.version}.",
        )
    with engine.lock:
        timeline = engine.retention.timeline
        found, first = timeline.at(us), timeline.first
    if found is None and (first is None or first[0] <= 1):
        found = 0  # before anything happened
    if found is not None:
        return VersionOfTime.of(found, _text(us), partial(_dated, timeline))
    assert first is not None
    raise SerializationFailure(
        f"the version of {_text(us)} is no longer retained",
        hint=f"The oldest version that is known is {first[0]}, of {_text(first[1])}.",
    )


def _dated(timeline: Timeline, version: int) -> str | None:
    us = timeline.time_of(version)
    return None if us is None else _text(us)


def _text(us: int) -> str:
    text = pa.scalar(us, pa.timestamp("us")).cast(pa.string()).as_py()
    return f"{text}+00"
