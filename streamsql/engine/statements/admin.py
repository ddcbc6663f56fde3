"""FLUSH, the manual clock, watermarks by hand, LISTEN/NOTIFY."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.clock import ManualClock
from streamsql.core.errors import ObjectNotInPrerequisiteState
from streamsql.core.types import TIMESTAMPTZ
from streamsql.dialect.statements import (
    AdvanceClock,
    AdvanceWatermark,
    Flush,
    Notify,
)
from streamsql.engine.api import Result
from streamsql.engine.requests import Tick
from streamsql.engine.statements.common import lookup
from streamsql.engine.statements.handler import Handler, Types
from streamsql.engine.storage.watermarks import to_us
from streamsql.functions.expressions import Literal
from streamsql.functions.literals import parse_literal, to_arrow_scalar

if TYPE_CHECKING:
    from streamsql.engine.session import Session


def run_flush(
    session: Session, statement: Flush, values: tuple[Literal, ...], declared: Types
) -> Result:
    """FLUSH, WAIT: what sources have delivered is visible afterwards."""
    for source in session.engine.ingest.flush():
        relation = source.relation
        kind = relation.kind.upper()
        session.notice(
            f'{relation.kind} "{relation.name}" has stopped reading: {source.error}',
            severity="WARNING",
            sqlstate="01000",
            hint=f"Correct what it reads, then ALTER {kind} {relation.name} SUSPEND and RESUME.",
        )
    return Result("FLUSH")


def run_advance_clock(
    session: Session, statement: AdvanceClock, values: tuple[Literal, ...], declared: Types
) -> Result:
    """ADVANCE CLOCK TO '…' | BY INTERVAL '…'. Raises: 55000 unless the clock is manual."""
    engine = session.engine
    clock = engine.clock
    if not isinstance(clock, ManualClock):
        raise ObjectNotInPrerequisiteState(
            "the clock is not manual",
            hint="Run SET streamsql.clock = 'manual' first.",
        )
    if statement.to is not None:
        literal = parse_literal(statement.to, TIMESTAMPTZ, None, session.timezone)
        target = int(to_us(pa.array([to_arrow_scalar(literal).as_py()], TIMESTAMPTZ.arrow))[0])
    else:
        target = engine.clock_us() + (statement.by_us or 0)

    def advance() -> None:
        clock.advance_to(max(target, engine.clock_us()) if statement.to is None else target)
        engine.committer.run_alone(engine.committer.new_tick())

    engine.call(advance)
    return Result("ADVANCE CLOCK")


def run_advance_watermark(
    session: Session, statement: AdvanceWatermark, values: tuple[Literal, ...], declared: Types
) -> Result:
    """ADVANCE WATERMARK FOR t TO '…'."""
    relation = lookup(session, statement.relation, kinds=("table", "source"))
    column = relation.watermark_column
    if column is None:
        raise ObjectNotInPrerequisiteState(
            f'relation "{relation.name}" has no watermark',
            hint="Define one with WATERMARK FOR column AS expression.",
        )
    type_ = relation.columns[column].type
    literal = parse_literal(statement.to, type_, None, session.timezone)
    target = int(to_us(pa.array([to_arrow_scalar(literal).as_py()], type_.arrow))[0])
    engine = session.engine

    def advance() -> None:
        tick: Tick = engine.committer.new_tick()
        tick.advance[relation.oid] = target
        engine.committer.run_alone(tick)

    engine.call(advance)
    return Result("ADVANCE WATERMARK")


def run_notify(
    session: Session, statement: Notify, values: tuple[Literal, ...], declared: Types
) -> Result:
    """LISTEN, UNLISTEN and NOTIFY are accepted; there is nobody to notify yet."""
    if statement.action.lower() == "listen":
        session.notice(
            "LISTEN has no effect: notifications are not delivered",
            hint="Use SUBSCRIBE for changes of a view.",
        )
    return Result(statement.action.upper())


FLUSH = Handler(run_flush, tag="FLUSH")
ADVANCE_CLOCK = Handler(run_advance_clock, tag="ADVANCE CLOCK")
ADVANCE_WATERMARK = Handler(run_advance_watermark, tag="ADVANCE WATERMARK")
NOTIFY = Handler(run_notify, tag="NOTIFY")
