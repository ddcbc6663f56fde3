"""The engine thread: takes what waits (writes, source rows, timers), one batch after the other.

The scheduler knows nothing of tables or views: it owns the queues, the waiting and the grouping.
A *batch* is a run of writes that may be committed together (one fsync), or a single exclusive
call. Source rows that wait are taken along with every batch, up to a row limit, which is the
micro-batching: under load the batches grow by themselves, and the bounded queues are the
back-pressure.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from streamsql.core.errors import AdminShutdown

T = TypeVar("T")
R = TypeVar("R")

GROUP_MAX = 64
"""Writes committed together at most: bounds how long the first of them waits for the last."""


class Outcome(Generic[R]):
    """The answer to a piece of work, awaited by the thread that submitted it."""

    __slots__ = ("_done", "_error", "_value")

    def __init__(self) -> None:
        self._done = threading.Event()
        self._value: R | None = None
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def set(self, value: R) -> None:
        """Answer with a value; only the first answer counts."""
        if not self._done.is_set():
            self._value = value
            self._done.set()

    def fail(self, error: BaseException) -> None:
        """Answer with an error; only the first answer counts."""
        if not self._done.is_set():
            self._error = error
            self._done.set()

    def settle(self, timeout: float) -> None:
        """Wait until there is an answer, whatever it is. Raises: TimeoutError."""
        if not self._done.wait(timeout):
            raise TimeoutError

    def wait(self, timeout: float | None = None) -> R:
        """The value; raises the error. Raises: TimeoutError after `timeout` seconds."""
        if not self._done.wait(timeout):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


@dataclass
class Work(Generic[T]):
    """One piece of work. exclusive: run alone (DDL, checkpoints), by calling `payload()`."""

    payload: T
    exclusive: bool
    outcome: Outcome[Any] = field(default_factory=Outcome)


class IngestQueue(Generic[T]):
    """A bounded queue between a source's reader thread and the engine thread.

    Bounded by rows, not by entries; `put` waits while it is full, and gives up when closed. One
    entry may exceed the bound when the queue is empty, so that a large batch is never stuck.
    """

    def __init__(self, max_rows: int, wake: Callable[[], None]) -> None:
        self._entries: deque[tuple[int, T]] = deque()
        self._rows = 0
        self._max_rows = max_rows
        self._wake = wake
        self._closed = False
        self._lock = threading.Lock()
        self._space = threading.Condition(self._lock)

    @property
    def rows(self) -> int:
        """Rows that wait."""
        return self._rows

    @property
    def next_rows(self) -> int:
        """Rows of the entry that is next; 0 = nothing waits."""
        with self._lock:
            return self._entries[0][0] if self._entries else 0

    def put(self, rows: int, entry: T) -> bool:
        """Add an entry of that many rows; False if the queue was closed."""
        with self._lock:
            while not self._closed and self._rows and self._rows + rows > self._max_rows:
                self._space.wait()
            if self._closed:
                return False
            self._entries.append((rows, entry))
            self._rows += rows
        self._wake()
        return True

    def take(self, max_rows: int) -> list[tuple[int, T]]:
        """Whole (rows, entry) from the front, up to `max_rows` rows (at least one if any waits)."""
        taken: list[tuple[int, T]] = []
        rows = 0
        with self._lock:
            while self._entries and (not taken or rows + self._entries[0][0] <= max_rows):
                count, entry = self._entries.popleft()
                rows += count
                taken.append((count, entry))
            self._rows -= rows
            if taken:
                self._space.notify_all()
        return taken

    def put_back(self, entries: Sequence[tuple[int, T]]) -> None:
        """Return entries to the front, in their order: their tick could not be made durable."""
        with self._lock:
            if not self._closed:
                self._entries.extendleft(reversed(entries))
                self._rows += sum(rows for rows, _ in entries)

    def close(self) -> None:
        """Drop what waits and let `put` return."""
        with self._lock:
            self._closed = True
            self._entries.clear()
            self._rows = 0
            self._space.notify_all()


class Scheduler(Generic[T]):
    """Runs the engine thread.

    commit(writes): process a group of writes, answering each outcome; an empty group is a tick for
    sources and timers alone. has_input(): whether sources have rows waiting. next_due_us(): clock
    time of the next timer, or None. now_us(): the clock. real_time(): whether waiting lets the
    clock move on (a manual clock does not).
    """

    def __init__(
        self,
        *,
        commit: Callable[[Sequence[Work[T]]], None],
        has_input: Callable[[], bool],
        next_due_us: Callable[[], int | None],
        now_us: Callable[[], int],
        real_time: Callable[[], bool],
        name: str = "streamsql-engine",
    ) -> None:
        self._commit = commit
        self._has_input = has_input
        self._next_due_us = next_due_us
        self._now_us = now_us
        self._real_time = real_time
        self._queue: deque[Work[Any]] = deque()
        self._ready = threading.Condition(threading.RLock())
        self._poked = False
        self._stopping = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def on_engine_thread(self) -> bool:
        """Whether the caller is the engine thread (it must not wait for itself)."""
        return threading.current_thread() is self._thread

    @property
    def failed(self) -> bool:
        """Whether the thread ended by an error; what it worked on may be half done."""
        return self._error is not None

    def submit(self, write: T) -> Outcome[Any]:
        """Queue a write."""
        return self._enqueue(Work(write, exclusive=False))

    def call(self, function: Callable[[], R]) -> R:
        """Run `function` alone on the engine thread, between batches, and wait for it.

        Raises: whatever it raises; AdminShutdown (57P01) if the engine has stopped.
        """
        if self.on_engine_thread:
            return function()
        outcome: Outcome[R] = self._enqueue(Work(function, exclusive=True))
        return outcome.wait()

    def post(self, function: Callable[[], object]) -> None:
        """Run `function` alone on the engine thread some time soon; nobody waits for it. Safe
        everywhere, also where the garbage collector may be the caller."""
        self._enqueue(Work(function, exclusive=True))

    def _enqueue(self, work: Work[Any]) -> Outcome[Any]:
        with self._ready:
            if self._stopping:
                work.outcome.fail(self._error or closed_error())
                return work.outcome
            self._queue.append(work)
            self._ready.notify()
        return work.outcome

    def poke(self) -> None:
        """Look again: source rows arrived, or a timer or the clock changed. From any thread."""
        with self._ready:
            self._poked = True
            self._ready.notify()

    def stop(self) -> None:
        """Finish the batch in progress, refuse what waits, end the thread."""
        with self._ready:
            self._stopping = True
            self._ready.notify()
        if self._thread.is_alive() and not self.on_engine_thread:
            self._thread.join()
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        while self._queue:
            self._queue.popleft().outcome.fail(self._error or closed_error())

    def _run(self) -> None:
        try:
            while True:
                batch = self._next_batch()
                if batch is None:
                    return
                self._process(batch)
        except BaseException as error:  # the engine can not go on: tell everybody who waits
            self._error = error
            with self._ready:
                self._stopping = True
            self._refuse_waiting()
            raise

    def _process(self, batch: list[Work[Any]]) -> None:
        if batch and batch[0].exclusive:
            work = batch[0]
            try:
                work.outcome.set(work.payload())
            except BaseException as error:
                work.outcome.fail(error)
                if not isinstance(error, Exception):
                    raise
            return
        try:
            self._commit(batch)
        except BaseException as error:
            for work in batch:
                work.outcome.fail(error)
            raise
        for work in batch:
            if not work.outcome.done:
                work.outcome.fail(RuntimeError("a write was not answered"))

    def _next_batch(self) -> list[Work[Any]] | None:
        """Wait for work; [] = a tick for sources or timers; None = stop."""
        with self._ready:
            while True:
                if self._stopping:
                    return None
                if self._queue:
                    return self._pop_group()
                if self._has_input() or self._timer_due():
                    self._poked = False
                    return []
                if self._poked:
                    self._poked = False
                    continue
                self._ready.wait(self._wait_seconds())

    def _pop_group(self) -> list[Work[Any]]:
        first = self._queue.popleft()
        group: list[Work[Any]] = [first]
        if not first.exclusive:
            while self._queue and len(group) < GROUP_MAX and not self._queue[0].exclusive:
                group.append(self._queue.popleft())
        return group

    def _timer_due(self) -> bool:
        due = self._next_due_us()
        return due is not None and due <= self._now_us()

    def _wait_seconds(self) -> float | None:
        due = self._next_due_us() if self._real_time() else None
        if due is None:
            return None
        return max(0.0005, (due - self._now_us()) / 1e6)


def closed_error() -> AdminShutdown:
    """What a statement gets once the database is closed."""
    return AdminShutdown("the database is closed")
