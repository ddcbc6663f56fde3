"""CREATE MATERIALIZED VIEW over many rows, and CANCEL JOBS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsql.core.errors import QueryCanceled
from streamsql.core.types import BIGINT
from streamsql.dialect.statements import CancelJobs
from streamsql.engine.api import Result
from streamsql.engine.jobs import Job
from streamsql.engine.relations import Relation
from streamsql.engine.statements.common import rows_result
from streamsql.engine.statements.handler import Handler, Types, returns
from streamsql.functions.expressions import Literal

if TYPE_CHECKING:
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
    job = jobs.submit(relation, bases, background=background)
    if background:
        session.notice(
            f'materialized view "{relation.name}" is being created in the background',
            hint=f"SHOW JOBS shows how far it is; CANCEL JOB {job.id} stops it.",
        )
    else:
        session.written_version = wait(session, job)
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


CANCEL_COLUMNS = (("Id", BIGINT),)


def run_cancel(
    session: Session, statement: CancelJobs, values: tuple[Literal, ...], declared: Types
) -> Result:
    """CANCEL JOB n, …; CANCEL JOBS. Returns the jobs that were stopped."""
    reason = "canceling statement due to CANCEL JOB"
    ended = session.engine.jobs.cancel(statement.ids, reason)
    return rows_result("CANCEL JOBS", CANCEL_COLUMNS, [(number,) for number in ended])


CANCEL = Handler(run_cancel, returns(*CANCEL_COLUMNS), "CANCEL JOBS")
