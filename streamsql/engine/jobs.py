"""Changes of the catalog that are being made while everything else goes on.

A change that touches many rows is a job: a thread of its own makes its parts beside the running
engine (`beside`, `parts`), and once these have caught up they are put in their places and become
visible in one version. Until then everything is as it was: a new view does not exist for anybody,
its name is taken. Other changes of what a job works on wait for it; writes do not. Jobs that fill
views are in the log from their start, so that a replay fills them at the same version. After a
crash, jobs in the background start anew; those that a session waited for are as if never begun.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from streamsql.core.delta import Delta
from streamsql.core.errors import (
    AdminShutdown,
    DuplicateTable,
    QueryCanceled,
    StreamSqlError,
)
from streamsql.engine import logs
from streamsql.engine.beside import (
    Part,
    RelationBusy,
    Touched,
    about,
    filled_views,
    no_job,
    stored_rows,
    touched,
    with_notes,
)
from streamsql.engine.ddl import (
    CreateRelation,
    DdlOp,
    EndJob,
    StartJob,
    applied,
)
from streamsql.engine.parts import make_parts, rows_below, rows_of_parts
from streamsql.engine.relations import Relation
from streamsql.engine.requests import CommitRequest, Tick
from streamsql.engine.side_check import SideCheck
from streamsql.engine.side_circuit import Fed, SideCircuit
from streamsql.engine.side_index import SideIndex
from streamsql.engine.side_table import SideTable
from streamsql.engine.storage.table import TableState
from streamsql.engine.views import compile_options
from streamsql.runtime.scheduler import Outcome

if TYPE_CHECKING:
    from streamsql.engine.build import Built
    from streamsql.engine.engine import Engine

JOB_ROWS = 200_000
"""A change of so many rows is made beside the engine; one of fewer at once, which takes less time
than a write may wait."""

BACKLOG_TICKS = 32
"""A job is finished when no more ticks than this are left to take."""

ROUNDS = 50
"""Attempts to catch up with writers that are as fast as the job; then they wait for it."""


@dataclass
class Job:
    """One change in the making. id: the OID of what it is about. ops: what becomes of the catalog
    at the end; () = `relation` is a new view. logged: its start is in the log. state: filling |
    catching up | finishing | failed (in the background: until somebody looks). error: why it
    ended."""

    relation: Relation
    background: bool
    parts: list[Part]
    started_us: int
    touched: Touched
    kind: str = "create materialized view"
    text: str = ""
    ops: tuple[DdlOp, ...] = ()
    logged: bool = True
    outcome: Outcome[int] = field(default_factory=Outcome)
    state: str = "filling"
    rows_done: int = 0
    rows_total: int = 0
    error: StreamSqlError | None = None
    backlog: list[tuple[Part, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    filled: bool = False
    thread: threading.Thread | None = None

    @property
    def id(self) -> int:
        return self.relation.oid

    @property
    def circuit(self) -> SideCircuit | None:
        """The part that fills views."""
        return next((p for p in self.parts if isinstance(p, SideCircuit)), None)

    def stop(self, error: StreamSqlError) -> None:
        """From any thread: end at the next slice."""
        with self.lock:
            self.error = self.error or error

    def check(self) -> None:
        """Raises: what the job was stopped with."""
        if self.error is not None:
            raise self.error

    def feed(self, part: Part, noted: Any) -> None:
        """Engine thread: a tick to take in later."""
        with self.lock:
            self.backlog.append((part, noted))

    def fill(self, engine: Engine) -> None:
        """Take in the rows that were there at the start."""
        for part in self.parts:
            for rows in part.fill():
                self.rows_done += rows
                self.check()
            part.prepare(engine)
        self.filled = True

    def catch_up(self, *, all_of_it: bool = False) -> int:
        """Take in the ticks that wait; returns how many have come meanwhile."""
        while True:
            with self.lock:
                waiting, self.backlog = self.backlog, []
            for part, noted in waiting:
                self.check()
                part.follow(noted)
            if not all_of_it or not waiting:
                return len(self.backlog)

    def close(self) -> None:
        """Engine thread: it is over."""
        for part in self.parts:
            part.close()

    @property
    def progress(self) -> float:
        """Per cent of the rows there were at the start."""
        if not self.rows_total:
            return 100.0 if self.filled else 0.0
        return min(100.0, round(100.0 * self.rows_done / self.rows_total, 1))


class Jobs:
    """The jobs of one engine. `active` is changed by the engine thread, under the state lock."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.active: dict[int, Job] = {}
        self.failed: list[Job] = []
        self._launched: dict[int, Job] = {}

    # --- from sessions --------------------------------------------------------------------------
    def is_worth_it(self, relation: Relation) -> bool:
        """Whether a view reads so many rows that it is not to be filled at once."""
        return rows_below(relation, self.engine) >= JOB_ROWS

    def is_large(self, ops: Sequence[DdlOp]) -> bool:
        """Whether a change touches so many rows that it is not to be made at once. Raises: what
        the operations raise."""
        return rows_of_parts(ops, self.engine) >= JOB_ROWS

    def is_table_large(self, oid: int) -> bool:
        """Whether a change of a table's rows is a job."""
        return stored_rows(self.engine, oid) >= JOB_ROWS

    def submit(
        self, relation: Relation, bases: tuple[Relation, ...], text: str, *, background: bool
    ) -> Job:
        """Begin to make a view. Raises: errors of the definition, 42P07, 58030; RelationBusy."""
        start = StartJob(relation, background, bases, text=text)
        self.engine.commit(CommitRequest((), (start,)))
        return self._launched.pop(relation.oid)

    def submit_change(self, ops: tuple[DdlOp, ...], text: str) -> Job:
        """Begin to make a change of the catalog. Raises: errors of the operations; RelationBusy."""
        engine, relation = self.engine, about(ops)[1]
        if filled_views(ops, engine.catalog, applied(ops, engine.catalog)):
            engine.commit(CommitRequest((), (StartJob(relation, False, (), ops, text),)))
        else:
            engine.call(lambda: self._begin_unlogged(StartJob(relation, False, (), ops, text)))
        return self._launched.pop(relation.oid)

    def cancel(self, ids: tuple[int, ...] | None, reason: str) -> list[int]:
        """End jobs (None = all) and wait until they are gone. Raises: UndefinedObject (42704);
        WrongObjectType (42809) for a view or source that runs."""
        jobs = dict(self.active)
        for number in ids or ():
            if number not in jobs:
                raise no_job(number, self.engine)
        chosen = [j for j in jobs.values() if ids is None or j.id in ids]
        for job in chosen:
            job.stop(QueryCanceled(reason))
        for job in chosen:
            wait_quietly(job)
        return [job.id for job in chosen]

    def named(self, schema: str, name: str) -> Job | None:
        """The job that makes a view of that name."""
        for job in list(self.active.values()):
            if (job.relation.schema, job.relation.name) == (schema, name):
                return job
        return None

    # --- on the engine thread -------------------------------------------------------------------
    def check_free(self, ops: Sequence[DdlOp], own: Job | None) -> None:
        """Raises: RelationBusy if another job works on what a change is about; DuplicateTable
        (42P07) if one makes something of the same name."""
        if not self.active or self.engine.replay_us is not None:
            return
        asked = touched(ops, self.engine.catalog)
        for job in self.active.values():
            if job is own:
                continue
            made = (job.relation.schema, job.relation.name)
            for op in ops:
                if isinstance(op, CreateRelation) and not op.replaces and (
                    (op.relation.schema, op.relation.name) == made
                ):  # fmt: skip
                    raise being_created(job.relation)
            if asked.collides(job.touched) or job.relation.schema in asked.schemas:
                raise RelationBusy(job)

    def begin(self, start: StartJob, relation: Relation) -> Job:
        """Note the rows that are there now, and compile what is to be filled with them. relation:
        the new view, bound."""
        from streamsql.engine.alterations import check_inputs_run

        engine, ops = self.engine, start.ops
        about_it = touched((start,), engine.catalog)
        if ops:
            parts = make_parts(ops, engine, applied(ops, engine.catalog))
        else:
            check_inputs_run(relation, engine.catalog, engine.views)
            parts = [SideCircuit.begin(engine, [relation])]
        job = Job(relation, start.background, parts, engine.clock_us(), about_it)
        job.ops, job.text = ops, start.text or relation.sql
        if ops:
            job.kind = about(ops)[0]
        job.rows_total = sum(part.rows for part in parts)
        return job

    def _begin_unlogged(self, start: StartJob) -> None:
        self.check_free(start.ops, None)
        job = self.begin(start, start.relation)
        job.logged = False
        self.launch(job)

    def launch(self, job: Job) -> None:
        """The job is in the log: let it work. During replay it works at once."""
        with self.engine.lock:
            self.active[job.id] = job
        if self.engine.replay_us is not None:
            try:
                job.fill(self.engine)
            except StreamSqlError as error:  # it has failed then, too
                job.stop(error)
            return
        self._launched[job.id] = job
        name = f"streamsql-job-{job.id}"
        job.thread = threading.Thread(target=self._work, args=(job,), name=name, daemon=True)
        job.thread.start()

    def feed(
        self,
        tick: Tick,
        deltas: Mapping[int, list[Delta]],
        outputs: Mapping[int, Delta],
    ) -> None:
        """What a tick did, for the jobs that follow it."""
        for job in list(self.active.values()):
            for part in job.parts:
                noted = part.note(self.engine, tick, deltas, outputs)
                if noted is not None:
                    job.feed(part, noted)

    def circuit_of(self, oid: int) -> SideCircuit | None:
        """What has filled a view that is to be there now, with every tick taken in; None = nobody
        has."""
        for job in self.active.values():
            side = job.circuit
            if side is None or all(v.relation.oid != oid for v in side.views):
                continue
            if job.error is not None and self.engine.replay_us is not None:
                return None  # it is in the log that the view was made: then it is made at once
            if not side.moved:
                job.catch_up(all_of_it=True)
                self._meet_clock(side)
            return side
        return None

    def _meet_clock(self, side: SideCircuit) -> None:
        """What the clock alone has changed since the last tick that was taken in."""
        engine = self.engine
        if engine.version > side.version:
            side.follow(Fed(engine.version, engine.advance_now(), {}, {}))

    def table_of(self, oid: int) -> TableState | None:
        """A table's rows in their new columns, if a job that ends now has made them."""
        for job in self._ending():
            for part in job.parts:
                if isinstance(part, SideTable) and part.oid == oid:
                    return part.place(self.engine.tables[oid])
        return None

    def index_of(self, oid: int) -> SideIndex | None:
        """The same for an index."""
        for job in self._ending():
            for part in job.parts:
                if isinstance(part, SideIndex) and part.relation.oid == oid:
                    return part
        return None

    def has_checked(self, oid: int) -> bool:
        """The same for a table's new constraints."""
        kinds = (SideCheck, SideTable)
        return any(
            isinstance(p, kinds) and p.oid == oid for job in self._ending() for p in job.parts
        )

    def _ending(self) -> list[Job]:
        return [job for job in self.active.values() if job.state == "finishing"]

    def after(self, built: Built) -> None:
        """A catalog change is in force: jobs that are over go. Under the state lock."""
        for job in list(self.active.values()):
            if job is built.job or (job.logged and job.id not in built.catalog.jobs):
                del self.active[job.id]
                job.close()

    def fail_readers(self, nodes: Collection[int], error: StreamSqlError) -> None:
        """These nodes of the running circuit have failed, and so have the views made from them."""
        for job in self.active.values():
            side = job.circuit
            if side is not None and any(i.main in nodes for i in side.inputs):
                job.stop(error)

    def resume(self) -> None:
        """After recovery: go on with the jobs in the background, forget the others."""
        for oid, (relation, background) in dict(self.engine.catalog.jobs).items():
            job = self.active.pop(oid, None)
            self.engine.call(partial(self._resume, relation, background, job))

    def _resume(self, relation: Relation, background: bool, job: Job | None) -> None:
        if not background:
            self._end(relation.oid)
            return
        try:
            found = self.engine.catalog.bound(relation)
            job = job or self.begin(StartJob(relation, background=True), found)
        except StreamSqlError as error:
            logs.warning("a job could not go on", view=relation.name, reason=error.message)
            self._end(relation.oid)
            return
        self.launch(job)

    # --- the job's thread -----------------------------------------------------------------------
    def _work(self, job: Job) -> None:
        try:
            if not job.filled:
                job.fill(self.engine)
            job.state = "catching up"
            for _ in range(ROUNDS):
                if job.catch_up() <= BACKLOG_TICKS:
                    break
            job.check()
            job.state = "finishing"
            version = self.engine.call(lambda: self._publish(job))
            job.outcome.set(version)
        except AdminShutdown as error:
            job.outcome.fail(error)
        except Exception as error:
            self._give_up(job, error)

    def _publish(self, job: Job) -> int:
        """Engine thread: the change is there. Raises: errors of the commit; nothing is changed."""
        job.check()
        job.catch_up(all_of_it=True)
        if job.circuit is not None:
            self._meet_clock(job.circuit)
        for part in job.parts:
            part.finish()
        request = CommitRequest((), tuple(self._final(job)), job=job)
        self.engine.builder.commit_ddl(request)
        return request.version

    def _final(self, job: Job) -> list[DdlOp]:
        """What ends the job, as it goes into the log."""
        catalog = self.engine.catalog
        ops = list(job.ops)
        if not ops:
            bases = tuple(catalog.relations[oid] for oid in sorted(job.relation.depends_on))
            ops = [CreateRelation(job.relation, bases=bases)]
        for part in job.parts:
            if isinstance(part, SideTable):
                ops = part.recorded(ops)
        if job.circuit is not None:
            ops = self._labelled(job.circuit, ops, replacing=bool(job.ops))
        return [EndJob(job.id), *ops] if job.logged else ops

    def _labelled(self, side: SideCircuit, ops: list[DdlOp], *, replacing: bool) -> list[DdlOp]:
        """The operations with the views' labels that are theirs alone, which they need again after
        a restart."""
        tag = self.engine.catalog.oids.allocate() if replacing else 0
        options = {
            v.relation.oid: replace(
                compile_options(v.relation), private=frozenset(), private_tag=tag
            )
            for v in side.views
        }
        _, taken = side.labels(self.engine, options)
        noted: dict[str, Any] = {"private": sorted(taken)} if taken else {}
        if tag:
            noted["private_tag"] = tag

        return with_notes(ops, options.keys(), noted)

    def _give_up(self, job: Job, error: Exception) -> None:
        """The job has failed or was stopped: it is over, as if it had never begun."""
        job.state = "failed"
        job.error = error if isinstance(error, StreamSqlError) else job.error
        try:
            self.engine.call(lambda: self._end(job.id))
        except Exception as second:
            logs.warning("a job could not be ended", job=job.id, reason=str(second))
        if job.background and not isinstance(error, QueryCanceled):
            logs.warning("a view could not be made", view=job.relation.name, reason=str(error))
            self.failed = [*self.failed[-99:], job]
        job.outcome.fail(error)

    def _end(self, oid: int) -> None:
        """Engine thread: take a job out of the catalog, and out of the log if that works."""
        engine = self.engine
        if oid in self.active:
            self.active[oid].close()
        try:
            if oid in engine.catalog.jobs:
                engine.builder.commit_ddl(CommitRequest((), (EndJob(oid),)))
        finally:
            with engine.lock:
                self.active.pop(oid, None)

    def close(self) -> None:
        """The database closes: jobs stop where they are."""
        for job in list(self.active.values()):
            job.stop(AdminShutdown("the database is closed"))
        for job in list(self.active.values()):
            if job.thread is not None:
                job.thread.join(timeout=10.0)

    # --- for SHOW JOBS --------------------------------------------------------------------------
    def rows(self) -> list[tuple[Any, ...]]:
        """(id, kind, relation, statement, state, rows done, rows estimated, progress, started µs,
        error, schema)."""
        return [
            (job.id, job.kind, job.relation.name, job.text, job.state,
             job.rows_done, job.rows_total, job.progress, job.started_us,
             None if job.error is None else job.error.message, job.relation.schema)
            for job in (*self.active.values(), *self.failed)
        ]  # fmt: skip


def being_created(relation: Relation) -> DuplicateTable:
    """42P07: the name is taken by what a job makes."""
    return DuplicateTable(
        f'relation "{relation.name}" is being created',
        hint="SHOW JOBS shows how far it is; CANCEL JOB stops it.",
    )


def wait_quietly(job: Job) -> None:
    """Until the job is over, however it ends."""
    with contextlib.suppress(Exception):  # whoever waits for the view itself hears of it
        job.outcome.wait()
