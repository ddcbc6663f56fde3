"""Threads that run statements: as many as connections are busy, reused, never waited for at exit.

`concurrent.futures` joins its threads when the interpreter ends, so that one statement that can
not be interrupted would keep a stopped server alive.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeAlias

import structlog

log = structlog.get_logger("streamsql.server")

Job: TypeAlias = Callable[[], None]
IDLE_S = 30.0


class WorkerPool:
    """Runs each job at once on a thread of its own; idle threads are used again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._busy = 0
        self._quiet = threading.Condition(self._lock)

    def submit(self, job: Job) -> None:
        """Starts the job. Its errors are logged; it should not let any out."""
        with self._lock:
            self._busy += 1
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._loop, name=self._name, daemon=True).start()
        self._jobs.put(job)

    def wait_quiet(self, timeout_s: float) -> bool:
        """Waits until no job runs; False when some still do after the time given."""
        with self._lock:
            return self._quiet.wait_for(lambda: self._busy == 0, timeout_s)

    def _loop(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._idle == 0:
                        continue  # a job was promised to this thread just now
                    self._idle -= 1
                return
            try:
                job()
            except Exception:
                log.exception("a worker's job failed")
            with self._lock:
                self._busy -= 1
                self._idle += 1
                if self._busy == 0:
                    self._quiet.notify_all()
            del job
