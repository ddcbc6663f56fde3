"""FLUSH, the manual clock, watermarks by hand, VERIFY, LISTEN/NOTIFY."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.clock import ManualClock
from streamsql.core.delta import Delta, concat
from streamsql.core.errors import (
    CardinalityViolation,
    DataError,
    FeatureNotSupported,
    ObjectNotInPrerequisiteState,
    ProgramLimitExceeded,
)
from streamsql.core.types import BIGINT, TEXT, TIMESTAMPTZ
from streamsql.dialect.statements import (
    AdvanceClock,
    AdvanceWatermark,
    Flush,
    Notify,
    Verify,
)
from streamsql.engine.api import Result
from streamsql.engine.catalog import check_runs
from streamsql.engine.json_rows import rows_as_json
from streamsql.engine.reads.duck import run_sql
from streamsql.engine.reads.plans import freeze, scans
from streamsql.engine.reads.select import plan_sql, relation_table
from streamsql.engine.rebuild import (
    depends_on_arrival,
    depends_on_both_arrivals,
    depends_on_idle,
    depends_on_shrunk_sessions,
    depends_on_turns,
    rebuilt,
)
from streamsql.engine.relations import Relation
from streamsql.engine.requests import Tick
from streamsql.engine.statements.closeness import rounds_numerics, without_rounding
from streamsql.engine.statements.common import lookup, rows_result
from streamsql.engine.statements.handler import Handler, Types, returns
from streamsql.engine.storage.watermarks import to_us
from streamsql.engine.views import bind_view
from streamsql.functions.expressions import Literal
from streamsql.functions.literals import parse_literal, to_arrow_scalar
from streamsql.operators.stamp import Stamp
from streamsql.plan.nodes import Join, LogicalPlan
from streamsql.plan.visit import walk_plan
from streamsql.state.consolidate import consolidate

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
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


_TEMPORAL = {
    "lookup": "shows what its right side held when each row came, which is not kept",
    "versioned": "shows its right side's version at each row's time, and versions that the table "
    "no longer holds are not kept",
}
"""Why a view can not be verified, by the kind of its join."""
VERIFY_COLUMNS = (("weight", BIGINT), ("row", TEXT))


def run_verify(
    session: Session, statement: Verify, values: tuple[Literal, ...], declared: Types
) -> Result:
    """VERIFY MATERIALIZED VIEW: the rows that are too many (+) or missing (−); none if it is right.

    Compares with the query computed anew by DuckDB, over the same version of its inputs. A view
    whose rows depend on the watermark (late rows are kept out, windows are held back) is compared
    with what a circuit of its own makes of the inputs, replayed in their order of arrival.
    """
    relation = lookup(session, statement.name, kinds=("materialized_view",))
    check_runs(relation)
    engine = session.engine
    plan = freeze(bind_view(relation, session.catalog), (), session.now_us())
    for node in walk_plan(plan):
        if isinstance(node, Join) and node.is_temporal:
            why = _TEMPORAL[node.kind.removesuffix("_left")]
            raise FeatureNotSupported(
                f'"{relation.name}" can not be verified: a temporal join {why}'
            )
    kept = engine.views.get(relation.oid)
    failure = None if kept is None else engine.call(lambda: engine.view_failure(kept))
    if failure is not None:  # as reads of it: it has no rows that could be right
        raise failure
    if kept is not None and any(isinstance(n.operator, Stamp) for n in kept.compiled.nodes):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: it shows now() as of when each row came, '
            "which is not kept with the rows",
            hint="now() in a comparison with a column in WHERE follows the clock and is verified.",
        )
    if depends_on_arrival(relation, plan, engine):
        found = engine.call(lambda: _verify_by_replay(engine, relation))
        if found.row_count:
            engine.call(lambda: _refuse_what_is_not_kept(engine, relation, plan))
        return found
    view = engine.read_view(stored=engine.maintained)
    wanted = {s.relation_id for s in scans(plan)} | {relation.oid}
    tables = view.tables(wanted)
    present = tables[relation.oid]
    named = {relation_table(oid): t for oid, t in tables.items()}
    try:
        sql = plan_sql(plan, relation.context.timezone)
        batches = list(run_sql(engine.pool, sql, named, plan.schema, session.token))
    except (
        DataError,
        CardinalityViolation,
        ProgramLimitExceeded,
    ):  # rows that the view keeps out, by its on_error
        return engine.call(lambda: _verify_by_replay(engine, relation))
    rounds = rounds_numerics(plan)
    return _differences(relation, present, [Delta(b) for b in batches], numerics=rounds)


def _refuse_what_is_not_kept(engine: Engine, relation: Relation, plan: LogicalPlan) -> None:
    """Where a replay differs from the view: raises if it may, for a view that is right."""
    if depends_on_both_arrivals(relation, plan, engine):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: its windows judge the rows of a join or '
            "UNION by what all inputs knew of time when they came, which is not kept",
            hint="Windows below the join (TUMBLE(a, ...) JOIN TUMBLE(b, ...)) are verified.",
        )
    if depends_on_turns(relation, engine):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: rows come and go by the clock below what '
            "the watermark closes, and which turns came too late is not kept",
            hint="Compare with now() above the windows: WHERE window_end > now() - INTERVAL "
            "'1 hour'.",
        )
    if depends_on_idle(relation, engine):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: an input was idle, and what its watermark '
            "counted for when each row came is not kept",
            hint="A view over one relation, or inputs without idle_timeout, are verified.",
        )
    if depends_on_shrunk_sessions(plan, engine):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: rows went from its sessions, and which '
            "rows came while these held a session open is not kept",
        )
    if not engine.late_changes.knows(relation.oid):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: not all rows that it holds in closed '
            "windows, and that went from its inputs since, are kept",
            hint="CREATE OR REPLACE MATERIALIZED VIEW fills it anew.",
        )


def _verify_by_replay(engine: Engine, relation: Relation) -> Result:
    """VERIFY on the engine thread, between two ticks."""
    again = rebuilt(engine, relation)
    plain = Delta(again.batch, again.weights)
    return _differences(relation, engine.views[relation.oid].snapshot(), [plain])


def _differences(
    relation: Relation, present: pa.Table, wanted: list[Delta], *, numerics: bool = False
) -> Result:
    """The rows of a view that should not be there (+), and those that should (−).

    Floats may differ in their last digits: sums depend on their order.
    """
    stored = [Delta(b) for b in present.combine_chunks().to_batches()]
    missing = [d.negate() for d in wanted]
    difference = consolidate(concat([*stored, *missing], relation.columns))
    difference = without_rounding(difference, relation.columns, numerics=numerics)
    rows = rows_as_json(difference.batch, relation.columns).to_pylist()
    weights = difference.weights_or_ones().tolist()
    return rows_result("VERIFY", VERIFY_COLUMNS, list(zip(weights, rows, strict=True)))


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
VERIFY = Handler(run_verify, returns(*VERIFY_COLUMNS), "VERIFY")
NOTIFY = Handler(run_notify, tag="NOTIFY")
