"""The protocol's state of one connection: bytes in, events out, replies gathered.

Sans I/O. The socket side calls `receive`; whoever runs statements calls `next_event`, which
already leaves out what must be skipped (after an error until Sync, stray COPY data, Flush and
Sync inside COPY FROM STDIN). Frames may arrive cut anywhere and many at once. The two sides may
be two threads.
"""

from __future__ import annotations

import threading
from collections import deque

from streamsql.core.errors import ProtocolViolation
from streamsql_server.protocol import frontend
from streamsql_server.protocol.frontend import Event

_COPY_TYPES = frozenset(b"dcf")


class FatalProtocolError(ProtocolViolation, sqlstate="08P01"):
    """The byte stream is out of step: the connection can only be closed."""


class ProtocolConnection:
    """Framing and skipping for one connection after startup."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._frames: deque[tuple[bytes, bytes]] = deque()
        self._fatal: FatalProtocolError | None = None
        self._lock = threading.Lock()
        self.pending_bytes = 0  # of frames not yet taken by `next_event`
        self.skipping = False  # after an error in the extended protocol, until Sync
        self.copying = False  # between CopyInResponse and its end

    # --- in ---------------------------------------------------------------------------------------
    def receive(self, data: bytes) -> None:
        """Bytes from the client. A frame that can not be right ends the stream; `next_event` then
        gives what came before it and raises after that."""
        with self._lock:
            if self._fatal is None:
                self._buffer += data
                self._cut_frames()

    def _cut_frames(self) -> None:
        buffer, at = self._buffer, 0
        with memoryview(buffer) as view:
            while len(buffer) - at >= 5:
                size = int.from_bytes(view[at + 1 : at + 5], "big")
                self._fatal = _frame_fault(buffer[at], size)
                if self._fatal is not None:
                    at = len(buffer)
                    break
                end = at + 1 + size
                if len(buffer) < end:
                    break
                self._frames.append((bytes(view[at : at + 1]), bytes(view[at + 5 : end])))
                self.pending_bytes += size + 1
                at = end
        del buffer[:at]

    @property
    def has_work(self) -> bool:
        """Is there something for `next_event`?"""
        with self._lock:
            return bool(self._frames) or self._fatal is not None

    # --- out --------------------------------------------------------------------------------------
    def next_event(self) -> Event | None:
        """The next event that is not to be skipped, None when all are taken.

        Raises: FatalProtocolError (08P01).
        """
        with self._lock:
            while self._frames:
                type_, body = self._frames.popleft()
                self.pending_bytes -= len(body) + 5
                if not self._dropped(type_[0]):
                    return frontend.decode(type_, body)
            if self._fatal is not None:
                raise self._fatal
            return None

    def _dropped(self, type_: int) -> bool:
        if type_ == ord("X"):
            return False
        if self.copying:
            return type_ in b"HS"
        if type_ in _COPY_TYPES:
            return True  # the rest of a COPY that failed already
        if not self.skipping:
            return False
        if type_ == ord("S"):
            self.skipping = False
            return False
        return True

    def peek_types(self) -> list[int]:
        """Types of the frames that wait, in order (a pipeline's look ahead)."""
        with self._lock:
            return [type_[0] for type_, _ in self._frames]

    @property
    def terminate_waits(self) -> bool:
        """Has the client said goodbye behind what is still being worked on?"""
        with self._lock:
            return bool(self._frames) and self._frames[-1][0] == b"X"

    # --- changes of mode --------------------------------------------------------------------------
    def skip_to_sync(self) -> None:
        """An error in the extended protocol: nothing is done until the next Sync."""
        self.skipping = True

    def start_copy(self) -> None:
        """COPY FROM STDIN begins."""
        self.copying = True

    def end_copy(self) -> None:
        """COPY FROM STDIN is over, well or not."""
        self.copying = False


def _frame_fault(type_: int, size: int) -> FatalProtocolError | None:
    if type_ not in frontend.KNOWN_TYPES:
        return FatalProtocolError(f"invalid frontend message type {type_}")
    limit = (
        frontend.LARGE_MESSAGE_LIMIT
        if type_ in frontend.LARGE_TYPES
        else frontend.SMALL_MESSAGE_LIMIT
    )
    if not 4 <= size <= limit:
        return FatalProtocolError("invalid message length")
    return None
