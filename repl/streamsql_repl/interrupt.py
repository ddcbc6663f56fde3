"""Ctrl-C cancels the statement that runs, not the program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_POLL_SECONDS = 0.1


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """`work()` in a thread, while this one waits; Ctrl-C calls `cancel()`, and the wait goes on.

    What `work` raises is raised here. A thread that is not the main one hears no Ctrl-C: there the
    work is simply done.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: list[Any] = []
    failure: list[BaseException] = []
    done = threading.Event()  # Thread.join may be left in a wrong state by a Ctrl-C

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="statement", daemon=True).start()
    while not done.is_set():
        try:
            done.wait(_POLL_SECONDS)
        except KeyboardInterrupt:
            cancel()
    if failure:
        raise failure[0]
    result: T = outcome[0]
    return result
