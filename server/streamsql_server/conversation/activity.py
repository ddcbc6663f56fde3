"""Cancelling: which statement a CancelRequest hits, and that it never hits a later one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from streamsql.core.errors import QueryCanceled
from streamsql.engine.api import SessionApi


class Activity:
    """Knows whether a statement runs now. `cancel` may come from any thread."""

    def __init__(self, session: SessionApi) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._depth = 0
        self.cancelled = False
        self.streaming = False  # the statement has no end of its own (SUBSCRIBE)

    @contextmanager
    def running(self) -> Iterator[None]:
        """While a statement runs (may be nested)."""
        with self._lock:
            if self._depth == 0:
                self.cancelled = False
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                if self._depth == 0:
                    self.streaming = False

    def cancel(self) -> bool:
        """Cancels what runs now; False when nothing does."""
        with self._lock:
            if self._depth == 0:
                return False
            self.cancelled = True
            self._session.cancel()
            return True

    def check(self) -> None:
        """Raises: QueryCanceled (57014) after a cancel."""
        if self.cancelled:
            raise QueryCanceled("canceling statement due to user request")
