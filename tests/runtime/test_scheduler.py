"""The engine thread's queue: grouping, exclusive calls, timers, back-pressure, the end."""

from __future__ import annotations

import threading

import pytest

from streamsql.core.errors import AdminShutdown
from streamsql.runtime.scheduler import GROUP_MAX, IngestQueue, Outcome, Scheduler


class Engine:
    """Records the groups it is given."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.due: int | None = None
        self.now = 0
        self.ticked = threading.Semaphore(0)
        self.input = False
        self.scheduler: Scheduler[int] = Scheduler(
            commit=self.commit,
            has_input=lambda: self.input,
            next_due_us=lambda: self.due,
            now_us=lambda: self.now,
            real_time=lambda: True,
        )

    def commit(self, group) -> None:
        self.gate.wait()
        self.groups.append([w.payload for w in group])
        if not group:
            self.due, self.input = None, False
            self.ticked.release()
        for work in group:
            if work.payload < 0:
                work.outcome.fail(ValueError(work.payload))
            else:
                work.outcome.set(work.payload * 10)


@pytest.fixture
def engine():
    engine = Engine()
    engine.scheduler.start()
    yield engine
    engine.scheduler.stop()


def test_writes_that_wait_are_grouped_around_exclusive_calls(engine):
    engine.gate.clear()
    first = engine.scheduler.submit(0)
    while engine.scheduler._queue:
        pass
    later = [engine.scheduler.submit(i) for i in (1, 2)]
    done = []
    caller = threading.Thread(target=lambda: done.append(engine.scheduler.call(lambda: "alone")))
    caller.start()
    while len(engine.scheduler._queue) < 3:
        pass
    later.append(engine.scheduler.submit(3))
    engine.gate.set()
    assert [o.wait(5) for o in (first, *later)] == [0, 10, 20, 30]
    caller.join(5)
    assert done == ["alone"]
    assert engine.groups == [[0], [1, 2], [3]]


def test_groups_are_bounded(engine):
    engine.gate.clear()
    outcomes = [engine.scheduler.submit(i) for i in range(2 * GROUP_MAX + 5)]
    engine.gate.set()
    for outcome in outcomes:
        outcome.wait(5)
    assert max(map(len, engine.groups)) <= GROUP_MAX


def test_errors_reach_their_own_writer_only(engine):
    good, bad = engine.scheduler.submit(1), engine.scheduler.submit(-1)
    assert good.wait(5) == 10
    with pytest.raises(ValueError, match="-1"):
        bad.wait(5)
    with pytest.raises(ZeroDivisionError):
        engine.scheduler.call(lambda: 1 / 0)
    assert engine.scheduler.call(lambda: 5) == 5


def test_timer_and_input_make_ticks_of_their_own(engine):
    engine.now, engine.due = 10, 10
    engine.scheduler.poke()
    assert engine.ticked.acquire(timeout=5)
    engine.input = True
    engine.scheduler.poke()
    assert engine.ticked.acquire(timeout=5)
    assert engine.groups == [[], []]


def test_after_the_end_everything_is_refused(engine):
    engine.gate.clear()
    running = engine.scheduler.submit(1)
    while engine.scheduler._queue:
        pass
    waiting = engine.scheduler.submit(2)
    stopper = threading.Thread(target=engine.scheduler.stop)
    stopper.start()
    while not engine.scheduler._stopping:
        pass
    engine.gate.set()
    stopper.join(5)
    assert running.wait(5) == 10
    with pytest.raises(AdminShutdown):
        waiting.wait(5)
    with pytest.raises(AdminShutdown):
        engine.scheduler.submit(3).wait(5)


def test_outcome_keeps_its_first_answer():
    outcome: Outcome[int] = Outcome()
    with pytest.raises(TimeoutError):
        outcome.wait(0.001)
    outcome.set(1)
    outcome.fail(ValueError())
    assert outcome.wait() == 1


def test_queue_holds_its_writer_back_until_rows_are_taken():
    woken = []
    queue: IngestQueue[str] = IngestQueue(10, lambda: woken.append(1))
    assert queue.put(8, "a")
    finished = threading.Event()

    def put():
        assert queue.put(5, "b")
        finished.set()

    writer = threading.Thread(target=put)
    writer.start()
    assert not finished.wait(0.02)
    assert queue.take(100) == [(8, "a")]
    assert finished.wait(5)
    assert queue.rows == 5
    queue.put_back([(8, "a")])
    assert queue.take(9) == [(8, "a")]
    assert queue.take(9) == [(5, "b")]
    queue.close()
    assert not queue.put(1, "c")
    writer.join()


def test_entry_larger_than_the_queue_is_not_stuck():
    queue: IngestQueue[str] = IngestQueue(10, lambda: None)
    assert queue.put(1000, "big")
    assert queue.take(1) == [(1000, "big")]
