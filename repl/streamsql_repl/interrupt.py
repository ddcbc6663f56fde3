"""Ctrl-C cancels the statement that runs, not the program."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
_POLL_SECONDS = 0.1


@contextmanager
def ctrl_c() -> Iterator[threading.Event]:
    """Within the block Ctrl-C sets the event, and raises nothing.

    A KeyboardInterrupt could come between any two steps of a wait, and does not come at all in a
    program that was started with the signal ignored (in the background of a script). A thread that
    is not the main one hears no Ctrl-C: there the event is never set.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def handle(number: int, frame: FrameType | None) -> None:
        pressed.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """`work()` in a thread, while this one waits; Ctrl-C calls `cancel()`, and the wait goes on.

    What `work` raises is raised here. A thread that is not the main one hears no Ctrl-C: there the
    work is simply done.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: list[Any] = []
    failure: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    with ctrl_c() as pressed:
        threading.Thread(target=run, name="statement", daemon=True).start()
        while not done.wait(_POLL_SECONDS):
            if pressed.is_set():
                pressed.clear()
                cancel()
    if failure:
        raise failure[0]
    result: T = outcome[0]
    return result
