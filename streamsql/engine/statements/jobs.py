"""CREATE MATERIALIZED VIEW over many rows, and CANCEL JOBS."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from streamsql.core.errors import QueryCanceled
from streamsql.core.types import BIGINT
from streamsql.dialect.statements import CancelJobs, Statement
from streamsql.engine.api import CopyIn, CopyOut, Result
from streamsql.engine.beside import RelationBusy
from streamsql.engine.ddl import DdlOp
from streamsql.engine.relations import Relation
from streamsql.engine.requests import CommitRequest
from streamsql.engine.statements.common import rows_result
from streamsql.engine.statements.handler import Handler, Types, returns, run_handler
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
    from streamsql.engine.jobs import Job
    from streamsql.engine.session import Session


def make(session: Session, relation: Relation, bases: tuple[Relation, ...]) -> bool:
    """Have a new materialized view made by a job, if that is the way for it; False = it is not.

    Under `background_ddl` the statement returns at once; else it waits, and is cancelled with the
    job. Raises: what the job ends with, QueryCanceled (57014).
    """
    if session.transaction is not None:
        return False
    background = session.variables.get("background_ddl") == "on"
    jobs = session.engine.jobs
    if not background and not jobs.is_worth_it(relation):
        return False
    try:
        job = jobs.submit(relation, bases, relation.sql, background=background)
    except RelationBusy as busy:
        wait_for(session, busy.job)
        raise
    if background:
        session.notice(
            f'materialized view "{relation.name}" is being created in the background',
            hint=f"SHOW JOBS shows how far it is; CANCEL JOB {job.id} stops it.",
        )
    else:
        session.wrote(wait(session, job))
    return True


def change_beside(session: Session, ops: tuple[DdlOp, ...]) -> bool:
    """Have a change of the catalog that touches many rows made by a job, and wait for it; False =
    it touches few.

    Raises: what the job ends with, QueryCanceled (57014).
    """
    jobs = session.engine.jobs
    if not jobs.is_large(ops):
        return False
    try:
        job = jobs.submit_change(ops, session.activity.query)
    except RelationBusy as busy:
        wait_for(session, busy.job)
        raise
    session.wrote(wait(session, job))
    return True


def wait(session: Session, job: Job) -> int:
    """Until the view is there; its version. Raises: what the job ends with, 57014."""

    def stop_if_cancelled() -> None:
        try:
            session.token.check()
        except QueryCanceled as error:
            job.stop(error)

    session.token.add_waker(stop_if_cancelled)
    try:
        stop_if_cancelled()
        return job.outcome.wait()
    finally:
        session.token.remove_waker(stop_if_cancelled)


# --- statements that wait for jobs of others ------------------------------------------------------
WAIT_SECONDS = 0.02
"""How often a statement that waits for a job looks whether it was cancelled."""


class LookAgain(Exception):
    """A statement waited for a change of the catalog by another one: it begins anew."""


def wait_for(session: Session, job: Job) -> None:
    """Until a job that works on what a statement is about is over. Outside of a transaction the
    statement then begins anew, because names may mean something else.

    Raises: QueryCanceled (57014); LookAgain.
    """
    while not job.outcome.done:
        session.token.check()
        with contextlib.suppress(TimeoutError):
            job.outcome.settle(WAIT_SECONDS)
    if session.transaction is None:
        raise LookAgain


def commit_patiently(session: Session, request: CommitRequest) -> int:
    """Have the engine do it, once no job is in its way; the version. Raises: see `wait_for`."""
    while True:
        try:
            return session.engine.commit(request).version
        except RelationBusy as busy:
            wait_for(session, busy.job)


def run_patiently(
    session: Session,
    handler: Handler,
    statement: Statement,
    values: tuple[Literal, ...],
    declared: Types,
) -> Result | CopyIn | tuple[CopyOut, Result]:
    """Run a statement; again, when it had to wait for another change of the catalog."""
    told = len(session.notices)
    while True:
        try:
            return run_handler(session, handler, statement, values, declared)
        except LookAgain:
            del session.notices[told:]


CANCEL_COLUMNS = (("Id", BIGINT),)


def run_cancel(
    session: Session, statement: CancelJobs, values: tuple[Literal, ...], declared: Types
) -> Result:
    """CANCEL JOB n, …; CANCEL JOBS. Returns the jobs that were stopped."""
    reason = "canceling statement due to CANCEL JOB"
    ended = session.engine.jobs.cancel(statement.ids, reason)
    return rows_result("CANCEL JOBS", CANCEL_COLUMNS, [(number,) for number in ended])


CANCEL = Handler(run_cancel, returns(*CANCEL_COLUMNS), "CANCEL JOBS")
