"""Python's cyclic garbage collector, paused while a long statement becomes a tree and a plan.

Hundreds of thousands of objects are made that all stay: the collector would look at them again and
again, and take as long as the work itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

LONG_TEXT = 100_000
"""Characters from which it is worth it."""

_lock = Lock()
_paused = 0
_was_on = False


@contextmanager
def paused_for(text: str) -> Iterator[None]:
    """No collections within the block, if the text is long; other threads' blocks may overlap."""
    global _paused, _was_on  # noqa: PLW0603
    if len(text) < LONG_TEXT:
        yield
        return
    with _lock:
        if not _paused:
            _was_on = gc.isenabled()
            gc.disable()
        _paused += 1
    try:
        yield
    finally:
        with _lock:
            _paused -= 1
            if not _paused and _was_on:
                gc.enable()
