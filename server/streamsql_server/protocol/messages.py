"""Messages to the client: each function gives the bytes of one message."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_HEADER = struct.Struct("!ci")
_FIELD = struct.Struct("!IhIhih")


def message(type_: bytes, body: bytes = b"") -> bytes:
    """Type byte, length (itself included), body."""
    return _HEADER.pack(type_, len(body) + 4) + body


def text(value: str) -> bytes:
    """A zero-terminated string; a NUL inside, which the wire can not carry, is dropped."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


AUTHENTICATION_OK = message(b"R", struct.pack("!i", 0))
PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY_QUERY = message(b"I")
PORTAL_SUSPENDED = message(b"s")
COPY_DONE = message(b"c")

_READY = {status: message(b"Z", status.encode()) for status in "ITE"}


def ready_for_query(status: str) -> bytes:
    """status: I idle, T in a transaction, E in a failed one."""
    return _READY[status]


def parameter_status(name: str, value: str) -> bytes:
    """A session parameter's present value."""
    return message(b"S", text(name) + text(value))


def backend_key_data(pid: int, secret: int) -> bytes:
    """What a CancelRequest must show."""
    return message(b"K", struct.pack("!iI", pid, secret))


def negotiate_protocol_version(minor: int, unknown: Sequence[str]) -> bytes:
    """The newest minor version we speak, and the `_pq_` options we do not know."""
    body = struct.pack("!ii", minor, len(unknown)) + b"".join(text(name) for name in unknown)
    return message(b"v", body)


def command_complete(tag: str) -> bytes:
    """End of one statement."""
    return message(b"C", text(tag))


def _fields(pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(code.encode() + text(value) for code, value in pairs) + b"\0"


def error_response(fields: Iterable[tuple[str, str]]) -> bytes:
    """(code, value) pairs: S severity, V same untranslated, C SQLSTATE, M message, D, H, P."""
    return message(b"E", _fields(fields))


def notice_response(fields: Iterable[tuple[str, str]]) -> bytes:
    """As error_response, for a NOTICE or WARNING."""
    return message(b"N", _fields(fields))


@dataclass(frozen=True, slots=True)
class Field:
    """One column of RowDescription."""

    name: str
    table_oid: int
    attnum: int
    type_oid: int
    typlen: int
    typmod: int
    format: int = 0


def row_description(fields: Sequence[Field]) -> bytes:
    """Names, types and formats of the rows that follow."""
    body = bytearray(struct.pack("!H", len(fields)))
    for f in fields:
        body += text(f.name)
        body += _FIELD.pack(f.table_oid, f.attnum, f.type_oid, f.typlen, f.typmod, f.format)
    return message(b"T", bytes(body))


def parameter_description(oids: Sequence[int]) -> bytes:
    """Types of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def copy_in_response(format_: int, columns: int) -> bytes:
    """The server waits for CopyData; format 0 text and csv, 1 binary."""
    return message(b"G", struct.pack(f"!bH{columns}h", format_, columns, *[format_] * columns))


def copy_out_response(format_: int, columns: int) -> bytes:
    """CopyData follows."""
    return message(b"H", struct.pack(f"!bH{columns}h", format_, columns, *[format_] * columns))


def copy_data(data: bytes) -> bytes:
    """One CopyData message."""
    return message(b"d", data)
