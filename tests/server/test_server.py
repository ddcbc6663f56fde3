"""Sockets, threads and real drivers, on a fake database (`test_engine_clients.py` has the real)."""

from __future__ import annotations

import asyncio
import io
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import asyncpg
import pg8000.dbapi
import psycopg
import pytest
from streamsql_server.network.tls import server_context
from streamsql_server.server import CannotListen, Server

from tests.server import wire
from tests.server.fake import FakeDatabase


@pytest.fixture
def database() -> Iterator[FakeDatabase]:
    fake = FakeDatabase()
    yield fake
    fake.close()


@pytest.fixture
def server(database: FakeDatabase) -> Iterator[Server]:
    with Server(database, "127.0.0.1", 0) as started:
        yield started


def connect(server: Server, **options: Any) -> psycopg.Connection[Any]:
    options = {
        "user": "me",
        "dbname": "streamsql",
        "autocommit": True,
        "connect_timeout": 5,
    } | options
    return psycopg.connect(host="127.0.0.1", port=server.port, **options)


class Raw:
    """A socket that keeps what it read beyond the message that was waited for."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.rest = sock, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sock, name)

    def ended(self) -> bool:
        return self.rest == b"" and self.sock.recv(1) == b""


def raw(server: Server, **parameters: str) -> Raw:
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=5)
    sock.sendall(wire.startup(**({"user": "me"} | parameters)))
    return Raw(sock)


def read_until(client: Raw, type_: str) -> list[wire.Reply]:
    """Whole messages up to (and with) the first one of that type."""
    replies: list[wire.Reply] = []
    while True:
        data, at = client.rest, 0
        while len(data) - at > 4:
            end = at + 1 + struct.unpack_from("!i", data, at + 1)[0]
            if len(data) < end:
                break
            replies += wire.split(data[at:end])
            at = end
            if replies[-1].type == type_:
                client.rest = data[at:]
                return replies
        got = client.recv(1 << 20)
        if not got:
            raise ConnectionError(replies)
        client.rest = data[at:] + got


def eventually(condition: Any, timeout_s: float = 5.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


# --- drivers --------------------------------------------------------------------------------------
def test_psycopg_parameters_and_both_formats(server: Server) -> None:
    with connect(server) as client:
        for binary in (False, True):
            cursor = client.cursor(binary=binary)
            row = cursor.execute(
                "SELECT %s::INT, %s::TEXT, %s::BOOLEAN, %s::DOUBLE, NULL::INT", (7, "é'", True, 1.5)
            ).fetchone()
            assert row == (7, "é'", True, 1.5, None)
        assert client.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert client.info.parameter_status(
            "server_version",
        ).startswith("15")
        assert client.info.server_version >= 150000


def test_psycopg_prepared_statements_and_deallocate(server: Server) -> None:
    with connect(server) as client:
        client.prepare_threshold = 1
        client.prepared_max = 2
        for i in range(6):
            for extra in range(4):
                got = client.execute(f"SELECT %s::INT + {extra}", (i,)).fetchone()
                assert got == (i + extra,)


def test_psycopg_pipeline_gives_each_its_result(server: Server) -> None:
    with connect(server) as client, client.pipeline():
        cursors = [client.execute("SELECT %s::INT", (i,)) for i in range(50)]
        assert [cursor.fetchone() for cursor in cursors] == [(i,) for i in range(50)]


def test_psycopg_transaction_and_error_states(server: Server) -> None:
    with connect(server) as client:
        client.execute("CREATE TABLE t(a INT)")
        with pytest.raises(psycopg.errors.DivisionByZero) as caught, client.transaction():
            client.execute("INSERT INTO t VALUES (1)")
            client.execute("FAIL x")
        assert caught.value.diag.statement_position == "4"
        assert client.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_psycopg_copy_in_and_out(server: Server) -> None:
    with connect(server) as client:
        client.execute("CREATE TABLE t(a INT, b VARCHAR)")
        with client.cursor() as cursor:
            with cursor.copy("COPY t FROM STDIN") as copy:
                for i in range(10_000):
                    copy.write(f"{i},name {i}\n")
            assert cursor.rowcount == 10_000
            with cursor.copy("COPY (SELECT * FROM t ORDER BY a) TO STDOUT") as copy:
                rows = list(copy.rows())
            assert (len(rows), rows[-1]) == (10_000, ("9999", "name 9999"))
            with cursor.copy("COPY (SELECT * FROM t ORDER BY a) TO STDOUT binary") as copy:
                copy.set_types(["int4", "text"])
                assert list(copy.rows())[1] == (1, "name 1")


def test_psycopg_notices_and_cancel(server: Server, database: FakeDatabase) -> None:
    with connect(server) as client:
        seen: list[str | None] = []
        client.add_notice_handler(lambda notice: seen.append(notice.message_primary))
        client.execute("NOTICE hello")
        assert seen == ["hello"]
        session = database.sessions[-1]
        canceller = threading.Thread(target=lambda: (session.running.wait(5), client.cancel_safe()))
        canceller.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute("SLEEP 20")
        canceller.join()
        client.cancel_safe()  # late: hits nothing
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_asyncpg_binary_parameters_portals_and_copy(server: Server) -> None:
    async def talk() -> None:
        client = await asyncpg.connect(
            host="127.0.0.1", port=server.port, user="me", database="streamsql"
        )
        assert await client.fetchval("SELECT $1::INT + 1", 41) == 42
        assert await client.fetch("SELECT $1::TEXT AS a, $2::DOUBLE AS b", "x", 1.5) == [("x", 1.5)]
        await client.execute("CREATE TABLE t(a INT, b VARCHAR); INSERT INTO t VALUES (1, 'x')")
        async with client.transaction():
            seen = [row["n"] async for row in client.cursor("SERIES 120", prefetch=50)]
        assert seen == list(range(120))
        out = io.BytesIO()
        await client.copy_from_query("SELECT a, b FROM t", output=out)
        assert out.getvalue() == b"1\tx\n"
        with pytest.raises(asyncpg.DivisionByZeroError):
            await client.fetch("FAIL x")
        with pytest.raises(asyncio.TimeoutError):
            await client.fetch("SLEEP 20", timeout=0.05)
        assert await client.fetchval("SELECT 1") == 1
        await client.close()

    asyncio.run(talk())


def test_pg8000_text_parameters(server: Server) -> None:
    client = pg8000.dbapi.connect(
        host="127.0.0.1", port=server.port, user="me", database="streamsql"
    )
    cursor = client.cursor()
    cursor.execute("SELECT %s::TEXT, %s::TEXT, 3", ("a", None))
    assert cursor.fetchall() == (["a", None, 3],)
    client.rollback()
    with pytest.raises(pg8000.dbapi.DatabaseError) as caught:
        cursor.execute("FAIL x")
    assert caught.value.args[0]["C"] == "22012"
    client.rollback()
    client.close()


# --- sockets --------------------------------------------------------------------------------------
def test_large_result_arrives_whole(server: Server) -> None:
    with connect(server) as client:
        rows = client.execute("SELECT i, i * 0.5, 'name ' || i FROM range(100000) r(i)").fetchall()
        assert len(rows) == 100_000
        assert rows[77_777][2] == "name 77777"


def test_slow_client_stops_only_its_own_stream(server: Server) -> None:
    slow = raw(server)
    slow.sendall(wire.query("SELECT repeat('x', 1000) FROM range(40000)"))
    with connect(server) as other:
        for i in range(20):
            assert other.execute("SELECT %s::INT", (i,)).fetchone() == (i,)
    read_until(slow, "Z")
    replies = read_until(slow, "Z")
    assert wire.types(replies) == "T" + "D" * 40_000 + "CZ"
    slow.close()


def test_slow_client_may_be_cancelled(server: Server, database: FakeDatabase) -> None:
    slow = raw(server)
    key = next(reply for reply in read_until(slow, "Z") if reply.type == "K")
    slow.sendall(wire.query("SELECT repeat('x', 1000) FROM range(100000)"))
    eventually(lambda: database.sessions[-1].log)
    time.sleep(0.2)
    cancel = socket.create_connection(("127.0.0.1", server.port))
    cancel.sendall(struct.pack("!ii", 16, 80877102) + key.body)
    assert cancel.recv(1) == b""
    replies = read_until(slow, "Z")
    assert replies[-2].fields["C"] == "57014"
    assert 0 < len(replies) < 100_000
    slow.close()


def test_cancel_with_a_wrong_secret_does_nothing(server: Server, database: FakeDatabase) -> None:
    client = raw(server)
    key = next(reply for reply in read_until(client, "Z") if reply.type == "K")
    pid, secret = struct.unpack("!iI", key.body)
    client.sendall(wire.query("SLEEP 0.2"))
    database.sessions[-1].running.wait(5)
    with socket.create_connection(("127.0.0.1", server.port)) as cancel:
        cancel.sendall(struct.pack("!iiiI", 16, 80877102, pid, secret ^ 1))
        assert cancel.recv(1) == b""
    assert wire.types(read_until(client, "Z")) == "CZ"
    client.close()


def test_rows_of_a_subscription_come_at_once(server: Server, database: FakeDatabase) -> None:
    client = raw(server)
    read_until(client, "Z")
    client.sendall(wire.query("SUBSCRIBE x"))
    assert wire.types(read_until(client, "D")) == "TD"
    client.close()
    eventually(lambda: database.sessions[-1].closed)


def test_goodbye_ends_a_subscription(server: Server, database: FakeDatabase) -> None:
    client = raw(server)
    read_until(client, "Z")
    client.sendall(wire.query("SUBSCRIBE x"))
    read_until(client, "D")
    client.sendall(wire.TERMINATE)
    eventually(lambda: database.sessions[-1].closed)
    client.close()


def test_client_that_ends_its_input_is_answered_first(
    server: Server, database: FakeDatabase
) -> None:
    client = raw(server)
    client.sendall(wire.query("SLEEP 0.05") + wire.query("SELECT 1"))
    client.shutdown(socket.SHUT_WR)
    assert wire.types(read_until(client, "Z"))[-1] == "Z"
    assert wire.types(read_until(client, "Z")) == "CZ"
    assert wire.types(read_until(client, "Z")) == "TDCZ"
    assert client.ended()
    eventually(lambda: database.sessions[-1].closed)


def test_lost_client_is_rolled_back(server: Server, database: FakeDatabase) -> None:
    client = raw(server)
    read_until(client, "Z")
    client.sendall(wire.query("BEGIN"))
    read_until(client, "Z")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()  # RST
    eventually(lambda: database.sessions[-1].closed)
    assert database.sessions[-1].status == "I"


def test_garbage_ends_the_connection_with_a_fatal_error(server: Server) -> None:
    client = raw(server)
    read_until(client, "Z")
    client.sendall(wire.query("SELECT 1") + b"?\0\0\0\4")
    read_until(client, "Z")
    assert read_until(client, "E")[0].fields["C"] == "08P01"
    assert client.ended()


def test_startup_settings_reach_the_session(server: Server) -> None:
    with connect(server, options="-c timezone=Europe/Paris", application_name="it's") as client:
        assert client.info.parameter_status("TimeZone") == "Europe/Paris"
        assert client.info.parameter_status("application_name") == "it's"


@pytest.mark.parametrize(
    ("options", "code"),
    [({"dbname": "other"}, "3D000"), ({"options": "-c nonsense=1"}, "42704")],
)
def test_startup_errors_are_fatal(server: Server, options: dict[str, str], code: str) -> None:
    client = raw(server, database=options.get("dbname", "me"), options=options.get("options", ""))
    error = read_until(client, "E")[-1].fields
    assert (error["S"], error["C"]) == ("FATAL", code)
    assert client.ended()


def test_one_client_too_many_is_refused(database: FakeDatabase) -> None:
    with Server(database, "127.0.0.1", 0, max_connections=2) as server:
        first, second = connect(server), connect(server)
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            connect(server)
        first.close()
        eventually(lambda: len(server._all()) < 2)
        connect(server).close()
        second.close()


def test_stop_tells_clients_and_ends_what_runs(database: FakeDatabase) -> None:
    server = Server(database, "127.0.0.1", 0).start()
    idle, busy = raw(server), raw(server)
    read_until(idle, "Z")
    read_until(busy, "Z")
    busy.sendall(wire.query("SLEEP 60"))
    eventually(lambda: any(session.running.is_set() for session in database.sessions))
    began = time.monotonic()
    assert server.stop() is True
    assert time.monotonic() - began < 1.5
    for client in (idle, busy):
        assert read_until(client, "E")[-1].fields["C"] in ("57P01", "57014")
    assert all(session.closed for session in database.sessions)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port))
    server.stop()  # twice is fine


def test_port_in_use_and_open_addresses_are_refused_clearly(
    server: Server, database: FakeDatabase
) -> None:
    with pytest.raises(CannotListen, match=f"could not listen on 127.0.0.1:{server.port}"):
        Server(database, "127.0.0.1", server.port).start()
    for host in ("0.0.0.0", "::"):
        with pytest.raises(CannotListen, match="no authentication is configured"):
            Server(database, host, 0).start()


def test_many_small_statements_from_many_clients(server: Server) -> None:
    def talk(number: int) -> None:
        with connect(server) as client:
            for i in range(30):
                assert client.execute("SELECT %s::INT", (number * 1000 + i,)).fetchone() == (
                    number * 1000 + i,
                )
        done.append(number)

    done: list[int] = []
    threads = [threading.Thread(target=talk, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(12))


# --- TLS ------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    import trustme

    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    for blob in issued.cert_chain_pems:
        blob.write_to_path(folder / "cert.pem", append=True)
    return str(folder / "ca.pem"), str(folder / "cert.pem"), str(folder / "key.pem")


def test_tls_by_request_and_direct(
    database: FakeDatabase, certificates: tuple[str, str, str]
) -> None:
    authority, certificate, key = certificates
    context = server_context(certificate, key)
    with Server(database, "127.0.0.1", 0, tls_context=context) as server:
        with connect(server, sslmode="verify-full", sslrootcert=authority) as client:
            assert client.pgconn.ssl_in_use
            rows = client.execute("SELECT i FROM range(50000) r(i)").fetchall()
            assert len(rows) == 50_000
        client_context = ssl.create_default_context(cafile=authority)
        client_context.set_alpn_protocols(["postgresql"])
        with client_context.wrap_socket(
            socket.create_connection(("127.0.0.1", server.port)), server_hostname="127.0.0.1"
        ) as tls_socket:
            direct = Raw(tls_socket)
            assert direct.selected_alpn_protocol() == "postgresql"
            direct.sendall(wire.startup(user="me"))
            assert read_until(direct, "Z")[0].type == "R"
        with connect(server, sslmode="disable") as plain:
            assert plain.execute("SELECT 1").fetchone() == (1,)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as nonsense:
            nonsense.sendall(b"\x16\x03\x01\x00\x05nope!")
            while nonsense.recv(100):
                pass  # an alert, then the end


def test_without_tls_a_request_is_answered_no(server: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not support SSL"):
        connect(server, sslmode="require")
