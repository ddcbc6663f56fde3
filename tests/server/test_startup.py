"""Packets before the session: encryption, cancel, versions, options."""

from __future__ import annotations

import struct

import pytest
from streamsql_server.protocol.startup import (
    Cancel,
    Reject,
    Reply,
    Start,
    StartTls,
    Startup,
    split_options,
    startup_options,
)

from streamsql.core.errors import StreamSqlError
from tests.server import wire


def packet(code: int, body: bytes = b"") -> bytearray:
    return bytearray(struct.pack("!ii", len(body) + 8, code) + body)


SSL, GSS, CANCEL = 80877103, 80877104, 80877102


def test_encryption_is_refused_politely_in_any_order() -> None:
    machine = Startup(tls_available=False)
    data = packet(GSS) + packet(SSL) + wire.startup(user="me")
    assert machine.next_step(data) == Reply(b"N")
    assert machine.next_step(data) == Reply(b"N")
    assert machine.next_step(data) == Start({"user": "me"}, b"")
    assert machine.next_step(data) is None


def test_packet_is_waited_for_byte_by_byte() -> None:
    machine, data = Startup(tls_available=False), bytearray()
    steps = []
    for byte in wire.startup(user="me"):
        data.append(byte)
        steps.append(machine.next_step(data))
    assert steps[:-1] == [None] * (len(steps) - 1)
    assert isinstance(steps[-1], Start)


def test_tls_by_request_and_at_once() -> None:
    assert Startup(tls_available=True).next_step(packet(SSL)) == StartTls(b"S")
    hello = bytearray(b"\x16\x03\x01")
    assert Startup(tls_available=True).next_step(hello) == StartTls(b"")
    assert hello == b"\x16\x03\x01"  # belongs to the handshake
    assert Startup(tls_available=False).next_step(hello) == Reject(None)


def test_bytes_behind_an_accepted_ssl_request_are_refused() -> None:
    step = Startup(tls_available=True).next_step(packet(SSL) + b"x")
    assert isinstance(step, Reject)
    assert step.error is not None


def test_second_ssl_request_is_no_request() -> None:
    machine = Startup(tls_available=False)
    machine.next_step(packet(SSL))
    assert isinstance(machine.next_step(packet(SSL)), Reject)


def test_cancel_request() -> None:
    machine = Startup(tls_available=False)
    data = packet(CANCEL, struct.pack("!iI", 12, 4_000_000_000))
    assert machine.next_step(data) == Cancel(12, 4_000_000_000)
    assert machine.next_step(packet(CANCEL, b"x")) == Reject(None)


def test_newer_minor_version_and_unknown_options_are_negotiated() -> None:
    body = struct.pack("!i", 0x00030002) + b"user\0me\0_pq_.x\0y\0\0"
    step = Startup(tls_available=False).next_step(
        bytearray(struct.pack("!i", len(body) + 4) + body)
    )
    assert isinstance(step, Start)
    assert step.parameters == {"user": "me"}
    assert step.reply == wire.message("v", struct.pack("!ii", 0, 1) + b"_pq_.x\0")


@pytest.mark.parametrize(
    "data",
    [
        wire.startup(0x00020000, user="me"),
        struct.pack("!ii", 7, 196608),
        struct.pack("!ii", 100_000, 196608),
        struct.pack("!ii", 13, 196608) + b"user\0",
        struct.pack("!ii", 10, 196608) + b"us",
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_nonsense_is_rejected(data: bytes) -> None:
    assert isinstance(Startup(tls_available=False).next_step(bytearray(data)), Reject)


@pytest.mark.parametrize("name", ["streamsql", "postgres", "dev", "me", ""])
def test_database_names_that_are_known(name: str) -> None:
    assert startup_options({"user": "me", "database": name}).database == (name or "me")


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"user": "me", "database": "other"}, "3D000"),
        ({"database": "streamsql"}, "28000"),
        ({"user": "me", "replication": "database"}, "0A000"),
        ({"user": "me", "options": "-x"}, "42601"),
        ({"user": "me", "options": "-c a"}, "42601"),
        ({"user": "me", "client_encoding": "LATIN1"}, "22023"),
    ],
)
def test_startup_that_can_not_be_served(parameters: dict[str, str], code: str) -> None:
    with pytest.raises(StreamSqlError) as caught:
        startup_options(parameters)
    assert caught.value.sqlstate == code


def test_settings_of_the_startup_message() -> None:
    options = startup_options(
        {
            "user": "me",
            "client_encoding": "'utf-8'",
            "options": r"-c a=b --c-d=e\ f",
            "TimeZone": "UTC",
        }
    )
    assert options.settings == [
        ("a", "b"), ("c_d", "e f"), ("client_encoding", "UTF8"), ("TimeZone", "UTC"),
    ]  # fmt: skip
    assert split_options("") == []
