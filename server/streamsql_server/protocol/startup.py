"""The first packets of a connection: encryption requests, cancel requests, the startup message.

Sans I/O: `Startup.next_step` consumes one packet from the input buffer and says what to do.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TypeAlias

from streamsql.core.errors import (
    FeatureNotSupported,
    InvalidAuthorization,
    InvalidParameterValue,
    ProtocolViolation,
    SqlSyntaxError,
    StreamSqlError,
    UndefinedDatabase,
)
from streamsql_server.protocol import messages

SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104
CANCEL_REQUEST = 80877102
MAX_STARTUP_PACKET = 10_000
TLS_HANDSHAKE = 0x16  # first byte of a TLS record: a client that needs no SSLRequest
NEWEST_MINOR = 0

DATABASES = ("streamsql", "postgres", "dev")  # one database, by the names that clients try first
_UTF8_NAMES = frozenset({"utf8", "unicode", "sqlascii"})


@dataclass(frozen=True, slots=True)
class Reply:
    """Send these bytes and go on."""

    data: bytes


@dataclass(frozen=True, slots=True)
class StartTls:
    """Send `reply`, then all further bytes belong to a TLS handshake."""

    reply: bytes


@dataclass(frozen=True, slots=True)
class Cancel:
    """A CancelRequest: act, answer nothing, close."""

    pid: int
    secret: int


@dataclass(frozen=True, slots=True)
class Start:
    """A startup message; `reply` (NegotiateProtocolVersion or nothing) goes out first."""

    parameters: dict[str, str]
    reply: bytes


@dataclass(frozen=True, slots=True)
class Reject:
    """Send the error as FATAL (None: nothing, as the peer speaks another protocol) and close."""

    error: StreamSqlError | None


Step: TypeAlias = Reply | StartTls | Cancel | Start | Reject


class Startup:
    """Decides on the packets before the session exists."""

    def __init__(self, *, tls_available: bool) -> None:
        self._tls_available = tls_available
        self._tls_done = False
        self._gss_done = False

    def next_step(self, buffer: bytearray) -> Step | None:
        """Takes one packet off the front of `buffer`; None when it is not there as a whole."""
        if not buffer:
            return None
        if buffer[0] == TLS_HANDSHAKE and not self._tls_done:
            self._tls_done = self._gss_done = True
            return StartTls(b"") if self._tls_available else Reject(None)
        if len(buffer) < 4:
            return None
        size = int.from_bytes(buffer[:4], "big")
        if not 8 <= size <= MAX_STARTUP_PACKET:
            return Reject(ProtocolViolation("invalid length of startup packet"))
        if len(buffer) < size:
            return None
        packet = bytes(buffer[4:size])
        del buffer[:size]
        code = int.from_bytes(packet[:4], "big")
        if code == CANCEL_REQUEST:
            if len(packet) != 12:
                return Reject(None)
            return Cancel(*struct.unpack_from("!iI", packet, 4))
        if code == SSL_REQUEST and not self._tls_done:
            return self._ssl_request(buffer)
        if code == GSSENC_REQUEST and not self._gss_done:
            self._gss_done = True
            return Reply(b"N")
        return _startup_message(code, packet[4:])

    def _ssl_request(self, rest: bytearray) -> Step:
        self._tls_done = True
        if not self._tls_available:
            return Reply(b"N")
        if rest:  # whatever came in clear could have been put there by somebody in the middle
            return Reject(ProtocolViolation("received unencrypted data after SSL request"))
        self._gss_done = True
        return StartTls(b"S")


def _startup_message(code: int, body: bytes) -> Step:
    major, minor = code >> 16, code & 0xFFFF
    if major != 3:
        return Reject(
            FeatureNotSupported(
                f"unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"
            )
        )
    if not body.endswith(b"\0"):
        return Reject(
            ProtocolViolation("invalid startup packet layout: expected terminator as last byte")
        )
    words = body[:-1].split(b"\0")
    if words[-1] == b"":
        words.pop()
    if len(words) % 2:
        return Reject(ProtocolViolation("invalid startup packet layout"))
    decoded = [word.decode("utf-8", "replace") for word in words]
    pairs = dict(zip(decoded[::2], decoded[1::2], strict=True))
    unknown = [name for name in pairs if name.startswith("_pq_.")]
    reply = b""
    if minor > NEWEST_MINOR or unknown:
        reply = messages.negotiate_protocol_version(NEWEST_MINOR, unknown)
    known = {name: value for name, value in pairs.items() if name not in unknown}
    return Start(known, reply)


@dataclass(frozen=True)
class StartupOptions:
    """What a startup message asks for; settings in the order in which they must be SET."""

    user: str
    database: str
    settings: list[tuple[str, str]] = field(default_factory=list)


def startup_options(parameters: dict[str, str]) -> StartupOptions:
    """User, database and session settings of a startup message.

    Raises: InvalidAuthorization (28000) without a user, UndefinedDatabase (3D000),
    FeatureNotSupported (0A000) for replication, SqlSyntaxError (42601) for bad `options`,
    InvalidParameterValue (22023) for a client encoding other than UTF8.
    """
    user = parameters.get("user", "")
    if not user:
        raise InvalidAuthorization("no PostgreSQL user name specified in startup packet")
    if parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise FeatureNotSupported(
            "replication connections are not supported",
            hint="Use SUBSCRIBE or a sink to follow changes.",
        )
    database = parameters.get("database") or user
    if database not in DATABASES and database != user:
        raise UndefinedDatabase(
            f'database "{database}" does not exist',
            hint='The one database is called "streamsql".',
        )
    settings = split_options(parameters.get("options", ""))
    for name, value in parameters.items():
        if name not in ("user", "database", "options", "replication"):
            settings.append((name, value))
    return StartupOptions(user, database, [_checked_setting(*pair) for pair in settings])


def _checked_setting(name: str, value: str) -> tuple[str, str]:
    if name.lower() != "client_encoding":
        return name, value
    bare = value.strip("'\"").lower().replace("-", "").replace("_", "")
    if bare not in _UTF8_NAMES:
        raise InvalidParameterValue(
            f'invalid value for parameter "client_encoding": "{value}"',
            hint="Only UTF8 is supported as client encoding.",
        )
    return name, "UTF8"


def split_options(options: str) -> list[tuple[str, str]]:
    """The settings in a startup message's `options`: `-c a=b`, `-ca=b`, `--a=b`; a backslash
    quotes the character after it.

    >>> split_options(r"-c a=b --work-mem=1\\ MB")
    [('a', 'b'), ('work_mem', '1 MB')]
    """
    words = _split_words(options)
    settings: list[tuple[str, str]] = []
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            assignment = words.pop(0)
        elif (word.startswith("-c") and len(word) > 2) or (word.startswith("--") and len(word) > 2):
            assignment = word[2:]
        else:
            raise SqlSyntaxError(f"invalid command-line argument for server process: {word}")
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise SqlSyntaxError(f"{word} requires a value")
        settings.append((name.replace("-", "_"), value))
    return settings


def _split_words(options: str) -> list[str]:
    words: list[str] = []
    word: str | None = None
    quoted = False
    for char in options:
        if quoted:
            word, quoted = (word or "") + char, False
        elif char == "\\":
            word, quoted = word or "", True
        elif char.isspace():
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + char
    if word is not None:
        words.append(word)
    return words
