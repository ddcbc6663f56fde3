"""Replies on their way from a worker thread to the socket, with back-pressure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from streamsql_server.conversation.output import ClientGone

FLUSH_BYTES = 1 << 16
HIGH_BYTES = 4 << 20  # more than this on the way: the worker waits
LOW_BYTES = 1 << 20  # … until no more than this is left
Handover: TypeAlias = Callable[[list[bytes | memoryview]], None]


class SocketOutput:
    """The `Output` of a connection.

    `send` and `flush` are called by the worker, `accepted`, `paused` and `lost` by the event loop.
    hand_over takes buffers to the event loop; it does not wait.
    """

    def __init__(self, hand_over: Handover) -> None:
        self._hand_over = hand_over
        self._buffer: list[bytes | memoryview] = []
        self._buffered = 0
        self._state = threading.Condition()
        self._queued = 0  # bytes handed over that the event loop has not seen yet
        self._paused = False  # the transport's own buffer is full
        self._gone = False
        self.check: Callable[[], None] = lambda: None  # raises when the statement was cancelled

    # --- worker -----------------------------------------------------------------------------------
    def send(self, data: bytes | memoryview) -> None:
        """Adds to the buffer."""
        if not data:
            return
        self._buffer.append(data)
        self._buffered += len(data)
        if self._buffered >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hands the buffer to the event loop."""
        if not self._buffer:
            return
        buffers, self._buffer = self._buffer, []
        size, self._buffered = self._buffered, 0
        with self._state:
            if self._gone:
                return
            self._queued += size
        self._hand_over(buffers)

    def wait_writable(self) -> None:
        """Waits until the client has taken enough. Raises: ClientGone, QueryCanceled."""
        self.check()
        with self._state:
            while self._is_full and not self._gone:
                self._state.wait(0.2)  # a cancel does not know this lock
                self.check()
            if self._gone:
                raise ClientGone

    def wait_room(self) -> None:
        """As wait_writable, between statements: nothing is there to be cancelled."""
        with self._state:
            while self._is_full and not self._gone:
                self._state.wait()
            if self._gone:
                raise ClientGone

    @property
    def _is_full(self) -> bool:
        return self._paused or self._queued > HIGH_BYTES

    # --- event loop -------------------------------------------------------------------------------
    def accepted(self, size: int) -> None:
        """The event loop has written so many bytes of what was handed over."""
        with self._state:
            self._queued -= size
            if not self._is_full:
                self._state.notify_all()

    def paused(self, paused: bool) -> None:
        """The transport's buffer is above HIGH_BYTES, or below LOW_BYTES again."""
        with self._state:
            self._paused = paused
            if not self._is_full:
                self._state.notify_all()

    def lost(self) -> None:
        """The connection is closed; nobody needs to wait for it."""
        with self._state:
            self._gone = True
            self._state.notify_all()
