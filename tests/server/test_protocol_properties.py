"""Whatever a client sends, in whatever pieces: the protocol's promises hold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from streamsql_server.conversation.conversation import Conversation
from streamsql_server.protocol.connection import FatalProtocolError, ProtocolConnection

from tests.server import wire
from tests.server.fake import FakeDatabase
from tests.server.wire import FLUSH, SYNC, bind, close, describe, execute, message, parse, query

DATABASE = FakeDatabase()

names = st.sampled_from(["", "s", "t"])
statements = st.sampled_from(
    ["SELECT 1", "SELECT $1::INT", "SERIES 70", "FAIL x", "NOTICE n", "BEGIN", "COMMIT", "ROLLBACK",
     "SELECT 1; SELECT 2", "SELECT 1; FAIL x; SELECT 2", "", "BEGIN; SELECT 1", "'", "SET a = 1",
     "COPY (SELECT 1) TO STDOUT", "DEALLOCATE ALL", "SELECT 1; COMMIT; SELECT 2"]
)  # fmt: skip
codes = st.lists(st.integers(0, 2), max_size=2).map(tuple)
values = st.lists(st.sampled_from([None, b"1", b"\0\0\0\1", b"\xff"]), max_size=2)
messages = st.one_of(
    st.builds(query, statements),
    st.builds(parse, statements, names),
    st.builds(
        lambda v, p, s, f, r: bind(v, portal=p, statement=s, formats=f, results=r),
        values, names, names, codes, codes,
    ),
    st.builds(describe, st.sampled_from("SP"), names),
    st.builds(execute, names, st.integers(0, 60)),
    st.builds(close, st.sampled_from("SP"), names),
    st.sampled_from([SYNC, FLUSH, message("c"), message("d", b"x"), message("f", b"no\0")]),
    st.sampled_from([message("B", b"\0"), message("D", b"Z\0"), message("F", b""), message("Q", b"x")]),
)  # fmt: skip


class Sink:
    """An output that counts what was flushed."""

    def __init__(self) -> None:
        self.buffer, self.sent = b"", b""

    def send(self, data: bytes | memoryview) -> None:
        self.buffer += bytes(data)

    def flush(self) -> None:
        self.sent += self.buffer
        self.buffer = b""

    def wait_writable(self) -> None:
        return


def play(pieces: list[bytes]) -> tuple[list[wire.Reply], Conversation]:
    protocol, sink = ProtocolConnection(), Sink()
    conversation = Conversation(DATABASE.session(), protocol, sink)
    conversation.greet(b"")
    sink.sent = b""
    for piece in pieces:
        protocol.receive(piece)
        while (event := protocol.next_event()) is not None:
            conversation.handle(event)
    sink.flush()
    return wire.split(sink.sent), conversation


@settings(max_examples=150, deadline=None)
@given(st.lists(messages, max_size=14))
def test_every_unit_ends_with_one_ready_and_has_at_most_one_error(sent: list[bytes]) -> None:
    replies, conversation = play([*sent, SYNC])
    units = "".join(reply.type for reply in replies).split("Z")
    syncs = 1 + sum(data[:1] == b"S" for data in sent)
    queries = sum(data[:1] in (b"Q", b"F") for data in sent)
    assert units.pop() == ""
    # an error of the extended protocol may have simple queries skipped, but never a Sync
    assert syncs <= len(units) <= syncs + queries
    for unit in units:
        assert unit.count("E") <= 1
        if "E" in unit:  # only changed parameters may stand between an error and ready
            assert unit.partition("E")[2].strip("S") == ""
    if "E" not in "".join(units):
        assert len(units) == syncs + queries
    assert replies[-1].body == conversation.session.transaction_status.encode()
    conversation.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(messages, max_size=10), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_how_bytes_are_cut_changes_nothing(sent: list[bytes], cuts: list[int]) -> None:
    data = b"".join([*sent, SYNC])
    pieces, at = [], 0
    while at < len(data):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(data[at : at + size])
        at += size
    whole, first = play([data])
    cut, second = play(pieces)
    first.close()
    second.close()
    assert [r.type for r in whole if r.type != "S"] == [r.type for r in cut if r.type != "S"]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_end_in_events_or_one_fatal_error(data: bytes) -> None:
    protocol = ProtocolConnection()
    protocol.receive(data)
    try:
        while protocol.next_event() is not None:
            pass
    except FatalProtocolError:
        assert protocol.has_work  # and it stays so: the stream is over
    protocol.receive(data)
