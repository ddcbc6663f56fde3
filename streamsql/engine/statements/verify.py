"""VERIFY MATERIALIZED VIEW: what its rows differ by from those that its query has now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from streamsql.core.delta import Delta, concat
from streamsql.core.errors import (
    CardinalityViolation,
    DataError,
    FeatureNotSupported,
    ProgramLimitExceeded,
)
from streamsql.core.types import BIGINT, TEXT
from streamsql.dialect.statements import Verify
from streamsql.engine.api import Result
from streamsql.engine.catalog import check_runs
from streamsql.engine.json_rows import rows_as_json
from streamsql.engine.reads.duck import run_sql
from streamsql.engine.reads.plans import freeze
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
from streamsql.engine.retrace import prepare
from streamsql.engine.statements.closeness import float_sums, rounds_numerics, without_rounding
from streamsql.engine.statements.common import lookup, rows_result
from streamsql.engine.statements.handler import Handler, Types, returns
from streamsql.engine.views import bind_view
from streamsql.functions.aggregates.exact import exactly
from streamsql.functions.expressions import Literal
from streamsql.operators.stamp import Stamp
from streamsql.operators.temporal_join import TemporalJoin
from streamsql.operators.temporal_join_versions import TemporalVersionJoin
from streamsql.plan.nodes import LogicalPlan
from streamsql.plan.visit import scans
from streamsql.state.consolidate import consolidate

if TYPE_CHECKING:
    from streamsql.engine.engine import Engine
    from streamsql.engine.session import Session

VERIFY_COLUMNS = (("weight", BIGINT), ("row", TEXT))


def run_verify(
    session: Session, statement: Verify, values: tuple[Literal, ...], declared: Types
) -> Result:
    """VERIFY MATERIALIZED VIEW: the rows that are too many (+) or missing (−); none if it is right.

    Compares with the query computed anew by DuckDB, over the same version of its inputs. A view
    whose rows depend on the watermark (late rows are kept out, windows are held back), on the order
    in which its inputs moved, or on the clock, is compared with what a circuit of its own makes of
    the inputs: replayed in their order of arrival, where that has a say tick by tick.
    """
    relation = lookup(session, statement.name, kinds=("materialized_view",))
    check_runs(relation)
    engine = session.engine
    plan = freeze(bind_view(relation, session.catalog), (), session.now_us())
    kept = engine.views.get(relation.oid)
    failure = None if kept is None else engine.call(lambda: engine.view_failure(kept))
    if failure is not None:  # as reads of it: it has no rows that could be right
        raise failure
    if relation.oid in engine.past.needs:
        return _verify_by_past(session, relation, plan)
    if depends_on_arrival(relation, plan, engine):
        return _verify_by_arrival(session, relation, plan)
    view = engine.read_view(stored=engine.maintained)
    wanted = {s.relation_id for s in scans(plan)} | {relation.oid}
    tables = view.tables(wanted)
    present = tables[relation.oid]
    named = {relation_table(oid): t for oid, t in tables.items()}
    rounds = rounds_numerics(plan)

    def computed(sql: str) -> Result:
        batches = run_sql(engine.pool, sql, named, plan.schema, session.token)
        return _differences(relation, present, [Delta(b) for b in batches], numerics=rounds)

    of_groups, of_frames = float_sums(plan)
    try:
        found = computed(plan_sql(plan, relation.context.timezone))
        if found.row_count and of_groups:  # what cancels depends on the order of addition
            with exactly():
                sql = plan_sql(plan, relation.context.timezone)
            found = computed(sql)
    except (
        DataError,
        CardinalityViolation,
        ProgramLimitExceeded,
    ):  # rows that the view keeps out, by its on_error
        return _by_replay(engine, relation)
    return _by_replay(engine, relation) if found.row_count and of_frames else found


def _verify_by_past(session: Session, relation: Relation, plan: LogicalPlan) -> Result:
    """Tick by tick, where the past is known; else as far as the rows themselves tell it."""
    engine = session.engine
    past = engine.call(lambda: prepare(engine, relation))
    if past is None:
        engine.call(lambda: _refuse_what_is_a_moment(engine, relation))
        return _verify_by_arrival(session, relation, plan)
    found = _differences(relation, past.present, [past.run(session.token)])
    if found.row_count and not past.exact:
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: it shares operators with views that were '
            "dropped or filled anew since, and what these had seen by then is not kept",
            hint="DROP the views over these inputs that share operators (EXPLAIN VERBOSE), then "
            "CREATE them anew.",
        )
    return found


def _verify_by_arrival(session: Session, relation: Relation, plan: LogicalPlan) -> Result:
    """All rows at once, each under the watermark that it came under."""
    engine = session.engine
    found = _by_replay(engine, relation)
    if found.row_count:
        engine.call(lambda: _refuse_what_is_not_kept(engine, relation, plan))
    return found


def _by_replay(engine: Engine, relation: Relation) -> Result:
    def replay() -> Result:
        again = rebuilt(engine, relation)
        plain = Delta(again.batch, again.weights)
        return _differences(relation, engine.views[relation.oid].snapshot(), [plain])

    found: Result = engine.call(replay)
    return found


KEPT_AGAIN = "CREATE OR REPLACE MATERIALIZED VIEW fills it anew; from then on what goes is kept."


def _refuse_what_is_a_moment(engine: Engine, relation: Relation) -> None:
    """Raises if a view shows a moment that its rows do not tell of, and that is not kept."""
    operators = engine.views[relation.oid].compiled.operators
    if any(isinstance(o, TemporalJoin | TemporalVersionJoin) for o in operators):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: a temporal join shows what its right side '
            "held at another time, and not all rows that went from there are kept",
            hint=KEPT_AGAIN,
        )
    if any(isinstance(o, Stamp) for o in operators):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: it shows now() as of when each row came, '
            "and not all rows that came and went are kept",
            hint=KEPT_AGAIN,
        )


def _refuse_what_is_not_kept(engine: Engine, relation: Relation, plan: LogicalPlan) -> None:
    """Where a replay differs from the view: raises if it may, for a view that is right."""
    if depends_on_both_arrivals(relation, plan, engine):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: its windows judge the rows of a join or '
            "UNION by what all inputs knew of time when they came, which is not kept any more",
            hint=KEPT_AGAIN,
        )
    if depends_on_turns(relation, engine):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: rows come and go by the clock below what '
            "the watermark closes, and which turns came too late is not kept any more",
            hint="Compare with now() above the windows: WHERE window_end > now() - INTERVAL "
            "'1 hour'.",
        )
    if depends_on_idle(relation, engine):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: an input was idle, and what its watermark '
            "counted for when each row came is not kept any more",
            hint=KEPT_AGAIN,
        )
    if depends_on_shrunk_sessions(plan, engine):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: rows went from its sessions, and which '
            "rows came while these held a session open is not kept any more",
            hint=KEPT_AGAIN,
        )
    if relation.oid in engine.past.needs or not engine.late_changes.knows(relation.oid):
        raise FeatureNotSupported(
            f'"{relation.name}" can not be verified: not all rows that it holds in closed '
            "windows, and that went from its inputs since, are kept",
            hint=KEPT_AGAIN,
        )


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


VERIFY = Handler(run_verify, returns(*VERIFY_COLUMNS), "VERIFY")
