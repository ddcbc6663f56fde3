"""Messages from the client: typed bodies to dataclasses.

Layouts are those of PostgreSQL's protocol 3.0. Every decoder consumes its body wholly; what is
short, long or not UTF-8 raises (08P01, 22021), the connection itself stays usable.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from streamsql.core.errors import CharacterNotInRepertoire, ProtocolViolation

LARGE_MESSAGE_LIMIT = (1 << 30) - 1
SMALL_MESSAGE_LIMIT = 10_000

_INT16 = struct.Struct("!h")
_UINT16 = struct.Struct("!H")
_INT32 = struct.Struct("!i")
_UINT32 = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class Query:
    """Simple query: one text of any number of statements."""

    sql: str


@dataclass(frozen=True, slots=True)
class Parse:
    """Prepare `sql` under `name` ("" = the unnamed one); declared parameter OIDs, 0 = unknown."""

    name: str
    sql: str
    parameter_oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Make a portal. Format lists hold 0, 1 or n codes; values are raw bytes, None = NULL."""

    portal: str
    statement: str
    parameter_formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """kind: "S" statement or "P" portal."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Run a portal; max_rows 0 = all."""

    portal: str
    max_rows: int


@dataclass(frozen=True, slots=True)
class Close:
    """kind: "S" statement or "P" portal."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Flush:
    """Send what is buffered."""


@dataclass(frozen=True, slots=True)
class Sync:
    """End of a pipeline's unit."""


@dataclass(frozen=True, slots=True)
class CopyData:
    """A piece of COPY FROM STDIN, cut anywhere."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CopyDone:
    """COPY FROM STDIN is complete."""


@dataclass(frozen=True, slots=True)
class CopyFail:
    """The client gives the COPY up."""

    message: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The old fast-path call; always refused."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """The client says goodbye."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """A message that could not be decoded; `type` says where it belongs."""

    type: bytes
    error: Exception


Event: TypeAlias = (
    Query | Parse | Bind | Describe | Execute | Close | Flush | Sync | CopyData | CopyDone
    | CopyFail | FunctionCall | Terminate | Invalid
)  # fmt: skip


class BodyReader:
    """Reads the fields of one message body in order. Raises: ProtocolViolation (08P01)."""

    __slots__ = ("_at", "_body")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def _fixed(self, layout: struct.Struct) -> int:
        end = self._at + layout.size
        if end > len(self._body):
            raise ProtocolViolation("insufficient data left in message")
        value: int = layout.unpack_from(self._body, self._at)[0]
        self._at = end
        return value

    def int16(self) -> int:
        """A signed 16-bit number."""
        return self._fixed(_INT16)

    def uint16(self) -> int:
        """An unsigned 16-bit number (counts: PostgreSQL allows 65535 parameters)."""
        return self._fixed(_UINT16)

    def int32(self) -> int:
        """A signed 32-bit number."""
        return self._fixed(_INT32)

    def uint32(self) -> int:
        """An unsigned 32-bit number (OIDs)."""
        return self._fixed(_UINT32)

    def take(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        end = self._at + size
        if size < 0 or end > len(self._body):
            raise ProtocolViolation("insufficient data left in message")
        value = self._body[self._at : end]
        self._at = end
        return value

    def text(self) -> str:
        """A zero-terminated UTF-8 string."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolViolation("invalid string in message")
        raw = self._body[self._at : end]
        self._at = end + 1
        return decode_utf8(raw)

    def value(self) -> bytes | None:
        """A length and as many bytes; length -1 is NULL."""
        size = self.int32()
        if size == -1:
            return None
        return self.take(size)

    def end(self) -> None:
        """Checks that nothing is left."""
        if self._at != len(self._body):
            raise ProtocolViolation("invalid message format")


def decode_utf8(raw: bytes) -> str:
    """Text from the client. Raises: CharacterNotInRepertoire (22021) as PostgreSQL words it."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        shown = " ".join(f"0x{byte:02x}" for byte in raw[error.start : error.end])
        raise CharacterNotInRepertoire(
            f'invalid byte sequence for encoding "UTF8": {shown}'
        ) from None


def _query(body: BodyReader) -> Event:
    return Query(body.text())


def _parse(body: BodyReader) -> Event:
    name, sql = body.text(), body.text()
    return Parse(name, sql, tuple(body.uint32() for _ in range(body.uint16())))


def _bind(body: BodyReader) -> Event:
    portal, statement = body.text(), body.text()
    formats = tuple(body.int16() for _ in range(body.uint16()))
    values = tuple(body.value() for _ in range(body.uint16()))
    results = tuple(body.int16() for _ in range(body.uint16()))
    return Bind(portal, statement, formats, values, results)


def _kind_and_name(body: BodyReader, what: str) -> tuple[str, str]:
    kind = body.take(1).decode("latin-1")
    if kind not in ("S", "P"):
        raise ProtocolViolation(f"invalid {what} message subtype {ord(kind)}")
    return kind, body.text()


def _describe(body: BodyReader) -> Event:
    return Describe(*_kind_and_name(body, "DESCRIBE"))


def _close(body: BodyReader) -> Event:
    return Close(*_kind_and_name(body, "CLOSE"))


def _execute(body: BodyReader) -> Event:
    return Execute(body.text(), max(body.int32(), 0))


def _copy_fail(body: BodyReader) -> Event:
    return CopyFail(body.text())


DECODERS: dict[bytes, Callable[[BodyReader], Event]] = {
    b"Q": _query,
    b"P": _parse,
    b"B": _bind,
    b"D": _describe,
    b"E": _execute,
    b"C": _close,
    b"H": lambda body: Flush(),
    b"S": lambda body: Sync(),
    b"c": lambda body: CopyDone(),
    b"f": _copy_fail,
    b"X": lambda body: Terminate(),
}

LARGE_TYPES = frozenset(b"QPBFd")  # may be long: texts, values, data
KNOWN_TYPES = frozenset(b"QPBDECHSdcfFX")


def decode(type_: bytes, body: bytes) -> Event:
    """One message to its event; a body that is wrong becomes `Invalid`, never an exception."""
    if type_ == b"d":
        return CopyData(body)
    if type_ == b"F":
        return FunctionCall()
    reader = BodyReader(body)
    try:
        event = DECODERS[type_](reader)
        reader.end()
    except (ProtocolViolation, CharacterNotInRepertoire) as error:
        return Invalid(type_, error)
    return event
