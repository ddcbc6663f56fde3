"""Where replies go, seen from the side that makes them."""

from __future__ import annotations

from typing import Protocol


class ClientGone(Exception):
    """The client can not be reached any more; whoever writes to it should stop."""


class Output(Protocol):
    """Replies of one connection, in order."""

    def send(self, data: bytes | memoryview) -> None:
        """Adds to the buffer; hands it on by itself when it has grown (64 kB)."""
        ...

    def flush(self) -> None:
        """Hands the buffer to the network. Does not wait for the client to read it."""
        ...

    def wait_writable(self) -> None:
        """Waits while the client is slower than we are. Raises: ClientGone; QueryCanceled
        (57014) when the statement was cancelled meanwhile."""
        ...
