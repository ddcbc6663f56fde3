"""A client made of bytes: builds frontend messages and takes backend messages apart."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any


def message(type_: str, body: bytes = b"") -> bytes:
    return type_.encode() + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def query(sql: str) -> bytes:
    return message("Q", text(sql))


def parse(sql: str, name: str = "", oids: tuple[int, ...] = ()) -> bytes:
    return message("P", text(name) + text(sql) + struct.pack(f"!h{len(oids)}I", len(oids), *oids))


def bind(
    values: list[bytes | None] | None = None,
    *,
    portal: str = "",
    statement: str = "",
    formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> bytes:
    body = (
        text(portal) + text(statement) + struct.pack(f"!h{len(formats)}h", len(formats), *formats)
    )
    body += struct.pack("!h", len(values or []))
    for value in values or []:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return message("B", body + struct.pack(f"!h{len(results)}h", len(results), *results))


def describe(kind: str, name: str = "") -> bytes:
    return message("D", kind.encode() + text(name))


def execute(portal: str = "", max_rows: int = 0) -> bytes:
    return message("E", text(portal) + struct.pack("!i", max_rows))


def close(kind: str, name: str = "") -> bytes:
    return message("C", kind.encode() + text(name))


SYNC, FLUSH, TERMINATE = message("S"), message("H"), message("X")


def startup(code: int = 196608, **parameters: str) -> bytes:
    body = struct.pack("!i", code)
    for name, value in parameters.items():
        body += text(name) + text(value)
    body += b"\0"
    return struct.pack("!i", len(body) + 4) + body


@dataclass(frozen=True)
class Reply:
    type: str
    body: bytes

    @property
    def fields(self) -> dict[str, str]:
        """Of an error or notice."""
        parts = self.body.rstrip(b"\0").split(b"\0")
        return {part[:1].decode(): part[1:].decode() for part in parts}

    @property
    def word(self) -> str:
        """The first string (a command tag, a parameter's name)."""
        return self.body.split(b"\0")[0].decode()

    @property
    def values(self) -> list[bytes | None]:
        """Of a DataRow."""
        (count,) = struct.unpack_from("!h", self.body)
        at, out = 2, []
        for _ in range(count):
            (size,) = struct.unpack_from("!i", self.body, at)
            at += 4
            out.append(None if size < 0 else self.body[at : at + size])
            at += max(size, 0)
        return out

    @property
    def columns(self) -> list[tuple[Any, ...]]:
        """Of a RowDescription: name, table OID, attnum, type OID, typlen, typmod, format."""
        (count,) = struct.unpack_from("!h", self.body)
        at, out = 2, []
        for _ in range(count):
            end = self.body.index(b"\0", at)
            name = self.body[at:end].decode()
            out.append((name, *struct.unpack_from("!IhIhih", self.body, end + 1)))
            at = end + 19
        return out


def split(data: bytes) -> list[Reply]:
    """Backend messages; fails on anything that is not whole."""
    out, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("!i", data, at + 1)
        assert at + 1 + size <= len(data), "message is cut"
        out.append(Reply(chr(data[at]), data[at + 5 : at + 1 + size]))
        at += 1 + size
    return out


def types(replies: list[Reply]) -> str:
    return "".join(reply.type for reply in replies)
