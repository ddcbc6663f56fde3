"""Views that are being made while everything else goes on.

A CREATE MATERIALIZED VIEW over many rows is a job: it is written into the catalog (and the log), a
thread of its own fills a circuit beside the running one (`side_circuit`), and once that has caught
up the view is moved in and becomes visible in one version. Until then the view does not exist for
anybody; its name is taken. After a crash, jobs in the background start anew; those that a session
waited for are as if never begun.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from streamsql.core.delta import Delta
from streamsql.core.errors import (
    AdminShutdown,
    QueryCanceled,
    StreamSqlError,
    UndefinedObject,
    UndefinedTable,
)
from streamsql.engine import logs
from streamsql.engine.alterations import input_views
from streamsql.engine.ddl import CreateRelation, EndJob, StartJob, concurrent_update
from streamsql.engine.relations import Relation
from streamsql.engine.requests import CommitRequest, Tick
from streamsql.engine.side_circuit import Fed, SideCircuit
from streamsql.engine.storage.changelog import ChangeLog
from streamsql.runtime.scheduler import Outcome

if TYPE_CHECKING:
    from streamsql.engine.build import Built
    from streamsql.engine.engine import Engine
    from streamsql.engine.storage.view import ViewState

JOB_ROWS = 200_000
"""A view over so many rows is filled beside the circuit; one over fewer at once, which lets it
share nodes with other views and takes less time than a write may wait."""

BACKLOG_TICKS = 32
"""A job is moved in when no more ticks than this are left to take."""

ROUNDS = 50
"""Attempts to catch up with writers that are as fast as the job; then they wait for it."""


@dataclass
class Job:
    """One view in the making. id: the view's OID. state: filling | catching up | finishing | failed
    (in the background: until somebody looks). error: why it ended."""

    relation: Relation
    background: bool
    side: SideCircuit
    started_us: int
    outcome: Outcome[int] = field(default_factory=Outcome)
    state: str = "filling"
    rows_done: int = 0
    rows_total: int = 0
    error: StreamSqlError | None = None
    backlog: list[Fed] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    filled: bool = False
    thread: threading.Thread | None = None

    @property
    def id(self) -> int:
        return self.relation.oid

    def stop(self, error: StreamSqlError) -> None:
        """From any thread: end at the next slice."""
        with self.lock:
            self.error = self.error or error

    def check(self) -> None:
        """Raises: what the job was stopped with."""
        if self.error is not None:
            raise self.error

    def feed(self, tick: Fed) -> None:
        """Engine thread: a tick to take in later."""
        with self.lock:
            self.backlog.append(tick)

    def fill(self) -> None:
        """Take in the rows that were there at the start."""
        for rows in self.side.fill():
            self.rows_done += rows
            self.check()
        self.filled = True

    def catch_up(self, *, all_of_it: bool = False) -> int:
        """Take in the ticks that wait; returns how many have come meanwhile."""
        while True:
            with self.lock:
                waiting, self.backlog = self.backlog, []
            for tick in waiting:
                self.check()
                self.side.follow(tick)
            if not all_of_it or not waiting:
                return len(self.backlog)

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
        """Whether the view reads so many rows that it is not to be filled at once."""
        engine, rows = self.engine, 0
        seen: set[int] = set()
        stack = list(relation.depends_on)
        while stack:
            oid = stack.pop()
            other = engine.catalog.relations.get(oid)
            if other is None or oid in seen:
                continue
            seen.add(oid)
            if other.kind == "view":
                stack.extend(other.depends_on)
            elif oid in engine.sources and other.kind == "source":
                rows += engine.sources[oid].rows
            else:
                state = engine.tables.get(oid) or engine.views.get(oid)
                rows += 0 if state is None else state.store.live_rows
        return rows >= JOB_ROWS

    def submit(self, relation: Relation, bases: tuple[Relation, ...], *, background: bool) -> Job:
        """Begin to make a view. Raises: errors of the definition, 42P07, 58030."""
        self.engine.commit(CommitRequest((), (StartJob(relation, background, bases),)))
        return self._launched.pop(relation.oid)

    def cancel(self, ids: tuple[int, ...] | None, reason: str) -> list[int]:
        """End jobs (None = all) and wait until they are gone. Raises: UndefinedObject (42704)."""
        jobs = dict(self.active)
        for number in ids or ():
            if number not in jobs:
                raise UndefinedObject(
                    f"job {number} does not exist", hint="SHOW JOBS lists the jobs that run."
                )
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
    def begin(self, relation: Relation, *, background: bool) -> Job:
        """Compile the view beside the circuit, over the rows that are there now."""
        from streamsql.engine.build import check_inputs_run

        check_inputs_run(relation, self.engine.catalog)
        side = SideCircuit.begin(self.engine, relation)
        job = Job(relation, background, side, self.engine.clock_us())
        job.rows_total = side.rows
        return job

    def launch(self, job: Job) -> None:
        """The job is in the log: let it work. During replay it works at once."""
        with self.engine.lock:
            self.active[job.id] = job
        if self.engine.replay_us is not None:
            job.fill()
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
        """What a tick did to the running circuit's nodes, for the jobs that read them."""
        nodes = self.engine.circuit.nodes
        for job in list(self.active.values()):
            given: dict[int, list[Delta]] = {}
            moved: dict[int, int] = {}
            for read in job.side.inputs:
                node = nodes.get(read.main)
                if node is None:
                    continue
                if read.main in deltas:
                    given[read.main] = deltas[read.main]
                elif read.main in outputs:
                    given[read.main] = [outputs[read.main]]
                if node.watermark > read.watermark:
                    moved[read.main] = read.watermark = node.watermark
            if given or moved:
                job.feed(Fed(tick.version, tick.now_us, given, moved))

    def ready(self, oid: int) -> Job | None:
        """The job of a view that is to be moved in now, with every tick taken in."""
        job, engine = self.active.get(oid), self.engine
        if job is not None and job.error is not None and engine.replay_us is not None:
            return None  # it is in the log that the view was made: then it is made at once
        if job is not None:
            job.catch_up(all_of_it=True)
            if engine.version > job.side.version:  # what the clock alone has changed since
                job.side.follow(Fed(engine.version, engine.advance_now(), {}, {}))
        return job

    def move_in(self, job: Job, relation: Relation, built: Built) -> ViewState:
        """The view becomes part of what a request has built."""
        view = job.side.move_into(self.engine, relation)
        view.log = ChangeLog(self.engine.version)
        built.views[relation.oid] = view
        built.nodes[relation.oid] = view.node
        built.steps += job.side.reports
        return view

    def after(self, built: Built) -> None:
        """A catalog change is in force: jobs that are over go, those whose inputs have changed
        fail. Under the state lock."""
        catalog = built.catalog
        for job in list(self.active.values()):
            if job.id not in catalog.jobs:
                del self.active[job.id]
                continue
            reads = reads_of(job.relation, self.engine)
            if any(oid not in catalog.relations for oid in reads):
                job.stop(UndefinedTable("a relation that the view reads was dropped"))
            elif reads & built.changed:
                job.stop(concurrent_update())

    def fail_all(self, error: StreamSqlError) -> None:
        """The running circuit was thrown away, and with it what the jobs were to fit into."""
        for job in self.active.values():
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
            job = job or self.begin(self.engine.catalog.bound(relation), background=True)
        except StreamSqlError as error:
            logs.warning("a job could not go on", view=relation.name, reason=error.message)
            self._end(relation.oid)
            return
        self.launch(job)

    # --- the job's thread -----------------------------------------------------------------------
    def _work(self, job: Job) -> None:
        try:
            if not job.filled:
                job.fill()
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
        """Engine thread: the view is there. Raises: errors of the commit; nothing is changed."""
        job.check()
        engine = self.engine
        job.catch_up(all_of_it=True)
        relation = job.relation
        _, private = job.side.labels(engine.circuit, frozenset())
        if private:
            relation = replace(relation, extra={**relation.extra, "private": sorted(private)})
        bases = tuple(engine.catalog.relations[oid] for oid in sorted(relation.depends_on))
        request = CommitRequest((), (EndJob(job.id), CreateRelation(relation, bases=bases)))
        engine.builder.commit_ddl(request)
        return request.version

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
        error)."""
        return [
            (job.id, "create materialized view", job.relation.name, job.relation.sql, job.state,
             job.rows_done, job.rows_total, job.progress, job.started_us,
             None if job.error is None else job.error.message)
            for job in (*self.active.values(), *self.failed)
        ]  # fmt: skip


def reads_of(relation: Relation, engine: Engine) -> set[int]:
    """OIDs of all that a view is made of: what it names, and what plain views name for it."""
    found = set(relation.depends_on) | input_views(engine.catalog, relation)
    stack = list(relation.depends_on)
    while stack:
        other = engine.catalog.relations.get(stack.pop())
        if other is not None and other.kind == "view":
            stack += [oid for oid in other.depends_on if oid not in found]
            found |= other.depends_on
    return found


def wait_quietly(job: Job) -> None:
    """Until the job is over, however it ends."""
    with contextlib.suppress(Exception):  # whoever waits for the view itself hears of it
        job.outcome.wait()
